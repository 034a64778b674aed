"""Scales that stand one after the other: whatever is folded or moved, results are those of onnxruntime as far as the model's own
types go. Chains of the kind whose product leaves its type, and a scan by sums of exponentials that overflows late."""
import json

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

TYPES = {"f16": (np.float16, TensorProto.FLOAT16), "f32": (np.float32, TensorProto.FLOAT)}

# type, what is done to x one after the other, values of x, largest relative error
CHAINS = {
    "f16_up": ("f16", [300, 300], [0.01, 0.02, 0], 4e-3),
    "f16_down": ("f16", [1e-4, 1e-4], [1000, 2000, 60000], 1e-1),  # subnormal in f16, as it is there
    "f16_matmul": ("f16", [300, "w", 300], [0.01, 0.02, -0.03], 1e-2),
    "f16_attention": ("f16", [1e-3, "w", 0.125, "w"], [4000, 2000, -3000], 1e-2),
    "f32_up": ("f32", [1e25, 1e25], [1e-30, 0, 2e-30], 1e-5),
    "f32_down_up": ("f32", [1e-25, 1e-18, 1e25, 1e18], [3e5, 1e6, 0], 2e-2),
    "f32_denormal": ("f32", [1e-25, 1e-18], [3.333e15, 1e16, 2e16], 1e-5),
    "f32_reciprocal": ("f32", [("div", 3e38), 1e20], [1e25, 1e24, 0], 1e-5),
    "f32_matmul": ("f32", [1e-30, "w", 1e-15], [1e12, 1e13, 1e14], 1e-5),
}


def chain(name):
    type_name, steps, values, _ = CHAINS[name]
    dtype, onnx_type = TYPES[type_name]
    x = np.array([values], dtype)
    n = x.shape[1]
    nodes, initializers, last = [], [], "x"
    for i, step in enumerate(steps):
        op, value = ("MatMul", np.arange(1, n * n + 1).reshape(n, n) / n**2) if step == "w" else ("Mul", step)
        if isinstance(step, tuple):
            op, value = "Div", step[1]
        initializers.append(numpy_helper.from_array(np.array(value, dtype), f"c{i}"))
        out = "y" if i == len(steps) - 1 else f"v{i}"
        nodes.append(helper.make_node(op, [last, f"c{i}"], [out]))
        last = out
    value = lambda name: helper.make_tensor_value_info(name, onnx_type, list(x.shape))
    graph = helper.make_graph(nodes, "g", [value("x")], [value("y")], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), x


def run(path, x):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


def check(got, wanted, error):
    assert np.isfinite(got).all(), got
    wanted = wanted.astype(np.float64)
    assert np.abs(got - wanted).max() <= error * np.abs(wanted).max(), (got, wanted)


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("name", CHAINS)
def test_a_written_chain(emend, name, level, tmp_path):
    model, x = chain(name)
    onnx.save(model, tmp_path / "m.onnx")
    emend("optimize", tmp_path / "m.onnx", tmp_path / "o.onnx", f"-O{level}", "--json", tmp_path / "facts.json")
    facts = json.loads((tmp_path / "facts.json").read_text())["verified"]
    assert np.isfinite(facts["max_rel_err"]) and facts["max_rel_err"] < 0.25, facts
    check(run(tmp_path / "o.onnx", x), run(tmp_path / "m.onnx", x), CHAINS[name][3])


@pytest.mark.parametrize("name", CHAINS)
def test_a_compiled_chain(emend, name, tmp_path):
    model, x = chain(name)
    onnx.save(model, tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", x)
    emend("run", tmp_path / "m.onnx", "--target", "cpu", "--input", f"x:{tmp_path / 'x.npy'}", "--save", tmp_path / "out")
    check(np.load(tmp_path / "out" / "y.npy"), run(tmp_path / "m.onnx", x), CHAINS[name][3])


def scan(steps):
    """exp(c) * cumsum(x exp(-c)) with c = cumsum(-softplus(x)): after some steps no float holds exp(-c)."""
    node = helper.make_node
    constants = {"rate": np.float32([-1, -8]), "axis": np.array(0), "w": np.float32([[1, 2], [3, 4]]) / 4}
    nodes = [
        node("Softplus", ["x"], ["d"]), node("Mul", ["d", "rate"], ["a"]), node("CumSum", ["a", "axis"], ["c"]), node("Exp", ["c"], ["e"]),
        node("Neg", ["c"], ["n"]), node("Exp", ["n"], ["f"]), node("Mul", ["x", "f"], ["g"]), node("CumSum", ["g", "axis"], ["h"]),
        node("Mul", ["e", "h"], ["s"]), node("MatMul", ["s", "w"], ["y"]),
    ]  # fmt: skip
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [steps, 2])
    graph = helper.make_graph(nodes, "g", [value("x")], [value("y")], [numpy_helper.from_array(np.array(v), k) for k, v in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_what_overflows_late_is_compared_where_it_does_not(emend, tmp_path):
    onnx.save(scan(32), tmp_path / "m.onnx")
    emend("optimize", tmp_path / "m.onnx", tmp_path / "o.onnx", "--json", tmp_path / "facts.json")
    facts = json.loads((tmp_path / "facts.json").read_text())["verified"]
    assert facts["max_rel_err"] < 1e-4
    done = emend.run("run", tmp_path / "m.onnx", "--target", "cpu", "--random", 1, "--json", tmp_path / "run.json")
    assert done.returncode == 0 and "error of inf" not in done.stderr, done.stderr
    x = np.random.default_rng(1).normal(size=(32, 2)).astype(np.float32)
    before, after = run(tmp_path / "m.onnx", x), run(tmp_path / "o.onnx", x)
    some = np.isfinite(before)
    assert some.any() and not some.all()
    check(after[some], before[some], 1e-4)
