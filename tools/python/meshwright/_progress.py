"""Tells how far a search is: to the caller's function, or in a notebook as one line that goes again."""

import json
import sys
import time
import warnings
from typing import Callable, Iterable, List, Optional, Tuple, Union

from ._answer import Answer
from ._errors import InputWarning


class Progress(Answer):
    """How far the search on one cluster is."""

    machine: str
    count: int
    """Hosts."""
    candidates_enumerated: int
    candidates_simulated: int
    bounded: float
    """Share of the search that is done, from 0 to 1."""
    best_step_time_s: Optional[float]
    """The best plan so far, in seconds."""


OnProgress = Union[Callable[[Progress], object], bool, None]


def in_notebook() -> bool:
    python = sys.modules.get("IPython")
    return python is not None and hasattr(python.get_ipython(), "kernel")


class Line:
    """A line that each text replaces; it begins after a second, and close() removes it."""

    def __init__(self) -> None:
        self.begin = time.monotonic()
        self.width = 0

    def __call__(self, progress: Progress) -> None:
        if time.monotonic() - self.begin < 1:
            return
        text = "plans for {} x {}: {:.0f} %".format(progress.count, progress.machine, 100 * progress.bounded)
        if progress.best_step_time_s is not None:
            text += ", the best step takes {:.4g} s".format(progress.best_step_time_s)
        self.show(text)

    def show(self, text: str) -> None:
        sys.stdout.write("\r" + text.ljust(self.width))
        sys.stdout.flush()
        self.width = len(text)

    def close(self) -> None:
        if self.width > 0:
            self.show("")
            sys.stdout.write("\r")
            sys.stdout.flush()


class Listener:
    """Hears what a call says, and hands it on. `messages` are its notes."""

    def __init__(self, on_progress: OnProgress) -> None:
        self.line = Line() if on_progress is True or on_progress is None and in_notebook() else None
        self.on_progress = on_progress if callable(on_progress) else self.line
        self.messages: List[str] = []
        self.warnings: List[str] = []

    def hear(self, events: Iterable[Tuple[str, str]]) -> None:
        for kind, text in events:
            if kind == "progress":
                if self.on_progress is not None:
                    self.on_progress(Progress(json.loads(text)["progress"]))
            elif kind == "warning":
                self.warnings.append(text)
            else:
                self.messages.append(text)
                print(text, file=sys.stderr)

    def close(self, stacklevel: int) -> None:
        if self.line is not None:
            self.line.close()
        for text in self.warnings:
            warnings.warn(text, InputWarning, stacklevel + 1)
