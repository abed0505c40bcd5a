"""`@smp.step`: a function of a batch that runs once for each micro-batch, forward and backward, by the plan.

The function is captured at its first call: it runs once without values, and the graph up to the loss given to
`model.backward` is what the plan's stages compute. What it returns is captured too, and reaches all ranks
of the replica from the stage that computes it. In evaluation it simply runs.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from typing import Any, Callable, Dict, Iterable, List, Optional

import torch

import meshwright.torch as mw
from meshwright.torch.capturing import CapturedModel, capture
from meshwright.torch.exporting import Ref

from .messages import shared
from .outputs import Arguments, StepOutput, leaves_of, of_micro_batches, put_together
from .refusals import Refused
from .world import here

__all__ = ["step"]


class Step:
    """A step function. It is no descriptor: as in the library, a method gets no `self`, unless it names it."""

    def __init__(self, function: Callable[..., Any], non_split_inputs: Iterable[str] = (),
                 input_split_axes: Optional[Dict[str, int]] = None, detach_outputs: bool = True) -> None:
        functools.update_wrapper(self, function)
        self.function, self.whole, self.axes = function, set(non_split_inputs or ()), dict(input_split_axes or {})

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        named = next(iter(inspect.signature(self.function).parameters), "") == "self"
        return functools.partial(self, owner) if named and owner is not None else self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        world = here()
        if world.model is None:
            raise RuntimeError("smp.step: make a smp.DistributedModel first")
        arguments = Arguments(self.function, args, kwargs, self.whole, self.axes)
        pipeline = world.groups["pp"]
        arguments.tensors = shared(arguments.tensors, pipeline.ranks[0], pipeline)
        if world.model.training and torch.is_grad_enabled():
            return world.model.train_step(self, arguments)
        return self._evaluated(arguments)

    def _evaluated(self, arguments: Arguments) -> Any:
        count = microbatches(arguments)
        world, results = here(), []
        with world.model.whole():
            for number, tensors in enumerate(arguments.micro_batches(count)):
                args, kwargs = arguments.of_micro_batch(number, count, tensors)
                results.append(self.function(*args, **kwargs))
        if world.model.losses:
            raise Refused("smp.step: model.backward in a step of a model in eval() or under no_grad(); call "
                          "model.train() before a training step")
        return of_micro_batches(results)


def step(function: Optional[Callable[..., Any]] = None, *, non_split_inputs: Iterable[str] = (),
         input_split_axes: Optional[Dict[str, int]] = None, detach_outputs: bool = True) -> Any:
    """Decorates a step function.

    Its tensors are cut along their first axis into `microbatches` parts: those of `non_split_inputs` not at all,
    those of `input_split_axes` along another. Tensors that it returns become StepOutputs, which are detached.
    """
    if not detach_outputs:
        raise Refused("smp.step: detach_outputs=False: the backward pass is over when the step returns; give the loss "
                      "to model.backward inside the step")
    if function is not None:
        return Step(function)
    return lambda function: Step(function, non_split_inputs, input_split_axes)


def microbatches(arguments: Arguments) -> int:
    """The micro-batches of a step, by the dictionary or by the job's micro_batch."""
    world = here()
    training = world.job.get("training", {})
    if "parallelism" not in world.job or "micro_batch" not in training:
        return int(world.parameters.get("microbatches", 1))
    for place in arguments.places:
        axis = arguments.axes[arguments.names[place]]
        if axis is not None:
            return max(1, arguments.leaves[place].shape[axis] // int(training["micro_batch"]))
    return 1


class Traced:
    """A step function as it is captured: from named tensors to the loss and what it returns."""

    def __init__(self, step: Step, arguments: Arguments, count: int, factor: float) -> None:
        self.step, self.arguments, self.count, self.factor = step, arguments, count, factor
        self.result: Any = None      # its structure, from the latest trace
        self.leaves: List[Any] = []  # a place among what was captured, or a plain value

    def __call__(self, tensors: Dict[str, torch.Tensor]) -> Any:
        world = here()
        args, kwargs = self.arguments.of_micro_batch(0, self.count, tensors)
        world.tracing = True
        try:
            self.result = self.step.function(*args, **kwargs)
        finally:
            world.tracing = False
        losses, world.model.losses = world.model.losses, []
        if len(losses) != 1:
            raise Refused("smp.step: {} calls model.backward {} times; a plan has one backward pass a step: add the "
                          "losses up and call it once (or model.eval() and torch.no_grad() where nothing is "
                          "trained)".format(self.step.function.__name__, len(losses)))
        kept: List[torch.Tensor] = []
        self.leaves = []
        for leaf in leaves_of(self.result):
            if isinstance(leaf, torch.Tensor):
                kept.append(leaf)
                leaf = _Kept(len(kept) - 1)
            self.leaves.append(leaf)
        self.result = put_together(self.result, iter(self.leaves))
        return (losses[0] * self.factor if self.factor != 1 else losses[0], *kept)


class _Kept(int):
    """A place among the tensors that a step returns."""


class Run(mw.DistributedModel):
    """The run of a captured step function."""

    def __init__(self, model: torch.nn.Module, traced: Traced, on_start: Callable[[Dict[str, Any]], None]) -> None:
        module = model   # the capture finds it in the function's closure, and calls parameters as it does

        def step(**tensors: torch.Tensor) -> Any:
            return traced(tensors) if module is not None else None

        step.__name__ = traced.step.function.__name__
        super().__init__(step, batch_axes=self._axes_of(traced.arguments))
        self.traced, self._on_start = traced, on_start

    @staticmethod
    def _axes_of(arguments: Arguments) -> Dict[str, Optional[int]]:
        """The axes of the samples. Where tensors have different numbers of them, a micro-batch is one sample."""
        sizes = {arguments.leaves[place].shape[arguments.axes[name]] for place, name in arguments.names.items()
                 if arguments.axes[name] is not None}
        return dict(arguments.axes) if len(sizes) == 1 else dict.fromkeys(arguments.axes)

    def _captured(self, batch: Any) -> CapturedModel:
        return capture(self.module, batch[0], batch_axes=self._axes, keeps=True,
                       device="cuda" if torch.cuda.is_available() else "cpu")

    def _job(self, captured: CapturedModel, batch: Any) -> Dict[str, Any]:
        job = super()._job(captured, batch)
        self._on_start(job)
        return job

    def returned(self) -> Any:
        """What the step function returned, of all micro-batches."""
        runner, info, world = self._runner, self.info, here()
        assert runner is not None and info is not None
        values = [each.value if isinstance(each, Ref) else each for each in self.captured.program.outputs]
        columns: List[Any] = [values[each] if isinstance(each, _Kept) else None for each in self.traced.leaves]
        pipeline, tables = world.groups["pp"], runner.tables
        found: Dict[int, List[torch.Tensor]] = {}
        for stage in range(pipeline.size):
            own = sorted(value for value, segment in tables.maker_of_outputs.items()
                         if runner.stage_of[segment][0] == stage)
            if not own:
                continue
            tensors = [micro[value] for micro in runner.returned for value in own] if stage == info["stage"] else []
            tensors = shared(tensors, pipeline.ranks[stage], pipeline)
            for place, value in enumerate(own):
                found[value] = tensors[place::len(own)]
        leaves = []
        for leaf, value in zip(self.traced.leaves, columns):
            if not isinstance(leaf, _Kept):
                leaves.append([leaf] * info["micro_batches"])
            elif value in found:
                leaves.append(StepOutput(found[value]))
            else:
                raise Refused("smp.step: the step returns a tensor that is a constant of the capture")
        return put_together(self.traced.result, iter(leaves))


def warn_of_changes(before: Dict[str, Any], now: Dict[str, Any]) -> None:
    """The captured graph keeps the numbers and words of the first call."""
    for name, value in now.items():
        if name in before and before[name] != value and mw.rank() == 0:
            warnings.warn("smp.step: {} was {!r} when the step was captured and is {!r} now; the captured step keeps "
                          "the first; give what changes the result as a tensor".format(name, before[name], value),
                          stacklevel=4)
            before.pop(name)
