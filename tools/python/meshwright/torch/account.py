"""The account of each segment: its kernels, what it keeps for the backward pass, its temporaries."""

from __future__ import annotations

from typing import Any, Dict, Hashable, List, NamedTuple, Sequence, Set, Tuple

from .exporting import Program
from .fusing import Fused, fused
from .kernels import Kernel
from .recording import BACKWARD, FORWARD, Event
from .replay import Trace, values_in
from .segments import Division

__all__ = ["Account", "Work", "same_course"]


class Work(NamedTuple):
    """What a segment does in one level: bytes kept, most bytes of temporaries, kernels, by phase."""

    saved: int
    workspace: Tuple[int, int]
    kernels: Tuple[List[Kernel], List[Kernel]]


def same_course(one: Trace, other: Trace) -> bool:
    """Whether two traces ran the same operations on the same storages, whatever their sizes."""
    first, second = one.recorder, other.recorder
    if len(first.sizes) != len(second.sizes) or len(first.events) != len(second.events):
        return False
    for a, b in zip(first.events, second.events):
        if (a.phase != b.phase or a.call != b.call or len(a.kernels) != len(b.kernels)
                or [number for number, _ in a.reads] != [number for number, _ in b.reads]
                or [number for number, _ in a.writes] != [number for number, _ in b.writes]):
            return False
    return True


class Account:
    """The accounts of all segments of a division, from one trace."""

    def __init__(self, program: Program, trace: Trace, division: Division) -> None:
        self.trace, self.division = trace, division
        count = len(division.bounds)
        self.crossing = set(division.crossing)
        self.saved = {storage for storage in trace.saved if storage in trace.kept and storage not in trace.sources}
        self.events: List[Tuple[List[Event], List[Event]]] = [([], []) for _ in range(count)]
        self.touching: Dict[int, Set[Tuple[int, int]]] = {}
        made: Dict[int, int] = {}
        for event in trace.recorder.events:
            segment = division.segment_of[event.call]
            self.events[segment][event.phase].append(event)
            for storage, _ in event.reads + event.writes:
                self.touching.setdefault(storage, set()).add((segment, event.phase))
            for storage, _ in event.writes:
                made.setdefault(storage, event.call)
        for place, storages in enumerate(trace.makes):
            for storage in storages:
                made[storage] = min(made.get(storage, place), place)
        self.sent = self._sent(program)
        self.inner: List[List[int]] = [[] for _ in range(count)]     # kept storages that do not cross
        self.unsent = [0] * count       # bytes of kept storages of which only a part crosses
        for storage in sorted(self.saved):
            segment = division.segment_of[made.get(storage, min(trace.saved[storage]))]
            if storage not in self.crossing:
                self.inner[segment].append(storage)
            else:
                self.unsent[segment] += max(0, trace.recorder.sizes[storage] - self.sent[storage][0])
        self.workspace = self._workspaces(count)

    def _sent(self, program: Program) -> Dict[int, Tuple[int, Tuple[int, ...], Any]]:
        """By crossing storage: (bytes that cross, shape and type of the largest value that does)."""
        division, trace = self.division, self.trace
        place_of = {call.result: place for place, call in enumerate(program.calls)}
        crossing: Set[int] = {place_of[program.loss]}
        for place, call in enumerate(program.calls):
            if place not in division.again:
                for value in values_in((call.args, call.kwargs)):
                    maker = place_of.get(value)
                    if maker is not None and division.segment_of[maker] != division.segment_of[place]:
                        crossing.add(maker)
        found: Dict[int, Tuple[int, Tuple[int, ...], Any]] = {}
        for place in sorted(crossing):
            for storage, shape, dtype, size, _ in trace.shapes[place]:
                if storage in self.crossing:
                    before = found.get(storage, (0, shape, dtype))
                    largest = (shape, dtype) if before[0] <= size else before[1:]
                    found[storage] = (min(before[0] + size, trace.recorder.sizes[storage]),) + tuple(largest)
        return found

    def _workspaces(self, count: int) -> List[List[int]]:
        """Most bytes of temporaries at once, by segment and phase: of storages that begin and end inside."""
        trace = self.trace
        homes: Dict[int, Tuple[int, int]] = {}
        ended: Set[int] = set()
        for number, change, phase, call in trace.recorder.memory:
            if change > 0:
                homes[number] = (self.division.segment_of[call], phase)
            elif homes[number][1] == phase:
                ended.add(number)
        inside = {number for number in ended - trace.ends if number not in trace.sources and number not in self.crossing
                  and self.touching.get(number, {homes[number]}) <= {homes[number]}}
        now = [[0, 0] for _ in range(count)]
        most = [[0, 0] for _ in range(count)]
        for number, change, _, _ in trace.recorder.memory:
            if number in inside:
                segment, phase = homes[number]
                now[segment][phase] += change * trace.recorder.sizes[number]
                most[segment][phase] = max(most[segment][phase], now[segment][phase])
        return most

    def _role(self, storage: int, segment: int) -> str:
        trace = self.trace
        if storage in trace.sources:
            return "given"
        if storage in self.crossing:
            return "kept crossing" if storage in self.saved else "crossing"
        if storage in self.saved:
            return "kept" if len({home[0] for home in self.touching.get(storage, ())}) < 2 else "kept elsewhere"
        if storage in trace.ends:
            return "ends"
        return "elsewhere" if any(home[0] != segment for home in self.touching.get(storage, ())) else "inner"

    def signature(self, segment: int) -> Hashable:
        """Equal for two segments that do the same work with storages in the same roles."""
        numbers: Dict[int, int] = {}
        sizes = self.trace.recorder.sizes
        parts: List[Hashable] = [self.unsent[segment], tuple(self.workspace[segment]),
                                 tuple(sorted(sizes[each] for each in self.inner[segment]))]
        for phase in (FORWARD, BACKWARD):
            for event in self.events[segment][phase]:
                named = tuple((numbers.setdefault(storage, len(numbers)), size, sizes[storage],
                               self._role(storage, segment)) for storage, size in event.reads + event.writes)
                parts.append((phase, tuple(event.kernels), len(event.reads), named, event.random))
        return tuple(parts)

    def eager(self, segment: int) -> Work:
        """The work as eager PyTorch does it."""
        sizes = self.trace.recorder.sizes
        forward, backward = self.events[segment]
        return Work(sum(sizes[each] for each in self.inner[segment]) + self.unsent[segment],
                    (self.workspace[segment][FORWARD], self.workspace[segment][BACKWARD]),
                    ([kernel for event in forward for kernel in event.kernels],
                     [kernel for event in backward for kernel in event.kernels]))

    def compiled(self, segment: int) -> Work:
        """The work as a compiler that fuses does it."""
        sizes = self.trace.recorder.sizes
        forward, backward = self.events[segment]
        touched = {storage for event in forward + backward for storage, _ in event.reads + event.writes}
        inner = self.inner[segment]
        elsewhere = {storage for storage in touched
                     if self._role(storage, segment) in ("given", "crossing", "kept crossing", "kept elsewhere",
                                                         "elsewhere")}
        ends = touched & self.trace.ends
        first = fused(forward, elsewhere | set(inner))
        again, kept = _kept_by_a_compiler(first, inner, elsewhere, sizes)
        ahead = fused(forward, elsewhere | set(kept))
        back = fused(backward, elsewhere | ends, again, sizes)
        lasting = elsewhere | ends | set(kept)
        return Work(sum(sizes[each] for each in kept) + self.unsent[segment],
                    (_most_alive(ahead, lasting, sizes), _most_alive(back, lasting, sizes)),
                    (ahead.kernels, back.kernels))


def _kept_by_a_compiler(forward: Fused, saved: Sequence[int], at_hand: Set[int],
                        sizes: Sequence[int]) -> Tuple[Dict[int, Tuple[int, ...]], List[int]]:
    """(storages that are computed again -> from which, storages that are kept).

    A chain's inner results are computed again from its inputs where that keeps fewer bytes. Statistics
    of rows are small and are kept as they are.
    """
    kept = [storage for storage in saved if storage not in forward.sources]
    chains: Dict[Tuple[int, ...], List[int]] = {}
    for storage in saved:
        if storage in forward.sources:
            chains.setdefault(forward.sources[storage], []).append(storage)
    have = set(kept) | at_hand
    again: Dict[int, Tuple[int, ...]] = {}
    for inputs, inner in chains.items():
        largest = max(sizes[storage] for storage in inner)
        big = [storage for storage in inner if sizes[storage] * 8 > largest]
        more = [storage for storage in inputs if storage not in have and storage not in inner]
        if sum(sizes[each] for each in more) < sum(sizes[each] for each in big):
            have.update(more)
            kept += more
            again.update({storage: inputs for storage in big})
            kept += [storage for storage in inner if storage not in big]
        else:
            have.update(inner)
            kept += inner
    return again, list(dict.fromkeys(kept))


def _most_alive(found: Fused, lasting: Set[int], sizes: Sequence[int]) -> int:
    changes: Dict[int, int] = {}
    for storage, first, last in found.lives:
        if storage not in lasting:
            changes[first] = changes.get(first, 0) + sizes[storage]
            changes[last + 1] = changes.get(last + 1, 0) - sizes[storage]
    now = most = 0
    for place in sorted(changes):
        now += changes[place]
        most = max(most, now)
    return most
