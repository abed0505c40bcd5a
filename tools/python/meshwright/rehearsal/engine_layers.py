"""Modules of Transformer Engine by shape: parameters, and kernels, collectives and saved tensors like its own.

They are used where Transformer Engine is not installed. Fused kernels that PyTorch has not are one kernel here too.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Iterator, List, Optional

import torch
from torch import nn
from torch.nn import functional as F

from .engine_products import GroupedProduct, Product, Split
from .notes import Unanswerable

__all__ = ["CudaRNGStatesTracker", "DotProductAttention", "FusedAdam", "FusedSGD", "GroupedLinear", "LayerNorm",
           "LayerNormLinear", "LayerNormMLP", "Linear", "MultiheadAttention", "QuantizedTensor", "RMSNorm", "State", "TransformerLayer", "autocast", "multi_tensor_applier",
           "multi_tensor_l2norm", "multi_tensor_scale", "random_states", "recompute_forward", "refuse_8_bits"]

_NAME = "the stand-in for Transformer Engine"


def _made(shape: Any, dtype: Any, device: Any, init: Optional[Callable[..., Any]] = None) -> nn.Parameter:
    parameter = nn.Parameter(torch.empty(shape, dtype=dtype or torch.get_default_dtype(), device=device))
    if init is not None:
        with torch.no_grad():
            init(parameter)
    return parameter


class _Parallel(nn.Module):
    """A layer that a tensor-parallel group may share."""

    def __init__(self, parallel_mode: Optional[str], tp_group: Any, tp_size: int, sequence_parallel: bool,
                 fuse_wgrad_accumulation: bool) -> None:
        super().__init__()
        self.parallel_mode, self.sequence_parallel = parallel_mode, sequence_parallel
        self.fuse_wgrad_accumulation = fuse_wgrad_accumulation
        self.tp_group, self.tp_size = tp_group, tp_group.size() if tp_group is not None else tp_size
        self.fp8_meta: Dict[str, Any] = {}

    def set_tensor_parallel_group(self, tp_group: Any) -> None:
        self.tp_group = tp_group

    @property
    def _split(self) -> Split:
        return Split(self.parallel_mode, self.tp_group, self.tp_size, self.sequence_parallel and self.parallel_mode is not None,
                     self.fuse_wgrad_accumulation)


class Linear(_Parallel):
    def __init__(self, in_features: int, out_features: int, sequence_parallel: bool = False,
                 fuse_wgrad_accumulation: bool = False, tp_group: Any = None, tp_size: int = 1,
                 get_rng_state_tracker: Any = None, init_method: Any = None, bias: bool = True, return_bias: bool = False,
                 params_dtype: Any = None, parallel_mode: Optional[str] = None, device: Any = "cuda", **_others: Any) -> None:
        super().__init__(parallel_mode, tp_group, tp_size, sequence_parallel, fuse_wgrad_accumulation)
        self.in_features = in_features // (self.tp_size if parallel_mode == "row" else 1)
        self.out_features = out_features // (self.tp_size if parallel_mode == "column" else 1)
        self.use_bias, self.return_bias = bias, return_bias
        self.weight = _made((self.out_features, self.in_features), params_dtype, device,
                            init_method or (lambda weight: nn.init.normal_(weight, std=0.023)))
        self.bias = _made(self.out_features, params_dtype, device, nn.init.zeros_) if bias else None

    def forward(self, inp: torch.Tensor, is_first_microbatch: Optional[bool] = None, **_others: Any) -> Any:
        out = Product.apply(inp, self.weight, None if self.return_bias else self.bias, self._split)
        return (out, self.bias) if self.return_bias else out


class _Norm(nn.Module):
    _has_bias = False

    def __init__(self, hidden_size: Any = None, eps: float = 1e-5, sequence_parallel: bool = False, params_dtype: Any = None,
                 zero_centered_gamma: bool = False, device: Any = "cuda", normalized_shape: Any = None, dtype: Any = None,
                 **_others: Any) -> None:
        super().__init__()
        self.eps = eps
        shape = normalized_shape if hidden_size is None else hidden_size
        self.weight = _made(shape, params_dtype or dtype, device, nn.init.ones_)
        self.bias = _made(shape, params_dtype or dtype, device, nn.init.zeros_) if self._has_bias else None
        for parameter in self.parameters():
            parameter.sequence_parallel = sequence_parallel   # type: ignore[attr-defined]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _normalized(x, self.weight, self.bias, self.eps)


def _normalized(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor], eps: float) -> torch.Tensor:
    if bias is None:
        return F.rms_norm(x, weight.shape, weight, eps)
    return F.layer_norm(x, weight.shape, weight, bias, eps)


class RMSNorm(_Norm):
    pass


class LayerNorm(_Norm):
    _has_bias = True


class LayerNormLinear(Linear):
    def __init__(self, in_features: int, out_features: int, eps: float = 1e-5, normalization: str = "LayerNorm",
                 return_layernorm_output: bool = False, **others: Any) -> None:
        super().__init__(in_features, out_features, **others)
        self.eps, self.return_layernorm_output = eps, return_layernorm_output
        dtype, device = others.get("params_dtype"), others.get("device", "cuda")
        self.layer_norm_weight = _made(in_features, dtype, device, nn.init.ones_)
        self.layer_norm_bias = _made(in_features, dtype, device, nn.init.zeros_) if normalization == "LayerNorm" else None
        for parameter in (self.layer_norm_weight, self.layer_norm_bias):
            if parameter is not None:
                parameter.sequence_parallel = self.sequence_parallel   # type: ignore[attr-defined]

    def forward(self, inp: torch.Tensor, is_first_microbatch: Optional[bool] = None, **others: Any) -> Any:
        normalized = _normalized(inp, self.layer_norm_weight, self.layer_norm_bias, self.eps)
        out = super().forward(normalized, is_first_microbatch, **others)
        if not self.return_layernorm_output:
            return out
        return (*out, normalized) if isinstance(out, tuple) else (out, normalized)


class GroupedLinear(_Parallel):
    def __init__(self, num_gemms: int, in_features: int, out_features: int, sequence_parallel: bool = False,
                 fuse_wgrad_accumulation: bool = False, tp_group: Any = None, tp_size: int = 1,
                 get_rng_state_tracker: Any = None, init_method: Any = None, bias: bool = True, return_bias: bool = False,
                 params_dtype: Any = None, parallel_mode: Optional[str] = None, device: Any = "cuda", **_others: Any) -> None:
        super().__init__(parallel_mode, tp_group, tp_size, sequence_parallel, fuse_wgrad_accumulation)
        self.num_gemms, self.use_bias, self.return_bias = num_gemms, bias, return_bias
        self.in_features = in_features // (self.tp_size if parallel_mode == "row" else 1)
        self.out_features = out_features // (self.tp_size if parallel_mode == "column" else 1)
        for each in range(num_gemms):
            self.register_parameter("weight{}".format(each), _made((self.out_features, self.in_features), params_dtype, device,
                                                                    init_method))
            if bias:
                self.register_parameter("bias{}".format(each), _made(self.out_features, params_dtype, device, nn.init.zeros_))

    def forward(self, inp: torch.Tensor, m_splits: List[int], is_first_microbatch: Optional[bool] = None) -> Any:
        weights = [getattr(self, "weight{}".format(each)) for each in range(self.num_gemms)]
        out = GroupedProduct.apply(inp, [int(each) for each in m_splits], self.fuse_wgrad_accumulation, *weights)
        biases = [getattr(self, "bias{}".format(each)) for each in range(self.num_gemms)] if self.use_bias else []
        return (out, biases) if self.return_bias else out


class DotProductAttention(nn.Module):
    def __init__(self, num_attention_heads: int, kv_channels: Any, num_gqa_groups: Optional[int] = None,
                 attention_dropout: float = 0.0, qkv_format: str = "sbhd", attn_mask_type: str = "causal",
                 softmax_scale: Optional[float] = None, cp_group: Any = None, **_others: Any) -> None:
        super().__init__()
        self.attention_dropout, self.attn_mask_type = attention_dropout, attn_mask_type
        self.qkv_format, self.softmax_scale = qkv_format, softmax_scale
        if cp_group is not None and not isinstance(cp_group, list) and cp_group.size() > 1:
            raise Unanswerable(_NAME + " has no context parallelism; install Transformer Engine, or use a degree of 1")

    def forward(self, query_layer: torch.Tensor, key_layer: torch.Tensor, value_layer: torch.Tensor, attention_mask: Any = None,
                qkv_format: Optional[str] = None, attn_mask_type: Optional[str] = None, **_others: Any) -> torch.Tensor:
        layout = qkv_format or self.qkv_format
        if layout not in ("sbhd", "bshd"):
            raise Unanswerable(_NAME + " has no packed sequences ({}); install Transformer Engine".format(layout))
        order = (1, 2, 0, 3) if layout == "sbhd" else (0, 2, 1, 3)
        q, k, v = (each.permute(order) for each in (query_layer, key_layer, value_layer))
        mask = attn_mask_type or self.attn_mask_type
        out = F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.attention_dropout if self.training else 0.0, is_causal="causal" in mask,
            scale=self.softmax_scale, enable_gqa=q.shape[1] != k.shape[1])
        back = (2, 0, 1, 3) if layout == "sbhd" else (0, 2, 1, 3)
        return out.permute(back).flatten(2)


class FusedAdam(torch.optim.AdamW):
    def __init__(self, params: Any, lr: float = 1e-3, bias_correction: bool = True, betas: Any = (0.9, 0.999),
                 eps: float = 1e-8, adam_w_mode: bool = True, weight_decay: float = 0.0, **_others: Any) -> None:
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, fused=True)


class FusedSGD(torch.optim.SGD):
    def __init__(self, params: Any, lr: float = 1e-3, momentum: float = 0.0, **others: Any) -> None:
        known = {name: others[name] for name in ("dampening", "weight_decay", "nesterov") if name in others}
        super().__init__(params, lr=lr, momentum=momentum, fused=True, **known)


def multi_tensor_applier(operation: Any, overflow: Any, lists: Any, *arguments: Any) -> Any:
    return operation(2048 * 32, overflow, lists, *arguments)


def multi_tensor_scale(_chunk: int, _overflow: Any, lists: Any, scale: Any) -> None:
    source, target = lists
    if any(a is not b for a, b in zip(source, target)):
        torch._foreach_copy_(target, source)
    torch._foreach_mul_(target, scale)


def multi_tensor_l2norm(_chunk: int, _overflow: Any, lists: Any, per_parameter: bool = False, *_others: Any) -> Any:
    norms = torch._foreach_norm(lists[0])
    return torch.linalg.vector_norm(torch.stack(norms)), torch.stack(norms) if per_parameter else None


class QuantizedTensor:
    """A tensor in 8 bits, of which there are none here."""


class State:
    """Of 8 bits, in which nothing runs here."""

    @staticmethod
    def is_fp8_enabled() -> bool:
        return False

    is_fp8_calibration = is_first_fp8_module = is_fp8_enabled

    @staticmethod
    def get_fp8_recipe() -> None:
        return None

    get_fp8_group = get_fp8_recipe


def refuse_8_bits(*_of: Any, **_named: Any) -> None:
    raise Unanswerable(_NAME + " computes in 16 bits only; install Transformer Engine, or train in 16 bits")


class _NotMade(nn.Module):
    """A layer without a stand-in. Libraries such as peft ask whether a module is one of its kind."""

    def __init__(self, *_of: Any, **_named: Any) -> None:
        raise Unanswerable("{} has no {}; install Transformer Engine".format(_NAME, type(self).__name__))


class LayerNormMLP(_NotMade):
    pass


class MultiheadAttention(_NotMade):
    pass


class TransformerLayer(_NotMade):
    pass


@contextlib.contextmanager
def autocast(enabled: bool = False, **_others: Any) -> Iterator[None]:
    if enabled:
        refuse_8_bits()
    yield


@contextlib.contextmanager
def recompute_forward(activation_recompute: bool = False, recompute_phase: bool = False) -> Iterator[None]:
    yield


class CudaRNGStatesTracker:
    def __init__(self) -> None:
        self.states_: Dict[str, torch.Tensor] = {}
        self.seeds_: set = set()

    def reset(self) -> None:
        self.states_, self.seeds_ = {}, set()

    def get_states(self) -> Dict[str, torch.Tensor]:
        return dict(self.states_)

    def set_states(self, states: Dict[str, torch.Tensor]) -> None:
        self.states_ = states

    def add(self, name: str, seed: int) -> None:
        self.seeds_.add(seed)
        self.states_[name] = torch.cuda.get_rng_state()

    @contextlib.contextmanager
    def fork(self, name: str = "model-parallel-rng") -> Iterator[None]:
        yield


def random_states() -> Dict[str, Any]:
    return {}
