"""Runs a captured program call by call without data, forward and backward, and records it.

Nothing is computed and nothing is allocated: meta and fake tensors have shapes, types and autograd only. So a
model of any size is replayed on any machine, at several numbers of samples.
"""

from __future__ import annotations

import bisect
import contextlib
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from . import kernels
from .errors import CaptureError, explained
from .exporting import Call, Program, Ref
from .on_gpu import Autocast, on_gpu, stand_ins
from .recording import BACKWARD, Recorder

__all__ = ["Decided", "Given", "Trace", "decide", "filled", "replay", "values_in"]


def values_in(value: Any) -> Iterator[int]:
    """Numbers of the values that arguments refer to."""
    if isinstance(value, Ref):
        yield value.value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from values_in(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from values_in(each)
    elif isinstance(value, slice):
        yield from values_in([value.start, value.stop, value.step])


def filled(value: Any, environment: Dict[int, Any], device: Optional[torch.device]) -> Any:
    """Arguments with the values that they refer to; devices are replaced."""
    if isinstance(value, Ref):
        return environment[value.value]
    if isinstance(value, torch.device):
        return value if device is None else device
    if isinstance(value, (list, tuple)):
        return [filled(each, environment, device) for each in value]
    if isinstance(value, slice):
        return slice(*(filled(each, environment, device) for each in (value.start, value.stop, value.step)))
    if isinstance(value, dict):
        return {name: filled(each, environment, device) for name, each in value.items()}
    return value


def _last_uses(calls: Sequence[Call], keep: int) -> List[List[int]]:
    """By call: the values that no later call takes."""
    last: Dict[int, int] = {}
    for place, call in enumerate(calls):
        last[call.result] = place
        for value in values_in((call.args, call.kwargs)):
            last[value] = place
    last.pop(keep, None)
    dropped: List[List[int]] = [[] for _ in calls]
    for value, place in last.items():
        dropped[place].append(value)
    return dropped


_NOTHING = {"_assert_async", "_assert_scalar", "_assert_tensor_metadata", "sym_constrain_range",
            "sym_constrain_range_for_size"}


def _does_nothing(call: Call) -> bool:
    return getattr(getattr(call.target, "_schema", None), "name", "").split("::")[-1] in _NOTHING


def _written(target: Any, args: Sequence[Any], kwargs: Dict[str, Any]) -> List[torch.Tensor]:
    """Tensors that a call writes in place. Norms in training write running statistics, which their schema hides."""
    if target._schema.is_mutable:
        return list(kernels.written_by(target, args, kwargs))
    if target._schema.name in ("aten::batch_norm", "aten::instance_norm"):   # (x, weight, bias, mean, variance, training)
        given = list(args) + [None] * 6
        return [each for each in given[3:5] if isinstance(each, torch.Tensor) and given[5]]
    return []


def _is_whole_slice(target: Any, args: Sequence[Any], kwargs: Dict[str, Any]) -> bool:
    """Whether a slice takes all. Python's indexing then does nothing, but an exported graph has a call."""
    if target is not torch.ops.aten.slice.Tensor or kwargs:
        return False
    x, axis, start, end, step = list(args) + [0, None, None, 1][len(args) - 1:]
    return step == 1 and start in (None, 0) and (end is None or end >= x.shape[axis])


# ---------------------------------------------------------------------------------------------
# Results whose shapes depend on data.


class Decided(NamedTuple):
    """What a call whose result's shape depends on data gave: shapes of tensors, or a number.

    `elements` is the size of what it looked at, by which its result is scaled to other batches.
    """

    shapes: Tuple[Tuple[int, ...], ...]
    number: Any
    elements: int


def _masks(call: Call, args: Sequence[Any]) -> List[int]:
    """Places in the list of indices of `index` and `index_put` that hold a mask instead of places."""
    name = getattr(getattr(call.target, "_schema", None), "name", "").split("::")[-1]
    if name.rstrip("_") not in ("index", "index_put") or len(args) < 2 or not isinstance(args[1], list):
        return []
    return [place for place, each in enumerate(args[1])
            if isinstance(each, torch.Tensor) and each.dtype in (torch.bool, torch.uint8)]


def decides(call: Call) -> bool:
    name = getattr(getattr(call.target, "_schema", None), "name", "").split("::")[-1]
    return call.decides or name.rstrip("_") == "index_put"


def decide(program: Program, given: Dict[int, torch.Tensor]) -> Dict[int, Decided]:
    """Runs what is needed of a program on the real example to learn the shapes that data decide.

    `given` has the tensors of the sources. Returns what each deciding call gave, by its place. Where
    there are no real values (meta or fake tensors), the result is empty and `replay` takes bounds.
    """
    wanted = {place for place, call in enumerate(program.calls) if call.decides}
    masks = {place for place, call in enumerate(program.calls) if decides(call) and _may_have_mask(program, call)}
    wanted |= masks
    if not wanted or any(_is_hollow(each) for each in given.values()):
        return {}
    maker = {call.result: place for place, call in enumerate(program.calls)}
    writers: Dict[int, List[int]] = {}
    for place, call in enumerate(program.calls):
        if getattr(call.target, "_schema", None) is not None and call.target._schema.is_mutable:
            for value in values_in((call.args, call.kwargs)):
                writers.setdefault(value, []).append(place)
    needed: Set[int] = set()
    left = list(wanted)
    while left:
        place = left.pop()
        if place in needed:
            continue
        needed.add(place)
        call = program.calls[place]
        for value in values_in((call.args, call.kwargs)):
            if value in maker:
                left.append(maker[value])
            left += [each for each in writers.get(value, []) if each < place]
        left += [each for each in writers.get(call.result, [])]
    written = {value for place in needed if getattr(program.calls[place].target, "_schema", None) is not None
               and program.calls[place].target._schema.is_mutable
               for value in values_in((program.calls[place].args, program.calls[place].kwargs))}
    environment: Dict[int, Any] = {value: each.detach().clone() if value in written else each.detach()
                                   for value, each in given.items()}
    calls = [program.calls[place] for place in sorted(needed)]
    dropped = _last_uses(calls, -1)
    found: Dict[int, Decided] = {}
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        for place, call, unused in zip(sorted(needed), calls, dropped):
            args, kwargs = filled(call.args, environment, None), filled(call.kwargs, environment, None)
            try:
                out = call.target(*args, **kwargs)
            except Exception as error:
                raise explained(error, "running the example up to {}".format(call.target)) from error
            environment[call.result] = out
            if place in wanted:
                elements = next((each.numel() for each in kernels.tensors_in(args)), 1)
                marked = _masks(call, args)
                if marked:
                    found[place] = Decided(tuple((int(args[1][mask].sum()),) for mask in marked), None, elements)
                elif not call.decides:
                    pass
                elif isinstance(out, (int, float, bool)):
                    found[place] = Decided((), out, elements)
                else:
                    found[place] = Decided(tuple(tuple(each.shape) for each in kernels.tensors_in(out)), None, elements)
            for value in unused:
                environment.pop(value, None)
    return found


def _may_have_mask(program: Program, call: Call) -> bool:
    made = {each.result: each.sizes for each in program.calls}
    return any(getattr(made.get(value), "dtype", None) in (torch.bool, torch.uint8)
               for value in values_in(call.args[1] if len(call.args) > 1 else ()))


def _is_hollow(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "meta" or isinstance(tensor, FakeTensor)


class _Substitute:
    """The results of calls that meta tensors cannot run, because data decide their shapes."""

    def __init__(self, decided: Dict[int, Decided]) -> None:
        self.decided = decided

    def _rows(self, place: int, which: int, elements: int, bound: int) -> int:
        known = self.decided.get(place)
        if known is None:
            return bound
        rows = known.shapes[which][0]
        return rows if elements == known.elements else round(rows * elements / max(known.elements, 1))

    def run(self, place: int, call: Call, args: List[Any], kwargs: Dict[str, Any], recorder: Recorder) -> Any:
        name = call.target._schema.name.split("::")[-1] if hasattr(call.target, "_schema") else ""
        marked = _masks(call, args)
        elements = next((each.numel() for each in kernels.tensors_in(args)), 1)
        if marked:
            indices: List[Any] = []
            for at, each in enumerate(args[1]):
                if at in marked:
                    rows = self._rows(place, marked.index(at), elements, each.numel())
                    found = self._new((rows, each.dim()), each, torch.int64)
                    recorder.note(torch.ops.aten.nonzero.default, [each], {}, found)
                    indices += list(found.unbind(1))
                else:
                    indices.append(each)
            return call.target(args[0], indices, *args[2:], **kwargs)
        if not call.decides:
            return call.target(*args, **kwargs)
        known = self.decided.get(place)
        if name in ("item", "_local_scalar_dense"):
            recorder.note(torch.ops.aten._local_scalar_dense.default, args[:1], {}, None)
            if known is None:
                raise CaptureError("{}: the value of a tensor is read in Python, and the example has no values; "
                                   "build the module and the example on a real device".format(call.place))
            return known.number
        x = args[0]
        if name == "nonzero" or (name == "where" and len(args) == 1):
            rows = self._rows(place, 0, elements, x.numel())
            found = self._new((rows, x.dim()), x, torch.int64)
            recorder.note(torch.ops.aten.nonzero.default, [x], {}, found)
            return found if name == "nonzero" else list(found.unbind(1))
        if name == "masked_select":
            rows = self._rows(place, 0, elements, x.numel())
            places = self._new((rows,), x, torch.int64)
            recorder.note(torch.ops.aten.nonzero.default, [args[1]], {}, places)
            return x.expand(torch.broadcast_shapes(x.shape, args[1].shape)).reshape(-1)[places]
        if name == "repeat_interleave" and known is not None:
            rows = self._rows(place, 0, elements, 0)
            if call.target._schema.arguments[0].name == "repeats":
                found = self._new((rows,), x, torch.int64)
                recorder.note(torch.ops.aten.repeat_interleave.Tensor, [x], {}, found)
                return found
        if known is None:
            raise CaptureError("{}: data decide the shape of {}, and the example has no values; build the module "
                               "and the example on a real device".format(call.place, call.target))
        # The results of all other operations have no gradients and the shapes that the example gives.
        sizes = [each for each in kernels.tensors_in(call.sizes if isinstance(call.sizes, (list, tuple))
                                                     else [call.sizes])]
        results = [self._new(shape, x, each.dtype) for shape, each in zip(known.shapes, sizes)]
        recorder.note(call.target, args, kwargs, results)
        return results if isinstance(call.sizes, (list, tuple)) else results[0]

    @staticmethod
    def _new(shape: Sequence[int], like: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(tuple(shape), dtype=dtype, device=like.device)


# ---------------------------------------------------------------------------------------------
# The replay of an exported program.


class Given(NamedTuple):
    """Shape, strides and type of a source, and whether it is trained."""

    shape: Tuple[int, ...]
    stride: Tuple[int, ...]
    dtype: torch.dtype
    trained: bool


class Trace(NamedTuple):
    """What one step did. Storages have numbers; those of sources are the first ones."""

    recorder: Recorder
    sources: Dict[int, int]                  # storage of a source -> its value
    uses: List[Tuple[int, ...]]              # by call: storages that it takes
    makes: List[Tuple[int, ...]]             # by call: storages that its result is stored in
    # By call: (storage, shape, type, bytes, strides) of each tensor of its result
    shapes: List[Tuple[Tuple[int, Tuple[int, ...], torch.dtype, int, Tuple[int, ...]], ...]]
    writes: Dict[int, List[int]]             # calls that write a storage
    saved: Dict[int, Set[int]]               # storage -> calls whose gradients read it
    kept: Set[int]                           # storages that are alive after the forward pass
    with_gradient: Set[int]                  # storages through which a gradient flows
    ends: Set[int]                           # storages that are alive after the step: gradients of parameters
    loss: int


def _strides(shape: Sequence[int], like: Given) -> Tuple[int, ...]:
    """Strides of the same order of axes for another shape; an axis that repeats one element stays so."""
    strides = [0] * len(shape)
    step = 1
    for axis in sorted(range(len(shape)), key=lambda at: (like.stride[at], like.shape[at], -at)):
        if like.stride[axis] == 0 and like.shape[axis] > 1:
            continue
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def replay(program: Program, given: Dict[int, Given], axes: Dict[int, int], samples: Optional[int],
           decided: Dict[int, Decided], device: str) -> Trace:
    """One step of a program with `samples` samples (None: those of the example).

    `given` describes the sources, `axes` the axis of the batch of inputs by value. `device` is "cuda",
    which takes the kernels that CUDA takes, on meta tensors; or "cpu", on fake tensors of the CPU.
    """
    with contextlib.ExitStack() as stack:
        if device == "cpu":
            stack.enter_context(FakeTensorMode())
        return _replayed(program, given, axes, samples, decided, device)


def _replayed(program: Program, given: Dict[int, Given], axes: Dict[int, int], samples: Optional[int],
              decided: Dict[int, Decided], device: str) -> Trace:
    recorder = Recorder()
    environment: Dict[int, Any] = {}
    place_of_all = torch.device("meta" if device == "cuda" else "cpu")
    sources: Dict[int, int] = {}
    for source in program.sources:
        kind = given[source.value]
        shape = tuple(samples if samples is not None and axes.get(source.value) == axis else size
                      for axis, size in enumerate(kind.shape))
        tensor = torch.empty_strided(shape, _strides(shape, kind) if shape != kind.shape else kind.stride,
                                     dtype=kind.dtype, device=place_of_all, requires_grad=kind.trained)
        environment[source.value] = tensor
        sources[recorder.storage(tensor)] = source.value
    given_storages = set(sources)
    keep = [environment[source.value] for source in program.sources]
    dropped = _last_uses(program.calls, program.loss)
    ends: List[int] = []
    uses: List[Tuple[int, ...]] = []
    makes: List[Tuple[int, ...]] = []
    shapes: List[Any] = []
    writes: Dict[int, List[int]] = {}
    saved: Dict[int, Set[int]] = {}
    with_gradient: Set[int] = set()
    substitute = _Substitute(decided)
    autocast = Autocast()
    current = [0]

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        saved.setdefault(recorder.storage(tensor), set()).add(current[0])
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), recorder:
        for place, call in enumerate(program.calls):
            recorder.call = current[0] = place
            if _does_nothing(call):
                environment[call.result] = None
                ends.append(torch.autograd._get_sequence_nr())
                uses.append(())
                makes.append(())
                shapes.append(())
                for value in dropped[place]:
                    environment.pop(value, None)
                continue
            args = filled(call.args, environment, place_of_all)
            kwargs = filled(call.kwargs, environment, place_of_all)
            taken = [each for each in kernels.tensors_in((args, kwargs))]
            try:
                with torch.set_grad_enabled(call.context.gradients):
                    if call.context.autocast is not None:
                        args, kwargs = autocast(call.target, call.context.autocast, args, kwargs)
                    special = (on_gpu.get(call.target) if device == "cuda" else None) or stand_ins.get(str(call.target))
                    if _is_whole_slice(call.target, args, kwargs):
                        out = args[0]
                    elif decides(call):
                        out = substitute.run(place, call, args, kwargs, recorder)
                    else:
                        out = (special or call.target)(*args, **kwargs)
            except CaptureError:
                raise
            except Exception as error:
                where = call.place
                text = " ".join(str(error).split())[:200]
                raise CaptureError("{}{} cannot be traced without data ({}: {})".format(
                    where + ": " if where else "", call.target, type(error).__name__, text)) from error
            environment[call.result] = out
            ends.append(torch.autograd._get_sequence_nr())
            found = list(kernels.tensors_in(out))
            numbers = [recorder.storage(each) for each in found]
            uses.append(tuple(dict.fromkeys(recorder.storage(each) for each in taken)))
            makes.append(tuple(dict.fromkeys(numbers)))
            shapes.append(tuple((number, tuple(each.shape), each.dtype, kernels.bytes_of(each), each.stride())
                                for number, each in zip(numbers, found)))
            with_gradient.update(number for number, each in zip(numbers, found) if each.requires_grad)
            if hasattr(call.target, "_schema"):
                for each in _written(call.target, args, kwargs):
                    writes.setdefault(recorder.storage(each), []).append(place)
            del args, kwargs, taken, out, found
            for value in dropped[place]:
                environment.pop(value, None)
        autocast._casts.clear()
        loss = environment[program.loss]
        loss_storage = recorder.storage(loss)
        kept = {number for number in range(len(recorder.sizes)) if recorder.is_alive(number)}
        if not loss.requires_grad:
            raise CaptureError("the loss depends on no trained parameter: no gradient flows to one")
        recorder.phase = BACKWARD

        def call_of(number: int) -> Optional[int]:
            place = bisect.bisect_right(ends, number)
            return place if place < len(ends) else None

        recorder.call = len(program.calls) - 1
        recorder.call_of = call_of
        try:
            loss.sum().backward() if loss.dim() else loss.backward()
        except Exception as error:
            raise explained(error, "tracing the backward pass") from error
        recorder.call_of = None
    del environment, loss
    ends = {number for number in range(len(recorder.sizes)) if recorder.is_alive(number)} - given_storages
    del keep
    return Trace(recorder, {number: sources[number] for number in given_storages}, uses, makes, shapes, writes, saved,
                 kept, with_gradient, ends, loss_storage)
