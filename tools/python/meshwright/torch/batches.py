"""Cuts batches into micro-batches, and gives each replica its part of what a loader yields."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, List, Optional

import torch
import torch.utils._pytree as pytree

__all__ = ["Shard", "micro_batches_of", "samples_of"]


def samples_of(batch: Any, axes: Dict[str, int], names: List[str]) -> int:
    """The samples of a batch whose tensors, in order, have these names and these axes of the samples."""
    tensors = [leaf for leaf in pytree.tree_leaves(batch) if isinstance(leaf, torch.Tensor)]
    for name, tensor in zip(names, tensors):
        if name in axes:
            return int(tensor.shape[axes[name]])
    return 1


def micro_batches_of(batch: Any, count: int, size: int, axes: Dict[str, int], names: List[str]) -> List[Any]:
    """`count` micro-batches of `size` samples each. A list of as many batches is taken as it is."""
    if isinstance(batch, list) and len(batch) == count and not isinstance(batch[0], torch.Tensor):
        return batch
    samples = samples_of(batch, axes, names)
    if samples != count * size:
        raise ValueError("step: the batch of this replica has {} samples; the plan takes {} micro-batches of {}, so {}"
                         .format(samples, count, size, count * size))
    if count == 1:
        return [batch]
    leaves, structure = pytree.tree_flatten(batch)
    cut = []
    for micro in range(count):
        own, tensors = [], 0
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor):
                name = names[tensors]
                tensors += 1
                if name in axes:
                    leaf = leaf.narrow(axes[name], micro * size, size)
            own.append(leaf)
        cut.append(pytree.tree_unflatten(own, structure))
    return cut


class Shard(Iterable[Any]):
    """The parts of a loader's global batches that belong to one replica.

    Each batch is cut along its first axis: replica d of D takes the d-th of D equal parts. The first `skip`
    batches are passed over, as a run does that goes on from a checkpoint.
    """

    def __init__(self, loader: Iterable[Any], replica: int, replicas: int, skip: int = 0) -> None:
        self.loader, self.replica, self.replicas, self.skip = loader, replica, replicas, skip

    def __len__(self) -> int:
        return max(0, len(self.loader) - self.skip)   # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        for number, batch in enumerate(self.loader):
            if number >= self.skip:
                yield self._part(batch)

    def _part(self, batch: Any) -> Any:
        if self.replicas == 1:
            return batch
        size: Optional[int] = None

        def part(leaf: Any) -> Any:
            nonlocal size
            if not isinstance(leaf, torch.Tensor) or leaf.dim() == 0:
                return leaf
            size = leaf.shape[0] if size is None else size
            if leaf.shape[0] != size:
                return leaf
            if size % self.replicas:
                raise ValueError("shard: a batch of {} samples cannot be divided among {} replicas; use drop_last=True "
                                 "and a batch_size that is a multiple".format(size, self.replicas))
            return leaf.narrow(0, self.replica * (size // self.replicas), size // self.replicas)

        return pytree.tree_map(part, batch)
