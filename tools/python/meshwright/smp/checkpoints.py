"""Checkpoints: those of a run with its optimizer's states (`save_checkpoint`), and files of a script's own objects."""

from __future__ import annotations

import os
import shutil
from typing import Any, Callable, Dict, Optional

import torch

import meshwright.torch as mw
from meshwright.torch import distributed

from .messages import allgather, barrier
from .refusals import Refused
from .world import CommGroup, here

__all__ = ["load", "resume_from_checkpoint", "save", "save_checkpoint"]


def save(obj: Any, f: str, partial: bool = True, pickle_module: Any = None, pickle_protocol: Optional[int] = None,
         v3: bool = False, **_: Any) -> None:
    """Writes a script's object to a file: each stage its own (`partial`), or one of all stages.

    As in the library, ranks of one replica call it. Parts of a model (local_state_dict) become whole with partial=False.
    """
    pp = here().groups["pp"]
    if partial:
        torch.save(obj, "{}_{}".format(f, pp.rank))
        return
    parts = allgather(obj, CommGroup.PP_GROUP)
    if pp.rank == 0:
        torch.save(_merged(parts), f)


def _merged(parts: Any) -> Any:
    if not isinstance(parts[0], dict):
        return parts[0]
    if parts[0].get("_smp_is_partial"):
        return {name: value for part in parts for name, value in part.items() if name != "_smp_is_partial"}
    return {name: _merged([part[name] for part in parts]) for name in parts[0]}


def load(f: str, map_location: Any = None, pickle_module: Any = None, partial: bool = True, **_: Any) -> Any:
    """Reads what `save` wrote. It runs the code in a file, as torch.load does; load only files that you trust."""
    path = "{}_{}".format(f, here().groups["pp"].rank) if partial else f
    return torch.load(path, map_location=map_location, weights_only=False)


def save_checkpoint(path: str, tag: str, partial: bool = True, model: Any = None, optimizer: Any = None,
                    user_content: Any = None, translate_if_full: bool = True,
                    num_kept_partial_checkpoints: Optional[int] = None, **_: Any) -> None:
    """Saves the run. Every rank calls it.

    `partial`: model, optimizer and position, in the folder path/{tag}_partial, from which a run goes on under any
    degrees. Otherwise the model alone, as the file path/tag that torch.load reads.
    """
    os.makedirs(path, exist_ok=True)
    if not partial:
        state = (model or here().model).state_dict(gather_to_rank0=True)
        if mw.rank() == 0:
            torch.save(state, os.path.join(path, tag))
            if user_content is not None:
                torch.save(user_content, os.path.join(path, "user_content_" + tag))
        barrier()
        return
    if here().model is None or not here().model.partitioned:
        raise Refused("smp.save_checkpoint: the run begins with the first training step; save after it")
    name = tag + "_partial"
    folder = os.path.join(path, name)
    mw.save(folder, here().model._run, keep=1)
    if not distributed._here().runtime.finish_saving():
        raise RuntimeError("smp.save_checkpoint: {} could not be saved".format(folder))
    if mw.rank() == 0:
        torch.save(user_content, os.path.join(folder, "user_content.pt"))
        with open(os.path.join(path, "newest"), "w", encoding="utf-8") as file:
            file.write(tag)
        if num_kept_partial_checkpoints:
            _forget_old(path, num_kept_partial_checkpoints)
    barrier()


def _forget_old(path: str, kept: int) -> None:
    folders = [os.path.join(path, each) for each in os.listdir(path) if each.endswith("_partial")]
    written = [each for each in folders if os.path.exists(os.path.join(each, "user_content.pt"))]
    written.sort(key=lambda each: os.path.getmtime(os.path.join(each, "user_content.pt")))
    for each in written[:-kept]:
        shutil.rmtree(each)


def resume_from_checkpoint(path: str, tag: Optional[str] = None, partial: bool = True, strict: bool = True,
                           load_optimizer: bool = True, load_sharded_optimizer_state: bool = True,
                           translate_function: Optional[Callable[[Dict[str, Any]], Dict[str, Any]]] = None) -> Any:
    """Goes on from a checkpoint of save_checkpoint; returns its user_content. Every rank calls it.

    A partial one may have been saved under other degrees, and is loaded when the first training step makes the plan.
    """
    model = here().model
    if model is None:
        raise RuntimeError("smp.resume_from_checkpoint: make a smp.DistributedModel first")
    if not partial:
        if tag is None:
            raise ValueError("smp.resume_from_checkpoint: a full checkpoint needs its tag")
        state = torch.load(os.path.join(path, tag), map_location="cpu", weights_only=True)
        model.load_state_dict(translate_function(state) if translate_function else state, strict=strict)
        return _content(os.path.join(path, "user_content_" + tag))
    if not load_optimizer or not load_sharded_optimizer_state:
        raise Refused("smp.resume_from_checkpoint: a partial checkpoint is loaded whole; for the model without the "
                      "optimizer's states save and resume with partial=False")
    folder = _partial_folder(path, tag)
    model.resume(folder)
    return _content(os.path.join(folder, "user_content.pt"))


def _partial_folder(path: str, tag: Optional[str]) -> str:
    if tag is None:
        with open(os.path.join(path, "newest"), encoding="utf-8") as file:
            tag = file.read().strip()
    folder = os.path.join(path, tag + "_partial")
    if not os.path.isdir(folder):
        raise FileNotFoundError("smp.resume_from_checkpoint: there is no folder " + folder)
    return folder


def _content(path: str) -> Any:
    return torch.load(path, map_location="cpu", weights_only=False) if os.path.exists(path) else None
