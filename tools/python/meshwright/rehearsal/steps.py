"""Finds the steps of a training script by its optimizer, and records one that repeats.

A step ends when the first optimizer that was used has stepped. The first one makes states; the next
two let the allocator settle and are timed: between two calls the shortest time of all counts, for what
else the computer does only takes time. In the fourth PyTorch's profiler says which operation each
kernel belongs to. Then the script has shown enough and is stopped. Some more steps are timed where none was
like the profiled one (a script may log every other step), or where another one would still shorten the time much,
because the computer is busy.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import tempfile
import threading
import time
from typing import Any, Dict, List, NamedTuple, Optional

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from .batches import batch_of, replicas_of
from .beside_ranks import ranks_of_groups, sizes_of_groups
from .device_log import DeviceLog, Entry
from .joining import Joined
from .memory_phases import MemoryPhases, shards_of, state_bytes
from .profiles import Profiles
from .roles import Roles
from .triton_launches import TritonLaunches
from .versions import versions

__all__ = ["Enough", "Steps"]

_WARM_UP = 2
_MOST_TIMED = 8
_SETTLED = 0.02      # share of a step's time that another step may still take off
_MOST_EXTRA_S = 20   # seconds for which more steps are timed


class Enough(BaseException):
    """Ends a script when a step of it is recorded. Scripts that catch Exception let it pass."""


class _Timed(NamedTuple):
    """A step on the host: its calls, and the nanoseconds of its begin, of each call, and of its end."""

    kinds: List[str]
    times: List[int]

    @property
    def seconds(self) -> float:
        return (self.times[-1] - self.times[0]) / 1e9


def _end(*_of: Any) -> None:
    raise Enough


def _calls(entries: List[Entry]) -> List[Entry]:
    return [each for each in entries if each.kind not in ("allocate", "release", "mark", "refuse")]


def _gaps(step: _Timed, kinds: List[str]) -> List[Optional[int]]:
    """The time before each call of `kinds` and before the end, as the step had it; None where it made other calls.

    A script may do something besides in some steps, such as logging, so calls are alike from the begin and from the end on.
    """
    gaps: List[Optional[int]] = [after - before for before, after in zip(step.times, step.times[1:])]
    if step.kinds == kinds:
        return gaps
    head = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(step.kinds, kinds)))
    backwards = zip(reversed(step.kinds[head:]), reversed(kinds[head:]))
    tail = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], backwards))
    return gaps[:head] + [None] * (len(kinds) + 1 - head - tail) + gaps[len(gaps) - tail:]


def _shortest(steps: List[_Timed], profiled: _Timed) -> List[int]:
    """When each call of the profiled step and its end come, if between two of them the shortest time passes that a step had."""
    known = [_gaps(each, profiled.kinds) for each in steps]
    own = [after - before for before, after in zip(profiled.times, profiled.times[1:])]
    least = (min([each for each in gaps if each is not None], default=slow) for slow, *gaps in zip(own, *known))
    return list(itertools.accumulate(max(0, each) for each in least))


class Steps:
    """Registers itself with PyTorch's optimizers. `recording` is there once a step was recorded."""

    def __init__(self, roles: Roles) -> None:
        self.seen = 0
        self._roles = roles
        self.recording: Optional[Dict[str, Any]] = None
        self._log = DeviceLog()
        self._first: Any = None
        self._optimizers: Dict[int, Any] = {}
        self._begin = 0
        self._began_ns = self._ended_ns = 0
        self._timed: List[_Timed] = []
        self._profiled: Any = None
        self._joined: Any = None
        self._more_until = 0.0
        self._memory: Dict[str, int] = {}
        self._triton: Any = None
        self._phases: Optional[MemoryPhases] = None
        self._files = tempfile.mkdtemp(prefix="meshwright-rehearsal-")
        self._profiles = Profiles(self._files)
        self._thread = threading.get_ident()
        self._stepped_in_backward = False
        register_optimizer_step_post_hook(self._stepped)
        self._watch_backward()

    def _stepped(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        self._optimizers[id(optimizer)] = optimizer
        if self._first is None:
            self._first = optimizer
        if optimizer is not self._first:
            return
        # An optimizer that updates each parameter as soon as its gradient is there runs on a thread
        # of autograd. A profiler sees the thread that begins it, so the step ends after backward.
        if threading.get_ident() == self._thread:
            self._end_step()
        else:
            self._stepped_in_backward = True

    def _watch_backward(self) -> None:
        backward = torch.autograd.backward

        def watched(*args: Any, **kwargs: Any) -> None:
            backward(*args, **kwargs)
            if self._stepped_in_backward:
                self._stepped_in_backward = False
                self._end_step()

        torch.autograd.backward = watched

    def _end_step(self) -> None:
        self.seen += 1
        if self.seen in (_WARM_UP, _WARM_UP + 1):
            self._time()
        if self.seen == _WARM_UP:
            self._memory["allocated_before_step_bytes"] = torch.cuda.memory_allocated()
        if self.seen in (_WARM_UP - 1, _WARM_UP):
            self._roles.take_turn()
            self._start()
        elif self.seen == _WARM_UP + 1:
            self._roles.end_turn()
            self._memory["peak_allocated_bytes"] = torch.cuda.max_memory_allocated()
            self._memory["peak_reserved_bytes"] = torch.cuda.max_memory_reserved()
            self._profiles.start()
            self._triton = TritonLaunches()
            self._phases = MemoryPhases()
            self._start()
        elif self.seen == _WARM_UP + 2:
            self._ended_ns = self._log.time_ns()
            entries = self._log.entries(self._begin, self._log.position())
            self.recording = self._recorded(entries)
            self._more_until = time.monotonic() + _MOST_EXTRA_S
            self._go_on_or_end()
        elif self.seen > _WARM_UP + 2:
            self._time()
            self._set_times()
            self._go_on_or_end()

    def _go_on_or_end(self) -> None:
        """Lets the script make another step, which is timed, or ends it. Other ranks would wait for this one's messages."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        if (self._settled() or len(self._timed) >= _MOST_TIMED or self._roles.has_others()
                or threading.current_thread() is not threading.main_thread() or time.monotonic() > self._more_until):
            raise Enough
        # Work after the last step of a script, such as saving a model, is not waited for: a timer ends the
        # script.
        signal.signal(signal.SIGALRM, _end)
        signal.setitimer(signal.ITIMER_REAL, 1 + 3 * max(each.seconds for each in self._timed))
        self._start()

    def _repeats(self) -> bool:
        return any(each.kinds == self._profiled.kinds for each in self._timed)

    def _settled(self) -> bool:
        """Whether a step was like the profiled one, and the last one took hardly anything off the shortest times."""
        now, before = (_shortest(steps, self._profiled)[-1] for steps in (self._timed, self._timed[:-1]))
        return self._repeats() and now >= (1 - _SETTLED) * before

    def _set_times(self) -> None:
        assert self.recording is not None
        times = _shortest(self._timed, self._profiled)
        self._joined.set_times(times)
        self.recording["steps"]["repeats"] = self._repeats()
        self.recording["step_host_s"] = times[-1] / 1e9

    def close(self) -> None:
        """Removes the files that the recording was made of."""
        self._log.remove()
        shutil.rmtree(self._files, ignore_errors=True)

    def _start(self) -> None:
        self._begin, self._began_ns = self._log.position(), self._log.time_ns()

    def _time(self) -> None:
        """Keeps the times of the step that ends now."""
        end_ns = self._log.time_ns()
        calls = _calls(self._log.entries(self._begin, self._log.position()))
        self._timed.append(_Timed([each.kind for each in calls],
                                  [self._began_ns, *(each.time_ns for each in calls), end_ns]))

    def _recorded(self, entries: List[Entry]) -> Dict[str, Any]:
        phases = self._phases.rows() if self._phases is not None else []
        self._triton.close()
        operations = self._profiles.stop(ranks_of_groups())
        kept = _calls(entries)
        kinds = [each.kind for each in kept]
        self._profiled = _Timed(kinds, [self._began_ns, *(each.time_ns for each in kept), self._ended_ns])
        times = _shortest(self._timed, self._profiled)
        joined = self._joined = Joined(kept, times[:-1], operations, self._triton, int(os.environ.get("RANK", "0")))
        batch = batch_of(operations)
        if batch is not None:
            batch["replicas"] = replicas_of(int(os.environ.get("WORLD_SIZE", "1")), sizes_of_groups())
        return {
            **({"batch": batch} if batch is not None else {}),
            "versions": versions(),
            "phases": phases,
            "state_bytes": state_bytes(list(self._optimizers.values()), shards_of(joined.events, joined.groups)),
            "steps": {"seen": self.seen, "recorded": self.seen, "repeats": self._repeats()},
            "step_host_s": times[-1] / 1e9,
            "memory": self._memory,
            "operations": list(joined.operations),
            "symbols": list(joined.symbols),
            "kernels": joined.kernel_rows,
            "groups": joined.groups,
            "streams": joined.streams,
            "events": joined.events,
        }
