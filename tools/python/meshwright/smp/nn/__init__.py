"""The library's modules. The tensor degree of a captured model is 1, where they are PyTorch's."""

from __future__ import annotations

from typing import Any

import torch

from ..refusals import refused
from . import huggingface

__all__ = ["DistributedAttentionLayer", "DistributedEmbedding", "DistributedLayerNorm", "DistributedLinear",
           "DistributedTransformer", "DistributedTransformerLMHead", "DistributedTransformerLayer",
           "DistributedTransformerOutputLayer", "FlashAttentionLayer", "FusedLayerNorm", "huggingface"]


class DistributedLinear(torch.nn.Linear):
    """A Linear, whole on each rank."""


class DistributedEmbedding(torch.nn.Embedding):
    """An Embedding, whole on each rank, with values of the normal distribution of `initializer_range`."""

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: Any = None, max_norm: Any = None,
                 norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
                 initializer_range: float = 0.02, _skip_allgather: bool = False,
                 _skip_scatter_and_merge: bool = False) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
        torch.nn.init.normal_(self.weight, std=initializer_range)


FusedLayerNorm = DistributedLayerNorm = torch.nn.LayerNorm

_INSTEAD = ("its work is to divide a layer over tensor ranks, and the tensor degree of a captured model is 1; use "
            "transformers' own model, or torch.nn.TransformerEncoderLayer")
DistributedTransformer = refused("nn.DistributedTransformer", _INSTEAD)
DistributedTransformerLMHead = refused("nn.DistributedTransformerLMHead", _INSTEAD)
DistributedTransformerLayer = refused("nn.DistributedTransformerLayer", _INSTEAD)
DistributedTransformerOutputLayer = refused("nn.DistributedTransformerOutputLayer", _INSTEAD)
DistributedAttentionLayer = refused("nn.DistributedAttentionLayer", _INSTEAD)
FlashAttentionLayer = refused("nn.FlashAttentionLayer", "its kernel is the library's; use "
                              "torch.nn.functional.scaled_dot_product_attention, which takes flash attention on GPUs")
