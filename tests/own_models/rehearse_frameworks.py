#!/usr/bin/env python3
"""Rehearses real frameworks by version and prints a table: run by hand, with a network.

python tests/own_models/rehearse_frameworks.py BUILD FOLDER [NAME...]

FOLDER gets the packages, each version in a folder of its own, beside the PyTorch of the Python that runs this.
docs/rehearse.md has the table. Scripts of these frameworks that are no part of their packages are cloned.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from typing import Dict, List, NamedTuple

COMMON = """datasets pyarrow pandas dill xxhash multiprocess python-dateutil pytz six torchdata tyro docstring-parser shtab
typeguard tensorboard absl-py protobuf einops ninja py-cpuinfo hjson msgpack nvidia-ml-py tiktoken blobfile lxml aiohttp
omegaconf antlr4-python3-runtime==4.9.3 spmd-types httpx httpcore pybind11 kagglehub""".split()

DEEPSPEED = """
import os, sys, torch, transformers, deepspeed
deepspeed.init_distributed()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
torch.set_default_dtype(torch.bfloat16)
with torch.device("cuda"):
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(use_cache=False, attn_implementation="sdpa"))
torch.set_default_dtype(torch.float32)
model.gradient_checkpointing_enable()
settings = dict(train_micro_batch_size_per_gpu=1, bf16=dict(enabled=True), gradient_clipping=1.0,
                zero_optimization=dict(stage=int(sys.argv[1])),
                optimizer=dict(type="AdamW", params=dict(torch_adam=True, lr=1e-4)))
engine = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=settings)[0]
for _ in range(10):
    ids = torch.randint(0, 100, (1, 2048), device=engine.device)
    engine.backward(engine(input_ids=ids, labels=ids).loss)
    engine.step()
"""

ACCELERATE = """
import torch, transformers
from accelerate import Accelerator
accelerator = Accelerator(gradient_accumulation_steps=2, mixed_precision="bf16")
config = transformers.LlamaConfig(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, vocab_size=128256,
                                  num_attention_heads=32, num_key_value_heads=8, tie_word_embeddings=True)
model = transformers.LlamaForCausalLM(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
data = torch.utils.data.DataLoader(torch.randint(0, 1000, (400, 1024)), batch_size=2, shuffle=True)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
for ids in data:
    with accelerator.accumulate(model):
        loss = model(input_ids=ids, labels=ids).loss
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
"""


class Case(NamedTuple):
    packages: List[str]     # with versions, installed into one folder
    machine: str
    command: List[str]      # after `--`; SCRIPT stands for the file with `script`
    script: str = ""
    clone: str = ""         # URL and tag of a repository, in whose folder the command runs


def _deepspeed(version: str, stage: int) -> Case:
    return Case(["deepspeed==" + version], "p4de.24xlarge", ["deepspeed", "--num_gpus", "8", "SCRIPT", str(stage)], DEEPSPEED)


def _titan(tag: str, option: str) -> Case:
    return Case([], "p5.48xlarge", ["torchrun", "--nproc_per_node=8", "-m", "torchtitan.train", "--job.config_file",
                                    "torchtitan/models/llama3/train_configs/llama3_8b.toml", *option.split(),
                                    "--training.dataset", "c4_test", "--metrics.no_enable_tensorboard",
                                    "--profiling.no_enable_profiling"],
                clone="https://github.com/pytorch/torchtitan " + tag)


CASES: Dict[str, Case] = {
    "torchtitan 0.1.0": _titan("v0.1.0", "--model.tokenizer_path tests/assets/test_tiktoken.model"),
    "torchtitan 0.2.2": _titan("v0.2.2", "--model.hf_assets_path tests/assets/tokenizer"),
    **{"deepspeed {}, ZeRO-{}".format(version, stage): _deepspeed(version, stage)
       for version in ("0.18.3", "0.19.8") for stage in (1, 2, 3)},
    "accelerate 1.15.0": Case(["accelerate==1.15.0"], "p5.48xlarge",
                              ["accelerate", "launch", "--num_processes", "8", "SCRIPT"], ACCELERATE),
    "accelerate 1.0.1": Case(["accelerate==1.0.1", "transformers==4.45.2", "tokenizers==0.20.3",
                              "huggingface-hub==0.26.2"], "p5.48xlarge",
                             ["accelerate", "launch", "--num_processes", "8", "SCRIPT"], ACCELERATE),
    "megatron-core 0.16.1": Case([], "p5.48xlarge", ["torchrun", "--nproc-per-node", "2",
                                                     "examples/run_simple_mcore_train_loop.py"],
                                 clone="https://github.com/NVIDIA/Megatron-LM core_v0.16.1"),
}


def installed(folder: str, packages: List[str]) -> str:
    target = os.path.join(folder, "-".join(packages).replace("=", "")[:80])
    if not os.path.isdir(target):
        part = target + ".part"   # so that an interrupted installation is begun again
        shutil.rmtree(part, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", part,
                        *packages], check=True, env={**os.environ, "DS_BUILD_OPS": "0"})
        os.rename(part, target)
    return target


def cloned(folder: str, source: str) -> str:
    url, tag = source.split()
    target = os.path.join(folder, url.rsplit("/", 1)[1] + "-" + tag)
    if not os.path.isdir(target):
        subprocess.run(["git", "clone", "-q", "--depth", "1", "--branch", tag, url, target], check=True)
    return target


def row(build: str, folder: str, name: str, case: Case) -> str:
    paths = [installed(folder, case.packages)] if case.packages else []
    place = cloned(folder, case.clone) if case.clone else folder
    script = os.path.join(folder, "script.py")
    with open(script, "w", encoding="utf-8") as file:
        file.write(case.script)
    search = [*paths, place, installed(folder, ["triton"]), installed(folder, COMMON)]
    begin = time.monotonic()
    ran = subprocess.run([os.path.join(build, "meshwright"), "rehearse", "--on", case.machine, "--json", "--",
                          *(script if word == "SCRIPT" else word for word in case.command)],
                         cwd=place, capture_output=True, text=True, check=False,
                         env={**os.environ, "PYTHONPATH": ":".join(search), "MESHWRIGHT_PYTHON": sys.executable,
                              "PATH": os.path.dirname(sys.executable) + ":" + os.environ["PATH"]})
    if ran.returncode != 0:
        return "| {} | {} |".format(name, (ran.stderr.strip().splitlines() or ["no message"])[-1])
    answer = json.loads(ran.stdout)
    return "| {} | {:.1f} GiB allocated, {:.1f} reserved | {:.0f} s |".format(
        name, answer["peak_allocated_bytes"] / 2**30, answer["peak_reserved_bytes"] / 2**30, time.monotonic() - begin)


def main() -> None:
    if len(sys.argv) < 3 or not set(sys.argv[3:]) <= set(CASES):
        sys.exit("usage: rehearse_frameworks.py BUILD FOLDER [NAME...]; names: {}".format("; ".join(CASES)))
    build, folder = map(os.path.abspath, sys.argv[1:3])
    os.makedirs(folder, exist_ok=True)
    for name in sys.argv[3:] or CASES:
        print(row(build, folder, name, CASES[name]), flush=True)


if __name__ == "__main__":
    main()
