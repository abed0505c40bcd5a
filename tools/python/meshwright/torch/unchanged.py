"""Scripts that know nothing of meshwright, under `meshwright launch`: transformers' Trainer runs by the plan, and a
training loop of one's own is told which lines to change."""

from __future__ import annotations

import ast
import contextlib
import importlib.abc
import importlib.util
import sys
from types import CodeType
from typing import Any, Dict, Optional, Sequence

import torch

from . import distributed
from .errors import CaptureError
from .scripts import alone

__all__ = ["compiled", "prepare"]


class _WhenImported(importlib.abc.MetaPathFinder):
    """Calls `then` with a module when it has been imported."""

    def __init__(self, name: str, then: Any) -> None:
        self.name, self.then = name, then

    def find_spec(self, fullname: str, path: Optional[Sequence[str]], target: Any = None) -> Any:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        found = importlib.util.find_spec(fullname)
        if found is None or found.loader is None:
            return None
        run, then = found.loader.exec_module, self.then

        def exec_module(module: Any) -> None:
            run(module)
            then(module)

        found.loader.exec_module = exec_module   # type: ignore[method-assign]
        return found


def _trainer(module: Any) -> None:
    from . import trainer
    trainer.patch(module)


_script = ""
_removed = contextlib.ExitStack()   # for the life of the process
# What a loop of one's own calls, and what replaces it.
_LINES = (
    ("init_process_group", "mw.init()"), ("DistributedDataParallel", "model = mw.DistributedModel(net, loss)"),
    ("DDP", "model = mw.DistributedModel(net, loss)"), ("FullyShardedDataParallel", "mw.DistributedModel(net, loss)"),
    ("fully_shard", "mw.DistributedModel(net, loss)"), ("DistributedSampler", "for batch in mw.shard(loader)"),
    ("backward", "loss = model.step(batch)"),
    ("clip_grad_norm_", "mw.DistributedOptimizer(optimizer, gradient_clip=...)"))


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _in_the_way() -> str:
    """The lines of the script that a plan replaces."""
    with open(_script, "rb") as file:
        text = file.read()
    lines = text.decode(errors="replace").splitlines()
    found: Dict[int, str] = {}
    for node in ast.walk(ast.parse(text)):
        instead = dict(_LINES).get(_called(node)) if isinstance(node, ast.Call) else None
        if instead:
            found.setdefault(node.lineno, instead)
    return "; ".join("{}:{} ({}) becomes {}".format(_script, line, lines[line - 1].strip(), instead)
                     for line, instead in sorted(found.items()))


def _refuse_backward(backward: Any) -> Any:
    def refused(tensor: Any, *words: Any, **named: Any) -> Any:
        frame = sys._getframe(1)
        if frame.f_code.co_filename == _script and distributed.steps_done() is None:
            raise CaptureError("the script trains by a loop of its own, which no plan can divide: {}; "
                               "docs/launch.md".format(_in_the_way()))
        return backward(tensor, *words, **named)
    return refused


def prepare() -> None:
    """Before a script runs."""
    sys.meta_path.insert(0, _WhenImported("transformers.trainer", _trainer))


def compiled(path: str) -> CodeType:
    """The script's code. From now on wrappers for parallel libraries are removed that it names, and its own backward
    passes are refused. A script of transformers is left to that."""
    global _script
    _script = path
    with open(path, "rb") as file:
        text = file.read()
    if b"transformers" not in text and (b"torch.distributed" in text or b"DataParallel" in text or b"horovod" in text):
        _removed.enter_context(alone())
    torch.Tensor.backward = _refuse_backward(torch.Tensor.backward)   # type: ignore[method-assign]
    return compile(text, path, "exec", dont_inherit=True)
