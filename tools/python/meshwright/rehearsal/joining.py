"""Joins the log of the stand-in GPUs with the operations of a profiled step: the recording's events.

/sim/rehearsal/recording.h says what a recording holds.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from ..torch.kernels import Kernel
from .device_log import Entry
from .operations import Operation
from .profiles import AllOperations
from .triton_launches import TritonLaunches

__all__ = ["Joined"]

_COPIES = {1: "to-device", 2: "to-host", 3: "on-device"}
_CUDA_TYPES = {0: "float32", 1: "float64", 2: "float16", 4: "complex64", 5: "complex128", 14: "bfloat16", 3: "int8",
               28: "float8_e4m3fn", 29: "float8_e5m2"}
_BYTES = {"float64": 8, "float32": 4, "complex64": 8, "complex128": 16, "float16": 2, "bfloat16": 2}
_FAST_TF32 = (77, 3)   # CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_TF32_TENSOR_OP_MATH
_SYNTHETIC = ("allocate", "release", "mark", "refuse")


class Joined:
    """`entries` are those of the profiled step, `times` when the same calls came without profiler, in ns of the step."""

    def __init__(self, entries: Sequence[Entry], times: Sequence[int], operations: AllOperations,
                 triton: TritonLaunches, rank: int = 0) -> None:
        self.operations: Dict[str, int] = {}
        self.symbols: Dict[str, int] = {}
        self.kernels: Dict[str, int] = {}
        self.kernel_rows: List[Dict[str, Any]] = []
        self.groups: List[List[int]] = []
        self.events: List[Dict[str, Any]] = []
        self._streams: Dict[int, int] = {0: 0}
        self._cuda_events: Dict[int, int] = {}
        self._operations, self._triton, self._rank = operations, triton, rank
        self._graph_launch = 0                        # number of the last launch of a graph
        self._taken: Dict[int, int] = {}              # by operation: how many of its kernels launches have
        self._places: List[int] = []                  # places of the entries that the events are made of
        for place, (entry, time) in enumerate(zip(entries, times)):
            event = self._event(entry)
            if event is not None:
                self._places.append(place)
                self.events.append({"at": time / 1000, "thread": entry.thread, **event})

    def set_times(self, times: Sequence[int]) -> None:
        """Replaces when the entries came."""
        for place, event in zip(self._places, self.events):
            event["at"] = times[place] / 1000

    @property
    def streams(self) -> int:
        return len(self._streams)

    def _event(self, entry: Entry) -> Optional[Dict[str, Any]]:
        operation = self._operations.of(entry.operation) if entry.operation else None
        event = getattr(self, "_" + entry.kind)(entry, operation)
        if event is not None and operation is not None:
            event["op"] = self.operations.setdefault(operation.name, len(self.operations))
            if event["what"] == "kernel" and self._operations.is_recomputed(operation):
                event["recomputed"] = True
        # A graph is launched as a whole, so only the first of its entries costs the host a launch.
        launch = entry.operation >> 48
        if event is not None and launch and launch == self._graph_launch:
            event["graphed"] = True
        self._graph_launch = launch
        return event

    def _stream(self, handle: int) -> int:
        return self._streams.setdefault(handle, len(self._streams))

    def _kernel(self, kernel: Kernel) -> int:
        row: Dict[str, Any] = {"kind": kernel.kind, "bytes": kernel.bytes}
        if kernel.kind != "memory":
            row.update(flops=kernel.flops, m=kernel.m, n=kernel.n, k=kernel.k, batch=kernel.batch,
                       dtype=str(kernel.dtype).replace("torch.", ""))
        if kernel.causal:
            row["causal"] = True
        if "backward" in kernel.op and kernel.kind == "attention":
            row["backward"] = True
        key = str(row)
        if key not in self.kernels:
            self.kernels[key] = len(self.kernel_rows)
            self.kernel_rows.append(row)
        return self.kernels[key]

    def _launch(self, entry: Entry, operation: Optional[Operation]) -> Dict[str, Any]:
        event: Dict[str, Any] = {"what": "kernel", "stream": self._stream(entry.stream),
                                 "symbol": self.symbols.setdefault(entry.name, len(self.symbols))}
        moved = self._triton.next_bytes(entry.name)
        if moved is not None:
            event["kernel"] = self._kernel(Kernel(entry.name, "memory", moved))
        elif operation is not None:
            # The kernels of an operation belong to its launches in order. Further launches (sums of partial
            # results, counters) move next to nothing.
            kernels = [each for each in self._operations.kernels(operation) if each.kind not in ("gemm", "batched_gemm")
                       or "convolution" in operation.name]
            place = self._taken.get(operation.number, 0)
            self._taken[operation.number] = place + 1
            if place < len(kernels):
                event["kernel"] = self._kernel(kernels[place])
        return event

    _convolution = _launch

    def _product(self, entry: Entry, _operation: Optional[Operation]) -> Dict[str, Any]:
        n, m, k, batch, types, how = entry.numbers      # cuBLAS gives the columns first
        operand, result = _CUDA_TYPES.get(types & 255, "float32"), _CUDA_TYPES.get(types >> 8, "float32")
        if operand == "float32" and how & 0xffffffff in _FAST_TF32:
            operand = "tfloat32"
        size = _BYTES.get(operand, 4 if operand == "tfloat32" else 1)
        moved = batch * ((m * k + k * n) * size + m * n * _BYTES.get(result, 4))
        kernel = Kernel("product", "gemm" if batch == 1 else "batched_gemm", moved, 2 * m * n * k * batch, m, n, k, batch,
                        operand)
        return {"what": "kernel", "stream": self._stream(entry.stream), "kernel": self._kernel(kernel)}

    def _collective(self, entry: Entry, _operation: Optional[Operation]) -> Dict[str, Any]:
        count, size, together, ranks, peer, other = entry.numbers
        group = self._operations.ranks_of(entry.operation) or list(range(ranks))
        if other:
            group = group if other - 1 in group else sorted((self._rank, other - 1))
            peer = group.index(other - 1)
        if group not in self.groups:
            self.groups.append(group)
        event = {"what": "collective", "stream": self._stream(entry.stream), "name": entry.name, "bytes": count * size,
                 "group": self.groups.index(group)}
        if entry.name in ("send", "receive"):
            event["peer"] = peer
        if together:
            event["together"] = together
        return event

    def _copy(self, entry: Entry, _operation: Optional[Operation]) -> Optional[Dict[str, Any]]:
        direction = _COPIES.get(entry.numbers[1])
        return None if direction is None else {
            "what": "copy", "stream": self._stream(entry.stream), "bytes": entry.numbers[0], "direction": direction,
            "waits": bool(entry.numbers[2])}

    def _set(self, entry: Entry, _operation: Optional[Operation]) -> Dict[str, Any]:
        return {"what": "set", "stream": self._stream(entry.stream), "bytes": entry.numbers[0]}

    def _cuda_event(self, handle: int) -> int:
        return self._cuda_events.setdefault(handle, len(self._cuda_events))

    def _record_event(self, entry: Entry, _operation: Optional[Operation]) -> Dict[str, Any]:
        return {"what": "record", "stream": self._stream(entry.stream), "event": self._cuda_event(entry.numbers[0])}

    def _wait_event(self, entry: Entry, _operation: Optional[Operation]) -> Dict[str, Any]:
        return {"what": "wait", "stream": self._stream(entry.stream), "event": self._cuda_event(entry.numbers[0])}

    def _wait_host(self, entry: Entry, _operation: Optional[Operation]) -> Dict[str, Any]:
        kind = ("device", "stream", "event")[entry.numbers[0]]
        event: Dict[str, Any] = {"what": "host-waits", "for": kind}
        if kind == "stream":
            event["stream"] = self._stream(entry.stream)
        elif kind == "event":
            event["event"] = self._cuda_event(entry.numbers[1])
        return event

    def _nothing(self, _entry: Entry, _operation: Optional[Operation]) -> None:
        return None

    _allocate = _release = _mark = _refuse = _nothing
