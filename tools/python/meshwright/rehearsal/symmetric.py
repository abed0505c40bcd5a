"""PyTorch's symmetric memory without the other ranks: their buffers are addresses, and a barrier is a launch.

Asynchronous tensor parallelism pulls parts of other ranks' buffers by copies, between parts of a matrix product. The
library logs such a copy as a message (tools/stand_in/peers.h).
"""

from __future__ import annotations

import ctypes
from typing import Any, Dict, Sequence

import torch

from .after_import import after_import

__all__ = ["make_symmetric_memory"]


class _Addresses:
    """Bytes of the GPU at an address, as `torch.as_tensor` takes them."""

    def __init__(self, address: int, count: int) -> None:
        self.__cuda_array_interface__ = {"shape": (count,), "typestr": "|u1", "data": (address, False), "version": 2}


class _Workspace:
    """What `get_symm_mem_workspace` returns: one buffer of each rank of a group."""

    def __init__(self, group: Any, count: int) -> None:
        dist = torch.distributed
        ranks = dist.get_process_group_ranks(group)
        self.rank, self.world_size, self.buffer_size = dist.get_rank(group), len(ranks), count
        library = ctypes.CDLL(None)
        library.meshwright_stand_in_peer_memory.restype = ctypes.c_void_p
        self._buffers = [
            torch.empty(count, dtype=torch.uint8, device="cuda") if place == self.rank else
            torch.as_tensor(_Addresses(library.meshwright_stand_in_peer_memory(ctypes.c_size_t(count), each), count),
                            device="cuda")
            for place, each in enumerate(ranks)]

    def get_buffer(self, rank: int, sizes: Sequence[int], dtype: Any, storage_offset: int = 0) -> torch.Tensor:
        count = dtype.itemsize
        for size in sizes:
            count *= size
        begin = storage_offset * dtype.itemsize
        return self._buffers[rank][begin:begin + count].view(dtype).view(tuple(sizes))

    def barrier(self, channel: int = 0, timeout_ms: int = 0) -> None:
        torch.cuda._sleep(1)


def make_symmetric_memory() -> None:
    after_import("torch.distributed._symmetric_memory", _change)


def _change(module: Any) -> None:
    workspaces: Dict[str, _Workspace] = {}

    def get_symm_mem_workspace(group_name: str, min_size: int) -> _Workspace:
        found = workspaces.get(group_name)
        if found is None or found.buffer_size < min_size:
            group = torch.distributed.distributed_c10d._resolve_process_group(group_name)
            found = workspaces[group_name] = _Workspace(group, min_size)
        return found

    module.get_symm_mem_workspace = get_symm_mem_workspace
