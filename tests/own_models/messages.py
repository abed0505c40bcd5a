#!/usr/bin/env python3
"""Runs `meshwright.torch capture` on steps that work as people write them, and on steps that cannot be captured.

Each row of STEPS is a method of Model, and None or words of the message. Needs PyTorch.
"""

import contextlib
import io
import json
import os
import sys
import tempfile
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tools", "python"))
warnings.filterwarnings("ignore")

import torch  # noqa: E402
from meshwright.torch import document  # noqa: E402
from meshwright.torch.__main__ import main  # noqa: E402

SCRIPT = '''
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.checkpoint import checkpoint as again


class Model(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.up, self.down, self.how = nn.Linear(16, 64), nn.Linear(64, 16), how

    def part(self, x):
        return self.down(F.gelu(self.up(x)))

    def forward(self, x, y):
        return F.mse_loss(getattr(self, self.how)(x), y)

    def plain(self, x):
        return self.part(x)

    def recomputed(self, x):
        return checkpoint(self.part, x, use_reentrant=False)

    def recomputed_as_before(self, x):
        return checkpoint(self.part, x, use_reentrant=True)

    def recomputed_by_another_name(self, x):
        return again(self.part, x, use_reentrant=True)

    def cast(self, x):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return self.part(x)

    def without_gradient(self, x):
        with torch.no_grad():
            target = self.part(x)
        return self.part(x) - target

    def masked(self, x):
        z = self.part(x)
        return torch.zeros_like(z).masked_scatter(x > 0, z[x > 0])

    def hard_batch(self, x):
        return self.part(x).view(4, 8, 16)

    def printed(self, x):
        print("shape", x.shape)
        return self.part(x)

    def branch(self, x):
        z = self.part(x)
        if z.sum() > 0:
            z = 2 * z
        return z

    def number(self, x):
        return self.part(x) * x.mean().item()

    def rounded(self, x):
        return self.part(x) * float(x.mean().item())

    def to_numpy(self, x):
        return self.part(x) + torch.tensor(x.detach().numpy())

    def on_the_gpu(self, x):
        return self.part(x.cuda())

    def penalized(self, x):
        x.requires_grad_(True)
        slope, = torch.autograd.grad(self.part(x).sum(), x, create_graph=True)
        return self.part(x) + slope

    def looked_up(self, x):
        return self.part(x) + F.embedding(x[..., 0].long(), self.up.weight, sparse=True)

    def packed(self, x):
        from torch.nn.utils.rnn import pack_padded_sequence
        return nn.LSTM(16, 16, batch_first=True)(pack_padded_sequence(x, x[:, 0, 0].long().cpu(), True, False))[0]

    def reduced(self, x):
        z = self.part(x)
        torch.distributed.all_reduce(z)
        return z


class Vector(Model):
    def forward(self, x, y):
        return self.part(x)


def made(kind, how):
    return kind(how), {"x": torch.randn(4, 8, 16), "y": torch.randn(4, 8, 16)}


def step():
    net, before = Model("plain"), nn.Linear(16, 16)

    def train(x, y):
        return net(before(x), y), x

    return train, made(Model, "plain")[1]


module = nn.Linear(16, 1)
example = (torch.randn(4, 16),)


def loss(output, example):
    return output.square().mean()


def frozen():
    net, example = made(Model, "plain")
    return net.requires_grad_(False), example


def broken():
    raise ValueError("no data here")


def vector():
    return made(Vector, "plain")


def in_parallel():
    net, example = made(Model, "plain")
    return nn.DataParallel(net), example


def in_ddp():
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP
    dist.init_process_group("nccl")
    net, example = made(Model, "plain")
    return DDP(net, device_ids=[dist.get_rank()]), example


def as_torchrun_starts_it():
    import os
    import torch.distributed as dist
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    net, example = made(Model, "plain")
    net = nn.SyncBatchNorm.convert_sync_batchnorm(net).to(local)
    return nn.parallel.DistributedDataParallel(net, device_ids=[local]), {
        "x": torch.randn(4, 8, 16, device="cuda"), "y": example["y"].cuda(local, non_blocking=True)}


def misread():
    return int({}["hidden"])


def in_fsdp():
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
    net, example = made(Model, "plain")
    fully_shard(net.up)
    return FullyShardedDataParallel(net), example


def in_horovod():
    import horovod.torch as hvd
    hvd.init()
    net, example = made(Model, "plain")
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), 0.1 * hvd.size()))
    hvd.broadcast_parameters(net.state_dict(), root_rank=0)
    return net, example


def compiled():
    net, example = made(Model, "plain")
    return torch.compile(net), example
'''

# Maps each way to write a step to None if it is captured, or else to words of the error message.
STEPS = {
    "plain": None, "recomputed": None, "recomputed_as_before": None, "cast": None, "without_gradient": None,
    "recomputed_by_another_name": None,
    "hard_batch": None, "printed": None, "number": None, "step": None, "module": None,
    "in_parallel": None, "compiled": None,
    "in_ddp": None, "as_torchrun_starts_it": None, "in_fsdp": None, "in_horovod": None,
    "looked_up": None,
    "penalized": "the step takes a gradient itself",
    "packed": "sizes depend on data here",
    "branch": "if z.sum() > 0:): a branch or a size in Python depends on the values of a tensor",
    "rounded": "float(x.mean().item())): the value of a tensor is read in Python",
    "to_numpy": "a tensor leaves PyTorch for NumPy",
    "reduced": "torch.distributed.all_reduce(z)): the step communicates itself",
    "vector": "a tensor of shape (4, 8, 16), which is no loss",
    "frozen": "the loss depends on no trained parameter",
    "broken": "calling broken failed (ValueError: no data here)",
    "misread": "calling misread failed (KeyError: 'hidden')",
    "missing": "has no such name",
}


def run(script, name, output):
    """(exit code, what was written to stderr)."""
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        code = main(["capture", "{}:{}".format(script, name), "-o", output])
    return code, errors.getvalue()


def check(name, wanted, script, output):
    """What is wrong with one row, or None."""
    code, message = run(script, name, output)
    if wanted is None:
        if code != 0:
            return message
        with open(output) as file:
            written = json.load(file)
        os.remove(output)
        document.check(written)
        if name == "hard_batch" and "fixed_micro_batch" not in written:
            return "the batch is not fixed"
        if name == "cast" and not any(kernel.get("dtype") == "bfloat16" for kind in written["kinds"]
                                      for kernel in kind["forward"]):
            return "no product runs in bfloat16"
        return None
    if code != 2 or wanted not in message:
        return "exit code {}: {}".format(code, message or "nothing said")
    return "something is written" if os.path.exists(output) else None


def run_all():
    failures = 0
    if not torch.cuda.is_available():
        STEPS["on_the_gpu"] = "a tensor is put on a GPU, the others are not"
    with tempfile.TemporaryDirectory() as folder:
        script, output = os.path.join(folder, "script.py"), os.path.join(folder, "own.model.json")
        rows = [name for name in STEPS if "def {}(self".format(name) in SCRIPT]
        with open(script, "w") as file:
            file.write(SCRIPT)
            for name in rows:
                file.write("\n\ndef {0}():\n    return made(Model, \"{0}\")\n".format(name))
        for name, wanted in STEPS.items():
            wrong = check(name, wanted, script, output)
            if wrong:
                failures += 1
                print("failed: {}: {}".format(name, wrong.strip()))
    print("{} of {} steps are as expected".format(len(STEPS) - failures, len(STEPS)))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(run_all())
