"""Runs a user's own training script by a plan: see docs/own-model.md.

    import meshwright.torch as mw
    mw.init()
    model = mw.DistributedModel(net, loss)
    optimizer = mw.DistributedOptimizer(torch.optim.AdamW(net.parameters(), lr=3e-4))
    for batch in mw.shard(loader):
        loss = model.step(batch)

The model is captured and divided at the first step. From then on each rank's process runs its part of the
plan: meshwright's Runtime orders, exchanges, updates and saves, and PyTorch computes the segments.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import json
import os
import shutil
import struct
import sys
import tempfile
import traceback
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Tuple, Union

import torch
import torch.utils._pytree as pytree

from . import handed_over, torchrun
from .beside import load_beside, read_weights, save_beside, saved_step, write_weights
from .batches import Shard, micro_batches_of, samples_of
from .capturing import CapturedModel, capture
from .degrees import place_of, ranks_of_a_replica, tensor_degrees
from .document import PRECISIONS
from .errors import CaptureError
from .exporting import Example, Step
from .materializing import Materialized, delay_param_initialization
from .on_tensor_ranks import set_rank
from .optimizers import OnShards, plain_settings, states_of, word_of
from .segment_runner import Memory, ParameterSpec, SegmentRunner, exact_type, handed_values, seed_of, stream_of
from .tables import Tables
from .whole import fetch_whole

__all__ = ["DistributedModel", "DistributedOptimizer", "barrier", "delay_param_initialization", "dp_rank", "dp_size",
           "export", "gathered", "init", "load_weights", "local_rank", "pp_rank", "pp_size", "rank", "resume", "save",
           "seed_of", "shard", "shutdown", "size", "state_dict", "step", "stop_requested", "tp_rank", "tp_size"]

Job = Mapping[str, Any]
_MOST_RANKS = 1 << 24


class _World:
    """This process among all ranks. There is one."""

    def __init__(self, runtime: Any, rank: int, size: int, job: Dict[str, Any]) -> None:
        self.runtime, self.rank, self.size, self.job = runtime, rank, size, job
        self.model: Optional["DistributedModel"] = None
        self.optimizer: Optional["DistributedOptimizer"] = None
        self.optimizers: List["DistributedOptimizer"] = []   # all that the script has made since the last model
        self.plan: Optional[handed_over.Plan] = None   # the plan that `meshwright launch` gave
        self.local_rank = int(os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", "0"))
        self.divides = False                           # whether the script asks which replica this is
        self.saved_in: Optional[Tuple[str, int]] = None
        self.asks_to_stop = self.stopping = False


_world: Optional[_World] = None


def _here() -> _World:
    if _world is None:
        raise RuntimeError("meshwright.torch: call init() first")
    return _world


def _runtime_module() -> Any:
    try:
        from .. import _runtime
    except ImportError as error:
        raise ImportError(
            "meshwright.torch: training needs the module meshwright._runtime ({}). The wheel of PyPI plans and captures "
            "only, for the module is built against this computer's MPI: build meshwright from source "
            "(tools/setup && cmake --preset release && cmake --build --preset release) and put build/release/python "
            "first on PYTHONPATH".format(error)) from error
    return _runtime


def _read_job(job: Union[None, str, "os.PathLike[str]", Job]) -> Dict[str, Any]:
    if job is None:
        job = os.environ.get("MESHWRIGHT_JOB")
    if job is None:
        return {}
    if isinstance(job, Mapping):
        return dict(job)
    with open(job, encoding="utf-8") as file:
        return dict(json.load(file))


def _ends_all(kind: Any, value: Any, trace: Any) -> None:
    """Other ranks wait for this one, so an exception that nobody catches ends the run on all of them."""
    sys.stdout.flush()
    print("rank {} failed:".format(_here().rank), file=sys.stderr)
    traceback.print_exception(kind, value, trace)
    sys.stderr.flush()
    if not issubclass(kind, KeyboardInterrupt) or _here().size > 1:
        _here().runtime.abandon(1)


def init(job: Union[None, str, "os.PathLike[str]", Job] = None) -> None:
    """Meets the other ranks. Call it once, before anything else of this module.

    `job` is a job file's path or content: `parallelism`, `training`, ... as `meshwright plan` reads them. Its
    `model` and `cluster` may be left out. By default it is what `meshwright launch` hands over, and without a
    launcher all ranks are replicas. Ranks are the processes of mpirun; without mpirun there is one. Processes of
    torchrun start mpirun with as many ranks, wait for it, and end here.
    """
    global _world
    if _world is not None:
        if job is not None and _world.plan is None:
            _world.job = _read_job(job)
        return
    torchrun.start_ranks()
    handed_over.check_starter()
    capturing, launched = handed_over.is_capturing(), handed_over.is_launched()
    runtime = handed_over.Alone() if capturing else _runtime_module()
    rank, size = runtime.init()
    own = _read_job(job)
    _world = _World(runtime, rank, size, handed_over.merged(_read_job(None), own) if capturing else own)
    if launched:
        if rank == 0:
            handed_over.tell("met")
        _world.plan = handed_over.plan_of_launch(runtime, size, own)
        _world.job = _world.plan.job
    elif size > 1:
        sys.excepthook = _ends_all
    atexit.register(shutdown)


def shutdown() -> None:
    """Waits for checkpoints in flight and leaves the other ranks. Runs at exit by itself."""
    global _world
    if _world is None:
        return
    runtime, _world = _world.runtime, None
    if not runtime.finish_saving():
        print("meshwright.torch: the last checkpoint could not be saved", file=sys.stderr)
    runtime.stop()
    runtime.close()


def rank() -> int:
    """This process's number among all."""
    return _here().rank


def size() -> int:
    """The number of processes."""
    return _here().size


def local_rank() -> int:
    """This process's number among those of its host."""
    return _here().local_rank


def _data_degree() -> int:
    """The data degree, also before the model is captured where the job says it or leaves nothing else open."""
    world = _here()
    world.divides = True
    if handed_over.is_capturing():
        return 1
    if world.model is not None and world.model.info is not None:
        return int(world.model.info["data"])
    given = world.job.get("parallelism", {})
    if isinstance(given, Mapping):
        each, data = ranks_of_a_replica(given), given.get("data", "auto")
        if isinstance(data, int):
            return data
        if each is not None and world.size % each:
            raise RuntimeError("parallelism.pipeline x tensor is {}, and the number of ranks is {}; start a multiple of "
                               "{}".format(each, world.size, each))
        if each is not None:
            return world.size // each
    raise RuntimeError("the data degree is the planner's choice, which is made at the first step; give parallelism.data, "
                       "or start the script with `meshwright launch`, which plans before it starts")


def dp_size() -> int:
    """The number of replicas."""
    return _data_degree()


def dp_rank() -> int:
    """The replica that this rank belongs to."""
    world = _here()
    if world.model is not None and world.model.info is not None:
        return int(world.model.info["replica"])
    return _place(world)[1]


def pp_size() -> int:
    """The number of pipeline stages."""
    return _here().size // (_data_degree() * tp_size())


def pp_rank() -> int:
    """This rank's pipeline stage."""
    world = _here()
    if world.model is not None and world.model.info is not None:
        return int(world.model.info["stage"])
    return _place(world)[0]


def _place(world: _World) -> Tuple[int, int]:
    """(stage, replica) of this rank by the job's placement, before the plan is settled."""
    return place_of(world.rank, _data_degree(), world.size, world.job.get("parallelism", {}))


def tp_size() -> int:
    """The number of ranks that share each linear layer that is cut."""
    world = _here()
    if world.model is not None and world.model.info is not None:
        return int(world.model.info["tensor"])
    parallelism = world.job.get("parallelism", {})
    tensor = parallelism.get("tensor", 1) if isinstance(parallelism, Mapping) else 1
    return tensor if isinstance(tensor, int) else 1


def tp_rank() -> int:
    """This rank's place in its tensor group, once the plan is settled; before, 0."""
    world = _here()
    return int(world.model.info["tensor_rank"]) if world.model is not None and world.model.info is not None else 0


def gathered(value: float) -> List[float]:
    """The numbers that all ranks give, by rank. Every rank calls it."""
    all_bits = _here().runtime.gathered(struct.unpack("q", struct.pack("d", value))[0])
    return [float(struct.unpack("d", struct.pack("q", each))[0]) for each in all_bits]


def barrier() -> None:
    """Returns when all ranks have called it."""
    _here().runtime.gathered(0)


def shard(loader: Iterable[Any], start: int = 0) -> Shard:
    """This replica's part of each batch of a loader that yields global batches, from batch `start` on."""
    return Shard(loader, dp_rank(), dp_size(), start)


class DistributedOptimizer:
    """Stands for an optimizer of PyTorch, whose settings a step uses.

    The update is the end of `DistributedModel.step`, so `step` and `zero_grad` do nothing. The settings of the groups
    are read before each step, so a scheduler of PyTorch works as usual, on that optimizer or on this object.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, gradient_clip: float = 0.0) -> None:
        self.states = states_of(optimizer)
        self.optimizer, self.on_shards = optimizer, None  # type: ignore[var-annotated]
        self._plain = None if any(optimizer.state.values()) else plain_settings(optimizer)
        if self._plain is not None:
            self.settings = {"learning_rate": self._plain.learning_rate, **self._plain.settings}
        else:
            self.settings = {"optimizer": word_of(optimizer, self.states)}
            if _here().job.get("training", {}).get("gradient_clip_value"):
                raise ValueError("DistributedOptimizer: training.gradient_clip_value is for meshwright's optimizers, and {} "
                                 "updates by itself; use gradient_clip".format(type(optimizer).__name__))
        if gradient_clip:
            self.settings["gradient_clip"] = float(gradient_clip)
        self._members = self._members_now()
        _here().optimizer = self
        _here().optimizers.append(self)

    @property
    def __class__(self) -> Any:   # schedulers of PyTorch take optimizers only
        return type(self.optimizer)

    @property
    def defaults(self) -> Dict[str, Any]:
        return self.optimizer.defaults

    @property
    def param_groups(self) -> List[Dict[str, Any]]:
        return self.optimizer.param_groups

    @property
    def learning_rate(self) -> float:
        return float(self.optimizer.param_groups[0].get("lr", 0.0))

    @property
    def parameters(self) -> Set[int]:
        """The identities of all parameters that it updates."""
        return {each for group in self._members for each in group}

    @property
    def decaying(self) -> Set[int]:
        """The identities of the parameters that decay, where meshwright's optimizer updates."""
        return set(self._plain.decaying) if self._plain is not None else set()

    def _members_now(self) -> List[List[int]]:
        return [[id(each) for each in group["params"]] for group in self.param_groups]

    def begin_update(self) -> Optional[float]:
        """The learning rate of meshwright's optimizer in the next step, or None where the script's class updates."""
        if self._members_now() != self._members:
            raise ValueError("DistributedOptimizer: its groups have other parameters than at the first step, and the plan "
                             "has memory for those; call model.close(), and make model and optimizer again")
        plain = plain_settings(self.optimizer) if self._plain is not None else None
        if plain is not None and plain._replace(learning_rate=0.0) == self._plain._replace(learning_rate=0.0):
            return plain.learning_rate
        self._plain = None
        self.on_shards.begin_step()
        return None

    def step(self, closure: None = None) -> None:
        """Does nothing: DistributedModel.step has updated the parameters."""
        if closure is not None:
            raise ValueError("DistributedOptimizer.step: optimizers with a closure need several passes over a batch, "
                             "which a plan does not have")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Does nothing: each step begins with cleared gradients."""


class DistributedModel:
    """A module, or a function of a batch that closes over modules, which `step` trains on all ranks.

    `loss` is a function of (output, batch), where the module's output has no loss of its own. `batch_axes` says on
    which axis of an input the samples lie, where it is not the first.
    """

    def __init__(self, module_or_step: Any, loss: Optional[Callable[..., Any]] = None,
                 batch_axes: Optional[Dict[str, Optional[int]]] = None) -> None:
        self.module, self._loss, self._axes = module_or_step, loss, batch_axes
        self.info: Optional[Dict[str, Any]] = None
        self._steps, self._whole_at = 0, -1   # steps after which this rank had the whole model
        self._resume: Optional[str] = None
        self.extra: Any = None
        _here().model = self

    # -- the first step

    def _start(self, batch: Any) -> None:
        world = _here()
        captured = self._captured(batch)
        for each in captured.document["parameters"]:
            if "complex" in each["dtype"]:
                raise ValueError("DistributedModel.step: parameter {} has complex numbers, for which there is no optimizer "
                                 "state; keep it real, with a last axis of 2, and use torch.view_as_complex(it)".format(
                                     each["name"]))
        types = {each["dtype"] for each in captured.document["parameters"]}
        if "float64" in types and len(types) > 1:
            raise ValueError("DistributedModel.step: parameters are {}, and a run in float64 keeps all of them in it, "
                             "which rounds differently; say module.double() or module.float() first".format(
                                 " and ".join(sorted(types))))
        if captured.step.lost:
            raise ValueError("DistributedModel.step: a captured graph does not hold {}; write the forward of PyTorch's operations, "
                             "or register one with torch.library.custom_op and register_autograd".format(
                                 captured.step.lost[0]))
        self.captured = captured
        self._names = captured.step.example.names
        self._parameters = _parameters_of(captured)
        self._trained = [each.requires_grad for each in self._parameters]
        self._shapes = {name: torch.Size(each["shape"]) for each in captured.document["parameters"]
                        for name in [each["name"]] + each.get("tied", [])}
        self._buffers = [buffer if buffer.dtype == getattr(torch, entry["dtype"]) else
                         buffer.detach().to(getattr(torch, entry["dtype"]))
                         for buffer, entry in zip(_buffers_of(captured), captured.document["buffers"])]
        self._mark_decaying(captured)
        if handed_over.is_capturing():
            handed_over.write_captured(captured, self._job(captured, batch))
        settled, path = self._settled(captured, batch)
        self._settled_job = json.loads(settled)["job"]
        self._storage = PRECISIONS[captured.document["precision"]]
        threads = max(1, torch.get_num_threads())
        self._runner: Optional[SegmentRunner] = None
        self.info = json.loads(world.runtime.start(settled, threads, self._run_segment, self._update))
        if local_rank() == 0:
            shutil.rmtree(os.path.dirname(path), ignore_errors=True)
        self._check_written(captured)
        set_rank(self.info["tensor_rank"])
        self._of_rank = captured
        if self.info["tensor"] > 1:
            self._of_rank = captured.on_tensor_ranks(self.info["tensor"], self.info["sequence_parallel"])
        own_rank = self._of_rank
        tables = Tables(own_rank.document, own_rank.program, own_rank.trace, own_rank.division,
                        own_rank.trace_at(self.info["micro_batch"]), own_rank.indices, own_rank.generators)
        self._local_shapes = self._shapes_of_rank()
        specs = [ParameterSpec(self._local_shapes[each["name"]], getattr(torch, each["dtype"]), each["trainable"])
                 for each in captured.document["parameters"]]
        self._hand_over()
        memory = Memory(world.runtime.memory, self.info["on_gpu"])
        self._runner = SegmentRunner(tables, self.info, memory, specs, self._buffers, self._storage)
        own = dict(zip((each["name"] for each in captured.document["parameters"]), self._parameters))
        world.optimizer.on_shards = OnShards(world.optimizer.optimizer, world.optimizer.states,
                                             [own.get(each["name"]) for each in self.info["parameters"]], memory.elements)
        if self._resume is not None:
            self._load(self._resume)

    def _shapes_of_rank(self) -> Dict[str, torch.Size]:
        """The shapes of this rank's parts of the parameters, by name."""
        shapes = {each["name"]: list(self._shapes[each["name"]]) for each in self.captured.document["parameters"]}
        names = self.captured.document["parameters"]
        for cut in self._of_rank.cuts:
            shapes[names[cut["parameter"]]["name"]][cut["axis"]] //= self.info["tensor"]
        return {name: torch.Size(shape) for name, shape in shapes.items()}

    def _settled(self, captured: CapturedModel, batch: Any) -> Tuple[str, str]:
        """The settled run, and where this host has the captured model that it names."""
        world = _here()
        if world.plan is None:
            job = self._job(captured, batch)
            job["model"] = path = _on_every_host(captured.document)
            return world.runtime.settle(json.dumps(job), "the script's job", _local_profile()), path
        assert world.optimizer is not None
        handed_over.check_same_model(world.plan, captured.document)
        handed_over.check_same_training(world.plan, world.optimizer.settings)
        settled = dict(world.plan.settled, job=world.plan.job)
        settled["job"]["model"] = path = _on_every_host(world.plan.captured)
        return json.dumps(settled), path

    def _captured(self, batch: Any) -> CapturedModel:
        example = batch
        if isinstance(batch, list) and batch and not isinstance(batch[0], torch.Tensor):
            example = batch[0]
        plan = _here().plan
        if plan is not None:
            example = handed_over.example_like(plan, Example(example, ()))
        if _is_hollow(self.module):
            example = pytree.tree_map(lambda each: each.to("meta") if isinstance(each, torch.Tensor) else each, example)
        wanted = _here().job.get("training", {}).get("precision")
        parallelism = _here().job.get("parallelism", {})
        with self._only_trained(example):
            captured = capture(self.module, example, loss=self._loss, batch_axes=self._axes, precision=wanted,
                               device="cuda" if torch.cuda.is_available() else "cpu")
        degrees = tensor_degrees(parallelism, None if handed_over.is_capturing() else _here().size)
        stays_whole = captured.add_tensor_degrees(degrees)
        if isinstance(parallelism, Mapping) and "tensor {}".format(parallelism.get("tensor")) in stays_whole:
            raise CaptureError("DistributedModel.step: " + stays_whole["tensor {}".format(parallelism["tensor"])])
        return captured

    @contextlib.contextmanager
    def _only_trained(self, example: Any) -> Iterator[None]:
        """Parameters that the optimizer does not have are frozen for a while, so that the run never changes them."""
        optimizer = _here().optimizer
        trained = optimizer.parameters if optimizer is not None else set()
        others = [each for each in Step(self.module, self._loss, example).parameters()
                  if each.requires_grad and id(each) not in trained] if trained else []
        if any(id(each) in another.parameters for another in _here().optimizers for each in others):
            raise ValueError("DistributedOptimizer: two optimizers have parameters of the model, and a step has one "
                             "update; make their groups groups of one optimizer")
        for each in others:
            each.requires_grad_(False)
        try:
            yield
        finally:
            for each in others:
                each.requires_grad_(True)

    def _job(self, captured: CapturedModel, batch: Any) -> Dict[str, Any]:
        world = _here()
        job = json.loads(json.dumps(world.job))
        training = job.setdefault("training", {})
        optimizer = world.optimizer
        if optimizer is None:
            raise RuntimeError("DistributedModel.step: make a DistributedOptimizer first")
        for key, value in optimizer.settings.items():
            training.setdefault(key, value)
        if not handed_over.is_capturing():   # a launch may have a `distribution` of SageMaker's in its place
            job.setdefault("parallelism", {})
        parallelism = job.get("parallelism")
        if isinstance(parallelism, dict):
            parallelism.setdefault("data", "auto")
        samples, micro = self._sizes(captured, batch, job)
        if "global_batch" not in training:
            training["global_batch"] = (handed_over.samples_of_all(job, samples, world.divides)
                                        if handed_over.is_capturing() else samples * _data_degree_of(job, world))
        if micro is not None:
            training.setdefault("micro_batch", micro)
        training.setdefault("compiler", "none")
        training.setdefault("seed", int(torch.initial_seed() % (1 << 31)))
        training["seed"] = same_everywhere(training["seed"])
        job.setdefault("cluster", {"machine": "local"} if handed_over.is_capturing() else
                       {"machine": "local", "processes_per_host": world.size})
        return job

    def _sizes(self, captured: CapturedModel, batch: Any, job: Dict[str, Any]) -> Tuple[int, Optional[int]]:
        """(samples of this replica's batch, samples of a micro-batch if the batch comes as micro-batches)."""
        if isinstance(batch, list) and batch and not isinstance(batch[0], torch.Tensor):
            size = samples_of(batch[0], captured.axes, self._names)
            return size * len(batch), size
        return samples_of(batch, captured.axes, self._names), None

    def _mark_decaying(self, captured: CapturedModel) -> None:
        optimizer = _here().optimizer
        assert optimizer is not None
        for entry, parameter in zip(captured.document["parameters"], self._parameters):
            entry["decays"] = id(parameter) in optimizer.decaying

    def _check_written(self, captured: CapturedModel) -> None:
        """A forward that writes a parameter (an embedding with max_norm) writes the memory of one rank."""
        assert self.info is not None
        index, trace = captured.indices["parameter"], captured.trace
        written = [captured.document["parameters"][index[trace.sources[storage]]]["name"] for storage in trace.writes
                   if trace.sources.get(storage) in index]
        if written and (self.info["data"] > 1 or captured.document["precision"] not in ("fp32", "fp64")):
            raise ValueError("DistributedModel.step: the forward writes parameter {} (max_norm, or a change in place), and "
                             "replicas or fp32 masters would not see that; change a copy of it in the forward, or train "
                             "with one replica in fp32".format(written[0]))

    def _hand_over(self) -> None:
        """The module's values become the run's, and its tensors become views of the run's memory."""
        world, info = _here(), self.info
        assert info is not None
        exact = exact_type(self._storage)
        materialized = Materialized(self.captured.step.parts)
        for entry, parameter in zip(self.captured.document["parameters"], self._parameters):
            if world.rank == 0:
                values = materialized.values(parameter).to("cpu", exact).contiguous()
            else:
                values = torch.empty(self._shapes[entry["name"]], dtype=exact)
            world.runtime.broadcast(values.data_ptr(), values.nbytes, 0)
            world.runtime.set_parameter(entry["name"], values.data_ptr(), values.numel())
        world.runtime.refresh()
        self._whole_at = -1
        for number, buffer in enumerate(self._buffers):
            if buffer.is_meta:
                buffer = self._buffers[number] = torch.empty_like(buffer, device="cpu")
            if world.rank == 0:
                buffer.copy_(materialized.values(buffer, number))
            self._broadcast(buffer, 0)
        self._show_parameters()

    def _broadcast(self, tensor: torch.Tensor, root: int) -> None:
        values = tensor.detach().cpu().contiguous()
        if values.numel():
            _here().runtime.broadcast(values.data_ptr(), values.numel() * values.element_size(), root)
            tensor.data.copy_(values)

    def _show_parameters(self) -> None:
        """The module's parameters become views of the run's, or empty where this rank does not hold all of one."""
        world, info = _here(), self.info
        assert info is not None
        memory = Memory(world.runtime.memory, info["on_gpu"])
        addresses = {each["name"]: each["address"] for each in info["parameters"]}
        lists = [segment["parameters"] for segment in self._of_rank.document["segments"]]
        used = {self.captured.document["parameters"][index]["name"] for each in lists for index in each}
        for entry, parameter in zip(self.captured.document["parameters"], self._parameters):
            address = addresses.get(entry["name"], 0)
            if parameter.is_meta:
                continue
            if address and parameter.dtype == self._storage:
                parameter.data = memory.tensor(address, self._local_shapes[entry["name"]], self._storage)
            elif entry["name"] in used:
                parameter.data = torch.empty(0, dtype=parameter.dtype)

    # -- a step

    def prepare(self, batch: Any) -> None:
        """Captures, plans and starts what `step` would at its first call, with a batch like the steps'."""
        if self.info is None:
            self._start(batch)

    def _run_segment(self, *call: Any) -> None:
        assert self._runner is not None
        self._runner(*call)

    def _update(self, *call: Any) -> None:
        optimizer = _here().optimizer
        assert optimizer is not None and optimizer.on_shards is not None
        with stream_of(call[-1]):
            optimizer.on_shards.update(*call[:-1])

    def step(self, batch: Any) -> torch.Tensor:
        """Trains on this replica's part of a global batch; returns the mean loss of the whole global batch.

        `batch` is what was captured, with as many samples as the plan gives a replica, or a list of
        micro-batches. Every rank calls it. Raises ArithmeticError, with the place, if loss or gradients are not
        finite.
        """
        world = _here()
        self.prepare(batch)
        info, runner = self.info, self._runner
        assert info is not None and runner is not None and world.optimizer is not None
        self._check_trained()
        if self.is_whole:
            self._show_parameters()   # Other ranks' parts give their memory back.
        parts = micro_batches_of(batch, info["micro_batches"], info["micro_batch"], self.captured.axes, self._names)
        replica = info["global_batch"] // info["data"]
        first = self._steps * info["global_batch"] + info["replica"] * replica
        runner.begin(first, [self._inputs_of(part) for part in parts])
        loss, self.grad_norm, self.seconds, self.skipped = world.runtime.step(world.optimizer.begin_update())
        self._steps += 1
        if world.plan is not None:
            _stop_if_asked(world)
        return torch.tensor(loss, dtype=torch.float64)

    @property
    def compiled(self) -> Any:
        """What torch.compile has made of the segments (`functions`, `seconds`, `eager`), or None where nothing is compiled."""
        return self._runner.compiled if self._runner is not None else None

    def _check_trained(self) -> None:
        for entry, parameter, trained in zip(self.captured.document["parameters"], self._parameters, self._trained):
            if parameter.requires_grad != trained:
                raise ValueError("DistributedModel.step: requires_grad of {} is {} now, and was {} at the first step, "
                                 "when the plan was made; call model.close(), and make model and optimizer again".format(
                                     entry["name"], parameter.requires_grad, trained))

    def _inputs_of(self, part: Any) -> Dict[int, torch.Tensor]:
        tensors = tensors_of(part)
        if _here().job.get("training", {}).get("precision"):
            tensors = [each.to(self._storage) if each.is_floating_point() else each for each in tensors]
        names = dict(zip(self._names, tensors))
        return {value.value: names[value.name] for value in self._of_rank.program.sources if value.kind == "input"}

    def trace(self, path: "os.PathLike[str] | str") -> None:
        """Writes the timeline of the next step of all ranks to a file, which `explain --measured` reads."""
        if self.info is None:
            raise RuntimeError("trace: the plan is made in the first step; ask after it")
        _here().runtime.trace(os.fspath(path))

    def save_plan(self, folder: "os.PathLike[str] | str") -> None:
        """Writes own.model.json, and job.json with the plan that runs: what `simulate` and `explain` take."""
        if self.info is None:
            raise RuntimeError("save_plan: the plan is made in the first step; ask after it")
        if _here().rank == 0:
            os.makedirs(folder, exist_ok=True)
            self.captured.save(os.path.join(folder, "own.model.json"))
            job = dict(self._settled_job, model="own.model.json")
            with open(os.path.join(folder, "job.json"), "w", encoding="utf-8") as file:
                json.dump(job, file, indent=2)
        barrier()

    # -- state

    def shape_of(self, name: str) -> torch.Size:
        """The whole shape of a parameter, by any of its names."""
        return self._shapes[name]

    def state_dict(self) -> Dict[str, torch.Tensor]:
        """Whole parameters and buffers by the module's own names, on rank 0; {} elsewhere. Every rank calls it."""
        world = _here()
        entries = {each["name"]: (each, parameter)
                   for each, parameter in zip(self.captured.document["parameters"], self._parameters)}
        found: Dict[str, torch.Tensor] = {}

        def take(name: str, address: int, count: int) -> None:
            if name not in entries:
                return
            entry, parameter = entries[name]
            values = handed_values(world.runtime, address, count, self._storage)
            tensor = values.view(self._shapes[name]).to(parameter.dtype)
            for each in [name] + entry.get("tied", []):
                found[each] = tensor

        world.runtime.gather(take)
        self._share_buffers()
        if world.rank == 0:
            for name, (_, parameter) in entries.items():
                if name not in found:   # the step does not use it
                    found[name] = parameter.detach().cpu().clone()
            for entry, buffer in zip(self.captured.document["buffers"], self._buffers):
                found[entry["name"]] = buffer.detach().cpu().clone()
        return found

    def _share_buffers(self) -> None:
        """Buffers that the forward writes become those of the first replica, on all ranks, as under DDP."""
        info, document = self.info, self._of_rank.document
        assert info is not None
        rank_of = {place: number for number, place in enumerate(
            _here().runtime.gathered(info["stage"] * _MOST_RANKS + info["replica"]))}
        stage_of = {each["number"]: each["stage"] for each in info["segments"]}
        for number, entry in enumerate(document["buffers"]):
            users = [place for place, segment in enumerate(document["segments"]) if number in segment["buffers"]]
            if entry.get("written") and users:
                self._broadcast(self._buffers[number], rank_of[stage_of[users[0]] * _MOST_RANKS])

    def optimizer_record(self) -> Dict[int, Any]:
        """What the script's optimizer knows of each of its groups, from a rank that has some of it. Every rank calls it."""
        world = _here()
        own = world.optimizer.on_shards.record()  # type: ignore[union-attr]
        found: Dict[int, Any] = {}
        for number in range(len(world.optimizer.param_groups)):  # type: ignore[union-attr]
            holders = world.runtime.gathered(int(number in own))
            if any(holders):
                found[number] = _common_value(own.get(number), holders.index(1))
        return found

    def close(self) -> None:
        """Ends the run, so that another may start in this process. Every rank calls it."""
        world = _here()
        for parameter in self._parameters:
            if not parameter.is_meta:
                parameter.data = parameter.detach().clone()
        world.runtime.stop()
        world.model = world.optimizer = None
        world.optimizers.clear()

    @property
    def is_whole(self) -> bool:
        """Whether this rank's module has all values of the latest step."""
        return self._steps == self._whole_at

    def whole(self) -> Any:
        """The module, with all values of the latest step until the next one. Every rank calls it.

        Each rank then needs the memory of the whole model.
        """
        if self.info is None and self._resume is not None and saved_step(self._resume):
            raise RuntimeError("DistributedModel: the checkpoint is loaded when the plan is made, which the first step "
                               "does; call model.prepare(batch) after resume, with a batch like the steps'")
        if self.info is not None and not self.is_whole:
            fetch_whole(self, _here().runtime)
            self._whole_at = self._steps
        return self.module

    def __call__(self, *words: Any, **named: Any) -> Any:
        """The whole module's output, under `torch.no_grad()`: every rank calls it, with inputs of its own."""
        if torch.is_grad_enabled():
            raise RuntimeError("DistributedModel: call step(batch) to train, which has a backward pass; the model itself is "
                               "called under torch.no_grad()")
        return self.whole()(*words, **named)

    def train(self, mode: bool = True) -> "DistributedModel":
        """Sets the module's mode for evaluations. A step always trains."""
        if isinstance(self.module, torch.nn.Module):
            self.module.train(mode)
        return self

    def eval(self) -> "DistributedModel":
        """As train(False)."""
        return self.train(False)

    def written_buffers(self) -> Dict[str, torch.Tensor]:
        """Buffers that the forward writes, by name."""
        return {entry["name"]: buffer for entry, buffer in zip(self.captured.document["buffers"], self._buffers)
                if entry.get("written")}

    def _load(self, folder: str) -> None:
        self._steps = _here().runtime.resume(folder)
        self._whole_at = -1
        if self._steps == 0:
            return
        buffers, self.extra, optimizer = load_beside(folder, self._steps)
        _here().optimizer.on_shards.load(optimizer)  # type: ignore[union-attr]
        for name, buffer in self.written_buffers().items():
            if name in buffers:
                buffer.data.copy_(buffers[name])


def _is_hollow(module: Any) -> bool:
    return isinstance(module, torch.nn.Module) and any(each.is_meta for each in module.parameters())


def _parameters_of(captured: CapturedModel) -> List[torch.Tensor]:
    """The user's parameters in the order of the document."""
    return list(captured.step.parameters())


def _buffers_of(captured: CapturedModel) -> List[torch.Tensor]:
    return [buffer for _, buffer in captured.step.named_buffers()]


def _local_profile() -> str:
    data = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.environ.get("MESHWRIGHT_PROFILE") or os.path.join(data, "meshwright", "local.json")


def same_everywhere(number: int) -> int:
    """Rank 0's number. Every rank calls it."""
    return int(_here().runtime.gathered(number)[0])


def common_folder() -> str:
    """A new folder of this host, whose path is the same on all ranks. Every rank calls it."""
    return _common_text(tempfile.mkdtemp(prefix="meshwright-") if _here().rank == 0 else "")


def _common_text(text: str) -> str:
    words = torch.zeros(4096, dtype=torch.uint8)
    encoded = text.encode()
    words[:len(encoded)] = torch.tensor(list(encoded), dtype=torch.uint8)
    _here().runtime.broadcast(words.data_ptr(), words.numel(), 0)
    return bytes(words.tolist()).rstrip(b"\0").decode()


def _common_value(value: Any, root: int) -> Any:
    """The value that a rank has, such as torch.save takes, on all ranks. Every rank calls it."""
    written = io.BytesIO()
    torch.save(value, written)
    size = _here().runtime.gathered(len(written.getvalue()))[root]
    data = bytearray(written.getvalue().ljust(size, b"\0")[:size])
    held = torch.frombuffer(data, dtype=torch.uint8)
    _here().runtime.broadcast(held.data_ptr(), size, root)
    return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)


def tensors_of(batch: Any) -> List[torch.Tensor]:
    """The tensors of a batch, in the order of the captured inputs."""
    return Example(batch, ()).tensors


def _data_degree_of(job: Mapping[str, Any], world: _World) -> int:
    parallelism = job.get("parallelism", {})
    data = parallelism.get("data", "auto") if isinstance(parallelism, Mapping) else "auto"
    if isinstance(data, int):
        return data
    each = ranks_of_a_replica(parallelism)
    return world.size // each if each is not None else 1


def _on_every_host(document: Dict[str, Any]) -> str:
    """Writes a captured model to a path that is the same on all ranks, on each host."""
    folder = common_folder()
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "own.model.json")
    if local_rank() == 0:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file)
    _here().runtime.gathered(0)
    return path


def save(folder: "os.PathLike[str] | str", model: DistributedModel, extra: Any = None, keep: int = 2) -> None:
    """Begins to save the run's state in `folder`, while training goes on. The newest `keep` remain.

    Parameters and optimizer states are saved by all ranks, and are loaded under other degrees too. Buffers that
    the forward writes and `extra` (what `torch.save` takes, such as a scheduler's or sampler's state, the same on
    all ranks) are saved beside them. Every rank calls it.
    """
    world = _here()
    if model.info is None:
        raise RuntimeError("save: there is nothing to save before the first step")
    model._share_buffers()
    record = model.optimizer_record()
    if world.rank == 0:
        save_beside(os.fspath(folder), model._steps, model.written_buffers(), extra, record)
    world.runtime.save(os.fspath(folder), keep)
    world.saved_in = (os.fspath(folder), keep)


def resume(folder: "os.PathLike[str] | str", model: DistributedModel) -> int:
    """Goes on from the newest checkpoint in `folder`, saved under whatever degrees. Returns its step, or 0.

    What was saved as `extra` is `model.extra` then. Called before the first step, the state is loaded there, or by
    `model.prepare(batch)`.
    """
    if handed_over.is_capturing():
        return 0   # a run that is complete would have no step left to capture
    if model.info is None:
        model._resume, step = os.fspath(folder), saved_step(os.fspath(folder))
        model.extra = load_beside(os.fspath(folder), step)[1] if step else None
        return step
    model._load(os.fspath(folder))
    return model._steps


def export(path: "os.PathLike[str] | str", model: DistributedModel) -> None:
    """Writes the weights so that others read them. Every rank calls it; rank 0 writes.

    A path that ends with .safetensors becomes a file of that format, another one a folder of
    torch.distributed.checkpoint. Both have the module's own names.
    """
    weights = model.state_dict()
    if _here().rank == 0:
        write_weights(os.fspath(path), weights)
    barrier()


def load_weights(path: "os.PathLike[str] | str", module: torch.nn.Module) -> None:
    """Loads what `export` wrote, or a .safetensors file of another tool, into a module before its first step."""
    module.load_state_dict(read_weights(os.fspath(path), module))


def state_dict(model: DistributedModel) -> Dict[str, torch.Tensor]:
    """Whole parameters by the module's own names, on rank 0. Every rank calls it."""
    return model.state_dict()


def step(function: Callable[..., Any]) -> DistributedModel:
    """A decorator: a function of a batch that returns the loss becomes a DistributedModel."""
    return DistributedModel(function)


# ---------------------------------------------------------------------------------------------
# Functions for scripts that run under `meshwright launch`.


def stop_requested() -> bool:
    """Whether `meshwright launch` was asked to stop (Ctrl-C, SIGTERM) during an earlier step; equal on all ranks.

    A script that asks saves and ends by itself. One that never asks is ended after the step, and saved where it
    has called `save` before.
    """
    _here().asks_to_stop = True
    return _here().stopping


def _stop_if_asked(world: _World) -> None:
    world.stopping = any(world.runtime.gathered(int(handed_over.request_came())))
    if world.stopping and not world.asks_to_stop:
        if world.saved_in is not None:
            world.runtime.save(*world.saved_in)
        raise handed_over.Stopped(0)


def is_stopping() -> bool:
    """Whether the ranks have agreed to stop."""
    return _world is not None and _world.stopping


def steps_done() -> Optional[int]:
    """The number of the latest step, or None where no step was trained."""
    model = _world.model if _world is not None else None
    return model._steps if model is not None and model.info is not None else None


def finish_saving() -> bool:
    """Waits for checkpoints in flight; returns whether they are complete. Every rank calls it."""
    return _world is None or bool(_world.runtime.finish_saving())


def job() -> Job:
    """The job, as far as it is known here."""
    return _here().job


def broadcast(values: torch.Tensor) -> None:
    """Rank 0's values, on all ranks: a contiguous tensor of host memory. Every rank calls it."""
    if values.numel():
        _here().runtime.broadcast(values.data_ptr(), values.numel() * values.element_size(), 0)


def abandon(code: int) -> None:
    """Ends this process, and the ranks that wait for it."""
    if _world is not None:
        _world.runtime.abandon(code)
