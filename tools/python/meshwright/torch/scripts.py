"""Runs a user's file on one process: what it wraps for a parallel library stays as it was.

`alone()` replaces the wrappers of PyTorch (DistributedDataParallel, FullyShardedDataParallel,
fully_shard, DataParallel) by ones that return the module, and answers for a group of one process, in
the environment too. If Horovod is not installed, a stand-in for what scripts ask of it is. On a
computer without a GPU, what a script puts on one stays on the CPU.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import types
from typing import Any, Callable, Iterator, List, Tuple

import torch
import torch.distributed
from torch.overrides import TorchFunctionMode

__all__ = ["alone"]


class _Unwrapped:
    """Stands for a class of wrappers; to call it gives the module back."""

    def __new__(cls, module: Any, *_: Any, **__: Any) -> Any:
        return module


def _same(module: Any = None, *_: Any, **__: Any) -> Any:
    return module


def _does_nothing() -> Callable[..., None]:
    """A new function each time: PyTorch's compiler wants one name for each."""
    return lambda *_, **__: None


def _nothing(*_: Any, **__: Any) -> None:
    return None


_WRAPPERS: Tuple[Tuple[str, str, Any], ...] = (
    ("torch.nn.parallel", "DistributedDataParallel", _Unwrapped),
    ("torch.nn.parallel.distributed", "DistributedDataParallel", _Unwrapped),
    ("torch.nn.parallel", "DataParallel", _Unwrapped),
    ("torch.nn", "DataParallel", _Unwrapped),
    ("torch.distributed.fsdp", "FullyShardedDataParallel", _Unwrapped),
    ("torch.distributed.fsdp.fully_sharded_data_parallel", "FullyShardedDataParallel", _Unwrapped),
    ("torch.distributed.fsdp", "fully_shard", _same),
    ("torch.distributed._composable.fsdp", "fully_shard", _same),
)
_GROUP: Tuple[Tuple[str, Any], ...] = (
    ("init_process_group", _does_nothing()), ("destroy_process_group", _does_nothing()), ("barrier", _does_nothing()),
    ("get_rank", lambda *_, **__: 0), ("get_world_size", lambda *_, **__: 1), ("is_initialized", lambda: True),
    ("init_device_mesh", _does_nothing()),
)
_ENVIRONMENT = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1",
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}   # what torchrun sets
_CUDA: Tuple[Tuple[str, Any], ...] = (
    ("set_device", _does_nothing()), ("synchronize", _does_nothing()), ("current_device", lambda: 0))


class _WithoutGpu(TorchFunctionMode):
    """Leaves on the CPU what code puts on a GPU."""

    def __torch_function__(self, func: Any, types_: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.cuda:
            return args[0]
        is_move = func is torch.Tensor.to
        return func(*(self._here(value, is_move and place == 1) for place, value in enumerate(args)),
                    **{name: self._here(value, name == "device") for name, value in (kwargs or {}).items()})

    @staticmethod
    def _here(value: Any, is_device: bool) -> Any:
        if isinstance(value, torch.device):
            is_gpu = value.type == "cuda"
        else:
            is_gpu = isinstance(value, str) and value.startswith("cuda") or is_device and isinstance(value, int)
        return torch.device("cpu") if is_gpu else value


def _horovod() -> List[Tuple[str, types.ModuleType]]:
    package, module = types.ModuleType("horovod"), types.ModuleType("horovod.torch")
    answers: dict = {"init": _nothing, "shutdown": _nothing, "broadcast_parameters": _nothing,
                     "broadcast_optimizer_state": _nothing, "DistributedOptimizer": _same,
                     "Compression": types.SimpleNamespace(none=None, fp16=None)}
    answers.update({name: (lambda: 0) for name in ("rank", "local_rank", "cross_rank")})
    answers.update({name: (lambda: 1) for name in ("size", "local_size", "cross_size")})
    for name, answer in answers.items():
        setattr(module, name, answer)
    package.torch = module  # type: ignore[attr-defined]
    return [("horovod", package), ("horovod.torch", module)]


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """While it lasts, code that is imported or run is that of one process without wrappers."""
    with contextlib.ExitStack() as stack:
        def replace(place: Any, name: str, by: Callable[..., Any]) -> None:
            if hasattr(place, name):
                stack.callback(setattr, place, name, getattr(place, name))
                setattr(place, name, by)

        for path, name, by in _WRAPPERS:
            with contextlib.suppress(ImportError):
                replace(importlib.import_module(path), name, by)
        for name, by in _GROUP:
            replace(torch.distributed, name, by)
        for name, value in _ENVIRONMENT.items():
            if name not in os.environ:
                os.environ[name] = value
                stack.callback(os.environ.pop, name, None)
        if not torch.cuda.is_available():
            for name, by in _CUDA:
                replace(torch.cuda, name, by)
            stack.enter_context(_WithoutGpu())
        try:
            importlib.import_module("horovod.torch")
        except ImportError:
            for name, module in _horovod():
                sys.modules[name] = module
                stack.callback(sys.modules.pop, name, None)
        yield
