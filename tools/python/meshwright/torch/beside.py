"""What a script saves beside the run's checkpoints, and weights in the formats of others."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, Tuple

import torch

__all__ = ["load_beside", "read_weights", "save_beside", "saved_step", "write_weights"]

_PREFIX = "script-"


def saved_step(folder: str) -> int:
    """The step of the newest complete checkpoint, or 0."""
    newest = 0
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            digits = name.rsplit("-", 1)[-1]
            if digits.isdigit() and os.path.exists(os.path.join(folder, name, "manifest.json")):
                newest = max(newest, int(digits))
    return newest


def save_beside(folder: str, step: int, buffers: Dict[str, torch.Tensor], extra: Any, optimizer: Any) -> None:
    """Writes what only the script knows of a step, and removes that of steps that are gone."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "{}{:08d}.pt".format(_PREFIX, step))
    torch.save({"buffers": buffers, "extra": extra, "optimizer": optimizer}, path + ".unfinished")
    os.replace(path + ".unfinished", path)
    kept = {name.rsplit("-", 1)[-1] for name in os.listdir(folder) if not name.startswith(_PREFIX)}
    for name in os.listdir(folder):
        if name.startswith(_PREFIX) and name != os.path.basename(path) and name[len(_PREFIX):-3] not in kept:
            with contextlib.suppress(OSError):
                os.remove(os.path.join(folder, name))


def load_beside(folder: str, step: int) -> Tuple[Dict[str, torch.Tensor], Any, Any]:
    """(buffers, extra, optimizer) of a step; ({}, None, {}) where a run of `meshwright train` saved it."""
    path = os.path.join(folder, "{}{:08d}.pt".format(_PREFIX, step))
    if not os.path.exists(path):
        return {}, None, {}
    found = torch.load(path, map_location="cpu", weights_only=True)
    return found["buffers"], found["extra"], found.get("optimizer", {})


def write_weights(path: str, weights: Dict[str, torch.Tensor]) -> None:
    """A .safetensors file, or a folder of torch.distributed.checkpoint."""
    if path.endswith(".safetensors"):
        from safetensors.torch import save_file
        save_file({name: tensor.contiguous().clone() for name, tensor in weights.items()}, path + ".unfinished")
        os.replace(path + ".unfinished", path)
        return
    import torch.distributed.checkpoint as checkpoint
    checkpoint.save(dict(weights), checkpoint_id=path, no_dist=True)


def read_weights(path: str, module: torch.nn.Module) -> Dict[str, torch.Tensor]:
    """What `write_weights` wrote. Shapes and names are those of the module."""
    if path.endswith(".safetensors"):
        from safetensors.torch import load_file
        return dict(load_file(path))
    import torch.distributed.checkpoint as checkpoint
    weights = {name: torch.empty_like(tensor, device="cpu") for name, tensor in module.state_dict().items()}
    checkpoint.load(weights, checkpoint_id=path, no_dist=True)
    return weights
