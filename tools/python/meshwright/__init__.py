"""Plans the training of large models on GPU clusters, and predicts time, memory and cost.

    import meshwright
    plans = meshwright.plan(model="llama:3B", tokens="60B", budget="$15k", on="8xH100")
    best = plans.plans[0]
    best.step_time_s, best.parallelism

A job is a dictionary or the path of a file; words such as `model=` and `on=` take its place. `help(meshwright.plan)` has
the options of the command, as named arguments, and `meshwright.Plans` what it answers: a dictionary, as
`meshwright plan --json` prints it, whose keys are attributes too. In a notebook an answer is a table with a picture;
`to_pandas()` makes a data frame of it. The commands use all cores, one at a time, and leave Python's lock to others
meanwhile. Ctrl-C raises `Interrupted`, whose `answer` is what was found until then.
"""

from . import _answers, _calls
from ._answer import Answer
from ._answers import *
from ._calls import *
from ._errors import InputError, InputWarning, Interrupted, NoPlanFits, RunError
from ._progress import Progress
from ._running import run as _run

__all__ = ["Answer", "InputError", "InputWarning", "Interrupted", "NoPlanFits", "Progress", "RunError", "names",
           *_answers.__all__, *_calls.__all__]

for _error in (InputError, InputWarning, Interrupted, NoPlanFits, RunError):
    _error.__module__ = __name__  # as a traceback shows it, and as `except` names it


def names(what: str = "") -> Names:
    """Names that a job may use: all, or those of "models", "machines" and others.

    Arguments:
        what: models, machines, parts, stacks, schedules, recompute, placements, optimizers, attention, compiler,
            passes, operations, communicators or frameworks.

    Returns Names, with a list for each of these.
    """
    return _run("list", [what] if what else [], {}, None, Names)


def __getattr__(name: str) -> str:
    if name == "__version__":
        from ._compiled import version

        return version()
    raise AttributeError("module {!r} has no attribute {!r}".format(__name__, name))
