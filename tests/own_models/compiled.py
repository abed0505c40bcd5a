#!/usr/bin/env python3
"""Trains own models with `training.compiler` none and full, and compares: losses, seconds of a step and of compiling.

    python tests/own_models/compiled.py [MODEL ...]

Losses must be equal to rounding; times are printed. torch.compile needs a C++ compiler.
"""

import os
import sys
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.simplefilter("ignore")

import torch

import zoo
import meshwright.torch as mw
from meshwright.torch.exporting import Step

STEPS, BOUND = 5, 2e-5


def trained(name, level):
    """Losses, seconds of the last step, and what was compiled."""
    torch.manual_seed(0)
    net, example, loss = zoo.MODELS[name]()
    mw.init({"training": {"seed": 1, "compiler": level}, "parallelism": {"data": 1}})
    model = mw.DistributedModel(net, loss)
    parameters = {id(each): each for part in Step(net, loss, example).parts.values() for each in part.parameters()}
    mw.DistributedOptimizer(torch.optim.AdamW(list(parameters.values()), lr=1e-3, eps=1e-6))
    losses, seconds = [], 0.0
    for _ in range(STEPS):
        begin = time.time()
        losses.append(model.step([example] * 2).item())
        seconds = time.time() - begin
    made = model.compiled
    model.close()
    return losses, seconds, made


def main():
    wrong = 0
    for name in sys.argv[1:] or ["mlp_mse"]:
        plain, plain_seconds, _ = trained(name, "none")
        losses, seconds, made = trained(name, "full")
        off = max(abs(a - b) / max(abs(a), 1e-12) for a, b in zip(plain, losses))
        good = off <= BOUND and made.functions > 0
        wrong += not good
        print("{:22} {} losses {:.1e} apart; a step {:.3f} s, compiled {:.3f} s; {} functions, {:.0f} s of compiling{}".format(
            name, "equal " if good else "FAILED", off, plain_seconds, seconds, made.functions, made.seconds,
            "".join("; {} segments run eagerly: {}".format(count, why) for why, count in made.eager.items())), flush=True)
    mw.shutdown()
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
