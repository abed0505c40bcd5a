"""Runs a shell script whose launchers hand their command lines back to the rehearsal.

The script is run by its shell as it is. In front of its PATH is a folder with stand-ins of the launchers and of
nvidia-smi, and each Python that it starts looks at `startup/sitecustomize.py` first, also one of another environment.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from typing import Dict, List

from .launchers import WrongCommand, launcher_names, slurm_variables

__all__ = ["run_shell", "stand_ins"]

_HANDED = """#!/bin/sh
exec "{python}" -m meshwright.rehearsal --handed -- {name} "$@"
"""
_SMI = """#!/bin/sh
exec env -u LD_PRELOAD "{python}" -S "{file}" "$@"
"""
_SCONTROL = """#!/bin/sh
[ "$1 $2" = "show hostnames" ] || [ "$1 $2" = "show hostname" ] || exit 0
printf '%s\\n' "${3:-$SLURM_JOB_NODELIST}" | tr ',' '\\n'
"""
_NOTHING = "#!/bin/sh\nexit 0\n"


def stand_ins(folder: str) -> str:
    """Makes the folder of stand-ins of programs, and returns it."""
    made = os.path.join(folder, "bin")
    if os.path.isdir(made):
        return made
    os.makedirs(made)
    programs: Dict[str, str] = {name: _HANDED.format(python=sys.executable, name=name) for name in launcher_names()}
    here = os.path.dirname(os.path.abspath(__file__))
    programs["nvidia-smi"] = _SMI.format(python=sys.executable, file=os.path.join(here, "nvidia_smi.py"))
    programs["scontrol"] = _SCONTROL
    programs["module"] = _NOTHING
    for name, text in programs.items():
        path = os.path.join(made, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return made


def run_shell(words: List[str], folder: str, handed: List[str]) -> int:
    """Runs a shell script to its end. `handed` are the words with which what it launches is rehearsed."""
    environment = dict(os.environ)
    here = os.path.dirname(os.path.abspath(__file__))
    environment["PATH"] = stand_ins(folder) + os.pathsep + environment.get("PATH", "")
    environment["PYTHONPATH"] = os.path.join(here, "startup") + os.pathsep + environment.get("PYTHONPATH", "")
    environment["MESHWRIGHT_REHEARSAL_HANDED"] = "\n".join(handed)
    words = list(words)
    name = os.path.basename(words[0])
    if name == "sbatch":
        at = next((place for place, word in enumerate(words) if place and os.path.isfile(word)), None)
        if at is None:
            raise WrongCommand("sbatch: no script was found in '{}'".format(" ".join(words)))
        environment.update(slurm_variables(words[at], words[1:at]))
        words = ["bash"] + words[at:]
    elif name.endswith((".slurm", ".sbatch")) or os.path.isfile(words[0]):
        if not os.path.isfile(words[0]):
            raise FileNotFoundError(2, "no such script", words[0])
        if _is_slurm(words[0]):
            environment.update(slurm_variables(words[0], []))
        words = [_shell_of(words[0])] + words
    return subprocess.call(words, env=environment, stdout=sys.stderr)


def _is_slurm(path: str) -> bool:
    with open(path, encoding="utf-8", errors="replace") as file:
        return "\n#SBATCH" in file.read()


def _shell_of(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        first = file.readline()
    for shell in ("zsh", "bash", "dash", "ksh"):
        if first.startswith("#!") and shell in first and shutil.which(shell):
            return shell
    return "bash" if shutil.which("bash") else "sh"
