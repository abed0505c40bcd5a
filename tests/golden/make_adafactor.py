#!/usr/bin/env python3
"""Steps of Adafactor by transformers and by torch.optim, for tests/exec/adafactor_test.cpp.

Writes tests/golden/adafactor.json: for each settings the weights of a matrix [5, 7] and a vector [6]
after every one of four steps. Weights and gradients are the formulas of the test. Needs torch and
transformers; the test does not.
"""

import json
import math
import pathlib

import torch
import transformers
from transformers.optimization import Adafactor

MATRIX, VECTOR, STEPS = (5, 7), (6,), 4


def filled(shape, formula):
    count = math.prod(shape)
    return torch.tensor([formula(i) for i in range(count)], dtype=torch.float32).reshape(shape)


def weight(i):
    return math.sin(i + 1)


def gradient(step):
    return lambda i: math.cos((i + 1) * step) * 10.0 ** (i % 4 - 2)


def run(make):
    parameters = [torch.nn.Parameter(filled(shape, weight)) for shape in (MATRIX, VECTOR)]
    optimizer = make(parameters)
    steps = []
    for step in range(1, STEPS + 1):
        for parameter in parameters:
            parameter.grad = filled(parameter.shape, gradient(step))
        optimizer.step()
        steps.append([parameter.detach().flatten().tolist() for parameter in parameters])
    return steps


def by_transformers(lr, **settings):
    keys = {"lr": lr, "scale_parameter": False, "relative_step": False, **settings}
    if keys["relative_step"]:
        keys["lr"] = None  # 0.01 at most
    return run(lambda parameters: Adafactor(parameters, **keys))


CASES = [
    {"by": "transformers", "learning_rate": 0.05},
    {"by": "transformers", "learning_rate": 0.05, "weight_decay": 0.1, "clip_threshold": 0.5},
    {"by": "transformers", "learning_rate": 0.05, "scale_parameter": True, "decay_rate": -0.5},
    {"by": "transformers", "learning_rate": 0.01, "scale_parameter": True, "relative_step": True},
    {"by": "torch", "learning_rate": 0.6, "scale_parameter": True, "relative_step": True},
]

cases = []
for case in CASES:
    keys = {k: v for k, v in case.items() if k not in ("by", "learning_rate")}
    if case["by"] == "transformers":
        steps = by_transformers(case["learning_rate"], **keys)
    else:
        steps = run(lambda ps: torch.optim.Adafactor(ps, lr=case["learning_rate"]))
    cases.append({**case, "steps": steps})
made = {"transformers": transformers.__version__, "torch": torch.__version__, "cases": cases}
pathlib.Path(__file__).with_name("adafactor.json").write_text(json.dumps(made, indent=1) + "\n")
