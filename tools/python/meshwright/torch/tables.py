"""What each segment runs, settled once before a run: calls, and which values it takes from where.

A captured tensor is a storage that one segment makes and others read (`tensors` of own.model.json).
It is handed on as one or more values. Where several of them look at the same memory, the value that
owns it is handed on, and who reads it makes the others again by the same views.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence, Set, Tuple

import torch

from .errors import CaptureError
from .exporting import Call, Program, Ref
from .replay import Trace, values_in
from .segments import Division

__all__ = ["Handed", "SegmentTable", "Tables", "Value"]


class Value(NamedTuple):
    """A value that is handed on: its shape, strides and type at the run's micro-batch."""

    number: int
    shape: Tuple[int, ...]
    strides: Tuple[int, ...]
    dtype: torch.dtype
    begin: int       # offset of its bytes in the tensor's memory
    bytes: int


class Handed(NamedTuple):
    """A captured tensor: the values that are handed on, and its maker and readers."""

    values: List[Value]
    bytes: int
    maker: int
    readers: List[int]
    has_gradient: bool


class Step(NamedTuple):
    """One call of a segment, and the values that nobody needs after it."""

    call: Call
    unused: Tuple[int, ...]


class SegmentTable(NamedTuple):
    """A segment. Lists of tensors and parameters are in the order of own.model.json."""

    number: int
    random: bool
    inputs: List[int]
    reads: List[int]           # captured tensors
    makes: List[int]
    saves: List[int]           # of these, what the Runtime keeps for the backward
    parameters: List[int]
    buffers: List[int]
    kept: int                  # operands of the forward that the backward gets as well
    steps: List[Step]
    again: List[int]           # places of calls whose results every stage makes for itself
    has_backward: bool
    returns: Tuple[int, ...]   # values that it makes and that the step returns


def _is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    step = 1
    for size, stride in sorted(((size, stride) for size, stride in zip(shape, strides) if size != 1),
                               key=lambda each: each[1]):
        if stride != step:
            return False
        step *= size
    return True


_TAKE_A_SHAPE = ("aten::expand_as", "aten::reshape_as", "aten::view_as")   # they take a shape from their second tensor


class Tables:
    """The tables of all segments. `sizes` is a trace at the run's micro-batch."""

    def __init__(self, document: Dict[str, Any], program: Program, trace: Trace, division: Division, sizes: Trace,
                 indices: Dict[str, Dict[int, int]], rng: Sequence[int]) -> None:
        self.program, self.division = program, division
        self.loss = document["loss"]
        self.parameter_names = [each["name"] for each in document["parameters"]]
        self.written = {number for number, each in enumerate(document["buffers"]) if each.get("written")}
        self.differentiated = [bool(each.get("gradient")) for each in document["tensors"]]
        self.rng = set(rng)                                        # captured tensors that are generator states
        self.indices = indices                                     # "input", "parameter", "buffer": by value
        self.maker = {call.result: place for place, call in enumerate(program.calls)}
        self.given = {source.value: source for source in program.sources}
        self._writers = self._writers_again()
        self._sizes = sizes
        self.maker_of_outputs = self._makers_of_outputs()
        storages = {storage: number for number, storage in enumerate(division.crossing)}
        self._views: Dict[int, List[int]] = {}                     # value -> places of the views that make it again
        self._tensor_of: Dict[int, int] = {}                       # value that crosses -> captured tensor
        crossing = self._crossing()
        by_tensor: Dict[int, List[int]] = {}
        for value in crossing:
            storage = trace.shapes[self.maker[value]][0][0]
            if storage in trace.sources:      # A view of a parameter or an input: its readers make it for themselves.
                self._views[value] = self._path(value, trace.sources[storage], storage, trace)
                continue
            self._tensor_of[value] = storages[storage]
            by_tensor.setdefault(storages[storage], []).append(value)
        self.tensors: Dict[int, Handed] = {}
        gradients = self._with_gradients(document)
        for number, values in by_tensor.items():
            storage = division.crossing[number]
            sent = self._sent(values, storage, trace)
            self.tensors[number] = self._handed(number, sent, sizes, document, gradients)
        self.exchanges = {number for number, each in enumerate(document["segments"]) if "collective" in each}
        for number in self.exchanges:
            each = document["segments"][number]
            if any(len(self.tensors[tensor].values) != 1 for tensor in each["reads"] + each["makes"]):
                raise CaptureError("tensor parallelism: {} is exchanged in several pieces".format(each["module"]))
        self.segments = [self._segment(number, document, gradients) for number in range(len(division.bounds))]

    def _makers_of_outputs(self) -> Dict[int, int]:
        """By value that the step returns: its segment, or the last one where every stage can make it."""
        found = {}
        for value in (each.value for each in self.program.outputs if isinstance(each, Ref)):
            place = self.maker.get(value)
            if place is None and self.given[value].kind in ("parameter", "buffer"):
                raise CaptureError("the step returns {} itself; return what it computes".format(self.given[value].name))
            made = place is not None and place not in self.division.again
            found[value] = self.division.segment_of[place if made else -1]
        return found

    # -- what crosses

    def _crossing(self) -> List[int]:
        found = {self.program.loss: None}
        for place, call in enumerate(self.program.calls):
            if place in self.division.again:
                continue
            for value in values_in((call.args, call.kwargs)):
                maker = self.maker.get(value)
                if (maker is not None and maker not in self.division.again
                        and self.division.segment_of[maker] != self.division.segment_of[place]):
                    found[value] = None
        return sorted(found)

    def _sent(self, values: List[int], storage: int, trace: Trace) -> List[int]:
        """The values of a storage that are handed on; the others are made again from them by views."""
        if len(values) == 1 or sum(trace.shapes[self.maker[v]][0][3] for v in values) <= trace.recorder.sizes[storage]:
            return values
        root = next(place for place, made in enumerate(trace.makes)
                    if storage in made and place not in self.division.again)
        owner = self.program.calls[root].result
        for value in values:
            if value != owner:
                self._views[value] = self._path(value, owner, storage, trace)
        return [owner]

    def _path(self, value: int, owner: int, storage: int, trace: Trace) -> List[int]:
        """Places of the calls from one value of a storage to another, all of which are views."""
        needed: Set[int] = set()
        left = [value]
        while left:
            each = left.pop()
            place = self.maker.get(each)
            if each == owner or place is None or place in self.division.again or place in needed:
                continue
            if storage not in trace.makes[place]:
                raise CaptureError("a view of a tensor that crosses a cut depends on other tensors: {}".format(
                    self.program.calls[place].target))
            needed.add(place)
            left += list(values_in(self._viewed(place)))
        return sorted(needed)

    def _viewed(self, place: int) -> Tuple[Any, ...]:
        """The arguments of a view, but for a tensor of which it only takes the shape."""
        call = self.program.calls[place]
        name = getattr(getattr(call.target, "_schema", None), "name", "")
        if name in _TAKE_A_SHAPE and len(call.args) > 1:
            return call.args[:1]
        return call.args + tuple(call.kwargs.values())

    def _view_call(self, place: int) -> Call:
        """A view as its readers make it: a tensor of which it only takes the shape is a stand-in."""
        call = self.program.calls[place]
        if len(self._viewed(place)) == len(call.args) + len(call.kwargs):
            return call
        shape = self._sizes.shapes[self.maker[call.args[1].value]][0][1]
        return call._replace(args=(call.args[0], torch.zeros(()).expand(shape)) + call.args[2:])

    def _with_gradients(self, document: Dict[str, Any]) -> Set[int]:
        """Captured tensors to which a gradient flows back in a step."""
        found: Set[int] = {document["loss"]}
        for segment in reversed(document["segments"]):
            if any(each in found for each in segment["makes"]):
                found.update(each for each in segment["reads"] if document["tensors"][each].get("gradient"))
        return found

    def _handed(self, number: int, values: List[int], sizes: Trace, document: Dict[str, Any],
                gradients: Set[int]) -> Handed:
        found, begin = [], 0
        for value in values:
            _, shape, dtype, _, strides = sizes.shapes[self.maker[value]][0]
            if not _is_dense(shape, strides):
                strides = torch.empty(shape, device="meta").stride()
            size = torch.empty((), dtype=dtype).element_size()
            for length in shape:
                size *= length
            found.append(Value(value, tuple(shape), tuple(strides), dtype, begin, size))
            begin += size
        maker = next(place for place, each in enumerate(document["segments"]) if number in each["makes"])
        readers = [place for place, each in enumerate(document["segments"]) if number in each["reads"]]
        return Handed(found, begin, maker, readers, number in gradients)

    # -- what a segment runs

    def _segment(self, number: int, document: Dict[str, Any], gradients: Set[int]) -> SegmentTable:
        entry = document["segments"][number]
        first, end = self.division.bounds[number]
        own = [place for place in range(first, end) if place not in self.division.again]
        here = {self.program.calls[place].result for place in own}
        views: Dict[int, None] = {}
        needed: Set[int] = set()
        for place in own:
            for value in values_in((self.program.calls[place].args, self.program.calls[place].kwargs)):
                if value in here or value in self.given:
                    continue
                if value in self._views:
                    views.update(dict.fromkeys(self._views[value]))
                elif self.maker[value] in self.division.again:
                    needed.add(value)
        for place in views:
            for value in values_in(self._viewed(place)):
                if value in self.maker and self.maker[value] in self.division.again:
                    needed.add(value)
        returned = {value for value in self.maker_of_outputs if self.maker_of_outputs[value] == number}
        needed |= returned - here - set(self.given)
        places = sorted(views) + own
        handed = {each.number for made in entry["makes"] if made not in self.rng for each in self.tensors[made].values}
        kept = len(entry["parameters"]) + len(entry["buffers"]) + len(set(entry["saves"]) & set(entry["reads"]))
        kept += len(set(entry["saves"]) & set(entry["makes"]))
        return SegmentTable(
            number, "kind" in entry and bool(document["kinds"][entry["kind"]].get("random")), entry["inputs"], entry["reads"],
            entry["makes"], entry["saves"], entry["parameters"], entry["buffers"], kept,
            self._steps(places, set(views), handed | returned), self._again(needed),
            any(each in gradients for each in entry["makes"]), tuple(sorted(returned)))

    def _steps(self, places: List[int], views: Set[int], handed: Set[int]) -> List[Step]:
        last: Dict[int, int] = {}
        calls = [self._view_call(place) if place in views else self.program.calls[place] for place in places]
        for at, call in enumerate(calls):
            last[call.result] = at
            for value in values_in((call.args, call.kwargs)):
                if value not in self.given and value in self.maker and self.maker[value] not in self.division.again:
                    last[value] = at
        unused: List[List[int]] = [[] for _ in calls]
        for value, at in last.items():
            if value not in handed:
                unused[at].append(value)
        return [Step(call, tuple(unused[at])) for at, call in enumerate(calls)]

    def _again(self, values: Set[int]) -> List[int]:
        """Places of the calls that make these values, in order."""
        found: Set[int] = set()
        left = list(values)
        while left:
            place = self.maker.get(left.pop())
            if place is None or place in found:
                continue
            found.add(place)
            call = self.program.calls[place]
            left += [value for value in values_in((call.args, call.kwargs)) if value in self.maker]
            left += [self.program.calls[each].result for each in self._writers.get(call.result, ())]
        return sorted(found)

    def _writers_again(self) -> Dict[int, List[int]]:
        """By value: the calls that write it in place and that every stage runs for itself."""
        found: Dict[int, List[int]] = {}
        for place in sorted(self.division.again):
            call = self.program.calls[place]
            if getattr(getattr(call.target, "_schema", None), "is_mutable", False):
                for value in values_in((call.args, call.kwargs)):
                    found.setdefault(value, []).append(place)
        return found
