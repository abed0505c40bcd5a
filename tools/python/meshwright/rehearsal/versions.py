"""Which frameworks a script uses."""

from __future__ import annotations

import importlib.metadata
import sys
from typing import Dict

__all__ = ["versions"]

_MODULES = {"torch": "torch", "torchvision": "torchvision", "transformers": "transformers", "peft": "peft",
            "accelerate": "accelerate", "deepspeed": "deepspeed", "torchtitan": "torchtitan", "torchtune": "torchtune",
            "megatron.core": "megatron-core", "lightning": "lightning", "trl": "trl", "triton": "triton"}


def versions() -> Dict[str, str]:
    """The versions of those packages that the script has imported and that are installed as packages."""
    found = {}
    for module, package in _MODULES.items():
        if module in sys.modules:
            try:
                found[package] = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                continue
    return found
