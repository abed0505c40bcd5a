"""Operands and axes, as the rules of divided operations need them."""

from __future__ import annotations

from typing import Any, Callable, Optional, Tuple

from .dividing import Part, Placing
from .exporting import Call, Ref
from .replay import values_in

__all__ = ["argument", "changed", "moved", "only_part", "part_of_result", "positive", "with_arguments", "with_shares"]


def changed(args: Any, change: Callable[[int], Optional[Ref]]) -> Any:
    """Arguments in which some values are replaced."""
    if isinstance(args, Ref):
        return change(args.value) or args
    if isinstance(args, (list, tuple)):
        return type(args)(changed(each, change) for each in args)
    if isinstance(args, dict):
        return {name: changed(each, change) for name, each in args.items()}
    return args



def positive(axis: int, dims: int) -> int:
    return axis + dims if axis < 0 else axis


def argument(call: Call, name: str, default: Any = None) -> Any:
    """An argument of an operation by its name."""
    for place, each in enumerate(call.target._schema.arguments):
        if each.name == name:
            if name in call.kwargs:
                return call.kwargs[name]
            return call.args[place] if place < len(call.args) else each.default_value
    return default


def only_part(p: Placing, call: Call) -> Tuple[int, Part]:
    """The first operand of an operation of which it alone may be a part."""
    first = call.args[0]
    if not isinstance(first, Ref) or not isinstance(p.state(first.value), Part):
        raise p.conflict("{} takes another operand whole".format(call.target))
    for value in values_in((call.args[1:], call.kwargs)):
        if isinstance(p.state(value), (Part, list)):
            raise p.conflict("{} takes parts of several operands".format(call.target))
    return first.value, p.state(first.value)


def moved(part: Part, axis: int) -> Part:
    return part._replace(axis=axis)


def with_arguments(call: Call, **changes: Any) -> Call:
    """A call with other values of some named arguments."""
    args, kwargs = list(call.args), dict(call.kwargs)
    for place, each in enumerate(call.target._schema.arguments):
        if each.name in changes:
            if each.name in kwargs or place >= len(args):
                kwargs[each.name] = changes[each.name]
            else:
                args[place] = changes[each.name]
    return call._replace(args=tuple(args), kwargs=kwargs)


def with_shares(p: Placing, call: Call, axis_of: Callable[[int], int], part: Part) -> Call:
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

    return call._replace(args=changed(call.args, change), kwargs=changed(call.kwargs, change))


def part_of_result(p: Placing, call: Call, dims: int) -> Part:
    """The part of an element-wise result: axes of operands are counted from the last one."""
    for value in values_in((call.args, call.kwargs)):
        state = p.state(value)
        if isinstance(state, Part):
            found = moved(state, state.axis + dims - len(p.shape(value)))
            return found._replace(origins=p.origins())
    raise p.conflict("no operand is a part")
