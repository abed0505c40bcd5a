"""GPT-2 and Llama in plain PyTorch, made from a Hugging Face config.json, with the published names
of parameters."""
import math

import torch
from torch import nn
from torch.nn import functional as F


class Conv1D(nn.Module):
    """A linear layer whose matrix is stored as inputs x outputs, as OpenAI published GPT-2's."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        return F.linear(x, self.weight.t(), self.bias)


class GPT2Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config["n_embd"]
        self.heads = config["n_head"]
        self.c_attn = Conv1D(width, 3 * width)
        self.c_proj = Conv1D(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (each.view(shape).transpose(1, 2) for each in self.c_attn(x).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(batch, length, width))


class GPT2MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config["n_embd"]
        inner = config.get("n_inner") or 4 * width
        self.c_fc = Conv1D(width, inner)
        self.c_proj = Conv1D(inner, width)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class GPT2Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, epsilon = config["n_embd"], config["layer_norm_epsilon"]
        self.ln_1 = nn.LayerNorm(width, epsilon)
        self.attn = GPT2Attention(config)
        self.ln_2 = nn.LayerNorm(width, epsilon)
        self.mlp = GPT2MLP(config)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT2(nn.Module):
    def __init__(self, config, vocabulary):
        super().__init__()
        width = config["n_embd"]
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(vocabulary, width),
            "wpe": nn.Embedding(config["n_positions"], width),
            "h": nn.ModuleList(GPT2Block(config) for _ in range(config["n_layer"])),
            "ln_f": nn.LayerNorm(width, config["layer_norm_epsilon"]),
        })
        self.residual_scale = 1 / math.sqrt(2 * config["n_layer"])

    @property
    def blocks(self):
        return self.transformer["h"]

    def forward(self, tokens, targets):
        parts = self.transformer
        x = parts["wte"](tokens) + parts["wpe"].weight[: tokens.shape[1]]
        for block in parts["h"]:
            x = block(x)
        return self.loss(x, targets)

    def loss(self, x, targets):
        """Of the last block's result."""
        logits = F.linear(self.transformer["ln_f"](x), self.transformer["wte"].weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


class LlamaAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, self.heads = config["hidden_size"], config["num_attention_heads"]
        self.kv_heads = config.get("num_key_value_heads") or self.heads
        self.size = width // self.heads
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, self.kv_heads * self.size, bias=False)
        self.v_proj = nn.Linear(width, self.kv_heads * self.size, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, x, cos, sin):
        batch, length, width = x.shape

        def heads(y, count):
            return y.view(batch, length, count, self.size).transpose(1, 2)

        def rotated(y):
            first, second = y.chunk(2, dim=-1)
            return (y * cos + torch.cat((-second, first), dim=-1) * sin).to(y.dtype)

        q = rotated(heads(self.q_proj(x), self.heads))
        k = rotated(heads(self.k_proj(x), self.kv_heads))
        v = heads(self.v_proj(x), self.kv_heads)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                           enable_gqa=self.kv_heads != self.heads)
        return self.o_proj(y.transpose(1, 2).reshape(batch, length, width))


class LlamaMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, inner = config["hidden_size"], config["intermediate_size"]
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, epsilon = config["hidden_size"], config["rms_norm_eps"]
        self.input_layernorm = nn.RMSNorm(width, epsilon)
        self.self_attn = LlamaAttention(config)
        self.post_attention_layernorm = nn.RMSNorm(width, epsilon)
        self.mlp = LlamaMLP(config)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    residual_scale = 1

    def __init__(self, config, vocabulary):
        super().__init__()
        width = config["hidden_size"]
        self.model = nn.ModuleDict({
            "embed_tokens": nn.Embedding(vocabulary, width),
            "layers": nn.ModuleList(LlamaBlock(config) for _ in range(config["num_hidden_layers"])),
            "norm": nn.RMSNorm(width, config["rms_norm_eps"]),
        })
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.size = width // config["num_attention_heads"]
        self.base = config.get("rope_theta") or config["rope_parameters"]["rope_theta"]

    @property
    def blocks(self):
        return self.model["layers"]

    def forward(self, tokens, targets):
        parts = self.model
        pairs = torch.arange(0, self.size, 2, device=tokens.device, dtype=torch.float32)
        turns = torch.arange(tokens.shape[1], device=tokens.device)
        angles = torch.outer(turns.float(), self.base ** (-pairs / self.size)).repeat(1, 2)
        cos, sin = angles.cos(), angles.sin()
        x = parts["embed_tokens"](tokens)
        for block in parts["layers"]:
            x = block(x, cos, sin)
        return self.loss(x, targets)

    def loss(self, x, targets):
        """Of the last block's result."""
        logits = self.lm_head(self.model["norm"](x))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def make_model(config, pad_vocabulary=False):
    """`pad_vocabulary`: to a multiple of 128, where products are faster."""
    vocabulary = config["vocab_size"]
    if pad_vocabulary:
        vocabulary = -(-vocabulary // 128) * 128
    return {"gpt2": GPT2, "llama": Llama}[config["model_type"]](config, vocabulary)


@torch.no_grad()
def draw_weights(model, seed):
    """GPT-2's: deviation 0.02, less at the end of a residual branch, norms 1, biases 0."""
    generator = torch.Generator(next(model.parameters()).device).manual_seed(seed)
    for name, parameter in model.named_parameters():
        if parameter.dim() >= 2:
            scale = model.residual_scale if name.endswith("c_proj.weight") else 1
            parameter.normal_(0, 0.02 * scale, generator=generator)
        else:
            parameter.fill_(0 if name.endswith("bias") else 1)
