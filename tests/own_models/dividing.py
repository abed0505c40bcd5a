#!/usr/bin/env python3
"""Divides own models over tensor groups, and compares with eager PyTorch: the loss, and every gradient.

    python tests/own_models/dividing.py [--models A,B] [--degree 2] [--draw NUMBER]

All ranks of a group run in this process, call by call, and the exchanges between them are written out here, so that
neither MPI nor the Runtime takes part. Prints one line for each model, without and with sequence parallelism.
"""

import argparse
import os
import sys
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/python"))
warnings.simplefilter("ignore")

import torch

import zoo
from meshwright.torch import CaptureError, capture
from meshwright.torch import on_tensor_ranks as ranks
from meshwright.torch.capturing import _given
from meshwright.torch.exporting import Step, _as_in_training
from meshwright.torch.replay import filled

# A gradient that is a sum of terms which cancel, as that of the keys' bias does, is noise of this size.
LOSS, GRADIENT, NOISE = 2e-5, 1e-4, 1e-6
# What an exchange makes of the tensors of all ranks, and what it makes of their gradients.
EXCHANGES = {
    "tensor_copy": (lambda xs: list(xs), lambda gs, _: [sum(gs)] * len(gs)),
    "tensor_reduce": (lambda xs: [sum(xs)] * len(xs), lambda gs, _: list(gs)),
    "sequence_gather": (lambda xs: [torch.cat(xs)] * len(xs),
                        lambda gs, whole: [(g if whole else sum(gs)).chunk(len(gs))[r] for r, g in enumerate(gs)]),
    "sequence_scatter": (lambda xs: list(sum(xs).chunk(len(xs))), lambda gs, _: [torch.cat(gs)] * len(gs)),
    "sequence_slice": (lambda xs: [x.chunk(len(xs))[r] for r, x in enumerate(xs)],
                       lambda gs, _: [torch.cat(gs)] * len(gs)),
}


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(context, word, gradient_is_whole, *tensors):
        context.word, context.whole = word, gradient_is_whole
        return tuple(each.clone() for each in EXCHANGES[word][0](tensors))

    @staticmethod
    def backward(context, *gradients):
        return (None, None) + tuple(each.clone() for each in EXCHANGES[context.word][1](gradients, context.whole))


def part_of(tensor, cut, degree, rank):
    ranks.set_rank(rank)
    part = ranks.own_part(tensor, cut.axis, cut.parts, degree).contiguous()
    ranks.set_rank(0)
    return part


def run(program, divided, degree, tensors, trained):
    """Losses by rank, and each rank's parameters with their gradients."""
    environments = [{} for _ in range(degree)]
    for source in program.sources:
        for rank, environment in enumerate(environments):
            tensor = tensors[source.value]
            if source.kind == "parameter":
                cut = divided.cuts.get(source.value)
                tensor = part_of(tensor.detach(), cut, degree, rank) if cut else tensor.detach().clone()
                tensor.requires_grad_(source.value in trained)
            environment[source.value] = tensor
    own = [{value: environment[value] for value in trained} for environment in environments]
    for call in divided.program.calls:
        if isinstance(call.target, ranks.Collective):
            given = [environment[call.args[0].value] for environment in environments]
            made = Exchange.apply(call.target.word, call.target.gradient_is_whole, *given)
            for environment, tensor in zip(environments, made):
                environment[call.result] = tensor
            continue
        state = torch.get_rng_state()
        for rank, environment in enumerate(environments):
            torch.set_rng_state(state)
            ranks.set_rank(rank)
            with torch.set_grad_enabled(call.context.gradients):
                environment[call.result] = call.target(*filled(call.args, environment, None),
                                                       **filled(call.kwargs, environment, None))
        ranks.set_rank(0)
    losses = [environment[divided.program.loss] for environment in environments]
    sum(losses).backward()
    return losses, own


def compared(captured, degree, by_sequence):
    """(difference of the loss, largest of a gradient, share of the parameters that is cut)."""
    rank = captured.on_tensor_ranks(degree, by_sequence)
    divided, program = rank._exported.divided, captured.program
    given, tensors = _given(captured.step, program)
    trained = {value for value, each in given.items() if each.trained}
    for each in captured.step.parameters():
        each.grad = None
    with _as_in_training(captured.step):
        torch.manual_seed(11)
        eager = captured.step(captured.step.example.tensors)
        eager.backward()
    torch.manual_seed(11)
    losses, own = run(program, divided, degree, tensors, trained)
    loss = max(abs(float(each.detach()) - float(eager.detach())) for each in losses) / max(1.0, abs(float(eager.detach())))
    largest = max(float(tensors[value].grad.norm()) for value in trained if tensors[value].grad is not None)
    worst = 0.0
    for value in trained:
        whole = tensors[value].grad
        if whole is None or all(each[value].grad is None for each in own):
            continue
        for number in range(degree):
            wanted = part_of(whole, divided.cuts[value], degree, number) if value in divided.cuts else whole
            found = own[number][value].grad
            if value in divided.summed:
                found = sum(each[value].grad for each in own if each[value].grad is not None)
            difference = float(((0 if found is None else found) - wanted).norm())
            worst = max(worst, difference / max(float(wanted.norm()), NOISE / GRADIENT * largest))
    cut = sum(tensors[value].numel() for value in divided.cuts)
    return loss, worst, cut / sum(tensors[value].numel() for value in trained)


def check(name, degree):
    torch.manual_seed(0)
    net, example, loss = zoo.MODELS[name]()
    captured = capture(net, example, loss=loss, device="cpu")
    good = True
    for by_sequence in (False, True):
        word = "sequence" if by_sequence else "tensor"
        try:
            difference, gradient, share = compared(captured, degree, by_sequence)
        except CaptureError as error:
            print("{:22} {:8} stays whole: {}".format(name, word, str(error)[:120]), flush=True)
            continue
        equal = difference <= LOSS and gradient <= GRADIENT
        good = good and equal
        print("{:22} {:8} {} loss {:.1e} gradients {:.1e}, {:.0f} % of the parameters are cut".format(
            name, word, "equal " if equal else "FAILED", difference, gradient, 100 * share), flush=True)
    return good


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--models", default=",".join(zoo.MODELS))
    options.add_argument("--degree", type=int, default=2)
    options.add_argument("--draw", type=int, help="a third of the models, by this number")
    options = options.parse_args()
    names = options.models.split(",")
    if options.draw is not None:
        names = names[options.draw % 3::3]
    good = [check(name, options.degree) for name in names]
    print("{} of {} models are equal on the ranks of a tensor group".format(sum(good), len(good)))
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
