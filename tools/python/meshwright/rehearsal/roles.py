"""Other ranks that this one passes messages to or from: each is a process of its own.

The stages of a pipeline do different work, so a rank that sends to or receives from another one asks for
it, and the script runs for that rank too. Processes share a folder: whole numbers and objects travel
there, as sizes and shapes are needed to go on; no values of activations do, for there are none.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional

__all__ = ["OWN_RANK", "Roles", "RoleFailed"]

OWN_RANK = "MESHWRIGHT_REHEARSED_RANK"   # in the environment of a rank's process; absent: 0
_MOST = 32             # ranks that run; messages to more are priced as if those were always ready
_PAUSE_S = 0.005
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG


class RoleFailed(BaseException):
    """Another rank ended before it had sent what this one waits for."""

    def __init__(self, rank: int, code: int) -> None:
        super().__init__("rank {} ended with {}".format(rank, code))
        self.rank, self.code = rank, code


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGTERM)


class Roles:
    """The processes of one rehearsal, seen from `rank`. `out` is where rank 0 writes the recording."""

    def __init__(self, out: str, rank: int) -> None:
        self.rank = rank
        self._out = out
        self._folder = out + ".ranks"
        os.makedirs(self._folder, exist_ok=True)
        self._directory, self._environment = os.getcwd(), dict(os.environ)
        self._started: Dict[int, Optional[subprocess.Popen]] = {rank: None}
        self._counts: Dict[Any, int] = {}
        self._turn: Any = None
        if rank == 0:
            open(self._path("0.started"), "x", encoding="utf-8").close()

    @property
    def own_recording(self) -> str:
        """The file in which this rank's process writes its recording."""
        return self._path("{}.json".format(self.rank)) if self.rank else self._out

    def ask_for(self, rank: int) -> bool:
        """Sees to it that the rank runs. False if too many run already."""
        if rank in self._started:
            return True
        started = [name for name in os.listdir(self._folder) if name.endswith(".started")]
        if "{}.started".format(rank) not in started and len(started) >= _MOST:
            return False
        self._started[rank] = self._start(rank)
        return True

    def has_others(self) -> bool:
        """Whether another rank runs that is known to pass messages to or from this one."""
        return len(self._started) > 1 or self.rank != 0

    def take_turn(self) -> None:
        """Waits until no more ranks measure their hosts' time than there are pairs of cores: more would slow each other."""
        self._turn = self._turn or self._free_turn()

    def end_turn(self) -> None:
        if self._turn is not None:
            fcntl.flock(self._turn, fcntl.LOCK_UN)   # also for processes that were forked in the meantime
            self._turn.close()
            self._turn = None

    def _free_turn(self) -> Any:
        turns = [open(self._path("{}.turn".format(each)), "w", encoding="utf-8") for each in range(max(1, _cores() // 2))]
        while True:
            for turn in turns:
                try:
                    fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return turn
                except OSError:
                    continue
            time.sleep(_PAUSE_S)

    def put(self, to: int, value: bytes) -> None:
        """Sends a value, which `get` of that rank returns in its turn."""
        self._keep(self._path(self._next(self.rank, to)), value)

    def tell(self, value: bytes) -> None:
        """Says something to all other ranks, each of which hears it by `told` in its turn. Rank 0 does so."""
        self._keep(self._path(self._next(0, "all")), value)

    def told(self) -> bytes:
        """What rank 0 tells next; waits for it. Throws RoleFailed if nothing can come."""
        return self._await(self._path(self._next(0, "all")), 0)

    @staticmethod
    def _keep(path: str, value: bytes) -> None:
        with open(path + ".part", "wb") as file:
            file.write(value)
        os.rename(path + ".part", path)

    def get(self, source: int) -> bytes:
        """The next value that the rank sent to this one; waits for it. Throws RoleFailed if none can come."""
        return self._await(self._path(self._next(source, self.rank)), source)

    def _await(self, path: str, source: int) -> bytes:
        held = self._turn is not None
        while True:
            ended = self._ended(source)
            if os.path.exists(path):
                if held:
                    self.take_turn()
                with open(path, "rb") as file:
                    return file.read()
            self.end_turn()   # the other rank may wait for it
            if ended is not None:
                raise RoleFailed(source, ended)
            time.sleep(_PAUSE_S)

    def end(self, code: int) -> None:
        """Says that this rank has nothing more to do. Ranks that it started end when its process does, so it waits."""
        self._say_ended(self.rank, code)
        for rank, process in self._started.items() if code == 0 else ():
            if process is not None and process.wait() != 0 and not os.path.exists(self._path("{}.ended".format(rank))):
                self._say_ended(rank, 1)

    def close(self) -> None:
        """Removes the folder. Only rank 0 does so, when all the others have ended or failed."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def others(self) -> List[Dict[str, Any]]:
        """Waits for all other ranks, and returns their recordings by rank. Throws RoleFailed for the first that failed."""
        waiting, found = True, {}
        while waiting:
            ranks = sorted(int(name.split(".")[0]) for name in os.listdir(self._folder) if name.endswith(".started"))
            waiting = False
            for rank in ranks:
                if rank == self.rank or rank in found:
                    continue
                code = self._ended(rank)
                if code:
                    raise RoleFailed(rank, code)
                if code is None:
                    waiting = True
                else:
                    with open(self._path("{}.json".format(rank)), encoding="utf-8") as file:
                        found[rank] = json.load(file)
            if waiting:
                time.sleep(_PAUSE_S)
        return [found[rank] for rank in sorted(found)]

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _say_ended(self, rank: int, code: int) -> None:
        part = self._path("{}.part".format(rank))
        with open(part, "w", encoding="utf-8") as file:
            file.write(str(code))
        os.rename(part, self._path("{}.ended".format(rank)))

    def _next(self, source: int, to: Any) -> str:
        number = self._counts[source, to] = self._counts.get((source, to), 0) + 1
        return "{}.to.{}.{}".format(source, to, number)

    def _start(self, rank: int) -> Optional[subprocess.Popen]:
        try:
            open(self._path("{}.started".format(rank)), "x", encoding="utf-8").close()
        except FileExistsError:
            return None   # another rank was first to ask
        environment = {**self._environment, OWN_RANK: str(rank)}
        return subprocess.Popen(sys.orig_argv, cwd=self._directory, env=environment, preexec_fn=_end_with_parent)

    def _ended(self, rank: int) -> Optional[int]:
        """The exit code of a rank's process, or None if it runs."""
        path = self._path("{}.ended".format(rank))
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                return int(file.read())
        process = self._started.get(rank)
        code = None if process is None else process.poll()
        return (code or 1) if code is not None and not os.path.exists(path) else None
