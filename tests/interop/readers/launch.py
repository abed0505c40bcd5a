"""Start files: bash reads them, shellcheck too where it is there; then they run with stand-ins for
Slurm, Open MPI and the starters, whose command lines go to the starters' own parsers (PyTorch's
torchrun, accelerate, deepspeed). Slurm and Open MPI are in no package: their options are looked up
in launcher_options.txt."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent

# A program that records its command line. As srun and mpirun it then runs the rest of the line, as
# on one host.
STAND_IN = r'''#!{python}
import json, os, sys
name, words = os.path.basename(sys.argv[0]), sys.argv[1:]
with open(os.environ["STARTED"], "a") as file:
    print(json.dumps([name, *words]), file=file)
if name == "scontrol":
    print("host1")
if name in ("srun", "mpirun"):
    valued = {{"-np": 1, "--hostfile": 1, "--map-by": 1, "--bind-to": 1, "-x": 1}}
    while words and words[0].startswith("-"):
        words = words[1 + (valued.get(words[0], 0) if name == "mpirun" else 0):]
    os.execvp(words[0], words)
'''
NAMES = ("scontrol", "srun", "mpirun", "torchrun", "accelerate", "deepspeed", "python3")
VARIABLES = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "host1", "SLURM_NODEID": "0",
             "SLURM_NNODES": "1", "RDZV_ENDPOINT": "host1:29500", "MASTER_ADDR": "host1",
             "NODE_RANK": "0", "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "8",
             "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "8",
             "PET_NODE_RANK": "0", "PET_MASTER_ADDR": "host1", "PET_MASTER_PORT": "29500"}


def options():
    """{"sbatch": {"nodes", ...}, ...}."""
    table = {}
    for line in (HERE / "launcher_options.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            program, *names = line.split()
            table.setdefault(program, set()).update(names)
    return table


def started_by(words, folder):
    """What the words start, command line by command line, in a copy of the folder."""
    with tempfile.TemporaryDirectory() as place:
        copy, stand_ins = pathlib.Path(place, "folder"), pathlib.Path(place, "bin")
        shutil.copytree(folder, copy)
        stand_ins.mkdir()
        for name in NAMES:
            path = stand_ins / name
            path.write_text(STAND_IN.format(python=sys.executable))
            path.chmod(0o755)
        started, hosts = pathlib.Path(place, "started"), pathlib.Path(place, "hosts")
        hosts.write_text("host1\n")
        environment = {**os.environ, **VARIABLES, "STARTED": str(started), "HOSTFILE": str(hosts),
                       "PATH": f"{stand_ins}:/usr/bin:/bin"}
        done = subprocess.run(words, cwd=copy, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in started.read_text().splitlines()]


def parse_torchrun(words):
    from torch import __version__
    from torch.distributed.run import get_args_parser

    arguments = get_args_parser().parse_args(words)
    return f"torchrun of torch {__version__.split('+')[0]} starts {arguments.training_script}"


def parse_accelerate(words):
    from accelerate import __version__
    from accelerate.commands.launch import launch_command_parser

    assert words.pop(0) == "launch"
    arguments = launch_command_parser().parse_args(words)
    return f"accelerate {__version__} launches {arguments.training_script}"


def parse_deepspeed(words):
    os.environ["DS_ACCELERATOR"] = "cpu"
    from deepspeed import __version__
    from deepspeed.launcher.runner import parse_args

    return f"deepspeed {__version__} starts {parse_args(words).user_script}"


def parse_python(words):
    words = [word for word in words if word != "-u"]
    program = words[1] if words[0] == "-m" else words[0]
    assert words[0] == "-m" or program.endswith(".py"), words
    return f"python3 starts {program}, a process for each GPU"


PARSERS = {"torchrun": parse_torchrun, "accelerate": parse_accelerate,
           "deepspeed": parse_deepspeed, "python3": parse_python}


def read_started(lines):
    """The one line that starts training, parsed."""
    starts = [line for line in lines if line[0] in PARSERS]
    assert len(starts) == 1, f"starts {starts}"
    return PARSERS[starts[0][0]](starts[0][1:])


def read_words(words):
    """A container's command; only what a shell has to see runs."""
    if words[0] in PARSERS:
        return PARSERS[words[0]](words[1:])
    with tempfile.TemporaryDirectory() as empty:
        # The kubelet turns $$( into a literal $(.
        return read_started(started_by([word.replace("$$(", "$(") for word in words], empty))


def check_options(lines, text, table):
    given = {"sbatch": [line.split()[1] for line in text.splitlines() if line.startswith("#SBATCH")]}
    for program in ("srun", "mpirun"):
        for line in lines:
            if line[0] == program:
                words = iter(line[1:])
                given[program] = []
                for word in words:
                    if not word.startswith("-"):
                        break
                    given[program].append(word)
                    if program == "mpirun":
                        next(words)
    for program, words in given.items():
        for word in words:
            name = word.split("=")[0]
            assert name in table[program], f"{program} has no option {name}"


def read(path):
    text = pathlib.Path(path).read_text()
    for reader in (["bash", "-n"], ["shellcheck"]):
        if shutil.which(reader[0]):
            done = subprocess.run([*reader, path], capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
    lines = started_by(["bash", os.path.basename(path)], os.path.dirname(os.path.abspath(path)))
    check_options(lines, text, options())
    return read_started(lines)


if __name__ == "__main__":
    from report import read_each

    BY = "bash, shellcheck" if shutil.which("shellcheck") else "bash"
    read_each(BY + ", the starter's parser", read)
