"""Operations of a profiled step: their arguments as tensors without data, and the kernels that they run.

PyTorch's execution trace says for each operation its schema, and shapes, strides and types of what
goes in and comes out. `meshwright.torch.kernels` takes such tensors, as it does when a model is captured.
"""

from __future__ import annotations

import bisect
import json
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

import torch

from ..torch.kernels import Kernel, is_product, kernels_of

__all__ = ["Operation", "Operations"]

_TYPES = {
    "double": torch.float64, "float": torch.float32, "c10::Half": torch.float16, "c10::BFloat16": torch.bfloat16,
    "bool": torch.bool, "unsigned char": torch.uint8, "signed char": torch.int8, "short int": torch.int16,
    "int": torch.int32, "long int": torch.int64, "c10::complex<float>": torch.complex64,
    "c10::complex<double>": torch.complex128, "c10::Float8_e4m3fn": torch.float8_e4m3fn,
    "c10::Float8_e5m2": torch.float8_e5m2,
}
_ENGINE = "autograd::engine::evaluate_function"
_FORWARD_ALONE = {"aten::linear", "aten::matmul", "aten::scaled_dot_product_attention", "aten::conv1d", "aten::conv2d",
                  "aten::conv3d", "aten::layer_norm", "aten::rms_norm", "aten::batch_norm", "aten::dropout"}


class Operation(NamedTuple):
    """One call of an operation."""

    number: int
    parent: int
    name: str
    schema: str
    inputs: Dict[str, Any]
    outputs: Dict[str, Any]


class Operations:
    """The operations of a step, by the correlation ids that the stand-in library has of launches.

    `groups` has the global ranks of process groups by their names.
    """

    def __init__(self, execution_trace: str, profile: str, groups: Dict[str, List[int]]) -> None:
        self._groups = groups
        with open(execution_trace, encoding="utf-8") as file:
            nodes = json.load(file)["nodes"]
        with open(profile, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        self._of_number: Dict[int, Operation] = {}
        of_record: Dict[int, Operation] = {}
        for node in nodes:
            attributes = {each["name"]: each["value"] for each in node.get("attrs", ())}
            operation = Operation(node["id"], node.get("ctrl_deps", 0), node["name"], attributes.get("op_schema", ""),
                                  node.get("inputs", {}), node.get("outputs", {}))
            self._of_number[node["id"]] = operation
            if attributes.get("rf_id"):
                of_record[attributes["rf_id"]] = operation
        self._of_correlation: Dict[int, Operation] = {}
        self._parameters: Dict[int, Dict[str, Any]] = {}   # parameters of collectives, by correlation id
        for event in events:
            arguments = event.get("args", {})
            if "External id" in arguments:
                correlation = int(arguments["External id"])
                found = of_record.get(arguments.get("Record function id", 0))
                if found is not None:
                    self._of_correlation[correlation] = found
                if "Collective name" in arguments:
                    self._parameters[correlation] = arguments
        self._described = sorted(self._parameters)
        self._kernels: Dict[str, List[Kernel]] = {}

    def of(self, correlation: int) -> Optional[Operation]:
        """The operation whose row of the table says what a launch does.

        It is the innermost one, or attention, a convolution or the like around it, whose row counts all that it runs.
        """
        innermost = self._of_correlation.get(correlation)
        found = innermost
        for outer in self._with_parents(innermost):
            if is_product(outer.name) and not outer.name.endswith(("mm", "linear")):
                found = outer
        return found

    def in_order(self) -> List[Operation]:
        """All operations, in the order in which they began."""
        return sorted(self._of_number.values(), key=lambda each: each.number)

    def is_backward(self, operation: Optional[Operation]) -> bool:
        """Whether autograd's engine runs it: for gradients, or recomputed for them."""
        return any(each.name.startswith(_ENGINE) for each in self._with_parents(operation))

    def is_recomputed(self, operation: Optional[Operation]) -> bool:
        """Whether it repeats a part of the forward pass in the backward pass.

        A node of autograd calls the operations of its gradient. What it calls beneath a composite one
        of the forward pass, or in the function of a checkpoint, is a forward pass.
        """
        composite = False
        for each in self._with_parents(operation):
            composite = composite or each.name in _FORWARD_ALONE
            if each.name.startswith(_ENGINE):
                return composite or each.name.endswith("CheckpointFunctionBackward")
        return False

    def _with_parents(self, operation: Optional[Operation]) -> Iterator[Operation]:
        while operation is not None:
            yield operation
            operation = self._of_number.get(operation.parent) if operation.parent != operation.number else None

    def ranks_of(self, correlation: int) -> Optional[List[int]]:
        """The global ranks of the group of a collective, where PyTorch says them."""
        # PyTorch writes the parameters of a collective just before it calls NCCL.
        at = bisect.bisect_right(self._described, correlation)
        if at == 0:
            return None
        return self._groups.get(self._parameters[self._described[at - 1]].get("Process Group Name", ""))

    def kernels(self, operation: Operation) -> List[Kernel]:
        key = json.dumps([operation.schema or operation.name, operation.inputs.get("shapes"),
                          operation.inputs.get("types"), operation.inputs.get("strides"),
                          _scalars(operation.inputs.get("values")), operation.outputs.get("shapes")])
        found = self._kernels.get(key)
        if found is None:
            found = self._kernels[key] = _kernels_of(operation)
        return found


def _scalars(values: Any) -> Any:
    """Arguments without what names tensors, which differ from call to call."""
    if not isinstance(values, list):
        return values
    return [_scalars(each) if not _is_tensor(each) else None for each in values]


def _is_tensor(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 6 and isinstance(value[5], str)


def _kernels_of(operation: Operation) -> List[Kernel]:
    inputs = _values(operation.inputs)
    outputs = _values(operation.outputs)
    function = _function(operation.schema)
    if function is not None:
        places = function._schema.arguments
        args = [value for place, value in zip(places, inputs) if not place.kwarg_only]
        kwargs = {place.name: value for place, value in zip(places, inputs) if place.kwarg_only}
        out = outputs[0] if len(outputs) == 1 else tuple(outputs)
        try:
            return kernels_of(function, args, kwargs, out)
        except (AttributeError, IndexError, TypeError, StopIteration):
            pass   # arguments that this table does not expect: what every kernel does at least
    moved = sum(each.numel() * each.element_size() for each in _tensors(inputs + outputs))
    return [Kernel(operation.name, "memory", moved)]


def _tensors(values: List[Any]) -> List[torch.Tensor]:
    found: List[torch.Tensor] = []
    for each in values:
        if isinstance(each, torch.Tensor):
            found.append(each)
        elif isinstance(each, list):
            found += _tensors(each)
    return found


def _function(schema: str) -> Any:
    name, _, _ = schema.partition("(")
    space, _, rest = name.partition("::")
    short, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, space, None), short, None) if short else None
    return getattr(packet, overload or "default", None)


def _values(side: Dict[str, Any]) -> List[Any]:
    lists = (side.get(key) or [] for key in ("values", "shapes", "types", "strides"))
    return [_value(*each) for each in zip(*lists)]


def _value(value: Any, shape: Any, kind: str, strides: Any) -> Any:
    if kind.startswith("Tensor("):
        return _tensor(shape, kind, strides)
    if kind.startswith("GenericList["):
        kinds = _inner(kind)
        if isinstance(value, list) and any(each.startswith("Tensor(") for each in kinds):
            return [_value(*each) for each in zip(value, shape, kinds, strides)]
        return value
    return None if kind == "None" else value


def _inner(kind: str) -> List[str]:
    """The types of a list: "GenericList[Tensor(float),None]" holds two."""
    return kind[len("GenericList["):-1].split(",")


def _tensor(shape: Tuple[int, ...], kind: str, strides: Tuple[int, ...]) -> torch.Tensor:
    dtype = _TYPES.get(kind[len("Tensor("):-1], torch.float32)
    if strides is None or len(strides) != len(shape):
        return torch.empty(shape, dtype=dtype, device="meta")
    return torch.empty_strided(shape, strides, dtype=dtype, device="meta")
