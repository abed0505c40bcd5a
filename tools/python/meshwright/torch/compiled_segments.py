"""Segments that torch.compile has made kernels of: training.compiler `fused` or `full` of a script of one's own.

Each segment is a function of the tensors that it takes. Equal segments, as those of equal layers, share one. A
segment runs eagerly where data decide its shapes, where it writes buffers, or where parts of it run under different
contexts.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch

from .exporting import Context, Ref
from .replay import values_in
from .tables import SegmentTable

__all__ = ["CompiledSegments"]

_aten = torch.ops.aten
# A copy that autograd does not see needs no operation of its own inside a function.
_PLAIN = {_aten.lift_fresh_copy.default: _aten.clone.default, _aten.detach_.default: _aten.detach.default}


class _Compiled(NamedTuple):
    run: Callable[..., Any]
    context: Context
    takes: Tuple[int, ...]    # values in the order of the function's arguments
    gives: Tuple[int, ...]


class CompiledSegments:
    def __init__(self, device: str) -> None:
        import torch._inductor.config
        torch._inductor.config.fallback_random = True   # the numbers that eager PyTorch draws
        self._device = device
        self._functions: Dict[str, Callable[..., Any]] = {}
        self._segments: Dict[int, Optional[_Compiled]] = {}
        self.eager: Dict[str, int] = {}    # why segments run eagerly -> how many

    @property
    def functions(self) -> int:
        """The number of different functions."""
        return len(self._functions)

    def run(self, segment: SegmentTable, environment: Dict[int, Any],
            context_of: Callable[[Context, str], Any]) -> bool:
        """Runs a segment, and puts what it makes into the environment; returns false if it has to run eagerly."""
        if segment.number not in self._segments:
            self._segments[segment.number] = self._made(segment, environment)
        known = self._segments[segment.number]
        if known is None:
            return False
        with context_of(known.context, self._device):
            found = known.run(*(environment[value] for value in known.takes))
        environment.update(zip(known.gives, found))
        return True

    @property
    def seconds(self) -> float:
        """What PyTorch's compiler has taken in this process so far, forward and backward."""
        from torch._dynamo.utils import calculate_time_spent
        return float(calculate_time_spent().get("total_wall_time", 0.0))

    def _made(self, segment: SegmentTable, environment: Dict[int, Any]) -> Optional[_Compiled]:
        calls = [step.call for step in segment.steps]
        contexts = {call.context for call in calls if call.target not in _PLAIN}
        reason = ("data decide shapes" if any(call.decides for call in calls) else
                  "it writes buffers" if segment.buffers and any(_writes(call) for call in calls) else
                  "parts of it run under different contexts" if len(contexts) > 1 else
                  "" if calls else "it runs nothing")
        if reason:
            self.eager[reason] = self.eager.get(reason, 0) + 1
            return None
        made = {call.result for call in calls}
        dropped = {value for step in segment.steps for value in step.unused}
        takes = tuple(dict.fromkeys(value for call in calls for value in values_in((call.args, call.kwargs))
                                    if value not in made))
        gives = tuple(call.result for call in calls if call.result not in dropped)
        graph, text = self._graph(calls, takes, gives)
        text += "".join(_described(environment[value]) for value in takes)
        if text not in self._functions:
            module = torch.fx.GraphModule(torch.nn.Module(), graph)
            self._functions[text] = torch.compile(module, dynamic=False, fullgraph=True)
        return _Compiled(self._functions[text], contexts.pop() if contexts else Context(), takes, gives)

    def _graph(self, calls: List[Any], takes: Tuple[int, ...], gives: Tuple[int, ...]) -> Tuple[torch.fx.Graph, str]:
        graph = torch.fx.Graph()
        nodes = {value: graph.placeholder("take_{}".format(place)) for place, value in enumerate(takes)}

        def filled(value: Any) -> Any:
            if isinstance(value, Ref):
                return nodes[value.value]
            if isinstance(value, torch.device):
                return torch.device(self._device)
            if isinstance(value, (list, tuple)):
                return [filled(each) for each in value]
            if isinstance(value, slice):
                return slice(filled(value.start), filled(value.stop), filled(value.step))
            if isinstance(value, dict):
                return {name: filled(each) for name, each in value.items()}
            return value

        for call in calls:
            nodes[call.result] = graph.call_function(_PLAIN.get(call.target, call.target), tuple(filled(call.args)),
                                                     filled(call.kwargs))
        graph.output(tuple(nodes[value] for value in gives))
        return graph, "\n".join(str((node.target, node.args, node.kwargs)) for node in graph.nodes)


def _writes(call: Any) -> bool:
    return bool(getattr(getattr(call.target, "_schema", None), "is_mutable", False))


def _described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "\n{} {} {} {}".format(tuple(value.shape), value.stride(), value.dtype, value.requires_grad)
    return "\n{!r}".format(value)


