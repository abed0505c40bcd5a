"""The whole model on every rank, as an evaluation needs it: between steps a rank holds its part only."""

from __future__ import annotations

from typing import Any, Dict

import torch

from .segment_runner import exact_type, handed_values

__all__ = ["fetch_whole"]


def fetch_whole(model: Any, runtime: Any) -> None:
    """Gives each rank's module all values of the latest step of a DistributedModel. Every rank calls it.

    A parameter that this rank holds whole stays a view of the run's memory. Raises RuntimeError for a module without
    memory of its own.
    """
    if any(parameter.is_meta for parameter in model._parameters):
        raise RuntimeError("DistributedModel: a module made under delay_param_initialization has no memory to evaluate "
                           "in; every rank calls model.state_dict(), and rank 0 loads it into a module made as usual")
    storage = model._runner.storage
    exact = exact_type(storage)
    gathered: Dict[str, torch.Tensor] = {}

    def take(name: str, address: int, count: int) -> None:
        gathered[name] = handed_values(runtime, address, count, storage)

    runtime.gather(take)   # rank 0 gets all parts
    own = {each["name"]: each["address"] for each in model.info["parameters"]}
    for entry, parameter in zip(model.captured.document["parameters"], model._parameters):
        shape = model.shape_of(entry["name"])
        values = gathered.get(entry["name"])
        if values is None:   # another rank's, or one that no step uses
            used = parameter.numel() == shape.numel()
            values = (parameter.detach().to("cpu", exact).contiguous() if used else
                      torch.empty(shape, dtype=exact))
        runtime.broadcast(values.data_ptr(), values.nbytes, 0)
        if not own.get(entry["name"]) or parameter.dtype != storage or parameter.shape != shape:
            parameter.data = values.view(shape).to(model._runner.device, parameter.dtype)
    model._share_buffers()
