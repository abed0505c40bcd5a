"""Runs a command in this process: in a thread of its own, so that Ctrl-C and progress come through meanwhile."""

import datetime
import json
import os
import threading
from typing import Any, Dict, List, Mapping, Optional, Sequence, Type, TypeVar, Union

from ._answer import Answer
from ._compiled import module
from ._errors import Interrupted, InputError, NoPlanFits, RunError
from ._progress import Listener, OnProgress

Path = Union[str, "os.PathLike[str]"]
Job = Union[Path, Mapping[str, Any]]
Number = Union[int, float, str]  # strings such as "60B", "$15k", "128k" too
Date = Union[str, datetime.date, datetime.timedelta]  # strings such as "2 weeks", "2027-03-01" too
Kind = TypeVar("Kind", bound=Answer)

_one_at_a_time = threading.Lock()  # each call uses all cores, so calls wait for each other
_ended = threading.Event()  # is set while no call runs
_ended.set()


def _text(value: Any) -> str:
    """A value as the command line has it. Keys of a job (`set=`) that are no texts are JSON."""
    if isinstance(value, datetime.timedelta):
        return "{!r}h".format(value.total_seconds() / 3600)
    if isinstance(value, datetime.date):
        return value.isoformat()[:10]
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    return json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    """A path or a number of NumPy, which json does not know."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item"):
        return value.item()
    raise TypeError("a job holds texts, numbers, lists and dictionaries, but not {!r}".format(value))


def _texts(options: Mapping[str, Any]) -> Dict[str, List[str]]:
    texts: Dict[str, List[str]] = {}
    for name, value in options.items():
        if value is None or value is False:
            continue
        if value is True:
            texts[name] = []
        elif isinstance(value, Mapping):
            texts[name] = ["{}={}".format(key, _text(each)) for key, each in value.items()]
        elif isinstance(value, (list, tuple)) and name == "prompt-tokens":
            texts[name] = [",".join(map(str, value))]
        elif isinstance(value, (list, tuple)):
            texts[name] = [_text(each) for each in value]
        else:
            texts[name] = [_text(value)]
    return texts


def _named(jobs: Sequence[Optional[Job]], texts: Dict[str, str]) -> List[str]:
    """The operands; jobs that are dictionaries get names, and are put into `texts`."""
    operands = []
    given = [job for job in jobs if job is not None]
    for number, job in enumerate(given, 1):
        if isinstance(job, Mapping):
            operands.append("job" if len(given) == 1 else "job {}".format(number))
            texts[operands[-1]] = json.dumps(job, default=_plain)
        else:
            operands.append(os.fspath(job))
    return operands


def _called(core: Any, listener: Listener, *call: Any) -> Any:
    """Runs the call in a thread until it ends, and returns (exit code, answer, message, what came between). The first
    Ctrl-C, or error of `on_progress`, asks it to end with what it has; a second Ctrl-C does not wait for that."""
    while not _ended.wait(0.05):  # a call that a second Ctrl-C left alone
        pass
    result: List[Any] = []
    _ended.clear()
    core.begin_call()

    def work() -> None:
        try:
            result.extend(core.call(*call))
        except BaseException as error:
            result.append(error)
        _ended.set()

    threading.Thread(target=work, name="meshwright").start()
    between: Optional[BaseException] = None
    while True:
        try:
            ended = _ended.wait(0.05)
            listener.hear(core.call_events())
            if ended:
                break
        except BaseException as error:
            if between is not None:
                raise
            between = error
            core.stop_call()
    if len(result) == 1:
        raise result[0]
    return (*result, between)


def run(command: str, jobs: Sequence[Optional[Job]], options: Mapping[str, Any], on_progress: OnProgress,
        kind: Type[Kind]) -> Kind:
    """Runs a command with options as its arguments, and returns its answer. Called by the functions of the package,
    whose caller is the one that warnings name."""
    core = module()
    texts: Dict[str, str] = {}
    operands = _named(jobs, texts)
    given = _texts(options)
    listener = Listener(on_progress)
    try:
        with _one_at_a_time:
            code, out, message, between = _called(core, listener, command, operands, texts, given)
    finally:
        listener.close(3)
    answer = kind(json.loads(out)) if out else None
    if answer is not None:
        answer.messages = listener.messages
    if isinstance(between, KeyboardInterrupt):
        raise Interrupted(answer) from None
    if between is not None:
        raise between
    if code == 2:
        raise InputError(message)
    if code == 3:
        raise NoPlanFits(message, answer if answer is not None else {})
    if code != 0 or answer is None:
        raise RunError(message)
    return answer
