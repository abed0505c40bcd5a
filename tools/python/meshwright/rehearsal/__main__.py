"""python -m meshwright.rehearsal --out FILE --machine NAME --folder FOLDER [--gpus N] [--hosts N] -- COMMAND...

COMMAND is a script or `-m MODULE`, as Python has it, a launcher's command line, or a shell script of one.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import importlib.util
import json
import os
import re
import runpy
import signal
import sys
import traceback
from typing import Any, Callable, List

from . import launchers, outside
from .notes import Unanswerable, notes, script_line
from .roles import OWN_RANK, RoleFailed, Roles

HANDED = "MESHWRIGHT_REHEARSAL_HANDED"   # the words before `--`, in lines, for what a shell script starts


class _Failed(Exception):
    """Ends the rehearsal with one message."""

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code = code


def _arguments(words: List[str]) -> argparse.Namespace:
    options = argparse.ArgumentParser(prog="python -m meshwright.rehearsal", description=__doc__.splitlines()[0],
                                      allow_abbrev=False)
    options.add_argument("--out", default="")
    options.add_argument("--machine", default="")
    options.add_argument("--folder", default="")
    options.add_argument("--gpus", type=int, default=1, help="of a host")
    options.add_argument("--hosts", type=int, default=0, help="0: as the command says")
    options.add_argument("--time-limit", type=float, default=600, help="seconds without a step")
    options.add_argument("--imbalance", type=float, default=1, help="tokens of the fullest expert by the mean")
    options.add_argument("--handed", action="store_true", help="started by a shell script that is rehearsed")
    options.add_argument("command", nargs=argparse.REMAINDER)
    found = options.parse_args(words)
    if found.command[:1] == ["--"]:
        found.command = found.command[1:]
    return found


def _run(command: List[str]) -> None:
    is_module = command[0] == "-m"
    command = command[1:] if is_module else command
    sys.argv = list(command)
    if is_module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(command[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(command[0])))
        runpy.run_path(command[0], run_name="__main__")


def _check_torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise _Failed("{} has no PyTorch ({}); name the Python to use in the command or in MESHWRIGHT_PYTHON".format(
            sys.executable, error)) from error
    own = ctypes.CDLL(None).meshwright_stand_in_cuda() // 1000
    if (torch.version.cuda or "none").split(".")[0] != str(own):
        raise _Failed("this PyTorch is for CUDA {}; the stand-in GPUs of this build need one for CUDA {}".format(
            torch.version.cuda or "nothing", own))
    return torch


def _prepare(options: argparse.Namespace, ranks: int, per_host: int, roles: Roles, launched: bool) -> Any:
    """What the script finds when it starts. Returns the watch of its steps."""
    torch = _check_torch()
    from . import beside_ranks, made_engine, made_models, made_sets, out_of_memory, spawned, steps, symmetric, tuning, values
    if ranks > 1 and "MESHWRIGHT_STAND_IN_BYTES_OF_RANKS" in os.environ:   # NCCL takes some of the memory
        ctypes.CDLL(None).meshwright_stand_in_limit(ctypes.c_size_t(int(os.environ["MESHWRIGHT_STAND_IN_BYTES_OF_RANKS"])))
    beside_ranks.join(ranks, per_host, roles, launched)
    spawned.run_in_this_process(roles.rank)
    made_models.make_models(options.folder)
    made_sets.make_sets(ranks)
    made_engine.make_engine()
    values.balance_experts(options.imbalance)
    out_of_memory.watch()
    tuning.take_first_choices()
    symmetric.make_symmetric_memory()
    watch = steps.Steps(roles)
    outside.own_end(watch)
    outside.refuse_forked_training()
    outside.limit_time(options.time_limit, watch)
    return watch


def _rehearse(options: argparse.Namespace, command: launchers.Command, roles: Roles) -> int:
    ranks, per_host = command.placed(options.hosts, options.gpus, options.machine)
    script = command.words[command.words[0] == "-m"]
    if command.words[0] != "-m" and not os.path.isfile(script):
        raise _Failed("{}: no such script".format(script))
    command = command.of_rank(roles.rank, per_host)
    os.environ.update(command.variables)
    _set_visible(command, script, options.gpus)
    os.environ["MESHWRIGHT_REHEARSED"] = "1"   # what the script starts is its own affair
    watch = _prepare(options, ranks, per_host, roles, command.launcher in launchers.SETS_RANK)
    import torch

    from . import out_of_memory, steps
    try:
        _run(command.words)
    except steps.Enough:
        signal.setitimer(signal.ITIMER_REAL, 0)
    except SystemExit as ended:
        if ended.code and watch.recording is None:
            message = "the script exited with {} after {} steps of its optimizer".format(ended.code, watch.seen)
            raise _Failed(message, ended.code if isinstance(ended.code, int) else 2) from ended
    except torch.OutOfMemoryError as error:
        _print_own(error)
        raise _Failed(out_of_memory.message(error), 3) from error
    except Exception:
        if watch.recording is None:   # otherwise it is of a step that is only timed
            raise
    if watch.recording is None:
        if options.handed:
            return 0   # no training: what the shell script does before
        raise _Failed("the script ended after {} steps of its optimizer; a rehearsal needs 4, of which it records the "
                      "last".format(watch.seen))
    dist = torch.distributed
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > ranks:
        ranks, per_host = dist.get_world_size(), max(per_host, spawned_per_host())
    recording = {"format": 1, "script": script,
                 "machine": options.machine, "ranks": ranks, "per_host": per_host,
                 "rank": roles.rank, "notes": notes(), **watch.recording}
    recording["memory"].update(capacity_bytes=torch.cuda.get_device_properties(0).total_memory, refused_bytes=0)
    watch.close()
    if roles.rank == 0:
        others = roles.others()
        if others:
            recording["others"] = others
    with open(roles.own_recording + ".part", "w", encoding="utf-8") as file:
        json.dump(recording, file)
    os.rename(file.name, roles.own_recording)
    return 0


def spawned_per_host() -> int:
    from . import spawned
    return spawned.started


def _set_visible(command: launchers.Command, script: str, gpus: int) -> None:
    """How many GPUs the script sees. Without a launcher it is one, unless it starts ranks for each itself."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        gpus = min(gpus, len([each for each in chosen.split(",") if each.strip()]))
    elif not command.launcher and not _starts_ranks(script):
        gpus = 1
    os.environ["MESHWRIGHT_STAND_IN_COUNT"] = str(gpus)


def _starts_ranks(script: str) -> bool:
    if not os.path.isfile(script):
        return False
    with open(script, encoding="utf-8", errors="replace") as file:
        return re.search(r"\bspawn\(|start_processes\(|notebook_launcher|lightning\b", file.read()) is not None


def _print_own(error: BaseException) -> None:
    """The traceback of a script, without what runs it."""
    trace = error.__traceback__
    while trace is not None and (trace.tb_frame.f_code.co_filename == __file__ or "runpy" in trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace or error.__traceback__)


_REMEDIES = (
    (ModuleNotFoundError, "install it into {python}, or name another Python in MESHWRIGHT_PYTHON"),
    (FileNotFoundError, "a rehearsal makes models, tokenizers and data sets that have names, but no other file: put a small "
                        "one there"),
    (ImportError, "the script needs another version of that library"),
    (EOFError, "the script asks for input: give the answer as an argument, or as standard input"),
    (ConnectionError, "a rehearsal has no network: have on this computer what the script fetches"),
)


def _failed_script(error: BaseException) -> str:
    trace = error.__traceback__
    place = ""
    while trace is not None:
        place = script_line(trace.tb_frame) or place
        trace = trace.tb_next
    first: Any = error
    while first.__cause__ is not None:   # what libraries say of another error tells less than that one
        first = first.__cause__
    known = next((remedy for kind, remedy in _REMEDIES if isinstance(first, kind)), "")
    told = first if known else error
    text = "the script failed{}: {}: {}".format(" in " + place if place else "", type(told).__name__,
                                                str(told).strip().split("\n")[0])
    return text + ("; " + known.format(python=sys.executable) if known else "")


def main(words: List[str]) -> int:
    options = _arguments(words)
    if options.handed:
        handed = os.environ[HANDED].split("\n")
        options = _arguments(handed + ["--handed", "--"] + options.command)
        if os.path.exists(options.out) and OWN_RANK not in os.environ:
            return 0   # a step is recorded: nothing else is started
    os.environ["MESHWRIGHT_STAND_IN_NOTES"] = os.path.join(options.folder, "notes")
    os.environ["MESHWRIGHT_REHEARSAL_FOLDER"] = options.folder
    outside.refuse_network()
    if os.environ.get("MESHWRIGHT_STAND_IN_FOLDER"):
        outside.keep_temporary_files(options.folder)
    from . import shell
    os.environ["PATH"] = shell.stand_ins(options.folder) + os.pathsep + os.environ.get("PATH", "")
    if options.handed:
        _run_what_trains_nothing(options.command)
    command = launchers.Command(options.command)
    if not launchers.is_shell(options.command):
        command = launchers.read_command(options.command, options.gpus)
    if not launchers.is_shell(command.words):
        return _as_rank(options, command)
    os.environ.update(command.variables)
    handed = words[:words.index("--")] if not options.handed else os.environ[HANDED].split("\n")
    code = shell.run_shell(command.words, options.folder, handed)
    if options.handed or os.path.exists(options.out):
        return 0 if os.path.exists(options.out) else code
    ended = os.path.join(options.folder, "code")
    if os.path.exists(ended):
        with open(ended, encoding="ascii") as file:
            return int(file.read())
    raise _Failed("{} ended with {}, and no script that it started made 4 steps of an optimizer, of which a rehearsal "
                  "records the last".format(" ".join(command.words[:2]), code))


def _as_rank(options: argparse.Namespace, command: launchers.Command) -> int:
    """Rehearses the script as the rank that this process is, and tells the processes of other ranks how it ended."""
    roles = Roles(options.out, int(os.environ.get(OWN_RANK, "0")))
    code = _ended(lambda: _rehearse(options, command, roles))
    sys.stderr.flush()
    roles.end(code)
    if roles.rank == 0:
        roles.close()
    return code


def _run_what_trains_nothing(words: List[str]) -> None:
    """Becomes another program that a shell script starts: one of a Python without PyTorch, or `srun hostname`."""
    program = launchers.other_program(words)
    if program is None and importlib.util.find_spec("torch") is None and os.path.basename(words[0]).startswith("python"):
        program = words
    if program is not None:
        os.environ["MESHWRIGHT_REHEARSED"] = "1"
        os.execvp(program[0], program)


def _ended(run: Callable[[], int]) -> int:
    """Runs it, and returns its exit code, or that of what it throws, which is said."""
    try:
        return run()
    except RoleFailed as other:
        print("meshwright rehearse: rank {} failed; it says why above. Another rank passes messages to or from it".format(
            other.rank), file=sys.stderr)
        return other.code
    except KeyboardInterrupt:
        return 5
    except (_Failed, Unanswerable, launchers.WrongCommand) as error:
        text = str(error).replace("meshwright rehearse: ", "")
        print("meshwright rehearse: " + text, file=sys.stderr)
        return getattr(error, "code", 2)
    except SystemExit as error:   # of a launcher that read its own command line
        return error.code if isinstance(error.code, int) else 2
    except BaseException as error:   # the script's, whatever it is
        _print_own(error)
        print("meshwright rehearse: " + _failed_script(error), file=sys.stderr)
        return 2


def _stop(*_of: Any) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    faulthandler.enable()
    signal.signal(signal.SIGTERM, _stop)
    code = _ended(lambda: main(sys.argv[1:]))
    sys.stdout.flush()
    sys.stderr.flush()
    outside.end_children()
    if code and "--handed" in sys.argv and "MESHWRIGHT_REHEARSAL_FOLDER" in os.environ:
        with open(os.path.join(os.environ["MESHWRIGHT_REHEARSAL_FOLDER"], "code"), "w", encoding="ascii") as kept:
            kept.write(str(code))
    outside.really_exit(code)   # threads of a script that was stopped may wait for ranks that are not there
