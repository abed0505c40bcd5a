"""`python3 -m meshwright.torch capture`: writes own.model.json of a model in a user's file, or of a config.json."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from typing import Any, List, Optional, Tuple

import torch

from . import CaptureError, capture
from .capturing import CapturedModel
from .document import PRECISIONS, value_at
from .errors import ON_META, explained
from .scripts import alone
from .showing import print_cuts


def _loaded(path: str) -> Any:
    """The user's file as a module. His folder is searched for what he imports."""
    if not os.path.isfile(path):
        raise CaptureError("{}: there is no such file".format(path))
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    specification = importlib.util.spec_from_file_location("captured_script", path)
    if specification is None or specification.loader is None:
        raise CaptureError("{}: is no Python file".format(path))
    module = importlib.util.module_from_spec(specification)
    sys.modules["captured_script"] = module
    try:
        specification.loader.exec_module(module)
    except Exception as error:
        raise explained(error, "running {}".format(path), in_step=False) from error
    return module


def _written_example(expressions: List[str], module: Any) -> Any:
    """--example: `NAME=EXPRESSION` makes a dictionary, an expression without a name a place of a tuple."""
    names = {"torch": torch, **vars(module)}
    named, placed = {}, []
    for text in expressions:
        head, mark, tail = text.partition("=")
        keyed = bool(mark) and head.strip().isidentifier() and not tail.startswith("=")
        try:
            value = eval(tail if keyed else text, names)
        except Exception as error:
            raise CaptureError("--example {}: {}: {}".format(text, type(error).__name__, error)) from error
        if keyed:
            named[head.strip()] = value
        else:
            placed.append(value)
    if named and placed:
        raise CaptureError("--example: either all have names or none")
    return named or tuple(placed)


def _what(target: str, expressions: Optional[List[str]]) -> Tuple[Any, Any, Any]:
    """(module or step, example, loss) of FILE.py:NAME."""
    path, mark, name = target.rpartition(":")
    if not mark or not path:
        raise CaptureError("{}: FILE.py:NAME is expected".format(target))
    module = _loaded(path)
    if not hasattr(module, name):
        raise CaptureError("{}: {} has no such name".format(target, path))
    found = getattr(module, name)
    example = _written_example(expressions, module) if expressions else getattr(module, "example", None)
    if isinstance(found, torch.nn.Module):
        if example is None:
            raise CaptureError("{}: an `example` beside the module is missing; write one, or use --example".format(
                target))
        return found, example() if callable(example) else example, getattr(module, "loss", None)
    if not callable(found):
        raise CaptureError("{}: is neither an nn.Module nor a function".format(target))
    try:
        made = found()
    except Exception as error:
        raise explained(error, "calling {}".format(name), in_step=False) from error
    if isinstance(made, torch.nn.Module) and expressions:
        made = (made, example)
    if not isinstance(made, tuple) or len(made) not in (2, 3):
        raise CaptureError("{}: the function must return (module, example) or (module, example, loss)".format(target))
    model, own_example = made[0], made[1]
    return model, example if expressions else own_example, made[2] if len(made) == 3 else None


def _axes(texts: Optional[List[str]]) -> Any:
    if texts is None:
        return None
    axes = {}
    for text in texts:
        name, mark, axis = text.partition("=")
        if not mark or not (axis.isdigit() or axis == "none"):
            raise CaptureError("--batch-axis {}: INPUT=AXIS is expected, or INPUT=none".format(text))
        axes[name] = None if axis == "none" else int(axis)
    return axes


def _degrees(text: str) -> List[int]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if any(not word.isdigit() or int(word) < 2 for word in words) or len(words) > 8:
        raise CaptureError("--tensor {}: up to eight numbers from 2 on are expected, such as 2,4,8".format(text))
    return sorted({int(word) for word in words})


def _summary(captured: CapturedModel, path: str) -> str:
    document = captured.document
    elements = sum(_product(each["shape"]) for each in document["parameters"])
    batch = document["micro_batch"]
    flops = sum(value_at(kernel.get("flops", 0), batch) for segment in document["segments"]
                for phase in ("forward", "backward") for kernel in document["kinds"][segment["kind"]][phase])
    text = "{}: {}, {:,} parameters, {} segments of {} kinds, {:.4g} TFLOP a step of {} sample{}".format(
        path, document["name"], elements, len(document["segments"]), len(document["kinds"]), flops / 1e12, batch,
        "" if batch == 1 else "s")
    if "fixed_micro_batch" in document:
        text += "\nthe micro-batch is fixed: " + document["fixed_micro_batch"]
    if captured.is_steep:
        text += "\nsome sizes grow faster than the samples and are exact for {} only; capture with the micro-batch " \
                "of your plan".format(batch)
    return text


def _product(sizes: List[int]) -> int:
    count = 1
    for size in sizes:
        count *= size
    return count


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m meshwright.torch", description="PyTorch models for meshwright")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    words = commands.add_parser(
        "capture", help="write what `\"model\": \"own.model.json\"` of a job reads",
        description="Captures one training step of a model: types, bytes, FLOPs, kernels; no code and no weights. "
                    "Exit code 2 if the model cannot be captured; then nothing is written.")
    words.add_argument("target", nargs="?", metavar="FILE.py:NAME",
                       help="NAME is a function without arguments that returns (module, example) or (module, example, "
                            "loss), or an nn.Module beside an `example` (and maybe a `loss`) of the same file")
    words.add_argument("--transformers", metavar="config.json",
                       help="a model of transformers, built without memory and with its own loss")
    words.add_argument("-o", "--output", default="own.model.json", metavar="FILE", help="default: own.model.json")
    words.add_argument("--example", nargs="+", metavar="EXPR",
                       help="tensors of the example: expressions, or NAME=EXPRESSION; torch and the names of the file "
                            "are known")
    words.add_argument("--precision", choices=tuple(PRECISIONS), help="cast the module before it is captured")
    words.add_argument("--name", help="name of the model in logs")
    words.add_argument("--batch-axis", nargs="+", metavar="INPUT=AXIS",
                       help="where the samples lie, if not on the first axis of all inputs")
    words.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="whose kernels; default: cuda")
    words.add_argument("--tensor", default="", metavar="N,...",
                       help="degrees of tensor parallelism that a plan may have; linear layers are cut where that changes "
                            "no result")
    words.add_argument("--show", action="store_true", help="list which modules are cut for --tensor, and why others are not")
    words.add_argument("--batch", type=int, default=1, metavar="N", help="with --transformers: samples; default: 1")
    words.add_argument("--sequence-length", type=int, metavar="N", help="with --transformers: tokens of a sample")
    words.add_argument("--attention", choices=("eager", "sdpa"), help="with --transformers: attn_implementation")
    return parser


def _of_transformers(options: argparse.Namespace) -> CapturedModel:
    from .transformers_models import model_of
    if options.batch < 1 or (options.sequence_length is not None and options.sequence_length < 1):
        raise CaptureError("--batch and --sequence-length are at least 1")

    def captured(place: str) -> CapturedModel:
        model, example = model_of(options.transformers, options.batch, options.sequence_length,
                                  options.precision or "fp32", options.attention, place)
        return capture(model, example, name=options.name, device=options.device,
                       source="transformers " + os.path.basename(options.transformers))

    try:
        return captured("meta")
    except CaptureError as error:   # Some models make tensors without naming a device.
        if ON_META not in str(error):
            raise
        return captured("cpu")


def main(words: Optional[List[str]] = None) -> int:
    """Runs a command line; returns the exit code."""
    options = _parser().parse_args(words)
    try:
        if bool(options.target) == bool(options.transformers):
            raise CaptureError("either FILE.py:NAME or --transformers config.json is expected")
        if options.transformers:
            captured = _of_transformers(options)
        else:
            with alone():
                model, example, loss = _what(options.target, options.example)
            captured = capture(model, example, loss=loss, name=options.name, source=options.target,
                               precision=options.precision, batch_axes=_axes(options.batch_axis),
                               device=options.device)
        whole = captured.add_tensor_degrees(_degrees(options.tensor))
        captured.save(options.output)
    except (CaptureError, OSError) as error:
        print("error: {}".format(error), file=sys.stderr)
        return 2
    print(_summary(captured, options.output))
    print_cuts(captured, whole, options.show)
    return 0


if __name__ == "__main__":
    sys.exit(main())
