"""Values that depend on what kernels would have computed, chosen: how many tokens each expert gets, what is finite.

A router ends in `topk`, whose indices are the experts of each token. What follows from them and is asked by the host is
known if all experts get as many tokens as each other, or the first one `imbalance` times the mean. Tensors that follow
from the indices are of a class of their own, so that nothing else takes longer: indices, masks of an expert's tokens, and
counts, whose values are kept beside them.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any, Dict, List, Optional

import torch

__all__ = ["balance_experts"]

_MOST_EXPERTS = 1024   # what chooses among more is no router
_imbalance = 1.0


def balance_experts(imbalance: float) -> None:
    """Lets routers choose all experts equally often, and the first one `imbalance` times as often as the mean."""
    global _imbalance
    _imbalance = max(1.0, imbalance)
    for place in (torch, torch.Tensor):
        original = place.topk   # type: ignore[attr-defined]

        @functools.wraps(original)
        def topk(scores: Any, k: int, dim: int = -1, *rest: Any, _original: Any = original, **more: Any) -> Any:
            found = _original(scores, k, dim, *rest, **more)
            experts = scores.shape[dim] if scores.dim() else 0
            if torch.compiler.is_compiling() or not found.indices.is_cuda or not k < experts <= _MOST_EXPERTS:
                return found
            return type(found)((found.values, _chosen(found.indices, "indices", experts)))

        setattr(place, "topk", topk)
    _count_tokens_of_masks()
    _hold_finite()


def _hold_finite() -> None:
    """Losses and norms are finite: what a script reads of `isfinite` is true."""
    hold = ctypes.CDLL(None).meshwright_stand_in_hold
    hold.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    for place in (torch, torch.Tensor):
        original = place.isfinite   # type: ignore[attr-defined]

        @functools.wraps(original)
        def isfinite(tensor: Any, _original: Any = original) -> Any:
            found = _original(tensor)
            if not torch.compiler.is_compiling() and type(found) is torch.Tensor and found.is_cuda and found.is_contiguous():
                hold(found.data_ptr(), 1, found.numel())
            return found

        setattr(place, "isfinite", isfinite)


def _shares(total: int, experts: int) -> List[int]:
    """The tokens of each expert."""
    first = min(total, round(total / experts * _imbalance))
    rest, others = total - first, max(1, experts - 1)
    return [first] + [rest // others + (each < rest % others) for each in range(experts - 1)]


class _Chosen(torch.Tensor):
    """A tensor that follows from the indices of experts.

    `kind` is "indices", "mask" or "counts". A mask is true for the tokens of `expert`, or, with one row for each expert, of
    all; `tokens` are those of all experts. `held` has the values of counts.
    """

    kind: str
    experts: int
    tokens: int
    expert: Optional[int]
    held: torch.Tensor

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", str(function))
        more = {key: _int_of(value) for key, value in (kwargs or {}).items()}
        args = tuple(_int_of(each) if place else each for place, each in enumerate(args))
        with torch._C.DisableTorchFunctionSubclass():
            result = function(*args, **more)
        first = next(each for each in [*args, *more.values()] if isinstance(each, _Chosen)) if any(
            isinstance(each, _Chosen) for each in [*args, *more.values()]) else None
        if first is None or torch.compiler.is_compiling():
            return result
        if first.kind == "counts":
            return _counted(function, name, args, more, result)
        return _followed(first, name, args, more, result)


def _chosen(tensor: torch.Tensor, kind: str, experts: int, tokens: int = 0, expert: Optional[int] = None,
            held: Optional[torch.Tensor] = None) -> Any:
    found = tensor.as_subclass(_Chosen)
    found.kind, found.experts, found.expert = kind, experts, expert
    found.tokens = tokens or tensor.numel()
    if held is not None:
        found.held = held
    return found


def _int_of(value: Any) -> Any:
    """Numbers of experts, read."""
    if isinstance(value, tuple):
        return tuple(_int_of(each) for each in value)
    is_one = isinstance(value, _Chosen) and value.kind == "counts" and value.dim() == 0 and not value.is_floating_point()
    return int(value.held) if is_one else value


_MOVES = {"view", "reshape", "flatten", "contiguous", "to", "int", "long", "type", "detach", "clone", "permute", "transpose",
          "t", "squeeze", "unsqueeze", "bool", "float", "half", "bfloat16", "expand", "__getitem__", "unbind", "type_as"}
_READS = {"sum", "count_nonzero"}


def _followed(first: _Chosen, name: str, args: Any, more: Dict[str, Any], result: Any) -> Any:
    """The result of an operation on indices or a mask."""
    if not isinstance(result, torch.Tensor):
        return result
    if name in ("histc", "bincount") and first.kind == "indices":
        return _counts_of(result, first)
    if name == "one_hot" and first.kind == "indices":
        return _chosen(result, "mask", first.experts, first.tokens)
    if name in ("eq", "__eq__") and first.kind == "indices" and len(args) > 1 and isinstance(args[1], int):
        return _chosen(result, "mask", first.experts, first.tokens, args[1])
    if name in _MOVES and result.is_cuda:
        expert, tokens = first.expert, first.tokens
        whole = first.kind == "mask" and expert is None
        if name == "__getitem__" and whole and isinstance(args[1], int) and first.shape[0] >= first.experts:
            expert = args[1]
        elif name == "__getitem__" and not whole:
            tokens = tokens * result.numel() // max(1, first.numel())
        return _chosen(result, first.kind, first.experts, tokens, expert)
    if name in _READS and first.kind == "mask" and result.numel() >= first.experts and first.expert is None and (
            result.dim() == 1):
        return _counts_of(result, first)
    return result


def _counts_of(result: torch.Tensor, first: _Chosen) -> Any:
    shares = _shares(first.tokens, first.experts)
    held = torch.tensor((shares + [0] * result.numel())[:result.numel()], dtype=result.dtype).view(result.shape)
    return _chosen(result, "counts", first.experts, first.tokens, held=held)


_READERS = {"tolist", "item", "__int__", "__bool__", "__index__", "__float__", "numpy", "__len__"}


def _counted(function: Any, name: str, args: Any, more: Dict[str, Any], result: Any) -> Any:
    """The result of an operation on counts: the same operation on their values says what it holds."""
    if any(part in name for part in ("all_to_all", "wait_tensor", "all_reduce", "all_gather")):
        first = next(each for each in args if isinstance(each, _Chosen))
        same = isinstance(result, torch.Tensor) and result.shape == first.shape
        return _chosen(result, "counts", first.experts, first.tokens, held=first.held) if same else result
    own = {key: value for key, value in more.items() if key not in ("device", "non_blocking")}
    words = [_held(each) for each in args]
    if name == "to":
        words = [each for each in words if not isinstance(each, (torch.device, str))]
    try:
        held = words[0] if name in ("cpu", "cuda") else function(*words, **own)
    except (RuntimeError, TypeError, ValueError):
        return result
    if name in _READERS:
        return held
    return _beside(result, held)


def _held(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_held(each) for each in value)
    if isinstance(value, _Chosen) and value.kind == "counts":
        return value.held
    if isinstance(value, torch.Tensor) and value.is_cuda:
        raise ValueError("not known")
    return value


def _beside(result: Any, held: Any) -> Any:
    if isinstance(result, (list, tuple)) and not hasattr(result, "_fields"):
        return type(result)(_beside(*each) for each in zip(result, held))
    if not isinstance(result, torch.Tensor) or not isinstance(held, torch.Tensor):
        return result
    if not result.is_cuda:
        return held.as_subclass(torch.Tensor).clone()
    if result.shape != held.shape:   # as many rows as there are true values
        result = torch.empty(held.shape, dtype=held.dtype, device=result.device)
    return _chosen(result, "counts", max(1, held.numel()), held=held)


_library: Any = None   # kept, or its change is undone


def _count_tokens_of_masks() -> None:
    """A mask of an expert's tokens is true as often as the expert has tokens, also in `x[mask]` and `where(mask)`."""
    global _library

    def nonzero(self: torch.Tensor) -> torch.Tensor:
        with torch._C.DisableTorchFunctionSubclass():
            count = int(self.ne(0).sum())   # as the kernels of PyTorch do, which read it
            if isinstance(self, _Chosen) and self.kind == "mask":
                count = (_shares(self.tokens, self.experts)[self.expert] if self.expert is not None
                         and self.expert < self.experts else self.tokens if self.expert is None else 0)
            elif isinstance(self, _Chosen) and self.kind == "counts":
                count = int(self.held.count_nonzero())
            return torch.empty((count, self.dim()), dtype=torch.int64, device=self.device)

    _library = torch.library.Library("aten", "IMPL")   # noqa: TOR901
    _library.impl("nonzero", nonzero, "CUDA", allow_override=True)
