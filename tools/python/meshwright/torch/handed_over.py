"""What `meshwright launch` and a script tell each other.

First the script runs once as the only process, with the folder MESHWRIGHT_CAPTURE in its environment: its first
step writes the captured model and the job there, and ends the process. Then `launch` settles the plan, and
starts the ranks with MESHWRIGHT_LAUNCHED in their environment. Rank 0 finds the plan on its standard input.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

import torch

from .degrees import ranks_of_a_replica
from .errors import CaptureError

__all__ = ["Alone", "Plan", "Stopped", "check_same_model", "check_same_training", "check_starter", "example_like",
           "is_capturing", "is_launched", "merged", "plan_of_launch", "processes_of", "request_came", "samples_of_all",
           "take_input", "tell", "watch_for_stop", "write_captured"]

Job = Dict[str, Any]


class Stopped(SystemExit):
    """Ends a script that was asked to stop, after a step."""


class Plan(NamedTuple):
    """A settled run, the captured model that it was made for, and the keys of `training` that the job gave."""

    settled: Dict[str, Any]
    captured: Dict[str, Any]
    given: List[str]

    @property
    def job(self) -> Job:
        return dict(self.settled["job"])

    @property
    def ranks(self) -> int:
        degrees = self.job["parallelism"]
        return int(degrees.get("pipeline", 1)) * int(degrees.get("tensor", 1)) * int(degrees.get("data", 1))


class Alone:
    """The runtime of a script that is only captured: one process, which computes nothing."""

    def init(self) -> Any:
        return 0, 1

    def gathered(self, number: int) -> List[int]:
        return [number]

    def broadcast(self, address: int, size: int, root: int) -> None:
        pass

    def save(self, folder: str, keep: int) -> None:
        pass

    def finish_saving(self) -> bool:
        return True

    def stop(self) -> None:
        pass

    def close(self) -> None:
        pass


def is_capturing() -> bool:
    return bool(os.environ.get("MESHWRIGHT_CAPTURE"))


def is_launched() -> bool:
    return bool(os.environ.get("MESHWRIGHT_LAUNCHED"))


def tell(words: str) -> None:
    """Writes a line for the launcher, which it does not show (exec/launch/marks.h)."""
    sys.stdout.flush()
    sys.stderr.write("\x1e" + words + "\n")
    sys.stderr.flush()


# ---------------------------------------------------------------------------------------------
# How this process was started.

_STARTERS = (("srun", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS"), ("a launcher of PyTorch", "MASTER_ADDR", "WORLD_SIZE"))


def check_starter() -> None:
    """Raises RuntimeError in one of several processes that mpirun has not started: their ranks cannot meet."""
    if "OMPI_COMM_WORLD_SIZE" in os.environ or "PMIX_RANK" in os.environ:
        return
    for name, mark, size in _STARTERS:
        count = os.environ.get(size, "1")
        if mark in os.environ and count.isdigit() and int(count) > 1:
            script = " ".join(sys.argv) or "train.py"
            slurm = ", or srun --mpi=pmix -n {} python {}".format(count, script) if name == "srun" else ""
            raise RuntimeError(
                "init: {} has started {} processes, but ranks meet through MPI; type instead: meshwright launch JOB -- "
                "python {}, or mpirun -n {} python {}{}".format(name, count, script, count, script, slurm))


# ---------------------------------------------------------------------------------------------
# The script is captured.


def merged(launched: Mapping[str, Any], own: Mapping[str, Any]) -> Job:
    """The job of `launch`, with what only the script's own job says."""
    job: Job = json.loads(json.dumps(launched))
    for key, value in own.items():
        if isinstance(value, Mapping) and isinstance(job.get(key), dict):
            for inner, each in value.items():
                job[key].setdefault(inner, each)
        else:
            job.setdefault(key, value)
    return job


def processes_of(job: Mapping[str, Any]) -> Optional[int]:
    """The number of ranks that a job fixes, or None."""
    cluster = job.get("cluster", {})
    count = cluster.get("count", 1)
    each = cluster.get("processes_per_host")
    if each is None:
        each = job.get("distribution", {}).get("mpi", {}).get("processes_per_host")
    if isinstance(count, int) and isinstance(each, int):
        return count * each
    degrees = job.get("parallelism", {})
    if isinstance(degrees, Mapping) and isinstance(degrees.get("data"), int):
        each_replica = ranks_of_a_replica(degrees)
        return int(degrees["data"]) * each_replica if each_replica is not None else None
    return None


def samples_of_all(job: Mapping[str, Any], samples: int, divides: bool) -> int:
    """The global batch of a script whose one process gave `samples` to a step.

    A script that divides batches (`shard`, `dp_rank`) gave the global batch. In another one each replica takes
    as many, as under DistributedDataParallel.
    """
    if divides:
        return samples
    degrees = job.get("parallelism", {})
    given = isinstance(degrees, Mapping)
    data = degrees.get("data", "auto") if given else "auto"
    ranks, each = processes_of(job), ranks_of_a_replica(degrees)
    if data == "auto" and each is not None and ranks:
        data = ranks // each
    if not isinstance(data, int):
        raise CaptureError("the script gives every replica {} samples, and the plan decides how many replicas there "
                           "are; give training.global_batch in the job, or divide global batches with "
                           "shard(loader)".format(samples))
    return samples * data


def write_captured(captured: Any, job: Job) -> None:
    """Writes own.model.json and the job for `launch`, and ends this process. Nothing of the script runs after it."""
    folder = os.environ["MESHWRIGHT_CAPTURE"]
    job["model"] = os.path.join(folder, "own.model.json")
    captured.save(job["model"])
    with open(os.path.join(folder, "captured.json"), "w", encoding="utf-8") as file:
        json.dump(job, file)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


# ---------------------------------------------------------------------------------------------
# A rank takes the plan.

_input: Optional[str] = None


def take_input() -> None:
    """Reads the plan from rank 0's standard input, and leaves an empty one, as the other ranks have."""
    global _input
    if _input is None and os.environ.get("OMPI_COMM_WORLD_RANK", "0") == "0":
        with open(0, encoding="utf-8", closefd=False) as file:
            _input = file.read()
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)


def _shared(text: str, runtime: Any) -> str:
    """Rank 0's text, on all ranks."""
    data = bytearray(text.encode())
    data = data + bytearray(int(runtime.gathered(len(data))[0]) - len(data))
    held = torch.frombuffer(data, dtype=torch.uint8)
    runtime.broadcast(held.data_ptr(), held.numel(), 0)
    return data.decode()


def plan_of_launch(runtime: Any, ranks: int, own_job: Mapping[str, Any]) -> Plan:
    """The plan that `launch` made. Every rank calls it. Raises CaptureError where it is not of this world."""
    take_input()
    plan = Plan(**json.loads(_shared(_input or "", runtime)))
    if plan.ranks != ranks:
        raise CaptureError("the plan has {} ranks, and {} processes were started; start as many as the plan has".format(
            plan.ranks, ranks))
    degrees = own_job.get("parallelism", {})
    for key, value in (degrees.items() if isinstance(degrees, Mapping) else ()):
        settled = plan.job["parallelism"].get(key, value)
        if value not in (settled, "auto"):
            raise CaptureError("the script's own job has parallelism.{} {!r}, the plan of `meshwright launch` {!r}; "
                               "give it in the job of the launch".format(key, value, settled))
    return plan


def example_like(plan: Plan, example: Any) -> Any:
    """The example with as many samples as the plan's model was captured with: segments may depend on that."""
    tensors = []
    for tensor, entry in zip(example.tensors, plan.captured["inputs"]):
        axis = entry.get("batch_axis")
        if axis is not None and axis < tensor.dim() and tensor.shape[axis]:
            wanted = torch.arange(entry["shape"][axis], device=tensor.device) % tensor.shape[axis]
            tensor = tensor.index_select(axis, wanted)
        tensors.append(tensor)
    return example.with_tensors(tensors)


_COMPARED = ("inputs", "parameters", "buffers", "tensors", "segments")


def _plain(entry: Dict[str, Any]) -> Dict[str, Any]:
    """What must be equal of an entry, whatever the number of samples of the example."""
    shown = {key: value for key, value in entry.items() if key not in ("bytes", "kind", "saves")}
    if "batch_axis" in shown:
        shown["shape"] = [size for axis, size in enumerate(shown["shape"]) if axis != shown["batch_axis"]]
    return shown


def check_same_model(plan: Plan, document: Mapping[str, Any]) -> None:
    """Raises CaptureError, with what differs, where a rank's captured model is not the plan's."""
    def differ(what: str, here: Any, there: Any) -> None:
        raise CaptureError("the script's model is not the one that was planned: {} is {} here and {} in the plan; "
                           "capture it again (leave `model` out of the job)".format(what, json.dumps(here),
                                                                                    json.dumps(there)))

    if document["precision"] != plan.captured["precision"]:
        differ("precision", document["precision"], plan.captured["precision"])
    for key in _COMPARED:
        here, there = document[key], plan.captured[key]
        for number, (one, other) in enumerate(zip(here, there)):
            one, other = _plain(one), _plain(other)
            for field in sorted(set(one) | set(other)):
                if one.get(field) != other.get(field):
                    name = other.get("name") or other.get("module") or number
                    differ("{} of {} {}".format(field, key[:-1], name), one.get(field), other.get(field))
        if len(here) != len(there):
            differ("the number of " + key, len(here), len(there))


def check_same_training(plan: Plan, settings: Mapping[str, Any]) -> None:
    """Raises CaptureError where the script's optimizer is not the plan's, and the job did not ask for that."""
    training = plan.job["training"]
    for key, value in settings.items():
        if key in plan.given or key == "learning_rate" or key not in training or training[key] == value:
            continue
        raise CaptureError("training.{} is {!r} by the script's optimizer and {!r} in the plan; give it in the job, or "
                           "leave `model` out of the job: then the script is asked".format(key, value, training[key]))


# ---------------------------------------------------------------------------------------------
# Requests to stop.

_APART_S = 0.2   # One key press may arrive twice.
_request: Optional[float] = None


def watch_for_stop() -> None:
    """From now on SIGINT, SIGTERM and SIGUSR1 ask to stop after the step; a second one ends this process."""
    def on_signal(_number: int, _frame: Any) -> None:
        global _request
        if _request is not None and time.monotonic() - _request > _APART_S:
            os._exit(5)
        _request = _request if _request is not None else time.monotonic()

    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(each, on_signal)
        signal.siginterrupt(each, False)


def request_came() -> bool:
    return _request is not None
