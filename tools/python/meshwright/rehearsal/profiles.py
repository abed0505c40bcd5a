"""PyTorch's profiler around a step, and around each capture of a CUDA graph: which operation a launch belongs to.

A graph is captured before the step that is profiled, and its launches say nothing of operations. So each
capture has a profile of its own, and the stand-in library writes its number into the launches of the graph.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any, Dict, List, Optional

import torch
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile

from ..torch.kernels import Kernel
from .operations import Operation, Operations

__all__ = ["AllOperations", "Profiles"]

_ID_BITS, _PROFILE_BITS = 32, 16   # bits of an operation's number (tools/stand_in/graphs.cpp)


class _Profile:
    def __init__(self, folder: str, number: int) -> None:
        self._operations = os.path.join(folder, "operations-{}.json".format(number))
        self._trace = os.path.join(folder, "profile-{}.json".format(number))
        observer = ExecutionTraceObserver()
        observer.register_callback(self._operations)
        self._profiler = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True,
                                 execution_trace_observer=observer)
        self._profiler.__enter__()

    def stop(self) -> None:
        self._profiler.__exit__(None, None, None)
        self._profiler.export_chrome_trace(self._trace)

    def read(self, groups: Dict[str, List[int]]) -> Operations:
        return Operations(self._operations, self._trace, groups)


class AllOperations:
    """The operations of a step by the numbers that the stand-in library has of launches, those of graphs too."""

    def __init__(self, of_profile: Dict[int, Operations]) -> None:
        self._of_profile = of_profile

    def of(self, number: int) -> Optional[Operation]:
        known = self._profile_of(number)
        found = known.of(_id_of(number)) if known else None
        # The operations of a graph run once in each launch of it, so the launch is a part of their number.
        return found and found._replace(number=found.number | (number >> _ID_BITS) << 40)

    def ranks_of(self, number: int) -> Optional[List[int]]:
        known = self._profile_of(number)
        return known.ranks_of(_id_of(number)) if known else None

    def kernels(self, operation: Operation) -> List[Kernel]:
        return self._of_profile[0].kernels(operation)

    def in_order(self) -> List[Operation]:
        """All operations, in the order in which they began; those of a graph once, as they were captured."""
        return [each for known in self._of_profile.values() for each in known.in_order()]

    def is_backward(self, operation: Operation) -> bool:
        return self._that_has(operation).is_backward(operation)

    def is_recomputed(self, operation: Operation) -> bool:
        return self._that_has(operation).is_recomputed(operation)

    def _that_has(self, operation: Operation) -> Operations:
        return self._of_profile[operation.number >> 40 & (1 << _PROFILE_BITS) - 1]

    def _profile_of(self, number: int) -> Optional[Operations]:
        return self._of_profile.get(number >> _ID_BITS & (1 << _PROFILE_BITS) - 1)


def _id_of(number: int) -> int:
    return number & (1 << _ID_BITS) - 1


class Profiles:
    """Profiles captures from now on. `start` profiles a step, and `stop` returns its operations."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._step: Optional[_Profile] = None
        self._captures: Dict[int, _Profile] = {}
        self._capturing: Optional[_Profile] = None
        self._wrap(torch.cuda.CUDAGraph)

    def start(self) -> None:
        self._step = _Profile(self._folder, 0)

    def stop(self, groups: Dict[str, List[int]]) -> AllOperations:
        assert self._step is not None
        self._step.stop()
        return AllOperations({0: self._step.read(groups),
                              **{number: each.read(groups) for number, each in self._captures.items()}})

    def _wrap(self, graph: Any) -> None:
        begin, end = graph.capture_begin, graph.capture_end_pre

        def capture_begin(itself: Any, *args: Any, **kwargs: Any) -> None:
            number = 0
            if self._step is None and not torch.autograd._profiler_enabled():
                number = len(self._captures) + 1
                self._capturing = self._captures[number] = _Profile(self._folder, number)
            ctypes.CDLL(None).meshwright_stand_in_next_profile(number)
            begin(itself, *args, **kwargs)

        def capture_end_pre(itself: Any) -> None:
            end(itself)
            if self._capturing is not None:
                self._capturing.stop()
                self._capturing = None

        graph.capture_begin, graph.capture_end_pre = capture_begin, capture_end_pre
