"""What transformers computes with the tiny models of tests/golden/safetensors: losses on a file of tokens, and texts.

    python3 -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python tests/golden/make_generated.py

(made with torch 2.15 and transformers 5.24). Writes tests/golden/generated.json:

    tokens    numbers that are evaluated, in windows of `sequence` tokens and their successors
    models    for each: `loss`, the mean over all targets in double precision; `texts`, each a prompt and the tokens that
              generate() adds to it greedily, with the smallest distance between the best logit and the next one

tests/tools/generating compares `evaluate` and `generate` with it, so that no test needs transformers.
"""

import json
import pathlib

import torch
import transformers

SEQUENCE, WINDOWS, VOCABULARY = 11, 9, 61
NAMES = ["gpt2", "llama", "mixtral", "gpt_neo", "opt", "phi3", "gemma", "olmo2", "gpt_bigcode", "falcon", "falcon-40b",
         "nemotron", "gemma2", "gemma3", "qwen3_moe", "olmoe", "glm4_moe", "deepseek_v2", "deepseek_v3", "qwen2_moe",
         "granitemoe", "gpt_oss"]
PROMPTS = [[9, 17, 3], [60], [44, 8, 2, 1, 33, 59, 7]]


def made(folder, tokens):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                                              experts_implementation="eager")
    model = model.double().eval()
    losses = []
    with torch.no_grad():
        for begin in range(0, SEQUENCE * WINDOWS, SEQUENCE):
            window = torch.tensor([tokens[begin:begin + SEQUENCE + 1]])
            logits = model(window[:, :-1]).logits[0]
            losses.append(torch.nn.functional.cross_entropy(logits, window[0, 1:]).item())
        texts = []
        for prompt in PROMPTS:
            out = model.generate(torch.tensor([prompt]), max_new_tokens=8, do_sample=False, output_logits=True,
                                 return_dict_in_generate=True, attention_mask=torch.ones(1, len(prompt), dtype=torch.long))
            best = torch.stack(out.logits)[:, 0].topk(2).values
            texts.append({"prompt": prompt, "tokens": out.sequences[0, len(prompt):].tolist(),
                          "margin": round((best[:, 0] - best[:, 1]).min().item(), 5)})
    return {"loss": sum(losses) / len(losses), "texts": texts}


def main():
    here = pathlib.Path(__file__).resolve().parent
    generator = torch.Generator().manual_seed(7000)
    tokens = torch.randint(0, VOCABULARY, (SEQUENCE * WINDOWS + 6,), generator=generator).tolist()
    models = {name: made(here / "safetensors" / name, tokens) for name in NAMES}
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in models.items())
    (here / "generated.json").write_text(
        f'{{"tokens": {json.dumps(tokens)},\n"sequence": {SEQUENCE},\n"models": {{\n{lines}\n}}}}\n')


if __name__ == "__main__":
    main()
