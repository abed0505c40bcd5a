"""Low-rank adapters on the road from transformers to peft: GPT-2 of 124 M parameters.

    python3 -m venv venv && venv/bin/pip install torch transformers peft
    venv/bin/python tests/golden/check_peft.py build/release/meshwright [folder]

transformers makes the model (random weights), meshwright imports it, trains adapters for 50 steps on two ranks and writes
them and the merged model; peft loads the adapter beside transformers' own model. Then the loss of step 51 in meshwright's log
is that of peft's model on the same tokens, and the merged model has the logits of peft's.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import peft
import torch
import transformers

LENGTH, STEPS = 16, 50
LORA = {"rank": 8, "alpha": 16, "target_modules": ["c_attn", "c_proj"]}


def job(steps):
    return {
        "model": "base",
        "training": {"global_batch": 2, "micro_batch": 1, "sequence_length": LENGTH, "precision": "fp32",
                     "steps": steps, "learning_rate": 1e-3, "lora": LORA},
        "cluster": {"machine": "local", "processes_per_host": 2},
        "parallelism": {"data": 2},
        "data": {"files": ["tokens.bin"], "format": "uint16"},
        "checkpoint": {"folder": "checkpoints", "every_steps": STEPS},
        "log": {"json": "log.jsonl"},
    }


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    root = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp())
    root.mkdir(parents=True, exist_ok=True)

    def meshwright(*arguments):
        done = subprocess.run([program, *arguments], cwd=root, text=True, capture_output=True)
        print(f"$ meshwright {' '.join(arguments)}\n{done.stdout.strip()}")
        if done.returncode:
            sys.exit(done.stderr)

    torch.manual_seed(1)
    base = transformers.GPT2LMHeadModel(transformers.GPT2Config()).eval()
    base.save_pretrained(root / "base")
    print(f"GPT-2: {sum(p.numel() for p in base.parameters())} parameters")
    # Every window of the file holds the same tokens, and its targets are the next ones in a circle.
    tokens = torch.randint(0, 50257, (LENGTH,))
    numpy.tile(tokens.numpy().astype("<u2"), 40).tofile(root / "tokens.bin")
    (root / "job.json").write_text(json.dumps(job(STEPS), indent=2))
    if not (root / "local.json").exists():
        meshwright("calibrate", "--quick", "--ranks", "2", "--profile", "local.json")
    profile = ("--profile", "local.json")
    meshwright("import-weights", "job.json", "--from", "base", *profile)
    meshwright("train", "job.json", "--resume", *profile)
    meshwright("export-weights", "job.json", "--adapter", "--to", "adapter", *profile)
    meshwright("export-weights", "job.json", "--to", "merged", *profile)
    meshwright("train", "job.json", "--resume", "--steps", str(STEPS + 1), *profile)
    lines = [json.loads(line) for line in (root / "log.jsonl").read_text().splitlines()]
    losses = {line["step"]: line["loss"] for line in lines if "loss" in line and "step" in line}

    adapted = peft.PeftModel.from_pretrained(base, root / "adapter").eval()
    merged = transformers.GPT2LMHeadModel.from_pretrained(root / "merged").eval()
    with torch.no_grad():
        logits = adapted(tokens[None]).logits[0]
        of_merged = merged(tokens[None]).logits[0]
        loss = torch.nn.functional.cross_entropy(logits, tokens.roll(-1)).item()
        with adapted.disable_adapter():
            of_base = adapted(tokens[None]).logits[0]
    far = ((logits - of_merged).norm() / logits.norm()).item()
    moved = ((logits - of_base).norm() / of_base.norm()).item()
    print(f"loss: step 1 {losses[1]:.6f}, step {STEPS + 1} {losses[STEPS + 1]:.6f}, with peft {loss:.6f}")
    print(f"logits: peft beside merged {far:.1e} apart, {moved:.1e} from those without the adapter")
    assert abs(loss - losses[STEPS + 1]) < 1e-4 * loss
    assert far < 1e-5 < moved
    print("the adapter is the same in both")


if __name__ == "__main__":
    main()
