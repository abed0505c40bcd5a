"""What an ATen operation costs on a GPU: one table from operations to kernels.

`kernels_of(func, args, kwargs, out)` says which kernels an operation runs, each with its kind, sizes,
FLOPs and bytes of memory traffic. It needs shapes only, so it works on real, fake and meta tensors.
A capture of a model and a rehearsal of a whole script use this table alike.

Rules:
 - views and operations on metadata run no kernel;
 - matrix products, convolutions, attention and recurrent layers have rows in `_PRODUCTS`;
 - gathers and scatters have rows in `_MEMORY`, because they touch a part of what they are given;
 - every other operation is a memory kernel that reads its inputs and writes its outputs once.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence

import torch

__all__ = ["Kernel", "bytes_of", "can_fuse", "is_free", "is_product", "is_random", "kernels_of", "tensors_in", "written_by"]


class Kernel(NamedTuple):
    """One kernel. Products compute `batch` times [m, k] x [k, n]; `dtype` is that of their operands.

    Attention has m queries, n keys of width k in `batch` sequences and heads. Its `flops` count all
    scores, also those that a causal mask (`causal`) spares.
    """

    op: str
    kind: str
    bytes: int
    flops: int = 0
    m: int = 0
    n: int = 0
    k: int = 0
    batch: int = 1
    dtype: Any = None
    causal: bool = False


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in arguments or results, however deep they lie in lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_in(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from tensors_in(each)


def bytes_of(tensor: torch.Tensor) -> int:
    """Bytes of the distinct elements of a tensor: an axis of stride 0 repeats what is there already."""
    count = 1
    for size, stride in zip(tensor.shape, tensor.stride()):
        if stride != 0 or size == 0:
            count *= size
    return count * tensor.element_size()


def _sum(tensors: Sequence[Any]) -> int:
    return sum(bytes_of(each) for each in tensors_in(tensors))


# ---------------------------------------------------------------------------------------------
# Facts about an operation that follow from its schema. They are looked up once for each operation.


class _Facts(NamedTuple):
    name: str            # "aten.addmm"
    short: str           # "addmm", without the underscore of operations in place
    free: bool
    written: tuple       # places of the arguments that it writes
    written_names: tuple
    overwrites: bool     # the earlier contents of what it writes are not read


_FREE = {
    "_reshape_alias", "_unsafe_view", "alias", "detach", "device", "empty", "empty_like", "empty_permuted",
    "empty_strided", "is_same_size", "lift", "lift_fresh", "new_empty", "new_empty_strided", "resize",
    "set", "sym_numel", "sym_size", "sym_storage_offset", "sym_stride", "_assert_async", "_assert_scalar",
    "_assert_tensor_metadata", "sym_constrain_range", "sym_constrain_range_for_size", "is_pinned",
    "_has_compatible_shallow_copy_type", "_version", "is_complex", "requires_grad", "record_stream",
    "dim", "stride", "size", "sym_is_contiguous", "is_contiguous", "is_non_overlapping_and_dense",
}
_OVERWRITES = {"bernoulli", "copy", "exponential", "fill", "normal", "random", "uniform", "zero"}
_facts: Dict[Any, _Facts] = {}


def _facts_of(func: Any) -> _Facts:
    facts = _facts.get(func)
    if facts is None:
        schema = func._schema
        name = schema.name.replace("::", ".")
        short = name.split(".", 1)[1]
        if short.endswith("_") and not short.endswith("__"):
            short = short[:-1]
        written = tuple(place for place, argument in enumerate(schema.arguments)
                        if argument.alias_info is not None and argument.alias_info.is_write)
        views = any(result.alias_info is not None and not result.alias_info.is_write
                    for result in schema.returns)
        free = short in _FREE or (views and not written) or short.endswith("_copy_view")
        if short in ("squeeze", "unsqueeze", "t", "transpose", "swapaxes", "detach", "as_strided") and written:
            free = True  # Only the shape of what is written changes.
        facts = _facts[func] = _Facts(
            name, short, free, written, tuple(schema.arguments[place].name for place in written),
            short in _OVERWRITES or "out" in func._overloadname.split("_"))
    return facts


def is_free(func: Any) -> bool:
    """Whether an operation runs no kernel: views, and what concerns shapes only."""
    return _facts_of(func).free


def written_by(func: Any, args: Sequence[Any], kwargs: Dict[str, Any]) -> List[torch.Tensor]:
    """The arguments that an operation writes in place."""
    facts = _facts_of(func)
    if not facts.written:
        return []
    found: List[Any] = [args[place] for place in facts.written if place < len(args)]
    found += [kwargs[name] for name in facts.written_names if name in kwargs]
    return list(tensors_in(found))


def is_random(func: Any, args: Sequence[Any] = (), kwargs: Optional[Dict[str, Any]] = None) -> bool:
    """Whether an operation draws random numbers. Attention and recurrent layers do so if they drop something."""
    if torch.Tag.nondeterministic_seeded not in getattr(func, "tags", ()):
        return False
    for place, argument in enumerate(func._schema.arguments):
        if argument.name in ("dropout_p", "dropout"):
            share = (kwargs or {}).get(argument.name, args[place] if place < len(args) else None)
            return share != 0.0 if share is not None else argument.default_value != 0.0
    return True


# ---------------------------------------------------------------------------------------------
# Functions that return the kernels of matrix multiplications.


def _gemm(op: str, m: int, n: int, k: int, batch: int, moved: int, like: torch.Tensor, kind: str = "") -> Kernel:
    kind = kind or ("gemm" if batch == 1 else "batched_gemm")
    return Kernel(op, kind, moved, 2 * m * n * k * batch, m, n, k, batch, like.dtype)


def _mm(left: int) -> Callable[..., List[Kernel]]:
    """A product of the arguments at `left` and the place after it; what stands before is added."""

    def row(op: str, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Kernel]:
        a, b = args[left], args[left + 1]
        result = next(tensors_in(out))
        batch = a.shape[0] if a.dim() == 3 else 1
        m, k = (a.shape[-2], a.shape[-1]) if a.dim() > 1 else (1, a.shape[-1])
        n = b.shape[-1] if b.dim() > 1 else 1
        return [_gemm(op, m, n, k, batch, _sum(args[:left + 2]) + bytes_of(result), a)]

    return row


def _linear(op: str, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Kernel]:
    x, weight = args[0], args[1]
    k = x.shape[-1]
    return [_gemm(op, x.numel() // max(k, 1), weight.shape[0], k, 1, _sum(args[:3]) + _sum([out]), x)]


def _grouped_mm(op: str, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Kernel]:
    """Products of groups of rows whose sizes data decide: all groups together have the rows given."""
    a, b = args[0], args[1]
    moved = _sum([a, b]) + _sum([out])
    if a.dim() == 2 and b.dim() == 3:
        groups = max(b.shape[0], 1)
        m, k, n = -(-a.shape[0] // groups), a.shape[1], b.shape[2]
        kernel = _gemm(op, m, n, k, groups, moved, a, "batched_gemm")
        return [kernel._replace(flops=2 * a.shape[0] * n * k)]
    if a.dim() == 2:
        result = next(tensors_in(out))
        groups = max(result.shape[0] if result.dim() == 3 else 1, 1)
        kernel = _gemm(op, a.shape[0], b.shape[1], -(-a.shape[1] // groups), groups, moved, a, "batched_gemm")
        return [kernel._replace(flops=2 * a.shape[0] * b.shape[1] * a.shape[1])]
    if b.dim() == 2:
        groups = max(a.shape[0], 1)
        n = -(-b.shape[1] // groups)
        kernel = _gemm(op, a.shape[1], n, a.shape[2], groups, moved, a, "batched_gemm")
        return [kernel._replace(flops=2 * a.shape[1] * b.shape[1] * a.shape[2])]
    return [_gemm(op, a.shape[1], b.shape[2], a.shape[2], a.shape[0], moved, a, "batched_gemm")]


def _convolution_sizes(x: torch.Tensor, weight: torch.Tensor, result_shape: Sequence[int], transposed: bool,
                       groups: int) -> tuple:
    """(pixels, channels out, channels in times window) of one group, as of a product."""
    window = math.prod(weight.shape[2:])
    if transposed:
        return x.shape[0] * math.prod(x.shape[2:]), weight.shape[1] * window, weight.shape[0] // groups
    return x.shape[0] * math.prod(result_shape[2:]), weight.shape[0] // groups, weight.shape[1] * window


def _convolution(op: str, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Kernel]:
    x, weight = args[0], args[1]
    transposed, groups = (args[6], args[8]) if len(args) > 8 else (False, args[-1])
    m, n, k = _convolution_sizes(x, weight, next(tensors_in(out)).shape, transposed, groups)
    return [_gemm(op, m, n, k, groups, _sum(args[:3]) + _sum([out]), x)]


def _convolution_backward(op: str, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Kernel]:
    """Up to three kernels: the gradients of input, weight and bias."""
    gradient, x, weight = args[0], args[1], args[2]
    transposed, groups, wanted = args[7], args[9], args[10]
    m, n, k = _convolution_sizes(x, weight, gradient.shape, transposed, groups)
    found = []
    if wanted[0]:
        found.append(_gemm(op, m, k, n, groups, _sum([gradient, weight, out[0]]), x))
    if wanted[1]:
        found.append(_gemm(op, n, k, m, groups, _sum([gradient, x, out[1]]), x))
    if wanted[2]:
        found.append(Kernel(op, "memory", _sum([gradient, out[2]])))
    return found


def _attention(query: int, backward: bool) -> Callable[..., List[Kernel]]:
    """Fused attention whose query, key and value begin at the argument `query`.

    The backward pass has five products where the forward pass has two: it computes the scores again.
    """

    def row(op: str, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Kernel]:
        q, k, v = args[query:query + 3]
        batch = math.prod(q.shape[:-2])
        m, n, width = q.shape[-2], k.shape[-2], q.shape[-1]
        scores = 2 * batch * m * n
        flops = scores * (3 * width + 2 * v.shape[-1]) if backward else scores * (width + v.shape[-1])
        moved = _sum([each for each in list(args) + list(kwargs.values())]) + _sum([out])
        causal = _argument(op, args, kwargs, "is_causal")
        return [Kernel(op, "attention", moved, flops, m, n, width, batch, q.dtype, bool(causal))]

    return row


def _argument(op: str, args: Sequence[Any], kwargs: Dict[str, Any], name: str) -> Any:
    if name in kwargs:
        return kwargs[name]
    packet = getattr(torch.ops.aten, op.split(".", 1)[1])
    for place, argument in enumerate(packet.default._schema.arguments):
        if argument.name == name:
            return args[place] if place < len(args) else argument.default_value
    return None


_GATES = {2: 4, 3: 3}  # by mode of cuDNN: LSTM, GRU; plain recurrent layers have one


def _recurrent(op: str, rows: int, steps: int, width: int, hidden: int, gates: int, moved: int,
               like: torch.Tensor, times: int) -> List[Kernel]:
    """One layer and direction: all inputs in one product, then one product a step."""
    return ([_gemm(op, rows * steps, gates * hidden, width, 1, moved // (2 * times), like)] * times
            + [_gemm(op, rows, gates * hidden, hidden, steps, moved // (2 * times), like, "batched_gemm")] * times)


def _mkldnn_rnn(op: str, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Kernel]:
    x, w_input, w_hidden = args[0], args[1], args[2]
    steps, rows = x.shape[0], x.shape[1]
    hidden = w_hidden.shape[-1]
    moved = _sum(list(args)) + _sum([out])
    times = 2 if op.endswith("backward") else 1
    return _recurrent(op, rows, steps, w_input.shape[-1], hidden, max(w_hidden.shape[0] // hidden, 1), moved,
                      x, times)


def _cudnn_rnn(op: str, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Kernel]:
    backward = op.endswith("backward")
    x, weights, stride = args[0], args[1], args[2]
    mode, hidden, layers = (args[10], args[11], args[13]) if backward else (args[6], args[7], args[9])
    batch_first, both = (args[14], args[17]) if backward else (args[10], args[13])
    rows, steps = (x.shape[0], x.shape[1]) if batch_first else (x.shape[1], x.shape[0])
    gates, times, directions = _GATES.get(mode, 1), 2 if backward else 1, 2 if both else 1
    moved = (_sum(list(args)) + _sum([out])) // (layers * directions)
    found: List[Kernel] = []
    for layer in range(layers):
        width = x.shape[-1] if layer == 0 else hidden * directions
        for _ in range(directions):
            found += _recurrent(op, rows, steps, width, hidden, gates, moved, x, times)
    return found


_PRODUCTS: Dict[str, Callable[..., List[Kernel]]] = {
    "mm": _mm(0), "bmm": _mm(0), "mv": _mm(0), "dot": _mm(0), "vdot": _mm(0), "_int_mm": _mm(0),
    "_scaled_mm": _mm(0), "addmm": _mm(1), "baddbmm": _mm(1), "addmv": _mm(1), "addbmm": _mm(1),
    "_addmm_activation": _mm(1), "linear": _linear, "mkldnn_linear": _linear,
    "_grouped_mm": _grouped_mm, "_scaled_grouped_mm": _grouped_mm,
    "convolution": _convolution, "convolution_overrideable": _convolution, "_convolution": _convolution,
    "mkldnn_convolution": _convolution, "cudnn_convolution": _convolution,
    "convolution_backward": _convolution_backward, "convolution_backward_overrideable": _convolution_backward,
    "_scaled_dot_product_flash_attention": _attention(0, False),
    "_scaled_dot_product_efficient_attention": _attention(0, False),
    "_scaled_dot_product_cudnn_attention": _attention(0, False),
    "_scaled_dot_product_flash_attention_for_cpu": _attention(0, False),
    "_scaled_dot_product_fused_attention_overrideable": _attention(0, False),
    "_scaled_dot_product_flash_attention_backward": _attention(1, True),
    "_scaled_dot_product_efficient_attention_backward": _attention(1, True),
    "_scaled_dot_product_cudnn_attention_backward": _attention(1, True),
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention(1, True),
    "_scaled_dot_product_fused_attention_overrideable_backward": _attention(1, True),
    "mkldnn_rnn_layer": _mkldnn_rnn, "mkldnn_rnn_layer_backward": _mkldnn_rnn,
    "_cudnn_rnn": _cudnn_rnn, "_cudnn_rnn_backward": _cudnn_rnn,
}

# ---------------------------------------------------------------------------------------------
# Functions for operations on memory that touch only a part of their arguments, or touch them more than once.
# Each returns the bytes that its operation moves.


def _rows_read(args: Sequence[Any], out: Any, facts: _Facts) -> int:
    """A gather reads as many elements as it writes, and the indices."""
    indices = sum(bytes_of(each) for each in tensors_in(args[1:]) if not each.is_floating_point())
    return 2 * _sum([out]) + indices


def _rows_added(args: Sequence[Any], out: Any, facts: _Facts) -> int:
    """A scatter reads its source, reads and writes as many elements, and first copies what is not in place."""
    source = max((bytes_of(each) for each in tensors_in(args[1:]) if each.dtype == args[0].dtype), default=0)
    touched = min(source, bytes_of(args[0]))
    copied = 0 if facts.written else 2 * bytes_of(args[0])
    return copied + _sum(args[1:]) + 2 * touched


def _table_gradient(args: Sequence[Any], out: Any, facts: _Facts) -> int:
    """The gradient of a table is zeroed, and the rows that were read get what came back."""
    gradient = bytes_of(args[0])
    result = _sum([out])
    return result + gradient + 2 * min(gradient, result) + _sum(args[1:2])


def _part_gradient(args: Sequence[Any], out: Any, facts: _Facts) -> int:
    """The gradient of a slice: all is zeroed, then a part is written."""
    return _sum([out]) + 2 * bytes_of(args[0])


def _bag(args: Sequence[Any], out: Any, facts: _Facts) -> int:
    weight, indices = args[0], args[1]
    return indices.numel() * weight.shape[-1] * weight.element_size() + _sum(args[1:]) + _sum([out])


def _bag_gradient(args: Sequence[Any], out: Any, facts: _Facts) -> int:
    gradient, indices = args[0], args[1]
    touched = indices.numel() * gradient.shape[-1] * gradient.element_size()
    result = _sum([out])
    return result + touched + 2 * min(touched, result) + _sum(args[1:3])


def _chosen_loss(args: Sequence[Any], out: Any, facts: _Facts) -> int:
    """The loss of the right class reads one element a row."""
    return args[1].numel() * args[0].element_size() + _sum(args[1:3]) + _sum([out])


def _chosen_loss_gradient(args: Sequence[Any], out: Any, facts: _Facts) -> int:
    return _sum([out]) + _sum([args[0]]) + _sum(args[2:4]) + args[2].numel() * args[1].element_size()


def _twice(*places: int) -> Callable[..., int]:
    """Normalization over much: statistics are a pass of their own over the arguments at `places`."""

    def row(args: Sequence[Any], out: Any, facts: _Facts) -> int:
        return _sum(list(args)) + _sum([out]) + _sum([args[place] for place in places])

    return row


_MEMORY: Dict[str, Callable[..., int]] = {
    "embedding": _rows_read, "gather": _rows_read, "index": _rows_read, "index_select": _rows_read,
    "_unsafe_index": _rows_read, "take": _rows_read, "masked_select": _rows_read,
    "index_add": _rows_added, "index_put": _rows_added, "_index_put_impl": _rows_added,
    "_unsafe_index_put": _rows_added, "index_copy": _rows_added, "scatter": _rows_added,
    "scatter_add": _rows_added, "scatter_reduce": _rows_added, "index_reduce": _rows_added,
    "index_fill": _rows_added,
    "embedding_dense_backward": _table_gradient, "_embedding_bag": _bag, "_embedding_bag_forward_only": _bag,
    "_embedding_bag_dense_backward": _bag_gradient,
    "select_backward": _part_gradient, "slice_backward": _part_gradient, "diagonal_backward": _part_gradient,
    "nll_loss_forward": _chosen_loss, "nll_loss2d_forward": _chosen_loss,
    "nll_loss_backward": _chosen_loss_gradient, "nll_loss2d_backward": _chosen_loss_gradient,
    "native_batch_norm": _twice(0), "_native_batch_norm_legit": _twice(0), "cudnn_batch_norm": _twice(0),
    "_batch_norm_with_update": _twice(0), "native_group_norm": _twice(0),
    "native_batch_norm_backward": _twice(0, 1), "cudnn_batch_norm_backward": _twice(0, 1),
    "batch_norm_backward": _twice(0, 1), "native_group_norm_backward": _twice(0, 1),
}

# A compiler writes the results of these operations to memory, and does not fuse the operations before them into
# them.
_ALONE = {
    "_cdist_backward", "_cdist_forward", "_fft_c2c", "_fft_c2r", "_fft_r2c", "_index_put_impl",
    "_local_scalar_dense", "_unique2", "adaptive_max_pool2d", "avg_pool2d_backward", "bincount", "cummax",
    "cummin", "cumprod", "cumsum", "histc", "index_add", "index_copy", "index_fill", "index_put",
    "index_reduce", "kthvalue", "logcumsumexp", "masked_scatter", "masked_select",
    "max_pool2d_with_indices_backward", "median", "mode", "multinomial", "nonzero", "randperm",
    "repeat_interleave", "scatter", "scatter_add", "scatter_reduce", "sort", "topk", "unique_consecutive",
    "unique_dim", "upsample_bicubic2d_backward", "upsample_bilinear2d_backward",
}
_ALONE |= {name for name in _MEMORY if "bag" in name} | {"embedding_dense_backward"}


def can_fuse(func: Any) -> bool:
    """Whether a compiler computes an operation in one kernel with its neighbours."""
    facts = _facts_of(func)
    return facts.short not in _PRODUCTS and facts.short not in _ALONE


def is_product(name: str) -> bool:
    """Whether an operation, by its name as "aten::bmm", has a row among products, convolutions and attention."""
    return name.rpartition("::")[2] in _PRODUCTS


def kernels_of(func: Any, args: Sequence[Any], kwargs: Dict[str, Any], out: Any) -> List[Kernel]:
    """The kernels that one call of an ATen operation runs.

    `func` is the overload that a `TorchDispatchMode` is handed, `args`, `kwargs` its arguments and
    `out` its result. Views and operations on metadata run none.
    """
    facts = _facts_of(func)
    if facts.free:
        return []
    row = _PRODUCTS.get(facts.short)
    if row is not None:
        return row(facts.name, args, kwargs, out)
    special = _MEMORY.get(facts.short)
    if special is not None:
        return [Kernel(facts.name, "memory", special(args, out, facts))]
    if not facts.written:
        return [Kernel(facts.name, "memory", _sum([args, kwargs]) + _sum([out]))]
    written = _sum(written_by(func, args, kwargs))
    read = _sum([args, kwargs])
    return [Kernel(facts.name, "memory", read if facts.overwrites else read + written)]
