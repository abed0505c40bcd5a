"""Running out of memory: in which phase, in which module, and who holds most of what is allocated.

Nothing is kept while a script runs. When PyTorch's allocator finds no room, the stack, the graph of autograd and the
optimizers of that moment say it.
"""

from __future__ import annotations

import gc
import os
import re
import threading
from collections import Counter
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

import torch

from .notes import script_line

__all__ = ["message", "watch"]

_found: Dict[str, str] = {}   # of the last out-of-memory error: phase, module, owners


def watch() -> None:
    """Looks around whenever the allocator finds no room."""
    torch._C._cuda_attach_out_of_memory_observer(_look_around)


def _look_around(_device: int, _asked: int, _total: int, _free: int) -> None:
    try:
        models = _Models()
        phase, module = _where(models)
        _found.update(phase=phase, module=module, owners=", ".join(
            "{} {:.2f} GiB".format(name, size / 2**30) for name, size in _owners(models).most_common(3)))
    except Exception as error:   # what is looked at is another library's; the script's error counts
        _found.update(phase="", module="", owners=repr(error))


def message(error: BaseException) -> str:
    """What a rehearsal says when the script does not go on after `error`."""
    asked = re.search(r"Tried to allocate ([^.]*\.?\d* \w+)", str(error))
    text = "the script does not fit: out of memory"
    if _found.get("phase"):
        text += " in " + _found["phase"]
    if _found.get("module"):
        text += ", in module " + _found["module"]
    if asked is not None:
        text += ", for {} more".format(asked.group(1))
    if _found.get("owners"):
        text += "; most is held by {}".format(_found["owners"])
    setting = os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or os.environ.get("PYTORCH_ALLOC_CONF")
    return text + "; PYTORCH_CUDA_ALLOC_CONF is {}".format(setting or "not set")


class _Models:
    """Modules and optimizers that are there, and names of parameters."""

    def __init__(self) -> None:
        self.optimizers: List[torch.optim.Optimizer] = []
        modules: List[torch.nn.Module] = []
        self.graphs: List[torch.Tensor] = []
        for each in gc.get_objects():
            kind = type(each)
            if issubclass(kind, torch.nn.Module):
                modules.append(each)
            elif issubclass(kind, torch.optim.Optimizer):
                self.optimizers.append(each)
            elif issubclass(kind, torch.Tensor) and each.grad_fn is not None:
                self.graphs.append(each)
        inner = {id(child) for each in modules for child in each.children()}
        self.module_names: Dict[int, str] = {}
        self.parameter_names: Dict[int, str] = {}
        self.parameters: Dict[int, torch.Tensor] = {}
        for root in modules:
            if id(root) in inner:
                continue
            for name, module in root.named_modules():
                self.module_names[id(module)] = _plain(name) or type(root).__name__
            for name, parameter in root.named_parameters():
                self.parameter_names[id(parameter)] = _plain(name)
                self.parameters[id(parameter)] = parameter


def _plain(name: str) -> str:
    """A module's name without those that wrappers have put in between."""
    return re.sub(r"(^|\.)(module|_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)(?=\.|$)", "", name).lstrip(".")


def _frames() -> Iterator[Any]:
    """The stack of the script's main thread, innermost first; backward runs in a thread of its own."""
    import sys
    for thread in (threading.get_ident(), threading.main_thread().ident):
        frame = sys._current_frames().get(thread or 0)
        while frame is not None:
            yield frame
            frame = frame.f_back


def _where(models: _Models) -> Tuple[str, str]:
    phase, module = "", ""
    for frame in _frames():
        name, own = frame.f_code.co_name, frame.f_locals.get("self")
        if not module and isinstance(own, torch.nn.Module) and name != "__init__" and id(own) in models.module_names:
            module = models.module_names[id(own)]
            if name in ("forward", "_call_impl") or "forward" in name:
                phase = phase or "forward"
        if isinstance(own, torch.optim.Optimizer) and not phase:
            phase = "the optimizer's step"
        if name in ("_engine_run_backward", "backward") and "autograd" in frame.f_code.co_filename:
            node = torch._C._current_autograd_node()
            return "backward", module or (_module_of(node, models) if node is not None else "")
    if not phase:
        phase = "loading" if not any(each.state for each in models.optimizers) and not models.graphs else "the step"
        place = script_line()
        return phase + (" ({})".format(place) if place else ""), module
    return phase, module


def _module_of(node: Any, models: _Models) -> str:
    """The module of the parameter that is next to a node of autograd's graph: of those that enter it, or their inputs."""
    seen: Set[Any] = set()
    level = [node]
    for _ in range(6):
        following = []
        for each in level:
            variable = getattr(each, "variable", None)
            if variable is not None and id(variable) in models.parameter_names:
                return models.parameter_names[id(variable)].rpartition(".")[0]
            following += [before for before, _ in getattr(each, "next_functions", ()) if before is not None]
        level = [each for each in following if not (each in seen or seen.add(each))]   # type: ignore[func-returns-value]
    return ""


def _bytes(tensor: Any, counted: Set[int]) -> int:
    if not isinstance(tensor, torch.Tensor):
        return 0
    if hasattr(tensor, "__tensor_flatten__"):   # shards, and weights that are quantized when they are gathered
        return sum(_bytes(getattr(tensor, name), counted) for name in tensor.__tensor_flatten__()[0])
    if tensor.device.type != "cuda":
        return 0
    storage = tensor.untyped_storage()
    try:
        address = storage.data_ptr()
    except RuntimeError:   # a tensor without memory, as compilers trace with
        return 0
    if address in counted:
        return 0
    counted.add(address)
    return storage.nbytes()


def _owners(models: _Models) -> "Counter[str]":
    found: Counter[str] = Counter()
    counted: Set[int] = set()
    for parameter in models.parameters.values():
        found["parameters"] += _bytes(parameter.data, counted)
    for parameter in models.parameters.values():
        found["gradients"] += _bytes(parameter.grad, counted)
    for optimizer in models.optimizers:
        for state in optimizer.state.values():
            for value in state.values() if isinstance(state, dict) else ():
                found["optimizer states"] += _bytes(value, counted)
    for name, size in _activations(models, counted):
        found["activations of " + name if name else "activations"] += size
    rest = torch.cuda.memory_allocated() - sum(found.values())
    found["what is in no module or graph"] = max(0, rest)
    return +found


def _activations(models: _Models, counted: Set[int]) -> Iterator[Tuple[str, int]]:
    """What the graph of autograd has saved, by module; alike layers count as one: layers.*.mlp."""
    seen: Set[Any] = set()
    waiting = [each.grad_fn for each in models.graphs]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting += [before for before, _ in node.next_functions]
        size = sum(_bytes(each, counted) for each in _saved(node))
        if size:
            yield re.sub(r"\d+", "*", _module_of(node, models)), size


def _saved(node: Any) -> List[Any]:
    found: List[Any] = []
    for name in dir(node):
        if name.startswith("_saved_") or name == "saved_tensors":
            try:
                value = getattr(node, name)
            except RuntimeError:   # freed
                continue
            found += value if isinstance(value, (list, tuple)) else [value]
    return found
