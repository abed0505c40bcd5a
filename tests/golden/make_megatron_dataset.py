#!/usr/bin/env python3
"""tests/golden/megatron: documents as Megatron-Core's builder of indexed datasets writes them.

Needs megatron-core, torch and numpy.
"""
import pathlib

import numpy
import torch
from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder

folder = pathlib.Path(__file__).parent / "megatron"
folder.mkdir(exist_ok=True)
builder = IndexedDatasetBuilder(str(folder / "documents.bin"), dtype=numpy.uint16)
for document in ([[1, 50256, 300]], [[7, 9], [11]]):
    for sequence in document:
        builder.add_item(torch.tensor(sequence))
    builder.end_document()
builder.finalize(str(folder / "documents.idx"))
