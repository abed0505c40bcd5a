"""Records what runs: the kernels of each call, and when memory is allocated and freed.

`Recorder` is a `TorchDispatchMode`. It works on any tensors: real ones, fake ones, and those of the meta
device. Rehearsing a whole script needs no more than this file and `kernels.py`.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, NamedTuple, Tuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import kernels

__all__ = ["Event", "Recorder", "FORWARD", "BACKWARD"]

FORWARD, BACKWARD = 0, 1


class Event(NamedTuple):
    """One operation that ran. Tensors are (number of their storage, distinct bytes)."""

    phase: int
    call: int
    kernels: List[kernels.Kernel]
    reads: Tuple[Tuple[int, int], ...]
    writes: Tuple[Tuple[int, int], ...]
    fuses: bool
    random: bool


class Recorder(TorchDispatchMode):
    """Writes `events`, one for each operation that runs a kernel, and `memory`, (storage, +1 or -1, phase, call).

    `call` and `phase` say what runs now; who drives the recorder sets them. During the backward pass
    `call_of`, a function of the sequence number of autograd's node, says whose gradient is computed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.events: List[Event] = []
        self.memory: List[Tuple[int, int, int, int]] = []
        self.sizes: List[int] = []       # bytes, by number of the storage
        self.phase, self.call = FORWARD, 0
        self.call_of: Any = None
        self._numbers: Dict[int, int] = {}
        self._alive: Dict[int, Any] = {}

    def storage(self, tensor: torch.Tensor) -> int:
        """The number of a tensor's storage; a new one is noted as allocated now."""
        storage = tensor.untyped_storage()
        address = storage._cdata
        number = self._numbers.get(address)
        if number is None:
            number = self._numbers[address] = len(self.sizes)
            self.sizes.append(storage.nbytes())
            self.memory.append((number, 1, self.phase, self.call))

            def freed(_: Any) -> None:
                del self._numbers[address], self._alive[number]
                self.memory.append((number, -1, self.phase, self.call))

            self._alive[number] = weakref.ref(storage, freed)
        return number

    def is_alive(self, number: int) -> bool:
        return number in self._alive

    def note(self, func: Any, args: Any, kwargs: Dict[str, Any], out: Any) -> None:
        """Records one operation, as if it had run here."""
        ran = kernels.kernels_of(func, args, kwargs, out)
        writes = [(self.storage(each), kernels.bytes_of(each)) for each in kernels.tensors_in(out)]
        if not ran:
            return
        reads = [(self.storage(each), kernels.bytes_of(each)) for each in kernels.tensors_in((args, kwargs))]
        writes += [(self.storage(each), kernels.bytes_of(each)) for each in kernels.written_by(func, args, kwargs)]
        self.events.append(Event(self.phase, self.call, ran, tuple(dict.fromkeys(reads)),
                                 tuple(dict.fromkeys(writes)), kernels.can_fuse(func),
                                 kernels.is_random(func, args, kwargs)))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.prim.device.default:
            return args[0].fake_device if hasattr(args[0], "fake_device") else func(*args)
        out = func(*args, **kwargs)
        if self.call_of is not None:
            node = torch._C._current_autograd_node()
            if node is not None:
                call = self.call_of(node._sequence_nr())
                if call is not None:
                    self.call = call
        self.note(func, args, kwargs, out)
        return out
