"""DeepSpeed's own DeepSpeedConfig reads ds_config.json, as if on the ranks that it is for."""
import json
import os

os.environ["DS_ACCELERATOR"], os.environ["DS_IGNORE_CUDA_DETECTION"] = "cpu", "1"

import deepspeed.runtime.config as reader
from deepspeed import __version__
from deepspeed.runtime.config import DeepSpeedConfig
from report import read_each

# Maps names of settings in the file to names of the attributes that store them.
NAMES = {"stage3_max_live_parameters": "max_live_parameters",
         "stage3_param_persistence_threshold": "param_persistence_threshold",
         "stage3_prefetch_bucket_size": "prefetch_bucket_size",
         "stage3_max_reuse_distance": "max_reuse_distance"}


class Ranks:
    def __init__(self, replicas, tensor):
        self.replicas, self.tensor = replicas, tensor

    def get_data_parallel_world_size(self):
        return self.replicas

    def get_model_parallel_world_size(self):
        return self.tensor

    def get_data_parallel_rank(self):
        return 0

    get_model_parallel_rank = get_data_parallel_rank


def read(path):
    with open(path) as file:
        given = json.load(file)
    sequences = given["train_micro_batch_size_per_gpu"] * given["gradient_accumulation_steps"]
    replicas = given["train_batch_size"] // sequences
    tensor = given.get("tensor_parallel", {}).get("autotp_size", 1)
    reader.dist.get_rank = lambda *_: 0
    reader.dist.get_world_size = lambda *_: replicas * tensor
    config = DeepSpeedConfig(dict(given), mpu=Ranks(replicas, tensor))
    assert config.train_batch_size == given["train_batch_size"]
    assert config.gradient_accumulation_steps == given["gradient_accumulation_steps"]
    for key, value in given.get("zero_optimization", {}).items():
        taken = getattr(config.zero_config, NAMES.get(key, key))
        assert taken == value, f"zero_optimization.{key}: {value} became {taken}"
    return f"ZeRO {int(config.zero_config.stage)} over {replicas} replicas"


read_each(f"deepspeed {__version__}", read)
