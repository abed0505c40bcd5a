"""Divides a captured program over the ranks of a tensor group.

Linear layers are cut in pairs, as Megatron-LM cuts them: the first by its outputs, the last by its inputs,
and what lies between them (attention by heads, activations, gates) works on each rank's part. A linear layer
stays whole where something on the way needs whole rows. Then the partial sums are added up over the group,
or with sequence parallelism scattered along the sequence, whose parts norms, dropout and sums of the residual
stream work on. `divided_shapes.py` says how each operation treats a part.

The result is the program of one rank. All ranks have the same one; they differ in their parameters.
"""

from __future__ import annotations

import operator
import re
from typing import Any, Callable, Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch

from .errors import CaptureError
from .exporting import Call, Program, Ref
from .on_tensor_ranks import Collective, on_first_rank, own_part
from .replay import values_in

__all__ = ["Conflict", "Cut", "Divided", "Part", "PartialSum", "Placing", "WantsParts", "divided", "size_of", "word_of"]

_aten = torch.ops.aten


class Part(NamedTuple):
    """A value of which each rank has its share of one axis: of each of the `parts` that lie on it.

    `origins` are the calls of the linear layers whose cut it comes from. A part of the sequence has none.
    """

    axis: int
    parts: Tuple[int, ...]
    origins: FrozenSet[int] = frozenset()

    @property
    def is_of_sequence(self) -> bool:
        return not self.origins


class PartialSum(NamedTuple):
    """A value that is the sum over all ranks of what each of them has."""

    origins: FrozenSet[int]


class Cut(NamedTuple):
    """How a parameter is cut: each rank has its share of each of the parts of an axis."""

    axis: int
    parts: Tuple[int, ...]


class Conflict(Exception):
    """Something needs whole what these linear layers would cut."""

    def __init__(self, origins: FrozenSet[int], reason: str = "") -> None:
        super().__init__(reason)
        self.origins, self.reason = origins, reason


class WantsParts(Exception):
    """The output of these linear layers is several things beside each other, such as queries, keys and values."""

    def __init__(self, origins: FrozenSet[int], bounds: Sequence[int]) -> None:
        super().__init__()
        self.origins, self.bounds = origins, set(bounds)


class Divided(NamedTuple):
    """The program of one rank."""

    program: Program
    cuts: Dict[int, Cut]           # of parameters, by value
    summed: Set[int]               # whole parameters of whose gradient each rank has a summand, by value
    whole: Dict[str, str]          # why linear layers stay whole, by their kind


def size_of(size: Any) -> int:
    """A size as a number; one that the batch decides counts as in the export."""
    return size if isinstance(size, int) else int(size.node.hint)


def divided(program: Program, degree: int, parameters: Dict[int, int], trained: Set[int],
            shapes: Dict[int, Tuple[int, ...]], by_sequence: bool) -> Divided:
    """The program of one of `degree` ranks. Its `cuts` are empty if no linear layer can be cut.

    `parameters` numbers the parameters by value (tied values have one number), `trained` are the values of those
    that are trained, `shapes` those of all sources by value.
    """
    whole: Dict[str, str] = {}
    bounds: Dict[str, Set[int]] = {}
    while True:
        placing = Placing(program, degree, parameters, trained, shapes, by_sequence, whole, bounds)
        try:
            placing.run()
            break
        except Conflict as conflict:
            if not conflict.origins:
                raise CaptureError("tensor parallelism: {}".format(conflict.reason)) from None
            whole.update({_kind_of(program.calls[origin]): conflict.reason for origin in conflict.origins})
        except WantsParts as wish:
            for origin in wish.origins:
                known = bounds.setdefault(_kind_of(program.calls[origin]), set())
                if wish.bounds <= known:
                    whole[_kind_of(program.calls[origin])] = "its output is taken apart in several ways"
                known |= wish.bounds
    return Divided(program._replace(calls=_needed(placing, program), values=placing.values, outputs=placing.outputs,
                                    loss=placing.loss), placing.cuts, placing.summed, whole)


def _needed(placing: "Placing", program: Program) -> List[Call]:
    """The calls without those that were inserted for nothing."""
    used = {placing.loss} | {each.value for each in placing.outputs if isinstance(each, Ref)}
    found: List[Call] = []
    for call in reversed(placing.calls):
        if call.result < program.values or call.result in used:
            used.update(values_in((call.args, call.kwargs)))
            found.append(call)
    return found[::-1]


def _kind_of(call: Call) -> str:
    """Equal layers are cut alike: the path of a module without numbers, and the operation.

    Where there is no path, as in Keras, each layer is of its own kind.
    """
    path = re.sub(r"\d+", "N", call.module) if call.module else "value{}".format(call.result)
    return path + " " + str(call.target)


class _Linear(NamedTuple):
    """A product of an activation with a parameter: where its call has them, and the parameter's axes."""

    x: int
    weight: int
    bias: Optional[int]
    out_axis: int


class _View(NamedTuple):
    """A parameter, as it is or transposed."""

    parameter: int
    turned: bool


_LINEAR = {_aten.linear.default: _Linear(0, 1, 2, 0), _aten.addmm.default: _Linear(1, 2, 0, 1),
           _aten.mm.default: _Linear(0, 1, None, 1), _aten.matmul.default: _Linear(0, 1, None, 1)}
_KEEP_SUMS = {"view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "contiguous", "flatten", "unflatten", "transpose",
              "permute", "t"}


class Placing:
    """One pass over the calls: says of each value whether it is whole, a part or a partial sum."""

    def __init__(self, program: Program, degree: int, parameters: Dict[int, int], trained: Set[int],
                 shapes: Dict[int, Tuple[int, ...]], by_sequence: bool, whole: Dict[str, str],
                 bounds: Dict[str, Set[int]]) -> None:
        self.program, self.degree, self.by_sequence = program, degree, by_sequence
        self.sizes: Dict[int, Any] = {call.result: call.sizes for call in program.calls}
        self.shapes = shapes
        self._whole, self._bounds = whole, bounds
        self.parameters = parameters
        self._trained, self._learns = trained, set(trained)
        # Tied values are one parameter, whose uses count together.
        self._number = {value: -1 - number for value, number in parameters.items()}
        self._uses: Dict[int, int] = {}
        for call in program.calls:
            for value in set(values_in((call.args, call.kwargs))):
                if word_of(call) != "_assert_tensor_metadata":
                    number = self._number.get(value, value)
                    self._uses[number] = self._uses.get(number, 0) + 1
        self._views: Dict[int, _View] = {value: _View(value, False) for value in parameters}
        self._deferred: Dict[int, Call] = {}              # views of parameters, which are written where they are used
        self.calls: List[Call] = []
        self.values = program.values
        self.states: Dict[int, Any] = {}                  # by value; absent: whole
        self.cuts: Dict[int, Cut] = {}
        self.summed: Set[int] = set()
        self._made: Dict[Tuple[Any, ...], int] = {}       # what was exchanged once is used again
        self._call: Call = program.calls[0]
        self.outputs: Tuple[Any, ...] = program.outputs
        self.loss = program.loss

    def run(self) -> None:
        from .divided_shapes import placed
        for place, call in enumerate(self.program.calls):
            self._call = call
            if call.context.gradients and any(value in self._learns for value in values_in((call.args, call.kwargs))):
                self._learns.add(call.result)
            if word_of(call) == "_assert_tensor_metadata":   # the whole program has checked it
                continue
            if self._is_view(call):
                self._deferred[call.result] = call
                continue
            for value in set(values_in((call.args, call.kwargs))):
                if isinstance(self.state(value), PartialSum) and word_of(call) not in _KEEP_SUMS:
                    self._add_up(value)
            if self._is_linear(place, call):
                continue
            states = [self.state(value) for value in values_in((call.args, call.kwargs))]
            if any(isinstance(each, PartialSum) for each in states):
                self.emit(call, states[0])
            elif any(isinstance(each, (Part, list)) for each in states):
                placed(self, call)
            else:
                self.emit(call)
        self.loss = self.whole(self.program.loss).value
        self.outputs = tuple(self.whole(each.value) if isinstance(each, Ref) else each for each in self.program.outputs)

    # -- states of values

    def state(self, value: int) -> Any:
        return self.states.get(value)

    def shape(self, value: int) -> Tuple[int, ...]:
        """The shape of the whole value; sizes that the batch decides are those of the export."""
        if value in self.shapes:
            return self.shapes[value]
        sizes = self.sizes[value]
        if not isinstance(sizes, torch.Tensor):
            raise Conflict(self.origins(), "{} takes no tensor".format(self._call.target))
        return tuple(size_of(each) for each in sizes.shape)

    def order(self, value: int) -> List[int]:
        """The axes of a whole value from the outermost one in memory."""
        sizes = self.sizes.get(value)
        if not isinstance(sizes, torch.Tensor):
            return list(range(len(self.shape(value))))
        strides = [size_of(each) for each in sizes.stride()]
        shape = self.shape(value)
        return sorted(range(len(shape)), key=lambda axis: (-strides[axis] if shape[axis] > 1 else 0, axis)) if any(
            shape[a] > 1 and shape[b] > 1 and strides[a] < strides[b]
            for a, b in zip(range(len(shape)), range(1, len(shape)))) else list(range(len(shape)))

    def is_tensor(self, value: int) -> bool:
        return value in self.shapes or isinstance(self.sizes.get(value), torch.Tensor)

    def learns(self, value: int) -> bool:
        """Whether a gradient flows through a value."""
        sizes = self.sizes.get(value)
        return value in self._learns and (sizes is None or not isinstance(sizes, torch.Tensor)
                                          or sizes.is_floating_point() or sizes.is_complex())

    def origins(self) -> FrozenSet[int]:
        """The linear layers whose cut reaches the current call."""
        found: FrozenSet[int] = frozenset()
        for value in values_in((self._call.args, self._call.kwargs)):
            states = self.state(value)
            for each in states if isinstance(states, list) else [states]:
                if isinstance(each, (Part, PartialSum)):
                    found |= each.origins
        return found

    def conflict(self, reason: str) -> Conflict:
        return Conflict(self.origins(), reason)

    def of_linear(self, part: Part) -> FrozenSet[int]:
        """The linear layers whose whole output a part is."""
        for origin in part.origins:
            if self.shape(self.program.calls[origin].result)[-1] != sum(part.parts):
                raise self.conflict("an axis that is cut is taken apart")
        if part.is_of_sequence:
            raise self.conflict("the sequence is taken apart")
        return part.origins

    def fits_sequence(self, write: Callable[[], None]) -> bool:
        """Writes a call on parts of the sequence. Returns false where that is not possible."""
        before = len(self.calls)
        try:
            write()
            return True
        except (Conflict, WantsParts):
            assert all(call.result >= self.program.values for call in self.calls[before:])
            return False

    # -- what is written

    def new_value(self, like: int) -> int:
        self.values += 1
        self.sizes[self.values - 1] = (self.sizes[like] if like in self.sizes else
                                       torch.empty(self.shapes[like], device="meta"))
        if like in self._learns:
            self._learns.add(self.values - 1)
        return self.values - 1

    def emit(self, call: Call, state: Any = None) -> None:
        """Writes a call, and says what its result is."""
        for value in values_in((call.args, call.kwargs)):
            self._write_deferred(value)
        self.calls.append(call._replace(args=self._current(call.args), kwargs=self._current(call.kwargs)))
        if state is not None:
            self.states[call.result] = state

    def insert(self, target: Callable[..., Any], value: int, *more: Any) -> int:
        """Writes a new call on a value before the current one; returns its result."""
        self._write_deferred(value)
        result = self.new_value(value)
        self.calls.append(self._call._replace(target=target, args=(Ref(value),) + more, kwargs={}, result=result,
                                              decides=False, sizes=self.sizes[result]))
        return result

    def _write_deferred(self, value: int) -> None:
        call = self._deferred.pop(value, None)
        if call is not None:
            self.emit(call)

    def exchanged(self, word: str, value: int, axis: Optional[int] = None, gradient_is_whole: bool = False) -> int:
        """The result of a collective on a value, along an axis or (None) on all elements.

        The Runtime exchanges memory without gaps, along the first axis: axes are put in that order for it, and back.
        """
        key = (word, value, axis, gradient_is_whole, self._call.context.gradients)
        if key in self._made:
            return self._made[key]
        usual = order = self.order(value)
        if axis is not None:
            order = [axis] + [each for each in range(len(usual)) if each != axis]
        turns = order != sorted(order)
        x = self.insert(_aten.permute.default, value, order) if turns else value
        x = self.insert(_aten.contiguous.default, x)
        x = self.insert(Collective(word, self.degree, gradient_is_whole), x)
        if turns:
            x = self.insert(_aten.permute.default, x, [order.index(each) for each in range(len(order))])
            if usual == sorted(usual):
                x = self.insert(_aten.contiguous.default, x)
        self._made[key] = x
        return x

    # -- values as a call needs them

    def whole(self, value: int, same_gradient: bool = True) -> Ref:
        """The whole value. `same_gradient` says that all ranks compute the same from it."""
        state = self.state(value)
        if isinstance(state, PartialSum):
            self._add_up(value)
            state = self.state(value)
        if isinstance(state, Part):
            if not state.is_of_sequence:
                raise Conflict(state.origins, "whole rows are needed")
            return Ref(self.exchanged("sequence_gather", self._now(value), state.axis, same_gradient))
        if isinstance(state, list):
            raise self.conflict("a list of parts is needed whole")
        if same_gradient or not self.learns(value):
            return Ref(self._now(value))
        if value in self._views:
            self.sum_gradient(self._views[value].parameter)
            return Ref(value)
        return Ref(self.exchanged("tensor_copy", self._now(value)))

    def share(self, value: int, axis: int, parts: Tuple[int, ...]) -> Ref:
        """This rank's part of a whole value."""
        now = self._now(value)
        if self.learns(value) and value not in self._views and len(parts) == 1 and not self.origins():
            return Ref(self.exchanged("sequence_slice", now, axis))
        self.check_parts(value, axis, parts)
        source = self.whole(value, same_gradient=False).value
        key = ("own part", source, axis, parts, self._call.context.gradients)
        if key not in self._made:
            self._made[key] = self.insert(own_part, source, axis, parts, self.degree)
        return Ref(self._made[key])

    def check_parts(self, value: int, axis: int, parts: Tuple[int, ...]) -> None:
        """Raises Conflict where the batch decides how many parts an axis has, which a call cannot say."""
        sizes = self.sizes.get(value)
        if len(parts) > 1 and isinstance(sizes, torch.Tensor) and not isinstance(sizes.shape[axis], int):
            raise self.conflict("the batch decides how many parts an axis has")

    def sum_gradient(self, parameter: int) -> None:
        if parameter in self.cuts:
            raise self.conflict("a parameter that is cut is needed whole")
        if parameter in self._trained:
            self.summed.add(parameter)

    def _current(self, args: Any) -> Any:
        """Arguments with the values that took the place of others."""
        if isinstance(args, Ref):
            return Ref(self._now(args.value))
        if isinstance(args, (list, tuple)):
            return type(args)(self._current(each) for each in args)
        if isinstance(args, dict):
            return {name: self._current(each) for name, each in args.items()}
        return args

    def _now(self, value: int) -> int:
        return self._made.get(("added up", value), value)

    def _add_up(self, value: int) -> None:
        """A partial sum becomes whole, or a part of the sequence."""
        shape = self.shape(value)
        sizes = self.sizes[value].shape
        axis = 1 if len(shape) >= 3 else -1
        scatters = (self.by_sequence and axis > 0 and isinstance(sizes[axis], int) and sizes[axis] % self.degree == 0)
        result = self.exchanged("sequence_scatter" if scatters else "tensor_reduce", value, axis if scatters else None)
        self._made["added up", value] = result
        self.states[value] = Part(axis, (shape[axis],)) if scatters else None

    # -- linear layers

    def _is_view(self, call: Call) -> bool:
        """Whether a call converts or transposes a parameter that nothing else uses. Its result stands for the parameter."""
        first = call.args[0] if call.args else None
        seen = self._views.get(first.value) if isinstance(first, Ref) else None
        if seen is None or not self._is_used_once(first.value):  # type: ignore[union-attr]
            return False
        word, two = word_of(call), len(self.shapes[seen.parameter]) == 2
        if word in ("to", "_to_copy"):
            self._views[call.result] = seen
        elif two and (word in ("t", "numpy_T", "mT") or word == "transpose" and {each % 2 for each in call.args[1:3]} == {0, 1}):
            self._views[call.result] = _View(seen.parameter, not seen.turned)
        return call.result in self._views

    def _is_used_once(self, value: int) -> bool:
        return self._uses.get(self._number.get(value, value), 0) == 1

    def _parameter(self, argument: Any) -> Optional["_View"]:
        """The parameter that an argument stands for, if the call alone uses it."""
        if not isinstance(argument, Ref) or not self._is_used_once(argument.value):
            return None
        return self._views.get(argument.value)

    def _is_linear(self, place: int, call: Call) -> bool:
        """Writes the call of a linear layer, and returns whether it is one that is cut."""
        form = _LINEAR.get(call.target)
        if form is None or len(call.args) <= form.weight or not isinstance(call.args[form.x], Ref):
            return False
        x, seen = call.args[form.x].value, self._parameter(call.args[form.weight])
        if seen is None or len(self.shapes[seen.parameter]) != 2 or not self.is_tensor(x) or x in self._views:
            return False
        weight, form = seen.parameter, form._replace(out_axis=form.out_axis ^ seen.turned)
        given = call.args[form.bias] if form.bias is not None and len(call.args) > form.bias else None
        bias = self._parameter(given)
        if given is not None and (bias is None or len(call.args) > 3 or call.kwargs):
            return False
        state = self.state(x)
        if isinstance(state, Part) and not state.is_of_sequence:
            if state.axis != len(self.shape(x)) - 1:
                return False
            self._by_inputs(call, form, x, weight, bias, state)
            return True
        if isinstance(state, list) or _kind_of(call) in self._whole or not _is_known(self.sizes.get(x)):
            return False
        return self._by_outputs(place, call, form, x, weight, bias)

    def _by_outputs(self, place: int, call: Call, form: _Linear, x: int, weight: int,
                    bias: Optional["_View"]) -> bool:
        width = self.shapes[weight][form.out_axis]
        bounds = sorted({0, width} | self._bounds.get(_kind_of(call), set()))
        parts = tuple(end - begin for begin, end in zip(bounds, bounds[1:]))
        if any(part % self.degree for part in parts):
            return False
        self.cuts[weight] = Cut(form.out_axis, parts)
        if bias is not None:
            self.cuts[bias.parameter] = Cut(0, parts)
        args = list(call.args)
        args[form.x] = self.whole(x, same_gradient=False)
        self.emit(call._replace(args=tuple(args)), Part(len(self.shape(call.result)) - 1, parts, frozenset([place])))
        return True

    def _by_inputs(self, call: Call, form: _Linear, x: int, weight: int, bias: Optional["_View"],
                   state: Part) -> None:
        self.cuts[weight] = Cut(1 - form.out_axis, state.parts)
        args = list(call.args)
        args[form.x] = Ref(self._now(x))
        if bias is not None:
            self.sum_gradient(bias.parameter)
            place = form.bias
            args[place] = Ref(self.insert(on_first_rank, args[place].value))  # type: ignore[index]
        self.emit(call._replace(args=tuple(args)), PartialSum(state.origins))


def _is_known(sizes: Any) -> bool:
    from .segments import is_known
    return sizes is None or is_known(sizes)


def word_of(call: Call) -> str:
    """"view" for aten.view.default."""
    if call.target is operator.getitem:
        return "getitem"
    return getattr(getattr(call.target, "_schema", None), "name", "").split("::")[-1]
