"""recipe.yaml: the adapter that reads HyperPod's recipes is in no package. OmegaConf, with which it
reads them, reads the file; hyperpod_settings.txt has the names and kinds that its schema takes, and
its rules between them stand below."""
import importlib.metadata
import pathlib

from omegaconf import OmegaConf
from report import read_each


def table():
    rows = {}
    for line in pathlib.Path(__file__).with_name("hyperpod_settings.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, *rest = line.split()
            rows[name] = rest
    return rows


def flat(value, path=""):
    for name, each in value.items():
        if isinstance(each, dict):
            yield from flat(each, f"{path}{name}.")
        else:
            yield path + name, each


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


KINDS = {
    "flag": lambda value: isinstance(value, bool),
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "float": is_number,
    "floats": lambda value: isinstance(value, list) and all(map(is_number, value)),
    "word": lambda value: isinstance(value, str),
}


def check_value(name, value, kind, limit=None):
    assert KINDS[kind](value), f"{name}: {value!r} is no {kind}"
    if limit and kind == "word":
        assert value in limit.split(","), f"{name}: {value} is none of {limit}"
    elif limit:
        assert value >= float(limit), f"{name}: {value} is below {limit}"


def check_rules(given):
    def get(name):
        return given.get("model." + name) or 1

    tunes = given.get("model.do_finetune", True)  # unless it says otherwise
    assert not tunes or "model.hf_model_name_or_path" in given, "do_finetune needs a model's name"
    shard, tensor = get("shard_degree"), get("tensor_model_parallel_degree")
    expert, context = get("expert_model_parallel_degree"), get("context_parallel_degree")
    ranks = given["trainer.devices"] * given["trainer.num_nodes"]
    assert ranks % (shard * tensor * expert) == 0, f"{ranks} ranks for {shard} x {tensor} x {expert}"
    assert context == 1 or context <= shard, f"context {context} above shard {shard}"


def read(path):
    given = dict(flat(OmegaConf.to_container(OmegaConf.load(path), resolve=True)))
    rows = table()
    for name, value in given.items():
        assert name in rows, f"{name} is no setting of a recipe"
        check_value(name, value, *rows[name])
    check_rules(given)
    return f"{len(given)} settings are its schema's"


read_each(f"omegaconf {importlib.metadata.version('omegaconf')}, table of the adapter's schema", read)
