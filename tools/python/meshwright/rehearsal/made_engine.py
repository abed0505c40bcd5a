"""Transformer Engine where it is not installed: PyPI has no wheel of its part for PyTorch.

A script that imports it gets modules with layers by shape (engine_layers.py). What is not listed here is
missing, as in an old version, and scripts that ask for it by `try` go on without it.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from typing import Any, Dict, Optional

from .notes import note

__all__ = ["make_engine"]

_ROOT = "transformer_engine"
_VERSION = "1.12.0"   # the version whose interface the layers have
_RECIPES = ("DelayedScaling", "Float8BlockScaling", "Float8CurrentScaling", "MXFP8BlockScaling", "NVFP4BlockScaling", "Recipe")


def _contents() -> Dict[str, Dict[str, Any]]:
    """The names in each module."""
    from . import engine_layers as layers
    modules = {name: getattr(layers, name) for name in (
        "DotProductAttention", "GroupedLinear", "LayerNorm", "LayerNormLinear", "LayerNormMLP", "Linear", "MultiheadAttention",
        "RMSNorm", "TransformerLayer")}
    fp8 = {"FP8GlobalStateManager": layers.State, "fp8_autocast": layers.autocast}
    return {
        "": {"__version__": _VERSION},
        ".common": {},
        ".common.recipe": {name: type(name, (), {}) for name in _RECIPES},
        ".pytorch": {**modules, "fp8_autocast": layers.autocast},
        ".pytorch.distributed": {"CudaRNGStatesTracker": layers.CudaRNGStatesTracker,
                                 "activation_recompute_forward": layers.recompute_forward,
                                 "get_all_rng_states": layers.random_states},
        ".pytorch.cpp_extensions": {"cast_to_fp8": layers.refuse_8_bits},
        ".pytorch.float8_tensor": {"Float8Tensor": layers.QuantizedTensor},
        ".pytorch.fp8": fp8,
        ".pytorch.optimizers": {name: getattr(layers, name) for name in (
            "FusedAdam", "FusedSGD", "multi_tensor_applier", "multi_tensor_l2norm", "multi_tensor_scale")},
    }


def make_engine() -> None:
    """Answers imports of Transformer Engine that nothing else answers."""
    sys.meta_path.append(_Finder())


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    _modules: Optional[Dict[str, Dict[str, Any]]] = None

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[importlib.machinery.ModuleSpec]:
        if name != _ROOT and not name.startswith(_ROOT + "."):
            return None
        if self._modules is None:
            self._modules = _contents()
            note("Transformer Engine is not installed; layers with its shapes and kernels stand for it, in 16 bits")
        if name[len(_ROOT):] not in self._modules:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return types.ModuleType(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        assert self._modules is not None
        vars(module).update(self._modules[module.__name__[len(_ROOT):]])
        if module.__name__ == _ROOT:   # Transformer Engine imports its parts itself
            importlib.import_module(_ROOT + ".common.recipe")
            for name in (".distributed", ".fp8", ".optimizers"):
                importlib.import_module(_ROOT + ".pytorch" + name)
