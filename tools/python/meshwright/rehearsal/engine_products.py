"""Linear layers of Transformer Engine by what they launch: products, and the tensor-parallel group's collectives.

The gradient of a layer gathers its input beside the product of the input's gradient, and reduces that
gradient beside the product of the weight's, as Transformer Engine does without user buffers.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Tuple

import torch
import torch.distributed as dist

__all__ = ["GroupedProduct", "Product", "Split"]


class Split(NamedTuple):
    """How a group shares a layer: `mode` is "column", "row" or None."""

    mode: Optional[str]
    group: Any
    ranks: int
    sequences: bool         # whether what lies outside the layer is split by sequence
    accumulates: bool       # whether the weight's gradient is added to `main_grad`

    @property
    def gathers(self) -> bool:
        return self.ranks > 1 and self.sequences


def _gathered(x: torch.Tensor, split: Split, later: bool = False) -> Tuple[torch.Tensor, Any]:
    whole = x.new_empty((x.shape[0] * split.ranks, *x.shape[1:]))
    return whole, dist.all_gather_into_tensor(whole, x.contiguous(), group=split.group, async_op=later)


def _scattered(x: torch.Tensor, split: Split, later: bool = False) -> Tuple[torch.Tensor, Any]:
    part = x.new_empty((x.shape[0] // split.ranks, *x.shape[1:]))
    return part, dist.reduce_scatter_tensor(part, x, group=split.group, async_op=later)


def _rows(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(-1, x.shape[-1])


def _weight_gradient(weight: torch.Tensor, gradient: torch.Tensor, x: torch.Tensor, accumulates: bool) -> torch.Tensor:
    main = getattr(weight, "main_grad", None)
    if not accumulates or main is None:
        return gradient.t() @ x
    if main.dtype == gradient.dtype:
        main.addmm_(gradient.t(), x)
    else:
        torch.ops.aten.addmm.dtype_out(main, gradient.t(), x, main.dtype, out=main)
    weight.grad_added_to_main_grad = True   # type: ignore[attr-defined]
    return weight.new_empty(weight.shape)


class Product(torch.autograd.Function):
    """x times the weight, with a bias that the product's kernel adds."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor], split: Split) -> Any:
        context.split, context.has_bias = split, bias is not None
        context.save_for_backward(x, weight)
        if split.mode == "column" and split.gathers:
            x, _ = _gathered(x, split)
        flat = _rows(x)
        out = torch.addmm(bias, flat, weight.t()) if bias is not None else flat @ weight.t()
        out = out.view(*x.shape[:-1], weight.shape[0])
        if split.mode == "row" and split.ranks > 1:
            if split.sequences:
                out, _ = _scattered(out, split)
            else:
                dist.all_reduce(out, group=split.group)
        return out

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> Any:   # type: ignore[override]
        split = context.split
        x, weight = context.saved_tensors
        if split.mode == "row" and split.gathers:
            gradient, _ = _gathered(gradient, split)
        arriving = None
        if split.mode == "column" and split.gathers and weight.requires_grad:
            x, arriving = _gathered(x, split, later=True)
        of_output = _rows(gradient)
        of_input = leaving = None
        if context.needs_input_grad[0]:
            of_input = (of_output @ weight).view(*gradient.shape[:-1], weight.shape[1])
        if arriving is not None:
            arriving.wait()
        if of_input is not None and split.mode == "column" and split.ranks > 1:
            if split.sequences:
                of_input, leaving = _scattered(of_input, split, later=True)
            else:
                leaving = dist.all_reduce(of_input, group=split.group, async_op=True)
        of_weight = _weight_gradient(weight, of_output, _rows(x), split.accumulates) if weight.requires_grad else None
        if leaving is not None:
            leaving.wait()
        # The matmul of the weight's gradient sums the bias's gradient in the same kernel.
        of_bias = weight.new_empty(weight.shape[0]) if context.has_bias else None
        return of_input, of_weight, of_bias, None


class GroupedProduct(torch.autograd.Function):
    """Rows in groups of the given sizes, each times a weight of its own."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, sizes: List[int], accumulates: bool, *weights: torch.Tensor) -> Any:
        context.sizes, context.accumulates = sizes, accumulates
        context.save_for_backward(x, *weights)
        flat = _rows(x)
        out = flat.new_empty((flat.shape[0], weights[0].shape[0]))
        for rows, weight, part in zip(flat.split(sizes), weights, out.split(sizes)):
            torch.mm(rows, weight.t(), out=part)
        return out.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> Any:   # type: ignore[override]
        x, *weights = context.saved_tensors
        of_output, flat = _rows(gradient), _rows(x)
        of_input = flat.new_empty(flat.shape)
        for rows, weight, part in zip(of_output.split(context.sizes), weights, of_input.split(context.sizes)):
            torch.mm(rows, weight, out=part)
        of_weights = [_weight_gradient(weight, rows, part, context.accumulates)
                      for weight, rows, part in zip(weights, of_output.split(context.sizes), flat.split(context.sizes))]
        return (of_input.view(x.shape), None, None, *of_weights)
