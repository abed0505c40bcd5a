"""How much a recorded step trained on: its samples and tokens, seen where the batch first meets the model.

A table of embeddings takes the tokens of a batch, the first convolution its images. Without either,
the rows of the first matrix product count. Recomputed operations count once.
"""

from __future__ import annotations

import math
import re
from typing import Any, Dict, List, Optional

from .operations import Operation
from .profiles import AllOperations

__all__ = ["batch_of", "replicas_of"]

_INTEGERS = ("Tensor(long int)", "Tensor(int)")
_WEIGHT_OF_PRODUCT = {"aten::linear": (0, 1), "aten::addmm": (1, 2), "aten::mm": (0, 1)}   # places of rows and weight among the arguments
# Words in the names of groups whose ranks compute on the same batch together, and words in the names of other
# groups.
_TOGETHER = ({"tp", "tensor"}, {"pp", "pipe", "pipeline"})
_APART = {"dp", "data", "fsdp", "shard", "replicate", "cp", "context", "ep", "expert", "embedding", "embd"}


def _embedded(operation: Operation) -> Optional[Dict[str, Any]]:
    """The table and the shape of what is looked up in it, by PyTorch or in a kernel that Inductor fused."""
    shapes, types = operation.inputs["shapes"], operation.inputs["types"]
    if operation.name == "aten::embedding":
        return {"table": shapes[0], "looked_up": shapes[1]}
    if operation.name.startswith("triton_") and "_embedding" in operation.name and "backward" not in operation.name:
        integers = [shape for shape, kind in zip(shapes, types) if kind in _INTEGERS]
        tables = [shape for shape, kind in zip(shapes, types) if kind.startswith("Tensor") and len(shape) == 2]
        if integers and tables:
            return {"table": max(tables, key=lambda shape: shape[0]), "looked_up": max(integers, key=math.prod)}
    return None


def batch_of(operations: AllOperations) -> Optional[Dict[str, int]]:
    """`samples` and `tokens` that this rank's step trained on; tokens are 0 where a sample has none."""
    forward = [each for each in operations.in_order() if not operations.is_backward(each)]
    embedded = [found for found in map(_embedded, forward) if found is not None]
    convolved = [each.inputs["shapes"] for each in forward if each.name == "aten::convolution"]
    first = next((each for each in forward if each.name == "aten::convolution" or _embedded(each)), None)
    if embedded and first is not None and first.name != "aten::convolution":
        table = max((each["table"] for each in embedded), key=lambda shape: shape[0])
        looked_up = [each["looked_up"] for each in embedded if each["table"] == table]
        return {"samples": sum(shape[0] if len(shape) > 1 else 1 for shape in looked_up),
                "tokens": sum(map(math.prod, looked_up))}
    if convolved:
        return {"samples": sum(image[0] for image, kernel, *_ in convolved if [image, kernel] == convolved[0][:2]),
                "tokens": 0}
    return _rows_of_first_product(forward)


def _rows_of_first_product(forward: List[Operation]) -> Optional[Dict[str, int]]:
    samples, weight, name = 0, None, ""
    for operation in forward:
        if operation.name not in _WEIGHT_OF_PRODUCT or name not in ("", operation.name):
            continue
        rows, place = _WEIGHT_OF_PRODUCT[operation.name]
        own = operation.inputs["values"][place][1:3]   # where the weight lies
        if weight is None:
            weight, name = own, operation.name
        if own == weight:
            samples += operation.inputs["shapes"][rows][0]
    return {"samples": samples, "tokens": 0} if samples else None


def replicas_of(ranks: int, groups: Dict[str, int]) -> int:
    """How many ranks have a batch of their own. `groups` has sizes by the descriptions of process groups."""
    for words in _TOGETHER:
        sizes = [size for name, size in groups.items() if _words(name) & words
                 and not _words(name) & (_APART | (_TOGETHER[0] | _TOGETHER[1]) - words)]
        ranks //= max(sizes, default=1)
    return max(1, ranks)


def _words(name: str) -> set[str]:
    return set(re.findall("[a-z]+", name.lower()))
