"""The zoo in PyTorch: recurrent networks and transformers."""
import math

import torch
import torch.nn.functional as F
from torch import nn
from zoo_torch_parts import seq, weights


# --- recurrent ---


class NasRnn(nn.Module):
    def __init__(self, steps=5, hidden=512):
        super().__init__()
        self.state = weights(1, hidden)
        matrices = lambda: nn.ParameterList(weights(hidden, hidden) for _ in range(8))
        self.step = nn.ModuleList(nn.ModuleDict({"w": matrices(), "v": matrices()}) for _ in range(steps))

    def forward(self, *xs):
        h = self.state
        for x, cell in zip(xs, self.step):
            t = [x @ w + h @ v for w, v in zip(cell["w"], cell["v"])]
            sigmoid, tanh = torch.sigmoid, torch.tanh
            a, b = F.relu(t[0]) + sigmoid(t[3]), sigmoid(t[1]) + tanh(t[2])
            c, d = sigmoid(t[4]) * tanh(t[5]), sigmoid(t[6]) * F.relu(t[7])
            h = tanh(tanh(sigmoid(b) + tanh(c)) * tanh(tanh(a) * tanh(d)))
        return h


# --- transformers ---


class BertAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.add_module("self", seq(**{n: nn.Linear(width, width) for n in ("query", "key", "value")}))
        self.output = seq(dense=nn.Linear(width, width), LayerNorm=nn.LayerNorm(width, eps=1e-12))

    def forward(self, x, mask):
        parts = getattr(self, "self")
        q, k, v = (f(x).unflatten(2, (self.heads, -1)).transpose(1, 2) for f in (parts.query, parts.key, parts.value))
        scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1]) + mask
        y = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        return self.output.LayerNorm(self.output.dense(y) + x)


class BertLayer(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.attention = BertAttention(width, heads)
        self.intermediate = seq(dense=nn.Linear(width, inner))
        self.output = seq(dense=nn.Linear(inner, width), LayerNorm=nn.LayerNorm(width, eps=1e-12))

    def forward(self, x, mask):
        x = self.attention(x, mask)
        return self.output.LayerNorm(self.output.dense(F.gelu(self.intermediate.dense(x))) + x)


class Bert(nn.Module):
    def __init__(self, width, heads, inner, layers):
        super().__init__()
        tables = dict(word_embeddings=nn.Embedding(30522, width), position_embeddings=nn.Embedding(512, width))
        tables |= dict(token_type_embeddings=nn.Embedding(2, width), LayerNorm=nn.LayerNorm(width, eps=1e-12))
        self.embeddings = seq(**tables)
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(BertLayer(width, heads, inner) for _ in range(layers))})
        self.pooler = seq(dense=nn.Linear(width, width))

    def forward(self, ids, mask, kinds):
        e = self.embeddings
        x = e.word_embeddings(ids) + e.token_type_embeddings(kinds) + e.position_embeddings(torch.arange(ids.shape[1]))
        x = e.LayerNorm(x)
        mask = (1.0 - mask[:, None, None, :].float()) * torch.finfo(torch.float32).min
        for layer in self.encoder["layer"]:
            x = layer(x, mask)
        return x, torch.tanh(self.pooler.dense(x[:, 0]))


class Matrix(nn.Module):
    """A weight multiplied as it is."""

    def __init__(self, width):
        super().__init__()
        self.weight = weights(width, width)

    def forward(self, x):
        return x @ self.weight


class BertTensat(nn.Module):
    def __init__(self, layers=8):
        super().__init__()
        names = ("query", "key", "value", "linear")
        self.layer = nn.ModuleList(nn.ModuleDict({n: Matrix(1024) for n in names}) for _ in range(layers))

    def forward(self, x):
        x, outputs = F.relu(x), []
        for layer in self.layer:
            q, k, v = (layer[n](x).reshape(64, 16, 64).transpose(0, 1) for n in ("query", "key", "value"))
            outputs.append((q @ k @ v).transpose(0, 1).reshape(64, 1024))
            x = layer["linear"](x)
        return (*outputs, x)


class BertPet(nn.Module):
    def __init__(self, layers=12):
        super().__init__()
        linear = lambda bias: nn.Linear(768, 768, bias)
        make = lambda: seq(q=linear(False), k=linear(False), v=linear(False), ff1=linear(True), ff2=linear(True))
        self.layers = nn.Sequential(*(make() for _ in range(layers)))

    def forward(self, x):
        for layer in self.layers:
            q, k, v = (f(x).unflatten(2, (12, 64)).transpose(1, 2) for f in (layer.q, layer.k, layer.v))
            y = ((q @ k.transpose(2, 3)).softmax(3) @ v).transpose(1, 2).flatten(2)
            x = x + F.relu(layer.ff2(F.relu(layer.ff1(y))))
        return x


class VitLayer(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.self_attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Identity(), nn.Linear(inner, width))

    def forward(self, x):
        y = self.ln_1(x)
        x = x + self.self_attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class VitB16(nn.Module):
    def __init__(self, size=224, layers=12):
        super().__init__()
        width = 768
        self.class_token = weights(1, 1, width)
        self.conv_proj = nn.Conv2d(3, width, 16, 16)
        self.encoder = nn.Module()
        self.encoder.pos_embedding = weights(1, (size // 16) ** 2 + 1, width)
        self.encoder.layers = seq(**{f"encoder_layer_{i}": VitLayer(width, 12, 3072) for i in range(layers)})
        self.encoder.ln = nn.LayerNorm(width, eps=1e-6)
        self.heads = seq(head=nn.Linear(width, 1000))

    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(x.shape[0], -1, -1), x], 1) + self.encoder.pos_embedding
        return self.heads(self.encoder.ln(self.encoder.layers(x))[:, 0])


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = weights(width)

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class LlamaBlock(nn.Module):
    def __init__(self, width=2048, heads=32, key_heads=8, inner=8192):
        super().__init__()
        self.heads, self.key_heads, self.each = heads, key_heads, width // heads
        linear = lambda a, b: nn.Linear(a, b, bias=False)
        self.input_layernorm, self.post_attention_layernorm = RmsNorm(width), RmsNorm(width)
        keys = key_heads * self.each
        self.self_attn = seq(q_proj=linear(width, width), k_proj=linear(width, keys), v_proj=linear(width, keys), o_proj=linear(width, width))
        self.mlp = seq(gate_proj=linear(width, inner), up_proj=linear(width, inner), down_proj=linear(inner, width))

    def rotated(self, x):
        half = self.each // 2
        angle = torch.arange(x.shape[2], dtype=torch.float64)[:, None] * 500000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
        cos, sin = angle.cos().float(), angle.sin().float()
        low, high = x[..., :half], x[..., half:]
        return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)

    def forward(self, x):
        a, y = self.self_attn, self.input_layernorm(x)
        q = self.rotated(a.q_proj(y).unflatten(2, (self.heads, -1)).transpose(1, 2))
        k = self.rotated(a.k_proj(y).unflatten(2, (self.key_heads, -1)).transpose(1, 2))
        v = a.v_proj(y).unflatten(2, (self.key_heads, -1)).transpose(1, 2)
        k, v = (t.repeat_interleave(self.heads // self.key_heads, 1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + a.o_proj(y)
        y = self.post_attention_layernorm(x)
        return x + self.mlp.down_proj(F.silu(self.mlp.gate_proj(y)) * self.mlp.up_proj(y))
