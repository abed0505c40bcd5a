"""`DistributedOptimizer`: the settings of a PyTorch optimizer. The update is the end of a step function."""

from __future__ import annotations

import warnings
from typing import Any, Dict, Optional

import torch

import meshwright.torch as mw

from .refusals import Refused
from .world import here

__all__ = ["DistributedOptimizer"]


class DistributedOptimizer(mw.DistributedOptimizer):
    """Wraps the only optimizer of a script.

    A step function ends with the update, so `step` and `zero_grad` do nothing; learning rates are those at the
    time of the step function's call. `step` must be called between two of these calls, which says that no gradients
    are accumulated over several.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, static_loss_scale: Optional[float] = 1.0,
                 dynamic_loss_scale: bool = False, dynamic_loss_args: Optional[Dict[str, Any]] = None,
                 gradient_clip: float = 0.0, **_: Any) -> None:
        super().__init__(optimizer, gradient_clip)
        world = here()
        if world.parameters.get("fp16"):
            self.settings["loss_scale"] = (_dynamic(dynamic_loss_args or {})
                                           if dynamic_loss_scale or static_loss_scale is None
                                           else {"static": static_loss_scale})
        _clip_by_plan()
        self._used: Optional[float] = None   # learning rate of a step whose `step` was not called yet
        world.optimizer = self

    def begin_step(self) -> None:
        """A step function begins; smp.step calls it."""
        if self._used is not None:
            raise Refused("smp.step: two training steps without optimizer.step() between: gradients are not accumulated "
                          "over calls; raise microbatches, and give one step the batches of all")
        self._used = self.learning_rate

    def step(self, closure: None = None) -> None:
        super().step(closure)
        if self._used is not None and self._used != self.learning_rate:
            warnings.warn("smp.DistributedOptimizer: the learning rate changed from {} to {} between the step function "
                          "and optimizer.step(); the update was made with the first; call the scheduler after "
                          "optimizer.step()".format(self._used, self.learning_rate), stacklevel=2)
        self._used = None

    @property
    def overflow(self) -> bool:
        """Whether the latest update was skipped, because fp16 gradients were not finite."""
        model = here().model
        return bool(model is not None and model.partitioned and model._run.skipped)

    @property
    def loss_scale(self) -> float:
        return float(self.settings.get("loss_scale", {}).get("static", 1.0))

    def clip_master_grads(self, max_norm: float) -> float:
        """Clips gradients by their norm from the next step on; the norm of the latest step."""
        model = here().model
        norm = float(model._run.grad_norm) if model is not None and model.partitioned else 0.0
        if model is None or not model.partitioned:
            self.settings["gradient_clip"] = float(max_norm)
        elif self.settings.get("gradient_clip") != float(max_norm) and norm > max_norm:
            raise Refused("smp.DistributedOptimizer.clip_master_grads: the plan clips at {}, and the update is done; say "
                          "smp.DistributedOptimizer(optimizer, gradient_clip={}) before the first step".format(
                              self.settings.get("gradient_clip") or "no norm", max_norm))
        return norm

    def state_dict(self, *args: Any, **kwargs: Any) -> Dict[str, Any]:
        """Settings of the groups. The states are the run's, and only smp.save_checkpoint saves them."""
        warnings.warn("smp.DistributedOptimizer: its state dictionary has no moments, which the run's memory holds; "
                      "smp.save_checkpoint saves them, and smp.resume_from_checkpoint goes on with them", stacklevel=2)
        return {"_smp_is_partial": True, "state": {},
                "param_groups": [{key: value for key, value in group.items() if key != "params"}
                                 for group in self.param_groups]}

    local_state_dict = state_dict

    def load_state_dict(self, state_dict: Dict[str, Any], *args: Any, **kwargs: Any) -> None:
        """Sets learning rates. States are loaded by smp.resume_from_checkpoint."""
        if state_dict.get("state"):
            raise Refused("smp.DistributedOptimizer.load_state_dict: these states are another library's; save and resume "
                          "by smp.save_checkpoint and smp.resume_from_checkpoint")
        for own, group in zip(self.param_groups, state_dict["param_groups"]):
            own["lr"] = group["lr"]


def _dynamic(given: Dict[str, Any]) -> Dict[str, Any]:
    """The keys of training.loss_scale for the library's."""
    names = {"init_scale": "initial", "scale_factor": "factor", "scale_window": "window", "min_scale": "minimum",
             "delayed_shift": "hysteresis"}
    unknown = [key for key in given if key not in names and key != "consecutive_hysteresis"]
    if unknown or given.get("consecutive_hysteresis"):
        raise Refused("smp.DistributedOptimizer: dynamic_loss_args {!r}; known: {}".format(
            unknown[0] if unknown else "consecutive_hysteresis", ", ".join(names)))
    return {names[key]: value for key, value in given.items() if key in names}


def _clip_by_plan() -> None:
    """PyTorch's clip_grad_norm_ would find no gradients of the model, so that it asks the plan instead."""
    original = torch.nn.utils.clip_grad_norm_
    if getattr(original, "by_plan", False):
        return

    def clip_grad_norm_(parameters: Any, max_norm: float, *args: Any, **kwargs: Any) -> torch.Tensor:
        listed = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        world = here()
        own = {id(each) for each in world.model.parameters()} if world.model is not None else set()
        if world.optimizer is not None and any(id(each) in own for each in listed):
            return torch.tensor(world.optimizer.clip_master_grads(max_norm))
        return original(listed, max_norm, *args, **kwargs)

    clip_grad_norm_.by_plan = True  # type: ignore[attr-defined]
    torch.nn.utils.clip_grad_norm_ = torch.nn.utils.clip_grad.clip_grad_norm_ = clip_grad_norm_
