"""Scripts that know nothing of meshwright, under `meshwright launch`: transformers' Trainer runs by the plan, and a
training loop of one's own is told which lines to change."""

from __future__ import annotations

import ast
import contextlib
import importlib.abc
import importlib.util
import os
import sys
from types import CodeType
from typing import Any, Dict, List, Optional, Sequence

import torch

from . import distributed
from .errors import CaptureError, is_users
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


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_script = ""
_removed = contextlib.ExitStack()   # lasts as long as the process
# Calls in a training loop of the script's own, and the lines to write in their place.
_MODEL = "{target} = mw.DistributedModel({first}, lambda output, batch: ...), with the loss of a batch"
_LINES = {
    "init_process_group": "mw.init()", "get_rank": "mw.rank()", "get_world_size": "mw.size()", "barrier": "mw.barrier()",
    "DistributedDataParallel": _MODEL, "DDP": _MODEL, "FullyShardedDataParallel": _MODEL, "FSDP": _MODEL,
    "fully_shard": _MODEL, "DistributedSampler": "DistributedSampler({first}, mw.dp_size(), mw.dp_rank())",
    "backward": "loss = model.step({batch}), for forward and backward",
    "clip_grad_norm_": "mw.DistributedOptimizer(optimizer, gradient_clip={second})",
    "all_reduce": "sum(mw.gathered({first}))"}
_OPTIMIZER = "the same, and then mw.DistributedOptimizer({target})"


def _instead(call: ast.Call) -> Optional[str]:
    """What to write for a call, if a plan needs another one."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    kind = getattr(torch.optim, name, None)
    if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer):
        return _OPTIMIZER
    if name == "state_dict" and ast.unparse(call.func).endswith(".module.state_dict"):
        return ast.unparse(call.func).replace(".module", "") + "(), called by every rank"
    return _LINES.get(name)


class _Calls(ast.NodeVisitor):
    """Collects by line what to write for a file's calls."""

    def __init__(self) -> None:
        self.found: Dict[int, str] = {}
        self.target, self.batch = "model", "batch"

    def visit_Assign(self, node: ast.Assign) -> None:
        self._inside(node, target=ast.unparse(node.targets[0]))

    def visit_For(self, node: ast.For) -> None:
        target: ast.expr = node.target
        called = getattr(getattr(node.iter, "func", None), "id", "")
        if called == "enumerate" and isinstance(target, ast.Tuple) and len(target.elts) == 2:
            target = target.elts[1]
        self._inside(node, batch=self.batch if called == "range" else ast.unparse(target))

    def _inside(self, node: ast.AST, **names: str) -> None:
        before = {name: getattr(self, name) for name in names}
        vars(self).update(names)
        self.generic_visit(node)
        vars(self).update(before)

    def visit_Call(self, node: ast.Call) -> None:
        instead = _instead(node)
        if instead:
            words = [ast.unparse(each) for each in node.args] + ["...", "..."]
            self.found.setdefault(node.lineno, instead.format(
                target=self.target, batch=self.batch, first=words[0], second=words[1]))
        self.generic_visit(node)


def _in_the_way(path: str) -> List[str]:
    """The lines of a file that a plan replaces, each with what to write."""
    with open(path, "rb") as file:
        text = file.read()
    lines = text.decode(errors="replace").splitlines()
    calls = _Calls()
    calls.visit(ast.parse(text))
    return ["{}:{}: {}   ->   {}".format(path, line, lines[line - 1].strip(), instead)
            for line, instead in sorted(calls.found.items())]


def _users_file() -> Optional[str]:
    """The user's file that the innermost call is in, or None where meshwright calls."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        path = frame.f_code.co_filename
        if os.path.abspath(path).startswith(_PACKAGE):
            return None
        if path == _script or is_users(path) and os.path.isfile(path):
            return str(path)
        frame = frame.f_back
    return None


def _refuse_backward(backward: Any) -> Any:
    def refused(tensor: Any, *words: Any, **named: Any) -> Any:
        path = _users_file() if distributed.steps_done() is None else None
        if path is not None:
            lines = [line for each in dict.fromkeys([_script, path]) for line in _in_the_way(each)]
            raise CaptureError("{} trains by a loop of its own, which no plan can divide. Import meshwright.torch as mw, "
                               "call mw.init() and make model = mw.DistributedModel(net, loss); docs/own-model.md shows "
                               "two scripts. Lines to change:\n  {}".format(path, "\n  ".join(lines)))
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
