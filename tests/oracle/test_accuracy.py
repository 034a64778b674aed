"""What --accuracy promises (docs/ir.md), for inputs that nobody draws: every scale, spikes, columns that no weight reads, sums that
cancel, epilogues that saturate. Against double precision, output channel by output channel:

    |error of a sum| <= (ERROR + n 2^-24) * the largest sum of |x w| of its channel     n: its terms

and no number that is none where a plain sum has one. `python tests/oracle/test_accuracy.py` prints every case."""
import os, pathlib, subprocess, sys, tempfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

torch = pytest.importorskip("torch")

# Operator, shape of x, shape of w, what follows.
LAYERS = {
    "conv 3x3 64": ("Conv", (1, 64, 30, 30), (64, 64, 3, 3), None),
    "conv 3x3 64, clip": ("Conv", (1, 64, 30, 30), (64, 64, 3, 3), "Clip"),
    "conv 3x3 64, tanh": ("Conv", (1, 64, 30, 30), (64, 64, 3, 3), "Tanh"),
    "conv 3x3 32, sigmoid": ("Conv", (2, 32, 19, 23), (48, 32, 3, 3), "Sigmoid"),
    "conv 3x3 48, residual": ("Conv", (1, 48, 17, 21), (48, 48, 3, 3), "Add"),
    "conv 3x3 256": ("Conv", (1, 256, 14, 14), (64, 256, 3, 3), None),
    "conv 3x3 128 at 7x7": ("Conv", (1, 128, 7, 7), (128, 128, 3, 3), None),
    "conv 5x5 32": ("Conv", (1, 32, 24, 24), (32, 32, 5, 5), None),
    "conv 3x1 64": ("Conv", (1, 64, 40, 12), (64, 64, 3, 1), None),
    "conv 3 of 64": ("Conv", (1, 64, 500), (64, 64, 3), None),
    "conv 3x3x3 32, clip": ("Conv", (1, 32, 8, 12, 12), (32, 32, 3, 3, 3), "Clip"),
    "transposed 3x3 32": ("ConvTranspose", (1, 32, 28, 28), (32, 32, 3, 3), None),
    "product 512": ("MatMul", (512, 512), (512, 512), None),
    "product 257x384x640, tanh": ("MatMul", (257, 384), (384, 640), "Tanh"),
}
SCALES = ["1e-30", "1e-20", "1e-10", "1e-3", "1", "255", "1e10", "1e20", "1e30"]
INPUTS = [f"scale {s}" for s in SCALES] + [
    "relu", "sparse", "constant", "smooth", "one element 1e4", "one element 1e7", "one element 3e38", "last column 1e4", "last column 1e7",
    "last column 3e38", "idle feature 1e6", "idle feature 3e38", "half the features 1e3", "half the features 1e7", "cancelling", "zeros",
    "zeros but a corner", "rows of all scales"]


def drawn(op, x_shape, w_shape, regime):
    """Inputs and weights of a regime: some concern both."""
    rng = np.random.default_rng(abs(hash_of(op, x_shape, w_shape, regime)))
    product = op == "MatMul"
    features = x_shape[1]
    of_x = lambda f: (slice(None), f)
    of_w = (lambda f: (f,)) if product or op == "ConvTranspose" else (lambda f: (slice(None), f))
    x = rng.standard_normal(x_shape)
    w = rng.standard_normal(w_shape) / np.sqrt(features * (1 if product else np.prod(w_shape[2:])))
    kind, _, size = regime.rpartition(" ")
    half = slice(0, features // 2)
    if kind == "scale":
        x *= float(size)
    elif regime in ("relu", "sparse"):
        x = np.maximum(x - (1.3 if regime == "sparse" else 0), 0)
    elif regime == "constant":
        x[:], w[:] = 1 / 3, 1 / 7
    elif regime == "smooth":
        x = 100 + 0.01 * x
    elif kind == "one element":
        x[tuple(n // 2 for n in x_shape)] = float(size)
    elif kind == "last column":
        x[..., -1] = float(size)
        if product:
            w[-1] = 0
        else:
            w[(..., slice(1, None) if op == "Conv" else slice(None, -1))] = 0
    elif kind == "idle feature":
        x[of_x(7)], w[of_w(7)] = float(size), 0
    elif kind == "half the features":
        x[of_x(half)] *= float(size)
        w[of_w(half)] /= float(size)
    elif regime == "cancelling":
        other = slice(features // 2, 2 * (features // 2))
        x[of_x(other)] = -x[of_x(half)] * (1 + 1e-6 * rng.standard_normal(x[of_x(half)].shape))
        w[of_w(other)] = w[of_w(half)]
    elif regime == "zeros":
        x[:] = 0
    elif regime == "zeros but a corner":
        corner = x[tuple(slice(0, 1) if i != 1 else slice(None) for i in range(x.ndim))].copy()
        x[:] = 0
        x[tuple(slice(0, 1) if i != 1 else slice(None) for i in range(x.ndim))] = corner
    elif regime == "rows of all scales":
        axis = 0 if product else 2
        x *= np.logspace(-12, 12, x_shape[axis]).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    return x.astype("float32"), w.astype("float32")


def hash_of(*parts):
    import zlib
    return zlib.crc32(repr(parts).encode())


def model_of(op, x_shape, w_shape, after, w):
    attributes = {} if op == "MatMul" else {"kernel_shape": w_shape[2:], "pads": [k // 2 for k in w_shape[2:]] * 2}
    nodes = [helper.make_node(op, ["x", "w"], ["s"], **attributes)]
    inits = {"w": w}
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x_shape)]
    if after == "Clip":
        inits |= {"lo": np.float32(0), "hi": np.float32(6)}
    if after:
        nodes.append(helper.make_node(after, ["s", "lo", "hi"] if after == "Clip" else ["s", "x"] if after == "Add" else ["s"], ["y"]))
    else:
        nodes[0].output[0] = "y"
    graph = helper.make_graph(nodes, "layer", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(np.asarray(v), k) for k, v in inits.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def summed(op, x, w):
    x, w = torch.tensor(x.astype("float64")), torch.tensor(w.astype("float64"))
    if op == "MatMul":
        return (x @ w).numpy()
    pads = [k // 2 for k in w.shape[2:]]
    name = ("conv_transpose" if op == "ConvTranspose" else "conv") + f"{w.ndim - 2}d"
    return getattr(torch.nn.functional, name)(x, w, padding=pads).numpy()


def followed(after, s, x):
    with np.errstate(over="ignore"):
        return {None: lambda: s, "Clip": lambda: np.clip(s, 0, 6), "Tanh": lambda: np.tanh(s), "Sigmoid": lambda: 1 / (1 + np.exp(-s)),
                "Add": lambda: s + x.astype("float64")}[after]()


def share_of_bound(layer, regime, accuracy, folder):
    """The largest error, of what is promised; nothing where plain sums overflow, too."""
    op, x_shape, w_shape, after = LAYERS[layer]
    x, w = drawn(op, x_shape, w_shape, regime)
    onnx.save(model_of(op, x_shape, w_shape, after, w), folder / "layer.onnx")
    np.save(folder / "x.npy", x)
    command = [os.environ["EMEND"], "run", folder / "layer.onnx", "--target", "cpu", "--input", f"x:{folder / 'x.npy'}", "--save", folder,
               "--accuracy", accuracy, "--quiet", "-O1"]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    got = np.load(folder / "y.npy").astype("float64")
    s, magnitudes = summed(op, x, w), summed(op, np.abs(x), np.abs(w))
    wanted = followed(after, s, x)
    finite = magnitudes < 1e38
    channels = tuple(a for a in range(s.ndim) if a != 1)
    terms = x_shape[1] * (1 if op == "MatMul" else np.prod(w_shape[2:]))
    error = 0 if accuracy == "strict" else float(accuracy)
    largest = np.where(finite, magnitudes, 0).max(channels, keepdims=True)
    # What follows is rounded as well, and below the smallest normal number floats lie 2^-149 apart.
    most = (error + terms * 2**-24) * largest + 2**-23 * np.abs(wanted) + (1e-7 if after in ("Tanh", "Sigmoid") else 0) + terms * 2**-148
    assert np.isfinite(got[finite]).all(), "a plain sum is a number there"
    return (np.abs(got - wanted)[finite] / np.broadcast_to(most, s.shape)[finite]).max(initial=0)


CASES = [(layer, regime, "1e-4") for layer in LAYERS for regime in INPUTS]
CASES += [(layer, regime, accuracy) for layer in ["conv 3x3 64, clip", "conv 3x3 256", "product 512"]
          for regime in ["scale 1", "scale 255", "last column 1e4", "idle feature 1e6", "half the features 1e7"]
          for accuracy in ["1e-5", "1e-6", "strict"]]


@pytest.mark.parametrize("layer", LAYERS)
def test_the_promise_holds_for_any_finite_input(layer, tmp_path):
    shares = {(r, a): share_of_bound(l, r, a, tmp_path) for l, r, a in CASES if l == layer}
    assert {c: s for c, s in shares.items() if s > 1} == {}


def steps_of(layer, folder):
    op, x_shape, w_shape, after = LAYERS[layer]
    onnx.save(model_of(op, x_shape, w_shape, after, drawn(op, x_shape, w_shape, "scale 1")[1]), folder / "layer.onnx")
    return subprocess.run([os.environ["EMEND"], "bench", str(folder / "layer.onnx"), "--target", "cpu", "--steps", "--runs", "1", "-O1"], capture_output=True,
                          text=True).stdout


def test_fast_kernels_are_among_those_that_are_tried(tmp_path):
    assert "winograd" in steps_of("conv 3x3 64", tmp_path)
    assert "strassen=true" in steps_of("product 512", tmp_path)


if __name__ == "__main__":
    worst = 0
    with tempfile.TemporaryDirectory() as folder:
        for layer, regime, accuracy in CASES[:: int(sys.argv[1]) if len(sys.argv) > 1 else 1]:
            share = share_of_bound(layer, regime, accuracy, pathlib.Path(folder))
            worst = max(worst, share)
            print(f"{layer:28} {regime:24} {accuracy:8} {share:8.1e} of what is promised", flush=True)
    print(f"{len(CASES)} cases, the worst {worst:.1e} of what is promised")
