"""Models with symbolic dimensions: run at several sizes, written again, and right at every size that the file still claims."""
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 5)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        x = nn.functional.adaptive_avg_pool2d(x, 1)
        return self.last(x.view(x.size(0), -1))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(16, 16) for _ in range(4))
        self.norm = nn.LayerNorm(16)

    def forward(self, x):
        b, t, _ = x.shape
        heads = lambda y: y.view(b, t, 2, 8).transpose(1, 2)
        q, k, v = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))
        weighted = torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1) @ v
        return self.norm(x + self.out(weighted.transpose(1, 2).reshape(b, t, 16)))


class ScaledBySize(nn.Module):
    """Computes with the size itself."""

    def forward(self, x):
        return x.flatten(1) * x.shape[0]


class Patches(nn.Module):
    """An image that can only be as large as whole patches."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 8, 4, stride=4), nn.LayerNorm(8)

    def forward(self, x):
        return self.norm(self.stem(x).flatten(2).transpose(1, 2))


class CachedAttention(nn.Module):
    """One step of a decoder: keys and values of the past come in, those of the present go out."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x, past):
        b, t, _ = x.shape
        q, k, v = (y.view(b, t, 2, 8).transpose(1, 2) for y in self.qkv(x).split(16, -1))
        k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        s = k.shape[2]
        later = torch.arange(s)[None, :] > torch.arange(s - t, s)[:, None]
        scores = (q @ k.transpose(-1, -2) / 8**0.5).masked_fill(later, -1e9)
        y = (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(b, t, 16)
        return self.out(y), torch.stack([k, v])


class Shifted(nn.Module):
    """Differences of neighbours, positions, and a last step that is repeated."""

    def forward(self, x):
        steps = x[:, 1:] - x[:, :-1]
        positions = torch.arange(x.shape[1] - 1, dtype=torch.float32)[None, :, None]
        return torch.cat([steps + positions, x[:, -1:].expand(-1, 3, -1)], 1)


class Upsampled(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, x):
        y = torch.relu(self.down(x))
        return self.up(nn.functional.interpolate(y, size=x.shape[2:], mode="nearest"))


class Windows(nn.Module):
    """Attention within windows of four tokens."""

    def forward(self, x):
        b, t, c = x.shape
        w = x.view(b, t // 4, 4, c)
        return (torch.softmax(w @ w.transpose(-1, -2), -1) @ w).view(b, t, c)


# name: network, shapes of its inputs, the open dimensions of each, sizes of symbols at which it runs.
MODELS = {
    "convolutions": (Convolutions, [(2, 3, 16, 16)], [{0: "batch"}], [{"batch": n} for n in (1, 3, 8)]),
    "attention": (Attention, [(2, 6, 16)], [{0: "batch", 1: "sequence"}], [dict(batch=1, sequence=1), dict(batch=3, sequence=5)]),
    "scaled": (ScaledBySize, [(2, 3, 4)], [{0: "batch"}], [{"batch": n} for n in (1, 3, 8)]),
    "patches": (Patches, [(2, 3, 16, 24)], [{0: "batch", 2: "high", 3: "wide"}], [dict(batch=1, high=4, wide=4), dict(batch=3, high=40, wide=12)]),
    "cached": (
        CachedAttention,
        [(2, 3, 16), (2, 2, 2, 5, 8)],
        [{0: "batch", 1: "sequence"}, {1: "batch", 3: "past"}],
        [dict(batch=1, sequence=1, past=0), dict(batch=2, sequence=1, past=9), dict(batch=3, sequence=4, past=4)],
    ),
    "shifted": (Shifted, [(2, 6, 4)], [{0: "batch", 1: "steps"}], [dict(batch=1, steps=2), dict(batch=4, steps=9)]),
    "upsampled": (Upsampled, [(1, 3, 16, 24)], [{0: "batch", 2: "high", 3: "wide"}], [dict(batch=1, high=2, wide=4), dict(batch=2, high=14, wide=30)]),
    "windows": (Windows, [(2, 8, 6)], [{0: "batch", 1: "tokens"}], [dict(batch=1, tokens=4), dict(batch=3, tokens=20)]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("level", ["-O0", "-O1", ""])
@pytest.mark.parametrize("name", MODELS)
def test_dimensions_stay_open(emend, tmp_path, name, level):
    make, shapes, axes, sizes = MODELS[name]
    torch.manual_seed(0)
    network = make().eval()
    original, written = tmp_path / "in.onnx", tmp_path / "out.onnx"
    names = [f"x{i}" for i in range(len(shapes))]
    torch.onnx.export(
        network, tuple(torch.randn(s) for s in shapes), original, input_names=names, output_names=["y", "z"][: 2 if name == "cached" else 1],
        dynamic_axes=dict(zip(names, axes)), dynamo=False, opset_version=17,
    )
    emend("optimize", *level.split(), original, written)
    if level == "-O0":
        assert written.read_bytes() == original.read_bytes()
    model = onnx.load(written)
    onnx.checker.check_model(model, full_check=True)
    for value, open_axes in zip(model.graph.input, axes):
        dims = value.type.tensor_type.shape.dim
        assert {i: d.dim_param for i, d in enumerate(dims) if d.dim_param} == open_axes

    session = onnxruntime.InferenceSession(str(written), providers=["CPUExecutionProvider"])
    for size in sizes:
        random = np.random.default_rng(0)
        feeds = {n: random.normal(size=[size[a[i]] if i in a else d for i, d in enumerate(s)]).astype(np.float32) for n, s, a in zip(names, shapes, axes)}
        given = []
        for n, x in feeds.items():
            np.save(tmp_path / f"{n}.npy", x)
            given += ["--input", f"{n}:{tmp_path / n}.npy"]
        with torch.no_grad():
            expected = network(*(torch.from_numpy(x) for x in feeds.values()))
        expected = expected[0] if isinstance(expected, tuple) else expected
        emend("run", original, *given, "--save", tmp_path)
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected.numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(session.run(None, feeds)[0], expected.numpy(), rtol=1e-4, atol=1e-5)
