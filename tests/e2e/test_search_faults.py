"""The longest search takes whatever a model is made of; and where it ends in a bug of ours, that costs the search and is said."""
import json

import numpy as np
import onnx, onnxruntime, pytest
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def value(name, dtype, *shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def weight(name, *shape):
    return numpy_helper.from_array(np.random.default_rng(3).normal(size=shape).astype(np.float32), name)


# Models of one node: inputs, result, weights, attributes.
MODELS = {
    "Identity": ([value("x", FLOAT, 2, 3)], value("y", FLOAT, 2, 3), [], {}),
    "Less": ([value("x", FLOAT, 2, 3), value("z", FLOAT, 2, 3)], value("y", BOOL, 2, 3), [], {}),
    "Pow": ([value("x", FLOAT, 2, 3), value("z", FLOAT, 2, 3)], value("y", FLOAT, 2, 3), [], {}),
    "Gather": ([value("x", FLOAT, 5, 3), value("i", INT64, 2)], value("y", FLOAT, 2, 3), [], {}),
    "LayerNormalization": ([value("x", FLOAT, 2, 8)], value("y", FLOAT, 2, 8), [weight("w", 8)], {}),
    "Gemm": ([value("x", FLOAT, 2, 3)], value("y", FLOAT, 2, 3), [weight("w", 3, 3)], {}),
    "ConvTranspose": ([value("x", FLOAT, 1, 2, 5, 5)], value("y", FLOAT, 1, 3, 7, 7), [weight("w", 2, 3, 3, 3)], {}),
    "ReverseSequence": ([value("x", FLOAT, 4, 2), value("n", INT64, 2)], value("y", FLOAT, 4, 2), [], {}),
    "Mod": ([value("x", FLOAT, 2, 3), value("z", FLOAT, 2, 3)], value("y", FLOAT, 2, 3), [], {"fmod": 1}),
    "Constant": ([], value("y", FLOAT, 2, 3), [], {"value": weight("v", 2, 3)}),
}


def model(op):
    inputs, result, weights, attributes = MODELS[op]
    names = [i.name for i in inputs] + [w.name for w in weights]
    graph = helper.make_graph([helper.make_node(op, names, ["y"], **attributes)], "g", inputs, [result], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def computed(path, feeds):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feeds)[0]


@pytest.mark.parametrize("op", MODELS)
def test_models_of_one_node(emend, tmp_path, op):
    onnx.save(model(op), tmp_path / "model.onnx")
    emend("optimize", tmp_path / "model.onnx", tmp_path / "better.onnx", "-O3", "--json", tmp_path / "facts.json")
    assert json.loads((tmp_path / "facts.json").read_text())["faults"] == []
    feeds = {}
    for i in MODELS[op][0]:
        shape = [d.dim_value for d in i.type.tensor_type.shape.dim]
        numbers = np.abs(np.random.default_rng(4).normal(size=shape)) + 0.5
        feeds[i.name] = numbers.astype(np.float32) if i.type.tensor_type.elem_type == FLOAT else np.ones(shape, dtype=np.int64)
    np.testing.assert_allclose(computed(tmp_path / "better.onnx", feeds), computed(tmp_path / "model.onnx", feeds), rtol=1e-4, atol=1e-5)


def test_a_bug_in_a_search_costs_that_search(emend, tmp_path):
    """And nothing of it is kept: the next start searches anew."""
    emend("zoo", "tour", tmp_path / "model.onnx")
    how = {"EMEND_CACHE_DIR": tmp_path / "cache"}
    command = ["optimize", tmp_path / "model.onnx", tmp_path / "better.onnx", "--json", tmp_path / "facts.json"]
    done = emend.run(*command, "--debug-fail", "saturate", **how)
    assert done.returncode == 0, done.stderr
    assert "internal error in the search: " in done.stderr and "the program is cleaned only" in done.stderr
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert len(facts["faults"]) == 1 and "--debug-fail" in facts["faults"][0] and facts["cost_after"] is None
    onnx.checker.check_model(str(tmp_path / "better.onnx"))
    cleaned = tmp_path / "cleaned.onnx"
    emend("optimize", tmp_path / "model.onnx", cleaned, "-O1")
    assert cleaned.read_bytes() == (tmp_path / "better.onnx").read_bytes()
    done = emend.run(*command, **how)
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert done.returncode == 0 and facts["faults"] == [] and facts["search_recalled"] is False
