#!/usr/bin/env python3
"""Predicted beside measured: step time and peak memory of own models in one process, on a quiet machine.

    build/release/meshwright calibrate        # once: the rates of this computer
    PYTHONPATH=build/release/python build/python/bin/python tests/own_models/measured.py [--models A,B] [--steps 4]

It prints a table and is no test. Memory is what two steps add at most to what the process holds before the first
one, in a process whose malloc gives every tensor back to the system: what it would keep beside is of malloc, not of
the step (its heap grows 15 to 50 % above it, with eager PyTorch as with meshwright). Step time is beside that of eager
PyTorch in the same process, another one.
"""

import argparse
import copy
import os
import statistics
import subprocess
import sys
import time
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
warnings.simplefilter("ignore")

import torch

import meshwright.torch as mw

MIB = 1 << 20


def of_transformers(config, head, example, **settings):
    import transformers
    made = getattr(transformers, config)(**settings)
    return getattr(transformers, head)._from_config(made, attn_implementation="eager"), example, None


def words(batch, length, count):
    ids = torch.randint(5, count, (batch, length))
    return {"input_ids": ids, "labels": ids.clone()}


def pictures(net, batch):
    def loss(output, example):
        return torch.nn.functional.cross_entropy(output, example[1])
    return net, (torch.randn(batch, 3, 224, 224), torch.randint(0, 1000, (batch,))), loss


def of_torchvision(name, batch):
    import torchvision
    return pictures(getattr(torchvision.models, name)(weights=None), batch)


MODELS = {
    "gpt2-124m": lambda: of_transformers("GPT2Config", "GPT2LMHeadModel", words(4, 256, 50257), use_cache=False),
    "bert-base": lambda: of_transformers("BertConfig", "BertForMaskedLM", words(8, 128, 30522)),
    "llama-85m": lambda: of_transformers(
        "LlamaConfig", "LlamaForCausalLM", words(4, 256, 8000), hidden_size=768, intermediate_size=2048,
        num_hidden_layers=8, num_attention_heads=12, num_key_value_heads=12, vocab_size=8000, use_cache=False),
    "resnet50": lambda: of_torchvision("resnet50", 8),
    "vit-b16": lambda: of_torchvision("vit_b_16", 8),
    "convnext-tiny": lambda: of_torchvision("convnext_tiny", 8),
}


def resident(key):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(key + ":"))


def forget_peak():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def prepared(name):
    torch.manual_seed(0)
    net, example, loss = MODELS[name]()
    net.train()
    eager = copy.deepcopy(net)
    tensors = list(example.values()) if isinstance(example, dict) else list(example)
    mw.init({"parallelism": {"pipeline": 1, "data": 1},
             "training": {"compiler": "none", "micro_batch": len(tensors[0])}})
    model = mw.DistributedModel(net, loss)
    mw.DistributedOptimizer(torch.optim.AdamW(net.parameters(), lr=1e-4))
    model.prepare(example)
    return model, example, loss, eager


def memory(name):
    model, example, _, _ = prepared(name)
    forget_peak()
    before = resident("VmRSS")
    model.step(example)
    model.step(example)
    grown = resident("VmHWM") - before
    classes = model.info["predicted_memory"]
    expected = sum(size for key, size in classes.items() if key not in ("parameters", "snapshot", "master"))
    print("{:14} memory {:6.0f} MiB, predicted {:6.0f} ({:+.1%})  {}".format(
        name, grown / MIB, expected / MIB, expected / grown - 1,
        {key: round(size / MIB) for key, size in classes.items() if size}), flush=True)


def time_of_step(name, steps):
    model, example, loss, eager = prepared(name)
    own = torch.optim.AdamW(eager.parameters(), lr=1e-4)

    def eager_step():
        own.zero_grad()
        output = eager(**example) if isinstance(example, dict) else eager(example[0])
        found = loss(output, example) if loss else output.loss
        found.backward()
        own.step()

    times = {"eager": [], "ours": []}
    for step in range(2 + steps):   # the first two settle the heap
        for key, run in (("eager", eager_step), ("ours", lambda: model.step(example))):
            begin = time.perf_counter()
            run()
            if step >= 2:
                times[key].append(time.perf_counter() - begin)
    middle = {key: statistics.median(found) for key, found in times.items()}
    predicted = model.info["predicted_seconds"]
    print("{:14} step {:.2f} s, predicted {:.2f} ({:+.1%}); eager {:.2f} s, ratio {:.3f}".format(
        name, middle["ours"], predicted, predicted / middle["ours"] - 1, middle["eager"],
        middle["ours"] / middle["eager"]), flush=True)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--models", default=",".join(MODELS))
    options.add_argument("--steps", type=int, default=4)
    options.add_argument("--here", choices=["memory", "time"], help=argparse.SUPPRESS)
    options = options.parse_args()
    names = options.models.split(",")
    if options.here:
        return memory(names[0]) if options.here == "memory" else time_of_step(names[0], options.steps)
    for name in names:
        for what, settings in (("memory", {"MALLOC_MMAP_THRESHOLD_": "131072"}), ("time", {})):
            subprocess.run([sys.executable, os.path.abspath(__file__), "--here", what, "--models", name, "--steps",
                            str(options.steps)], check=True, env={**os.environ, **settings})


if __name__ == "__main__":
    main()
