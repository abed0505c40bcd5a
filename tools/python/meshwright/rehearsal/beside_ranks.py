"""One rank of many: most others are not there, and hold what this one does.

A script's process group is made as always, with NCCL, whose stand-in answers. What ranks tell each
other beside it (a store, groups of the CPU, objects) comes from this rank alone. Only what it sends to
or receives from one other rank is between the two (roles.py).
"""

from __future__ import annotations

import copy
import ctypes
import datetime
import importlib
import os
from typing import Any, Dict, Iterator, List

import torch.distributed as dist

from .messages import pass_messages, replace
from .roles import Roles

__all__ = ["expect", "join", "ranks_of_groups", "sizes_of_groups"]

_ID_BYTES = 128   # bytes of an ncclUniqueId


class _AloneStore(dist.Store):
    """A store that has every key: what nobody here has set, another rank would have."""

    def __init__(self) -> None:
        super().__init__()
        self._values: Dict[str, bytes] = {}

    def set(self, key: str, value: Any) -> None:
        self._values[key] = value if isinstance(value, bytes) else str(value).encode()

    def get(self, key: str) -> bytes:
        return self._values.get(key, b"\0" * _ID_BYTES)

    def add(self, key: str, amount: int) -> int:
        # Scripts count the ranks that have arrived. All the others have, so the amount is added for each rank.
        value = int(self._values.get(key, b"0")) + amount * (dist.get_world_size() if dist.is_initialized() else _ranks)
        self._values[key] = str(value).encode()
        return value

    def compare_set(self, key: str, expected: Any, desired: Any) -> bytes:
        self.set(key, desired)
        return self.get(key)

    def wait(self, keys: List[str], timeout: Any = None) -> None:
        return None

    def check(self, keys: List[str]) -> bool:
        return True

    def delete_key(self, key: str) -> bool:
        return self._values.pop(key, None) is not None

    def num_keys(self) -> int:
        return len(self._values)

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        return None

    def has_extended_api(self) -> bool:
        return False


_ranks = 1


def expect(ranks: int) -> None:
    """Says how many ranks the script has started itself."""
    global _ranks
    _ranks = max(_ranks, ranks)


def join(ranks: int, per_host: int, roles: Roles, launched: bool) -> None:
    """Sets what torchrun would if it `launched` the script, for one rank too, and answers for the other ranks."""
    global _ranks
    _ranks, rank = ranks, roles.rank
    if launched or ranks > 1:
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank % per_host),
                          LOCAL_WORLD_SIZE=str(min(per_host, ranks)), GROUP_RANK=str(rank // per_host),
                          MASTER_ADDR="127.0.0.1", MASTER_PORT="29500", TORCHELASTIC_RUN_ID="rehearsal")
    made = dist.init_process_group

    def init_process_group(backend: Any = None, init_method: Any = None, timeout: Any = None, world_size: int = -1,
                           rank: int = -1, store: Any = None, group_name: str = "", pg_options: Any = None,
                           device_id: Any = None, **more: Any) -> None:
        # `device_id` is not passed on, because groups that are split from one that is bound to a device do not
        # tell which ranks are in them.
        made(_without_gloo(backend), timeout=timeout, world_size=world_size if world_size > 0 else ranks,
             rank=rank if rank >= 0 else int(os.environ.get("RANK", "0")), store=_AloneStore(), group_name=group_name,
             pg_options=pg_options, **more)

    replace("init_process_group", init_process_group)
    _meet_alone()
    _wrap_groups()
    pass_messages(roles)
    for name, answer in (("all_gather_object", _all_gather_object), ("broadcast_object_list", _nothing),
                         ("gather_object", _gather_object), ("scatter_object_list", _scatter_object_list),
                         ("monitored_barrier", _nothing)):
        replace(name, answer)


def _meet_alone() -> None:
    """Whoever asks for a place to meet the other ranks gets a store that has heard of them all."""
    def met(*_args: Any, **_kwargs: Any) -> Iterator[Any]:
        yield _AloneStore(), int(os.environ.get("RANK", "0")), _ranks

    handlers = importlib.import_module("torch.distributed.rendezvous")._rendezvous_handlers
    handlers.update({scheme: met for scheme in ("env", "tcp", "file")})


def ranks_of_groups() -> Dict[str, List[int]]:
    """The global ranks of each process group by its name, in the order of the group."""
    world = dist.distributed_c10d._world
    return {str(world.pg_names[group]): sorted(ranks, key=ranks.__getitem__)
            for group, ranks in world.pg_group_ranks.items() if group in world.pg_names}


def sizes_of_groups() -> Dict[str, int]:
    """How many ranks each process group has, by what it is for."""
    world = dist.distributed_c10d._world
    return {str(getattr(group, "group_desc", "")): len(ranks) for group, ranks in world.pg_group_ranks.items()}


def _wrap_groups() -> None:
    """Makes groups without Gloo, and tells the stand-in of NCCL how many ranks each part of a split has."""
    next_split = ctypes.CDLL(None).meshwright_stand_in_next_split
    grouped, split = dist.new_group, dist.split_group

    def new_group(ranks: Any = None, timeout: Any = None, backend: Any = None, *rest: Any, **more: Any) -> Any:
        if ranks is not None and dist.get_rank() in ranks:
            next_split(len(ranks), sorted(ranks).index(dist.get_rank()))
        return grouped(ranks, timeout, backend if backend is None else _without_gloo(backend), *rest, **more)

    def split_group(parent_pg: Any = None, split_ranks: Any = None, *rest: Any, **more: Any) -> Any:
        own = dist.get_rank(parent_pg)
        for ranks in split_ranks or ():
            if own in ranks:
                next_split(len(ranks), list(ranks).index(own))
        return split(parent_pg, split_ranks, *rest, **more)

    replace("new_group", new_group)
    replace("split_group", split_group)


def _without_gloo(backend: Any) -> Any:
    """Groups of the CPU answer at once: Gloo would wait for the others."""
    if backend is None:
        return "cpu:fake,cuda:nccl"
    import torch.testing._internal.distributed.fake_pg  # noqa: F401 (registers "fake")
    return str(backend).replace("gloo", "fake")


def _all_gather_object(objects: List[Any], own: Any, group: Any = None) -> None:
    objects[:] = [copy.deepcopy(own) for _ in objects]


def _gather_object(own: Any, objects: Any = None, dst: int = 0, group: Any = None, **_more: Any) -> None:
    if objects is not None:
        objects[:] = [copy.deepcopy(own) for _ in objects]


def _scatter_object_list(result: List[Any], objects: Any = None, src: int = 0, group: Any = None, **_more: Any) -> None:
    if objects:
        result[0] = objects[0]


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    return None
