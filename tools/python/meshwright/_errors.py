"""What a call raises."""

import re
from typing import Any, Optional


class InputError(ValueError):
    """A job, an option or a file is refused; the text is that of the command line: `job.json: /training/micro_batch: 5
    does not divide ...; use ...`. A job that is a dictionary is called `job`."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        found = re.match(r"([^\n:]+): (/[^\s:]*): ", message)
        self.file: Optional[str] = found.group(1) if found else None
        """The file of the wrong key, where the text names one."""
        self.place: Optional[str] = found.group(2) if found else None
        """The wrong key as a path: /training/micro_batch."""


class InputWarning(UserWarning):
    """What a command warns of, as a warning of Python."""


class NoPlanFits(Exception):
    """Nothing that the job allows fits. `answer` says why, as `plan --json` does."""

    def __init__(self, message: str, answer: Any) -> None:
        super().__init__(message or "no plan fits")
        self.answer = answer


class RunError(RuntimeError):
    """The command failed."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended the call. `answer` is what was found until then, as the call would have returned it, or None: `plan`,
    `advise` and `scale` have one as soon as something is found."""

    def __init__(self, answer: Any) -> None:
        super().__init__("stopped on request; `answer` of this exception is what was found until then" if answer
                         else "stopped on request, before anything was found")
        self.answer = answer
