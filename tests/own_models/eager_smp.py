#!/usr/bin/env python3
"""Runs a script of SageMaker's library in this process by eager PyTorch, to compare meshwright.smp with.

    python tests/own_models/eager_smp.py MICRO_BATCHES SCRIPT ARGS...

It has the names that tests/own_models/scripts use. One process takes the micro-batches of all replicas, in their
order, with the random numbers that a plan gives them.
"""

import contextlib
import os
import runpy
import sys
import types

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.distributed as dist

from meshwright.smp.outputs import Arguments, StepOutput, of_micro_batches
from meshwright.torch.segment_runner import seed_of

torch.set_num_threads(1)
smp = types.ModuleType("meshwright.smp")
world = types.SimpleNamespace(model=None, optimizer=None, micro_batches=1, number=0, seed=None)


class DistributedModel:
    def __init__(self, module, **_):
        self.module = world.model = module
        self.factor = 1

    def __call__(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def backward(self, loss):
        (loss / world.micro_batches).backward()

    def train(self, mode=True):
        self.module.train(mode)
        return self

    def eval(self):
        return self.train(False)

    def get_module(self):
        return self.module

    def local_state_dict(self):
        return self.module.state_dict()

    state_dict = local_state_dict

    def __getattr__(self, name):
        return getattr(self.module, name)


class DistributedOptimizer:
    def __init__(self, optimizer, **_):
        self.optimizer = world.optimizer = optimizer
        self.overflow = False

    @property
    def __class__(self):
        return type(self.optimizer)

    def step(self):
        self.optimizer.step()

    def __getattr__(self, name):
        return getattr(self.optimizer, name)

    def local_state_dict(self):
        return {}


def step(function):
    def run(*args, **kwargs):
        arguments = Arguments(function, args, kwargs, set(), {})
        trains = world.model.training and torch.is_grad_enabled()
        results = []
        if trains and world.seed is None:
            world.seed = int(torch.initial_seed() % (1 << 31))
        for place, tensors in enumerate(arguments.micro_batches(world.micro_batches)):
            if trains:
                outer = torch.get_rng_state()
                torch.manual_seed(seed_of(world.seed, world.number + place))
            given, named = arguments.of_micro_batch(place, world.micro_batches, tensors)
            results.append(function(*given, **named))
            if trains:
                torch.set_rng_state(outer)
        world.number += world.micro_batches if trains else 0
        if trains:
            for each in world.model.parameters():
                if each.requires_grad and each.grad is None:
                    each.grad = torch.zeros_like(each)
        return of_micro_batches(results)
    return run


def init(config=None):
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


def nothing(*_, **__):
    return None


@contextlib.contextmanager
def context(*_, **__):
    yield


def save_checkpoint(path, tag, partial=True, user_content=None, **_):
    os.makedirs(path, exist_ok=True)
    if not partial:
        torch.save(world.model.state_dict(), os.path.join(path, tag))
        return
    torch.save((world.model.state_dict(), world.optimizer.state_dict(), world.number, user_content),
               os.path.join(path, "eager"))


def resume_from_checkpoint(path, **_):
    model, optimizer, world.number, content = torch.load(os.path.join(path, "eager"), weights_only=False)
    world.model.load_state_dict(model)
    world.optimizer.load_state_dict(optimizer)
    return content


def names():
    found = {"init": init, "step": step, "DistributedModel": DistributedModel, "StepOutput": StepOutput,
             "DistributedOptimizer": DistributedOptimizer, "save_checkpoint": save_checkpoint,
             "resume_from_checkpoint": resume_from_checkpoint, "is_initialized": dist.is_initialized,
             "model_creation": context, "partition": context, "delay_param_initialization": context, "allgather": lambda each, group: [each],
             "get_dp_process_group": lambda: dist.group.WORLD, "save": nothing, "load": nothing}
    for name in ("barrier", "set_partition", "set_activation_checkpointing", "broadcast", "close"):
        found[name] = nothing
    for name in ("", "local_", "pp_", "dp_", "rdp_", "tp_", "mp_"):
        found[name + "rank"], found[name + "size"] = (lambda: 0), (lambda: 1)
    for name in ("WORLD", "DP_GROUP", "PP_GROUP"):
        found[name] = name
    import meshwright.smp as real
    found.update(amp=real.amp, nn=real.nn, optimizers=real.optimizers, RankType=real.RankType)
    return found


def main():
    world.micro_batches = int(sys.argv[1])
    for name, value in names().items():
        setattr(smp, name, value)
    import meshwright
    meshwright.smp = sys.modules["meshwright.smp"] = smp
    sys.argv = sys.argv[2:]
    sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
