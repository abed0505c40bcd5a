"""What a compiler that fuses would run of a list of events.

Chains of operations on elements and of reductions between products become one kernel, which reads what
comes from outside and writes what is needed outside, once each. What the backward pass would have kept
of the inside of a chain is computed again from the chain's own inputs, if those are fewer bytes.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from .kernels import Kernel
from .recording import Event

__all__ = ["Fused", "fused"]


class _Group:
    def __init__(self, place: int) -> None:
        self.place = place
        self.events: List[Event] = []
        self.reads: Dict[int, int] = {}
        self.writes: Dict[int, int] = {}


class Fused(NamedTuple):
    """Kernels in order; `lives` are (storage, first, last kernel) of what lies in memory between them."""

    kernels: List[Kernel]
    sources: Dict[int, Tuple[int, ...]]      # storage inside a chain -> what the chain reads
    written: Set[int]                        # storages that are written to memory
    lives: List[Tuple[int, int, int]]


def fused(events: Sequence[Event], outside: Set[int], instead: Optional[Dict[int, Tuple[int, ...]]] = None,
          sizes: Optional[Sequence[int]] = None) -> Fused:
    """Fuses the events of one phase of a segment.

    `outside` are the storages that something else reads later. `instead` maps storages that the forward
    pass does not keep to those from which they are computed again.
    """
    groups: List[_Group] = []
    made_by: Dict[int, int] = {}     # storage -> place of its group in `groups`
    touched: Dict[int, int] = {}     # storage -> last group that reads or writes it
    for event in events:
        reads: Dict[int, int] = {}
        for storage, size in event.reads:
            for source in (instead or {}).get(storage, (storage,)):
                reads[source] = max(reads.get(source, 0), size if source == storage else sizes[source])
        target = None
        if event.fuses:
            makers = [made_by[storage] for storage in reads if storage in made_by]
            place = max(makers, default=-1)
            if place >= 0 and groups[place].events[0].fuses:
                late = any(touched.get(storage, -1) > place for storage, _ in event.writes)
                if not late:
                    target = place
            elif place < 0 and groups and groups[-1].events[0].fuses and set(reads) & set(groups[-1].reads):
                target = len(groups) - 1     # Both read the same tensor.
        if target is None:
            groups.append(_Group(len(groups)))
            target = len(groups) - 1
        group = groups[target]
        for storage, size in reads.items():
            if made_by.get(storage) != target or storage not in group.writes:
                group.reads[storage] = max(group.reads.get(storage, 0), size)
            touched[storage] = max(touched.get(storage, -1), target)
        for storage, size in event.writes:
            group.writes[storage] = max(group.writes.get(storage, 0), size)
            made_by[storage] = target
            touched[storage] = max(touched.get(storage, -1), target)
        group.events.append(event)

    readers: Dict[int, Set[int]] = {}
    for group in groups:
        for storage in group.reads:
            readers.setdefault(storage, set()).add(group.place)
    kernels: List[Kernel] = []
    sources: Dict[int, Tuple[int, ...]] = {}
    written: Set[int] = set()
    first: Dict[int, int] = {}
    last: Dict[int, int] = {}
    for group in groups:
        needed = {storage: size for storage, size in group.writes.items()
                  if storage in outside or readers.get(storage, set()) - {group.place}}
        if len(group.events) == 1:
            new = list(group.events[0].kernels)
        else:
            moved = sum(group.reads.values()) + sum(needed.values())
            new = [Kernel("fused.{}".format(len(group.events)), "memory", moved)] if moved else []
        if group.events[0].fuses:
            inputs = tuple(storage for storage in group.reads)
            for storage in group.writes:
                sources[storage] = inputs
        for storage in (needed if len(group.events) > 1 else group.writes):
            written.add(storage)
            first.setdefault(storage, len(kernels))
            last[storage] = max(last.get(storage, 0), len(kernels))
        for storage in group.reads:
            last[storage] = len(kernels)
        kernels += new
    lives = [(storage, first[storage], last[storage]) for storage in first]
    return Fused(kernels, sources, written, lives)
