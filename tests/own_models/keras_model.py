#!/usr/bin/env python3
"""Trains a Keras model on PyTorch as its backend under pipeline 2 x data 2 and tensor 2 x data 2, as eager PyTorch does.

    python tests/own_models/keras_model.py

meshwright._runtime must be on PYTHONPATH (build/release/python).
"""

import os

os.environ["KERAS_BACKEND"] = "torch"
os.environ.setdefault("OMP_NUM_THREADS", "1")

import keras
import torch
import torch.nn.functional as F

import on_ranks
import meshwright.torch as mw

BATCH, STEPS = 16, 5


def made():
    keras.utils.set_random_seed(1)
    layers = keras.layers
    return keras.Sequential([
        layers.Input((12,)), layers.Dense(32, activation="relu"), layers.LayerNormalization(),
        layers.Dense(32, activation="gelu"), layers.Dense(32, activation="relu"), layers.Dense(4)])


def data():
    torch.manual_seed(3)
    return [(torch.randn(BATCH, 12), torch.randint(0, 4, (BATCH,))) for _ in range(STEPS)]


def optimizer_of(net):
    return torch.optim.AdamW(net.parameters(), lr=1e-2)


def losses_alone():
    net = made()
    optimizer, losses = optimizer_of(net), []
    for x, y in data():
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def trained(parallelism):
    mw.init({"parallelism": parallelism})
    net = made()
    model = mw.DistributedModel(lambda x, y: F.cross_entropy(net(x), y))
    mw.DistributedOptimizer(optimizer_of(net))
    share = BATCH // parallelism["data"]
    losses = []
    for x, y in data():
        first = mw.dp_rank() * share
        losses.append(model.step((x[first:first + share], y[first:first + share])).item())
    model.close()
    return losses


def test_a_keras_model_trains_as_alone():
    alone = losses_alone()
    for parallelism in ({"pipeline": 2, "data": 2}, {"tensor": 2, "data": 2}):
        for one, other in zip(trained(parallelism), alone):
            on_ranks.check("{}: loss {} is {}".format(parallelism, one, other), abs(one - other) <= on_ranks.bound() * other)


if __name__ == "__main__":
    on_ranks.run(globals(), 4)
