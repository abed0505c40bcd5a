"""`smp.init`, and where this rank is: ranks, sizes and groups, as the library counts them.

The dictionary of `smp.init` is the `parameters` of a job's `distribution`: the same keys act, are refused or
warned of as in `meshwright plan` (docs/job-file.md). Ranks exchange objects and answer for process groups by
torch.distributed, over gloo between CPUs and NCCL between GPUs; training has its own communicators.
"""

from __future__ import annotations

import atexit
import enum
import json
import os
import socket
import sys
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

import torch
import torch.distributed as dist

import meshwright.torch as mw
from meshwright.torch import distributed

from .refusals import Refused

__all__ = ["CommGroup", "RankType", "here", "init", "is_initialized", "is_tracing", "local_rank", "local_size", "rank",
           "size"]


class CommGroup(enum.Enum):
    """The groups that a message or a barrier may name."""

    WORLD = "world"
    MP_GROUP = "mp"
    DP_GROUP = "dp"
    TP_GROUP = "tp"
    PP_GROUP = "pp"
    RDP_GROUP = "rdp"


class RankType(enum.Enum):
    """What a rank of `send` and `recv_from` counts."""

    WORLD_RANK = "world"
    MP_RANK = "mp"
    DP_RANK = "dp"
    TP_RANK = "tp"
    PP_RANK = "pp"
    RDP_RANK = "rdp"


class Group(NamedTuple):
    """A group that this rank belongs to."""

    ranks: List[int]
    of_torch: Any

    @property
    def rank(self) -> int:
        return self.ranks.index(mw.rank())

    @property
    def size(self) -> int:
        return len(self.ranks)


class World:
    """The degrees of the job, and this rank's groups."""

    def __init__(self, job: Dict[str, Any], parameters: Dict[str, Any], version: int) -> None:
        self.job, self.parameters, self.version = job, parameters, version
        self.pipeline, self.placement = _degree(job, parameters), _placement(job, parameters)
        size = mw.size()
        if size % self.pipeline:
            raise ValueError("smp.init: pipeline_parallel_degree {} does not divide the {} processes; use a divisor, or "
                             "start another number".format(self.pipeline, size))
        self.data = size // self.pipeline
        self.groups = self._groups()
        self.model: Any = None
        self.optimizer: Any = None
        self.tracing = False
        self.stages: Dict[int, Tuple[Any, int]] = {}   # by id: modules that were put on a stage by hand
        self.checkpointed: List[Any] = []              # modules whose activations are recomputed

    def rank_of(self, stage: int, replica: int) -> int:
        """The rank of a stage of a replica, by the placement."""
        place = {"P": (stage, self.pipeline), "D": (replica, self.data), "T": (0, 1)}
        number = 0
        for letter in self.placement:
            number = number * place[letter][1] + place[letter][0]
        return number

    def _groups(self) -> Dict[str, Group]:
        replicas = [[self.rank_of(stage, replica) for stage in range(self.pipeline)] for replica in range(self.data)]
        stages = [[self.rank_of(stage, replica) for replica in range(self.data)] for stage in range(self.pipeline)]
        everybody = [list(range(mw.size()))]
        alone = [[each] for each in everybody[0]]
        made = {name: _group_of_this_rank(groups) for name, groups in
                (("pp", replicas), ("dp", stages), ("tp", alone), ("world", everybody))}
        made.update(mp=made["pp"], rdp=made["dp"])   # the tensor degree is 1
        return made


_world: Optional[World] = None


def here() -> World:
    if _world is None:
        raise RuntimeError("smp: call smp.init() first")
    return _world


def _group_of_this_rank(groups: List[List[int]]) -> Group:
    found = None
    for ranks in groups:
        group = dist.group.WORLD if len(ranks) == mw.size() else dist.new_group(ranks)
        if mw.rank() in ranks:
            found = Group(ranks, group)
    assert found is not None
    return found


def _degree(job: Mapping[str, Any], parameters: Mapping[str, Any]) -> int:
    native = job.get("parallelism")
    if native is not None:
        pipeline = native.get("pipeline", 1) if isinstance(native, Mapping) else native
        if not isinstance(pipeline, int):
            raise Refused("smp.init: the job leaves parallelism.pipeline to the planner, but a script of this library "
                          "asks for its ranks before the plan is made; write the pipeline degree into the job")
        return pipeline
    for key in ("tensor_parallel_degree", "context_parallel_degree", "expert_parallel_degree"):
        if parameters.get(key, 1) != 1:
            raise Refused("smp.init: {} {}: the operations of a captured model are not divided; use 1 and more stages "
                          "or sharded data parallelism, or train a known architecture from its config.json by "
                          "`meshwright train`, which divides tensors".format(key, parameters[key]))
    given = [parameters[key] for key in ("pipeline_parallel_degree", "partitions") if key in parameters]
    if not all(isinstance(each, int) and each >= 1 for each in given):
        raise ValueError("smp.init: pipeline_parallel_degree must be a positive integer")
    return given[0] if given else 1


def _placement(job: Mapping[str, Any], parameters: Mapping[str, Any]) -> str:
    native = job.get("parallelism")
    if isinstance(native, Mapping):
        word = native.get("placement", "PDT")
    else:
        word = parameters.get("placement_strategy", "cluster")
    placement = {"cluster": "DPT", "spread": "TPD"}.get(word, word)
    if sorted(placement) != ["D", "P", "T"]:
        raise ValueError("smp.init: placement_strategy {!r}: use cluster, spread or an order of D, P and T".format(word))
    return placement


def _parameters(config: Optional[Mapping[str, Any]], job: Mapping[str, Any]) -> Dict[str, Any]:
    """The script's dictionary, whose keys the launch overrides."""
    found = dict(config or {})
    launch = job.get("distribution", {}).get("smdistributed", {}).get("modelparallel", {}).get("parameters", {})
    if isinstance(launch, str):
        with open(launch, encoding="utf-8") as file:
            launch = json.load(file)
    found.update(launch)
    found.update(json.loads(os.environ.get("SM_HP_MP_PARAMETERS") or "{}"))
    return found


def _meet() -> None:
    """Process groups of torch.distributed, unless the script has made them."""
    if dist.is_initialized():
        return
    if mw.size() == 1:
        store: Any = dist.HashStore()
    else:
        host = "127.0.0.1" if local_size() == mw.size() else socket.gethostname()
        if mw.rank() == 0:
            store = dist.TCPStore(host, 0, mw.size(), True, wait_for_workers=False)
        address = distributed._common_text("{} {}".format(host, store.port) if mw.rank() == 0 else "").split()
        if mw.rank() != 0:
            store = dist.TCPStore(address[0], int(address[1]), mw.size(), False)
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    hook = sys.excepthook   # torch.distributed's would keep the text of an exception that ends all ranks
    dist.init_process_group(backend, store=store, rank=mw.rank(), world_size=mw.size())
    sys.excepthook = hook
    atexit.register(_part)


def _part() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def init(config: Optional[Mapping[str, Any]] = None, version: int = 1) -> None:
    """Starts the library; the first call of a script, on all ranks. `version` is that of its dictionary.

    `config` has the keys of docs/job-file.md, "Version 1 parameters". Those of the launch
    (SM_HP_MP_PARAMETERS, or the job of `meshwright launch`) override it. A job with `parallelism` replaces it.
    """
    global _world
    job = distributed._read_job(None)
    parameters = _parameters(config, job)
    mw.init(job)
    if "parallelism" in job and parameters and mw.rank() == 0:
        print("smp.init: the job of the launch has `parallelism`, which replaces the script's dictionary")
    _meet()
    _world = World(job, parameters, version)
    world = distributed._here()
    world.job = {**{key: value for key, value in job.items() if key != "distribution"},
                 "parallelism": job.get("parallelism") or {"pipeline": _world.pipeline, "data": _world.data,
                                                           "placement": _world.placement}}


def close() -> None:
    """Forgets model and optimizer, so that `init` may be called again in this process. Every rank calls it."""
    global _world
    if _world is not None and _world.model is not None:
        _world.model.close()
    _world = None


def is_initialized() -> bool:
    """Whether `init` was called."""
    return _world is not None


def is_tracing() -> bool:
    """Whether a step function is being captured, which calls the model without values."""
    return _world is not None and _world.tracing


def rank() -> int:
    """This process's number among all."""
    here()
    return mw.rank()


def size() -> int:
    """The number of processes."""
    here()
    return mw.size()


def local_rank() -> int:
    """This process's number among those of its host."""
    return mw.local_rank()


def local_size() -> int:
    """The number of processes of this host."""
    return int(os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE", "1"))


def _asks(read: Callable[[Any], Any], what: str, name: str) -> Callable[[], Any]:
    """A function of the library that tells something of one of this rank's groups."""
    def ask() -> Any:
        return read(here().groups[name])
    ask.__doc__ = what.format(name)
    return ask


_OF_GROUPS: Tuple[Tuple[str, Callable[[Any], Any], str], ...] = (
    ("{}_rank", lambda group: group.rank, "This rank's place in its {} group."),
    ("{}_size", lambda group: group.size, "The size of this rank's {} group."),
    ("get_{}_group", lambda group: list(group.ranks), "The ranks of this rank's {} group."),
    ("get_{}_process_group", lambda group: group.of_torch, "This rank's {} group, for torch.distributed."))

# Defines pp_rank, pp_size, get_pp_group, get_pp_process_group and the same functions of the other groups. The
# group `world` has only the last two here.
for _name in ("tp", "pp", "rdp", "mp", "dp", "world"):
    for _word, _read, _what in _OF_GROUPS:
        if _name != "world" or _word.startswith("get"):
            globals()[_word.format(_name)] = _asks(_read, _what, _name)
            __all__.append(_word.format(_name))
WORLD, MP_GROUP, DP_GROUP, TP_GROUP, PP_GROUP, RDP_GROUP = CommGroup
__all__ += [each.name for each in CommGroup]
