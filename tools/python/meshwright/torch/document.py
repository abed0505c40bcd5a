"""Writes a traced and divided program as `own.model.json`, and checks such a document.

The file says sizes, types and work only; there is no code in it. Numbers that depend on the
micro-batch are pairs [fixed, per sample]: fixed + per sample * micro-batch.
"""

from __future__ import annotations

import platform
import sys
from typing import Any, Dict, Hashable, List, Optional, Tuple

import torch

from .account import Account, Work
from .errors import CaptureError
from .exporting import Call, Program
from .kernels import Kernel
from .on_tensor_ranks import Collective
from .replay import Trace, values_in
from .segments import Division

__all__ = ["PRECISIONS", "VERSION", "Pairs", "check", "dtype_name", "hand_on_generators", "segments_and_kinds", "tensors", "value_at", "versions"]

VERSION = 1
PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}


def dtype_name(dtype: torch.dtype) -> str:
    """"float32" for torch.float32."""
    return str(dtype).replace("torch.", "")


def versions() -> Dict[str, str]:
    """Versions of what captured."""
    found = {"python": platform.python_version(), "torch": torch.__version__.split("+")[0]}
    for name in ("transformers", "torchvision", "timm"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if version:
            found[name] = version.split("+")[0]
    return found


def _tidy(number: float) -> Any:
    return int(number) if float(number).is_integer() else round(number, 6)


class Pairs:
    """Makes pairs [fixed, per sample] of what was measured at one or two numbers of samples.

    With one, `fixed` says whether numbers do not depend on the samples, or grow with them from zero.
    """

    def __init__(self, first: int, second: Optional[int], fixed: bool) -> None:
        self.first, self.second, self.fixed = first, second, fixed
        self._measured = self._written = 0.0   # sums at the second number of samples

    @property
    def is_steep(self) -> bool:
        """Whether the work grows faster than the samples by more than a thousandth."""
        return self._measured > 1.001 * self._written

    def __call__(self, one: float, other: Optional[float] = None) -> Any:
        made = self._pair(one, other)
        if self.second is not None and other is not None:
            self._measured += other
            self._written += value_at(made, self.second)
        return made

    def _pair(self, one: float, other: Optional[float]) -> Any:
        if self.second is None or other is None:
            return one if self.fixed or not one else [0, _tidy(one / self.first)]
        if one == other:
            return one
        slope = (other - one) / (self.second - self.first)
        fixed = one - slope * self.first
        if fixed < 0 or slope < 0:   # It grows faster than the samples, as scores between all of them do.
            return [0, _tidy(one / self.first)]
        return [_tidy(fixed), _tidy(slope)]


def value_at(number: Any, micro_batch: int) -> float:
    """A number of the file at a micro-batch."""
    return number[0] + number[1] * micro_batch if isinstance(number, (list, tuple)) else number


def _kernel(one: Kernel, other: Optional[Kernel], pair: Pairs, precision: torch.dtype) -> Dict[str, Any]:
    written: Dict[str, Any] = {"op": one.op, "kind": one.kind}
    for name in ("m", "n", "k"):
        if getattr(one, name):
            written[name] = pair(getattr(one, name), other and getattr(other, name))
    if one.batch != 1 or (other is not None and other.batch != 1):
        written["batch"] = pair(one.batch, other and other.batch)
    for name in ("flops", "bytes"):
        if getattr(one, name):
            written[name] = pair(getattr(one, name), other and getattr(other, name))
    if one.dtype is not None and one.dtype != precision:
        written["dtype"] = dtype_name(one.dtype)
    if one.causal:
        written["causal"] = True
    return written


def _work(one: Work, other: Optional[Work], pair: Pairs, precision: torch.dtype) -> Dict[str, Any]:
    written: Dict[str, Any] = {
        "saved": pair(one.saved, other and other.saved),
        "workspace": {name: pair(one.workspace[phase], other and other.workspace[phase])
                      for phase, name in enumerate(("forward", "backward"))}}
    for phase, name in enumerate(("forward", "backward")):
        if other is not None and len(one.kernels[phase]) == len(other.kernels[phase]):
            couples: Any = zip(one.kernels[phase], other.kernels[phase])
        else:
            couples = ((kernel, None) for kernel in one.kernels[phase])
        written[name] = [_kernel(kernel, second, pair, precision) for kernel, second in couples]
    return written


def tensors(account: Account, other: Optional[Account], pair: Pairs,
            samples: int) -> Tuple[List[Dict[str, Any]], Dict[int, int]]:
    """What segments hand on, with shapes at `samples` samples, and the index of each storage in that list."""
    found, index = [], {}
    for storage in account.division.crossing:
        size, shape, dtype = account.sent[storage]
        entry: Dict[str, Any] = {"shape": list(shape), "dtype": dtype_name(dtype),
                                 "bytes": pair(size, other and other.sent[storage][0])}
        if storage in account.trace.with_gradient and (dtype.is_floating_point or dtype.is_complex):
            entry["gradient"] = True
        if other is not None:
            grown = [axis for axis, (a, b) in enumerate(zip(shape, other.sent[storage][1])) if a != b]
            if len(grown) == 1:
                entry["batch_axis"] = grown[0]
                entry["shape"][grown[0]] = shape[grown[0]] * samples // pair.first
        index[storage] = len(found)
        found.append(entry)
    return found, index


def segments_and_kinds(program: Program, account: Account, other: Optional[Account], pair: Pairs,
                       index: Dict[int, int], sources: Dict[str, Dict[int, int]],
                       precision: torch.dtype) -> Tuple[List[Dict[str, Any]], List[Dict[str, Any]]]:
    """The lists `segments` and `kinds`.

    `sources` gives the index of each source by its value, for "input", "parameter" and "buffer".
    """
    division, trace = account.division, account.trace
    depends = _dependencies(program, division, trace)
    kinds: List[Dict[str, Any]] = []
    known: Dict[Hashable, int] = {}
    segments = []
    cost = _cost_of_calls(account, len(program.calls))
    for number, (first, end) in enumerate(division.bounds):
        calls = program.calls[first:end]
        reads = [index[storage] for storage in division.crossing if number in division.read_in[storage]]
        makes = [index[storage] for storage in division.crossing if division.made_in[storage] == number]
        if isinstance(calls[0].target, Collective):
            segments.append(_exchange(calls[0], reads, makes))
            continue
        random = any(event.random for events in account.events[number] for event in events)
        decided = next((str(call.target).rsplit(".", 1)[0] for call in calls if call.decides), None)
        key = (account.signature(number), other.signature(number) if other else None, random, decided)
        if key not in known:
            known[key] = len(kinds)
            kind: Dict[str, Any] = {}
            if random:
                kind["random"] = True
            if decided:
                kind["data_decides"] = decided
            kind.update(_work(account.eager(number), other and other.eager(number), pair, precision))
            kind["compiled"] = _work(account.compiled(number), other and other.compiled(number), pair, precision)
            kinds.append(kind)
        needed = set().union(*(depends[place] for place in range(first, end))) if end > first else set()
        saves = [index[storage] for storage in division.crossing
                 if storage in account.saved
                 and any(division.segment_of[place] == number for place in trace.saved[storage])
                 and index[storage] in reads + makes]
        heaviest = max(range(first, end), key=lambda place: cost[place])
        segments.append({
            "module": program.calls[heaviest].module, "kind": known[key],
            "inputs": sorted(sources["input"][value] for value in needed if value in sources["input"]),
            "reads": reads, "makes": makes,
            "parameters": sorted(sources["parameter"][value] for value in needed if value in sources["parameter"]),
            "buffers": sorted(sources["buffer"][value] for value in needed if value in sources["buffer"]),
            "saves": saves})
    return segments, kinds


def _exchange(call: Call, reads: List[int], makes: List[int]) -> Dict[str, Any]:
    """The entry of an exchange between the ranks of a tensor group: it moves one tensor and has no kernels here."""
    if len(reads) != 1 or len(makes) != 1:
        raise CaptureError("tensor parallelism: {} is exchanged together with other tensors".format(
            call.module or "a tensor"))
    entry: Dict[str, Any] = {"module": call.module, "collective": call.target.word}
    if call.target.gradient_is_whole:
        entry["gradient_is_whole"] = True
    return dict(entry, inputs=[], reads=reads, makes=makes, parameters=[], buffers=[], saves=[])


_GENERATOR_BYTES = 5056   # of PyTorch's CPU generator; a GPU's state is smaller


def hand_on_generators(written: Dict[str, Any]) -> List[int]:
    """Lets each segment that draws random numbers hand the generator's state on to the next one that does.

    So a pipeline draws the numbers of one process. Returns the tensors of these states.
    """
    added: List[int] = []
    for segment in written["segments"]:
        if "kind" not in segment or not written["kinds"][segment["kind"]].get("random"):
            continue
        if added:
            segment["reads"].append(added[-1])
        added.append(len(written["tensors"]))
        written["tensors"].append({"shape": [_GENERATOR_BYTES], "dtype": "uint8", "bytes": _GENERATOR_BYTES})
        segment["makes"].append(added[-1])
    return added


def _dependencies(program: Program, division: Division, trace: Trace) -> List[set]:
    """By call: the sources that it needs, also through values that are made again for it.

    Views of sources are made again wherever they are used.
    """
    given = {source.value for source in program.sources}
    through: Dict[int, set] = {}     # of values that are made again
    found = []
    for place, call in enumerate(program.calls):
        needed = set()
        for value in values_in((call.args, call.kwargs)):
            if value in given:
                needed.add(value)
            else:
                needed |= through.get(value, set())
        if place in division.again or (trace.makes[place] and all(each in trace.sources for each in trace.makes[place])):
            through[call.result] = needed
        found.append(needed)
    return found


def _cost_of_calls(account: Account, count: int) -> List[float]:
    from .segments import seconds_of
    cost = [0.0] * count
    for event in account.trace.recorder.events:
        cost[event.call] += seconds_of([event])
    return cost


# ---------------------------------------------------------------------------------------------
# The check of a document that describes a captured model.


def check(document: Dict[str, Any]) -> None:
    """Raises ValueError where a document is no captured model."""

    def wrong(place: str, problem: str) -> None:
        raise ValueError("{}: {}".format(place, problem))

    def number(place: str, value: Any) -> None:
        values = value if isinstance(value, list) else [value]
        if len(values) not in (1, 2) or (isinstance(value, list) and len(value) != 2):
            wrong(place, "a number or a pair [fixed, per sample] is expected")
        for each in values:
            if isinstance(each, bool) or not isinstance(each, (int, float)) or each < 0:
                wrong(place, "{!r} is no number of 0 or more".format(each))

    def indices(place: str, values: Any, end: int) -> None:
        for each in values:
            if not isinstance(each, int) or not 0 <= each < end:
                wrong(place, "{!r} is no index below {}".format(each, end))
        if len(set(values)) != len(values):
            wrong(place, "an index is there twice")

    if document.get("captured") != VERSION:
        wrong("captured", "version {} is expected".format(VERSION))
    for key in ("name", "source", "versions", "precision", "micro_batch", "inputs", "parameters", "buffers", "tensors",
                "loss", "segments", "kinds"):
        if key not in document:
            wrong(key, "is missing")
    if document["precision"] not in PRECISIONS:
        wrong("precision", "is unknown")
    if not isinstance(document["micro_batch"], int) or document["micro_batch"] < 1:
        wrong("micro_batch", "is no positive integer")
    for each in document["tensors"]:
        number("tensors", each["bytes"])
    if not 0 <= document["loss"] < len(document["tensors"]):
        wrong("loss", "is no index of a tensor")
    for place, kind in enumerate(document["kinds"]):
        for name, level in (("", kind), ("compiled.", kind["compiled"])):
            where = "kinds[{}].{}".format(place, name)
            number(where + "saved", level["saved"])
            for phase in ("forward", "backward"):
                number(where + "workspace." + phase, level["workspace"][phase])
                for kernel in level[phase]:
                    if kernel["kind"] not in ("gemm", "batched_gemm", "attention", "memory"):
                        wrong(where + phase, "unknown kind of kernel {}".format(kernel["kind"]))
                    for field in ("m", "n", "k", "batch", "flops", "bytes"):
                        if field in kernel:
                            number(where + phase + "." + field, kernel[field])
                    if kernel["kind"] != "memory" and not kernel.get("flops"):
                        wrong(where + phase, "{} has no FLOPs".format(kernel["op"]))
    made = set()
    for place, segment in enumerate(document["segments"]):
        where = "segments[{}].".format(place)
        if "collective" not in segment:
            indices(where + "kind", [segment["kind"]], len(document["kinds"]))
        for key in ("inputs", "parameters", "buffers"):
            indices(where + key, segment[key], len(document[key]))
        for key in ("reads", "makes", "saves"):
            indices(where + key, segment[key], len(document["tensors"]))
        for each in segment["reads"]:
            if each not in made:
                wrong(where + "reads", "tensor {} is made by no earlier segment".format(each))
        for each in segment["makes"]:
            if each in made:
                wrong(where + "makes", "tensor {} is made twice".format(each))
            made.add(each)
        if not set(segment["saves"]) <= set(segment["reads"]) | set(segment["makes"]):
            wrong(where + "saves", "a tensor is neither read nor made here")
    if document["loss"] not in made:
        wrong("loss", "no segment makes it")
