"""Sends and receives between two ranks, each of which is a process here (roles.py).

The stand-in of NCCL logs a message with the other rank. Small ones of whole numbers and bytes arrive, for
scripts tell each other shapes, sizes and objects by them.
"""

from __future__ import annotations

import ctypes
import pickle
from typing import Any, List

import torch
import torch.distributed as dist
from torch.distributed import device_mesh

from .roles import Roles

__all__ = ["pass_messages", "replace"]

_MOST_BYTES = 1 << 20   # the same limit as the stand-in has for copies
_PASSED = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool)


def replace(name: str, function: Any) -> None:
    """In every module of torch.distributed that has it under this name: some have it from before."""
    for module in (dist, dist.distributed_c10d, device_mesh):
        if hasattr(module, name):
            setattr(module, name, function)


def pass_messages(roles: Roles) -> None:
    """Has the ranks run that this one sends to or receives from, and passes what is small to them."""
    messages = _Messages(roles)
    for function in (messages.isend, messages.irecv, messages.batch_isend_irecv, messages.broadcast):
        replace(function.__name__, function)
    for name in ("send_object_list", "recv_object_list"):
        replace(name, getattr(messages, name))


class _Messages:
    def __init__(self, roles: Roles) -> None:
        self._roles = roles
        self._library = ctypes.CDLL(None)
        self._library.meshwright_stand_in_move.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
        self._isend, self._irecv, self._batch, self._broadcast = dist.isend, dist.irecv, dist.batch_isend_irecv, dist.broadcast
        self._waits = True      # false in a batch, whose sends come first
        # PyTorch compares the functions in a batch with its own two, so each replacement is made only once.
        self.isend, self.irecv = self._sending(), self._receiving()
        self.batch_isend_irecv = self._batching()
        self.broadcast = self._broadcasting()

    def _sending(self) -> Any:
        def isend(tensor: Any, dst: Any = None, group: Any = None, tag: int = 0, group_dst: Any = None) -> Any:
            peer = _global_rank(group, dst, group_dst)
            if self._is_there(peer) and _is_passed(tensor):
                self._roles.put(peer, self._read(tensor))
            return self._with(peer, tensor, lambda: self._isend(tensor, dst, group, tag, group_dst))
        return isend

    def _receiving(self) -> Any:
        def irecv(tensor: Any, src: Any = None, group: Any = None, tag: int = 0, group_src: Any = None) -> Any:
            peer = _global_rank(group, src, group_src)
            there = self._is_there(peer)
            work = self._with(peer, tensor, lambda: self._irecv(tensor, src, group, tag, group_src))
            if there and self._waits:
                self._fill(tensor, peer)
            return work
        return irecv

    def _batching(self) -> Any:
        def batch_isend_irecv(p2p_op_list: List[Any]) -> Any:
            self._waits = False
            self._library.meshwright_stand_in_peer(-1)
            try:
                works = self._batch(p2p_op_list)
            finally:
                self._waits = True
            for each in p2p_op_list:
                if each.op is self.irecv and self._is_there(each.peer):
                    self._fill(each.tensor, each.peer)
            return works
        return batch_isend_irecv

    def _broadcasting(self) -> Any:
        """What rank 0 tells all ranks decides what they do, such as whether they train: stages of their own hear it."""
        def broadcast(tensor: Any, src: Any = None, group: Any = None, async_op: bool = False, group_src: Any = None) -> Any:
            work = self._broadcast(tensor, src, group, async_op, group_src)
            if group in (None, dist.group.WORLD) and _global_rank(group, src, group_src) == 0 and _is_passed(tensor):
                if self._roles.rank == 0:
                    self._roles.tell(self._read(tensor))
                else:
                    self._write(tensor, self._roles.told())
            return work
        return broadcast

    # PyTorch sends the sizes of objects as tensors, whose values are not computed here, so objects are passed
    # on directly.
    def send_object_list(self, object_list: List[Any], dst: Any = None, group: Any = None, device: Any = None,
                         group_dst: Any = None, **_more: Any) -> None:
        peer = _global_rank(group, dst, group_dst)
        if self._is_there(peer):
            self._roles.put(peer, pickle.dumps(object_list))

    def recv_object_list(self, object_list: List[Any], src: Any = None, group: Any = None, device: Any = None,
                         group_src: Any = None, **_more: Any) -> int:
        peer = _global_rank(group, src, group_src)
        if self._is_there(peer):
            object_list[:] = pickle.loads(self._roles.get(peer))
        return peer

    def _is_there(self, peer: int) -> bool:
        return peer != self._roles.rank and self._roles.ask_for(peer)

    def _with(self, peer: int, tensor: Any, call: Any) -> Any:
        """Calls, when the stand-in of NCCL knows who the other rank is. In a batch its turn comes at the end."""
        if self._waits:
            self._library.meshwright_stand_in_peer(-1)
        if tensor.is_cuda:
            self._library.meshwright_stand_in_peer(peer)
        return call()

    def _fill(self, tensor: Any, peer: int) -> None:
        if _is_passed(tensor):
            self._write(tensor, self._roles.get(peer))

    def _write(self, tensor: Any, value: bytes) -> None:
        self._library.meshwright_stand_in_move(tensor.data_ptr(), value, min(len(value), _bytes(tensor)))

    def _read(self, tensor: Any) -> bytes:
        value = ctypes.create_string_buffer(_bytes(tensor))
        self._library.meshwright_stand_in_move(value, tensor.data_ptr(), _bytes(tensor))
        return value.raw


def _bytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def _is_passed(tensor: Any) -> bool:
    return tensor.dtype in _PASSED and tensor.is_contiguous() and _bytes(tensor) <= _MOST_BYTES


def _global_rank(group: Any, rank: Any, in_group: Any) -> int:
    if rank is not None:
        return int(rank)
    return int(dist.get_global_rank(group or dist.group.WORLD, in_group))
