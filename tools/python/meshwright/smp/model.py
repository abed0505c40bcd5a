"""`DistributedModel`: the module that step functions call, which the plan divides at the first step."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch

import meshwright.torch as mw

from .messages import allgather
from .outputs import Arguments
from .refusals import Refused
from .step import Run, Step, Traced, microbatches, warn_of_changes
from .world import CommGroup, here

__all__ = ["DistributedModel"]

_NO_EFFECT = ("trace_device", "trace_execution_times", "trace_memory_usage", "bucket_cap_mb", "broadcast_buffers",
              "gradient_as_bucket_view", "find_unused_parameters")


class DistributedModel:
    """Wraps the only model of a script. What it does not say itself, the module answers.

    trace_device, trace_execution_times and trace_memory_usage have no effect, because capturing computes nothing;
    nor have bucket_cap_mb, gradient_as_bucket_view and find_unused_parameters, which the plan settles, and
    broadcast_buffers: rank 0's buffers are those of the start.
    """

    def __init__(self, module: torch.nn.Module, trace_device: str = "gpu", overlapping_allreduce: bool = True,
                 backward_passes_per_step: int = 1, average_grads_across_microbatches: bool = True,
                 **options: Any) -> None:
        world = here()
        if world.model is not None:
            raise Refused("smp.DistributedModel: a script has one model; call smp.close() before another")
        if backward_passes_per_step != 1:
            raise Refused("smp.DistributedModel: backward_passes_per_step {0}: each call of a step updates; give "
                          "{0} times the microbatches, and one step the batch of {0}".format(backward_passes_per_step))
        unknown = [each for each in options if each not in _NO_EFFECT]
        if unknown:
            raise TypeError("smp.DistributedModel has no argument {}".format(unknown[0]))
        for key, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
            if world.parameters.get(key):
                module.to(dtype)
        self.module, self._hooks = module, []
        self.losses: List[torch.Tensor] = []   # given to backward by the step function that runs
        self._overlaps, self._averages = overlapping_allreduce, average_grads_across_microbatches
        self._run: Optional[Run] = None
        self._step: Optional[Step] = None
        self._plain: Dict[str, Any] = {}
        self._file: Optional[str] = None   # file of the stages of modules, until the plan is made
        self.resumes: Optional[str] = None
        world.model = self

    # -- a step

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        world = here()
        if not world.tracing and self.module.training and torch.is_grad_enabled():
            raise Refused("smp.DistributedModel: called outside of a step function while it trains; call it in a "
                          "function decorated by smp.step")
        if not world.tracing and self._run is not None and not self._is_whole:
            raise Refused("smp.DistributedModel: called outside of a step function, where this rank has its part of "
                          "the model only; call it in a function decorated by smp.step")
        return self.module(*args, **kwargs)

    def backward(self, loss: torch.Tensor) -> None:
        """In a step function: the loss of the micro-batch."""
        self.losses.append(loss)

    def train_step(self, step: Step, arguments: Arguments) -> Any:
        """Trains a step; what the step function returned. `smp.step` calls it."""
        world = here()
        count = microbatches(arguments)
        if world.optimizer is None:
            raise RuntimeError("smp.step: make a smp.DistributedOptimizer before the first training step")
        if self._run is None:
            self._step, self._plain = step, arguments.plain()
            factor = 1 if self._averages else count
            self._run = Run(self.module, Traced(step, arguments, count, factor), self._complete)
        elif self._step is not step:
            raise Refused("smp.step: {} trains, and {} did before; a plan is made for one training step".format(
                step.function.__name__, self._step.function.__name__ if self._step else ""))
        warn_of_changes(self._plain, arguments.plain())
        world.optimizer.begin_step()
        first = self._run.info is None
        if first and self.resumes is not None:
            self._run._resume = self.resumes
        self._run.step(arguments.micro_batches(count))
        if first:
            if self._file is not None:
                os.remove(self._file)
            for hook in self._hooks:
                hook(self, world.optimizer)
        return self._run.returned()

    def _complete(self, job: Dict[str, Any]) -> None:
        """Puts the dictionary of `init` and what the script has asked for into the job."""
        world = here()
        if world.checkpointed:
            job["training"].setdefault("recompute", "full")
        if "parallelism" in world.job:
            return
        parameters = dict(world.parameters)
        if not self._overlaps:
            parameters["overlapping_allreduce"] = False
        if world.pipeline > 1 and not parameters.get("auto_partition", True) and "partition_file" not in parameters:
            parameters["partition_file"] = self._partition_file()
        launcher = "torch_distributed"
        if world.version == 1:
            launcher = "mpi"
            if world.data > 1:
                parameters["ddp"] = True
            # An empty dictionary of parameters would turn the library off.
            parameters.setdefault("pipeline_parallel_degree", world.pipeline)
        else:
            parameters.setdefault("hybrid_shard_degree", 0)
        job["distribution"] = {"smdistributed": {"modelparallel": {"enabled": True, "parameters": parameters}},
                               launcher: {"enabled": True}}
        del job["parallelism"]

    def _partition_file(self) -> str:
        """The stages that the script has given modules, as a file of this host."""
        world = here()
        stage_of = {name: world.stages[id(each)][1] for name, each in self.module.named_modules()
                    if id(each) in world.stages}
        file, path = tempfile.mkstemp(suffix=".json", prefix="meshwright-")
        with os.fdopen(file, "w", encoding="utf-8") as written:
            json.dump(stage_of, written)
        self._file = path
        return path

    # -- the whole model on each rank

    @property
    def _is_whole(self) -> bool:
        return self._run is None or self._run.info is None or self._run.is_whole

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """While it lasts, the module of each rank has the values of the latest step. Every rank calls it."""
        if self._run is not None:
            self._run.whole()
        yield

    def _addresses(self) -> Dict[str, int]:
        """By name, of this rank's parameters; 0 where it has a part only."""
        assert self._run is not None and self._run.info is not None
        return {each["name"]: each["address"] for each in self._run.info["parameters"]}

    # -- state

    @property
    def partitioned(self) -> bool:
        """Whether the plan is made, which the first training step does."""
        return self._run is not None and self._run.info is not None

    def state_dict(self, *args: Any, gather_to_rank0: bool = False, **kwargs: Any) -> Dict[str, Any]:
        """The whole model by the module's own names, or with `gather_to_rank0` {} on other ranks. All ranks call it."""
        with self.whole():
            found = {name: value.detach().clone() for name, value in self.module.state_dict().items()}
        return found if not gather_to_rank0 or mw.rank() == 0 else {}

    def local_state_dict(self, *args: Any, **kwargs: Any) -> Dict[str, Any]:
        """This rank's stage of the model. One rank may call it without the others."""
        if self.partitioned and 0 in self._addresses().values():
            raise Refused("smp.DistributedModel.local_state_dict: parameters are sharded over ranks; use "
                          "smp.save_checkpoint, which every rank calls")
        local = {name for name, _ in self.local_named_parameters()} | {
            name for name, _ in self.module.named_buffers(remove_duplicate=False)}
        found: Dict[str, Any] = {name: value.detach().clone() for name, value in self.module.state_dict().items()
                                 if name in local}
        found["_smp_is_partial"] = True
        return found

    def load_state_dict(self, state_dict: Dict[str, Any], strict: bool = True, same_partition_load: bool = False) -> None:
        """Sets the model, of whole or partial state. Every rank calls it."""
        state = dict(state_dict)
        if state.pop("_smp_is_partial", False):
            parts = allgather(state, CommGroup.PP_GROUP)
            state = {name: value for part in parts for name, value in part.items() if name != "_smp_is_partial"}
        with self.whole():
            self.module.load_state_dict(state, strict=strict)
        if self.partitioned:
            assert self._run is not None
            self._run._hand_over()

    def resume(self, folder: str) -> None:
        """Goes on from a run's checkpoint, now or when the first step makes the plan."""
        if self.partitioned:
            assert self._run is not None
            mw.resume(folder, self._run)
        else:
            self.resumes = folder

    def cpu(self) -> "DistributedModel":
        """The model: its parameters stay where the run has them."""
        return self

    def to(self, *args: Any, **kwargs: Any) -> "DistributedModel":
        """The model: the run puts parameters on this rank's device."""
        return self

    cuda = to

    def close(self) -> None:
        """Ends the run. Every rank calls it."""
        if self._run is not None and self._run.info is not None:
            self._run.close()
        here().model = here().optimizer = None

    # -- the module

    def get_module(self) -> torch.nn.Module:
        """The module that was wrapped."""
        return self.module

    def __getattr__(self, name: str) -> Any:
        if name == "module":
            raise AttributeError(name)
        return getattr(self.module, name)

    def train(self, mode: bool = True) -> "DistributedModel":
        self.module.train(mode)
        return self

    def eval(self) -> "DistributedModel":
        return self.train(False)

    def local_named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[Tuple[str, torch.nn.Parameter]]:
        """Parameters of this rank's stage; before the first step all."""
        local = self._local_names()
        return ((name, each) for name, each in self.module.named_parameters(remove_duplicate=False)
                if local is None or name in local)

    def _local_names(self) -> Optional[set]:
        if not self.partitioned:
            return None
        assert self._run is not None
        tied = {entry["name"]: entry.get("tied", []) for entry in self._run.captured.document["parameters"]}
        return {each for name in self._addresses() for each in [name] + tied.get(name, [])}

    def local_parameters(self, *args: Any, **kwargs: Any) -> Iterator[torch.nn.Parameter]:
        return (each for _, each in self.local_named_parameters())

    def local_named_modules(self, *args: Any, **kwargs: Any) -> Iterator[Tuple[str, torch.nn.Module]]:
        """Modules with a parameter on this rank's stage, and those without parameters."""
        local = self._local_names()
        for name, module in self.module.named_modules():
            own = [(name + "." if name else "") + each for each, _ in module.named_parameters(remove_duplicate=False)]
            if local is None or not own or any(each in local for each in own):
                yield name, module

    def local_modules(self, *args: Any, **kwargs: Any) -> Iterator[torch.nn.Module]:
        return (each for _, each in self.local_named_modules())

    def local_named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[Tuple[str, torch.Tensor]]:
        """Buffers of the modules of local_named_modules."""
        for name, module in self.local_named_modules():
            for each, buffer in module.named_buffers(recurse=False):
                yield (name + "." if name else "") + each, buffer

    def local_buffers(self, *args: Any, **kwargs: Any) -> Iterator[torch.Tensor]:
        return (each for _, each in self.local_named_buffers())

    def default_reducer_named_parameters(self) -> Iterator[Tuple[str, torch.nn.Parameter]]:
        """Parameters whose gradients are summed over replicas: those of this stage."""
        return self.local_named_parameters()

    def scaled_batch_reducer_named_parameters(self) -> Iterator[Tuple[str, torch.nn.Parameter]]:
        """Parameters of modules that tensor parallelism divides: none."""
        return iter(())

    def distributed_modules(self) -> List[torch.nn.Module]:
        """Modules that tensor parallelism divides: none."""
        return []

    def is_distributed_parameter(self, parameter: torch.Tensor) -> bool:
        """Whether tensor parallelism divides it: no."""
        return False

    is_distributed_buffer = is_scaled_batch_parameter = is_scaled_batch_buffer = is_distributed_parameter

    def register_post_partition_hook(self, hook: Callable[..., Any]) -> None:
        """Calls hook(model, optimizer) after the first training step has made the plan."""
        self._hooks.append(hook)

    def register_comm_hook(self, state: Any, hook: Callable[..., Any]) -> None:
        raise Refused("smp.DistributedModel.register_comm_hook: the plan's communicators sum gradients, not "
                      "torch.distributed; set parallelism and training.gradient_reduce_precision of a job instead")

    def join(self, *args: Any, **kwargs: Any) -> Any:
        raise Refused("smp.DistributedModel.join: all replicas train the same number of steps; use drop_last=True and "
                      "a DistributedSampler")
