"""python3 -m meshwright.torch.launched FILE.py ARGS: what `meshwright launch` starts, as each rank and to capture.

It runs the script as Python would, tells the launcher how far it is (exec/launch/marks.h), and says which rank
failed, and where. Exit codes are those of the command line: 0 done, 2 bad input, 4 failed, 5 stopped.
"""

from __future__ import annotations

import os
import runpy
import sys
import time
import traceback
import types
from typing import Any, List, Optional

from . import distributed, handed_over, unchanged
from .errors import CaptureError

__all__ = ["main"]

_DONE, _BAD_INPUT, _FAILED, _STOPPED = 0, 2, 4, 5


def _rank() -> int:
    return int(os.environ.get("PMIX_RANK", "0"))


def _run(words: List[str]) -> None:
    """Runs FILE.py, or -m MODULE, as __main__."""
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    path = words[0]
    if not os.path.isfile(path):
        raise CaptureError("{}: there is no such file".format(path))
    sys.argv = words
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    main_module = types.ModuleType("__main__")
    main_module.__file__ = path
    main_module.__builtins__ = __builtins__   # type: ignore[attr-defined]
    sys.modules["__main__"] = main_module
    exec(unchanged.compiled(path), main_module.__dict__)


def _frames(error: BaseException) -> str:
    """The traceback from the script's first line on."""
    at = error.__traceback__
    own = {__file__, runpy.__file__}
    while at is not None and at.tb_frame.f_code.co_filename in own:
        at = at.tb_next
    return "".join(traceback.format_exception(type(error), error, at or error.__traceback__))


def _end(code: int) -> None:
    """Ends this rank after an error; the launcher ends the others."""
    sys.stdout.flush()
    sys.stderr.flush()
    if handed_over.is_launched():
        time.sleep(1)   # Other ranks and the launcher get time to report what they know.
        distributed.abandon(code)
    os._exit(code)


def _refuse(error: Any) -> None:
    print("error: {}".format(error), file=sys.stderr)
    _end(_BAD_INPUT)


def _fail(error: BaseException) -> None:
    shown = _frames(error)
    if not handed_over.is_launched():
        sys.stderr.write(shown)
        _end(_FAILED)
    for line in shown.rstrip().splitlines():
        handed_over.tell("trace {} {}".format(_rank(), line))
    what = [line for line in str(error).splitlines() if line.strip()] or [""]
    kind = "" if type(error) is RuntimeError and what[0] else type(error).__name__ + ": "
    print("rank {} failed: {}".format(_rank(), (kind + what[0]).rstrip(": ")), file=sys.stderr)
    _end(_FAILED)


def _script_exit(error: SystemExit) -> int:
    """The exit code of a script that has ended itself. Bad arguments, as argparse says them, are bad input."""
    if error.code in (None, 0):
        return _DONE
    if error.code == _BAD_INPUT:
        _end(_BAD_INPUT)
    _fail(RuntimeError("the script ended with exit code {}".format(error.code) if isinstance(error.code, int)
                       else str(error.code)))
    return _FAILED


def _leave(code: int) -> int:
    """Ends a run that went well, on all ranks."""
    if not handed_over.is_launched():
        _refuse("the script ended without a step of DistributedModel, so there is no model to plan")
    if distributed.steps_done() is None:
        _refuse("the script ended without a step of DistributedModel: each process would have run it alone")
    if not distributed.finish_saving():
        print("the last checkpoint could not be saved", file=sys.stderr)
        code = _FAILED
    if _rank() == 0:
        handed_over.tell("ended {}".format(code))
    distributed.shutdown()
    return _DONE   # mpirun takes seconds to stop ranks that end in another way; the launcher knows the code.


def main(words: Optional[List[str]] = None) -> int:
    """Runs a script; returns the exit code of this process."""
    words = sys.argv[1:] if words is None else words
    if handed_over.is_launched():
        handed_over.tell("started {}".format(_rank()))
        handed_over.take_input()
        handed_over.watch_for_stop()
    code = _DONE
    try:
        try:
            unchanged.prepare()
            _run(words)
        except handed_over.Stopped:
            code = _STOPPED
        except SystemExit as error:
            code = _script_exit(error)
        if handed_over.is_launched() and distributed.is_stopping():
            code = _STOPPED
            if _rank() == 0:
                print("stopped on request after step {}".format(distributed.steps_done()), file=sys.stderr)
        return _leave(code)
    except CaptureError as error:
        _refuse(error)
    except BaseException as error:
        _fail(error)
    return _FAILED


if __name__ == "__main__":
    sys.exit(main())
