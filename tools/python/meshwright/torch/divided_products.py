"""Rules of products and attention of which every rank of a tensor group has a part."""

from __future__ import annotations

from typing import Optional

from .divided_operands import argument, changed, only_part, with_shares
from .dividing import Part, Placing, word_of
from .exporting import Call, Ref
from .on_tensor_ranks import attention_of_own_heads

__all__ = ["attention_rule", "einsum_rule", "linear_rule", "product_rule"]


def product_rule(p: Placing, call: Call) -> None:
    """Products of two activations: a part of a batch axis, of rows or of columns; not of what is summed over."""
    first = 1 if word_of(call) == "baddbmm" else 0
    a, b = call.args[first].value, call.args[first + 1].value
    dims, of_a, of_b = len(p.shape(call.result)), len(p.shape(a)), len(p.shape(b))
    if of_a < 2 or of_b < 2:
        raise p.conflict("a product with a vector")
    state, side = (p.state(a), of_a) if isinstance(p.state(a), Part) else (p.state(b), of_b)
    if not isinstance(state, Part):
        raise p.conflict("a product of lists")
    axis = state.axis + dims - side
    part = Part(axis, state.parts, p.origins())
    if axis < dims - 2:
        return p.emit(with_shares(p, call, lambda value: axis - dims + len(p.shape(value)), part), part)
    rows, one = axis == dims - 2, a if axis == dims - 2 else b
    other = b if rows else a
    if first or state is not p.state(one) or isinstance(p.state(other), Part):
        raise p.conflict("a product sums over the axis that is cut")
    change = lambda value: p.whole(value, same_gradient=False) if value == other else None
    return p.emit(call._replace(args=changed(call.args, change)), part)


def attention_rule(p: Placing, call: Call) -> None:
    query, key, value = (each.value for each in call.args[:3])
    dims = len(p.shape(query))
    state = next((p.state(each) for each in (query, key, value) if isinstance(p.state(each), Part)), None)
    if state is None or state.axis >= dims - 2 or len(state.parts) > 1 and dims == 4:
        raise p.conflict("attention needs whole sequences and heads")
    axis, origins = state.axis, p.origins()

    def change(each: int) -> Optional[Ref]:
        own, shape = p.state(each), p.shape(each)
        if isinstance(own, Part):
            if own.axis != axis or len(own.parts) != len(state.parts):
                raise p.conflict("attention takes parts that differ")
            return None
        at = axis - dims + len(shape)
        if at < 0 or shape[at] == 1 and each not in (query, key, value):
            return p.whole(each, same_gradient=False)
        if len(state.parts) > 1:
            raise p.conflict("attention over merged heads takes a whole operand")
        if shape[at] % p.degree:
            raise p.conflict("the tensor degree does not divide the heads of keys and values")
        return p.share(each, at, (shape[at],))

    local = call._replace(args=changed(call.args, change), kwargs=changed(call.kwargs, change))
    heads = p.shape(query)[axis]
    drops = argument(call, "dropout_p") or 0
    if drops:
        if axis != 1 or dims != 4:
            raise p.conflict("attention with dropout over merged heads")
        local = local._replace(target=attention_of_own_heads,
                               kwargs=dict(local.kwargs, parts=(heads,), degree=p.degree))
    p.emit(local, Part(axis, state.parts if dims != 4 else (heads,), origins))


def einsum_rule(p: Placing, call: Call) -> None:
    equation, operands = call.args[0].replace(" ", ""), [each.value for each in call.args[1]]
    if "..." in equation or "->" not in equation:
        raise p.conflict("einsum with axes that are not named")
    inputs, output = equation.split("->")
    letters = inputs.split(",")
    state, names = next((p.state(value), names) for value, names in zip(operands, letters)
                        if isinstance(p.state(value), Part))
    letter = names[state.axis]
    if letter not in output:
        raise p.conflict("einsum sums over the axis that is cut")
    part = Part(output.index(letter), state.parts, p.origins())
    places = dict(zip(operands, (names.find(letter) for names in letters)))
    p.emit(with_shares(p, call, lambda value: places[value], part), part)


def linear_rule(p: Placing, call: Call) -> None:
    """A linear layer of each place of an axis that is cut, such as one of each head."""
    x, part = only_part(p, call)
    if part.is_of_sequence or part.axis == len(p.shape(x)) - 1:
        raise p.conflict("a linear layer that is not cut needs whole rows")
    change = lambda value: None if value == x else p.whole(value, same_gradient=False)
    p.emit(call._replace(args=changed(call.args, change), kwargs=changed(call.kwargs, change)), part)
