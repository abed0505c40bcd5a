"""Computes segments with PyTorch, forward and backward, when the Runtime asks for them.

The Runtime (tools/python/runtime_module.cpp) calls `SegmentRunner.__call__` with the addresses of operands in
its memory. Parameters, their gradients and what crosses between stages lie there; tensors that only this
stage's segments hand to each other stay PyTorch's, and are never copied.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch
from torch.autograd.graph import GradientEdge, get_gradient_edge

from .compiled_segments import CompiledSegments
from .exporting import Call, Context, Program
from .replay import filled
from .tables import Handed, SegmentTable, Tables

__all__ = ["Memory", "ParameterSpec", "SegmentRunner", "exact_type", "handed_values", "seed_of", "stream_of"]

_TYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)   # the types of Dtype, in its order


def exact_type(storage: torch.dtype) -> torch.dtype:
    """The type in which the Runtime takes, hands out and saves parameters that it stores in `storage`."""
    return torch.float64 if storage == torch.float64 else torch.float32


def handed_values(runtime: Any, address: int, count: int, storage: torch.dtype) -> torch.Tensor:
    """A copy of the values that the Runtime hands out at an address."""
    kind = exact_type(storage)
    return torch.frombuffer(runtime.memory(address, count * kind.itemsize), dtype=kind).clone()


class Memory:
    """Tensors on addresses of the Runtime's memory."""

    def __init__(self, buffer_at: Callable[[int, int], Any], on_gpu: bool) -> None:
        self._buffer_at, self._on_gpu = buffer_at, on_gpu
        self._bytes: Dict[Tuple[int, int], torch.Tensor] = {}

    def bytes(self, address: int, count: int) -> torch.Tensor:
        key = (address, count)
        found = self._bytes.get(key)
        if found is None:
            if count == 0:
                found = torch.empty(0, dtype=torch.uint8)
            elif self._on_gpu:
                found = torch.as_tensor(_OnGpu(address, count), device="cuda")
            else:
                found = torch.frombuffer(self._buffer_at(address, count), dtype=torch.uint8)
            self._bytes[key] = found
        return found

    def tensor(self, address: int, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        count = torch.empty((), dtype=dtype).element_size()
        for size in shape:
            count *= size
        return self.bytes(address, count).view(dtype).view(tuple(shape))


    def elements(self, address: int, kind: int, first: int, count: int) -> torch.Tensor:
        """Consecutive elements of an array, of a type by its number."""
        size = _TYPES[kind].itemsize
        return self.bytes(address + first * size, count * size).view(_TYPES[kind])


class _OnGpu:
    """Device memory as PyTorch reads it from other libraries."""

    def __init__(self, address: int, count: int) -> None:
        self.__cuda_array_interface__ = {"shape": (count,), "typestr": "|u1", "data": (address, False), "version": 3}


class ParameterSpec(NamedTuple):
    """A parameter as it was captured."""

    shape: torch.Size
    dtype: torch.dtype
    requires_grad: bool


class _Graph(NamedTuple):
    """What the forward of a segment leaves for its backward.

    Edges of the graph, not its tensors: a tensor that no operation saves is freed, as in eager PyTorch.
    """

    made: List[Tuple[int, int, GradientEdge]]            # (captured tensor, which value, where its gradient enters)
    taken: List[Tuple[int, int, GradientEdge]]           # and where the gradient of a value that was read leaves
    parameters: List[Tuple[int, torch.Tensor]]


class _Entering(torch.autograd.Function):
    """A tensor of another segment enters a segment's graph. A leaf would keep its tensor until the backward."""

    @staticmethod
    def forward(_context: Any, _differentiable: torch.Tensor, values: List[torch.Tensor]) -> torch.Tensor:
        return values[0].detach()

    @staticmethod
    def backward(_context: Any, *_gradients: torch.Tensor) -> Any:
        return None, None                                # never called: the gradient is taken where it arrives


class _MicroBatch:
    def __init__(self, inputs: Dict[int, torch.Tensor]) -> None:
        self.inputs = inputs                              # by value
        self.again: Dict[int, Any] = {}
        self.tensors: Dict[int, List[torch.Tensor]] = {}  # by captured tensor
        self.readers: Dict[int, int] = {}                 # by captured tensor: readers that are still to come
        self.graphs: Dict[int, _Graph] = {}
        self.gradients: Dict[int, List[Optional[torch.Tensor]]] = {}
        self.ran: Dict[int, int] = {}                     # how often a segment's forward ran
        self.before: Dict[Tuple[int, int], torch.Tensor] = {}   # by segment and buffer: values for its second run
        self.left: Dict[int, int] = {}                    # backwards that are still to come, by chunk


class SegmentRunner:
    """`info` says which segments run on this rank, `storage` in which type the Runtime holds parameters."""

    def __init__(self, tables: Tables, info: Dict[str, Any], memory: Memory, parameters: List[ParameterSpec],
                 buffers: List[torch.Tensor], storage: torch.dtype) -> None:
        self.tables, self.memory = tables, memory
        self.program: Program = tables.program
        self.parameters, self.buffers, self.storage = parameters, buffers, storage
        self.device = "cuda" if info["on_gpu"] else "cpu"
        self.seed = info["seed"]
        self.micro_batch, self.micro_batches = info["micro_batch"], info["micro_batches"]
        self.first = 0           # first of this replica's sequences in this step
        self.inputs: List[Dict[int, torch.Tensor]] = []
        self.returned: List[Dict[int, torch.Tensor]] = []  # by micro-batch: the values that the step returns
        self._micro: Dict[int, _MicroBatch] = {}
        self._differentiable = torch.empty(0, device=self.device, requires_grad=True)
        self._views: Dict[Tuple[int, int], torch.Tensor] = {}
        self._gathers = info["zero_stage"] == 3
        self._gradient_types = _gradient_types(info, tables)
        self._places(info)
        self._saved_of: Dict[int, int] = {}               # address of a gathered parameter -> its index
        self._compiled = CompiledSegments(self.device) if info["compiles"] and not self._gathers else None
        self._operations = {"segment": self._forward, "segment_grad": self._backward, "loss": self._loss,
                            "loss_grad": self._loss_grad, "add": self._add, "pass_on": self._pass_on}

    def _places(self, info: Dict[str, Any]) -> None:
        # The Runtime exchanges between segments, and whatever it touches lies in its memory: no segment is at home there.
        stage_of: Dict[int, Tuple[int, int]] = {number: (-1, number) for number in self.tables.exchanges}
        self.recomputed = set()
        for each in info["segments"]:
            stage_of[each["number"]] = (each["stage"], each["chunk"])
            if each["recomputed"]:
                self.recomputed.add(each["number"])
        self.stage_of = stage_of
        self.local = {number for number, tensor in self.tables.tensors.items()
                      if all(stage_of[reader] == stage_of[tensor.maker] for reader in tensor.readers)}
        # The tables have no tensors for generator states, so the segments are searched for them.
        self.rng_local = set()
        for number in self.tables.rng:
            makers = [each.number for each in self.tables.segments if number in each.makes]
            readers = [each.number for each in self.tables.segments if number in each.reads]
            if all(stage_of[reader] == stage_of[makers[0]] for reader in readers):
                self.rng_local.add(number)
        self.unit_of = [0] * len(self.tables.segments)
        for number, (begin, end) in enumerate(info["units"]):
            self.unit_of[begin:end] = [number] * (end - begin)
        # Tensors that enter a recomputed unit from another unit are kept until it is recomputed.
        self.kept_for_again = {
            number for number, tensor in self.tables.tensors.items()
            for reader in tensor.readers
            if reader in self.recomputed and self.unit_of[reader] != self.unit_of[tensor.maker]}
        here = (info["stage"],)
        self.backwards: Dict[int, int] = {}       # by chunk: its segments that have a backward
        for each in self.tables.segments:
            stage, chunk = stage_of[each.number]
            if (stage,) == here and each.has_backward:
                self.backwards[chunk] = self.backwards.get(chunk, 0) + 1

    # -- a step

    def begin(self, first: int, inputs: List[Dict[int, torch.Tensor]]) -> None:
        """`first` is the position of this replica's first sequence, `inputs` the inputs of each micro-batch."""
        self.first, self.inputs = first, inputs
        self.returned = [{} for _ in inputs]
        self._micro.clear()

    def __call__(self, operation: str, number: int, sequence: int, inputs: Tuple[int, ...], outputs: Tuple[int, ...],
                 overwrites: int, factor: float, stream: int) -> None:
        with stream_of(stream):
            self._operations[operation](number, sequence, inputs, outputs, overwrites, factor)

    def _of(self, sequence: int) -> _MicroBatch:
        found = self._micro.get(sequence)
        if found is None:
            found = self._micro[sequence] = _MicroBatch(self.inputs[(sequence - self.first) // self.micro_batch])
        return found

    # -- forward

    def _forward(self, number: int, sequence: int, inputs: Tuple[int, ...], outputs: Tuple[int, ...],
                 _overwrites: int, _factor: float) -> None:
        segment, micro = self.tables.segments[number], self._of(sequence)
        runs = micro.ran[number] = micro.ran.get(number, 0) + 1
        records = segment.has_backward and (number not in self.recomputed or runs > 1)
        own = len(segment.parameters) + len(segment.buffers)
        reads = dict(zip(segment.reads, inputs[own:]))
        leaves = self._leaves(segment, micro, reads, records)
        environment: Dict[int, Any] = {}
        taken: List[Tuple[int, int, GradientEdge]] = []
        for tensor in segment.reads:
            if tensor in self.tables.rng:
                continue
            for at, (value, leaf) in enumerate(zip(self.tables.tensors[tensor].values, leaves[tensor])):
                environment[value.number] = leaf
                if leaf.requires_grad:
                    taken.append((tensor, at, get_gradient_edge(leaf)))
        parameters = self._parameters(segment, inputs, environment)
        for at, index in enumerate(segment.buffers):
            self._set_source("buffer", index, self._buffer(number, index, micro, runs), environment)
        for value, tensor in micro.inputs.items():
            environment[value] = tensor
        self._make_again(segment, micro, environment)
        del leaves
        state = self._seeded(segment, sequence, micro, reads) if segment.random else None
        with self._saving(segment) if records and self._gathers else contextlib.nullcontext():
            with torch.set_grad_enabled(records):
                self._run(segment, environment)
        for value in segment.returns:
            self.returned[(sequence - self.first) // self.micro_batch][value] = environment[value].detach()
        if state is not None:
            self._take_state(segment, micro, outputs, state)
        made = self._hand_on(segment, micro, environment, outputs, records, runs > 1)
        if records:
            micro.graphs[number] = _Graph(made, taken, parameters)

    def _buffer(self, number: int, index: int, micro: _MicroBatch, runs: int) -> torch.Tensor:
        """A segment that runs again begins with the values of its first run, and what it writes is not kept."""
        if number in self.recomputed and index in self.tables.written:
            if runs > 1:
                return micro.before.pop((number, index))
            micro.before[number, index] = self.buffers[index].detach().clone()
        return self.buffers[index]

    def _leaves(self, segment: SegmentTable, micro: _MicroBatch, reads: Dict[int, int],
                records: bool) -> Dict[int, List[torch.Tensor]]:
        found = {}
        for tensor in segment.reads:
            if tensor in self.tables.rng:
                continue
            handed = self.tables.tensors[tensor]
            here = self.stage_of[handed.maker] == self.stage_of[segment.number]
            if here:
                values = micro.tensors[tensor]
                self._release(micro, tensor)
            else:
                values = self._at(handed, reads[tensor])
                if tensor not in segment.saves:   # the Runtime may use its memory again before the backward
                    values = [value.clone() for value in values]
            needs = handed.has_gradient and records
            found[tensor] = [_Entering.apply(self._differentiable, [each])
                             if needs and (each.is_floating_point() or each.is_complex()) else each.detach()
                             for each in values]
        return found

    def _release(self, micro: _MicroBatch, tensor: int) -> None:
        if tensor in self.kept_for_again:
            return
        micro.readers[tensor] -= 1
        if micro.readers[tensor] == 0:
            del micro.tensors[tensor]

    def _at(self, handed: Handed, address: int) -> List[torch.Tensor]:
        """The values of a captured tensor in the Runtime's memory."""
        memory = self.memory.bytes(address, sum(value.bytes for value in handed.values))
        return [memory[value.begin:value.begin + value.bytes].view(value.dtype).as_strided(value.shape, value.strides)
                for value in handed.values]

    def _parameters(self, segment: SegmentTable, inputs: Tuple[int, ...],
                    environment: Dict[int, Any]) -> List[Tuple[int, torch.Tensor]]:
        found = []
        for index, address in zip(segment.parameters, inputs):
            parameter = self.parameters[index]
            key = (index, address)
            view = self._views.get(key)
            if view is None:
                view = self.memory.tensor(address, parameter.shape, self.storage)
                view = self._views[key] = view.detach().requires_grad_(parameter.requires_grad)
            if self._gathers:
                self._saved_of[address] = index
            if parameter.requires_grad:
                found.append((index, view))
            typed = view if view.dtype == parameter.dtype else view.to(parameter.dtype)
            self._set_source("parameter", index, typed, environment)
        return found

    def _set_source(self, kind: str, index: int, tensor: torch.Tensor, environment: Dict[int, Any]) -> None:
        for value in self._values_of(kind).get(index, ()):
            environment[value] = tensor

    def _values_of(self, kind: str) -> Dict[int, List[int]]:
        known = self.__dict__.setdefault("_sources_" + kind, {})
        if not known:
            for value, index in self.tables.indices[kind].items():
                known.setdefault(index, []).append(value)
        return known

    def _make_again(self, segment: SegmentTable, micro: _MicroBatch, environment: Dict[int, Any]) -> None:
        """Masks, positions and the like: each stage makes them once for each micro-batch."""
        again = micro.again
        if not again:
            for source in self.program.sources:
                if source.kind == "constant":
                    again[source.value] = source.constant
        missing = [place for place in segment.again if self.program.calls[place].result not in again]
        if missing:
            before = dict(again)
            before.update({value: tensor for value, tensor in environment.items()})
            for kind, tensors in (("buffer", self.buffers),):
                for value, index in self.tables.indices[kind].items():
                    before.setdefault(value, tensors[index])
            with torch.no_grad():
                for place in missing:
                    call = self.program.calls[place]
                    with _context_of(call.context, self.device):
                        before[call.result] = again[call.result] = _called(call, before, self.device)
        environment.update(again)

    @property
    def compiled(self) -> Optional[CompiledSegments]:
        """What torch.compile has made, where the plan compiles."""
        return self._compiled

    def _run(self, segment: SegmentTable, environment: Dict[int, Any]) -> None:
        if self._compiled is not None and self._compiled.run(segment, environment, _context_of):
            return
        context, opened = Context(), contextlib.nullcontext()
        with contextlib.ExitStack() as stack:
            stack.enter_context(opened)
            for step in segment.steps:
                call = step.call
                if call.context != context:
                    stack.close()
                    context = call.context
                    stack.enter_context(_context_of(context, self.device))
                environment[call.result] = _called(call, environment, self.device)
                for value in step.unused:
                    environment.pop(value, None)

    def _hand_on(self, segment: SegmentTable, micro: _MicroBatch, environment: Dict[int, Any],
                 outputs: Tuple[int, ...], records: bool, again: bool) -> List[Tuple[int, int, GradientEdge]]:
        made = []
        for tensor, address in zip(segment.makes, outputs):
            if tensor in self.tables.rng:
                continue
            handed = self.tables.tensors[tensor]
            values = [environment[value.number] for value in handed.values]
            if tensor not in self.local:
                for view, value in zip(self._at(handed, address), values):
                    view.copy_(value.detach())
            readers = sum(self.stage_of[reader] == self.stage_of[segment.number]
                          and (not again or self.unit_of[reader] == self.unit_of[segment.number])
                          for reader in handed.readers) + (tensor == self.tables.loss)
            if readers > 0 and not (again and tensor in self.kept_for_again):
                micro.tensors[tensor] = [value.detach() for value in values]
                micro.readers[tensor] = readers
            if records and handed.has_gradient:
                made += [(tensor, at, get_gradient_edge(value)) for at, value in enumerate(values)
                         if value.requires_grad]
        return made

    # -- random numbers: the generator's state travels with the micro-batch

    def _seeded(self, segment: SegmentTable, sequence: int, micro: _MicroBatch,
                reads: Dict[int, int]) -> torch.Tensor:
        outer = self._state()
        before = [tensor for tensor in segment.reads if tensor in self.tables.rng]
        if not before:
            self._generator().manual_seed(seed_of(self.seed, sequence // self.micro_batch))
        elif before[0] in self.rng_local:
            self._set_state(micro.tensors[before[0]][0])
        else:
            self._set_state(self.memory.bytes(reads[before[0]], outer.numel()).cpu().clone())
        return outer

    def _take_state(self, segment: SegmentTable, micro: _MicroBatch, outputs: Tuple[int, ...],
                    outer: torch.Tensor) -> None:
        for tensor, address in zip(segment.makes, outputs):
            if tensor not in self.tables.rng:
                continue
            state = self._state()
            if tensor in self.rng_local:
                micro.tensors[tensor] = [state]
            else:
                self.memory.bytes(address, state.numel()).copy_(state)
        self._set_state(outer)

    def _generator(self) -> torch.Generator:
        if self.device == "cuda":
            return torch.cuda.default_generators[torch.cuda.current_device()]
        return torch.default_generator

    def _state(self) -> torch.Tensor:
        return self._generator().get_state()

    def _set_state(self, state: torch.Tensor) -> None:
        self._generator().set_state(state)

    # -- ZeRO 3: parameters are gathered anew, perhaps elsewhere, before the backward

    @contextlib.contextmanager
    def _saving(self, segment: SegmentTable) -> Iterator[None]:
        addresses = self._saved_of

        def pack(tensor: torch.Tensor) -> Any:
            index = addresses.get(tensor.untyped_storage().data_ptr())
            if index is None or index not in segment.parameters:
                return tensor
            if tensor.is_conj() or tensor.is_neg():   # of complex numbers, whose bits a new view would not have
                return tensor.clone()
            return index, tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset()

        def unpack(saved: Any) -> torch.Tensor:
            if isinstance(saved, torch.Tensor):
                return saved
            index, dtype, shape, strides, offset = saved
            storage = self._gathered[index].untyped_storage()
            return torch.empty(0, dtype=dtype, device=self.device).set_(storage, offset, shape, strides)

        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            yield

    # -- backward

    def _backward(self, number: int, sequence: int, inputs: Tuple[int, ...], outputs: Tuple[int, ...],
                  overwrites: int, _factor: float) -> None:
        segment, micro = self.tables.segments[number], self._of(sequence)
        graph = micro.graphs.pop(number)
        if self._gathers:
            self._gathered = {index: self.memory.tensor(address, self.parameters[index].shape, self.storage)
                              for index, address in zip(segment.parameters, inputs)}
        arriving = self._arriving(segment, micro, inputs[segment.kept:])
        pairs = [(edge, arriving[tensor][at]) for tensor, at, edge in graph.made]
        pairs = [(edge, gradient) for edge, gradient in pairs if gradient is not None]
        wanted: List[Any] = [edge for _, _, edge in graph.taken] + [view for _, view in graph.parameters]
        found: Sequence[Optional[torch.Tensor]] = [None] * len(wanted)
        if pairs and wanted:
            found = torch.autograd.grad([edge for edge, _ in pairs], wanted, [gradient for _, gradient in pairs],
                                        allow_unused=True)
        self._send_back(segment, micro, graph, found, outputs, set(inputs[segment.kept:]))
        trained = [index for index in segment.parameters if self.parameters[index].requires_grad]
        first = len(outputs) - len(trained)
        gradients = dict(zip((index for index, _ in graph.parameters), found[len(graph.taken):]))
        for at, index in enumerate(trained, first):
            self._add_up(index, gradients.get(index), outputs[at], at < 32 and bool(overwrites >> at & 1))
        chunk = self.stage_of[number][1]
        micro.left.setdefault(chunk, self.backwards[chunk])
        micro.left[chunk] -= 1
        if micro.left[chunk] == 0:
            self._forget(sequence, micro, chunk)

    def _forget(self, sequence: int, micro: _MicroBatch, chunk: int) -> None:
        """Nothing of this chunk is needed any more."""
        if all(micro.left.get(each) == 0 for each in self.backwards):
            del self._micro[sequence]
            return
        for tensor in [each for each in micro.tensors if each not in self.tables.rng
                       and self.stage_of[self.tables.tensors[each].maker][1] == chunk]:
            del micro.tensors[tensor]

    def _arriving(self, segment: SegmentTable, micro: _MicroBatch,
                  addresses: Tuple[int, ...]) -> Dict[int, List[Optional[torch.Tensor]]]:
        made = [tensor for tensor in segment.makes if tensor not in self.tables.rng
                and self.tables.tensors[tensor].has_gradient]
        if len(made) != len(addresses):
            raise RuntimeError("segment {}: {} gradients arrive, {} are expected".format(
                segment.number, len(addresses), len(made)))
        found = {}
        for tensor, address in zip(made, addresses):
            held = micro.gradients.pop(tensor, None)
            found[tensor] = held if held is not None else self._at(self.tables.tensors[tensor], address)
        return found

    def _stays(self, tensor: int) -> bool:
        """Whether a gradient goes from one segment of this stage to another, and is not added to any."""
        return tensor in self.local and len([reader for reader in self.tables.tensors[tensor].readers
                                             if self.tables.segments[reader].has_backward]) == 1

    def _send_back(self, segment: SegmentTable, micro: _MicroBatch, graph: _Graph,
                   found: Sequence[Optional[torch.Tensor]], outputs: Tuple[int, ...], arrived: Set[int]) -> None:
        of_tensor: Dict[int, Dict[int, Optional[torch.Tensor]]] = {}
        for (tensor, at, _), gradient in zip(graph.taken, found):
            of_tensor.setdefault(tensor, {})[at] = gradient
        place = 0
        for tensor in segment.reads:
            if tensor in self.tables.rng or not self._is_differentiated(tensor):
                continue
            address = outputs[place]
            place += 1
            handed, gradients = self.tables.tensors[tensor], of_tensor.get(tensor, {})
            if self._stays(tensor):
                # The gradient of a summand is the tensor that arrived, whose memory the Runtime will use again,
                # so it is copied.
                micro.gradients[tensor] = [
                    each.clone() if each is not None and each.untyped_storage().data_ptr() in arrived else each
                    for each in (gradients.get(at) for at in range(len(handed.values)))]
                continue
            for at, view in enumerate(self._at(handed, address)):
                gradient = gradients.get(at)
                view.zero_() if gradient is None else view.copy_(gradient)

    def _is_differentiated(self, tensor: int) -> bool:
        return bool(self.tables.differentiated[tensor])

    def _add_up(self, index: int, gradient: Optional[torch.Tensor], address: int, overwrites: bool) -> None:
        parameter = self.parameters[index]
        key = (-1 - index, address)
        total = self._views.get(key)
        if total is None:
            total = self._views[key] = self.memory.tensor(address, parameter.shape, self._gradient_types[index])
        if gradient is None:
            if overwrites:
                total.zero_()
        elif overwrites:
            total.copy_(gradient)
        else:
            total.add_(gradient)

    # -- the loss, and sums of gradients

    def _loss(self, targets: int, sequence: int, _inputs: Tuple[int, ...], outputs: Tuple[int, ...],
              _overwrites: int, _factor: float) -> None:
        micro = self._of(sequence)
        loss = micro.tensors[self.tables.loss][0]
        kind = exact_type(self.storage)
        self.memory.tensor(outputs[0], (1,), kind).copy_(loss.reshape(1).to(kind) * targets)

    def _loss_grad(self, targets: int, sequence: int, inputs: Tuple[int, ...], _outputs: Tuple[int, ...],
                   _overwrites: int, factor: float) -> None:
        value = self.tables.tensors[self.tables.loss].values[0]
        gradient = torch.full(value.shape, factor * targets, dtype=value.dtype, device=self.device)
        if len(inputs) > 1:
            gradient *= self.memory.tensor(inputs[1], (1,), torch.float32).to(value.dtype).view(())
        self._of(sequence).gradients[self.tables.loss] = [gradient]

    def _add(self, count: int, _sequence: int, inputs: Tuple[int, ...], outputs: Tuple[int, ...],
             _overwrites: int, factor: float) -> None:
        dtype = _TYPES[int(factor)]
        first, second, total = (self.memory.bytes(address, count).view(dtype) for address in inputs + outputs)
        torch.add(first, second, out=total)

    def _pass_on(self, count: int, _sequence: int, inputs: Tuple[int, ...], outputs: Tuple[int, ...],
                 _overwrites: int, _factor: float) -> None:
        """A stage passes on what only a later one reads. It may be whole numbers, so its bytes are copied."""
        self.memory.bytes(outputs[0], count).copy_(self.memory.bytes(inputs[0], count))


def stream_of(stream: int) -> Any:
    """A context in which work goes to a stream of the Runtime; 0: it has none."""
    return torch.cuda.stream(torch.cuda.ExternalStream(stream)) if stream else contextlib.nullcontext()


def _gradient_types(info: Dict[str, Any], tables: Tables) -> Dict[int, torch.dtype]:
    """By index of a parameter: the type in which its gradients are summed."""
    types = {each["name"]: _TYPES[each["gradient_type"]] for each in info["parameters"] if each["trainable"]}
    return {index: types[name] for index, name in enumerate(tables.parameter_names) if name in types}


def seed_of(seed: int, micro_batch: int) -> int:
    """The seed of a micro-batch's random numbers, by its number since the run's first step.

    `torch.manual_seed(seed_of(seed, number))` before each micro-batch makes one process draw the same.
    """
    return (seed * 1000003 + micro_batch) % (1 << 63)


@contextlib.contextmanager
def _context_of(context: Context, device: str) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        if not context.gradients:
            stack.enter_context(torch.no_grad())
        if context.autocast is not None:
            stack.enter_context(torch.autocast(device, dtype=context.autocast))
        yield


def _called(call: Call, environment: Dict[int, Any], device: str) -> Any:
    place = torch.device(device)
    return call.target(*filled(call.args, environment, place), **filled(call.kwargs, environment, place))
