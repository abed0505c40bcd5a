"""python -m meshwright.rehearsal --out FILE --machine NAME [--ranks N --per-host N --rank R] -- SCRIPT ARGS...

SCRIPT may be `-m MODULE`, as Python has it.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import runpy
import sys
import traceback
from typing import Any, Dict, List

from .roles import RoleFailed, Roles


def _arguments() -> argparse.Namespace:
    options = argparse.ArgumentParser(prog="python -m meshwright.rehearsal", description=__doc__.splitlines()[0])
    options.add_argument("--out", required=True)
    options.add_argument("--machine", required=True)
    options.add_argument("--ranks", type=int, default=1)
    options.add_argument("--per-host", type=int, default=1)
    options.add_argument("--rank", type=int, default=0)
    options.add_argument("command", nargs=argparse.REMAINDER)
    return options.parse_args()


def _run(command: List[str]) -> None:
    is_module = command[0] == "-m"
    command = command[1:] if is_module else command
    sys.argv = list(command)
    if is_module:
        runpy.run_module(command[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(command[0]))
        runpy.run_path(command[0], run_name="__main__")


def main() -> int:
    options = _arguments()
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    try:
        import torch
    except ImportError as error:
        print("meshwright rehearse: {} has no PyTorch ({}); name the Python to use in the command or in MESHWRIGHT_PYTHON"
              .format(sys.executable, error), file=sys.stderr)
        return 2
    own = ctypes.CDLL(None).meshwright_stand_in_cuda() // 1000
    if (torch.version.cuda or "none").split(".")[0] != str(own):
        print("meshwright rehearse: this PyTorch is for CUDA {}; the stand-in GPUs of this build need one for CUDA {}".format(
            torch.version.cuda or "nothing", own), file=sys.stderr)
        return 2
    roles, code = Roles(options.out, options.rank), 1
    try:
        code = _rehearse(options, command, roles)
        if code == 0 and options.rank == 0:
            _add(roles.others(), options.out)
    except RoleFailed as other:
        print("meshwright rehearse: rank {} failed; it says why above. Rank {} passes messages to or from it".format(
            other.rank, options.rank), file=sys.stderr)
        code = other.code
    except KeyboardInterrupt:
        code = 130
    except BaseException:   # the script's, whatever it is
        traceback.print_exc()
    sys.stderr.flush()      # before another rank learns of the end
    roles.end(code)
    if options.rank == 0:
        roles.close()
    return code


def _rehearse(options: argparse.Namespace, command: List[str], roles: Roles) -> int:
    import torch
    from . import beside_ranks, steps
    beside_ranks.join(options.ranks, options.per_host, roles)
    watch = steps.Steps()
    try:
        _run(command)
    except steps.Enough:
        pass
    except SystemExit as ended:
        if ended.code:
            print("meshwright rehearse: the script exited with {}".format(ended.code), file=sys.stderr)
            return ended.code if isinstance(ended.code, int) else 1
    except torch.OutOfMemoryError as error:
        traceback.print_exc()
        print("meshwright rehearse: the script does not fit: {}".format(str(error).split(". ")[0]), file=sys.stderr)
        return 3
    if watch.recording is None:
        print("meshwright rehearse: the script ended after {} steps of its optimizer; a rehearsal needs 4, of which it "
              "records the last".format(watch.seen), file=sys.stderr)
        return 3
    recording = {"format": 1, "script": command[command[0] == "-m"], "versions": {"torch": torch.__version__},
                 "machine": options.machine, "ranks": options.ranks, "per_host": options.per_host,
                 "rank": options.rank, **watch.recording}
    recording["memory"].update(capacity_bytes=torch.cuda.get_device_properties(0).total_memory, refused_bytes=0)
    with open(roles.own_recording, "w", encoding="utf-8") as file:
        json.dump(recording, file)
    watch.close()
    return 0


def _add(others: List[Dict[str, Any]], out: str) -> None:
    """Puts the recordings of other ranks into that of rank 0."""
    if not others:
        return
    with open(out, encoding="utf-8") as file:
        recording = json.load(file)
    recording["others"] = others
    with open(out, "w", encoding="utf-8") as file:
        json.dump(recording, file)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)   # threads of a script that was stopped may wait for ranks that are not there
