"""How each operation treats operands of which every rank of a tensor group has a part (see dividing.py).

A rule writes the call with operands as it needs them, and says of which axis of the result each rank has a part.
An operation without a rule needs whole operands: a part of the sequence is gathered for it, and linear layers
whose cut reaches it stay whole.
"""

from __future__ import annotations

from typing import Callable, Dict, Optional

import torch

from .divided_operands import argument, changed, moved, only_part, part_of_result, positive, with_shares
from .divided_products import attention_rule, einsum_rule, linear_rule, product_rule
from .divided_views import (expand_rule, gate_rule, movedim_rule, permute_rule, pieces_rule,
                            repeat_each_rule, repeat_rule, select_rule, slice_rule, squeeze_rule,
                            transpose_rule, unsqueeze_rule, view_rule)
from .dividing import Part, Placing, word_of
from .exporting import Call, Ref
from .on_tensor_ranks import dropout_of_own_part
from .replay import values_in

__all__ = ["placed"]

Rule = Callable[[Placing, Call], None]


def placed(p: Placing, call: Call) -> None:
    """Writes a call at least one of whose operands is a part."""
    rule = None if _writes_whole(p, call) else _rule_of(call)
    states = [p.state(value) for value in values_in((call.args, call.kwargs))]
    parts = [each for each in states if isinstance(each, Part)]
    of_layers = [each for each in parts if not each.is_of_sequence]
    if rule is not None and not (parts and of_layers and len(parts) > len(of_layers)):
        if of_layers or any(isinstance(each, list) for each in states):
            return rule(p, call)
        if p.fits_sequence(lambda: rule(p, call)):
            return None
    if of_layers and len(parts) == len(of_layers):
        raise p.conflict("{} needs whole rows".format(call.target))
    whole = lambda value: p.whole(value) if isinstance(p.state(value), Part) and p.state(value).is_of_sequence else None
    again = call._replace(args=changed(call.args, whole), kwargs=changed(call.kwargs, whole))
    if of_layers:
        if rule is None:
            raise p.conflict("{} needs whole rows".format(call.target))
        return rule(p, again)
    p.emit(again)
    return None


# ---------------------------------------------------------------------------------------------
# The rules.


def _elementwise(p: Placing, call: Call) -> None:
    dims = len(p.shape(call.result))
    part = part_of_result(p, call, dims)
    p.emit(with_shares(p, call, lambda value: part.axis - dims + len(p.shape(value)), part), part)


def _dropout(p: Placing, call: Call) -> None:
    x, part = only_part(p, call)
    p.check_parts(x, part.axis, part.parts)
    share, train = call.args[1:3]
    p.emit(call._replace(target=dropout_of_own_part,
                         args=(call.args[0], share, train, part.axis, part.parts, p.degree, p.order(x)),
                         kwargs={}), part)


def _getitem(p: Placing, call: Call) -> None:
    states = p.state(call.args[0].value)
    p.emit(call, states[call.args[1]] if isinstance(states, list) else states)


def _over_axes(name: str) -> Rule:
    """Reductions, softmaxes, running sums: over axes of which every rank has all."""
    def rule(p: Placing, call: Call) -> None:
        x, part = only_part(p, call)
        dims, given = len(p.shape(x)), argument(call, name)
        if given is None or given == []:
            raise p.conflict("{} goes over all axes".format(call.target))
        axes = [positive(axis, dims) for axis in (given if isinstance(given, (list, tuple)) else [given])]
        if part.axis in axes:
            raise p.conflict("{} goes over the axis that is cut".format(call.target))
        results = call.sizes if isinstance(call.sizes, (list, tuple)) else [call.sizes]
        kept = results[0].dim() == dims
        state = part if kept else moved(part, part.axis - sum(axis < part.axis for axis in axes))
        p.emit(call, [state] * len(results) if isinstance(call.sizes, (list, tuple)) else state)

    return rule


def _norm(p: Placing, call: Call) -> None:
    """Norms over the last axes, whose weights are whole."""
    value, part = only_part(p, call)
    if part.axis >= len(p.shape(value)) - len(argument(call, "normalized_shape")):
        raise p.conflict("a norm is over the axis that is cut")
    change = lambda each: None if each == value else p.whole(each, same_gradient=False)
    p.emit(call._replace(args=changed(call.args, change), kwargs=changed(call.kwargs, change)), part)


def _concatenation(p: Placing, call: Call) -> None:
    stacks = word_of(call) == "stack"
    axis = positive(argument(call, "dim") or 0, len(p.shape(call.result)))
    listed = [each.value for each in call.args[0]]
    part = next(p.state(value) for value in listed if isinstance(p.state(value), Part))._replace(origins=p.origins())
    if axis == part.axis and not stacks:
        raise p.conflict("parts are joined along the axis that is cut")

    def change(value: int) -> Optional[Ref]:
        state = p.state(value)
        if isinstance(state, Part):
            if state.axis != part.axis or state.parts != part.parts:
                raise p.conflict("parts that differ are joined")
            return None
        return None if p.shape(value) == (0,) else p.share(value, part.axis, part.parts)

    after = moved(part, part.axis + (stacks and axis <= part.axis))
    p.emit(call._replace(args=changed(call.args, change)), after)


def _size(p: Placing, call: Call) -> None:
    x, part = only_part(p, call)
    if call.args[1] == part.axis:
        raise p.conflict("the size of the axis that is cut is used")
    p.emit(call)


def _triangle(p: Placing, call: Call) -> None:
    x, part = only_part(p, call)
    if part.axis >= len(p.shape(x)) - 2:
        raise p.conflict("a triangle of an axis that is cut")
    p.emit(call, part)


def _pad(p: Placing, call: Call) -> None:
    x, part = only_part(p, call)
    widths = call.args[1]
    if part.axis >= len(p.shape(x)) - len(widths) // 2:
        raise p.conflict("the axis that is cut is padded")
    p.emit(call, part)


def _complex_view(p: Placing, call: Call) -> None:
    """view_as_complex takes a last axis of two away, view_as_real adds one."""
    x, part = only_part(p, call)
    if word_of(call) == "view_as_complex" and part.axis == len(p.shape(x)) - 1:
        raise p.conflict("numbers are cut in halves")
    p.emit(call, part)


_RULES: Dict[str, Rule] = {
    "transpose": transpose_rule, "t": transpose_rule, "mT": transpose_rule, "swapaxes": transpose_rule, "permute": permute_rule, "movedim": movedim_rule,
    "unsqueeze": unsqueeze_rule, "squeeze": squeeze_rule, "select": select_rule, "layer_norm": _norm, "rms_norm": _norm,
    "cat": _concatenation, "concat": _concatenation, "stack": _concatenation, "view": view_rule, "reshape": view_rule, "_unsafe_view": view_rule,
    "flatten": view_rule, "unflatten": view_rule, "expand": expand_rule, "repeat": repeat_rule, "repeat_interleave": repeat_each_rule,
    "split": pieces_rule, "split_with_sizes": pieces_rule, "chunk": pieces_rule, "unbind": pieces_rule, "tensor_split": pieces_rule,
    "slice": slice_rule, "narrow": slice_rule, "glu": gate_rule, "matmul": product_rule, "bmm": product_rule, "mm": product_rule,
    "baddbmm": product_rule, "scaled_dot_product_attention": attention_rule, "einsum": einsum_rule, "tril": _triangle, "triu": _triangle,
    "pad": _pad, "constant_pad_nd": _pad, "view_as_complex": _complex_view, "view_as_real": _complex_view,
    "linear": linear_rule, "sym_size": _size, "dropout": _dropout, "getitem": _getitem,
}
_RULES.update({name: _over_axes("dim") for name in (
    "mean", "sum", "softmax", "_softmax", "log_softmax", "amax", "amin", "var", "std", "var_mean", "logsumexp",
    "cumsum", "cumprod", "prod", "any", "all", "argmax", "max", "min", "linalg_vector_norm", "norm")})
_RULES.update({name: _over_axes("dims") for name in ("flip", "roll")})
# Operations on elements that PyTorch does not mark as such.
_ELEMENTWISE = {"to", "_to_copy", "contiguous", "clone", "detach", "detach_", "alias", "relu6", "selu", "celu", "square",
                "where", "true_divide", "multiply", "subtract", "divide", "softplus", "log_sigmoid", "masked_fill",
                "silu", "gelu", "relu", "hardswish", "hardsigmoid", "hardtanh", "mish", "float_power", "lift_fresh_copy"}


def _writes_whole(p: Placing, call: Call) -> bool:
    """Whether a call writes a whole tensor in place, which would change one part of it only."""
    mutable = getattr(getattr(call.target, "_schema", None), "is_mutable", False)
    first = call.args[0] if call.args else None
    return mutable and isinstance(first, Ref) and not isinstance(p.state(first.value), Part)


def _rule_of(call: Call) -> Optional[Rule]:
    rule = _RULES.get(word_of(call))
    if rule is not None:
        return rule
    tags = getattr(call.target, "tags", ())
    if torch.Tag.nondeterministic_seeded in tags:
        return None
    return _elementwise if torch.Tag.pointwise in tags or word_of(call) in _ELEMENTWISE else None
