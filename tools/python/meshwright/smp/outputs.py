"""What a step function takes and gives: arguments are cut into micro-batches, results are one for each of them."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

import torch
import torch.utils._pytree as pytree

__all__ = ["Arguments", "StepOutput", "leaves_of", "put_together"]


class StepOutput:
    """A tensor that a step function returned, once for each micro-batch."""

    def __init__(self, outputs: Sequence[torch.Tensor]) -> None:
        self.outputs = list(outputs)

    def __len__(self) -> int:
        return len(self.outputs)

    def __getitem__(self, micro_batch: int) -> torch.Tensor:
        return self.outputs[micro_batch]

    def reduce_mean(self) -> torch.Tensor:
        """The mean over the micro-batches."""
        return self.reduce_sum() / len(self.outputs)

    def reduce_sum(self) -> torch.Tensor:
        """The sum over the micro-batches."""
        return torch.stack(self.outputs).sum(0)

    def concat(self) -> torch.Tensor:
        """The micro-batches after each other, along the batch's axis."""
        return torch.cat(self.outputs) if self.outputs[0].dim() else self.stack()

    def stack(self) -> torch.Tensor:
        """The micro-batches along a new first axis."""
        return torch.stack(self.outputs)

    average, merge = reduce_mean, concat

    def accumulate(self, method: str = "variable", var: Any = None) -> torch.Tensor:
        """The mean, as the library's TensorFlow name has it."""
        return self.reduce_mean()

    def __repr__(self) -> str:
        return "StepOutput({} x {})".format(len(self.outputs), tuple(self.outputs[0].shape))


class _Outputs(dict):
    """Named results, also as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


_PLAIN = (torch.Tensor, int, float, bool, str, bytes, type(None))


def leaves_of(result: Any) -> List[Any]:
    """Tensors and plain values in a result, in order. Objects of other classes are left out, as None."""
    if isinstance(result, dict) or hasattr(result, "to_tuple") and hasattr(result, "items"):
        return [leaf for value in result.values() for leaf in leaves_of(value)]
    if isinstance(result, (list, tuple)):
        return [leaf for value in result for leaf in leaves_of(value)]
    return [result if isinstance(result, _PLAIN) else None]


def put_together(result: Any, leaves: Any) -> Any:
    """The same structure around other leaves, which an iterator gives."""
    if isinstance(result, dict) or hasattr(result, "to_tuple") and hasattr(result, "items"):
        return _Outputs((name, put_together(value, leaves)) for name, value in result.items())
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*(put_together(value, leaves) for value in result))
    if isinstance(result, (list, tuple)):
        return type(result)(put_together(value, leaves) for value in result)
    return next(leaves)


def of_micro_batches(results: List[Any]) -> Any:
    """Tensors of all micro-batches become StepOutputs, other values lists."""
    columns = zip(*(leaves_of(each) for each in results))
    return put_together(results[0], iter([
        StepOutput(column) if isinstance(column[0], torch.Tensor) else list(column) for column in columns]))


class Arguments:
    """The arguments of a call of a step function: tensors with names, and what is around them."""

    def __init__(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Dict[str, Any],
                 whole: Set[str], axes: Dict[str, int]) -> None:
        bound = inspect.signature(function).bind(*args, **kwargs)
        self.args, self.kwargs = len(bound.args), list(bound.kwargs)
        names = list(inspect.signature(function).parameters)
        given = dict(bound.arguments)
        self.leaves, self.structure = pytree.tree_flatten((bound.args, bound.kwargs))
        owners = self._owners(bound, names, given)
        self.places = [place for place, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        self.names: Dict[int, str] = {}
        self.axes: Dict[str, Optional[int]] = {}
        counts: Dict[str, int] = {}
        for place in self.places:
            owner, leaf = owners[place], self.leaves[place]
            number = counts[owner] = counts.get(owner, -1) + 1
            name = self.names[place] = owner if number == 0 else "{}.{}".format(owner, number)
            self.axes[name] = None if owner in whole or leaf.dim() == 0 else axes.get(owner, 0)
        self._owners_of = owners

    @staticmethod
    def _owners(bound: inspect.BoundArguments, names: List[str], given: Dict[str, Any]) -> List[str]:
        """By leaf: the argument that it belongs to."""
        found: List[str] = []
        positional = [name for name in names if name in given]
        for place, value in enumerate(bound.args):
            name = positional[min(place, len(positional) - 1)] if positional else str(place)
            found += [name] * len(pytree.tree_leaves(value))
        for name, value in bound.kwargs.items():
            found += [name] * len(pytree.tree_leaves(value))
        return found

    @property
    def tensors(self) -> List[torch.Tensor]:
        return [self.leaves[place] for place in self.places]

    @tensors.setter
    def tensors(self, tensors: Sequence[torch.Tensor]) -> None:
        for place, tensor in zip(self.places, tensors):
            self.leaves[place] = tensor

    def plain(self) -> Dict[str, Any]:
        """Numbers and words among the arguments, by name."""
        return {"{} (argument {})".format(self._owners_of[place], place): leaf
                for place, leaf in enumerate(self.leaves) if isinstance(leaf, (int, float, str))}

    def micro_batches(self, count: int) -> List[Dict[str, torch.Tensor]]:
        """The tensors of each micro-batch by name."""
        found: List[Dict[str, torch.Tensor]] = [{} for _ in range(count)]
        for place in self.places:
            name, tensor = self.names[place], self.leaves[place]
            axis = self.axes[name]
            if axis is not None and tensor.shape[axis] % count:
                raise ValueError("smp.step: {} has {} samples, which {} micro-batches cannot share; use a multiple, and "
                                 "drop_last=True in the loader".format(name, tensor.shape[axis], count))
            for number in range(count):
                size = tensor.shape[axis] // count if axis is not None else 0
                found[number][name] = tensor if axis is None else tensor.narrow(axis, number * size, size)
        return found

    def of_micro_batch(self, number: int, count: int, tensors: Dict[str, torch.Tensor]) -> Tuple[Any, Any]:
        """(args, kwargs) of a call with these tensors. Objects that have smp_slice cut themselves."""
        leaves = list(self.leaves)
        for place, leaf in enumerate(leaves):
            if place in self.names:
                leaves[place] = tensors[self.names[place]]
            elif hasattr(leaf, "smp_slice"):
                leaves[place] = leaf.smp_slice(count, number, 0)
        return pytree.tree_unflatten(leaves, self.structure)
