"""What the caching allocator holds in the forward pass, the backward pass and the optimizer of one step."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import torch
from torch.distributed.tensor import DTensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

__all__ = ["MemoryPhases", "shards_of", "state_bytes"]

_MOST_ENTRIES = 1 << 22
_NAMES = ("forward", "backward", "optimizer")


class MemoryPhases:
    """Watches one step, from its construction to rows().

    PyTorch writes down each allocation of the step. A phase begins at a number of them: the backward
    pass where autograd's engine is first entered, the next forward pass where it is left.
    """

    def __init__(self) -> None:
        self._held = torch.cuda.memory_allocated()
        self._counted = self._count()
        self._begins: List[Tuple[int, str]] = [(0, "forward")]
        self._depth = 0
        self._engine = torch.autograd._engine_run_backward   # type: ignore[attr-defined]
        torch.autograd._engine_run_backward = self._backward   # type: ignore[attr-defined]
        self._hook = register_optimizer_step_pre_hook(lambda *_: self._begin("optimizer"))
        torch.cuda.memory._record_memory_history(context=None, max_entries=_MOST_ENTRIES)

    @staticmethod
    def _count() -> int:
        return int(torch.cuda.memory_stats().get("allocation.all.allocated", 0))

    def _begin(self, phase: str) -> None:
        self._begins.append((self._count() - self._counted, phase))

    def _backward(self, *arguments: Any, **more: Any) -> Any:
        if self._depth == 0:
            self._begin("backward")
        self._depth += 1
        try:
            return self._engine(*arguments, **more)
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._begin("forward")

    def rows(self) -> List[Dict[str, Any]]:
        """The phases, each with the most that was allocated in it and what it left that the step had not held.

        Bytes are those that tensors asked for. Stops watching.
        """
        device = torch.cuda.current_device()
        entries = torch.cuda.memory._snapshot(device)["device_traces"][device]
        torch.cuda.memory._record_memory_history(enabled=None)
        torch.autograd._engine_run_backward = self._engine   # type: ignore[attr-defined]
        self._hook.remove()
        rows = {name: {"phase": name, "peak_allocated_bytes": 0, "kept_bytes": 0} for name in _NAMES}
        for name, peak, kept in _spans(entries, self._begins, self._held):
            row = rows[name]
            row["peak_allocated_bytes"] = max(row["peak_allocated_bytes"], peak)
            row["kept_bytes"] = max(row["kept_bytes"], kept)
        return list(rows.values())


def _spans(entries: List[Dict[str, Any]], begins: List[Tuple[int, str]], held: int) -> List[Tuple[str, int, int]]:
    """The name of each span, the most that was allocated in it, and what it allocated that its end still has."""
    spans, place, allocations = [], 0, 0
    peak, live = held, {}   # type: int, Dict[int, int]
    for entry in entries:
        if entry["action"] == "alloc":
            while place + 1 < len(begins) and allocations >= begins[place + 1][0]:
                spans.append((begins[place][1], peak, sum(live.values())))
                place, peak, live = place + 1, held, {}
            allocations += 1
            held += entry["size"]
            live[entry["addr"]] = entry["size"]
            peak = max(peak, held)
        elif entry["action"] == "free_requested":
            held -= entry["size"]
            live.pop(entry["addr"], None)
    spans.append((begins[place][1], peak, sum(live.values())))
    return spans + [(name, held, 0) for _, name in begins[place + 1:]]


def state_bytes(optimizers: List[Any], shards: int) -> int:
    """Bytes of the trained parameters and their optimizer's states: what a checkpoint of the model holds.

    A DTensor knows how large it is on all ranks. Where there are none, each of `shards` ranks has a part like this one's.
    """
    found: Dict[int, int] = {}
    for optimizer in optimizers:
        states = [state for state in optimizer.state.values() if isinstance(state, dict)]
        for each in [each for group in optimizer.param_groups for each in group["params"]] + \
                [each for state in states for each in state.values() if isinstance(each, torch.Tensor)]:
            found[id(each)] = each.numel() * each.element_size() * (1 if isinstance(each, DTensor) else shards)
    return sum(found.values())


def shards_of(events: List[Dict[str, Any]], groups: List[List[int]]) -> int:
    """How many ranks gradients are scattered to."""
    return max((len(groups[each["group"]]) for each in events if each.get("name") == "reduce-scatter"), default=1)
