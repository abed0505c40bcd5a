"""The library's fused optimizers, as those of PyTorch whose arithmetic the plan has."""

from __future__ import annotations

import torch

from .refusals import refused

__all__ = ["FusedAdam", "FusedLAMB", "FusedLamb", "FusedNovoGrad"]


class FusedAdam(torch.optim.AdamW):
    """Adam with decoupled decay, as apex's FusedAdam is by default."""

    def __init__(self, params, lr=1e-3, bias_correction=True, betas=(0.9, 0.999), eps=1e-8, adam_w_mode=True,
                 weight_decay=0.0, amsgrad=False, set_grad_none=True) -> None:
        if not bias_correction or not adam_w_mode:
            raise ValueError("smp.optimizers.FusedAdam: bias_correction and adam_w_mode must be true; torch.optim.Adam "
                             "has weight_decay in the gradient")
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad)


FusedAdam.__name__ = "AdamW"   # as DistributedOptimizer knows it
FusedNovoGrad = refused("optimizers.FusedNovoGrad", "no optimizer here has its arithmetic; use torch.optim.AdamW")
FusedLamb = FusedLAMB = refused("optimizers.FusedLamb", "the plan's lamb cannot be said from a script yet; use "
                                "torch.optim.AdamW, or training.optimizer lamb of a job")
