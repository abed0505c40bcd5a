"""Functions of the commands that answer, from their rows."""

from .answers import classes
from .texts import argument_name, by_hand, for_python, sentence, wrapped

# Maps each function to its command, in the order of the page. names(), the function of `list`, is written by
# hand.
functions = {"plan": "plan", "simulate": "simulate", "advise": "advise", "scale": "scale", "sensitivity": "sensitivity",
             "explain": "explain", "validate": "validate", "compile": "compile", "fit": "fit", "import_job": "import",
             "export": "export", "evaluate": "evaluate", "generate": "generate"}
# Options that no function has: those of work in other processes, and those of the form of printed text.
left_out = {"rehearse", "host-factor", "measure", "wide", "why"}
# Options that one function does not have. export reads scripts of launchers and no weights.
left_out_of = {"export": {"checkpoint"}}
types = {"": "bool", "N": "Number", "TOKENS": "Number", "USD": "Number", "FRACTION": "Number", "FACTOR": "Number", "T": "Number",
         "DATE": "Date", "KEY=VALUE": "Mapping[str, Any]", "NAME=VALUE": "Mapping[str, Any]", "FILE": "Path",
         "FOLDER": "Path", "FILE...": "Union[Path, Sequence[Path]]", "NAME": "Sequence[str]", "KEY": "Sequence[str]",
         "NUMBERS": "Union[str, Sequence[int]]"}
# The operands of each command: the parameter of its function, the list that is handed on, and the
# documentation. Commands without a row in `operands` take a job.
the_job = ("job: Optional[Job] = None", "[job]",
           [("job", "a dictionary, or the path of a job file; None: model= and other words say it")])
operands = {
    "explain": ("*jobs: Job", "list(jobs)", [("jobs", "two jobs; or one, as it is and with what set= changes")]),
    "validate": ("*files: Path", "list(files)", [("files", "files of published measurements, or of your own")]),
    "import": ("job: Optional[Path] = None", "[job]", [("job", "the job file to write; None: it is answered alone")]),
    "fit": ("", "[]", []),
}
raised = {"plan", "simulate", "advise", "scale", "sensitivity", "explain", "compile", "export"}
told = 'on_progress: OnProgress = None'


def options_of(command, row):
    for option in row["options"]:
        if option["name"] not in left_out | left_out_of.get(command, set()):
            yield option["name"], argument_name(option["name"]), types.get(option["value"], "str"), option


def signature(function, command, row):
    first = operands.get(command, the_job)[0]
    named = ["{}: {}".format(argument, "bool = False" if kind == "bool" else "Optional[{}] = None".format(kind))
             for _, argument, kind, _ in options_of(command, row)]
    star = [] if first.startswith("*") else ["*"]
    words = ", ".join(([first] if first else []) + star + named + [told])
    # The words after the parameters stay on one line, because no line of Python can end with `->`.
    return wrapped("{})\u00a0->\u00a0{}:".format(words, classes[command][0]), " " * len("def {}(".format(function)),
                   "def {}(".format(function)).replace("\u00a0", " ")


def docstring(command, row):
    text = '    """' + sentence(row["summary"]) + "\n\n"
    if row["details"]:
        text += wrapped(for_python(row["details"]), "    ") + "\n\n"
    text += "    Arguments:\n"
    for name, meaning in operands.get(command, the_job)[2]:
        text += wrapped("{}: {}.".format(name, meaning), " " * 12, " " * 8) + "\n"
    for name, argument, _, option in options_of(command, row):
        meaning = option["help"].replace("; repeatable", "")
        if option["words"] and not all(word in meaning for word in option["words"]):
            meaning += ": " + ", ".join(option["words"])
        text += wrapped("{}: {}.".format(argument, for_python(meaning)), " " * 12, " " * 8) + "\n"
    text += wrapped("on_progress: called with a Progress while plans are searched; False: shows nothing.", " " * 12,
                    " " * 8) + "\n\n"
    text += wrapped("Returns {}. Numbers are in SI units, and the unit is in the key: `step_time_s` is in seconds, "
                    "`peak_memory_bytes` in bytes, `usd_per_hour` in US dollars; shares are from 0 to 1."
                    .format(classes[command][0]), "    ") + "\n"
    nothing = ", NoPlanFits where nothing fits" if command in raised else ""
    text += wrapped("Raises InputError for what is refused{}, Interrupted at Ctrl-C, with what was found until then."
                    .format(nothing), "    ") + "\n"
    return text + '    """\n'


def function_text(function, command, row):
    text = signature(function, command, row) + "\n" + docstring(command, row)
    given = ", ".join('"{}": {}'.format(name, argument) for name, argument, _, _ in options_of(command, row))
    text += wrapped('options = {{{}}}'.format(given), " " * 15, "    ") + "\n"
    return text + '    return run("{}", {}, options, on_progress, {})\n'.format(
        command, operands.get(command, the_job)[1], classes[command][0])


def text_of(commands):
    text = '"""A function for each command that answers; its options are named arguments."""\n' + by_hand
    text += "from __future__ import annotations\n\nfrom typing import Any, Mapping, Optional, Sequence, Union\n\nfrom ._answers import "
    text += wrapped(", ".join(sorted(classes[command][0] for command in functions.values())) + ")", "    ", "(\n    ")
    text += "\nfrom ._progress import OnProgress\nfrom ._running import Date, Job, Number, Path, run\n\n__all__ = [\n"
    text += wrapped(", ".join('"{}"'.format(name) for name in functions), "    ", "    ") + "]\n"
    for function, command in functions.items():
        if not commands[command]["is_call"]:
            raise SystemExit("generate: {} has no answer".format(command))
        text += "\n\n" + function_text(function, command, commands[command])
    return text
