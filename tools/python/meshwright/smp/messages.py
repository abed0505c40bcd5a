"""Objects that ranks hand to each other, and barriers. All calls wait until they are done."""

from __future__ import annotations

import pickle
from typing import Any, List, Union

import torch
import torch.distributed as dist

from .world import CommGroup, Group, RankType, here

__all__ = ["allgather", "barrier", "broadcast", "dp_barrier", "mp_barrier", "pp_barrier", "rdp_barrier", "recv_from",
           "send", "tp_barrier"]


def _group(group: CommGroup) -> Group:
    return here().groups[group.value]


def _rank(number: int, kind: RankType) -> int:
    return here().groups[kind.value].ranks[number]


def _send(obj: Any, to: int) -> None:
    data = bytearray(pickle.dumps(obj))
    dist.send(torch.tensor([len(data)]), to)
    dist.send(torch.frombuffer(data, dtype=torch.uint8), to)


def send(obj: Any, dest_rank: int, rank_type: RankType) -> None:
    """Sends an object to a rank, which calls recv_from."""
    _send(obj, _rank(dest_rank, rank_type))


def recv_from(src_rank: int, rank_type: RankType) -> Any:
    """The object that a rank sends or broadcasts to this one."""
    source, length = _rank(src_rank, rank_type), torch.zeros(1, dtype=torch.int64)
    dist.recv(length, source)
    data = torch.empty(int(length), dtype=torch.uint8)
    dist.recv(data, source)
    return pickle.loads(data.numpy().tobytes())


def broadcast(obj: Any, group: CommGroup) -> None:
    """Sends an object to all other ranks of a group. They call recv_from."""
    own = _group(group)
    for place, to in enumerate(own.ranks):
        if place != own.rank:
            _send(obj, to)


def allgather(obj: Any, group: CommGroup) -> List[Any]:
    """The objects of all ranks of a group, in its order."""
    own = _group(group)
    found: List[Any] = [None] * own.size
    dist.all_gather_object(found, obj, group=own.of_torch)
    return found


def barrier(group: Union[CommGroup, None] = CommGroup.WORLD) -> None:
    """Returns when all ranks of a group have called it."""
    dist.barrier(group=_group(group or CommGroup.WORLD).of_torch)


def _barrier_of(group: CommGroup) -> Any:
    def barrier_of() -> None:
        barrier(group)
    barrier_of.__doc__ = "A barrier of this rank's {} group.".format(group.value)
    return barrier_of


dp_barrier, mp_barrier, pp_barrier, tp_barrier, rdp_barrier = [_barrier_of(each) for each in (
    CommGroup.DP_GROUP, CommGroup.MP_GROUP, CommGroup.PP_GROUP, CommGroup.TP_GROUP, CommGroup.RDP_GROUP)]


def shared(tensors: List[torch.Tensor], root: int, group: Group) -> List[torch.Tensor]:
    """The tensors of rank `root`, on all ranks of the group. The others' own are not looked at."""
    if group.size == 1:
        return tensors
    from_root = torch.distributed.get_rank() == root
    head: List[Any] = [[(tuple(each.shape), each.dtype, each.device.type) for each in tensors]] if from_root else [None]
    dist.broadcast_object_list(head, src=root, group=group.of_torch)
    found = []
    for place, (shape, dtype, device) in enumerate(head[0]):
        each = tensors[place].detach().contiguous() if from_root else torch.empty(shape, dtype=dtype, device=device)
        if each.numel():   # gloo knows few types
            flat = each.reshape(-1).view(torch.uint8) if each.dtype != torch.bool else each.reshape(-1).byte()
            dist.broadcast(flat, src=root, group=group.of_torch)
            if each.dtype == torch.bool and not from_root:
                each = flat.bool().view(shape)
        found.append(tensors[place] if from_root else each)
    return found
