"""TrainJob and PyTorchJob against the types of Kubeflow's own Python packages, and what their
containers start against PyTorch's parser."""
import importlib.metadata
import sys

import kubeflow.training.models
import kubernetes.client.models
import yaml
from kubeflow_trainer_api.models.trainer_v1alpha1_train_job import TrainerV1alpha1TrainJob
from launch import read_words
from report import read_each


def names_lost(before, after, path=""):
    """What a type did not take over."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            if name not in after:
                yield f"{path}.{name}"
            else:
                yield from names_lost(value, after[name], f"{path}.{name}")
    elif isinstance(before, list) and isinstance(after, list):
        for i, (one, other) in enumerate(zip(before, after)):
            yield from names_lost(one, other, f"{path}[{i}]")
    elif before != after:
        yield f"{path}: {before} became {after}"


SCALARS = {"str": str, "int": int, "bool": bool, "float": (int, float), "object": object}


def check_type(kind, value, path=""):
    """`value` against an OpenAPI type of the packages: their readers drop what they do not know."""
    if kind.startswith("dict("):
        inner = kind[5:-1].split(", ", 1)[1]
        assert isinstance(value, dict), f"{path}: {value!r} is no {kind}"
        for name, each in value.items():
            check_type(inner, each, f"{path}.{name}")
    elif kind.startswith("list["):
        assert isinstance(value, list), f"{path}: {value!r} is no {kind}"
        for i, each in enumerate(value):
            check_type(kind[5:-1], each, f"{path}[{i}]")
    elif kind in SCALARS:
        fits = isinstance(value, SCALARS[kind]) and (kind == "bool" or not isinstance(value, bool))
        assert fits, f"{path}: {value!r} is no {kind}"
    else:
        model = getattr(kubeflow.training.models, kind, None) or getattr(
            kubernetes.client.models, kind)
        assert isinstance(value, dict), f"{path}: {value!r} is no {kind}"
        names = {json: python for python, json in model.attribute_map.items()}
        for name, each in value.items():
            assert name in names, f"{path}.{name} is no field of {kind}"
            check_type(model.openapi_types[names[name]], each, f"{path}.{name}")


def containers(value):
    if isinstance(value, dict):
        if "command" in value and "args" in value:
            yield value
        for each in value.values():
            yield from containers(each)
    elif isinstance(value, list):
        for each in value:
            yield from containers(each)


def read(path):
    with open(path) as file:
        given = yaml.safe_load(file)
    if given["kind"] == "TrainJob":
        lost = list(names_lost(given, TrainerV1alpha1TrainJob.from_dict(given).to_dict()))
        assert not lost, "; ".join(lost)
    else:
        check_type("KubeflowOrgV1PyTorchJob", given, given["kind"])
    said = {read_words(each["command"] + each["args"]) for each in containers(given)}
    assert len(said) == 1, said
    return f"a {given['kind']}; {said.pop()}"


VERSIONS = {name: importlib.metadata.version(name)
            for name in ("kubeflow-trainer-api", "kubeflow-training")}
for path in sys.argv[1:]:
    name = "kubeflow-trainer-api" if path.endswith("train_job.yaml") else "kubeflow-training"
    read_each(f"{name} {VERSIONS[name]}", read, [path])
