"""Ranks that a script starts itself, by torch.multiprocessing: one runs in this process, the others are not there."""

from __future__ import annotations

import os
import sys
from typing import Any

from . import beside_ranks
from .after_import import after_import

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
    for name in ("lightning.pytorch", "lightning.fabric", "pytorch_lightning", "lightning_fabric"):
        after_import(name + ".strategies.launchers.subprocess_script", _start_no_scripts)


def _start_no_scripts(module: Any) -> None:
    """Lightning starts its script once more for each further rank."""
    def call_children_scripts(self: Any) -> None:
        global started
        started = self.num_processes
        beside_ranks.expect(self.num_processes * self.num_nodes)
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.update(NODE_RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(self.num_processes * self.num_nodes))

    module._SubprocessScriptLauncher._call_children_scripts = call_children_scripts


class _Finished:
    """The context of processes that have ended."""

    def join(self, *_of: Any) -> bool:
        return True
