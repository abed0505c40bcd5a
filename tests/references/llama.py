"""Some layers of a Llama of transformers: python llama.py [--hidden N ...] [--parallel ddp|fsdp2]"""

import argparse
import os

import torch
import torch.distributed as dist
import transformers

options = argparse.ArgumentParser()
for name, value in (("hidden", 4096), ("layers", 2), ("heads", 32), ("kv-heads", 8), ("ffn", 14336), ("vocab", 32000),
                    ("batch", 1), ("length", 4096)):
    options.add_argument("--" + name, type=int, default=value)
options.add_argument("--attention", default="sdpa")
options.add_argument("--autocast", action="store_true", help="fp32 weights; bf16 weights without it")
options.add_argument("--parallel", choices=("ddp", "fsdp2"))
given = options.parse_args()

if given.parallel:
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
config = transformers.LlamaConfig(
    hidden_size=given.hidden, num_hidden_layers=given.layers, num_attention_heads=given.heads,
    num_key_value_heads=given.kv_heads, intermediate_size=given.ffn, vocab_size=given.vocab, use_cache=False,
    attn_implementation=given.attention)
model = transformers.LlamaForCausalLM(config).cuda().to(torch.float32 if given.autocast or given.parallel == "fsdp2"
                                                        else torch.bfloat16)
model.train()
if given.parallel == "ddp":
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[torch.cuda.current_device()])
elif given.parallel == "fsdp2":
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.model.layers:
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
for _ in range(5):
    ids = torch.randint(given.vocab, (given.batch, given.length), device="cuda")
    with torch.autocast("cuda", torch.bfloat16, enabled=given.autocast):
        loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
