"""Which settings of a job's training an optimizer of PyTorch stands for.

The optimizers are meshwright's: their states are sharded, offloaded and saved with the run. An optimizer
whose arithmetic none of them has is refused, with what differs.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import torch

__all__ = ["settings_of"]


def _adamw(group: Dict[str, Any]) -> Dict[str, Any]:
    return {"beta1": group["betas"][0], "beta2": group["betas"][1], "epsilon": group["eps"]}


def _sgd(group: Dict[str, Any]) -> Dict[str, Any]:
    return {"momentum": group["momentum"]}


_SETTINGS: Dict[str, Tuple[str, Callable[[Dict[str, Any]], Dict[str, Any]]]] = {
    "AdamW": ("adamw", _adamw), "Adam": ("adam", _adamw), "SGD": ("sgd", _sgd)}
# Options that change the arithmetic, and the only value that is known here.
_PLAIN = {"amsgrad": False, "maximize": False, "nesterov": False, "dampening": 0, "differentiable": False}


def settings_of(optimizer: torch.optim.Optimizer) -> Tuple[Dict[str, Any], List[torch.nn.Parameter]]:
    """The keys of `training`, and the parameters that decay. Raises ValueError where none of ours is equal."""
    name = type(optimizer).__name__
    if name not in _SETTINGS:
        raise ValueError("DistributedOptimizer: {} is none of {}, whose states meshwright shards and saves; use one "
                         "of them".format(name, ", ".join(sorted(_SETTINGS))))
    word, of_group = _SETTINGS[name]
    groups = optimizer.param_groups
    for group in groups:
        for key, plain in _PLAIN.items():
            if group.get(key, plain) != plain:
                raise ValueError("DistributedOptimizer: {} has {}={!r}, which meshwright's {} does not compute; use "
                                 "{!r}".format(name, key, group[key], word, plain))
    if word == "adam" and groups[0].get("decoupled_weight_decay"):
        word = "adamw"
    settings = {"optimizer": word, "learning_rate": float(groups[0]["lr"]), **of_group(groups[0])}
    decays = sorted({group["weight_decay"] for group in groups if group["weight_decay"]})
    if len(decays) > 1:
        raise ValueError("DistributedOptimizer: groups have weight_decay {}; one value and 0 are known here".format(
            " and ".join(str(each) for each in decays)))
    for group in groups[1:]:
        if of_group(group) != of_group(groups[0]) or group["lr"] != groups[0]["lr"]:
            raise ValueError("DistributedOptimizer: groups differ in more than weight_decay; give them one lr, betas, "
                             "eps and momentum")
    settings["weight_decay"] = decays[0] if decays else 0.0
    return settings, [each for group in groups if group["weight_decay"] for each in group["params"]]
