"""Ranks that a script starts itself, by torch.multiprocessing: one runs in this process, the others are not there."""

from __future__ import annotations

import os
import sys
from typing import Any

from . import beside_ranks

__all__ = ["run_in_this_process", "started"]

started = 0   # ranks of this host that the script has started


def run_in_this_process(rank: int) -> None:
    import torch.multiprocessing
    module = sys.modules["torch.multiprocessing.spawn"]

    def start(function: Any, args: Any = (), nprocs: int = 1, join: bool = True, *_rest: Any, **_more: Any) -> Any:
        global started
        started = nprocs
        beside_ranks.expect(nprocs)
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        function(rank % nprocs, *args)
        return None if join else _Finished()

    torch.multiprocessing.spawn = torch.multiprocessing.start_processes = start   # type: ignore[assignment]
    vars(module).update(spawn=start, start_processes=start)


class _Finished:
    """The context of processes that have ended."""

    def join(self, *_of: Any) -> bool:
        return True
