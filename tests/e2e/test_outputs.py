"""Outputs that show an input, a constant, or what another output shows: in every order, on every level, the written file is valid and computes the same."""
import itertools

import numpy as np
import onnx, pytest
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT
X = np.array([-2, -1, 0.5, 3], dtype=np.float32)
Z = X[::-1].copy()
W = np.array([1, 2, 3, 4], dtype=np.float32)

# Every kind of output, by its name: what it is.
VALUES = {"x": X, "z": Z, "a": np.maximum(X, 0), "b": np.maximum(X, 0), "w": W, "c": W, "d": -Z}


def nodes(prefix=""):
    return [helper.make_node("Relu", ["x"], [prefix + "a"]), helper.make_node("Relu", ["x"], [prefix + "b"]), helper.make_node("Neg", ["z"], [prefix + "d"]),
            helper.make_node("Constant", [], [prefix + "c"], value=numpy_helper.from_array(W))]


def value(name):
    return helper.make_tensor_value_info(name, FLOAT, [4])


def model(outputs):
    graph = helper.make_graph(nodes(), "g", [value("x"), value("z")], [value(o) for o in outputs], [numpy_helper.from_array(W, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def branch(outputs, prefix):
    copies = [helper.make_node("Identity", [o if o in "xzw" else prefix + o], [f"{prefix}{o}_out"]) for o in outputs]
    return helper.make_graph(nodes(prefix) + copies, prefix + "branch", [], [value(f"{prefix}{o}_out") for o in outputs])


def branching(outputs):
    """The same outputs, of both branches of an If; the branches read what is outside of them."""
    node = helper.make_node("If", ["yes"], [f"{o}_if" for o in outputs], then_branch=branch(outputs, "then_"), else_branch=branch(outputs, "else_"))
    yes = helper.make_tensor_value_info("yes", TensorProto.BOOL, [])
    graph = helper.make_graph([node], "g", [value("x"), value("z"), yes], [value(f"{o}_if") for o in outputs], [numpy_helper.from_array(W, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def check(emend, folder, made, level, **more):
    there, better = folder / "model.onnx", folder / "better.onnx"
    onnx.save(made, there)
    emend("optimize", there, better, f"-O{level}", "--quiet")
    onnx.checker.check_model(str(better), full_check=True)
    session = onnxruntime.InferenceSession(better, providers=["CPUExecutionProvider"])
    names = [o.name for o in made.graph.output]
    assert [o.name for o in session.get_outputs()] == names
    feeds = {"x": X, "z": Z, **more}
    got = session.run(None, {i.name: feeds[i.name] for i in session.get_inputs()})
    for name, one in zip(names, got):
        np.testing.assert_array_equal(one, VALUES[name[0]], err_msg=f"{name} of {names}")


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_outputs_in_every_order(emend, tmp_path, level):
    kinds = ["x", "a", "b", "w"] if level > 1 else ["x", "a", "b", "w", "c"]
    for outputs in itertools.permutations(kinds):
        check(emend, tmp_path, model(outputs), level)
    check(emend, tmp_path, model(list("xzabwcd")), level)
    check(emend, tmp_path, model(list("dcwbazx")), level)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_outputs_of_branches_in_every_order(emend, tmp_path, level):
    for outputs in itertools.permutations(["x", "a", "b", "w", "c"], 3):
        check(emend, tmp_path, branching(outputs), level, yes=np.array(True))
