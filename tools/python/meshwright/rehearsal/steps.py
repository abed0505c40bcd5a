"""Finds the steps of a training script by its optimizer, and records one that repeats.

A step ends when the first optimizer that was used has stepped. The first two steps make states and
let the allocator settle; the third is timed; in the fourth PyTorch's profiler says which operation
each kernel belongs to. Then the script has shown enough and is stopped.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from typing import Any, Dict, List, Optional

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from .beside_ranks import ranks_of_groups
from .device_log import DeviceLog, Entry
from .joining import Joined
from .operations import Operations

__all__ = ["Enough", "Steps"]

_WARM_UP = 2


class Enough(BaseException):
    """Ends a script when a step of it is recorded. Scripts that catch Exception let it pass."""


class Steps:
    """Registers itself with PyTorch's optimizers. `recording` is there once a step was recorded."""

    def __init__(self) -> None:
        self.seen = 0
        self.recording: Optional[Dict[str, Any]] = None
        self._log = DeviceLog()
        self._first: Any = None
        self._begin = 0
        self._began_s = 0.0
        self._plain: List[Entry] = []
        self._plain_s = 0.0
        self._memory: Dict[str, int] = {}
        self._profiler: Any = None
        self._files = tempfile.mkdtemp(prefix="meshwright-rehearsal-")
        register_optimizer_step_post_hook(self._stepped)

    def _stepped(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if self._first is None:
            self._first = optimizer
        if optimizer is not self._first:
            return
        self.seen += 1
        if self.seen == _WARM_UP:
            self._memory["allocated_before_step_bytes"] = torch.cuda.memory_allocated()
            self._start()
        elif self.seen == _WARM_UP + 1:
            self._plain_s = time.perf_counter() - self._began_s
            self._plain = self._log.entries(self._begin, self._log.position())
            self._memory["peak_allocated_bytes"] = torch.cuda.max_memory_allocated()
            self._memory["peak_reserved_bytes"] = torch.cuda.max_memory_reserved()
            self._profile()
            self._start()
        elif self.seen == _WARM_UP + 2:
            entries = self._log.entries(self._begin, self._log.position())
            self.recording = self._joined(entries)
            raise Enough

    def close(self) -> None:
        """Removes the files that the recording was made of."""
        self._log.remove()
        shutil.rmtree(self._files, ignore_errors=True)

    def _start(self) -> None:
        self._begin, self._began_s = self._log.position(), time.perf_counter()

    def _profile(self) -> None:
        from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile
        observer = ExecutionTraceObserver()
        observer.register_callback(os.path.join(self._files, "operations.json"))
        self._profiler = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True,
                                 execution_trace_observer=observer)
        self._profiler.__enter__()

    def _joined(self, entries: List[Entry]) -> Dict[str, Any]:
        self._profiler.__exit__(None, None, None)
        trace = os.path.join(self._files, "profile.json")
        self._profiler.export_chrome_trace(trace)
        operations = Operations(os.path.join(self._files, "operations.json"), trace, ranks_of_groups())
        kept = [each for each in entries if each.kind not in ("allocate", "release", "mark", "refuse")]
        plain = [each for each in self._plain if each.kind not in ("allocate", "release", "mark", "refuse")]
        repeats = [each.kind for each in kept] == [each.kind for each in plain]
        joined = Joined(kept, [each.time_ns for each in (plain if repeats else kept)], operations,
                        int(os.environ.get("RANK", "0")))
        return {
            "steps": {"seen": self.seen, "recorded": self.seen, "repeats": repeats},
            "step_host_s": self._plain_s,
            "memory": self._memory,
            "operations": list(joined.operations),
            "symbols": list(joined.symbols),
            "kernels": joined.kernel_rows,
            "groups": joined.groups,
            "streams": joined.streams,
            "events": joined.events,
        }
