"""Brings any PyTorch model to meshwright: `capture` writes what `"model": "own.model.json"` of a job reads.

    from meshwright.torch import capture
    capture(model, {"input_ids": ids, "labels": ids}).save("own.model.json")

The command line is `python3 -m meshwright.torch capture --help`. `distributed.py` runs the script by a plan.
"""

import logging

try:
    import torch as _torch
except ImportError:
    raise ImportError("meshwright.torch needs PyTorch, which is not installed here: pip install torch") from None

# PyTorch warns that Triton is missing, which a computer without a GPU does not need.
logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)

from .capturing import CapturedModel, capture
from .distributed import (
    DistributedModel, DistributedOptimizer, barrier, delay_param_initialization, dp_rank, dp_size, export, gathered,
    init, load_weights, local_rank, pp_rank, pp_size, rank, resume, save, seed_of, shard, shutdown, size, state_dict,
    step, stop_requested, tp_rank, tp_size)
from .errors import CaptureError

__all__ = ["CaptureError", "CapturedModel", "DistributedModel", "DistributedOptimizer", "barrier", "capture",
           "delay_param_initialization", "dp_rank", "dp_size", "export", "gathered", "init", "load_weights",
           "local_rank", "pp_rank", "pp_size", "rank", "resume", "save", "seed_of", "shard", "shutdown", "size",
           "state_dict", "step", "stop_requested", "tp_rank", "tp_size"]
