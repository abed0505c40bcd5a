"""`smp.amp.GradScaler`: the plan scales losses itself (`training.loss_scale`), so this one passes them through."""

from __future__ import annotations

from typing import Any, Dict

__all__ = ["GradScaler"]


class GradScaler:
    """Stands for a scaler of automatic mixed precision; its scale is 1.

    Parameters and gradients are in fp32 under autocast. With `fp16` the plan scales, by the arguments of
    DistributedOptimizer.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def scale(self, outputs: Any) -> Any:
        return outputs

    def unscale_(self, optimizer: Any) -> None:
        """Nothing is scaled."""

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        """The scale stays 1."""

    def get_scale(self) -> float:
        return 1.0

    def is_enabled(self) -> bool:
        return False

    def state_dict(self) -> Dict[str, Any]:
        return {}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """There is no state."""
