"""Divides a traced program into segments: between which of its calls a pipeline stage may begin.

A cut is allowed where only tensors of known shapes cross it, and none of them is written later.
Values that depend on the inputs and constants only (masks, positions, shifted labels) do not cross:
every stage can make them again. Between two products one cut is kept, the one that the fewest bytes
cross, so that segments have about one product each.
"""

from __future__ import annotations

import bisect
from typing import Dict, List, NamedTuple, Sequence, Set, Tuple

import torch

from .errors import CaptureError
from .exporting import Program
from .kernels import is_random
from .on_tensor_ranks import Collective
from .recording import Event
from .replay import Trace, values_in

__all__ = ["Division", "divide", "is_known", "seconds_of"]

FLOPS, BYTES = 100e12, 1.3e12   # FLOP/s and bytes/s of a GPU, by which work is balanced
_CHEAP = 0.02                   # share of a step up to which a value is made again
_FINE = 0.02                    # share of a step that calls without products have in one segment


class Division(NamedTuple):
    """Segments as ranges of calls, and what they share."""

    bounds: List[Tuple[int, int]]        # calls [first, last) of each segment
    segment_of: List[int]                # number of the segment of each call
    again: Set[int]                      # calls that every stage can make again
    crossing: List[int]                  # storages that a later segment (or the loss) reads, in order
    made_in: Dict[int, int]              # such a storage -> the segment that makes it
    read_in: Dict[int, List[int]]        # such a storage -> later segments that read it
    seconds: List[float]                 # roofline time of each segment, forward and backward


def seconds_of(events: Sequence[Event]) -> float:
    """Roofline time of what ran."""
    return sum(max(each.flops / FLOPS, each.bytes / BYTES) for event in events for each in event.kernels)


def is_known(sizes: object) -> bool:
    """Whether export knows a shape but for the batch: no size that data decide."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
    if isinstance(sizes, torch.Tensor):
        return not any(isinstance(size, torch.SymInt) and free_unbacked_symbols(size) for size in sizes.shape)
    if isinstance(sizes, (list, tuple)):
        return all(is_known(each) for each in sizes)
    return not isinstance(sizes, (torch.SymInt, torch.SymFloat, torch.SymBool))


def _made_again(program: Program, trace: Trace, cost: Sequence[float], products: Sequence[bool]) -> Set[int]:
    """Calls that depend on inputs and constants only, are cheap and draw no random numbers."""
    total = sum(cost)
    kinds = {source.value: source.kind for source in program.sources}
    written_values: Set[int] = set()
    for storage, value in trace.sources.items():
        if storage in trace.writes:
            written_values.add(value)
    free_values = {value for value, kind in kinds.items() if kind != "parameter" and value not in written_values}
    spoiled: Set[int] = set()   # storages that a call writes which is not made again
    while True:
        values, again = set(free_values), set()
        for place, call in enumerate(program.calls):
            if products[place] or cost[place] > _CHEAP * total or is_random(call.target):
                continue
            if any(each in spoiled for each in trace.makes[place]):
                continue
            if all(each in values for each in values_in((call.args, call.kwargs))):
                again.add(place)
                values.add(call.result)
        fresh = {storage for storage, places in trace.writes.items() if any(place not in again for place in places)
                 and any(place in again for place in range(len(program.calls)) if storage in trace.makes[place])}
        if fresh <= spoiled:
            return again
        spoiled |= fresh


def divide(program: Program, trace: Trace) -> Division:
    """The segments of a program, from what one step of it did."""
    count = len(program.calls)
    events: List[List[Event]] = [[] for _ in range(count)]
    for event in trace.recorder.events:
        events[event.call].append(event)
    cost = [seconds_of(each) for each in events]
    products = [any(kernel.flops for event in each for kernel in event.kernels) for each in events]
    again = _made_again(program, trace, cost, products)

    made: Dict[int, int] = {}      # storage -> call that makes it
    last: Dict[int, int] = {}      # storage -> last call that takes it
    hidden: Set[int] = set()       # storages of unknown shapes
    for place in range(count):
        for storage in trace.uses[place]:
            if place not in again:
                last[storage] = place
        for storage, _, _, _, _ in trace.shapes[place]:
            if storage not in trace.sources:
                made.setdefault(storage, place)
                last[storage] = max(last.get(storage, 0), place if place not in again else 0)
        if not is_known(program.calls[place].sizes):
            hidden.update(trace.makes[place])
    last[trace.loss] = count
    own = {storage for storage, place in made.items() if place not in again}

    # For each position i, the cut before call i: whether it is forbidden (above 0), and the bytes that cross
    # it. Both lists hold differences until they are summed up below.
    forbidden = [0] * (count + 2)
    crossing = [0] * (count + 2)

    def span(changed: List[int], first: int, end: int, amount: int) -> None:
        if first < end:
            changed[first] += amount
            changed[end] -= amount

    for storage in own:
        first, end = made[storage] + 1, last.get(storage, 0) + 1
        writes = trace.writes.get(storage, [])
        if storage in hidden:
            span(forbidden, first, end, 1)
        elif writes:
            span(forbidden, first, min(max(writes) + 1, end), 1)
        span(crossing, first, end, trace.recorder.sizes[storage])
    span(forbidden, made[trace.loss] + 1, count, 1)   # What comes after the loss is only returned.
    for storage, value in trace.sources.items():
        if storage in trace.writes:   # A buffer that is written lies in one segment.
            places = [place for place in range(count) if storage in trace.uses[place]]
            span(forbidden, min(places) + 1, max(places) + 1, 1)
    maker = {call.result: place for place, call in enumerate(program.calls)}
    for place, call in enumerate(program.calls):
        if place in again:
            continue
        for value in values_in((call.args, call.kwargs)):
            source = maker.get(value)
            if source is None or source in again:
                continue
            sizes = program.calls[source].sizes
            is_given = any(made[0] in trace.sources for made in trace.shapes[source])
            # Numbers that depend on data, lists of results, and views of inputs and parameters cannot cross a
            # cut.
            if not isinstance(sizes, torch.Tensor) or is_given:
                span(forbidden, source + 1, place + 1, 1)
    for changed in (forbidden, crossing):
        for position in range(1, count + 2):
            changed[position] += changed[position - 1]

    allowed = [position for position in range(1, count) if not forbidden[position] and crossing[position]]
    cuts = _between_exchanges(program, allowed, crossing, cost, products)
    bounds = list(zip([0] + cuts, cuts + [count]))
    segment_of = [0] * count
    for segment, (first, end) in enumerate(bounds):
        for place in range(first, end):
            segment_of[place] = segment

    made_in: Dict[int, int] = {}
    read_in: Dict[int, List[int]] = {}
    for storage in own:
        segment = segment_of[made[storage]]
        readers = {segment_of[place] for place in range(count) if place not in again and storage in trace.uses[place]}
        readers.discard(segment)
        if readers or storage == trace.loss:
            made_in[storage] = segment
            read_in[storage] = sorted(readers)
    order = sorted(made_in, key=lambda storage: made[storage])
    seconds = [sum(cost[first:end]) for first, end in bounds]
    return Division(bounds, segment_of, again, order, made_in, read_in, seconds)


def _between_exchanges(program: Program, allowed: Sequence[int], crossing: Sequence[int], cost: Sequence[float],
                       products: Sequence[bool]) -> List[int]:
    """The chosen cuts. An exchange of a tensor group is a segment of its own, for the Runtime does it."""
    exchanges = [place for place, call in enumerate(program.calls) if isinstance(call.target, Collective)]
    forced = sorted({position for place in exchanges for position in (place, place + 1)})
    for position in forced:
        if position not in allowed:
            raise CaptureError("tensor parallelism: a number or a view that lives longer keeps {} from being divided".format(
                program.calls[position - 1].module or "the step"))
    cuts: List[int] = []
    edges = [0] + forced + [len(program.calls)]
    for first, end in zip(edges, edges[1:]):
        inside = allowed[bisect.bisect_right(allowed, first):bisect.bisect_left(allowed, end)]
        cuts += _chosen(first, end, inside, crossing, cost, products) + ([end] if end in forced else [])
    return cuts


def _chosen(begin: int, stop: int, allowed: Sequence[int], crossing: Sequence[int], cost: Sequence[float],
            products: Sequence[bool]) -> List[int]:
    """One of the allowed cuts between each two pieces of work that count: the one that fewest bytes cross."""
    if not allowed:
        return []
    total = sum(cost)
    mean_product = sum(c for c, p in zip(cost, products) if p) / max(sum(products), 1)
    edges = [begin] + list(allowed) + [stop]
    cuts: List[int] = []
    between: List[int] = []       # positions since the last piece of work
    gathered, started = 0.0, False
    for atom in range(len(edges) - 1):
        first, end = edges[atom], edges[atom + 1]
        work = sum(cost[first:end])
        product = any(products[place] and cost[place] > 0.1 * mean_product for place in range(first, end))
        gathered += work
        if product or gathered >= _FINE * total:
            if started and between:
                cuts.append(min(between, key=lambda position: (crossing[position], -position)))
            between, gathered, started = [], 0.0, True
        between.append(end)
    return cuts
