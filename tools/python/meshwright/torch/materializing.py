"""Modules whose parameters are made late: no process ever holds the whole model but rank 0, a module at a time."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, Optional

import torch

__all__ = ["Materialized", "delay_param_initialization"]


@contextlib.contextmanager
def delay_param_initialization(enabled: bool = True) -> Iterator[None]:
    """Modules that are made inside have no memory until the first step.

    Then rank 0 makes the values of one module at a time, by its `reset_parameters`, or by the `_init_weights` of a
    transformers model, and hands each rank its part.
    """
    if not enabled:
        yield
        return
    with torch.device("meta"):
        yield


class Materialized:
    """The values of a module's parameters and buffers, also of those that have no memory yet."""

    def __init__(self, parts: torch.nn.ModuleDict) -> None:
        self._owners: Dict[int, torch.nn.Module] = {}
        self._initialize: Optional[Any] = None
        self._made: Dict[int, torch.Tensor] = {}
        for part in parts.values():
            if hasattr(part, "_init_weights"):
                self._initialize = part._init_weights
            for module in part.modules():
                for tensor in list(module._parameters.values()) + list(module._buffers.values()):
                    if tensor is not None:
                        self._owners.setdefault(id(tensor), module)

    def values(self, tensor: torch.Tensor, number: int = -1) -> torch.Tensor:
        """The values of a parameter, or of a buffer."""
        if not tensor.is_meta:
            return tensor.detach()
        if id(tensor) not in self._made:
            self._make(self._owners[id(tensor)])
        return self._made.pop(id(tensor))

    def _make(self, module: torch.nn.Module) -> None:
        hollow = dict(module._parameters), dict(module._buffers)
        try:
            for kept, make in ((module._parameters, torch.nn.Parameter), (module._buffers, None)):
                for name, tensor in kept.items():
                    if tensor is not None and tensor.is_meta:
                        fresh = torch.zeros_like(tensor, device="cpu")
                        kept[name] = make(fresh, tensor.requires_grad) if make else fresh
            with torch.no_grad():
                if self._initialize is not None:
                    self._initialize(module)
                elif hasattr(module, "reset_parameters"):
                    module.reset_parameters()
                else:
                    raise RuntimeError("delay_param_initialization: {} has parameters of its own and no "
                                       "reset_parameters() to make their values; give it one".format(
                                           type(module).__name__))
            for kept, before in ((module._parameters, hollow[0]), (module._buffers, hollow[1])):
                for name, tensor in before.items():
                    if tensor is not None and tensor.is_meta:
                        self._made[id(tensor)] = kept[name].detach()
        finally:
            for name, tensor in hollow[0].items():
                module._parameters[name] = tensor
            for name, tensor in hollow[1].items():
                module._buffers[name] = tensor
