#!/usr/bin/env python3
"""Captures the models of zoo.py and compares each with an eager step of the module itself.

    check.py [--program MESHWRIGHT] [--only NAME ...] [--draw SEED [--of 6]] [--write FOLDER] [--time]

The eager step runs on the CPU, so it is compared with the CPU's kernels of the same capture; files are
written with CUDA's. Per model: FLOPs within 1 % and bytes within 10 % of that step, bytes kept for the backward pass
equal to those that hooks on saved tensors count, with --time a capture in at most twice the time of
torch.export, and a valid document. With --program, the best plan of each on eight GPUs is found and
simulated too: its FLOPs and its parameters are those of the document. Two stages must be balanced to 1.05 in 26 of the first 32 models. Prints a table and
one line for each failure; the exit code is 1 if there is one. Needs PyTorch, transformers, torchvision, timm.
"""

import argparse
import inspect
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import warnings
import weakref

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "tools", "python")]
warnings.filterwarnings("ignore")

import torch  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

import zoo  # noqa: E402
from meshwright.torch import capture, capturing, document, kernels  # noqa: E402

BALANCED, OF_FIRST = 26, 32


class Traffic(TorchDispatchMode):
    """FLOPs and bytes of what eager PyTorch runs."""

    def __init__(self):
        super().__init__()
        self.flops = self.bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for kernel in kernels.kernels_of(func, args, kwargs or {}, out):
            self.flops += kernel.flops
            self.bytes += kernel.bytes
        return out


def loss_of(module, example, loss):
    """The loss as the user's script computes it."""
    given = dict(example) if isinstance(example, dict) else example
    if loss is not None and isinstance(given, dict):
        taken = inspect.signature(module.forward).parameters
        given = {name: value for name, value in given.items() if name in taken}
    output = module(**given) if isinstance(given, dict) else module(*given)
    if loss is not None:
        return loss(output, example)
    if isinstance(output, torch.Tensor):
        return output
    return output["loss"] if isinstance(output, dict) else getattr(output, "loss", None) if hasattr(
        output, "loss") else output[0]


def eager(module, example, loss):
    """(FLOPs, bytes, bytes kept for the backward pass, FLOPs by PyTorch's own counter) of a step on the CPU."""
    modules = [module] if isinstance(module, torch.nn.Module) else [
        cell.cell_contents for cell in module.__closure__ if isinstance(cell.cell_contents, torch.nn.Module)]
    for each in modules:
        each.train()
    values = example.values() if isinstance(example, dict) else example
    given = {each.untyped_storage()._cdata for each in values if isinstance(each, torch.Tensor)}
    for each in modules:
        given |= {tensor.untyped_storage()._cdata for tensor in list(each.parameters()) + list(each.buffers())}
    saved = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in given:
            saved[id(storage)] = (weakref.ref(storage), storage.nbytes())
        return tensor

    counter = FlopCounterMode(display=False)
    with counter, Traffic() as traffic:   # The inner one sees operations before the other takes them apart.
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            result = loss_of(module, example, loss)
        kept = sum(size for storage, size in saved.values() if storage() is not None)
        result.backward()
    for each in modules:
        each.zero_grad()
    return traffic.flops, traffic.bytes, kept, counter.get_total_flops()


def eager_of(name, module, example, loss):
    """`eager`, but on fake tensors for recurrent layers: how much oneDNN keeps of them is its own affair."""
    parts = module.modules() if isinstance(module, torch.nn.Module) else ()
    if not any(isinstance(each, torch.nn.RNNBase) for each in parts):
        return eager(module, example, loss)
    with FakeTensorMode():
        return eager(*zoo.MODELS[name]())


def totals(written):
    """(FLOPs, bytes, bytes kept) of a document at its own micro-batch."""
    batch = written["micro_batch"]
    flops = moved = kept = 0
    saves = set()
    for segment in written["segments"]:
        kind = written["kinds"][segment["kind"]]
        kept += document.value_at(kind["saved"], batch)
        saves.update(segment["saves"])
        for phase in ("forward", "backward"):
            flops += sum(document.value_at(kernel.get("flops", 0), batch) for kernel in kind[phase])
            moved += sum(document.value_at(kernel.get("bytes", 0), batch) for kernel in kind[phase])
    kept += sum(document.value_at(written["tensors"][each]["bytes"], batch) for each in saves)
    return flops, moved, kept


def balance(seconds):
    """Most over mean of the best cut into two stages."""
    total, before, best = sum(seconds), 0.0, sum(seconds)
    for each in seconds[:-1]:
        before += each
        best = min(best, max(before, total - before))
    return 2 * best / total


def answered(program, *words):
    """The answer of a command with --json, or its message."""
    run = subprocess.run([program, *words, "--json"], capture_output=True, text=True, check=False)
    return json.loads(run.stdout) if run.returncode == 0 else run.stderr.strip()


def planned(program, captured):
    """What is wrong with the plan and the simulation of a captured model."""
    written = captured.document
    batch = written["micro_batch"]
    with tempfile.TemporaryDirectory() as folder:
        captured.save(os.path.join(folder, "own.model.json"))
        job = os.path.join(folder, "job.json")
        with open(job, "w", encoding="utf-8") as file:
            json.dump({"model": "own.model.json", "training": {"global_batch": 8 * batch, "compiler": "none"},
                       "cluster": {"machine": "p4d.24xlarge", "count": 1}, "parallelism": "auto"}, file)
        best = os.path.join(folder, "best.json")
        answer = answered(program, "plan", job, "--write", best)
        if isinstance(answer, str):
            return ["plan: " + answer]
        prediction = answered(program, "simulate", best)
    if isinstance(prediction, str):
        return ["simulate: " + prediction]
    found = []
    step = prediction["step_time_s"]
    flops = prediction["model_flops_per_s_per_gpu"] * step * 8
    expected = 8 * sum(document.value_at(kernel.get("flops", 0), batch) for segment in written["segments"]
                       for phase in ("forward", "backward") for kernel in written["kinds"][segment["kind"]][phase])
    # The two may differ slightly: a gradient that no loss depends on is not computed, and some numbers grow
    # faster than the samples.
    if expected and share(flops, expected) > 0.01:
        found.append("simulate: {:.6g} FLOPs a step, of the document {:.6g}".format(flops, expected))
    if not prediction["fits"] or not step > 0:
        found.append("simulate: the best plan does not fit, or takes no time")
    return found


def timed_export():
    """Counts the processor time in torch.export, which a capture must not double."""
    spent = [0.0]
    original = capturing.exported

    def counted(*arguments):
        start = time.process_time()
        try:
            return original(*arguments)
        finally:
            spent[0] += time.process_time() - start

    capturing.exported = counted
    return spent


def share(one, other):
    return abs(one - other) / other if other else float(one != other)


def check(name, spent, folder, program, timed):
    """(cells of the table, failures) of one model."""
    torch.manual_seed(0)
    module, example, loss = zoo.MODELS[name]()
    flops, moved, kept, counted = eager_of(name, module, example, loss)
    spent[0], start = 0.0, time.process_time()
    captured = capture(module, example, loss=loss, name=name, source="tests/own_models/zoo.py:" + name)
    took = time.process_time() - start
    ratio = took / spent[0]
    if folder:
        captured.save(os.path.join(folder, name + ".json"))
    written = captured.document
    document.check(written)
    same = captured.on("cpu").document
    document.check(same)
    own_flops, own_moved, own_kept = totals(same)
    found = []
    if share(own_flops, flops) > 0.01:
        found.append("FLOPs are {:,}, of the eager step {:,}".format(own_flops, flops))
    if share(own_moved, moved) > 0.10:
        found.append("bytes are {:,}, of the eager step {:,}".format(own_moved, moved))
    if own_kept != kept:
        found.append("bytes kept for the backward pass are {:,}, of the eager step {:,}".format(own_kept, kept))
    if ratio > 2 and timed:
        found.append("the capture takes {:.2f} times as long as torch.export".format(ratio))
    if program:
        found += planned(program, captured)
    even = balance(captured.division.seconds)
    cells = (len(captured.program.calls), "{}/{}".format(len(written["segments"]), len(written["kinds"])),
             "{:+.2%}".format(own_flops / flops - 1 if flops else 0), "{:+.2%}".format(own_moved / moved - 1),
             own_kept - kept, "{:+.1%}".format(counted / flops - 1 if flops else 0), "{:.2f}".format(even),
             "{:.2f}".format(ratio), "{:.1f}".format(spent[0]), "fixed" if "fixed_micro_batch" in written else "")
    return cells, found, even


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--draw", metavar="SEED", help="try some that this text draws, as that of a commit")
    parser.add_argument("--of", type=int, default=6, help="how many to draw (6)")
    parser.add_argument("--program", metavar="MESHWRIGHT", help="the program that plans and simulates them")
    parser.add_argument("--time", action="store_true", help="a slow capture is a failure, not only printed")
    parser.add_argument("--write", metavar="FOLDER", help="write the captured files there")
    options = parser.parse_args()
    names = list(zoo.MODELS)
    if options.only:
        unknown = [name for name in options.only if name not in zoo.MODELS]
        if unknown:
            parser.error("{} is none of {}".format(unknown[0], " ".join(names)))
        names = options.only
    if options.draw is not None:
        names = sorted(random.Random(options.draw).sample(names, options.of), key=names.index)
    if options.write:
        os.makedirs(options.write, exist_ok=True)
    spent = timed_export()
    capture(torch.nn.Linear(2, 1), (torch.ones(2, 2),), loss=lambda output, given: output.sum())  # imports, once
    head = ("model", "calls", "segments/kinds", "FLOPs", "bytes", "kept", "torch's count", "balance", "time/export",
            "export s", "batch")
    row = "{:22} {:>6} {:>14} {:>8} {:>8} {:>8} {:>13} {:>7} {:>11} {:>8} {:>5}"
    print(row.format(*head), flush=True)
    failures, evens = [], []
    for name in names:
        try:
            cells, found, even = check(name, spent, options.write, options.program, options.time)
        except Exception as error:
            failures.append("{}: {}: {}".format(name, type(error).__name__, error))
            print("{:22} {}".format(name, failures[-1][:200]), flush=True)
            continue
        failures += ["{}: {}".format(name, each) for each in found]
        if name in zoo.FIRST_32:
            evens.append((even, name))
        print(row.format(name, *cells), "" if not found else "  <-", flush=True)
    uneven = ["{} ({:.2f})".format(name, even) for even, name in sorted(evens) if even > 1.05]
    allowed = len(evens) - BALANCED if len(evens) == OF_FIRST else OF_FIRST - BALANCED
    print("balance of two stages at most 1.05: {} of {}; not: {}".format(
        len(evens) - len(uneven), len(evens), ", ".join(uneven) or "none"))
    if len(uneven) > allowed:
        failures.append("balance: {} models are worse than 1.05".format(len(uneven)))
    for failure in failures:
        print("failed: " + failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
