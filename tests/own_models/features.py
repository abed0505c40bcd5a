#!/usr/bin/env python3
"""What a script may ask of meshwright.torch, on two ranks: python tests/own_models/features.py [--double] [TEST...]"""

import collections
import gc
import os
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.simplefilter("ignore")

import torch
from torch import nn

import meshwright.torch as mw
from on_ranks import bound, check, is_double, refused, run

torch.set_num_threads(1)
BATCH, MICRO = 16, 4


class Net(nn.Module):
    """Batch norm writes buffers, the embedding is frozen, one layer is not used."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 16)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(16, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1))
                                    for _ in range(4))
        self.head = nn.Linear(16, 1)
        self.spare = nn.Linear(3, 3)
        self.table.weight.requires_grad_(False)

    def forward(self, x):
        h = self.table(x).mean(1)
        for block in self.blocks:
            h = h + block(h)
        return self.head(h).squeeze(1)


def loss_of(output, batch):
    return nn.functional.mse_loss(output, batch["y"])


def net(seed=0):
    torch.manual_seed(seed)
    return Net()


def batches(count):
    generator = torch.Generator().manual_seed(7)
    return [{"x": torch.randint(0, 10, (BATCH, 5), generator=generator),
             "y": torch.randn(BATCH, generator=generator)} for _ in range(count)]


def started(parallelism, module=None, optimizer=torch.optim.AdamW, clip=0.0, **training):
    mw.init({"training": {"seed": 3, "micro_batch": MICRO, **training}, "parallelism": parallelism})
    module = module if module is not None else net()
    model = mw.DistributedModel(module, loss_of)
    of_torch = optimizer([each for each in module.parameters() if each.requires_grad], lr=1e-2)
    return module, model, mw.DistributedOptimizer(of_torch, gradient_clip=clip), of_torch


def trained(model, count, first=0):
    return [model.step(batch).item() for batch in mw.shard(batches(count), first)]


PIPELINE, DATA = {"pipeline": 2, "data": 1}, {"pipeline": 1, "data": 2}


def alone(count, clip=0.0, optimizer=torch.optim.AdamW, schedule=None, replicas=1):
    """The same by eager PyTorch; buffers are those of replica 0, as under DDP."""
    module = net()
    own = optimizer([each for each in module.parameters() if each.requires_grad], lr=1e-2)
    scheduler = schedule(own) if schedule else None
    losses, seen = [], None
    for number, batch in enumerate(batches(count)):
        own.zero_grad()
        total = 0.0
        for place in range(BATCH // MICRO):
            if seen is not None and place == 0:
                for buffer, value in zip(module.buffers(), seen):
                    buffer.copy_(value)
            micro = {name: value[MICRO * place:MICRO * (place + 1)] for name, value in batch.items()}
            torch.manual_seed(mw.seed_of(3, number * BATCH // MICRO + place))
            loss = loss_of(module(micro["x"]), micro) / (BATCH // MICRO)
            loss.backward()
            total += loss.item()
            if place == BATCH // MICRO // replicas - 1:
                seen = [buffer.clone() for buffer in module.buffers()]
        if clip:
            torch.nn.utils.clip_grad_norm_(module.parameters(), clip)
        own.step()
        if scheduler:
            scheduler.step()
        losses.append(total)
    for buffer, value in zip(module.buffers(), seen):
        buffer.copy_(value)
    return losses, module.state_dict()


def near(a, b, tolerance=None):
    tolerance = tolerance or bound()
    return all(abs(x - y) <= tolerance * max(abs(x), 1e-6) for x, y in zip(a, b)) and len(a) == len(b)


def same_state(model, state, what):
    found = model.state_dict()
    if mw.rank() != 0:
        return
    check(what + ": names", set(found) == set(state))
    for name, value in state.items():
        check("{}: type of {}".format(what, name), found[name].dtype == value.dtype)
        most = {"rtol": 1e-9, "atol": 1e-12} if is_double() else {"rtol": 1e-4, "atol": 1e-6}
        check("{}: {}".format(what, name), torch.allclose(value.double(), found[name].double(), **most))


def test_equal():
    for layout, replicas in ((PIPELINE, 1), (DATA, 2)):
        for optimizer, clip in ((torch.optim.AdamW, 0.0), (torch.optim.SGD, 0.5), (torch.optim.Adam, 0.0)):
            _, model, _, _ = started(layout, optimizer=optimizer, clip=clip)
            losses = trained(model, 4)
            expected, state = alone(4, clip, optimizer, replicas=replicas)
            what = "{} {}".format(layout, optimizer.__name__)
            check("{}: {} {}".format(what, losses, expected), near(losses, expected))
            same_state(model, state, what)
            model.close()


def test_recompute():
    """Batch norm's statistics are those of one forward, though each runs twice."""
    _, model, _, _ = started(PIPELINE, recompute="full")
    losses = trained(model, 4)
    expected, state = alone(4)
    check("recompute: {} {}".format(losses, expected), near(losses, expected))
    same_state(model, state, "recompute")
    model.close()


def test_schedule():
    def schedule(optimizer):
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)

    for of_ours in (False, True):
        _, model, ours, of_torch = started(PIPELINE)
        scheduler = schedule(ours if of_ours else of_torch)
        losses = []
        for batch in mw.shard(batches(4)):
            losses.append(model.step(batch).item())
            ours.step()
            scheduler.step()
        check("a scheduler of PyTorch", near(losses, alone(4, schedule=schedule)[0]))
        model.close()


def test_resume():
    folder = mw.distributed.common_folder()
    expected = alone(6, replicas=1)[0]
    _, model, _, _ = started(PIPELINE)
    losses = trained(model, 3)
    mw.save(folder, model, extra={"epoch": 5})
    model.close()
    _, model, _, _ = started(PIPELINE)
    start = mw.resume(folder, model)
    losses += trained(model, 6, start)
    check("resume: the step", start == 3)
    check("resume: what the script saved", model.extra == {"epoch": 5})
    check("resume: {} {}".format(losses, expected), near(losses, expected))
    same_state(model, alone(6, replicas=1)[1], "resume")
    model.close()
    _, model, _, _ = started(DATA)
    mw.resume(folder, model)
    check("resume under other degrees", near(trained(model, 4, 3), expected[3:4]))
    model.close()


def test_formats():
    module, model, _, _ = started(PIPELINE)
    trained(model, 2)
    folder = mw.distributed.common_folder()
    for name in ("weights.safetensors", "weights"):
        path = os.path.join(folder, name)
        mw.export(path, model)
        again = net(1)
        mw.load_weights(path, again)
        same_state(model, again.state_dict(), name)
    model.close()


def test_precisions():
    for precision, more in (("bf16", {}), ("fp16", {"loss_scale": {"static": 256}})):
        for layout in (PIPELINE, DATA):
            _, model, _, _ = started(layout, precision=precision, **more)
            losses = trained(model, 4)
            expected = alone(4, replicas=layout["data"])[0]
            check("{} {}: {} {}".format(precision, layout, losses, expected), near(losses, expected, 0.1))
            model.close()


def test_double():
    """Two tests in fp64; with --double, all are."""
    if is_double():
        return
    torch.set_default_dtype(torch.float64)
    try:
        test_resume()
        test_formats()
    finally:
        torch.set_default_dtype(torch.float32)
    module = net()
    module.head.double()
    module.head.forward = lambda x: nn.functional.linear(x.double(), module.head.weight, module.head.bias).float()
    _, model, _, _ = started(DATA, module)
    refused("fp32 and fp64", "parameters are float32 and float64", lambda: trained(model, 1))
    mw.init({})


def test_delayed():
    found = []
    for layout in (PIPELINE, DATA):
        torch.manual_seed(11)
        with mw.delay_param_initialization():
            module = Net()
        check("delayed: no memory yet", all(each.is_meta for each in module.parameters()))
        _, model, _, _ = started(layout, module)
        found.append(trained(model, 2)[:1])
        model.close()
    check("delayed: {}".format(found), near(found[0], found[1]) and all(0 < each < 100 for each in found[0]))


class Tripled(torch.autograd.Function):
    @staticmethod
    def forward(_, x):
        return x * 1

    @staticmethod
    def backward(_, gradient):
        return 3 * gradient


def test_lost():
    """What a captured graph does not hold is refused, instead of trained differently."""
    class Other(Net):
        def forward(self, x):
            return self.change(super().forward(x))

    def hooked(output):
        if output.requires_grad:
            output.register_hook(lambda gradient: 2 * gradient)
        return output

    for words, change in (("Tripled", Tripled.apply), ("hook of a tensor", hooked)):
        module = Other()
        module.change = change
        _, model, _, _ = started(PIPELINE, module)
        refused(words, words, lambda: trained(model, 1))
    module = net()
    module.head.register_full_backward_hook(lambda *_: None)
    _, model, _, _ = started(PIPELINE, module)
    refused("a module's hook", "hook of head", lambda: trained(model, 1))
    module = net()
    module.table = nn.Embedding(10, 16, max_norm=1.0)
    _, model, _, _ = started(DATA, module)
    refused("max_norm", "writes parameter table.weight", lambda: trained(model, 1))
    model.close()
    module = net()
    module.head.weight = nn.Parameter(torch.randn(1, 16, dtype=torch.cfloat))
    module.head.forward = lambda x: x @ module.head.weight.real.T
    _, model, _, _ = started(DATA, module)
    refused("complex parameters", "head.weight has complex numbers", lambda: trained(model, 1))
    mw.init({})


class Fourier(Net):
    """Saves complex views of its parameters, whose memory ZeRO 3 uses again before the backward."""

    def __init__(self):
        super().__init__()
        self.filters = nn.ParameterList(nn.Parameter(torch.randn(16, 2)) for _ in range(3))

    def forward(self, x):
        h = torch.fft.fft(self.table(x).mean(1))
        for each in self.filters:
            h = h + h * torch.view_as_complex(each) + h * torch.view_as_complex(each).conj()
        return self.head(torch.fft.ifft(h).real).squeeze(1)


def test_complex():
    found = []
    for layout in (dict(DATA, zero_stage=3), DATA):
        torch.manual_seed(0)
        _, model, _, _ = started(layout, Fourier())
        found.append(trained(model, 4))
        model.close()
    check("complex views: {}".format(found), near(*found))


def test_nothing_grows():
    """Of meshwright, nothing is kept from step to step: tables have their sizes after the first steps."""
    def sizes(runner):
        return {(type(each).__name__, name): len(value) for each in (runner, runner.memory)
                for name, value in vars(each).items() if isinstance(value, (dict, list, set))}

    def objects():
        gc.collect()
        return collections.Counter(type(each).__name__ for each in gc.get_objects())

    for layout in (PIPELINE, dict(DATA, zero_stage=3)):
        for optimizer in (torch.optim.AdamW, torch.optim.RMSprop):
            _, model, _, _ = started(layout, optimizer=optimizer)
            trained(model, 3)
            of_tables = sizes(model._runner)
            objects()   # the first look at some objects of PyTorch makes others
            of_all = objects()
            trained(model, 5)
            check("tables grow: {}".format(layout), sizes(model._runner) == of_tables)
            grown = {name: count for name, count in (objects() - of_all).items() if count > 4}
            check("objects are kept: {} {}".format(layout, grown), not grown)
            model.close()


def test_refusals():
    _, model, _, _ = started(PIPELINE)
    trained(model, 1)
    refused("another batch", "samples", lambda: model.step({"x": torch.zeros(3, 5, dtype=torch.long),
                                                            "y": torch.zeros(3)}))
    model.close()
    _, model, _, _ = started({"pipeline": 2, "data": 1, "tensor": 2})
    refused("tensor parallelism", "tensor", lambda: trained(model, 1))
    mw.init({})


if __name__ == "__main__":
    run(globals(), ranks=2)
