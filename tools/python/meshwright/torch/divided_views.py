"""Rules of views and pieces of tensors of which every rank of a tensor group has a part."""

from __future__ import annotations

from typing import List, Sequence, Tuple

import torch

from .divided_operands import argument, moved, only_part, positive, with_arguments
from .dividing import Part, Placing, WantsParts, size_of, word_of
from .exporting import Call

__all__ = ["expand_rule", "gate_rule", "movedim_rule", "permute_rule", "pieces_rule", "repeat_each_rule", "repeat_rule", "select_rule", "slice_rule", "squeeze_rule", "transpose_rule", "unsqueeze_rule", "view_rule"]

_aten = torch.ops.aten


def transpose_rule(p: Placing, call: Call) -> None:
    x, part = only_part(p, call)
    dims = len(p.shape(x))
    given = call.args[1:3] if len(call.args) > 2 else (-2, -1)
    one, other = (positive(each, dims) for each in given)
    p.emit(call, moved(part, {one: other, other: one}.get(part.axis, part.axis)))


def permute_rule(p: Placing, call: Call) -> None:
    x, part = only_part(p, call)
    order = [positive(each, len(p.shape(x))) for each in call.args[1]]
    p.emit(call, moved(part, order.index(part.axis)))


def movedim_rule(p: Placing, call: Call) -> None:
    x, part = only_part(p, call)
    order = torch.movedim(torch.empty(tuple(range(1, len(p.shape(x)) + 1)), device="meta"), *call.args[1:]).shape
    p.emit(call, moved(part, [size - 1 for size in order].index(part.axis)))


def unsqueeze_rule(p: Placing, call: Call) -> None:
    x, part = only_part(p, call)
    axis = positive(call.args[1], len(p.shape(x)) + 1)
    p.emit(call, moved(part, part.axis + (axis <= part.axis)))


def squeeze_rule(p: Placing, call: Call) -> None:
    x, part = only_part(p, call)
    shape = p.shape(x)
    axes = argument(call, "dim")
    gone = ([axis for axis, size in enumerate(shape) if size == 1] if axes is None else
            [positive(axis, len(shape)) for axis in (axes if isinstance(axes, (list, tuple)) else [axes])])
    p.emit(call, moved(part, part.axis - sum(axis < part.axis and shape[axis] == 1 for axis in gone)))


def select_rule(p: Placing, call: Call) -> None:
    x, part = only_part(p, call)
    axis = positive(call.args[1], len(p.shape(x)))
    if axis == part.axis:
        raise p.conflict("one place of the axis that is cut is selected")
    p.emit(call, moved(part, part.axis - (axis < part.axis)))


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


def view_rule(p: Placing, call: Call) -> None:
    x, part = only_part(p, call)
    before, after = p.shape(x), p.shape(call.result)
    state = _reshaped(p, part, before, after)
    p.emit(_local_sizes(p, call, state, after), state)


def _local_sizes(p: Placing, call: Call, state: Part, after: Sequence[int]) -> Call:
    """The call of a view whose list of sizes has the share of one rank."""
    name = next((each for each in ("size", "shape", "sizes") if argument(call, each) is not None), None)
    if name is None:
        return call
    sizes = list(argument(call, name))
    place = state.axis
    if word_of(call) == "unflatten":
        place -= positive(call.args[1], len(after) - len(sizes) + 1)
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
    return with_arguments(call, **{name: sizes})


def expand_rule(p: Placing, call: Call) -> None:
    x, part = only_part(p, call)
    shape, sizes = p.shape(x), list(call.args[1])
    axis = part.axis + len(sizes) - len(shape)
    sizes[axis] = -1
    p.emit(with_arguments(call, size=sizes), moved(part, axis))


def repeat_rule(p: Placing, call: Call) -> None:
    x, part = only_part(p, call)
    counts = call.args[1]
    axis = part.axis + len(counts) - len(p.shape(x))
    if counts[axis] != 1:
        raise p.conflict("the axis that is cut is repeated")
    p.emit(call, moved(part, axis))


def repeat_each_rule(p: Placing, call: Call) -> None:
    x, part = only_part(p, call)
    axis = argument(call, "dim")
    if axis is None or argument(call, "output_size") is not None:
        raise p.conflict("repeated elements are counted over all ranks")
    axis = positive(axis, len(p.shape(x)))
    times = call.args[1]
    grown = tuple(each * times for each in part.parts) if axis == part.axis else part.parts
    p.emit(call, part._replace(parts=grown))


# -- pieces of an axis


def _bounds(sizes: Sequence[int]) -> List[int]:
    found = [0]
    for size in sizes:
        found.append(found[-1] + size)
    return found


def pieces_rule(p: Placing, call: Call) -> None:
    """split, chunk, unbind and the like."""
    x, part = only_part(p, call)
    axis = positive(argument(call, "dim") or 0, len(p.shape(x)))
    results = call.sizes
    if word_of(call) == "unbind":
        if axis == part.axis:
            raise p.conflict("the axis that is cut is taken apart")
        return p.emit(call, [moved(part, part.axis - (axis < part.axis))] * len(results))
    if axis != part.axis:
        return p.emit(call, [part] * len(results))
    sizes = [size_of(each.shape[axis]) for each in results]
    if list(part.parts) != sizes:
        raise WantsParts(p.of_linear(part), _bounds(sizes))
    local = [size // p.degree for size in sizes]
    return p.emit(call._replace(target=_aten.split_with_sizes.default, args=(call.args[0], local, axis), kwargs={}),
                  [Part(axis, (size,), part.origins) for size in sizes])


def slice_rule(p: Placing, call: Call) -> None:
    x, part = only_part(p, call)
    shape = p.shape(x)
    axis = positive(argument(call, "dim") or 0, len(shape))
    if axis != part.axis:
        return p.emit(call, part)
    begin, end = _range(call, shape[axis])
    if (begin, end) == (0, shape[axis]):
        return p.emit(call, part)
    bounds = _bounds(part.parts)
    if begin not in bounds or end not in bounds or argument(call, "step", 1) not in (None, 1):
        raise WantsParts(p.of_linear(part), [begin, end])
    first, last = bounds.index(begin), bounds.index(end)
    return p.emit(call._replace(target=_aten.slice.Tensor, args=(
        call.args[0], axis, begin // p.degree, end // p.degree), kwargs={}), part._replace(parts=part.parts[first:last]))


def _range(call: Call, length: int) -> Tuple[int, int]:
    if word_of(call) == "narrow":
        begin, count = call.args[2:4]
        return positive(begin, length), positive(begin, length) + count
    begin, end = argument(call, "start"), argument(call, "end")
    begin = 0 if begin is None else max(0, positive(begin, length))
    end = length if end is None else min(length, positive(end, length))
    return begin, end


def gate_rule(p: Placing, call: Call) -> None:
    """The first half of an axis times a function of the second."""
    x, part = only_part(p, call)
    shape = p.shape(x)
    if positive(argument(call, "dim"), len(shape)) != part.axis:
        return p.emit(call, part)
    half = shape[part.axis] // 2
    if part.parts != (half, half):
        raise WantsParts(p.of_linear(part), [0, half, 2 * half])
    return p.emit(call, part._replace(parts=(half,)))
