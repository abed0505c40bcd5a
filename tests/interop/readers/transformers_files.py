"""config.json, training_args.json and train.py as transformers reads them."""
import importlib.util
import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"

import transformers
from report import read_each


def read_model(path):
    with open(path) as file:
        given = json.load(file)
    config = transformers.AutoConfig.from_pretrained(os.path.dirname(path)).to_dict()
    # Settings that have other names in version 5.
    config.setdefault("torch_dtype", config.get("dtype"))
    config.setdefault("rope_theta", (config.get("rope_parameters") or {}).get("rope_theta"))
    for key, value in given.items():
        assert config.get(key) == value, f"{key}: {value} became {config.get(key)}"
    return f"{given['model_type']}, {len(given)} keys"


def script_beside(path):
    spec = importlib.util.spec_from_file_location("train", os.path.join(os.path.dirname(path), "train.py"))
    script = importlib.util.module_from_spec(spec)
    sys.modules["train"] = script
    spec.loader.exec_module(script)
    return script


def read_arguments(path):
    with open(path) as file:
        given = json.load(file)
    script = script_beside(path)
    parser = transformers.HfArgumentParser((script.ScriptArguments, transformers.TrainingArguments))
    values = dict(given)
    values.pop("deepspeed", None)  # is read from the folder where training starts, on GPUs
    # Without a GPU these settings are rejected whatever their values are.
    for key in ("bf16", "fp16", "tf32"):
        values.pop(key, None)
    own, training = parser.parse_dict(values | {"use_cpu": True})
    for key, value in values.items():
        taken = getattr(own, key) if hasattr(own, key) else getattr(training, key)
        if isinstance(value, dict):
            taken = {name: getattr(taken, name) for name in value}
        assert getattr(taken, "value", taken) == value, f"{key}: {value} became {taken}"
    unknown = set(given) - set(transformers.TrainingArguments.__dataclass_fields__) - set(
        script.ScriptArguments.__dataclass_fields__)
    assert not unknown, f"not TrainingArguments': {sorted(unknown)}"
    return f"{len(given)} arguments"


def read_script(path):
    script_beside(path)
    return "imports what it needs"


READERS = {"config.json": read_model, "training_args.json": read_arguments, "train.py": read_script}
for path in sys.argv[1:]:
    read_each(f"transformers {transformers.__version__}", READERS[os.path.basename(path)], [path])
