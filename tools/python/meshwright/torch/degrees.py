"""The degrees that a job says, as far as a script needs them before the plan is settled."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Tuple

__all__ = ["place_of", "ranks_of_a_replica", "tensor_degrees"]


def _degree(parallelism: Any, name: str) -> Any:
    return parallelism.get(name, 1) if isinstance(parallelism, Mapping) else "auto"


def ranks_of_a_replica(parallelism: Any) -> Optional[int]:
    """pipeline x tensor, or None where the planner chooses one of them."""
    pipeline, tensor = _degree(parallelism, "pipeline"), _degree(parallelism, "tensor")
    return pipeline * tensor if isinstance(pipeline, int) and isinstance(tensor, int) else None


def tensor_degrees(parallelism: Any, ranks: Optional[int]) -> List[int]:
    """The tensor degrees above 1 that a plan may have: that of the job, or all of 2, 4 and 8 that divide the ranks."""
    tensor = _degree(parallelism, "tensor")
    if isinstance(tensor, int):
        return [tensor] if tensor > 1 else []
    return [each for each in (2, 4, 8) if ranks is None or ranks % each == 0]


def place_of(rank: int, data: int, ranks: int, parallelism: Any) -> Tuple[int, int]:
    """(stage, replica) of a rank by the job's placement, whose letters name the axes from the outermost one."""
    placement = parallelism.get("placement", "PDT") if isinstance(parallelism, Mapping) else "PDT"
    order = {"cluster": "DPT", "spread": "TPD"}.get(placement, placement)
    tensor = _degree(parallelism, "tensor")
    tensor = tensor if isinstance(tensor, int) else 1
    sizes = {"P": max(1, ranks // (data * tensor)), "D": data, "T": tensor}
    found = {}
    for axis in reversed(order):
        if axis in sizes:
            rank, found[axis] = divmod(rank, sizes[axis])
    return found["P"], found["D"]
