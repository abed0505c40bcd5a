#!/usr/bin/env python3
"""Trains own models under layouts of several ranks, and compares with eager PyTorch over the same micro-batches.

    python tests/own_models/train.py [--models A,B] [--layouts pipeline_data,...] [--steps 10] [--draw NUMBER]
        [--double]

Each model is trained by four ranks of mpirun, which run this file too. Rank 0 also trains the model alone, and
prints one line for each layout. With --double, module and data are in fp64, and equal to 1e-9. meshwright._runtime
must be on PYTHONPATH (build/release/python).
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.simplefilter("ignore")

import torch
import torch.utils._pytree as pytree

import zoo
import meshwright.torch as mw
from meshwright.torch.exporting import Step, _as_in_training

torch.set_num_threads(1)
MICRO_BATCHES = 8        # micro-batches of a step
BOUNDS = {torch.float32: (2e-5, 1e-4, 1e-7), torch.float64: (1e-9, 1e-9, 1e-15)}   # of losses, of parameters, of a rounding
NOT_IN_FP64 = {"mixtral"}   # torch.nn.functional.grouped_mm has no fp64
LAYOUTS = {
    "pipeline_data": {"pipeline": 2, "data": 2, "zero_stage": 1},
    "stages": {"pipeline": 4, "data": 1},
    "interleaved": {"pipeline": 2, "data": 2, "virtual_stages": 2, "schedule": "interleaved"},
    "zero_bubble": {"pipeline": 4, "data": 1, "schedule": "zero_bubble"},
    "zero_3": {"pipeline": 1, "data": 4, "zero_stage": 3},
    "recompute": {"pipeline": 2, "data": 2, "recompute": "full"},
    "tensor": {"tensor": 2, "data": 2, "zero_stage": 1},
    "sequence": {"pipeline": 2, "tensor": 2, "data": 1, "sequence_parallel": True, "recompute": "full"},
}
RESUMED_AS = {"pipeline": 1, "data": 4, "zero_stage": 1}


def made(name, seed=0):
    torch.manual_seed(seed)
    net, example, loss = zoo.MODELS[name]()
    if torch.get_default_dtype() == torch.float64:
        step = Step(net, loss, example)
        for tensor in list(step.parameters()) + list(step.buffers()):
            tensor.data = wide(tensor.data)
        example = pytree.tree_map_only(torch.Tensor, wide, example)
    return net, example, loss


def wide(tensor):
    kind = {torch.float32: torch.float64, torch.complex64: torch.complex128}.get(tensor.dtype, tensor.dtype)
    return tensor.to(kind)


def examples(name, steps):
    """Micro-batches of each step, the same on all ranks."""
    return [[made(name, 1000 + step * MICRO_BATCHES + number)[1] for number in range(MICRO_BATCHES)]
            for step in range(steps)]


def optimizer_of(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3, eps=1e-6, weight_decay=0.01)


class Alone:
    """The same training in this process, by eager PyTorch. `rounding` changes each parameter by so much first."""

    def __init__(self, name, batches, seed, rounding=0.0):
        net, example, loss = made(name)
        step = Step(net, loss, example)
        if rounding:
            torch.manual_seed(5)
            for each in step.parameters():
                each.data.mul_(1 + rounding * torch.randn_like(each))
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


def train(name, layouts, steps):
    """Trains a model under each layout; returns how many were not equal. Every rank calls it."""
    failed = 0
    begin = time.time()
    batches = examples(name, steps)
    alone = Alone(name, batches, 1) if mw.rank() == 0 else None
    for layout in layouts:
        folder = None
        try:
            if layout == "resumed":
                folder = mw.distributed.common_folder()
                losses, parameters = run(name, LAYOUTS["pipeline_data"], batches, folder, RESUMED_AS, steps // 2)
            else:
                losses, parameters = run(name, LAYOUTS[layout], batches)
        except ValueError as error:
            if mw.rank() == 0:
                print("{:22} {:14} refused: {}".format(name, layout, str(error)[:200]), flush=True)
            failed += not (is_too_small(str(error)) or cannot_be_cut(str(error)))
            continue
        finally:
            if folder and mw.rank() == 0:
                shutil.rmtree(folder, ignore_errors=True)
        if mw.rank() == 0:
            loss, norm = compared(alone, losses, parameters)
            most = BOUNDS[torch.get_default_dtype()]
            good, word, why = loss <= most[0] and norm <= most[1], "equal", ""
            if not good:
                good, own_loss, own_norm = is_chaotic(name, batches, alone, loss, norm)
                word = "chaotic" if good else "FAILED"
                why = ", eager after a rounding: {:.1e} and {:.1e}".format(own_loss, own_norm)
            failed += not good
            print("{:22} {:14} {:7} loss {:.1e} parameters {:.1e} ({:.1f} s){}".format(
                name, layout, word, loss, norm, time.time() - begin, why), flush=True)
        begin = time.time()
    return mw.distributed.same_everywhere(failed)


def is_chaotic(name, batches, alone, loss, norm):
    """Whether eager PyTorch itself differs a third as much if its parameters are changed by a rounding first.

    Then there is nothing that a run could be equal to: batch norm over two random pictures, fifty layers deep.
    """
    rounded = Alone(name, batches, 1, BOUNDS[torch.get_default_dtype()][2])
    own_loss, own_norm = compared(alone, rounded.losses, rounded.parameters)
    return loss <= 3 * own_loss and norm <= 3 * own_norm, own_loss, own_norm


def is_too_small(error):
    """Whether a model was refused because it has fewer pieces than stages."""
    return "stages" in error


def cannot_be_cut(error):
    """Whether a model was refused because it has no linear layers that a tensor group can share."""
    return "no linear layer can be cut" in error or "is not possible for this captured model" in error


def on_ranks(name, layouts, steps, more=()):
    """Trains a model in four processes; returns whether all was equal."""
    command = ["mpirun", "--oversubscribe", "-n", "4", sys.executable, os.path.abspath(__file__), "--models", name,
               "--layouts", ",".join(layouts), "--steps", str(steps), *more]
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    ended = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = [line for line in ended.stdout.splitlines() if line.startswith(name + " ")]
    print("\n".join(lines), flush=True)
    if ended.returncode and not any("FAILED" in line for line in lines):
        print("{:22} FAILED\n{}".format(name, ended.stdout[-3000:]), flush=True)
    return ended.returncode == 0


def drawn_in_fp64(names, layouts, number):
    """Two small models by the number, and a layout of each."""
    large = {"resnet50", "efficientnet_b0", "convnext_tiny", "timm_vit"}
    small = [name for name in names if name not in large | NOT_IN_FP64]
    return [(small[(number + place) % len(small)], [layouts[(number + place) % len(layouts)]]) for place in (3, 18)]


def drawn(names, layouts, number):
    """Six models by the number, and two layouts of each."""
    chosen = [names[(number + place * 7) % len(names)] for place in range(6)]
    return [(name, [layouts[(number + place) % len(layouts)], layouts[(number + place + 3) % len(layouts)]])
            for place, name in enumerate(chosen)]


def main():
    every = list(LAYOUTS) + ["resumed"]
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--models", default=",".join(zoo.MODELS))
    options.add_argument("--layouts", default=",".join(every))
    options.add_argument("--steps", type=int, default=10)
    options.add_argument("--draw", type=int, help="six models and two layouts of each, by this number, and two in fp64")
    options.add_argument("--double", action="store_true", help="in fp64")
    options = options.parse_args()
    names, layouts = options.models.split(","), options.layouts.split(",")
    if options.double:
        torch.set_default_dtype(torch.float64)
        names = [name for name in names if name not in NOT_IN_FP64]
    if "OMPI_COMM_WORLD_SIZE" in os.environ:
        mw.init({})
        failed = sum(train(name, layouts, options.steps) for name in names)
        mw.shutdown()
        sys.exit(1 if failed else 0)
    tasks = [(name, layouts) for name in names] if options.draw is None else drawn(names, layouts, options.draw)
    more = ["--double"] if options.double else []
    good = [on_ranks(name, chosen, options.steps, more) for name, chosen in tasks]
    if options.draw is not None:
        print("in fp64:")
        good += [on_ranks(name, chosen, options.steps, ["--double"])
                 for name, chosen in drawn_in_fp64(names, layouts, options.draw)]
    print("{} of {} models train as eager PyTorch does under all layouts".format(sum(good), len(good)))
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
