"""Builds the estimator (SDK 2) or the trainer (SDK 3) of an export, without a call to AWS."""
import importlib.metadata
import importlib.util
import json
import pathlib
from unittest import mock

from report import read_each


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
    return f"an estimator, in {estimator.training_image_uri().rsplit('/', 1)[-1]}"


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
    return f"a {type(trainer).__name__} on {trainer.compute.instance_count} hosts"


version = importlib.metadata.version("sagemaker")
check = check_estimator if version.startswith("2.") else check_trainer
read_each(f"sagemaker {version}", lambda path: check(pathlib.Path(path).parent))
