"""Runs a call of an exported graph on meta tensors as a GPU would run it.

Meta tensors take the general road through PyTorch. Where CUDA takes another one that matters for time
or memory, this file takes it: dropout with a mask of one byte, fused attention, cuDNN's recurrent
layers, and the casts of autocast.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

__all__ = ["Autocast", "on_gpu", "stand_ins"]

_aten = torch.ops.aten


def _dropout(x: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    return torch.native_dropout(x, p, True)[0] if train and 0 < p < 1 else _aten.dropout.default(x, p, train)


def _attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: Optional[torch.Tensor] = None,
               dropout_p: float = 0.0, is_causal: bool = False, *, scale: Optional[float] = None,
               enable_gqa: bool = False) -> torch.Tensor:
    """Flash attention in 16 bits without a mask, the memory-efficient kernel otherwise, else products."""
    fused = query.dim() == 4 and key.dim() == 4 and query.shape[-1] <= 256 and query.shape[-1] % 8 == 0
    half = query.dtype in (torch.float16, torch.bfloat16)
    if not fused or query.dtype == torch.float64:
        return _aten.scaled_dot_product_attention.default(query, key, value, attn_mask, dropout_p, is_causal,
                                                          scale=scale, enable_gqa=enable_gqa)
    if half and attn_mask is None and query.shape[-1] == value.shape[-1]:
        return _aten._scaled_dot_product_flash_attention.default(query, key, value, dropout_p, is_causal, False,
                                                                 scale=scale)[0]
    if enable_gqa and key.shape[1] != query.shape[1]:
        times = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            attn_mask = torch.where(attn_mask, 0.0, float("-inf")).to(query.dtype)
        attn_mask = attn_mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    return _aten._scaled_dot_product_efficient_attention.default(
        query, key, value, attn_mask, torch.is_grad_enabled(), dropout_p, is_causal, scale=scale)[0]


def _recurrent(mode: int) -> Callable[..., Any]:
    def run(x: torch.Tensor, state: Any, weights: List[torch.Tensor], has_biases: bool, layers: int, dropout: float,
            train: bool, both: bool, batch_first: bool) -> Tuple[torch.Tensor, ...]:
        hidden, cell = (state[0], state[1]) if mode == 2 else (state, None)
        # cuDNN's buffer of flattened weights would be the memory of the parameters, so the first weight takes
        # its place.
        out = _aten._cudnn_rnn.default(x, weights, 4 if has_biases else 2, weights[0].detach(), hidden, cell, mode,
                                       weights[1].shape[-1], 0, layers, batch_first, dropout, train, both, [], None)
        return out[:3] if mode == 2 else out[:2]

    return run


def _cudnn_rnn(x: torch.Tensor, weights: List[torch.Tensor], stride: int, buffer: Any, hidden: torch.Tensor, cell: Any,
               mode: int, size: int, projected: int, layers: int, batch_first: bool, dropout: float, train: bool,
               both: bool, batch_sizes: Any, state: Any) -> Tuple[torch.Tensor, ...]:
    """Shapes of cuDNN's recurrent layers. What it keeps for the backward pass is taken as gates and states."""
    directions = 2 if both else 1
    y = x.new_empty(*x.shape[:-1], size * directions)
    kept = y.numel() * layers * ({2: 4, 3: 3}.get(mode, 1) + 1) * x.element_size() if train else 0
    return (y, hidden.new_empty(hidden.shape), hidden.new_empty(hidden.shape if cell is not None else (0,)),
            x.new_empty(kept, dtype=torch.uint8), weights[0].new_empty(0))


def _cudnn_rnn_backward(x: torch.Tensor, weights: List[torch.Tensor], stride: int, buffer: torch.Tensor,
                        hidden: torch.Tensor, cell: Any, *more: Any) -> Tuple[Any, ...]:
    return (torch.empty_like(x), torch.empty_like(hidden), torch.empty_like(cell) if cell is not None else None,
            [torch.empty_like(each) for each in weights])


_library = torch.library.Library("aten", "IMPL", "Meta")
_library.impl("_cudnn_rnn", _cudnn_rnn, allow_override=True)
_library.impl("_cudnn_rnn_backward", _cudnn_rnn_backward, allow_override=True)


def _grouped_mm(x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    return _aten._grouped_mm.default(x, weight, offs=ends.to(torch.int32))


def _dense(target: Any, place: int) -> Callable[..., Any]:
    """A look-up whose gradient is a whole table, as plans have it: its argument `sparse` at `place` is false."""
    def run(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("sparse", None)
        return target(*(False if number == place else value for number, value in enumerate(args)), **kwargs)

    return run


# Replacements of operations, by the operation's name. They are used on every device.
stand_ins: Dict[str, Callable[..., Any]] = {"transformers.grouped_mm_fallback.default": _grouped_mm}
stand_ins.update((str(target), _dense(target, place)) for target, place in (
    (_aten.embedding.default, 4), (_aten.embedding_bag.default, 5), (_aten.embedding_bag.padding_idx, 5),
    (_aten._embedding_bag.default, 5)))

on_gpu: Dict[Any, Callable[..., Any]] = {
    _aten.dropout.default: _dropout,
    _aten.scaled_dot_product_attention.default: _attention,
    _aten.lstm.input: _recurrent(2),
    _aten.gru.input: _recurrent(3),
    _aten.rnn_relu.input: _recurrent(0),
    _aten.rnn_tanh.input: _recurrent(1),
}

# Operations whose arguments torch.autocast("cuda") casts: to 16 bits, to fp32, or to fp32 if one of them is
# fp32. All others run in the types that they are given.
_LOWER = {
    "_convolution", "addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "chain_matmul", "conv1d", "conv2d",
    "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution", "einsum",
    "gru", "gru_cell", "linalg_multi_dot", "linalg_vecdot", "linear", "lstm", "lstm_cell", "matmul", "mm", "mv",
    "prelu", "rnn_relu", "rnn_tanh", "scaled_dot_product_attention",
}
_FLOAT = {
    "acos", "asin", "binary_cross_entropy_with_logits", "cdist", "cosh", "cosine_embedding_loss",
    "cosine_similarity", "cross_entropy_loss", "cumprod", "cumsum", "dist", "erfinv", "exp", "expm1", "frobenius_norm",
    "grid_sampler", "group_norm", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "layer_norm", "log",
    "log10", "log1p", "log2", "log_softmax", "logsumexp", "margin_ranking_loss", "mse_loss", "multi_margin_loss",
    "multilabel_margin_loss", "nll_loss", "nll_loss_nd", "norm", "nuclear_norm", "pdist", "poisson_nll_loss", "pow",
    "prod", "reciprocal", "renorm", "rsqrt", "sinh", "smooth_l1_loss", "soft_margin_loss", "softmax", "softmin",
    "softplus", "sum", "tan", "triplet_margin_loss",
}
_WIDEST = {"addcdiv", "addcmul", "atan2", "bilinear", "cat", "cross", "dot", "index_put", "scatter_add", "stack",
           "vdot"}


class Autocast:
    """The casts of torch.autocast for CUDA. Casts of parameters are kept, as it keeps them."""

    def __init__(self) -> None:
        self._casts: Dict[Any, torch.Tensor] = {}

    def __call__(self, target: Any, kind: torch.dtype, args: Any, kwargs: Any) -> Any:
        name = getattr(getattr(target, "_schema", None), "name", "").split("::")[-1]
        if name in _LOWER:
            to: Optional[torch.dtype] = kind
        elif name in _FLOAT:
            to = torch.float32
        elif name in _WIDEST:
            wide = any(each.dtype == torch.float32 for each in _floats((args, kwargs)))
            to = torch.float32 if wide else None
        else:
            to = None
        if to is None:
            return args, kwargs
        return _mapped(args, lambda x: self._cast(x, to)), _mapped(kwargs, lambda x: self._cast(x, to))

    def _cast(self, x: torch.Tensor, to: torch.dtype) -> torch.Tensor:
        if not x.is_floating_point() or x.dtype == to or x.dtype == torch.float64:
            return x
        if not (x.is_leaf and x.requires_grad):
            return x.to(to)
        key = (id(x), to)
        if key not in self._casts:
            self._casts[key] = x.to(to)
        return self._casts[key]


def _floats(value: Any) -> List[torch.Tensor]:
    from .kernels import tensors_in
    return [each for each in tensors_in(value) if each.is_floating_point()]


def _mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(each, change) for each in value)
    if isinstance(value, dict):
        return {name: _mapped(each, change) for name, each in value.items()}
    return value
