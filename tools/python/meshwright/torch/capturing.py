"""`capture`: from a module or a step function to a captured model."""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch

from . import document as documents
from .account import Account, same_course
from .dividing import Divided, divided
from .document import PRECISIONS, Pairs, dtype_name
from .errors import CaptureError
from .exporting import Program, Step, batch_of, exported, flat_program
from .replay import Decided, Given, Trace, decide, replay
from .segments import Division, divide

__all__ = ["CapturedModel", "capture"]



class _Exported(NamedTuple):
    """What a capture needs once the module is exported."""

    step: Step
    program: Program
    given: Dict[int, Given]
    decided: Dict[int, Decided]
    samples: int
    axes: Dict[str, int]
    reason: str
    name: str
    source: str
    device: str
    divided: Optional[Divided] = None   # of one rank of a tensor group


class CapturedModel:
    """A model that was captured: `document` is what `save` writes as own.model.json.

    `is_steep` says that some numbers of it grow faster than the samples, so they hold at the example's number only.
    `indices` gives the index of each source in the document, by its value, and `generators` the tensors that are
    states of the random generator.
    """

    def __init__(self, document: Dict[str, Any], exported: "_Exported", trace: Trace, division: Division,
                 is_steep: bool, indices: Dict[str, Dict[int, int]], generators: List[int]) -> None:
        self.document, self.is_steep = document, is_steep
        self.program, self.trace, self.division = exported.program, trace, division
        self.indices, self.generators = indices, generators
        self._exported = exported

    @property
    def step(self) -> Step:
        """The user's module or function, as it was captured."""
        return self._exported.step

    def trace_at(self, samples: int) -> Trace:
        """A trace with another number of samples, where the model allows it."""
        known = self._exported
        values = {each.name: each.value for each in known.program.sources if each.kind == "input"}
        axes = {values[each]: axis for each, axis in known.axes.items() if each in values}
        return replay(known.program, known.given, axes, None if known.samples == samples else samples, known.decided,
                      known.device)

    @property
    def axes(self) -> Dict[str, int]:
        """The axis of the samples, by name of the input."""
        return self._exported.axes

    def on(self, device: str) -> "CapturedModel":
        """The same model with the kernels of another kind of device ("cuda", "cpu"); it is not exported again."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _captured(self._exported._replace(device=device))

    def on_tensor_ranks(self, degree: int, by_sequence: bool = False) -> "CapturedModel":
        """What one of `degree` ranks of a tensor group runs; `by_sequence`: with sequence parallelism.

        Raises CaptureError where no linear layer can be cut, or the step cannot be divided at its exchanges.
        """
        known = self._exported
        trained = {value for value, each in known.given.items() if each.trained}
        shapes = {value: each.shape for value, each in known.given.items()}
        found = divided(known.program, degree, self.indices["parameter"], trained, shapes, by_sequence)
        if not found.cuts:
            reasons = ["{}: {}".format(kind.split(" ")[0] or "the step", reason) for kind, reason in found.whole.items()]
            raise CaptureError("tensor parallelism: no linear layer can be cut in {}{}".format(
                degree, " ({})".format("; ".join(reasons[:3])) if reasons else ""))
        given = dict(known.given)
        for value, cut in found.cuts.items():
            shape = tuple(size // degree if axis == cut.axis else size for axis, size in enumerate(given[value].shape))
            given[value] = given[value]._replace(shape=shape, stride=torch.empty(shape, device="meta").stride())
        place = {call.result: number for number, call in enumerate(found.program.calls)}
        decided = {place[known.program.calls[number].result]: each for number, each in known.decided.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _captured(known._replace(program=found.program, given=given, decided=decided, divided=found))

    def add_tensor_degrees(self, degrees: Sequence[int]) -> Dict[str, str]:
        """Adds to the document what ranks of tensor groups run; returns why some layers stay whole, by their kind."""
        entries: List[Dict[str, Any]] = []
        whole: Dict[str, str] = {}
        for degree in degrees:
            for by_sequence in (False, True):
                try:
                    rank = self.on_tensor_ranks(degree, by_sequence)
                except CaptureError as error:
                    whole["tensor {}{}".format(degree, " with sequence parallelism" if by_sequence else "")] = str(error)
                    continue
                entries.append(rank.as_entry(degree, by_sequence))
                whole.update(rank._exported.divided.whole)  # type: ignore[union-attr]
        if entries:
            self.document["tensor_parallel"] = entries
        return whole

    @property
    def cuts(self) -> List[Dict[str, Any]]:
        """Of one rank of a tensor group: how its parameters are cut, as the document says it."""
        found, number = self._exported.divided, self.indices["parameter"]
        cuts = {} if found is None else {
            number[value]: {"parameter": number[value], "axis": cut.axis, "parts": list(cut.parts)}
            for value, cut in found.cuts.items()}
        return [cuts[each] for each in sorted(cuts)]

    def as_entry(self, degree: int, by_sequence: bool) -> Dict[str, Any]:
        """The entry of the list `tensor_parallel` for these ranks."""
        found, number = self._exported.divided, self.indices["parameter"]
        assert found is not None
        entry: Dict[str, Any] = {"degree": degree, "sequence_parallel": by_sequence,
                                 "cuts": self.cuts,
                                 "summed": sorted({number[value] for value in found.summed})}
        return dict(entry, **{key: self.document[key] for key in ("tensors", "loss", "segments", "kinds")})

    def save(self, path: Any) -> None:
        """Writes the document to a file. Nothing is left at `path` if that fails."""
        text = json.dumps(self.document, separators=(",", ":"))
        path = os.fspath(path)
        unfinished = path + ".unfinished"
        try:
            with open(unfinished, "w", encoding="utf-8") as file:
                file.write(text + "\n")
            os.replace(unfinished, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.remove(unfinished)

    def __repr__(self) -> str:
        return "CapturedModel({!r}, {} segments of {} kinds)".format(
            self.document["name"], len(self.document["segments"]), len(self.document["kinds"]))


def capture(module_or_step: Any, example: Any, *, loss: Optional[Callable[..., Any]] = None,
            name: Optional[str] = None, source: str = "", precision: Optional[str] = None,
            batch_axes: Optional[Dict[str, Optional[int]]] = None, device: str = "cuda",
            keeps: bool = False) -> CapturedModel:
    """Captures a training step: its segments, types, bytes, FLOPs, kernels and what it keeps.

    `module_or_step` is an nn.Module whose forward gives the loss (a scalar, an output with `.loss`, or a
    tuple that begins with the scalar), or with `loss`, a function of (output, example); or a function of
    the example that closes over modules. `example` is a dictionary of arguments or a tuple of them; real,
    fake and meta tensors do. `batch_axes` says which axis of which input the samples lie on, where it is
    not the first of all. `precision` (fp32, bf16, fp16, fp64) casts the module while it is captured. `device`
    is the kind of device whose kernels are meant: "cuda" or "cpu". With `keeps`, a function returns a tuple of
    the loss and of tensors that the script gets back.

    Raises CaptureError, whose text names the line of the user's code and what to change.
    """
    if device not in ("cuda", "cpu"):
        raise CaptureError("device is {!r}; known: cuda, cpu".format(device))
    if precision is not None and precision not in PRECISIONS:
        raise CaptureError("precision is {!r}; known: {}".format(precision, ", ".join(PRECISIONS)))
    step = Step(module_or_step, loss, example, keeps)
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        if precision is not None:
            stack.enter_context(_cast(step, PRECISIONS[precision]))
        samples, axes, reason = batch_of(step.example, batch_axes)
        program_of_torch, why_fixed = exported(step, axes, samples)
        program = flat_program(program_of_torch, step)
        given, tensors = _given(step, program)
        return _captured(_Exported(step, program, given, decide(program, tensors), samples, axes, reason or why_fixed,
                                   name or step.title, source or step.title, device))


@contextlib.contextmanager
def _cast(step: Step, to: torch.dtype) -> Iterator[None]:
    """Module and example in another type for a while; the tensors themselves come back after it."""
    changed = []
    with torch.no_grad():
        for each in list(step.parameters()) + list(step.buffers()):
            if each.is_floating_point():
                changed.append((each, each.data))
                each.data = each.data.to(to)
    leaves = list(step.example.leaves)
    for place in step.example.places:
        if leaves[place].is_floating_point():
            step.example.leaves[place] = leaves[place].to(to)
    try:
        yield
    finally:
        for each, data in changed:
            each.data = data
        step.example.leaves[:] = leaves


def _given(step: Step, program: Program) -> Tuple[Dict[int, Given], Dict[int, torch.Tensor]]:
    """Descriptions and tensors of all sources."""
    own: Dict[str, torch.Tensor] = dict(step.named_parameters(remove_duplicate=False))
    own.update(step.named_buffers(remove_duplicate=False))
    inputs = dict(zip(step.example.names, step.example.tensors))
    given: Dict[int, Given] = {}
    tensors: Dict[int, torch.Tensor] = {}
    for source in program.sources:
        if source.kind == "input":
            tensor = inputs[source.name]
        elif source.kind == "constant":
            tensor = source.constant
        else:
            tensor = own[source.name]
        if not isinstance(tensor, torch.Tensor):
            raise CaptureError("{} is no tensor but {}".format(source.name, type(tensor).__name__))
        trained = source.kind == "parameter" and tensor.requires_grad
        given[source.value] = Given(tuple(int(size) for size in tensor.shape), tuple(tensor.stride()), tensor.dtype,
                                    trained)
        tensors[source.value] = tensor
    return given, tensors


def _traces(exported: _Exported, axes: Dict[int, int]) -> Tuple[Trace, Optional[Trace], int, int, str]:
    """(a trace, a second one of the same course or None, their samples, why the samples are fixed).

    One sample often takes another course than more (nothing is summed over them), so it is traced as two.
    """
    def trace(samples: Optional[int]) -> Trace:
        return replay(exported.program, exported.given, axes, samples, exported.decided, exported.device)

    samples, reason = exported.samples, exported.reason
    if reason:
        return trace(None), None, samples, 0, reason
    least = max(samples, 2)
    try:
        first = trace(least)
        for one, other in ((least, 2 * least), (2 * least, 4 * least)):
            first = first if one == least else trace(one)
            second = trace(other)
            if same_course(first, second):
                return first, second, one, other, ""
    except CaptureError as error:
        reason = "the batch cannot change: {}".format(error)
    return trace(None), None, samples, 0, reason


def _captured(exported: _Exported) -> CapturedModel:
    step, program, given, samples, axes = exported[:3] + exported[4:6]
    values = {each.name: each.value for each in program.sources if each.kind == "input"}
    axis_of = {values[each]: axis for each, axis in axes.items() if each in values}
    trace, second, one, two, reason = _traces(exported, axis_of)
    division = divide(program, trace)
    account = Account(program, trace, division)
    other = Account(program, second, division) if second is not None else None
    pair = Pairs(one, two if other else None, bool(reason))

    precision = _precision(program, given)
    written: Dict[str, Any] = {
        "captured": documents.VERSION, "name": exported.name, "source": exported.source,
        "versions": documents.versions(), "precision": precision, "micro_batch": samples}
    if reason:
        written["fixed_micro_batch"] = reason
    tokens = _tokens_per_sample(program, step, axes)
    if tokens:
        written["tokens_per_sample"] = tokens
    sources, lists = _sources(step, program, trace, axes, bool(reason))
    written.update(lists)
    written["tensors"], index = documents.tensors(account, other, pair, samples)
    written["loss"] = index[trace.loss]
    written["segments"], written["kinds"] = documents.segments_and_kinds(
        program, account, other, pair, index, sources, PRECISIONS[precision])
    generators = documents.hand_on_generators(written)
    documents.check(written)
    return CapturedModel(written, exported, trace, division, pair.is_steep, sources, generators)


def _precision(program: Program, given: Dict[int, Given]) -> str:
    sizes: Dict[torch.dtype, int] = {}
    for source in program.sources:
        kind = given[source.value]
        if source.kind == "parameter" and kind.dtype.is_floating_point:
            count = 1
            for size in kind.shape:
                count *= size
            sizes[kind.dtype] = sizes.get(kind.dtype, 0) + count
    most = max(sizes, key=lambda dtype: sizes[dtype]) if sizes else torch.float32
    for word, dtype in PRECISIONS.items():
        if dtype == most:
            return word
    raise CaptureError("parameters are of type {}; use precision= {}".format(dtype_name(most),
                                                                          ", ".join(PRECISIONS)))


def _sources(step: Step, program: Program, trace: Trace, axes: Dict[str, int], fixed: bool) -> Tuple[
        Dict[str, Dict[int, int]], Dict[str, List[Dict[str, Any]]]]:
    """The lists `inputs`, `parameters` and `buffers`, and the index in them by value."""
    index: Dict[str, Dict[int, int]] = {"input": {}, "parameter": {}, "buffer": {}}
    inputs: List[Dict[str, Any]] = []
    tensors = dict(zip(step.example.names, step.example.tensors))
    by_name = {(each.kind, each.name): each for each in program.sources}
    for each, tensor in tensors.items():
        entry: Dict[str, Any] = {"name": each, "dtype": dtype_name(tensor.dtype), "shape": list(tensor.shape)}
        if each in axes and not fixed:
            entry["batch_axis"] = axes[each]
        if ("input", each) in by_name:
            index["input"][by_name["input", each].value] = len(inputs)
        inputs.append(entry)
    written = {trace.sources[storage] for storage in trace.writes if storage in trace.sources}
    parameters: List[Dict[str, Any]] = []
    place: Dict[int, int] = {}
    for long_name, parameter in step.named_parameters(remove_duplicate=False):
        own = step.own_name(long_name)
        if id(parameter) in place:
            parameters[place[id(parameter)]].setdefault("tied", []).append(own)
        else:
            place[id(parameter)] = len(parameters)
            parameters.append({"name": own, "shape": list(parameter.shape), "dtype": dtype_name(parameter.dtype),
                               "trainable": bool(parameter.requires_grad)})
        if ("parameter", long_name) in by_name:
            index["parameter"][by_name["parameter", long_name].value] = place[id(parameter)]
    buffers: List[Dict[str, Any]] = []
    for long_name, buffer in step.named_buffers():
        entry = {"name": step.own_name(long_name), "shape": list(buffer.shape), "dtype": dtype_name(buffer.dtype)}
        known = by_name.get(("buffer", long_name))
        if known is not None:
            index["buffer"][known.value] = len(buffers)
            if known.value in written:
                entry["written"] = True
        buffers.append(entry)
    return index, {"inputs": inputs, "parameters": parameters, "buffers": buffers}


_VIEWS_OF_IDS = ("aten.view.", "aten.reshape.", "aten.to.", "aten._to_copy.", "aten.contiguous.")


def _tokens_per_sample(program: Program, step: Step, axes: Dict[str, int]) -> Optional[int]:
    """The second axis of the first input of two axes whose integers are looked up in a table."""
    looked_up = set()
    for call in reversed(program.calls):   # GPT-2 looks up a view of its input
        views = call.result in looked_up and str(call.target).startswith(_VIEWS_OF_IDS)
        if views or str(call.target).startswith("aten.embedding."):
            looked_up.update(each.value for each in call.args if hasattr(each, "value"))
    values = {each.name: each.value for each in program.sources if each.kind == "input"}
    for name, tensor in zip(step.example.names, step.example.tensors):
        if (tensor.dim() == 2 and not tensor.is_floating_point() and axes.get(name) == 0
                and values.get(name) in looked_up):
            return int(tensor.shape[1])
    return None
