"""What the program of one tensor rank calls besides PyTorch's own operations.

`dividing.py` writes these calls. The tensors of a tensor group are equal on all ranks, or each rank has
its part of one axis: an equal share of each of the `parts` that lie beside each other on that axis.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import torch

from .on_gpu import on_gpu

__all__ = ["Collective", "attention_of_own_heads", "dropout_of_own_part", "on_first_rank", "own_part", "rank_here",
           "set_rank"]

_aten = torch.ops.aten
_rank = 0   # of this process in its tensor group; captures describe the first one


def set_rank(rank: int) -> None:
    """Says which rank of its tensor group this process is."""
    global _rank
    _rank = rank


def rank_here() -> int:
    return _rank


class Collective(NamedTuple):
    """An exchange between the ranks of a tensor group, which the Runtime does between two segments.

    `word` names the operation as Programs do: tensor_copy, tensor_reduce, sequence_gather, sequence_scatter or
    sequence_slice; the last three along the first axis. Calling it gives a tensor of the right shape, for traces.
    """

    word: str
    degree: int
    gradient_is_whole: bool = False   # a gather whose gradient is the same on all ranks

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self.word == "sequence_gather":
            return torch.cat([x] * self.degree)
        if self.word in ("sequence_scatter", "sequence_slice"):
            return x.narrow(0, 0, x.shape[0] // self.degree).clone(memory_format=torch.contiguous_format)
        return x.clone(memory_format=torch.contiguous_format)


def own_part(x: torch.Tensor, axis: int, parts: Sequence[int], degree: int) -> torch.Tensor:
    """This rank's share of each of the parts of an axis, one behind the other."""
    if len(parts) == 1:
        share = x.shape[axis] // degree
        return x.narrow(axis, _rank * share, share)
    found: List[torch.Tensor] = []
    begin = 0
    for part in parts:
        share = part // degree
        found.append(x.narrow(axis, begin + _rank * share, share))
        begin += part
    return torch.cat(found, axis)


def on_first_rank(x: torch.Tensor) -> torch.Tensor:
    """x on the first rank and zeros on the others: what is added to partial sums is added once."""
    return x if _rank == 0 else x * 0


def dropout_of_own_part(x: torch.Tensor, p: float, train: bool, axis: int, parts: Sequence[int], degree: int,
                        order: Sequence[int]) -> torch.Tensor:
    """Drops what one process would drop: all ranks draw the mask of the whole tensor, and each takes its part.

    `order` are the axes of the whole tensor from the outermost one in memory: elements are drawn so.
    """
    if not train or p == 0:
        return x
    if x.device.type == "meta":
        return on_gpu[_aten.dropout.default](x, p, train)
    whole = list(x.shape)
    whole[axis] *= degree
    mask = torch.empty_permuted(whole, tuple(order), dtype=x.dtype, device=x.device).bernoulli_(1 - p).div_(1 - p)
    return x * own_part(mask, axis, parts, degree)


def attention_of_own_heads(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                           attn_mask: Optional[torch.Tensor] = None, dropout_p: float = 0.0, is_causal: bool = False,
                           *, scale: Optional[float] = None, enable_gqa: bool = False, parts: Tuple[int, ...],
                           degree: int) -> torch.Tensor:
    """Attention with dropout over this rank's heads, by products, as PyTorch does it on the CPU."""
    if query.device.type == "meta":
        return on_gpu[_aten.scaled_dot_product_attention.default](
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    if enable_gqa and key.shape[1] != query.shape[1]:
        times = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
    half = (scale if scale is not None else query.shape[-1] ** -0.5) ** 0.5
    scores = (query * half) @ (key * half).transpose(-2, -1)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).tril()
    if attn_mask is not None:
        scores = (scores.masked_fill(~attn_mask, float("-inf")) if attn_mask.dtype == torch.bool
                  else scores + attn_mask)
    weights = dropout_of_own_part(scores.softmax(-1), dropout_p, True, 1, parts, degree, range(4))
    return weights @ value
