"""Networks over sequences, tables and graphs: encoders, decoders with caches, recurrent ones, state spaces, recommenders."""
import math

import numpy as np
import torch
import torch.nn.functional as F
from spec import export
from torch import nn

N = [1, 2, 3, 5, 8]
S = [6, 7, 4, 11, 16]
P = [3, 5, 8, 12, 9]


class Attention(nn.Module):
    def __init__(self, c, heads):
        super().__init__()
        self.heads, self.q, self.k, self.v, self.o = heads, *(nn.Linear(c, c) for _ in range(4))

    def forward(self, x, memory, mask=None):
        split = lambda y: y.view(y.size(0), y.size(1), self.heads, -1).transpose(1, 2)
        q, k, v = split(self.q(x)), split(self.k(memory)), split(self.v(memory))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores + mask
        y = scores.softmax(-1) @ v
        return self.o(y.transpose(1, 2).reshape(x.size(0), x.size(1), -1))


class Layer(nn.Module):
    def __init__(self, c, heads):
        super().__init__()
        self.attention, self.up, self.down = Attention(c, heads), nn.Linear(c, 2 * c), nn.Linear(2 * c, c)
        self.norm1, self.norm2 = nn.LayerNorm(c), nn.LayerNorm(c)

    def forward(self, x, mask=None):
        x = self.norm1(x + self.attention(x, x, mask))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


@export("bert", "input_ids:i64[N,S]<60 attention_mask:i64[N,S]<2", {"N": N, "S": S}, "legacy-11 legacy-14 dynamo-18", outputs=("hidden", "pooled"),
        prepare=lambda v: {**v, "attention_mask": np.maximum(v["attention_mask"], np.arange(v["attention_mask"].shape[1]) == 0).astype(np.int64)})
class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places, self.kinds = nn.Embedding(60, 24), nn.Embedding(32, 24), nn.Embedding(2, 24)
        self.norm, self.layers, self.pool = nn.LayerNorm(24), nn.ModuleList([Layer(24, 2), Layer(24, 2)]), nn.Linear(24, 24)
        self.register_buffer("position_ids", torch.arange(32).unsqueeze(0))

    def forward(self, ids, mask):
        places = self.position_ids[:, : ids.size(1)]
        x = self.norm(self.words(ids) + self.places(places) + self.kinds(torch.zeros_like(ids)))
        bias = (1.0 - mask[:, None, None, :].float()) * -10000.0
        for layer in self.layers:
            x = layer(x, bias)
        return x, torch.tanh(self.pool(x[:, 0]))


@export("transformer_encoder", "x:f32[N,S,24] padding:bool[N,S]", {"N": N, "S": S}, "dynamo-20",
        prepare=lambda v: {**v, "padding": np.logical_and(~v["padding"], np.arange(v["padding"].shape[1]) > 0)})
class TransformerEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(24, 2, 48, batch_first=True) for _ in range(2))

    def forward(self, x, padding):
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=padding)
        return x


@export("gpt_cache", "ids:i64[B,S]<60 past_k:f32[B,2,P,8] past_v:f32[B,2,P,8]", {"B": N, "S": S, "P": P}, "legacy-17 dynamo-20",
        outputs=("logits", "present_k", "present_v"))
class GptCache(nn.Module):
    """One layer that reads and lengthens its cache of keys and values, causal by the places of both."""

    def __init__(self):
        super().__init__()
        self.words, self.places, self.norm = nn.Embedding(60, 16), nn.Embedding(64, 16), nn.LayerNorm(16)
        self.qkv, self.out, self.up, self.down, self.last = nn.Linear(16, 48), nn.Linear(16, 16), nn.Linear(16, 32), nn.Linear(32, 16), nn.LayerNorm(16)

    def forward(self, ids, past_k, past_v):
        b, s = ids.shape
        p = past_k.size(2)
        x = self.words(ids) + self.places(torch.arange(p, p + s))
        q, k, v = self.qkv(self.norm(x)).split(16, -1)
        split = lambda y: y.view(b, s, 2, 8).transpose(1, 2)
        k, v = torch.cat([past_k, split(k)], 2), torch.cat([past_v, split(v)], 2)
        causal = torch.arange(p + s)[None, :] <= torch.arange(p, p + s)[:, None]
        scores = (split(q) @ k.transpose(-1, -2) / math.sqrt(8)).masked_fill(~causal, float("-inf"))
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, s, 16))
        x = x + self.down(F.gelu(self.up(self.last(x)), approximate="tanh"))
        return x @ self.words.weight.t(), k, v


@export("decoder_step", "x:f32[B,1,16] past_k:f32[B,2,P,8] past_v:f32[B,2,P,8]", {"B": N, "P": P}, "legacy-14 dynamo-18", outputs=("y", "present_k", "present_v"))
class DecoderStep(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x, past_k, past_v):
        q, k, v = (y.view(x.size(0), 1, 2, 8).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        k, v = torch.cat([past_k, k], -2), torch.cat([past_v, v], -2)
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(1, 2).flatten(2)), k, v


class RmsNorm(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(c) + 0.5)

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


@export("rope_gqa", "hidden:f32[B,S,32]", {"B": N, "S": S}, "legacy-16 dynamo-21")
class RopeGqa(nn.Module):
    """Four heads of queries, two of keys; rotations computed from the length; a gated MLP."""

    def __init__(self):
        super().__init__()
        self.norm, self.last = RmsNorm(32), RmsNorm(32)
        self.q, self.k, self.v, self.o = (nn.Linear(32, c, bias=False) for c in (32, 16, 16, 32))
        self.gate, self.up, self.down = nn.Linear(32, 48, bias=False), nn.Linear(32, 48, bias=False), nn.Linear(48, 32, bias=False)
        self.register_buffer("frequencies", 1.0 / 10000 ** (torch.arange(0, 8, 2).float() / 8))

    def forward(self, x):
        b, s, _ = x.shape
        angles = torch.outer(torch.arange(s).float(), self.frequencies)
        angles = torch.cat((angles, angles), -1)
        cos, sin, y = angles.cos(), angles.sin(), self.norm(x)
        q = rotate(self.q(y).view(b, s, 4, 8).transpose(1, 2), cos, sin)
        k = rotate(self.k(y).view(b, s, 2, 8).transpose(1, 2), cos, sin)
        v = self.v(y).view(b, s, 2, 8).transpose(1, 2)
        wide = lambda z: z[:, :, None].expand(b, 2, 2, s, 8).reshape(b, 4, s, 8)
        mask = torch.full((s, s), float("-inf")).triu(1)
        y = (q @ wide(k).transpose(-1, -2) / math.sqrt(8) + mask).softmax(-1) @ wide(v)
        x = x + self.o(y.transpose(1, 2).reshape(b, s, 32))
        y = self.last(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


@export("llama_cache", "hidden:f32[B,S,32] past_k:f32[B,2,P,8] past_v:f32[B,2,P,8] mask:f32[B,1,S,P+S]", {"B": N, "S": S, "P": P}, "legacy-17 dynamo-20",
        outputs=("y", "present_k", "present_v"))
class LlamaCache(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = RmsNorm(32)
        self.q, self.k, self.v, self.o = (nn.Linear(32, c, bias=False) for c in (32, 16, 16, 32))
        angles = torch.outer(torch.arange(64).float(), 1.0 / 10000 ** (torch.arange(0, 8, 2).float() / 8))
        self.register_buffer("cos", torch.cat((angles, angles), -1).cos())
        self.register_buffer("sin", torch.cat((angles, angles), -1).sin())

    def forward(self, x, past_k, past_v, mask):
        b, s, _ = x.shape
        p = past_k.shape[2]
        cos, sin, y = self.cos[p : p + s], self.sin[p : p + s], self.norm(x)
        q = rotate(self.q(y).view(b, s, 4, 8).transpose(1, 2), cos, sin)
        k = torch.cat([past_k, rotate(self.k(y).view(b, s, 2, 8).transpose(1, 2), cos, sin)], 2)
        v = torch.cat([past_v, self.v(y).view(b, s, 2, 8).transpose(1, 2)], 2)
        y = (q @ k.repeat_interleave(2, 1).transpose(2, 3) / math.sqrt(8) + mask).softmax(-1) @ v.repeat_interleave(2, 1)
        return x + self.o(y.transpose(1, 2).reshape(b, s, -1)), k, v


@export("t5", "ids:i64[N,S]<60", {"N": N, "S": S}, "legacy-17 dynamo-20")
class T5(nn.Module):
    """Attention with a bias by the bucket of the distance."""

    def __init__(self):
        super().__init__()
        self.words, self.bias, self.layer = nn.Embedding(60, 24), nn.Embedding(16, 2), Layer(24, 2)

    def forward(self, ids):
        s = ids.shape[1]
        distance = torch.arange(s)[None, :] - torch.arange(s)[:, None]
        buckets = (distance > 0).long() * 8 + distance.abs().clamp(max=7)
        return self.layer(self.words(ids), self.bias(buckets).permute(2, 0, 1).unsqueeze(0))


@export("translator", "source:i64[N,S]<60 target:i64[N,T]<60", {"N": N, "S": S, "T": [5, 2, 9, 3, 12]}, "legacy-17 dynamo-20")
class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.encoder, self.own, self.cross = nn.Embedding(60, 24), Layer(24, 2), Attention(24, 2), Attention(24, 2)
        self.norm1, self.norm2, self.out = nn.LayerNorm(24), nn.LayerNorm(24), nn.Linear(24, 60)

    def forward(self, source, target):
        memory, y = self.encoder(self.words(source)), self.words(target)
        t = target.size(1)
        mask = torch.triu(torch.full((t, t), -1e4), diagonal=1)
        y = self.norm1(y + self.own(y, y, mask))
        return self.out(self.norm2(y + self.cross(y, memory)))


@export("whisper", "mel:f32[N,20,T]", {"N": N, "T": [24, 31, 40, 16, 50]}, "legacy-17 dynamo-18")
class Whisper(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv1d(20, 24, 3, padding=1), nn.Conv1d(24, 24, 3, 2, 1)
        self.places, self.layer, self.norm = nn.Parameter(torch.randn(32, 24) * 0.1), Layer(24, 2), nn.LayerNorm(24)

    def forward(self, mel):
        x = F.gelu(self.two(F.gelu(self.one(mel)))).permute(0, 2, 1)
        return self.norm(self.layer(x + self.places[: x.shape[1]]))


@export("wavenet", "x:f32[N,2,T]", {"N": N, "T": [30, 41, 64, 17, 100]}, "legacy-11 dynamo-18")
class WaveNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Conv1d(2, 12, 1)
        self.dilated = nn.ModuleList(nn.Conv1d(12, 24, 2, dilation=2**i) for i in range(3))
        self.mix, self.out = nn.ModuleList(nn.Conv1d(12, 12, 1) for _ in range(3)), nn.Conv1d(12, 4, 1)

    def forward(self, x):
        x, total = self.inner(x), 0
        for i, (conv, mix) in enumerate(zip(self.dilated, self.mix)):
            a, b = conv(F.pad(x, (2**i, 0))).chunk(2, 1)
            y = mix(torch.tanh(a) * torch.sigmoid(b))
            x, total = x + y, total + y
        return self.out(F.relu(total))


@export("lstm", "x:f32[N,T,12]", {"N": N, "T": S}, "legacy-14 dynamo-20")
class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(12, 16, num_layers=2, batch_first=True), nn.Linear(16, 4)

    def forward(self, x):
        y, _ = self.lstm(x)
        return self.fc(y[:, -1])


@export("gru_bidirectional", "x:f32[T,N,10]", {"T": S, "N": N}, "legacy-12")
class GruBidirectional(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.fc = nn.GRU(10, 12, bidirectional=True), nn.Linear(24, 5)

    def forward(self, x):
        return self.fc(self.gru(x)[0]).log_softmax(-1)


@export("lstm_state", "x:f32[N,T,10] h:f32[1,N,12] c:f32[1,N,12]", {"N": N, "T": S}, "legacy-16", outputs=("y", "h_last", "c_last"))
class LstmState(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(10, 12, batch_first=True)

    def forward(self, x, h, c):
        y, (h, c) = self.lstm(x, (h, c))
        return y, h, c


@export("mamba", "x:f32[N,L,12]", {"N": N, "L": S}, "legacy-17 dynamo-20")
class Mamba(nn.Module):
    """A selective state space of which the recurrence is written as a cumulative sum."""

    def __init__(self):
        super().__init__()
        self.inner, self.conv, self.out = nn.Linear(12, 32), nn.Conv1d(16, 16, 3, padding=2, groups=16), nn.Linear(16, 12)
        self.delta, self.b, self.c, self.a = nn.Linear(16, 16), nn.Linear(16, 4), nn.Linear(16, 4), nn.Parameter(torch.rand(16, 4) * 0.3)

    def forward(self, x):
        u, z = self.inner(x).chunk(2, -1)
        u = F.silu(self.conv(u.transpose(1, 2))[:, :, : x.shape[1]].transpose(1, 2))
        step = F.softplus(self.delta(u))
        decay = torch.cumsum(step[..., None] * -self.a, 1)
        state = torch.cumsum(step[..., None] * u[..., None] * self.b(u)[:, :, None] * torch.exp(-decay), 1) * torch.exp(decay)
        return self.out((state * self.c(u)[:, :, None]).sum(-1) * F.silu(z))


@export("mamba_unrolled", "x:f32[N,6,8]", {"N": N}, "legacy-15")
class MambaUnrolled(nn.Module):
    def __init__(self):
        super().__init__()
        self.delta, self.b, self.c, self.a = nn.Linear(8, 8), nn.Linear(8, 4), nn.Linear(8, 4), nn.Parameter(torch.rand(8, 4))

    def forward(self, x):
        step, b, c = F.softplus(self.delta(x)), self.b(x), self.c(x)
        state, ys = torch.zeros(x.size(0), 8, 4), []
        for t in range(6):
            state = state * torch.exp(step[:, t, :, None] * -self.a) + step[:, t, :, None] * b[:, t, None] * x[:, t, :, None]
            ys.append((state * c[:, t, None]).sum(-1))
        return torch.stack(ys, 1)


@export("linear_attention", "x:f32[N,L,16]", {"N": N, "L": S}, "legacy-13 dynamo-21")
class LinearAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))

    def forward(self, x):
        q, k = F.elu(self.q(x)) + 1, F.elu(self.k(x)) + 1
        return (q @ (k.transpose(1, 2) @ self.v(x))) / (q @ k.sum(1, keepdim=True).transpose(1, 2))


@export("patch_tst", "x:f32[N,32,V]", {"N": N, "V": [3, 1, 4, 7, 2]}, "legacy-14 dynamo-20")
class PatchTst(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch, self.layer, self.head = nn.Linear(8, 16), Layer(16, 2), nn.Linear(7 * 16, 6)

    def forward(self, x):
        mean = x.mean(1, keepdim=True).detach()
        deviation = torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5)
        y = ((x - mean) / deviation).permute(0, 2, 1)
        y = torch.stack([y[..., i : i + 8] for i in range(0, 25, 4)], 2)
        n, v = y.shape[0], y.shape[1]
        y = self.layer(self.patch(y).reshape(n * v, -1, 16))
        return self.head(y.reshape(n, v, -1)).permute(0, 2, 1) * deviation + mean


def rising(values):
    """Bags begin at the first index, and none begins before the one that precedes it."""
    offsets = np.sort(values["offsets"] % len(values["indices"]))
    offsets[0] = 0
    return {**values, "offsets": offsets}


@export("dlrm", "dense:f32[N,4] indices:i64[E]<40 offsets:i64[N]<40", {"N": N, "E": [12, 9, 20, 15, 30]}, "legacy-14 dynamo-20", prepare=rising)
class Dlrm(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag, self.bottom = nn.EmbeddingBag(40, 8, mode="sum"), nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(9, 12), nn.ReLU(), nn.Linear(12, 1))

    def forward(self, dense, indices, offsets):
        x, y = self.bottom(dense), self.bag(indices, offsets)
        crossed = torch.bmm(torch.stack([x, y], 1), torch.stack([x, y], 2))[:, 0, 1:]
        return torch.sigmoid(self.top(torch.cat([x, crossed], 1)))


@export("dlrm_mean", "dense:f32[N,4] indices:i64[N,K]<40 used:i64[N,K]<2", {"N": N, "K": [4, 2, 7, 3, 9]}, "legacy-13 dynamo-20")
class DlrmMean(nn.Module):
    """Bags as a padded table and a mask."""

    def __init__(self):
        super().__init__()
        self.table, self.bottom, self.top = nn.Embedding(40, 8), nn.Linear(4, 8), nn.Linear(17, 1)

    def forward(self, dense, indices, used):
        weight = used.unsqueeze(-1).float()
        bag = (self.table(indices) * weight).sum(1) / weight.sum(1).clamp(min=1.0)
        x = F.relu(self.bottom(dense))
        return self.top(torch.cat([x, bag, (x * bag).sum(-1, keepdim=True)], 1)).squeeze(-1)


@export("wide_deep", "fields:i64[N,5]<20 numbers:f32[N,3]", {"N": N}, "legacy-11 dynamo-21")
class WideDeep(nn.Module):
    """Linear part, factorization machine and deep part over the same fields."""

    def __init__(self):
        super().__init__()
        self.wide, self.table = nn.Embedding(100, 1), nn.Embedding(100, 6)
        self.deep = nn.Sequential(nn.Linear(33, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
        self.register_buffer("offsets", torch.arange(5) * 20)

    def forward(self, fields, numbers):
        places = fields + self.offsets
        rows = self.table(places)
        crossed = 0.5 * (rows.sum(1).pow(2) - rows.pow(2).sum(1)).sum(1)
        deep = self.deep(torch.cat([rows.flatten(1), numbers], 1)).squeeze(1)
        return torch.sigmoid(self.wide(places).sum((1, 2)) + crossed + deep)


@export("two_towers", "users:f32[N,12] items:f32[M,20]", {"N": N, "M": [4, 7, 2, 9, 6]}, "legacy-15 dynamo-18", outputs=("scores", "best"))
class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.user, self.item = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 8)), nn.Linear(20, 8)

    def forward(self, users, items):
        scores = F.normalize(self.user(users), dim=-1) @ F.normalize(self.item(items), dim=-1).t() / 0.07
        return scores, scores.softmax(-1).max(-1).values


@export("clip", "images:f32[I,3,16,16] ids:i64[T,9]<60", {"I": N, "T": [4, 7, 2, 9, 6]}, "legacy-14 dynamo-20", outputs=("per_image", "per_text"))
class Clip(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches, self.words, self.places = nn.Conv2d(3, 24, 4, 4), nn.Embedding(60, 24), nn.Parameter(torch.randn(9, 24) * 0.1)
        self.visual, self.text, self.image_out, self.text_out = Layer(24, 2), Layer(24, 2), nn.Linear(24, 12), nn.Linear(24, 12)
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, images, ids):
        a = self.image_out(self.visual(self.patches(images).flatten(2).transpose(1, 2)).mean(1))
        x = self.text(self.words(ids) + self.places)
        b = self.text_out(x[torch.arange(x.shape[0]), ids.argmax(-1)])
        a, b = a / a.norm(dim=-1, keepdim=True), b / b.norm(dim=-1, keepdim=True)
        scores = self.scale.exp() * a @ b.t()
        return scores, scores.t()


@export("detr", "images:f32[N,3,H,W]", {"N": N, "H": [16, 24, 32, 40, 20], "W": [24, 16, 40, 32, 28]}, "legacy-17 dynamo-20", outputs=("logits", "boxes"))
class Detr(nn.Module):
    """Queries that read an image of any size."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 12, 3, 2, 1), nn.ReLU(), nn.Conv2d(12, 24, 3, 2, 1))
        self.encoder, self.queries, self.cross, self.norm = Layer(24, 2), nn.Embedding(6, 24), Attention(24, 2), nn.LayerNorm(24)
        self.kinds, self.boxes = nn.Linear(24, 5), nn.Linear(24, 4)

    def forward(self, images):
        memory = self.encoder(self.body(images).flatten(2).permute(0, 2, 1))
        queries = self.queries.weight.unsqueeze(0).repeat(images.shape[0], 1, 1)
        y = self.norm(queries + self.cross(queries, memory))
        return self.kinds(y), self.boxes(y).sigmoid()


@export("graph_network", "nodes:f32[V,10] source:i64[E]<4 target:i64[E]<4", {"V": [4, 6, 9, 5, 12], "E": [8, 12, 5, 20, 3]}, "legacy-16 dynamo-20")
class GraphNetwork(nn.Module):
    """Messages along edges, added up where they arrive."""

    def __init__(self):
        super().__init__()
        self.message, self.update = nn.Linear(20, 12), nn.Linear(22, 10)

    def forward(self, nodes, source, target):
        messages = F.relu(self.message(torch.cat([nodes[source], nodes[target]], 1)))
        index = target.unsqueeze(1).expand(-1, 12)
        arrived = torch.zeros(nodes.shape[0], 12).scatter_add(0, index, messages)
        return nodes + self.update(torch.cat([nodes, arrived], 1))


@export("pointnet", "points:f32[N,P,3]", {"N": N, "P": [16, 10, 25, 40, 7]}, "legacy-13 dynamo-18")
class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU()), nn.Conv1d(16, 24, 1)
        self.local, self.fc = nn.Conv1d(40, 12, 1), nn.Linear(24, 5)

    def forward(self, points):
        a = self.one(points.transpose(1, 2))
        whole = self.two(a).max(-1, keepdim=True).values
        local = self.local(torch.cat([a, whole.expand(-1, -1, a.shape[2])], 1))
        return self.fc(whole.squeeze(-1)), local.transpose(1, 2)


@export("experts", "x:f32[N,S,16]", {"N": N, "S": S}, "legacy-17 dynamo-20")
class Experts(nn.Module):
    """Every expert computes; those that are not among the best two weigh nothing."""

    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(16, 4), nn.Parameter(torch.randn(4, 16, 24) * 0.2), nn.Parameter(torch.randn(4, 24, 16) * 0.2)

    def forward(self, x):
        n, s, c = x.shape
        flat = x.reshape(-1, c)
        scores, chosen = self.gate(flat).softmax(-1).topk(2, -1)
        weights = torch.zeros(flat.size(0), 4).scatter(1, chosen, scores / scores.sum(-1, keepdim=True))
        y = F.silu(torch.einsum("tc,ech->eth", flat, self.up)) @ self.down
        return torch.einsum("etc,te->tc", y, weights).view(n, s, c)


@export("autoencoder", "x:f32[N,20]", {"N": N}, "legacy-11 dynamo-21")
class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(20, 16), nn.LeakyReLU(0.1), nn.Linear(16, 6))
        self.decode = nn.Sequential(nn.Linear(3, 16), nn.ELU(), nn.Linear(16, 20))

    def forward(self, x):
        mean, spread = self.encode(x).chunk(2, -1)
        return self.decode(mean * torch.exp(0.5 * spread))
