"""A decoder of plain PyTorch, as GPT-2's, trained with autocast."""

import torch
from torch import nn
from torch.nn import functional

WIDTH, HEADS, LAYERS, VOCABULARY, BATCH, LENGTH = 768, 12, 2, 50257, 8, 1024


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        heads = [part.view(BATCH, LENGTH, HEADS, -1).transpose(1, 2) for part in self.qkv(self.norms[0](x)).chunk(3, -1)]
        seen = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH))
        return x + self.down(functional.gelu(self.up(self.norms[1](x))))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        return self.head(self.norm(self.blocks(self.tokens(ids) + self.places.weight)))


model = Decoder().cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(5):
    ids = torch.randint(VOCABULARY, (BATCH, LENGTH), device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        loss = functional.cross_entropy(model(ids).view(-1, VOCABULARY), ids.view(-1))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
