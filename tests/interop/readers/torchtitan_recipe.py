"""torchtitan 0.3's own ConfigManager reads meshwright_recipe.py and its command line, and what its
Trainer.Config says is what torchtitan.toml beside it says."""
import dataclasses
import importlib.metadata
import os
import sys
import tomllib

import torchtitan.components.quantization.float8
import torchtitan.components.quantization.mx
from report import read_each

# Pretends that there is a GPU that multiplies in 8 bits, because torchtitan looks for one when it
# makes such a model.
for module in (torchtitan.components.quantization.float8, torchtitan.components.quantization.mx):
    module.has_cuda_capability = lambda *_: True

# Fields of version 0.2 that version 0.3 has in other places, or not at all.
ELSEWHERE = {"parallelism.context_parallel_rotate_method", "parallelism.enable_async_tensor_parallel",
             "parallelism.module_fqns_per_model_part"}


def compared(config, toml):
    count = 0
    for section in ("training", "parallelism", "lr_scheduler", "compile", "debug"):
        taken = getattr(config, section)
        for name, value in toml.get(section, {}).items():
            if f"{section}.{name}" in ELSEWHERE:
                continue
            assert getattr(taken, name) == value, f"{section}.{name}: {value} became {getattr(taken, name)}"
            count += 1
    parts = toml["parallelism"].get("module_fqns_per_model_part")
    if parts:
        named = [["lm_head" if module == "output" else module for module in part] for part in parts]
        assert config.parallelism.module_fqns_per_model_part == named
    group = config.optimizer.param_groups[0]
    optimizer = toml["optimizer"]
    assert group.optimizer_name == optimizer["name"]
    assert group.optimizer_kwargs["lr"] == optimizer["lr"]
    assert group.optimizer_kwargs["betas"] == (optimizer["beta1"], optimizer["beta2"])
    return count + 3


def read_recipe(path):
    with open(path) as file:
        compile(file.read(), path, "exec")
    from torchtitan.config.manager import ConfigManager

    folder = os.path.dirname(path)
    sys.path.insert(0, folder)
    sys.modules.pop("meshwright_recipe", None)
    here = os.getcwd()
    os.chdir(folder)
    try:
        config = ConfigManager().parse_args(["--module", "meshwright_recipe", "--config", "job"])
    finally:
        sys.path.pop(0)
        os.chdir(here)
    assert dataclasses.is_dataclass(config)
    with open(os.path.join(folder, "torchtitan.toml"), "rb") as file:
        count = compared(config, tomllib.load(file))
    layers = len(config.model_spec.model.layers)
    return f"a Trainer.Config with {count} settings of the TOML and {layers} layers"


read_each(f"torchtitan {importlib.metadata.version('torchtitan')}", read_recipe)
