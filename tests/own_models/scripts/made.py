"""What the scripts share: their part of made batches, and where they write what the test compares."""

import json
import os

import torch

import meshwright.smp as smp


def part_of(*tensors):
    """This replica's part of a global batch."""
    return [each.chunk(smp.dp_size())[smp.dp_rank()].clone() for each in tensors]


def mean_of_replicas(loss):
    """The mean of a number over the replicas."""
    losses = smp.allgather(float(torch.as_tensor(loss).detach()), smp.DP_GROUP)
    return sum(losses) / len(losses)


def report(**values):
    """Writes numbers, and the model's norm by parameter, for the test."""
    path = os.environ.get("SMP_REPORT")
    if path and smp.rank() == 0:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(values, file)


def norms_of(model):
    """The sum of each parameter times a fixed pattern: it differs where values do. Every rank calls it."""
    found = {}
    for name, value in model.state_dict().items():
        if value.is_floating_point():
            flat = value.detach().double().flatten()
            found[name] = float((flat * torch.linspace(-1, 1, flat.numel(), dtype=torch.float64)).sum())
    return found
