"""What a rehearsal tells beside its recording: which data were made, what was refused. Each is told once.

Processes that the script starts tell it too: all append to one file, as the stand-in library does.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import Any, List

__all__ = ["note", "notes", "script_line", "Unanswerable"]

_LIBRARIES = (sysconfig.get_paths()["purelib"], sysconfig.get_paths()["stdlib"], "<frozen", os.path.dirname(os.path.dirname(__file__)))


class Unanswerable(BaseException):   # libraries catch Exception, and go on asking
    """The script needs something that a rehearsal can neither have nor make. The message says what to do."""


def _file() -> str:
    return os.environ.get("MESHWRIGHT_STAND_IN_NOTES", os.devnull)


def note(text: str) -> None:
    """Adds a line, unless it is there."""
    if text not in notes():
        with open(_file(), "a", encoding="utf-8") as file:
            file.write(text + "\n")


def notes() -> List[str]:
    """The lines so far, in order."""
    if not os.path.isfile(_file()):
        return []
    with open(_file(), encoding="utf-8", errors="replace") as file:
        return list(dict.fromkeys(file.read().splitlines()))


def script_line(frame: Any = None) -> str:
    """`file:line` of the innermost code that belongs to no library, "" if there is none."""
    frame = frame or sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_LIBRARIES) and name != __file__:
            return "{}:{}".format(name, frame.f_lineno)
        frame = frame.f_back
    return ""
