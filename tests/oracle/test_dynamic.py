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
    """Computes with the size itself: no file of ours can hold for every one."""

    def forward(self, x):
        return x.flatten(1) * x.shape[0]


# name: network, a shape, its open dimensions, those that stay open as the file is and when it is cleaned. Cleaning joins batch and
# sequence to one dimension of a Gemm; ONNX has no words for a Reshape that takes two open dimensions apart again.
MODELS = {
    "convolutions": (Convolutions, (2, 3, 16, 16), {0: "batch"}, {"-O0": {"batch"}, "-O1": {"batch"}}),
    "attention": (Attention, (2, 6, 16), {0: "batch", 1: "sequence"}, {"-O0": {"batch", "sequence"}, "-O1": {"batch"}}),
    "scaled": (ScaledBySize, (2, 3, 4), {0: "batch"}, {"-O0": set(), "-O1": set()}),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("level", ["-O0", "-O1", ""])
@pytest.mark.parametrize("name", MODELS)
def test_dynamic_dimensions(emend, tmp_path, name, level):
    make, shape, axes, kept = MODELS[name]
    kept = kept[level or "-O1"]  # the search costs no dimension where nobody asked for it
    torch.manual_seed(0)
    network = make().eval()
    original, written = tmp_path / "in.onnx", tmp_path / "out.onnx"
    torch.onnx.export(
        network, (torch.randn(shape),), original, input_names=["x"], output_names=["y"], dynamic_axes={"x": axes, "y": axes}, dynamo=False, opset_version=17
    )
    emend("optimize", *level.split(), original, written)
    model = onnx.load(written)
    onnx.checker.check_model(model, full_check=True)
    dims = model.graph.input[0].type.tensor_type.shape.dim
    assert {d.dim_param for d in dims if d.dim_param} == kept

    session = onnxruntime.InferenceSession(str(written), providers=["CPUExecutionProvider"])
    for size in (1, 3, 8):
        x = np.random.default_rng(size).normal(size=[size + i if i in axes else d for i, d in enumerate(shape)]).astype(np.float32)
        expected = network(torch.from_numpy(x)).detach().numpy()
        np.save(tmp_path / "x.npy", x)
        emend("run", original, "--input", f"x:{tmp_path / 'x.npy'}", "--save", tmp_path)
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, rtol=1e-4, atol=1e-5)
        # What the written file has as a number has that size; what it leaves open, any.
        claimed = [d.dim_value or n for d, n in zip(dims, x.shape)]
        x = np.random.default_rng(size).normal(size=claimed).astype(np.float32)
        expected = network(torch.from_numpy(x)).detach().numpy()
        np.testing.assert_allclose(session.run(None, {"x": x})[0], expected, rtol=1e-4, atol=1e-5)
