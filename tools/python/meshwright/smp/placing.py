"""Where modules go and what is recomputed, as a script says it."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

import torch
from torch.nn.modules.module import register_module_module_registration_hook

from .refusals import Refused
from .world import here

__all__ = ["checkpoint", "checkpoint_sequential", "delay_param_initialization", "model_creation", "partition",
           "set_activation_checkpointing", "set_partition", "set_tensor_parallelism", "tensor_parallelism",
           "tp_register", "tp_register_with_module"]


def _stage(number: int) -> int:
    if not 0 <= number < here().pipeline:
        raise ValueError("smp.partition: {}: stages are 0 to {}".format(number, here().pipeline - 1))
    return number


@contextlib.contextmanager
def partition(num: int) -> Iterator[None]:
    """Modules that are made in it go to a stage, if `auto_partition` is false. The innermost one counts."""
    stages, stage = here().stages, _stage(num)

    def assign(parent: torch.nn.Module, name: str, module: Any) -> None:
        if module is not None:
            stages.setdefault(id(module), (module, stage))

    handle = register_module_module_registration_hook(assign)
    try:
        yield
    finally:
        handle.remove()


def set_partition(module: torch.nn.Module, i: int) -> None:
    """Puts a module, and what it holds, on a stage, if `auto_partition` is false."""
    stages = here().stages
    for each in module.modules():
        stages.pop(id(each), None)
    stages[id(module)] = (module, _stage(i))


def get_partition(module: torch.nn.Module) -> Any:
    """The stage of a module: after the first training step where it runs, before it where it was put, or None."""
    world, found = here(), here().stages.get(id(module))
    model = world.model
    if model is None or not model.partitioned:
        return found[1] if found else None
    name = next((name for name, each in model.module.named_modules() if each is module), None)
    if name is None:
        return None
    runner, segments = model._run._runner, model._run.captured.document["segments"]
    own = [number for number, each in enumerate(segments)
           if each["module"] == name or not name or each["module"].startswith(name + ".")]
    return runner.stage_of[own[0]][0] if own else None


@contextlib.contextmanager
def tensor_parallelism(enabled: bool = True, **options: Any) -> Iterator[None]:
    """Modules that are made in it would be divided over tensor ranks, of which there is 1: they stay as they are."""
    here()
    yield


def set_tensor_parallelism(module: torch.nn.Module, enabled: bool = True, **options: Any) -> None:
    """A module would be divided over tensor ranks, of which there is 1: it stays as it is."""
    here()


def tp_register(dist_module: Any, init_hook: Any = None, forward_hook: Any = None,
                return_hook: Any = None) -> Callable[[Any], Any]:
    """Decorates a class that has a divided form. With 1 tensor rank it is not used."""
    return lambda module_class: module_class


def tp_register_with_module(module_cls: Any, dist_module: Any, init_hook: Any = None, forward_hook: Any = None,
                            return_hook: Any = None) -> None:
    """A class that has a divided form. With 1 tensor rank it is not used."""


@contextlib.contextmanager
def delay_param_initialization(enabled: bool = True) -> Iterator[None]:
    """Parameters that are made in it are made at once, with their values, in the host's memory."""
    here()
    yield


@contextlib.contextmanager
def model_creation(tensor_parallelism: bool = False, dtype: Any = None, **options: Any) -> Iterator[None]:
    """The type of the parameters that are made in it; its other options are those of tensor_parallelism."""
    here()
    before = torch.get_default_dtype()
    try:
        if dtype is not None:
            torch.set_default_dtype(dtype)
        yield
    finally:
        torch.set_default_dtype(before)


def set_activation_checkpointing(module: torch.nn.Module, preserve_rng_state: bool = True,
                                 pack_args_as_tuple: bool = False, strategy: str = "each") -> None:
    """The plan recomputes activations: those of all its units, which a stage may begin with, not of the module alone."""
    if strategy not in ("each", "contiguous") and not strategy.startswith("group_"):
        raise ValueError("smp.set_activation_checkpointing: strategy {!r}: use each, contiguous or group_N".format(
            strategy))
    here().checkpointed.append(module)


def checkpoint(module: torch.nn.Module, *args: Any, preserve_rng_state: bool = True, **kwargs: Any) -> Any:
    """Calls a module in a forward; the plan recomputes activations, as set_activation_checkpointing says."""
    here().checkpointed.append(module)
    return module(*args, **kwargs)


def checkpoint_sequential(sequential_module: torch.nn.Sequential, input: Any, strategy: str = "each",
                          preserve_rng_state: bool = True, pack_args_as_tuple: bool = False) -> Any:
    """Calls a Sequential in a forward; the plan recomputes activations, as set_activation_checkpointing says."""
    if not isinstance(sequential_module, torch.nn.Sequential):
        raise Refused("smp.checkpoint_sequential: a {} is no Sequential; use smp.checkpoint".format(
            type(sequential_module).__name__))
    set_activation_checkpointing(sequential_module, strategy=strategy)
    return sequential_module(input)


__all__ += ["get_partition"]
