#!/usr/bin/env python3
"""Optimizers of a script, on four ranks, beside eager PyTorch: python tests/own_models/updates.py [--double] [TEST...]"""

import os
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.simplefilter("ignore")

import torch
from torch import nn
from torch.optim import lr_scheduler

import meshwright.torch as mw
from on_ranks import bound, check, refused, run

torch.set_num_threads(1)
BATCH, MICRO, STEPS = 16, 4, 4
LAYOUTS = [{"pipeline": 2, "data": 2, "zero_stage": 1}, {"pipeline": 1, "data": 4, "zero_stage": 3},
           {"pipeline": 4, "data": 1}, {"pipeline": 2, "data": 2, "zero_stage": 2}, {"pipeline": 2, "data": 2}]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 15)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(15), nn.Linear(15, 15), nn.Tanh()) for _ in range(4))
        self.head = nn.Linear(15, 1)

    def forward(self, x):
        h = self.table(x).mean(1)
        for block in self.blocks:
            h = h + block(h)
        return self.head(h).squeeze(1)


def loss_of(output, batch):
    return nn.functional.mse_loss(output, batch["y"])


def net():
    torch.manual_seed(0)
    return Net()


def batches():
    generator = torch.Generator().manual_seed(7)
    return [{"x": torch.randint(0, 10, (BATCH, 5), generator=generator),
             "y": torch.randn(BATCH, generator=generator)} for _ in range(STEPS)]


class Lion(torch.optim.Optimizer):
    """A class of a user's own, which makes its moments anew in each step."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                mean = self.state[p].get("mean", torch.zeros_like(p))
                first, second = group["betas"]
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * (mean * first + p.grad * (1 - first)).sign())
                self.state[p]["mean"] = mean * second + p.grad * (1 - second)


class Counting(torch.optim.Optimizer):
    """It counts its steps in the group, as apex does, and keeps nothing for an element."""

    def __init__(self, params, lr=1e-3):
        super().__init__(params, {"lr": lr, "steps": 0})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            group["steps"] += 1
            for p in group["params"]:
                if p.grad is not None:
                    p.sub_(p.grad, alpha=group["lr"] / group["steps"])


class Lamb(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.sub_(p.grad * (group["lr"] * p.norm() / p.grad.norm()))


class Prodigy(Lamb):
    """Sums over all parameters: each part by itself gives another sum."""

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            norm = sum(float(p.grad.square().sum()) for p in group["params"] if p.grad is not None) ** 0.5
            for p in group["params"]:
                if p.grad is not None:
                    p.sub_(p.grad, alpha=group["lr"] / norm)


# ---------------------------------------------------------------------------------------------
# Functions that make groups of parameters, and functions that make a module's optimizer.


def one(module, **settings):
    return [dict({"params": [each for each in module.parameters() if each.requires_grad]}, **settings)]


def decays(module, decay=0.1, **of_others):
    """As nanoGPT and transformers have them: matrices decay."""
    parameters = list(module.parameters())
    return [{"params": [each for each in parameters if each.dim() > 1], "weight_decay": decay},
            dict({"params": [each for each in parameters if each.dim() < 2], "weight_decay": 0.0}, **of_others)]


def layers(module):
    """A learning rate and a decay for each layer, as in fine-tuning."""
    parts = [module.table, *module.blocks, module.head]
    return [{"params": list(part.parameters()), "lr": 1e-2 * 0.7 ** (len(parts) - at), "weight_decay": 0.02 * at}
            for at, part in enumerate(parts)]


def adamw(groups):
    return lambda module: torch.optim.AdamW(groups(module), lr=1e-2)


def whole(kind, **settings):
    return lambda module: kind(one(module), **settings)


def each_its_own(optimizer):
    return lr_scheduler.LambdaLR(optimizer, [lambda step, at=at: 1 / (1 + at * step)
                                             for at in range(len(optimizer.param_groups))])


def one_cycle(optimizer):
    return lr_scheduler.OneCycleLR(optimizer, max_lr=2e-2, total_steps=STEPS)


def warm_up(optimizer):
    return lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 2))


def only_blocks(module):
    module.table.weight.requires_grad_(False)
    return torch.optim.AdamW(module.blocks.parameters(), lr=1e-2)   # the head is left out


O = torch.optim
CASES = {
    "decay and none": (adamw(decays), None),
    "two decays": (adamw(lambda module: decays(module)[:1] + [dict(decays(module)[1], weight_decay=0.03)]), warm_up),
    "two rates": (adamw(lambda module: decays(module, lr=3e-3)), each_its_own),
    "a rate for each layer": (adamw(layers), one_cycle),
    "AdamW in one cycle": (adamw(decays), one_cycle),
    "SGD in one cycle": (whole(O.SGD, lr=1e-2, momentum=0.9, weight_decay=0.01), one_cycle),
    "SGD by Nesterov": (whole(O.SGD, lr=1e-2, momentum=0.9, nesterov=True), None),
    "SGD with and without momentum": (lambda module: O.SGD(
        [dict(decays(module)[0], momentum=0.9, dampening=0.1), decays(module)[1]], lr=1e-2), None),
    "frozen and left out": (only_blocks, each_its_own),
    "RMSprop": (whole(O.RMSprop, lr=1e-3, momentum=0.5), warm_up),
    "Adagrad": (whole(O.Adagrad, lr=1e-2, initial_accumulator_value=0.1), None),
    "Adadelta": (whole(O.Adadelta, lr=0.5), None),
    "Adamax": (whole(O.Adamax, lr=1e-2, weight_decay=0.01), None),
    "NAdam": (whole(O.NAdam, lr=1e-2), None),
    "RAdam": (whole(O.RAdam, lr=1e-2), None),
    "Lion": (lambda module: Lion(decays(module), lr=1e-3), each_its_own),
    "a class that counts": (whole(Counting, lr=1e-2), None),
}


def alone(make, schedule, clip=0.0):
    module = net()
    optimizer = make(module)
    scheduler = schedule(optimizer) if schedule else None
    trained = [each for group in optimizer.param_groups for each in group["params"]]
    losses = []
    for batch in batches():
        optimizer.zero_grad()
        total = 0.0
        for place in range(BATCH // MICRO):
            micro = {name: value[MICRO * place:MICRO * (place + 1)] for name, value in batch.items()}
            loss = loss_of(module(micro["x"]), micro) / (BATCH // MICRO)
            loss.backward()
            total += loss.item()
        if clip:
            nn.utils.clip_grad_norm_(trained, clip)
        optimizer.step()
        if scheduler:
            scheduler.step()
        losses.append(total)
    return losses, module.state_dict()


def started(layout, make, clip=0.0, **training):
    mw.init({"training": {"seed": 3, "micro_batch": MICRO, **training}, "parallelism": layout})
    module = net()
    model = mw.DistributedModel(module, loss_of)
    optimizer = make(module)
    mw.DistributedOptimizer(optimizer, gradient_clip=clip)
    return module, model, optimizer


def trained(model, scheduler, first=0, last=STEPS):
    losses = []
    for batch in batches()[first:last]:
        part = next(iter(mw.shard([batch])))
        losses.append(model.step(part).item())
        if scheduler:
            scheduler.step()
    return losses


def same(what, model, losses, expected, state):
    tolerance = bound()
    check("{}: {} {}".format(what, losses, expected),
          all(abs(a - b) <= tolerance * abs(b) for a, b in zip(losses, expected)) and len(losses) == len(expected))
    found = model.state_dict()
    if mw.rank() == 0:
        for name, value in state.items():
            difference = float((value - found[name]).norm() / value.norm())
            check("{}: {} differs by {}".format(what, name, difference), difference <= 5 * tolerance)


def test_equal():
    """Each case under one layout, so that each layout has several."""
    for number, (name, (make, schedule)) in enumerate(CASES.items()):
        layout = LAYOUTS[number % len(LAYOUTS)]
        clip = 0.5 if number % 3 == 0 else 0.0
        _, model, optimizer = started(layout, make, clip)
        losses = trained(model, schedule(optimizer) if schedule else None)
        same("{} {}".format(name, layout), model, losses, *alone(make, schedule, clip))
        model.close()


def test_layouts():
    make, schedule = CASES["a rate for each layer"]
    for layout in LAYOUTS + [{"pipeline": 2, "data": 2, "virtual_stages": 2, "schedule": "interleaved"}]:
        _, model, optimizer = started(layout, make)
        losses = trained(model, schedule(optimizer))
        same("a rate for each layer {}".format(layout), model, losses, *alone(make, schedule))
        model.close()


def test_resume():
    for name in ("a rate for each layer", "AdamW in one cycle", "Adagrad", "NAdam", "a class that counts"):
        folder = mw.distributed.common_folder()
        make, schedule = CASES[name]
        _, model, optimizer = started(LAYOUTS[0], make)
        scheduler = schedule(optimizer) if schedule else None
        losses = trained(model, scheduler, 0, 2)
        mw.save(folder, model, extra=scheduler.state_dict() if schedule is one_cycle else None)
        model.close()
        _, model, optimizer = started(LAYOUTS[1], make)
        scheduler = schedule(optimizer) if schedule else None
        mw.resume(folder, model)
        for _ in range(2 if scheduler else 0):
            scheduler.step()
        losses += trained(model, scheduler, 2)
        same("{} resumed".format(name), model, losses, *alone(make, schedule))
        model.close()


def test_states_before():
    """A script may load an optimizer's states before the first step."""
    module = net()
    optimizer = CASES["two rates"][0](module)
    loss_of(module(batches()[0]["x"]), batches()[0]).backward()
    optimizer.step()
    loaded = optimizer.state_dict()

    def make(module):
        made = CASES["two rates"][0](module)
        made.load_state_dict(loaded)
        return made

    _, model, _ = started(LAYOUTS[1], make)
    same("states from before", model, trained(model, None), *alone(make, None))
    model.close()


def test_precisions():
    make, schedule = CASES["a rate for each layer"]
    expected, state = alone(make, schedule)
    for precision, more in (("bf16", {}), ("fp16", {"loss_scale": {"static": 256}})):
        for layout in LAYOUTS[:2]:
            _, model, optimizer = started(layout, make, precision=precision, **more)
            losses = trained(model, schedule(optimizer))
            check("{} {}: {} {}".format(precision, layout, losses, expected),
                  all(abs(a - b) <= 0.1 * abs(b) for a, b in zip(losses, expected)))
            model.close()


def test_refusals():
    mw.init({})
    for what, words, make in (
            ("LBFGS", "closure", lambda m: O.LBFGS(m.parameters())),
            ("a class like LAMB", "other elements", lambda m: Lamb(m.parameters())),
            ("a class that sums over all", "other elements", lambda m: Prodigy(m.parameters())),
            ("Adafactor", "Adafactor", lambda m: O.Adafactor(m.parameters())),
            ("Muon", "Muon", lambda m: O.Muon([m.blocks[0][1].weight])),
            ("SparseAdam", "SparseAdam", lambda m: O.SparseAdam([m.table.weight])),
            ("amsgrad", "max_exp_avg_sq", lambda m: O.AdamW(m.parameters(), amsgrad=True))):
        refused(what, words, lambda: mw.DistributedOptimizer(make(net())))
    module, model, _ = started(LAYOUTS[0], lambda module: O.SGD(module.table.parameters(), lr=0.1))
    mw.DistributedOptimizer(O.SGD(module.head.parameters(), lr=0.1))
    refused("two optimizers", "one optimizer", lambda: trained(model, None, 0, 1))
    mw.distributed._here().optimizers.clear()
    module, model, optimizer = started(LAYOUTS[0], only_blocks)
    trained(model, None, 0, 1)
    module.table.weight.requires_grad_(True)
    refused("another trained parameter", "table.weight", lambda: trained(model, None, 1, 2))
    module.table.weight.requires_grad_(False)
    optimizer.add_param_group({"params": list(module.head.parameters())})
    refused("another group", "groups", lambda: trained(model, None, 1, 2))
    model.close()


if __name__ == "__main__":
    run(globals(), ranks=4)
