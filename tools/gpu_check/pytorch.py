#!/usr/bin/env python3
"""PyTorch's side of tools/gpu-check; needs torch and numpy.

  pytorch.py weights JOB FOLDER    the model of a job with drawn weights, as transformers saves it
                                   (config.json, model.safetensors), and tokens.bin to train on
  pytorch.py curve JOB FOLDER      trains it on these tokens; a line of JSON for each step
  pytorch.py speed JOB             tokens per second of a compiled model with flash attention
JOB is a job file of meshwright; --set KEY=VALUE overrides a key of it, as there.
"""
import argparse
import json
import pathlib
import struct
import time

import numpy
import torch
import torch._dynamo

from models import draw_weights, make_model

root = pathlib.Path(__file__).resolve().parents[2]


def read_job(path, overrides):
    job = json.loads(path.read_text())
    for override in overrides:
        key, value = override.split("=", 1)
        *way, last = key.split(".")
        place = job
        for word in way:
            place = place.setdefault(word, {})
        try:
            place[last] = json.loads(value)
        except json.JSONDecodeError:
            place[last] = value
    return job


def read_config(job, path):
    """The config.json that the job's model is."""
    name = job["model"]
    for place in (root / "models/zoo" / f"{name}.json", path.parent / name,
                  path.parent / name / "config.json"):
        if place.is_file():
            return json.loads(place.read_text())
    raise SystemExit(f"{path}: model {name} is not a config.json")


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, tensor in sorted(tensors.items()):
        size = tensor.numel() * 4
        header[name] = {"dtype": "F32", "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, tensor in sorted(tensors.items()):
            file.write(tensor.detach().float().cpu().contiguous().numpy().tobytes())


def read_safetensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    return {name: torch.from_numpy(numpy.frombuffer(
                data[slice(*each["data_offsets"])], numpy.float32).reshape(each["shape"]).copy())
            for name, each in header.items() if name != "__metadata__"}


def drawn_tokens(count, vocabulary):
    """Something to learn: few words are frequent, and every second one repeats an earlier one."""
    random = numpy.random.default_rng(1)
    words = numpy.minimum(random.zipf(1.3, count), vocabulary) - 1
    repeats = random.random(count) < 0.5
    repeats[:8] = False
    back = random.integers(1, 8, count)
    for i in numpy.flatnonzero(repeats):
        words[i] = words[i - back[i]]
    return words.astype("<u2")


def weights(arguments, job, config):
    training = job["training"]
    model = make_model(config)
    draw_weights(model, 1)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    (arguments.folder / "config.json").write_text(json.dumps(config))
    write_safetensors(arguments.folder / "model.safetensors", model.state_dict())
    sequences = training["global_batch"] * training["steps"]
    tokens = drawn_tokens(sequences * training["sequence_length"] + 1, config["vocab_size"])
    tokens.tofile(arguments.folder / "tokens.bin")


def make_optimizer(model, training, device):
    decays = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    return torch.optim.AdamW(
        [{"params": decays, "weight_decay": training.get("weight_decay", 0)},
         {"params": others, "weight_decay": 0}],
        lr=training.get("learning_rate", 1e-4), eps=training.get("epsilon", 1e-8),
        betas=(training.get("beta1", 0.9), training.get("beta2", 0.999)), fused=device == "cuda")


def autocast(training, device):
    is_bf16 = training.get("precision", "fp32") == "bf16"
    return torch.autocast(device, torch.bfloat16, enabled=is_bf16)


def curve(arguments, job, config):
    training = job["training"]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = make_model(config)
    model.load_state_dict(read_safetensors(arguments.folder / "model.safetensors"))
    model.to(device)
    optimizer = make_optimizer(model, training, device)
    batch, length = training["global_batch"], training["sequence_length"]
    tokens = numpy.fromfile(arguments.folder / "tokens.bin", "<u2").astype(numpy.int64)
    warmup, clip = training.get("warmup_steps", 0), training.get("gradient_clip", 0)
    losses = []
    for step in range(1, training["steps"] + 1):
        begin = (step - 1) * batch * length
        window = torch.from_numpy(tokens[begin:begin + batch * length + 1]).to(device)
        for group in optimizer.param_groups:
            group["lr"] = training.get("learning_rate", 1e-4) * min(1, step / max(warmup, 1))
        with autocast(training, device):
            loss = model(window[:-1].view(batch, length), window[1:].view(batch, length))
        loss.backward()
        if clip > 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
    for step, loss in enumerate(torch.stack(losses).tolist(), 1):
        print(json.dumps({"step": step, "loss": loss}))


def speed(arguments, job, config):
    training = job["training"]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    with torch.device(device):
        model = make_model(config, pad_vocabulary=True)
    draw_weights(model, 1)
    optimizer = make_optimizer(model, training, device)
    batch, length = training["micro_batch"], training["sequence_length"]
    micro_batches = training["global_batch"] // batch
    tokens = torch.randint(config["vocab_size"], (batch, length + 1), device=device)
    # All blocks are one function, compiled once: a whole model takes minutes. The last norm, the head
    # and the loss are another. Before PyTorch 2.5 every block counts as compiled again.
    torch._dynamo.config.cache_size_limit = max(64, len(model.blocks))
    for block in model.blocks:
        block.compile()
    model.loss = torch.compile(model.loss)

    def step():
        for _ in range(micro_batches):
            with autocast(training, device):
                loss = model(tokens[:, :-1], tokens[:, 1:])
            (loss / micro_batches).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def wait():
        if device == "cuda":
            torch.cuda.synchronize()

    begin = time.perf_counter()
    for _ in range(3):
        step()
    wait()
    prepared = time.perf_counter() - begin
    seconds = []
    for _ in range(arguments.steps):
        begin = time.perf_counter()
        step()
        wait()
        seconds.append(time.perf_counter() - begin)
    middle = sorted(seconds)[len(seconds) // 2]
    print(json.dumps({
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "preparation_s": prepared,
        "step_time_s": middle,
        "tokens_per_s": micro_batches * batch * length / middle,
        "peak_memory_bytes": torch.cuda.max_memory_reserved() if device == "cuda" else 0,
    }, indent=2))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for command in (weights, curve, speed):
        each = commands.add_parser(command.__name__)
        each.add_argument("job", type=pathlib.Path)
        if command is speed:
            each.add_argument("--steps", type=int, default=15, help="that are timed")
        else:
            each.add_argument("folder", type=pathlib.Path)
        each.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
        each.set_defaults(run=command)
    arguments = parser.parse_args()
    job = read_job(arguments.job, arguments.set)
    arguments.run(arguments, job, read_config(job, arguments.job))


if __name__ == "__main__":
    main()
