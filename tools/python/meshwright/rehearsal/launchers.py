"""Reads the command lines of launchers: which script, with which arguments and variables, on how many ranks.

A launcher of Python reads its own command line, by its own code, so that none of its options is misread.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

__all__ = ["Command", "SETS_RANK", "WrongCommand", "is_shell", "read_command"]


class WrongCommand(ValueError):
    """A command line that cannot be rehearsed; the message says why."""


class Command(NamedTuple):
    """What one rank runs. `words` are the script or `-m MODULE`, and its arguments."""

    words: List[str]
    launcher: str = ""                     # its name; empty: there is none
    ranks: Optional[int] = None            # of all hosts; none: those of a host for each host, or 1
    hosts: Optional[int] = None            # none: as many as the ranks need
    per_host: Optional[int] = None         # ranks of a host
    variables: Dict[str, str] = {}
    most_hosts: int = 1                    # most hosts, if their number may vary

    def placed(self, count: Optional[int], gpus: int, machine: str) -> Tuple[int, int]:
        """How many ranks there are, and on a host, on `count` hosts if that was asked. Throws WrongCommand."""
        if count and self.hosts and count != self.hosts:
            raise WrongCommand("{} starts {} hosts, and --count asks for {}; leave one of them out".format(
                self.launcher, self.hosts, count))
        ranks = self.ranks
        hosts = count or self.hosts or (-(-ranks // gpus) if ranks else self.most_hosts)
        if ranks is None:
            ranks = hosts * (self.per_host or 1)
        if ranks % hosts:
            raise WrongCommand("{} ranks cannot be on {} hosts in equal numbers".format(ranks, hosts))
        if ranks // hosts > gpus:
            raise WrongCommand("{} ranks on a host need more than the {} GPUs of a {}; use another --count or machine".format(
                ranks // hosts, gpus, machine))
        return ranks, ranks // hosts

    def of_rank(self, rank: int, per_host: int) -> Command:
        """What that rank runs, instead of rank 0."""
        own = {"SLURM_PROCID": rank, "SLURM_LOCALID": rank % per_host, "SLURM_NODEID": rank // per_host,
               "OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_LOCAL_RANK": rank % per_host, "PMI_RANK": rank}
        variables = {name: str(own.get(name, value)) for name, value in self.variables.items()}
        words = [re.sub(r"^(--local[-_]rank=)0$", r"\g<1>{}".format(rank % per_host), word) for word in self.words]
        return self._replace(words=words, variables=variables)


SETS_RANK = ("torchrun", "deepspeed")   # launchers that set RANK and WORLD_SIZE also for one rank
_SHELLS = ("bash", "sh", "zsh", "dash", "ksh", "sbatch")
_INTERPRETED = re.compile(r"^python[0-9.]*$")


def is_shell(words: List[str]) -> bool:
    """Whether a command is a shell script, of Slurm perhaps."""
    return bool(words) and (os.path.basename(words[0]) in _SHELLS or words[0].endswith((".sh", ".slurm", ".sbatch")) or
                            _first_line(words[0]).endswith(_SHELLS))


def _first_line(path: str) -> str:
    if not os.path.isfile(path):
        return ""
    with open(path, "rb") as file:
        line = file.readline(200).decode(errors="replace").strip()
    return line if line.startswith("#!") else ""


def read_command(words: List[str], gpus: int) -> Command:
    """`gpus` are those of a host. Throws WrongCommand."""
    if not words:
        raise WrongCommand("a command is expected: python train.py ARGS, a launcher's command line, or a shell script")
    name = os.path.basename(words[0])
    if name == "env":
        at = next((place for place, word in enumerate(words) if place and "=" not in word), len(words))
        variables = dict(word.split("=", 1) for word in words[1:at])
        os.environ.update(variables)
        sys.path[1:1] = [each for each in variables.get("PYTHONPATH", "").split(os.pathsep) if each]
        return read_command(words[at:], gpus)
    if _INTERPRETED.match(name):
        return read_command(_without_interpreter(words), gpus)
    if name == "-m" and len(words) > 1 and words[1] in _MODULES:
        return _LAUNCHERS[_MODULES[words[1]]](words[2:], gpus)
    if name in _LAUNCHERS:
        return _LAUNCHERS[name](words[1:], gpus)
    if name == "-m" or name.endswith(".py") or os.path.isfile(words[0]):
        return Command(list(words))
    if words[0] == "-c":
        raise WrongCommand("python -c has no script; write it into a file")
    raise WrongCommand("{} is neither a script nor a launcher that is known: {}, or a shell script".format(
        words[0], ", ".join(sorted(_LAUNCHERS))))


def _without_interpreter(words: List[str]) -> List[str]:
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-m", "-c"):
        at += 2 if words[at] in ("-W", "-X") else 1
    return words[at:]


def _number(text: Any, what: str) -> int:
    try:
        value = int(str(text))
    except ValueError:
        value = 0
    if value < 1:
        raise WrongCommand("{}: a number from 1 is expected, found '{}'".format(what, text))
    return value


def _said(words: List[str], *names: str) -> bool:
    return any(word.partition("=")[0].lstrip("-").replace("_", "-") in names for word in words if word.startswith("-"))


def _torchrun(words: List[str], gpus: int, passes_local_rank: bool = False) -> Command:
    from torch.distributed.run import get_args_parser
    uses_environment = any(word in ("--use-env", "--use_env") for word in words)
    arguments = get_args_parser().parse_args([word for word in words if word not in ("--use-env", "--use_env")])
    nodes = str(arguments.nnodes).split(":")   # of a range, the most: --count may say fewer
    most = _number(nodes[-1], "torchrun: --nnodes")
    local = str(arguments.nproc_per_node)
    per_host = gpus if local in ("gpu", "auto") else _number(local, "torchrun: --nproc-per-node")
    outer = Command([], "torchrun", None, most if len(nodes) == 1 else None, per_host, most_hosts=most)
    script = [arguments.training_script] + list(arguments.training_script_args)
    if passes_local_rank and not uses_environment:
        script.insert(1, "--local-rank=0")
    if arguments.no_python:
        return _inner(script, gpus, outer)
    return outer._replace(words=(["-m"] if arguments.module else []) + script)


def _launch(words: List[str], gpus: int) -> Command:
    return _torchrun(words, gpus, True)


def _accelerate(words: List[str], gpus: int) -> Command:
    if words[:1] == ["launch"]:
        words = words[1:]
    try:
        from accelerate.commands import launch
        from accelerate.utils import launch as environments
    except ImportError as error:
        raise WrongCommand("accelerate is not installed in the Python of the rehearsal ({})".format(error)) from error
    arguments, _, _ = launch._validate_launch_command(launch.launch_command_parser().parse_args(words))
    script = (["-m"] if arguments.module else []) + [arguments.training_script] + list(arguments.training_script_args)
    hosts = _number(arguments.num_machines or 1, "accelerate: --num_machines")
    ranks = _number(arguments.num_processes or 1, "accelerate: --num_processes")
    if arguments.use_deepspeed:
        _, variables = environments.prepare_deepspeed_cmd_env(arguments)
    elif arguments.use_fsdp or arguments.multi_gpu or arguments.use_megatron_lm:
        variables = environments.prepare_multi_gpu_env(arguments)
    else:
        _, variables = environments.prepare_simple_launcher_cmd_env(arguments)
        ranks = 1
    return Command(script, "accelerate", ranks, hosts if hosts > 1 else None, None, dict(variables))


def _deepspeed(words: List[str], gpus: int) -> Command:
    try:
        from deepspeed.launcher import runner
    except ImportError as error:
        raise WrongCommand("deepspeed is not installed in the Python of the rehearsal ({})".format(error)) from error
    arguments = runner.parse_args(words)
    pool = runner.fetch_hostfile(arguments.hostfile)
    if pool:
        active = runner.parse_inclusion_exclusion(pool, arguments.include, arguments.exclude)
        slots = [each if isinstance(each, int) else len(each) for each in active.values()]
    elif arguments.include:   # localhost:0,1
        chosen = [part.partition(":")[2] for part in arguments.include.split("@")]
        slots = [len(part.split(",")) if part else gpus for part in chosen]
    else:
        slots = [gpus] * max(1, arguments.num_nodes)
    if arguments.num_nodes > 0:
        slots = slots[:arguments.num_nodes]
    if arguments.num_gpus > 0:
        slots = [arguments.num_gpus] * len(slots)
    if len(set(slots)) != 1:
        raise WrongCommand("deepspeed: hosts with different numbers of GPUs ({}) cannot be rehearsed".format(
            ", ".join(map(str, slots))))
    script = (["-m"] if arguments.module else []) + [arguments.user_script]
    script += ([] if arguments.no_local_rank else ["--local_rank=0"]) + list(arguments.user_args)
    said = bool(pool) or arguments.num_nodes > 0
    return Command(script, "deepspeed", None, len(slots) if said or len(slots) > 1 else None, slots[0])


class _Options(NamedTuple):
    """The options of a launcher that starts any program, by what they say."""

    ranks: Tuple[str, ...]
    hosts: Tuple[str, ...]
    per_host: Tuple[str, ...]


_SRUN = _Options(("n", "ntasks"), ("N", "nodes"), ("ntasks-per-node",))
_MPIRUN = _Options(("n", "np", "c"), (), ("npernode", "N", "ppn", "map-by-ppr"))


def other_program(words: List[str]) -> Optional[List[str]]:
    """The program of srun or mpirun, and its arguments, if it is none of Python: `hostname`."""
    if os.path.basename(words[0]) not in ("srun", "mpirun", "mpiexec") or _program_in(words[1:]) is not None:
        return None
    at = next((place for place, word in enumerate(words) if place and not word.startswith("-") and shutil.which(word)), None)
    return None if at is None else words[at:]


def _program_at(words: List[str]) -> int:
    at = _program_in(words)
    if at is None:
        raise WrongCommand("no script of Python was found in '{}'".format(" ".join(words)))
    return at


def _program_in(words: List[str]) -> Optional[int]:
    """Where the program begins after the options of a launcher, some of which have a value."""
    for at, word in enumerate(words):
        name = os.path.basename(word)
        if _INTERPRETED.match(name) or name in _LAUNCHERS or is_shell([word]) or (
                word.endswith(".py") and not word.startswith("-")):
            return at
    return None


def _started(name: str, options: _Options, words: List[str], gpus: int, otherwise: Dict[str, int]) -> Command:
    at = _program_at(words)
    found: Dict[str, int] = dict(otherwise)
    own = words[:at]
    for place, word in enumerate(own):
        if not word.startswith("-"):
            continue
        key, _, value = word.partition("=")
        key = key.lstrip("-").replace("_", "-")
        short = re.match(r"^-([nN])(\d+)$", word)   # -n8
        if short is not None:
            key, value = short.groups()
        for what in ("ranks", "hosts", "per_host"):
            if key in getattr(options, what):
                found[what] = _number((value or (own[place + 1] if place + 1 < at else "")).split("-")[-1],
                                      "{}: {}".format(name, word))
    if "ranks" not in found:
        found["ranks"] = found.get("hosts", 1) * found.get("per_host", 1)
    elif "hosts" not in found and "per_host" in found:
        found["hosts"] = -(-found["ranks"] // found["per_host"])
    return _inner(words[at:], gpus, Command([], name, found["ranks"], found.get("hosts")))


def _inner(words: List[str], gpus: int, outer: Command) -> Command:
    """The command that a launcher starts on each rank, which may be a launcher itself."""
    if is_shell(words):
        return outer._replace(words=words)
    inner = read_command(words, gpus)
    return inner if inner.launcher else outer._replace(words=inner.words)


def _srun(words: List[str], gpus: int) -> Command:
    known = {"ranks": "SLURM_NTASKS", "hosts": "SLURM_NNODES", "per_host": "SLURM_NTASKS_PER_NODE"}
    said = {what: int(os.environ[name]) for what, name in known.items() if os.environ.get(name, "").isdigit()}
    if _said(words, *_SRUN.ranks, *_SRUN.hosts, *_SRUN.per_host):
        said.pop("ranks", None)
    found = _started("srun", _SRUN, words, gpus, said)
    if found.launcher != "srun" or found.ranks is None:
        return found
    hosts = found.hosts or 1
    return found._replace(variables={"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0",
                                     "SLURM_NTASKS": str(found.ranks), "SLURM_NNODES": str(hosts),
                                     "SLURM_NTASKS_PER_NODE": str(found.ranks // hosts)})


def _mpirun(words: List[str], gpus: int) -> Command:
    found = _started("mpirun", _MPIRUN, words, gpus, {})
    if found.launcher != "mpirun":
        return found
    return found._replace(variables={"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
                                     "OMPI_COMM_WORLD_SIZE": str(found.ranks), "PMI_RANK": "0",
                                     "PMI_SIZE": str(found.ranks)})


_LAUNCHERS: Dict[str, Callable[[List[str], int], Command]] = {
    "torchrun": _torchrun, "accelerate": _accelerate, "accelerate-launch": _accelerate, "deepspeed": _deepspeed,
    "srun": _srun, "mpirun": _mpirun, "mpiexec": _mpirun, "horovodrun": _mpirun, "torch-launch": _launch}
_MODULES = {"torch.distributed.run": "torchrun", "torch.distributed.launch": "torch-launch",
            "accelerate.commands.launch": "accelerate", "accelerate.commands.accelerate_cli": "accelerate",
            "deepspeed": "deepspeed", "deepspeed.launcher.runner": "deepspeed"}


def launcher_names() -> List[str]:
    return sorted(set(_LAUNCHERS) - {"torch-launch"})


def slurm_variables(path: str, options: List[str]) -> Dict[str, str]:
    """What Slurm tells a script: from the #SBATCH lines of the file and the options of sbatch, which come first."""
    words: List[str] = []
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("#SBATCH"):
                words += shlex.split(line[len("#SBATCH"):], comments=True)
    words += options
    found: Dict[str, str] = {}
    for place, word in enumerate(words):
        key, _, value = word.partition("=")
        short = re.match(r"^-([nN])(\d+)$", word)
        name = _SBATCH.get(short.group(1) if short else key.lstrip("-"))
        if name is not None and word.startswith("-"):
            text = short.group(2) if short else value or (words[place + 1] if place + 1 < len(words) else "")
            number = re.search(r"(\d+)$", text)
            if number is not None:
                found[name] = number.group(1)
    hosts = int(found.get("NNODES", "1"))
    per_host = int(found.get("NTASKS_PER_NODE", "0"))
    ranks = int(found.get("NTASKS", str(hosts * max(1, per_host))))
    node = os.uname().nodename
    names = ",".join([node] + ["{}-{}".format(node, number) for number in range(1, hosts)])
    every = {"NNODES": str(hosts), "JOB_NUM_NODES": str(hosts), "NTASKS": str(ranks), "NPROCS": str(ranks), "PROCID": "0",
             "LOCALID": "0", "NODEID": "0", "JOB_ID": "1", "JOBID": "1", "JOB_NAME": os.path.basename(path),
             "JOB_NODELIST": names, "NODELIST": names, "SUBMIT_DIR": os.getcwd(), "SUBMIT_HOST": node,
             "CPUS_PER_TASK": found.get("CPUS_PER_TASK", "1")}
    if per_host:
        every["NTASKS_PER_NODE"] = str(per_host)
    if "GPUS_ON_NODE" in found:
        every["GPUS_ON_NODE"] = every["GPUS_PER_NODE"] = found["GPUS_ON_NODE"]
    return {"SLURM_" + key: value for key, value in every.items()}


_SBATCH = {"N": "NNODES", "nodes": "NNODES", "n": "NTASKS", "ntasks": "NTASKS", "ntasks-per-node": "NTASKS_PER_NODE",
           "gres": "GPUS_ON_NODE", "gpus-per-node": "GPUS_ON_NODE", "cpus-per-task": "CPUS_PER_TASK", "c": "CPUS_PER_TASK"}
