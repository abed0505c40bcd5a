#!/usr/bin/env python3
"""Trains own models under layouts of several ranks, and compares with eager PyTorch over the same micro-batches.

    mpirun -n 4 python tests/own_models/train.py [--models A,B] [--layouts pipeline_data,...] [--steps 10]

Every rank runs this file. Rank 0 also trains the model alone, and prints one line for each model and layout.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.simplefilter("ignore")

import torch

import zoo
import meshwright.torch as mw
from meshwright.torch.exporting import Step, _as_in_training

torch.set_num_threads(1)
MICRO_BATCHES = 8        # of a step
LOSS, PARAMETERS = 2e-5, 1e-4
LAYOUTS = {
    "pipeline_data": {"pipeline": 2, "data": 2, "zero_stage": 1},
    "stages": {"pipeline": 4, "data": 1},
    "interleaved": {"pipeline": 2, "data": 2, "virtual_stages": 2, "schedule": "interleaved"},
    "zero_bubble": {"pipeline": 4, "data": 1, "schedule": "zero_bubble"},
    "zero_3": {"pipeline": 1, "data": 4, "zero_stage": 3},
    "recompute": {"pipeline": 2, "data": 2, "recompute": "full"},
}
RESUMED_AS = {"pipeline": 1, "data": 4, "zero_stage": 1}


def made(name, seed=0):
    torch.manual_seed(seed)
    return zoo.MODELS[name]()


def examples(name, steps):
    """Micro-batches of each step, the same on all ranks."""
    return [[made(name, 1000 + step * MICRO_BATCHES + number)[1] for number in range(MICRO_BATCHES)]
            for step in range(steps)]


def optimizer_of(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.01)


class Alone:
    """The same training in this process, by eager PyTorch."""

    def __init__(self, name, batches, seed):
        net, example, loss = made(name)
        step = Step(net, loss, example)
        optimizer = optimizer_of([each for each in step.parameters() if each.requires_grad])
        self.losses = []
        with _as_in_training(step):
            for number, batch in enumerate(batches):
                optimizer.zero_grad()
                total = 0.0
                for place, micro in enumerate(batch):
                    torch.manual_seed(mw.seed_of(seed, number * MICRO_BATCHES + place))
                    found = step(mw.distributed.tensors_of(micro)) / MICRO_BATCHES
                    found.backward()
                    total += found.item()
                for each in step.parameters():
                    if each.requires_grad and each.grad is None:
                        each.grad = torch.zeros_like(each)   # a parameter that is not used decays all the same
                optimizer.step()
                self.losses.append(total)
        self.parameters = {step.own_name(key): each.detach() for key, each in step.named_parameters()}


def run(name, layout, batches, folder=None, resumed_as=None, half=0):
    """Losses of each step, and the parameters afterwards on rank 0."""
    def start(parallelism, first, last, begin_from):
        net, example, loss = made(name)
        training = {"seed": 1}
        if "recompute" in parallelism:
            training["recompute"] = parallelism["recompute"]
        mw.init({"training": training,
                 "parallelism": {key: value for key, value in parallelism.items() if key != "recompute"}})
        model = mw.DistributedModel(net, loss)
        parameters = [each for each in Step(net, loss, example).parameters() if each.requires_grad]
        mw.DistributedOptimizer(optimizer_of(parameters))
        if begin_from:
            mw.resume(begin_from, model)
        share = MICRO_BATCHES // parallelism["data"]
        losses = []
        for batch in batches[first:last]:
            replica = mw.dp_rank() * share
            losses.append(model.step(batch[replica:replica + share]).item())
        return model, losses

    if resumed_as is None:
        model, losses = start(layout, 0, len(batches), None)
    else:
        model, losses = start(layout, 0, half, None)
        mw.save(folder, model)
        model.close()
        model, more = start(resumed_as, half, len(batches), folder)
        losses += more
    parameters = model.state_dict()
    model.close()
    return losses, parameters


def compared(alone, losses, parameters):
    """(largest relative difference of a loss, of the parameters in norm)."""
    loss = max(abs(a - b) / max(abs(a), 1e-12) for a, b in zip(alone.losses, losses))
    difference = norm = 0.0
    for name, value in alone.parameters.items():
        if name in parameters:
            difference += float((value.double() - parameters[name].double()).square().sum())
            norm += float(value.double().square().sum())
    return loss, (difference / norm) ** 0.5


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--models", default=",".join(zoo.MODELS))
    options.add_argument("--layouts", default=",".join(list(LAYOUTS) + ["resumed"]))
    options.add_argument("--steps", type=int, default=10)
    options = options.parse_args()
    mw.init({})
    failed = 0
    for name in options.models.split(","):
        begin = time.time()
        batches = examples(name, options.steps)
        alone = Alone(name, batches, 1) if mw.rank() == 0 else None
        for layout in options.layouts.split(","):
            folder = None
            try:
                if layout == "resumed":
                    folder = mw.distributed.common_folder()
                    losses, parameters = run(name, LAYOUTS["pipeline_data"], batches, folder, RESUMED_AS,
                                             options.steps // 2)
                else:
                    losses, parameters = run(name, LAYOUTS[layout], batches)
            except ValueError as error:
                if mw.rank() == 0:
                    refused = "units" in str(error) or "stages" in str(error)
                    failed += not refused
                    print("{:22} {:14} {}: {}".format(name, layout, "refused" if refused else "FAILED",
                                                      str(error)[:160]), flush=True)
                continue
            finally:
                if folder and mw.rank() == 0:
                    shutil.rmtree(folder, ignore_errors=True)
            if mw.rank() == 0:
                loss, norm = compared(alone, losses, parameters)
                good = loss <= LOSS and norm <= PARAMETERS
                failed += not good
                print("{:22} {:14} {} loss {:.1e} parameters {:.1e} ({:.1f} s)".format(
                    name, layout, "ok    " if good else "FAILED", loss, norm, time.time() - begin), flush=True)
            begin = time.time()
    if mw.rank() == 0:
        print("{} failed".format(failed) if failed else "all equal")
    failed = mw.distributed.same_everywhere(failed)
    mw.shutdown()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
