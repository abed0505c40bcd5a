"""Plans the training of large models on GPU clusters, and predicts time, memory and cost.

    import meshwright
    best = meshwright.plan("job.json", top=3)["plans"][0]

A job is a dictionary or the path of a file. Keyword arguments are the options of the command line:
`--memory-margin 0.05` is `memory_margin=0.05`, `--set KEY=VALUE` is `set={"KEY": VALUE}`. A result
is the dictionary that `meshwright COMMAND --json` prints. The commands use all cores, one at a time,
and leave Python's lock to others meanwhile.
"""

import importlib.util
import json
import os
from typing import Any, Dict, List, Mapping, Union

# `meshwright.torch` is Python only and also works from a checkout, where nothing is compiled.
_compiled = importlib.util.find_spec(__name__ + "._core") is not None
if _compiled:
    from . import _core

__all__ = ["InputError", "NoPlanFits", "RunError", "advise", "explain", "names", "plan", "scale",
           "sensitivity", "simulate", "validate"]
__version__ = _core.version().split()[1] if _compiled else "0+source"

Job = Union[str, "os.PathLike[str]", Mapping[str, Any]]
Result = Dict[str, Any]


class InputError(ValueError):
    """A job, an option or a file is refused; the text is that of the command line."""


class NoPlanFits(Exception):
    """Nothing that the job allows fits. `answer` says why, as `plan --json` does."""

    def __init__(self, message: str, answer: Result) -> None:
        super().__init__(message)
        self.answer = answer


class RunError(RuntimeError):
    """The command failed."""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _options(options: Mapping[str, Any]) -> Dict[str, List[str]]:
    texts: Dict[str, List[str]] = {}
    for key, value in options.items():
        if value is None or value is False:
            continue
        if value is True:
            values = []
        elif isinstance(value, Mapping):
            values = ["{}={}".format(inner, _text(content)) for inner, content in value.items()]
        elif isinstance(value, (list, tuple)):
            values = [str(each) for each in value]
        else:
            values = [os.fspath(value) if isinstance(value, os.PathLike) else str(value)]
        texts[key.replace("_", "-")] = values
    return texts


def _run(command: str, jobs: List[Job], options: Mapping[str, Any]) -> Result:
    if not _compiled:
        raise ImportError("meshwright is not compiled here: its module _core is missing; install the wheel, or "
                          "build the target python_module")
    operands, texts = [], {}
    for place, job in enumerate(jobs):
        if isinstance(job, Mapping):
            operands.append("job" if len(jobs) == 1 else "job {}".format(place + 1))
            texts[operands[-1]] = json.dumps(job)
        else:
            operands.append(os.fspath(job))
    code, out, message = _core.call(command, operands, texts, _options(options))
    if code == 2:
        raise InputError(message)
    if code == 3:
        raise NoPlanFits(message, json.loads(out) if out else {})
    if code != 0:
        raise RunError(message)
    return json.loads(out) if out else {}


def plan(job: Job, **options: Any) -> Result:
    """Searches for the best plan of a job on its clusters."""
    return _run("plan", [job], options)


def simulate(job: Job, **options: Any) -> Result:
    """Predicts a training step: time, memory, cost."""
    return _run("simulate", [job], options)


def advise(job: Job, **options: Any) -> Result:
    """From one GPU to many: what each brings, where to stop and why."""
    return _run("advise", [job], options)


def scale(job: Job, **options: Any) -> Result:
    """Throughput, efficiency and cost over more and more GPUs."""
    return _run("scale", [job], options)


def sensitivity(job: Job, **options: Any) -> Result:
    """Which inputs move time or cost of the whole job most."""
    return _run("sensitivity", [job], options)


def explain(*jobs: Job, **options: Any) -> Result:
    """Why a step of the second job takes longer than one of the first; of one job, what `set` changes."""
    return _run("explain", list(jobs), options)


def validate(*files: Union[str, "os.PathLike[str]"], **options: Any) -> Result:
    """Predicted against published measurements."""
    return _run("validate", list(files), options)


def names(what: str = "") -> Result:
    """Names that a job may use: all, or those of "models", "machines" and others."""
    return _run("list", [what] if what else [], {})
