"""SageMaker's model-parallel library for PyTorch, version 1, by plans of meshwright: see docs/smp.md.

    import meshwright.smp as smp       # instead of smdistributed.modelparallel.torch

A script of that library runs with this line changed. Each of its names acts, or is refused with the reason
(`smp.Refused`).
"""

from __future__ import annotations

from . import amp, checkpoints, messages, nn, optimizers, outputs, placing, world
from .checkpoints import *
from .messages import *
from .model import DistributedModel
from .optimizer import DistributedOptimizer
from .outputs import StepOutput
from .placing import *
from .refusals import Refused
from .step import step
from .world import *
from .world import close

__version__ = "1.15.0+meshwright"   # the version whose names it has

__all__ = sorted({"DistributedModel", "DistributedOptimizer", "Refused", "StepOutput", "amp", "close", "nn", "optimizers",
                  "step", *checkpoints.__all__, *messages.__all__, *placing.__all__, *world.__all__} - {"here"})
