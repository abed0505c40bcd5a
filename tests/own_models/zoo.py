"""42 small models as people write them, with random weights: 18 of transformers, 4 of torchvision and timm, 20 by hand.

`MODELS` maps a name to a function that returns (module, example, loss): what `meshwright.torch.capture`
takes. Structure is that of the real models; sizes are tiny, except those of the four of vision.
"""

import math
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
import torch.nn.functional as F
from torch import nn

MODELS = {}
FIRST_32 = []   # Balance is asked of these; the ten after them are of other families.
BATCH, LENGTH, WORDS = 2, 32, 128


def model(name, first=True):
    """Registers a function that makes a model."""

    def register(make):
        MODELS[name] = make
        if first:
            FIRST_32.append(name)
        return make

    return register


def words(batch=BATCH, length=LENGTH, count=WORDS):
    return torch.randint(3, count, (batch, length))


def pictures(size, batch=BATCH):
    return torch.randn(batch, 3, size, size)


def classes(count=10, batch=BATCH):
    return torch.randint(0, count, (batch,))


# --------------------------------------------------------------------------------- transformers


def of_transformers(config, head, example, **settings):
    """A class of transformers; its output has the loss."""
    import transformers
    settings.setdefault("use_cache", False)
    made = getattr(transformers, config)(**settings)
    return getattr(transformers, head)._from_config(made, attn_implementation="eager"), example, None


def decoder(config, head, **settings):
    ids = words()
    return of_transformers(config, head, {"input_ids": ids, "labels": ids.clone()}, vocab_size=WORDS, **settings)


LIKE_LLAMA = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                  num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)
LIKE_BERT = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                 max_position_embeddings=66)


@model("gpt2")
def _():
    return decoder("GPT2Config", "GPT2LMHeadModel", n_embd=64, n_layer=2, n_head=4, n_positions=64, bos_token_id=1,
                   eos_token_id=2)


for _name, _config, _more in (("llama", "Llama", {}), ("mistral", "Mistral", {"sliding_window": 16}),
                              ("qwen2", "Qwen2", {}),
                              ("gemma", "Gemma", {"head_dim": 16}), ("phi3", "Phi3", {}),
                              ("mixtral", "Mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2})):
    model(_name)(lambda config=_config, more=_more: decoder(config + "Config", config + "ForCausalLM", **LIKE_LLAMA,
                                                            **more))


@model("mamba")
def _():
    return decoder("MambaConfig", "MambaForCausalLM", hidden_size=64, state_size=8, num_hidden_layers=2)


for _name, _config in (("bert", "Bert"), ("roberta", "Roberta")):
    model(_name)(lambda config=_config: decoder(config + "Config", config + "ForMaskedLM", **LIKE_BERT))


@model("deberta_v2")
def _():
    return decoder("DebertaV2Config", "DebertaV2ForMaskedLM", relative_attention=True, position_buckets=16,
                   pos_att_type=["p2c", "c2p"], norm_rel_ebd="layer_norm", share_att_key=True,
                   position_biased_input=False, max_relative_positions=-1, **LIKE_BERT)


@model("t5")
def _():
    example = {"input_ids": words(), "decoder_input_ids": words(), "labels": words()}
    return of_transformers("T5Config", "T5ForConditionalGeneration", example, vocab_size=WORDS, d_model=64, d_kv=16,
                           d_ff=128, num_layers=2, num_heads=4, decoder_start_token_id=0)


@model("bart")
def _():
    example = {"input_ids": words(), "decoder_input_ids": words(), "labels": words()}
    return of_transformers("BartConfig", "BartForConditionalGeneration", example, vocab_size=WORDS, d_model=64,
                           encoder_layers=2, decoder_layers=2, encoder_ffn_dim=128, decoder_ffn_dim=128,
                           encoder_attention_heads=4, decoder_attention_heads=4, max_position_embeddings=64)


@model("vit")
def _():
    return of_transformers("ViTConfig", "ViTForImageClassification",
                           {"pixel_values": pictures(32), "labels": classes()}, hidden_size=64, num_hidden_layers=2,
                           num_attention_heads=4, intermediate_size=128, image_size=32, patch_size=8, num_labels=10)


@model("swin")
def _():
    return of_transformers("SwinConfig", "SwinForImageClassification",
                           {"pixel_values": pictures(32), "labels": classes()}, image_size=32, patch_size=2,
                           embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, num_labels=10)


@model("clip")
def _():
    tower = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, projection_dim=32)
    text = dict(tower, vocab_size=WORDS, max_position_embeddings=LENGTH, eos_token_id=2)
    return of_transformers("CLIPConfig", "CLIPModel",
                           {"input_ids": words(), "pixel_values": pictures(32), "return_loss": True}, text_config=text,
                           vision_config=dict(tower, image_size=32, patch_size=8), projection_dim=32)


@model("whisper")
def _():
    example = {"input_features": torch.randn(BATCH, 20, 100), "decoder_input_ids": words(), "labels": words()}
    return of_transformers("WhisperConfig", "WhisperForConditionalGeneration", example, vocab_size=WORDS, d_model=64,
                           encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                           encoder_ffn_dim=128, decoder_ffn_dim=128, num_mel_bins=20, max_source_positions=50,
                           max_target_positions=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                           decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None)


@model("wav2vec2")
def _():
    example = {"input_values": torch.randn(BATCH, 1600), "labels": classes()}
    return of_transformers("Wav2Vec2Config", "Wav2Vec2ForSequenceClassification", example, hidden_size=64,
                           num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, conv_dim=(32, 32, 32),
                           conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3), num_feat_extract_layers=3,
                           num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, apply_spec_augment=False,
                           num_labels=10, classifier_proj_size=32, layerdrop=0.0)


# --------------------------------------------------------------------------------- torchvision, timm


def labelled(output, example):
    return F.cross_entropy(output, example["y"])


def of_pictures(net):
    return net, {"x": pictures(64), "y": classes()}, labelled


for _name in ("resnet50", "efficientnet_b0", "convnext_tiny"):
    def _vision(name=_name):
        import torchvision
        return of_pictures(getattr(torchvision.models, name)(num_classes=10))
    model(_name)(_vision)


@model("timm_vit")
def _():
    import timm
    return of_pictures(timm.create_model("vit_tiny_patch16_224", img_size=64, num_classes=10, drop_path_rate=0.1))


# --------------------------------------------------------------------------------- by hand: pictures


def sines(t, width):
    """Sines and cosines of a time or a place."""
    rates = torch.exp(torch.arange(width // 2, device=t.device) * (-math.log(10000.0) / (width // 2)))
    angles = t[:, None].float() * rates
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class TimedBlock(nn.Module):
    """A residual block of a diffusion model that is told the time."""

    def __init__(self, entering, leaving, time):
        super().__init__()
        self.before, self.after = nn.GroupNorm(8, entering), nn.GroupNorm(8, leaving)
        self.first, self.second = (nn.Conv2d(c, leaving, 3, padding=1) for c in (entering, leaving))
        self.time = nn.Linear(time, leaving)
        self.drop = nn.Dropout(0.1)
        self.around = nn.Conv2d(entering, leaving, 1) if entering != leaving else nn.Identity()

    def forward(self, x, time):
        y = self.first(F.silu(self.before(x)))
        y = y + self.time(F.silu(time))[..., None, None]
        return self.around(x) + self.second(self.drop(F.silu(self.after(y))))


class PixelAttention(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.norm, self.heads = nn.GroupNorm(8, width), heads
        self.enter, self.leave = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x):
        batch, width, *size = x.shape
        q, k, v = self.enter(self.norm(x)).view(batch, 3, self.heads, width // self.heads, -1).transpose(3, 4).unbind(1)
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.leave(y.transpose(2, 3).reshape(batch, width, *size))


class UNet(nn.Module):
    """A diffusion U-Net of two levels, with skips."""

    def __init__(self, width=32):
        super().__init__()
        time = 4 * width
        self.width = width
        self.clock = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.high, self.low = TimedBlock(width, width, time), TimedBlock(width, 2 * width, time)
        self.shrink = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.attend = PixelAttention(2 * width)
        self.middle = TimedBlock(2 * width, 2 * width, time)
        self.low_up, self.high_up = TimedBlock(4 * width, 2 * width, time), TimedBlock(2 * width, width, time)
        self.grow = nn.Conv2d(2 * width, width, 3, padding=1)
        self.leave = nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, noisy, t):
        time = self.clock(sines(t, self.width))
        high = self.high(self.enter(noisy), time)
        low = self.attend(self.low(self.shrink(high), time))
        up = self.low_up(torch.cat([self.middle(low, time), low], 1), time)
        up = self.grow(F.interpolate(up, scale_factor=2.0))
        return self.leave(self.high_up(torch.cat([up, high], 1), time))


@model("unet")
def _():
    example = {"noisy": pictures(16), "t": torch.randint(0, 1000, (BATCH,)), "noise": pictures(16)}
    return UNet(), example, lambda output, given: F.mse_loss(output, given["noise"])


# --------------------------------------------------------------------------------- by hand: tables


class DLRM(nn.Module):
    """Bags of embeddings, pairs of dot products, two towers of layers."""

    def __init__(self, tables=4, rows=100, width=16):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.dense = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, width), nn.ReLU())
        pairs = torch.tril_indices(tables + 1, tables + 1, -1)
        self.register_buffer("left", pairs[0])
        self.register_buffer("right", pairs[1])
        self.top = nn.Sequential(nn.Linear(width + pairs.shape[1], 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, dense, sparse):
        x = self.dense(dense)
        every = torch.stack([x] + [table(sparse[:, place]) for place, table in enumerate(self.tables)], dim=1)
        products = (every @ every.mT)[:, self.left, self.right]
        return self.top(torch.cat([x, products], 1))[:, 0]


@model("dlrm")
def _():
    example = {"dense": torch.randn(8, 13), "sparse": torch.randint(0, 100, (8, 4, 3)), "clicked": torch.rand(8)}
    return DLRM(), example, lambda output, given: F.binary_cross_entropy_with_logits(output, given["clicked"])


# --------------------------------------------------------------------------------- by hand: words


def next_word(output, example):
    return F.cross_entropy(output.flatten(0, 1), example["targets"].flatten(), ignore_index=-1)


def of_words(net):
    return net, {"input_ids": words(), "targets": words()}, next_word


class RecurrentWords(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.table = nn.Embedding(WORDS, width)
        self.drop = nn.Dropout(0.1)
        self.layers = nn.LSTM(width, width, num_layers=2, dropout=0.1, batch_first=True)
        self.head = nn.Linear(width, WORDS)
        self.head.weight = self.table.weight

    def forward(self, input_ids):
        y, _ = self.layers(self.drop(self.table(input_ids)))
        return self.head(self.drop(y))


@model("lstm_lm")
def _():
    return of_words(RecurrentWords())


class GraphAttention(nn.Module):
    """One layer of graph attention: softmax over the edges that end in a node, by scatters."""

    def __init__(self, entering, width, heads):
        super().__init__()
        self.heads, self.width = heads, width
        self.enter = nn.Linear(entering, heads * width, bias=False)
        self.ends = nn.Parameter(0.1 * torch.randn(2, heads, width))

    def forward(self, x, edges):
        nodes = x.shape[0]
        start, end = edges[0], edges[1]
        y = self.enter(x).view(nodes, self.heads, self.width)
        scores = F.leaky_relu((y * self.ends[0]).sum(-1)[start] + (y * self.ends[1]).sum(-1)[end], 0.2)
        lowest = torch.full((nodes, self.heads), -1e9)
        highest = lowest.scatter_reduce(0, end[:, None].expand_as(scores), scores, "amax")
        shares = (scores - highest[end]).exp()
        total = torch.zeros(nodes, self.heads).index_add(0, end, shares)
        shares = shares / (total[end] + 1e-9)
        mixed = torch.zeros(nodes, self.heads, self.width).index_add(0, end, shares[..., None] * y[start])
        return mixed.flatten(1)


class GAT(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = GraphAttention(16, 8, 4), GraphAttention(32, 5, 1)

    def forward(self, x, edges):
        return self.second(F.dropout(F.elu(self.first(x, edges)), 0.1, self.training), edges)


def graph(nodes=20, edges=60, width=16):
    return {"x": torch.randn(nodes, width), "edges": torch.randint(0, nodes, (2, edges)),
            "y": torch.randint(0, 5, (nodes,))}


@model("gat")
def _():
    return GAT(), graph(), labelled


@model("mlp_mse")
def _():
    net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def step(x, y):
        return F.mse_loss(net(x), y)

    return step, {"x": torch.randn(8, 16), "y": torch.randn(8, 1)}, None


class SelfAttention(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.enter, self.leave = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (each.view(batch, length, self.heads, -1).transpose(1, 2) for each in self.enter(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0.0, is_causal=True)
        return self.drop(self.leave(y.transpose(1, 2).flatten(2)))


class Block(nn.Module):
    """A block that normalizes first."""

    def __init__(self, attention, feed_forward, width):
        super().__init__()
        self.before_attention, self.before_feed_forward = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.feed_forward = attention, feed_forward

    def forward(self, x):
        x = x + self.attention(self.before_attention(x))
        return x + self.feed_forward(self.before_feed_forward(x))


class Words(nn.Module):
    """Tables of words and positions, blocks, and a head that shares the table of words."""

    def __init__(self, blocks, width=64, dropout=0.0):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(64, width)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(blocks)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, WORDS, bias=False)
        self.head.weight = self.words.weight

    def forward(self, input_ids):
        places = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.drop(self.words(input_ids) + self.places(places))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


@model("tiny_gpt")
def _():
    blocks = [Block(SelfAttention(64, 4, 0.1), nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64),
                                                             nn.Dropout(0.1)), 64) for _ in range(2)]
    return of_words(Words(blocks, dropout=0.1))


class ExpertLoop(nn.Module):
    """Experts as a loop, each over the rows that chose it: data decide how many."""

    def __init__(self, width=64, experts=4, chosen=2):
        super().__init__()
        self.router, self.chosen = nn.Linear(width, experts, bias=False), chosen
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
                                     for _ in range(experts))

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        weights, choice = self.router(rows).softmax(-1).topk(self.chosen)
        weights = weights / weights.sum(-1, keepdim=True)
        mixed = torch.zeros_like(rows)
        for number, expert in enumerate(self.experts):
            row, rank = torch.where(choice == number)
            mixed = mixed.index_add(0, row, weights[row, rank, None] * expert(rows[row]))
        return mixed.view_as(x)


class ExpertMix(ExpertLoop):
    """Every expert computes every row, and a matrix of weights chooses."""

    def forward(self, x):
        weights, choice = self.router(x).topk(self.chosen)
        every = torch.stack([expert(x) for expert in self.experts], dim=-2)
        mask = torch.zeros(*x.shape[:-1], len(self.experts)).scatter(-1, choice, weights.softmax(-1))
        return torch.einsum("ble,bled->bld", mask, every)


@model("moe_loop")
def _():
    return of_words(Words([Block(SelfAttention(64, 4, 0.0), ExpertLoop(), 64) for _ in range(2)]))


@model("moe_einsum")
def _():
    return of_words(Words([Block(SelfAttention(64, 4, 0.0), ExpertMix(), 64) for _ in range(2)]))


class LengthNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.gain * x / (1e-6 + x.norm(dim=-1, keepdim=True) / math.sqrt(x.shape[-1]))


class OddBlock(nn.Module):
    """Products by einsum, rotation by complex numbers, one key and value for all heads, an own softmax."""

    def __init__(self, width, heads):
        super().__init__()
        small = lambda *shape: nn.Parameter(0.05 * torch.randn(*shape))
        self.size = width // heads
        self.q, self.kv = small(width, heads, self.size), small(width, 2, self.size)
        self.o = small(heads, self.size, width)
        self.norms = nn.ModuleList(LengthNorm(width) for _ in range(2))
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(2 * width, width, bias=False)
        self.gate = nn.Parameter(torch.zeros(1))

    def forward(self, x, turns):
        def turned(z):
            pairs = torch.view_as_complex(z.float().unflatten(-1, (-1, 2)))
            return torch.view_as_real(pairs * turns).flatten(-2).to(z.dtype)

        y = self.norms[0](x)
        q = turned(torch.einsum("bld,dhk->bhlk", y, self.q))
        k, v = torch.einsum("bld,dnk->nblk", y, self.kv)
        scores = torch.einsum("bhik,bjk->bhij", q, turned(k)) / math.sqrt(self.size)
        places = torch.arange(x.shape[1])
        scores = torch.where(places[:, None] >= places, scores, torch.finfo(scores.dtype).min)
        shares = (scores - scores.amax(-1, keepdim=True)).exp()
        shares = shares / shares.sum(-1, keepdim=True)
        x = x + torch.tanh(self.gate) * torch.einsum("bhij,bjk,hkd->bid", shares, v, self.o)
        left, right = self.up(self.norms[1](x)).chunk(2, dim=-1)
        return x + self.down(F.softplus(left) * right)


class OddWords(nn.Module):
    def __init__(self, width=64, heads=4):
        super().__init__()
        self.table, self.norm = nn.Embedding(WORDS, width), LengthNorm(width)
        self.blocks = nn.ModuleList(OddBlock(width, heads) for _ in range(2))
        size = width // heads
        angles = torch.outer(torch.arange(64.0), 10000.0 ** (-torch.arange(0, size, 2) / size))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles), persistent=False)

    def forward(self, input_ids):
        x, turns = self.table(input_ids), self.turns[:input_ids.shape[1]]
        for block in self.blocks:
            x = block(x, turns)
        return self.norm(x) @ self.table.weight.T


@model("odd_transformer")
def _():
    return of_words(OddWords())


class PlainLlamaBlock(nn.Module):
    """Attention as products, with a mask that each block makes anew."""

    def __init__(self, width, heads):
        super().__init__()
        linear = lambda a, b: nn.Linear(a, b, bias=False)
        self.heads = heads
        self.q, self.k, self.v, self.o = (linear(width, width) for _ in range(4))
        self.gate, self.up, self.down = linear(width, 2 * width), linear(width, 2 * width), linear(2 * width, width)
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)

    def forward(self, x, cosine, sine):
        def heads(z):
            return z.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        def turned(z):
            left, right = z.chunk(2, dim=-1)
            return z * cosine + torch.cat([-right, left], -1) * sine

        length, y = x.shape[1], self.first(x)
        q, k, v = turned(heads(self.q(y))), turned(heads(self.k(y))), heads(self.v(y))
        mask = torch.full((length, length), -torch.inf).triu(1)
        shares = F.softmax(q @ k.mT / math.sqrt(q.shape[-1]) + mask, dim=-1)
        x = x + self.o((shares @ v).transpose(1, 2).flatten(2))
        y = self.second(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class PlainLlama(nn.Module):
    def __init__(self, width=64, heads=4):
        super().__init__()
        self.table, self.norm = nn.Embedding(WORDS, width), nn.RMSNorm(width)
        self.layers = nn.ModuleList(PlainLlamaBlock(width, heads) for _ in range(2))
        self.head, self.size = nn.Linear(width, WORDS, bias=False), width // heads

    def forward(self, input_ids):
        rates = 10000.0 ** (-torch.arange(0, self.size, 2) / self.size)
        angles = torch.outer(torch.arange(input_ids.shape[1]), rates).repeat(1, 2)
        x = self.table(input_ids)
        for layer in self.layers:
            x = layer(x, angles.cos(), angles.sin())
        return self.head(self.norm(x))


@model("own_llama")
def _():
    return of_words(PlainLlama())


# --------------------------------------------------------------------------------- ten of other families


class DiffusionBlock(nn.Module):
    """A block of a diffusion transformer: time and class scale, shift and gate it."""

    def __init__(self, width, heads):
        super().__init__()
        self.attend = nn.MultiheadAttention(width, heads, batch_first=True)
        self.first, self.second = (nn.LayerNorm(width, elementwise_affine=False) for _ in range(2))
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))
        self.told = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x, told):
        shift, scale, gate, shift_feed, scale_feed, gate_feed = self.told(told)[:, None].chunk(6, dim=-1)
        y = self.first(x) * (1 + scale) + shift
        x = x + gate * self.attend(y, y, y, need_weights=False)[0]
        return x + gate_feed * self.feed(self.second(x) * (1 + scale_feed) + shift_feed)


class DiffusionTransformer(nn.Module):
    def __init__(self, width=64, patch=4, size=16):
        super().__init__()
        self.width, self.patch, self.side = width, patch, size // patch
        self.enter = nn.Conv2d(3, width, patch, stride=patch)
        self.places = nn.Parameter(0.02 * torch.randn(1, self.side ** 2, width))
        self.clock = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.kinds = nn.Embedding(11, width)
        self.blocks = nn.ModuleList(DiffusionBlock(width, 4) for _ in range(2))
        self.norm, self.leave = nn.LayerNorm(width), nn.Linear(width, 3 * patch * patch)

    def forward(self, noisy, t, kind):
        x = self.enter(noisy).flatten(2).mT + self.places
        told = self.clock(sines(t, self.width)) + self.kinds(kind)
        for block in self.blocks:
            x = block(x, told)
        y = self.leave(self.norm(x)).unflatten(-1, (3, self.patch, self.patch)).unflatten(1, (self.side, self.side))
        return y.permute(0, 3, 1, 4, 2, 5).flatten(2, 3).flatten(3, 4)


@model("diffusion_transformer", first=False)
def _():
    net = DiffusionTransformer()

    def step(clean, noise, t, kind):
        share = torch.cos(t / 1000.0 * math.pi / 2)[:, None, None, None]
        return F.mse_loss(net(share * clean + (1 - share ** 2).sqrt() * noise, t, kind), noise)

    return step, {"clean": pictures(16), "noise": pictures(16), "t": torch.randint(0, 1000, (BATCH,)),
                  "kind": classes()}, None


class ConformerBlock(nn.Module):
    def __init__(self, width=64, heads=4):
        super().__init__()
        feed = lambda: nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.SiLU(), nn.Dropout(0.1),
                                     nn.Linear(2 * width, width))
        self.before, self.after = feed(), feed()
        self.norm, self.attend = nn.LayerNorm(width), SelfAttention(width, heads, 0.0)
        self.mix_norm, self.spread = nn.LayerNorm(width), nn.Conv1d(width, 2 * width, 1)
        self.along, self.batch_norm = nn.Conv1d(width, width, 7, padding=3, groups=width), nn.BatchNorm1d(width)
        self.gather, self.last = nn.Conv1d(width, width, 1), nn.LayerNorm(width)

    def forward(self, x):
        x = x + 0.5 * self.before(x)
        x = x + self.attend(self.norm(x))
        y = F.glu(self.spread(self.mix_norm(x).mT), dim=1)
        x = x + self.gather(F.silu(self.batch_norm(self.along(y)))).mT
        return self.last(x + 0.5 * self.after(x))


class Conformer(nn.Module):
    """Speech to letters, with a loss for each frame."""

    def __init__(self, width=64, letters=30):
        super().__init__()
        self.shrink = nn.Sequential(nn.Conv2d(1, 16, 3, stride=2), nn.ReLU(), nn.Conv2d(16, 16, 3, stride=2), nn.ReLU())
        self.enter = nn.Linear(16 * 9, width)
        self.blocks = nn.ModuleList(ConformerBlock(width) for _ in range(2))
        self.head = nn.Linear(width, letters)

    def forward(self, sound):
        x = self.enter(self.shrink(sound[:, None]).transpose(1, 2).flatten(2))
        for block in self.blocks:
            x = block(x)
        return self.head(x).log_softmax(-1)


@model("conformer", first=False)
def _():
    example = {"sound": torch.randn(BATCH, 100, 40), "letters": torch.randint(0, 30, (BATCH, 24))}
    return Conformer(), example, lambda output, given: F.nll_loss(output.flatten(0, 1), given["letters"].flatten())



class SageLayer(nn.Module):
    """The mean over neighbours, by scatters, beside the node itself."""

    def __init__(self, entering, leaving):
        super().__init__()
        self.own, self.others = nn.Linear(entering, leaving), nn.Linear(entering, leaving, bias=False)

    def forward(self, x, edges):
        start, end = edges
        total = torch.zeros_like(x).scatter_add_(0, end[:, None].expand(-1, x.shape[1]), x[start])
        count = torch.zeros(x.shape[0]).scatter_add_(0, end, torch.ones(end.shape[0]))
        return self.own(x) + self.others(total / count.clamp(min=1)[:, None])


class GraphSAGE(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([SageLayer(16, 32), SageLayer(32, 32), SageLayer(32, 5)])

    def forward(self, x, edges):
        for layer in self.layers[:-1]:
            x = F.dropout(F.relu(layer(x, edges)), 0.2, self.training)
        return self.layers[-1](x, edges)


@model("graph_sage", first=False)
def _():
    return GraphSAGE(), graph(), labelled


class InterestNetwork(nn.Module):
    """A recommender: what a user looked at, weighed by the candidate (DIN), and crossed features (DCN)."""

    def __init__(self, things=200, width=16):
        super().__init__()
        self.things, self.user = nn.Embedding(things, width, padding_idx=0), nn.Embedding(50, width)
        self.weigh = nn.Sequential(nn.Linear(4 * width, 32), nn.PReLU(), nn.Linear(32, 1))
        self.crosses = nn.ModuleList(nn.Linear(3 * width, 3 * width) for _ in range(2))
        self.top = nn.Sequential(nn.Linear(3 * width, 32), nn.BatchNorm1d(32), nn.PReLU(), nn.Linear(32, 1))

    def forward(self, user, seen, candidate):
        past, now = self.things(seen), self.things(candidate)
        beside = now[:, None].expand_as(past)
        weight = self.weigh(torch.cat([past, beside, past - beside, past * beside], -1))
        weight = weight.masked_fill((seen == 0)[..., None], 0.0)
        first = x = torch.cat([self.user(user), (weight * past).sum(1), now], -1)
        for cross in self.crosses:
            x = first * cross(x) + x
        return self.top(x)[:, 0]


@model("interest_network", first=False)
def _():
    example = {"user": torch.randint(0, 50, (8,)), "seen": torch.randint(0, 200, (8, 20)),
               "candidate": torch.randint(1, 200, (8,)), "clicked": torch.rand(8).round()}
    return InterestNetwork(), example, lambda out, given: F.binary_cross_entropy_with_logits(out, given["clicked"])


class FeaturePyramid(nn.Module):
    """A detector without anchors (FCOS) on a pyramid of features."""

    def __init__(self, width=32, kinds=5):
        super().__init__()
        stage = lambda a, b: nn.Sequential(nn.Conv2d(a, b, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(b),
                                           nn.ReLU(inplace=True), nn.Conv2d(b, b, 3, padding=1), nn.ReLU(inplace=True))
        self.stages = nn.ModuleList([stage(3, 16), stage(16, 32), stage(32, 64), stage(64, 128)])
        self.sideways = nn.ModuleList(nn.Conv2d(c, width, 1) for c in (32, 64, 128))
        self.smooth = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(3))
        self.head = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(4, width), nn.ReLU())
        self.kinds, self.boxes = nn.Conv2d(width, kinds, 3, padding=1), nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, picture, kinds, boxes):
        levels = []
        for stage in self.stages:
            picture = stage(picture)
            levels.append(picture)
        merged = [side(level) for side, level in zip(self.sideways, levels[1:])]
        for place in (1, 0):
            merged[place] = merged[place] + F.interpolate(merged[place + 1], size=merged[place].shape[-2:])
        heads = [self.head(smooth(level)) for smooth, level in zip(self.smooth, merged)]
        scores = torch.cat([self.kinds(each).flatten(2) for each in heads], 2)
        found = torch.cat([self.boxes(each).flatten(2) for each in heads], 2).exp()
        share = torch.sigmoid(scores)
        focal = F.binary_cross_entropy_with_logits(scores, kinds, reduction="none") * (share - kinds).abs() ** 2
        inside = kinds.amax(1, keepdim=True)
        overlap = torch.minimum(found, boxes).prod(1) / torch.maximum(found, boxes).prod(1)
        return {"loss": focal.sum() / inside.sum().clamp(min=1) + ((1 - overlap) * inside[:, 0]).mean()}


@model("feature_pyramid", first=False)
def _():
    places = 16 ** 2 + 8 ** 2 + 4 ** 2
    example = (pictures(64), (torch.rand(BATCH, 5, places) > 0.9).float(), 1 + torch.rand(BATCH, 4, places))
    return FeaturePyramid(), example, None


class TimeMix(nn.Module):
    """A linear recurrence over time with decays that the input chooses, step by step, as in RWKV."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.r, self.k, self.v, self.w, self.o = (nn.Linear(width, width, bias=False) for _ in range(5))
        self.mix = nn.Parameter(torch.rand(4, width))
        self.norm = nn.GroupNorm(heads, width)

    def forward(self, x):
        before = F.pad(x, (0, 0, 1, -1))
        mixed = [torch.lerp(x, before, share) for share in self.mix]
        r, k, v, w = (layer(each).unflatten(-1, (self.heads, -1)).unbind(1)
                      for layer, each in zip((self.r, self.k, self.v, self.w), mixed))
        state = x.new_zeros(x.shape[0], self.heads, x.shape[2] // self.heads, x.shape[2] // self.heads)
        outs = []
        for place in range(x.shape[1]):
            state = state * torch.exp(-torch.exp(w[place]))[..., None] + k[place][..., None] * v[place][..., None, :]
            outs.append((r[place][..., None, :] @ state).flatten(1))
        y = torch.stack(outs, 1)
        return self.o(self.norm(y.flatten(0, 1)).view_as(x))


@model("rwkv_like", first=False)
def _():
    feed = lambda: nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
    blocks = [Block(TimeMix(64, 4), feed(), 64) for _ in range(2)]
    net, example, loss = of_words(Words(blocks))
    return net, {name: each[:, :12].contiguous() for name, each in example.items()}, loss


class DoubleConvolution(nn.Sequential):
    def __init__(self, entering, leaving):
        super().__init__(nn.Conv2d(entering, leaving, 3, padding=1), nn.BatchNorm2d(leaving), nn.ReLU(inplace=True),
                         nn.Conv2d(leaving, leaving, 3, padding=1), nn.BatchNorm2d(leaving), nn.ReLU(inplace=True))


class SegmentationUNet(nn.Module):
    """The encoder and decoder of medical pictures, with transposed convolutions and a Dice loss."""

    def __init__(self, widths=(16, 32, 64), kinds=4):
        super().__init__()
        pairs = list(zip((3,) + widths[:-1], widths))
        self.down = nn.ModuleList(DoubleConvolution(a, b) for a, b in pairs)
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in reversed(pairs[1:]))
        self.join = nn.ModuleList(DoubleConvolution(2 * a, a) for a, _ in reversed(pairs[1:]))
        self.head = nn.Conv2d(widths[0], kinds, 1)

    def forward(self, x):
        kept = []
        for layer in self.down[:-1]:
            x = layer(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.down[-1](x)
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([kept.pop(), up(x)], 1))
        return self.head(x)


@model("segmentation_unet", first=False)
def _():
    def loss(output, example):
        shares = output.softmax(1)
        truth = F.one_hot(example["mask"], output.shape[1]).permute(0, 3, 1, 2).to(shares.dtype)
        dice = 2 * (shares * truth).sum((2, 3)) / (shares + truth).sum((2, 3)).clamp(min=1e-6)
        return F.cross_entropy(output, example["mask"]) + 1 - dice.mean()

    return SegmentationUNet(), {"x": pictures(32), "mask": torch.randint(0, 4, (BATCH, 32, 32))}, loss


class TwoTowers(nn.Module):
    """Pictures and words in one space, by the contrastive loss with a sigmoid (SigLIP)."""

    def __init__(self, width=64):
        super().__init__()
        layer = lambda: nn.TransformerEncoderLayer(width, 4, 128, dropout=0.0, batch_first=True, norm_first=True)
        self.patches, self.table = nn.Conv2d(3, width, 8, stride=8), nn.Embedding(WORDS, width)
        self.places = nn.Parameter(0.02 * torch.randn(16, width))
        self.see, self.read = (nn.TransformerEncoder(layer(), 2, enable_nested_tensor=False) for _ in range(2))
        self.warmth, self.bias = nn.Parameter(torch.tensor(2.3)), nn.Parameter(torch.tensor(-10.0))

    def forward(self, picture, text):
        seen = self.see(self.patches(picture).flatten(2).mT + self.places).mean(1)
        read = self.read(self.table(text)).mean(1)
        scores = F.normalize(seen, dim=-1) @ F.normalize(read, dim=-1).T * self.warmth.exp() + self.bias
        signs = 2 * torch.eye(scores.shape[0], device=scores.device) - 1
        return -F.logsigmoid(signs * scores).sum(1).mean(), scores


@model("two_towers", first=False)
def _():
    return TwoTowers(), {"picture": pictures(32), "text": words()}, None


class TabularTransformer(nn.Module):
    """Rows of a table: each column is a token, numbers by an own line, kinds by tables (FT-Transformer)."""

    def __init__(self, numbers=6, kinds=(5, 9, 3), width=32):
        super().__init__()
        self.slopes, self.offsets = nn.Parameter(torch.randn(numbers, width)), nn.Parameter(torch.randn(numbers, width))
        self.tables = nn.ModuleList(nn.Embedding(count, width) for count in kinds)
        self.answer = nn.Parameter(torch.randn(1, 1, width))
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, 4, 64, dropout=0.1, activation="gelu",
                                                               batch_first=True) for _ in range(2))
        self.head = nn.Linear(width, 1)

    def forward(self, numbers, kinds):
        columns = numbers[..., None] * self.slopes + self.offsets
        tables = torch.stack([table(kinds[:, place]) for place, table in enumerate(self.tables)], 1)
        x = torch.cat([self.answer.expand(numbers.shape[0], -1, -1), columns, tables], 1)
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, 0])[:, 0]


@model("tabular_transformer", first=False)
def _():
    kinds = torch.stack([torch.randint(0, count, (8,)) for count in (5, 9, 3)], 1)
    example = {"numbers": torch.randn(8, 6), "kinds": kinds, "y": torch.randn(8)}
    return TabularTransformer(), example, lambda output, given: F.smooth_l1_loss(output, given["y"])


class VariationalAutoencoder(nn.Module):
    """Convolutions down to a distribution, a sample of it, and up again."""

    def __init__(self, width=16, inner=8):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, width, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(width, 2 * width, 4, 2, 1),
                                  nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(2 * width * 64, 2 * inner))
        self.up = nn.Sequential(nn.Linear(inner, 2 * width * 64), nn.Unflatten(1, (2 * width, 8, 8)),
                                nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.ReLU(),
                                nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Sigmoid())

    def forward(self, x):
        mean, spread = self.down(x).chunk(2, dim=1)
        sample = mean + torch.randn_like(mean) * (0.5 * spread).exp()
        far = -0.5 * (1 + spread - mean ** 2 - spread.exp()).sum(1).mean()
        return F.binary_cross_entropy(self.up(sample), x.sigmoid(), reduction="sum") / x.shape[0] + far


@model("vae", first=False)
def _():
    return VariationalAutoencoder(), (pictures(32),), None
