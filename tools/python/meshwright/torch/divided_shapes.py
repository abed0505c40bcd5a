"""How each operation treats operands of which every rank of a tensor group has a part (see dividing.py).

A rule writes the call with operands as it needs them, and says of which axis of the result each rank has a part.
An operation without a rule needs whole operands: a part of the sequence is gathered for it, and linear layers
whose cut reaches it stay whole.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from .dividing import Part, Placing, WantsParts, size_of, word_of
from .exporting import Call, Ref
from .on_tensor_ranks import attention_of_own_heads, dropout_of_own_part
from .replay import values_in

__all__ = ["placed"]

_aten = torch.ops.aten
Rule = Callable[[Placing, Call], None]


def placed(p: Placing, call: Call) -> None:
    """Writes a call at least one of whose operands is a part."""
    rule = _rule_of(call)
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
    again = call._replace(args=_changed(call.args, whole), kwargs=_changed(call.kwargs, whole))
    if of_layers:
        if rule is None:
            raise p.conflict("{} needs whole rows".format(call.target))
        return rule(p, again)
    p.emit(again)
    return None


def _changed(args: Any, change: Callable[[int], Optional[Ref]]) -> Any:
    """Arguments in which some values are replaced."""
    if isinstance(args, Ref):
        return change(args.value) or args
    if isinstance(args, (list, tuple)):
        return type(args)(_changed(each, change) for each in args)
    if isinstance(args, dict):
        return {name: _changed(each, change) for name, each in args.items()}
    return args


# ---------------------------------------------------------------------------------------------
# Operands and axes, as the rules need them.


def _positive(axis: int, dims: int) -> int:
    return axis + dims if axis < 0 else axis


def _argument(call: Call, name: str, default: Any = None) -> Any:
    """An argument of an operation by its name."""
    for place, each in enumerate(call.target._schema.arguments):
        if each.name == name:
            if name in call.kwargs:
                return call.kwargs[name]
            return call.args[place] if place < len(call.args) else each.default_value
    return default


def _x(p: Placing, call: Call) -> Tuple[int, Part]:
    """The first operand of an operation of which it alone may be a part."""
    first = call.args[0]
    if not isinstance(first, Ref) or not isinstance(p.state(first.value), Part):
        raise p.conflict("{} takes another operand whole".format(call.target))
    for value in values_in((call.args[1:], call.kwargs)):
        if isinstance(p.state(value), (Part, list)):
            raise p.conflict("{} takes parts of several operands".format(call.target))
    return first.value, p.state(first.value)


def _moved(part: Part, axis: int) -> Part:
    return part._replace(axis=axis)


def _with(call: Call, **changes: Any) -> Call:
    """A call with other values of some named arguments."""
    args, kwargs = list(call.args), dict(call.kwargs)
    for place, each in enumerate(call.target._schema.arguments):
        if each.name in changes:
            if each.name in kwargs or place >= len(args):
                kwargs[each.name] = changes[each.name]
            else:
                args[place] = changes[each.name]
    return call._replace(args=tuple(args), kwargs=kwargs)


def _shared(p: Placing, call: Call, axis_of: Callable[[int], int], part: Part) -> Call:
    """The call with whole operands as parts: those that have the axis are cut, those that repeat on it stay whole.

    `axis_of` gives the axis of an operand that corresponds to the part's axis of the result.
    """
    length = sum(part.parts)

    def change(value: int) -> Optional[Ref]:
        if not p.is_tensor(value):
            return None
        state, axis = p.state(value), axis_of(value)
        if isinstance(state, Part):
            if state.axis != axis or state.parts != part.parts:
                raise p.conflict("{} takes parts that differ".format(call.target))
            return None
        shape = p.shape(value)
        if axis < 0 or shape[axis] == 1:
            return p.whole(value, same_gradient=False)
        if shape[axis] != length:
            raise p.conflict("{} takes operands of different lengths".format(call.target))
        return p.share(value, axis, part.parts)

    return call._replace(args=_changed(call.args, change), kwargs=_changed(call.kwargs, change))


def _part_of_result(p: Placing, call: Call, dims: int) -> Part:
    """The part of an element-wise result: axes of operands are counted from the last one."""
    for value in values_in((call.args, call.kwargs)):
        state = p.state(value)
        if isinstance(state, Part):
            found = _moved(state, state.axis + dims - len(p.shape(value)))
            return found._replace(origins=p.origins())
    raise p.conflict("no operand is a part")


# ---------------------------------------------------------------------------------------------
# The rules.


def _elementwise(p: Placing, call: Call) -> None:
    dims = len(p.shape(call.result))
    part = _part_of_result(p, call, dims)
    p.emit(_shared(p, call, lambda value: part.axis - dims + len(p.shape(value)), part), part)


def _dropout(p: Placing, call: Call) -> None:
    x, part = _x(p, call)
    share, train = call.args[1:3]
    p.emit(call._replace(target=dropout_of_own_part,
                         args=(call.args[0], share, train, part.axis, part.parts, p.degree, p.order(x)),
                         kwargs={}), part)


def _getitem(p: Placing, call: Call) -> None:
    states = p.state(call.args[0].value)
    p.emit(call, states[call.args[1]] if isinstance(states, list) else states)


def _transpose(p: Placing, call: Call) -> None:
    x, part = _x(p, call)
    dims = len(p.shape(x))
    given = call.args[1:3] if len(call.args) > 2 else (-2, -1)
    one, other = (_positive(each, dims) for each in given)
    p.emit(call, _moved(part, {one: other, other: one}.get(part.axis, part.axis)))


def _permute(p: Placing, call: Call) -> None:
    x, part = _x(p, call)
    order = [_positive(each, len(p.shape(x))) for each in call.args[1]]
    p.emit(call, _moved(part, order.index(part.axis)))


def _movedim(p: Placing, call: Call) -> None:
    x, part = _x(p, call)
    order = torch.movedim(torch.empty(tuple(range(1, len(p.shape(x)) + 1)), device="meta"), *call.args[1:]).shape
    p.emit(call, _moved(part, [size - 1 for size in order].index(part.axis)))


def _unsqueeze(p: Placing, call: Call) -> None:
    x, part = _x(p, call)
    axis = _positive(call.args[1], len(p.shape(x)) + 1)
    p.emit(call, _moved(part, part.axis + (axis <= part.axis)))


def _squeeze(p: Placing, call: Call) -> None:
    x, part = _x(p, call)
    shape = p.shape(x)
    axes = _argument(call, "dim")
    gone = ([axis for axis, size in enumerate(shape) if size == 1] if axes is None else
            [_positive(axis, len(shape)) for axis in (axes if isinstance(axes, (list, tuple)) else [axes])])
    p.emit(call, _moved(part, part.axis - sum(axis < part.axis and shape[axis] == 1 for axis in gone)))


def _over_axes(name: str) -> Rule:
    """Reductions, softmaxes, running sums: over axes of which every rank has all."""
    def rule(p: Placing, call: Call) -> None:
        x, part = _x(p, call)
        dims, given = len(p.shape(x)), _argument(call, name)
        if given is None or given == []:
            raise p.conflict("{} goes over all axes".format(call.target))
        axes = [_positive(axis, dims) for axis in (given if isinstance(given, (list, tuple)) else [given])]
        if part.axis in axes:
            raise p.conflict("{} goes over the axis that is cut".format(call.target))
        results = call.sizes if isinstance(call.sizes, (list, tuple)) else [call.sizes]
        kept = results[0].dim() == dims
        state = part if kept else _moved(part, part.axis - sum(axis < part.axis for axis in axes))
        p.emit(call, [state] * len(results) if isinstance(call.sizes, (list, tuple)) else state)

    return rule


def _select(p: Placing, call: Call) -> None:
    x, part = _x(p, call)
    axis = _positive(call.args[1], len(p.shape(x)))
    if axis == part.axis:
        raise p.conflict("one place of the axis that is cut is selected")
    p.emit(call, _moved(part, part.axis - (axis < part.axis)))


def _norm(p: Placing, call: Call) -> None:
    """Norms over the last axes, whose weights are whole."""
    value, part = _x(p, call)
    if part.axis >= len(p.shape(value)) - len(_argument(call, "normalized_shape")):
        raise p.conflict("a norm is over the axis that is cut")
    change = lambda each: None if each == value else p.whole(each, same_gradient=False)
    p.emit(call._replace(args=_changed(call.args, change), kwargs=_changed(call.kwargs, change)), part)


def _concatenation(p: Placing, call: Call) -> None:
    stacks = word_of(call) == "stack"
    axis = _positive(_argument(call, "dim") or 0, len(p.shape(call.result)))
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

    moved = _moved(part, part.axis + (stacks and axis <= part.axis))
    p.emit(call._replace(args=_changed(call.args, change)), moved)


# -- views with other axes


def _groups(before: Sequence[int], after: Sequence[int]) -> List[Tuple[List[int], List[int]]]:
    """Axes of two shapes of one size that hold the same elements, in groups as small as possible."""
    found: List[Tuple[List[int], List[int]]] = []
    i = j = 0
    while i < len(before) or j < len(after):
        ins, outs, first, second = [], [], 1, 1
        while (not ins and not outs) or first != second:
            if i < len(before) and (not ins or first < second or j == len(after)):
                first *= before[i]
                ins.append(i)
                i += 1
            elif j < len(after):
                second *= after[j]
                outs.append(j)
                j += 1
            else:
                break
        found.append((ins, outs))
    return found


def _factors(before: Sequence[int], after: Sequence[int]) -> List[int]:
    """The sizes of the axes into which both shapes can be taken apart, from the outermost one; [] if there are none."""
    bounds = {1}
    for sizes in (before, after):
        product = 1
        for size in sizes:
            product *= size
            bounds.add(product)
    ordered = sorted(bounds)
    if any(larger % smaller for smaller, larger in zip(ordered, ordered[1:])):
        return []
    return [larger // smaller for smaller, larger in zip(ordered, ordered[1:])]


def _runs(factors: Sequence[int], sizes: Sequence[int]) -> List[range]:
    """By size: the places of its factors."""
    found, place = [], 0
    for size in sizes:
        begin, product = place, 1
        while product < size:
            product *= factors[place]
            place += 1
        found.append(range(begin, place))
    return found


def _reshaped(p: Placing, part: Part, before: Sequence[int], after: Sequence[int]) -> Part:
    """Where a part's axis is in another shape of the same elements."""
    ins, outs = next(group for group in _groups(before, after) if part.axis in group[0])
    ins, outs = [axis for axis in ins if before[axis] != 1], [axis for axis in outs if after[axis] != 1]
    factors = _factors([before[axis] for axis in ins], [after[axis] for axis in outs])
    if not factors:
        raise p.conflict("a view mixes axes")
    own = _runs(factors, [before[axis] for axis in ins])[ins.index(part.axis)]
    place, parts = _split(p, part, own, factors)
    axis, run = next((axis, run) for axis, run in zip(outs, _runs(factors, [after[axis] for axis in outs]))
                     if place in run)
    lead = inner = 1
    for each in run:
        lead *= factors[each] if each < place else 1
        inner *= factors[each] if each > place else 1
    if lead > 1 and (len(parts) > 1 or part.is_of_sequence):
        raise p.conflict("a view mixes parts")
    return Part(axis, tuple(each * inner for each in parts) * lead, part.origins)


def _split(p: Placing, part: Part, run: range, factors: Sequence[int]) -> Tuple[int, Tuple[int, ...]]:
    """One axis becomes several: the outer one is cut, or the next one where the outer one counts the parts.

    Returns the place of the factor that is cut, and its parts.
    """
    first = run[0]
    if len(run) == 1:
        return first, part.parts
    whole, outer, next_one = sum(part.parts), factors[first], factors[first + 1]
    if len(part.parts) == 1 and outer % p.degree == 0:
        return first, (outer,)
    if next_one % p.degree == 0:
        if part.parts == (whole // outer,) * outer:
            return first + 1, (next_one,)
        if len(part.parts) == 1:
            raise WantsParts(p.of_linear(part), range(0, whole + 1, whole // outer))
    raise p.conflict("the tensor degree does not divide the axes of a view")


def _view(p: Placing, call: Call) -> None:
    x, part = _x(p, call)
    before, after = p.shape(x), p.shape(call.result)
    state = _reshaped(p, part, before, after)
    p.emit(_local_sizes(p, call, state, after), state)


def _local_sizes(p: Placing, call: Call, state: Part, after: Sequence[int]) -> Call:
    """The call of a view whose list of sizes has the share of one rank."""
    name = next((each for each in ("size", "shape", "sizes") if _argument(call, each) is not None), None)
    if name is None:
        return call
    sizes = list(_argument(call, name))
    place = state.axis
    if word_of(call) == "unflatten":
        place -= _positive(call.args[1], len(after) - len(sizes) + 1)
        if not 0 <= place < len(sizes):
            return call
    if sizes[place] == -1:
        return call
    if -1 not in sizes:
        sizes[place] = -1
    elif isinstance(sizes[place], int):
        sizes[place] //= p.degree
    else:
        raise p.conflict("a view's size depends on the batch")
    return _with(call, **{name: sizes})


def _expand(p: Placing, call: Call) -> None:
    x, part = _x(p, call)
    shape, sizes = p.shape(x), list(call.args[1])
    axis = part.axis + len(sizes) - len(shape)
    sizes[axis] = -1
    p.emit(_with(call, size=sizes), _moved(part, axis))


def _repeat(p: Placing, call: Call) -> None:
    x, part = _x(p, call)
    counts = call.args[1]
    axis = part.axis + len(counts) - len(p.shape(x))
    if counts[axis] != 1:
        raise p.conflict("the axis that is cut is repeated")
    p.emit(call, _moved(part, axis))


def _repeat_each(p: Placing, call: Call) -> None:
    x, part = _x(p, call)
    axis = _argument(call, "dim")
    if axis is None or _argument(call, "output_size") is not None:
        raise p.conflict("repeated elements are counted over all ranks")
    axis = _positive(axis, len(p.shape(x)))
    times = call.args[1]
    grown = tuple(each * times for each in part.parts) if axis == part.axis else part.parts
    p.emit(call, part._replace(parts=grown))


# -- pieces of an axis


def _bounds(sizes: Sequence[int]) -> List[int]:
    found = [0]
    for size in sizes:
        found.append(found[-1] + size)
    return found


def _pieces(p: Placing, call: Call) -> None:
    """split, chunk, unbind and the like."""
    x, part = _x(p, call)
    axis = _positive(_argument(call, "dim") or 0, len(p.shape(x)))
    results = call.sizes
    if word_of(call) == "unbind":
        if axis == part.axis:
            raise p.conflict("the axis that is cut is taken apart")
        return p.emit(call, [_moved(part, part.axis - (axis < part.axis))] * len(results))
    if axis != part.axis:
        return p.emit(call, [part] * len(results))
    sizes = [size_of(each.shape[axis]) for each in results]
    if list(part.parts) != sizes:
        raise WantsParts(p.of_linear(part), _bounds(sizes))
    local = [size // p.degree for size in sizes]
    return p.emit(call._replace(target=_aten.split_with_sizes.default, args=(call.args[0], local, axis), kwargs={}),
                  [Part(axis, (size,), part.origins) for size in sizes])


def _slice(p: Placing, call: Call) -> None:
    x, part = _x(p, call)
    shape = p.shape(x)
    axis = _positive(_argument(call, "dim") or 0, len(shape))
    if axis != part.axis:
        return p.emit(call, part)
    begin, end = _range(call, shape[axis])
    if (begin, end) == (0, shape[axis]):
        return p.emit(call, part)
    bounds = _bounds(part.parts)
    if begin not in bounds or end not in bounds or _argument(call, "step", 1) not in (None, 1):
        raise WantsParts(p.of_linear(part), [begin, end])
    first, last = bounds.index(begin), bounds.index(end)
    return p.emit(call._replace(target=_aten.slice.Tensor, args=(
        call.args[0], axis, begin // p.degree, end // p.degree), kwargs={}), part._replace(parts=part.parts[first:last]))


def _range(call: Call, length: int) -> Tuple[int, int]:
    if word_of(call) == "narrow":
        begin, count = call.args[2:4]
        return _positive(begin, length), _positive(begin, length) + count
    begin, end = _argument(call, "start"), _argument(call, "end")
    begin = 0 if begin is None else max(0, _positive(begin, length))
    end = length if end is None else min(length, _positive(end, length))
    return begin, end


def _gate(p: Placing, call: Call) -> None:
    """The first half of an axis times a function of the second."""
    x, part = _x(p, call)
    shape = p.shape(x)
    if _positive(_argument(call, "dim"), len(shape)) != part.axis:
        return p.emit(call, part)
    half = shape[part.axis] // 2
    if part.parts != (half, half):
        raise WantsParts(p.of_linear(part), [0, half, 2 * half])
    return p.emit(call, part._replace(parts=(half,)))


# -- products and attention


def _product(p: Placing, call: Call) -> None:
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
        return p.emit(_shared(p, call, lambda value: axis - dims + len(p.shape(value)), part), part)
    rows, one = axis == dims - 2, a if axis == dims - 2 else b
    other = b if rows else a
    if first or state is not p.state(one) or isinstance(p.state(other), Part):
        raise p.conflict("a product sums over the axis that is cut")
    change = lambda value: p.whole(value, same_gradient=False) if value == other else None
    return p.emit(call._replace(args=_changed(call.args, change)), part)


def _attention(p: Placing, call: Call) -> None:
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
        if shape[at] % p.degree:
            raise p.conflict("the tensor degree does not divide the heads of keys and values")
        return p.share(each, at, (shape[at],))

    local = call._replace(args=_changed(call.args, change), kwargs=_changed(call.kwargs, change))
    heads = p.shape(query)[axis]
    drops = _argument(call, "dropout_p") or 0
    if drops:
        if axis != 1 or dims != 4:
            raise p.conflict("attention with dropout over merged heads")
        local = local._replace(target=attention_of_own_heads,
                               kwargs=dict(local.kwargs, parts=(heads,), degree=p.degree))
    p.emit(local, Part(axis, state.parts if dims != 4 else (heads,), origins))


def _einsum(p: Placing, call: Call) -> None:
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
    p.emit(_shared(p, call, lambda value: places[value], part), part)


def _linear(p: Placing, call: Call) -> None:
    """A linear layer of each place of an axis that is cut, such as one of each head."""
    x, part = _x(p, call)
    if part.is_of_sequence or part.axis == len(p.shape(x)) - 1:
        raise p.conflict("a linear layer that is not cut needs whole rows")
    change = lambda value: None if value == x else p.whole(value, same_gradient=False)
    p.emit(call._replace(args=_changed(call.args, change), kwargs=_changed(call.kwargs, change)), part)


def _size(p: Placing, call: Call) -> None:
    x, part = _x(p, call)
    if call.args[1] == part.axis:
        raise p.conflict("the size of the axis that is cut is used")
    p.emit(call)


def _triangle(p: Placing, call: Call) -> None:
    x, part = _x(p, call)
    if part.axis >= len(p.shape(x)) - 2:
        raise p.conflict("a triangle of an axis that is cut")
    p.emit(call, part)


def _pad(p: Placing, call: Call) -> None:
    x, part = _x(p, call)
    widths = call.args[1]
    if part.axis >= len(p.shape(x)) - len(widths) // 2:
        raise p.conflict("the axis that is cut is padded")
    p.emit(call, part)


def _complex_view(p: Placing, call: Call) -> None:
    """view_as_complex takes a last axis of two away, view_as_real adds one."""
    x, part = _x(p, call)
    if word_of(call) == "view_as_complex" and part.axis == len(p.shape(x)) - 1:
        raise p.conflict("numbers are cut in halves")
    p.emit(call, part)


_RULES: Dict[str, Rule] = {
    "transpose": _transpose, "t": _transpose, "mT": _transpose, "swapaxes": _transpose, "permute": _permute, "movedim": _movedim,
    "unsqueeze": _unsqueeze, "squeeze": _squeeze, "select": _select, "layer_norm": _norm, "rms_norm": _norm,
    "cat": _concatenation, "concat": _concatenation, "stack": _concatenation, "view": _view, "reshape": _view, "_unsafe_view": _view,
    "flatten": _view, "unflatten": _view, "expand": _expand, "repeat": _repeat, "repeat_interleave": _repeat_each,
    "split": _pieces, "split_with_sizes": _pieces, "chunk": _pieces, "unbind": _pieces, "tensor_split": _pieces,
    "slice": _slice, "narrow": _slice, "glu": _gate, "matmul": _product, "bmm": _product, "mm": _product,
    "baddbmm": _product, "scaled_dot_product_attention": _attention, "einsum": _einsum, "tril": _triangle, "triu": _triangle,
    "pad": _pad, "constant_pad_nd": _pad, "view_as_complex": _complex_view, "view_as_real": _complex_view,
    "linear": _linear, "sym_size": _size, "dropout": _dropout, "getitem": _getitem,
}
_RULES.update({name: _over_axes("dim") for name in (
    "mean", "sum", "softmax", "_softmax", "log_softmax", "amax", "amin", "var", "std", "var_mean", "logsumexp",
    "cumsum", "cumprod", "prod", "any", "all", "argmax", "max", "min", "linalg_vector_norm", "norm")})
_RULES.update({name: _over_axes("dims") for name in ("flip", "roll")})
# Operations on elements that PyTorch does not mark as such.
_ELEMENTWISE = {"to", "_to_copy", "contiguous", "clone", "detach", "detach_", "alias", "relu6", "selu", "celu", "square",
                "where", "true_divide", "multiply", "subtract", "divide", "softplus", "log_sigmoid", "masked_fill",
                "silu", "gelu", "relu", "hardswish", "hardsigmoid", "hardtanh", "prelu", "mish", "float_power",
                "type_as", "lift_fresh_copy"}


def _rule_of(call: Call) -> Optional[Rule]:
    rule = _RULES.get(word_of(call))
    if rule is not None:
        return rule
    tags = getattr(call.target, "tags", ())
    if torch.Tag.nondeterministic_seeded in tags:
        return None
    return _elementwise if torch.Tag.pointwise in tags or word_of(call) in _ELEMENTWISE else None
