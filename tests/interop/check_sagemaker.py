#!/usr/bin/env python3
"""Builds the estimator or the trainer of an export, without a call to AWS.

usage: check_sagemaker.py FOLDER...   once with sagemaker<3 installed, once with sagemaker>=3
"""
import importlib.util
import json
import pathlib
import sys
from importlib.metadata import version
from unittest import mock


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_estimator(folder):
    import boto3
    import sagemaker

    (folder / "train.py").touch()
    boto = boto3.session.Session(
        region_name="us-east-1", aws_access_key_id="none", aws_secret_access_key="none"
    )
    session = sagemaker.Session(boto_session=boto, default_bucket="none")
    estimator = load(folder / "estimator.py").make(
        "arn:aws:iam::123456789012:role/none", sagemaker_session=session
    )
    sent = estimator.hyperparameters()
    settings = json.loads((folder / "estimator.json").read_text())
    library = settings["distribution"]["smdistributed"]["modelparallel"]["parameters"]
    assert json.loads(sent["mp_parameters"]) == library, sent.get("mp_parameters")
    assert estimator.instance_count == settings["instance_count"]
    return f"{estimator.training_image_uri()}"


def check_trainer(folder):
    (folder / "train.py").touch()
    module = load(folder / "model_trainer.py")
    settings = json.loads((folder / "model_trainer.json").read_text())
    torchrun = module.distributed()
    sent = torchrun.smp._to_mp_hyperparameters()
    assert json.loads(sent["mp_parameters"]) == settings["distributed"]["smp"], sent
    import boto3
    from sagemaker.core.helper.session_helper import Session

    boto = boto3.session.Session(
        region_name="us-east-1", aws_access_key_id="none", aws_secret_access_key="none"
    )
    session = Session(boto_session=boto, default_bucket="none")
    session._default_bucket = "none"  # else it is looked for
    role = "arn:aws:iam::123456789012:role/none"  # the SDK would ask IAM for it
    with mock.patch("sagemaker.train.defaults.TrainDefaults.get_role", return_value=role):
        trainer = module.make(role, "image:tag", sagemaker_session=session)
    assert trainer.compute.instance_count == settings["compute"]["instance_count"]
    return type(trainer).__name__


def main():
    is_third = int(version("sagemaker").split(".")[0]) >= 3
    name, check = (
        ("model_trainer.py", check_trainer) if is_third else ("estimator.py", check_estimator)
    )
    failed = 0
    for folder in map(pathlib.Path, sys.argv[1:]):
        if not (folder / name).exists():
            continue
        try:
            print(f"{folder / name}: built: {check(folder)}")
        except Exception as error:  # every kind of error is a failure of this file
            failed = 1
            print(f"{folder / name}: {type(error).__name__}: {error}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
