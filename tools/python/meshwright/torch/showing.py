"""Prints what a capture divides over the ranks of a tensor group."""

from __future__ import annotations

import re
from typing import Any, Dict, List

from .capturing import CapturedModel

__all__ = ["print_cuts"]


def print_cuts(captured: CapturedModel, whole: Dict[str, str], lists_modules: bool) -> None:
    """Prints a line for each degree, and with `lists_modules` the modules that are cut and those that stay whole."""
    document = captured.document
    for entry in document.get("tensor_parallel", ()):
        cut = sum(_elements(document["parameters"][each["parameter"]]) for each in entry["cuts"])
        exchanges = sum("collective" in segment for segment in entry["segments"])
        print("tensor {}{}: {:.0f} % of the parameters are cut, {} exchanges of activations in the forward pass".format(
            entry["degree"], " with sequence parallelism" if entry["sequence_parallel"] else "",
            100 * cut / max(1, sum(_elements(each) for each in document["parameters"])), exchanges))
    for place, reason in whole.items():
        if place.startswith("tensor "):
            print("{}: not possible: {}".format(place, reason))
    if lists_modules:
        for line in _by_outputs_and_inputs(document) + [
                "whole: {}: {}".format(place.split(" ")[0] or "the step", reason)
                for place, reason in whole.items() if not place.startswith("tensor ")]:
            print(line)


def _elements(parameter: Dict[str, Any]) -> int:
    count = 1
    for size in parameter["shape"]:
        count *= size
    return count


def _by_outputs_and_inputs(document: Dict[str, Any]) -> List[str]:
    """A line for each kind of parameter that is cut; equal layers have one, with N for their number."""
    lines: Dict[str, None] = {}
    for entry in document.get("tensor_parallel", ())[:1]:
        for cut in entry["cuts"]:
            parameter = document["parameters"][cut["parameter"]]
            parts = ", in {} parts".format(len(cut["parts"])) if len(cut["parts"]) > 1 else ""
            lines["cut: {} {}, axis {}{}".format(re.sub(r"(^|\.)\d+(?=\.|$)", r"\1N", parameter["name"]),
                                                parameter["shape"], cut["axis"], parts)] = None
    return list(lines)
