"""What transformers saves of the tiny models of make_golden.py: config.json and model.safetensors.

    python3 -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python tests/golden/make_safetensors.py [folder]

(made with torch 2.15 and transformers 5.23). Writes tests/golden/safetensors/<name>/ with the same
weights as tests/golden/transformers/<name>/; <name>-mtp those of tests/golden/mtp/<name>-1/. And
mxfp4.safetensors: random experts as gpt-oss is published, and in fp32 what transformers makes of them.
"""

import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

import make_golden

NAMES = ["gpt2", "llama", "bert", "mixtral", "distilbert", "albert", "vit", "t5", "gpt_neo", "opt", "phi3",
         "gemma", "olmo2", "gpt_bigcode", "falcon", "falcon-40b", "nemotron", "gemma2",
         "qwen3_moe", "olmoe", "glm4_moe", "deepseek_v2", "deepseek_v3", "qwen2_moe", "granitemoe", "gpt_oss", "gemma3",
         "llama4", "gpt2-classes", "bert-classes"]


def main():
    here = pathlib.Path(__file__).resolve().parent
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "safetensors"
    for number, (name, model) in enumerate(make_golden.MODELS.items()):
        class_name, config, configuration = model
        generator = torch.Generator().manual_seed(1000 + number)
        made = make_golden.make_model(class_name, config, configuration, generator)
        if name in NAMES:
            made.float().save_pretrained(root / name)
            (root / name / "generation_config.json").unlink(missing_ok=True)
    name, depths = make_golden.AHEAD[0]
    made = make_golden.make_model(*make_golden.MODELS[name], torch.Generator().manual_seed(5000),
                                  lambda model: make_golden.add_blocks_ahead(model, depths))
    made.float().save_pretrained(root / f"{name}-mtp")
    (root / f"{name}-mtp" / "generation_config.json").unlink(missing_ok=True)
    generator = torch.Generator().manual_seed(6000)
    blocks = torch.randint(0, 256, (2, 6, 3, 16), generator=generator, dtype=torch.uint8)
    scales = torch.randint(100, 150, (2, 6, 3), generator=generator, dtype=torch.uint8)
    save_file({"experts.gate_up_proj_blocks": blocks, "experts.gate_up_proj_scales": scales,
               "wide": convert_moe_packed_tensors(blocks, scales).float()}, root / "mxfp4.safetensors")


if __name__ == "__main__":
    main()
