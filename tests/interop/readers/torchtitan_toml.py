"""torchtitan 0.2's own ConfigManager reads torchtitan.toml, with meshwright_model.py beside it."""
import importlib.metadata
import os
import sys
import tomllib

from report import read_each


def differences(given, taken, name=""):
    for key, value in given.items():
        if isinstance(value, dict):
            yield from differences(value, taken[key], f"{name}{key}.")
        elif taken[key] != value:
            yield f"{name}{key}: {value} became {taken[key]}"


def read_toml(path):
    from torchtitan.config.manager import ConfigManager

    config = ConfigManager().parse_args([f"--job.config_file={path}"]).to_dict()
    with open(path, "rb") as file:
        given = tomllib.load(file)
    lost = list(differences(given, config))
    assert not lost, "; ".join(lost)
    return f"{sum(len(section) for section in given.values())} settings are taken as they stand"


def read_model(path):
    from torchtitan.protocols.train_spec import get_train_spec

    sys.path.insert(0, os.path.dirname(path))
    sys.modules.pop("meshwright_model", None)
    import meshwright_model  # registers its sizes

    model = get_train_spec("llama3_meshwright").model_args["job"]
    sys.path.pop(0)
    return f"{model.n_layers} layers of {model.dim} are registered"


version = importlib.metadata.version("torchtitan")
for path in sys.argv[1:]:
    read_each(f"torchtitan {version}", read_toml if path.endswith(".toml") else read_model, [path])
