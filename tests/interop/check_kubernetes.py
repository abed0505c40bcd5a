#!/usr/bin/env python3
"""TrainJob and PyTorchJob of exports against Kubeflow's own types.

usage: check_kubernetes.py [--crd PYTORCHJOBS.yaml] FOLDER...
needs: pip install kubeflow-trainer-api pyyaml jsonschema
The schema of PyTorchJob is the CRD's (manifests/base/crds/kubeflow.org_pytorchjobs.yaml of
kubeflow/training-operator); without --crd that file's objects are only parsed.
"""
import argparse
import pathlib
import sys

import yaml
from kubeflow_trainer_api.models.trainer_v1alpha1_train_job import TrainerV1alpha1TrainJob


def closed(schema):
    """The schema as the API server reads it: unknown names are dropped there, and errors here."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    result = {name: closed(value) for name, value in schema.items()}
    if isinstance(result.get("properties"), dict) and "additionalProperties" not in result:
        if not result.get("x-kubernetes-preserve-unknown-fields"):
            result["additionalProperties"] = False
    return result


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


def check_train_job(text):
    given = yaml.safe_load(text)
    read = TrainerV1alpha1TrainJob.from_dict(given)
    lost = list(names_lost(given, read.to_dict()))
    if lost:
        raise ValueError("unknown: " + ", ".join(lost))


def check_pytorch_job(text, crd):
    given = yaml.safe_load(text)
    if crd is None:
        return
    import jsonschema

    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema = closed(schema)
    schema["properties"]["metadata"] = {"type": "object"}
    jsonschema.validate(given, schema)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--crd")
    parser.add_argument("folders", nargs="+")
    arguments = parser.parse_args()
    crd = yaml.safe_load(pathlib.Path(arguments.crd).read_text()) if arguments.crd else None
    failed = 0
    for folder in arguments.folders:
        for name, check in (
            ("train_job.yaml", check_train_job),
            ("pytorch_job.yaml", lambda text: check_pytorch_job(text, crd)),
        ):
            path = pathlib.Path(folder) / name
            if not path.exists():
                continue
            try:
                check(path.read_text())
                print(f"{path}: valid")
            except Exception as error:  # every kind of error is a failure of this file
                failed = 1
                print(f"{path}: {type(error).__name__}: {error}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
