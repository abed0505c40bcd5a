"""A small GPT on made text, written as one reads it in self-contained training scripts: no trainer, one file.

`--name=value` replaces a setting.
"""

import json
import math
import os
import sys
import time
from ast import literal_eval

import torch
import torch.nn as nn
from torch.nn import functional as F

import meshwright.torch as mw

# settings
out_dir = "out"
eval_interval = 3
eval_iters = 2
init_from = "scratch"   # or "resume"
gradient_accumulation_steps = 4
batch_size = 2
block_size = 16
vocab_size = 29
n_layer, n_head, n_embd, dropout = 4, 2, 32, 0.0
learning_rate, min_lr = 1e-2, 1e-3
warmup_iters, max_iters, lr_decay_iters = 2, 8, 8
weight_decay, beta1, beta2 = 0.1, 0.9, 0.95
grad_clip = 0.5
device_type = "cpu"
dtype = "float32"
compile, backend = False, "inductor"
pipeline = 2
for word in sys.argv[1:]:
    name, value = word.lstrip("-").split("=")
    globals()[name] = type(globals()[name])(literal_eval(value)) if type(globals()[name]) is not str else value


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.in_proj = nn.Linear(n_embd, 3 * n_embd, bias=False)
        self.out_proj = nn.Linear(n_embd, n_embd, bias=False)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (each.view(B, T, n_head, C // n_head).transpose(1, 2) for each in self.in_proj(x).split(C, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout if self.training else 0.0)
        return self.out_proj(y.transpose(1, 2).reshape(B, T, C))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.attn = Attention()
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd),
                                 nn.Dropout(dropout))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab_size, n_embd), nn.Embedding(block_size, n_embd)
        self.layers = nn.ModuleList(Layer() for _ in range(n_layer))
        self.ln_f = nn.LayerNorm(n_embd)
        self.head = nn.Linear(n_embd, vocab_size, bias=False)
        self.tokens.weight = self.head.weight

    def forward(self, idx, targets=None):
        x = self.tokens(idx) + self.positions(torch.arange(idx.size(1), device=idx.device))
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.ln_f(x))
        loss = None if targets is None else F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        return logits, loss

    def configure_optimizers(self):
        """Matrices decay; biases and norms do not."""
        trained = [each for each in self.parameters() if each.requires_grad]
        groups = [{"params": [each for each in trained if each.dim() >= 2], "weight_decay": weight_decay},
                  {"params": [each for each in trained if each.dim() < 2], "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=learning_rate, betas=(beta1, beta2))


def get_batch(split, number):
    """Each batch has its number, so that a run that goes on draws what one without a break would."""
    generator = torch.Generator().manual_seed(2 * number + (split == "val"))
    first = torch.randint(vocab_size, (batch_size, 1), generator=generator)
    step = torch.randint(1, 4, (batch_size, 1), generator=generator)
    text = (first + step * torch.arange(block_size + 1)) % vocab_size
    return text[:, :-1].contiguous(), text[:, 1:].contiguous()


def get_batches(it):
    """This replica's micro-batches of a step."""
    own = range(mw.dp_rank(), gradient_accumulation_steps, mw.dp_size())
    return [get_batch("train", it * gradient_accumulation_steps + micro_step) for micro_step in own]


def get_lr(it):
    if it < warmup_iters:
        return learning_rate * (it + 1) / (warmup_iters + 1)
    ratio = min(1.0, (it - warmup_iters) / (lr_decay_iters - warmup_iters))
    return min_lr + 0.5 * (1.0 + math.cos(math.pi * ratio)) * (learning_rate - min_lr)


@torch.no_grad()
def estimate_loss():
    found = {}
    model.eval()
    for split in ("train", "val"):
        losses = torch.zeros(eval_iters)
        for k in range(eval_iters):
            X, Y = get_batch(split, 1000 + k)
            with ctx:
                logits, loss = model(X, Y)
            losses[k] = loss.item()
        found[split] = losses.mean().item()
    model.train()
    return found


mw.init({"parallelism": {"pipeline": pipeline, "data": "auto", "zero_stage": 1}})
master_process = mw.rank() == 0
os.makedirs(out_dir, exist_ok=True)
torch.manual_seed(1337)
ctx = torch.autocast(device_type=device_type, dtype=getattr(torch, dtype), enabled=dtype != "float32")
scaler = torch.amp.GradScaler(device_type, enabled=dtype == "float16")
iter_num, best_val_loss = 0, 1e9
model = GPT()
optimizer = model.configure_optimizers()
if compile:
    model = torch.compile(model, backend=backend)
model = mw.DistributedModel(model, lambda output, batch: output[1])
mw.DistributedOptimizer(optimizer, gradient_clip=grad_clip)
if init_from == "resume":
    iter_num = mw.resume(out_dir, model)
    best_val_loss = model.extra["best_val_loss"]
    model.prepare(get_batches(iter_num))

history, evaluated = [], []
begin = time.time()
while True:
    lr = get_lr(iter_num)
    for param_group in optimizer.param_groups:
        param_group["lr"] = lr
    if iter_num % eval_interval == 0 or iter_num == max_iters:
        losses = estimate_loss()
        best_val_loss = min(best_val_loss, losses["val"])
        evaluated += [losses["train"], losses["val"], best_val_loss]
        if master_process:
            print("step {}: train loss {train:.4f}, val loss {val:.4f}".format(iter_num, **losses))
        if iter_num > 0:
            mw.save(out_dir, model, extra={"best_val_loss": best_val_loss})
    if iter_num >= max_iters:
        break
    with ctx:
        total = model.step(get_batches(iter_num)).item()
    if master_process:
        print("iter {}: loss {:.4f}, time {:.0f} ms".format(iter_num, total, (time.time() - begin) * 1000))
    begin = time.time()
    history.append(total)
    iter_num += 1
if master_process:
    with open(os.path.join(out_dir, "report.json"), "w") as file:
        json.dump({"losses": history, "evaluated": evaluated}, file)
