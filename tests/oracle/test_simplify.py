"""`emend optimize -O1` leaves no more nodes than onnxsim and OnnxSlim do, and the same results within 1e-5 of double
precision. Constants are data and do not count; nodes of subgraphs do."""
import json, os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import onnxruntime
import onnxsim
import onnxslim
import pytest
from onnx import TensorProto, helper, numpy_helper

import light_models
import zoo_models


def nodes(graph):
    count = 0
    for node in graph.node:
        count += node.op_type != "Constant"
        for attribute in node.attribute:
            count += sum(nodes(g) for g in [attribute.g, *attribute.graphs])
    return count


def compare(emend, path, work):
    """Our count, the others', and our report; everybody gets the same file."""
    emend("optimize", "-O1", path, work / "ours.onnx", "--json", work / "report.json")
    ours = onnx.load(work / "ours.onnx")
    onnx.checker.check_model(ours)
    simplified, _ = onnxsim.simplify(onnx.load(path))
    slimmed = onnxslim.slim(onnx.load(path))
    report = json.loads((work / "report.json").read_text())
    assert report["nodes_after"] == nodes(ours.graph)
    return nodes(ours.graph), nodes(simplified.graph), nodes(slimmed.graph), report


def check(emend, path, work):
    ours, sim, slim, report = compare(emend, path, work)
    assert ours <= min(sim, slim), f"{ours} nodes; onnxsim leaves {sim}, OnnxSlim {slim}"
    assert error_of(report, path, work / "ours.onnx") <= 1e-5
    return report


def error_of(report, path, ours):
    """Against double precision, as the report has it; of what is too large for that, against onnxruntime."""
    if report["verified"]["max_rel_err"] is not None:
        return report["verified"]["max_rel_err"]
    (x,) = onnx.load(ours).graph.input
    values = np.random.default_rng(1).normal(size=[d.dim_value for d in x.type.tensor_type.shape.dim]).astype(np.float32)
    before, after = run(path, values, x.name), run(ours, values, x.name)
    return np.abs(after - before).max() / np.abs(before).max()


@pytest.mark.parametrize("name", light_models.NAMES)
def test_light(emend, name, tmp_path):
    model, _, _ = light_models.refilled(name, seed=11)
    model.ir_version = 8  # onnxsim wants initializers that are no inputs to be of a later version than 3
    onnx.save(model, tmp_path / "model.onnx")
    check(emend, tmp_path / "model.onnx", tmp_path)


@pytest.mark.parametrize("name", zoo_models.OPTIONS)
def test_zoo(emend, name, tmp_path):
    report = check(emend, zoo_models.write(emend, name, tmp_path / "model.onnx"), tmp_path)
    assert report["verified"]["max_rel_err"] is not None


# --- What tools of this kind remove, one thing at a time ---

RNG = np.random.default_rng(5)


def weights(name, *shape, positive=False):
    values = RNG.normal(size=shape)
    return numpy_helper.from_array((np.abs(values) + 0.5 if positive else values).astype(np.float32), name)


def ints(name, *values):
    return numpy_helper.from_array(np.array(values, dtype=np.int64), name)


def node(kind, inputs, output, **attributes):
    return helper.make_node(kind, inputs.split(), output.split(), **attributes)


def norm_parameters(channels):
    return [weights("s", channels), weights("b", channels), weights("m", channels),
            weights("v", channels, positive=True)]


def number(name, value):
    return numpy_helper.from_array(np.array(value, dtype=np.float32), name)


GELU = [node("Div", "x root", "a"), node("Erf", "a", "b"), node("Add", "b one", "c"), node("Mul", "x c", "d"),
        node("Mul", "d half", "y")]
GELU_NUMBERS = [number("root", 2**0.5), number("one", 1), number("half", 0.5)]

CASES = {
    # name: input shape, nodes ending in y, initializers, how many are left, opset (17 if not said)
    "identity": ([2, 3], [node("Identity", "x", "a"), node("Relu", "a", "b"), node("Dropout", "b", "y")], [], 1),
    "shape_arithmetic": ([2, 3, 4], [
        node("Shape", "x", "s"), node("Gather", "s zero", "n", axis=0), node("Unsqueeze", "n zeros", "u"),
        node("Concat", "u minus", "t", axis=0), node("Reshape", "x t", "y")],
        [ints("zeros", 0), numpy_helper.from_array(np.array(0, dtype=np.int64), "zero"), ints("minus", -1)], 1),
    "constants": ([3], [node("Add", "a b", "c"), node("Sqrt", "c", "d"), node("Mul", "x d", "y")],
                  [weights("a", 3, positive=True), weights("b", 3, positive=True)], 1),
    "no_ops": ([2, 3], [node("Add", "x zero", "a"), node("Mul", "a one", "b"), node("Cast", "b", "c", to=TensorProto.FLOAT),
                        node("Transpose", "c", "d", perm=[0, 1]), node("Reshape", "d shape", "e"),
                        node("Expand", "e shape", "f"), node("Relu", "f", "y")],
               [numpy_helper.from_array(np.zeros(1, np.float32), "zero"),
                numpy_helper.from_array(np.ones(1, np.float32), "one"), ints("shape", 2, 3)], 1),
    "batch_norm": ([1, 3, 8, 8], [node("Conv", "x w", "c", pads=[1, 1, 1, 1]), node("BatchNormalization", "c s b m v", "y")],
                   [weights("w", 4, 3, 3, 3), *norm_parameters(4)], 1),
    "scale_and_shift": ([1, 3, 8, 8], [node("Conv", "x w", "c"), node("Mul", "c s", "d"), node("Add", "d b", "y")],
                        [weights("w", 4, 3, 3, 3), weights("s", 1, 4, 1, 1), weights("b", 1, 4, 1, 1)], 1),
    "depthwise_norm": ([1, 4, 8, 8], [node("Conv", "x w", "c", group=4), node("BatchNormalization", "c s b m v", "d"),
                                      node("Relu", "d", "y")], [weights("w", 4, 1, 3, 3), *norm_parameters(4)], 2),
    "transposes": ([1, 2, 3, 4], [node("Transpose", "x", "a", perm=[0, 2, 3, 1]), node("Sigmoid", "a", "b"),
                                  node("Transpose", "b", "y", perm=[0, 3, 1, 2])], [], 1),
    "squeezes": ([2, 3], [node("Unsqueeze", "x one", "a"), node("Relu", "a", "b"), node("Squeeze", "b one", "y")],
                 [ints("one", 1)], 1),
    "pad": ([1, 3, 8, 8], [node("Pad", "x p", "a"), node("Conv", "a w", "y")],
            [ints("p", 0, 0, 1, 1, 0, 0, 1, 1), weights("w", 4, 3, 3, 3)], 1),
    "slices": ([9, 9], [node("Slice", "x s e a", "b"), node("Slice", "b s e a", "y")],
               [ints("s", 1), ints("e", 7), ints("a", 0)], 1),
    "gemm": ([5, 4], [node("MatMul", "x w", "a"), node("Add", "a b", "y")], [weights("w", 4, 3), weights("b", 3)], 1),
    "twice": ([2, 3], [node("Exp", "x", "a"), node("Exp", "x", "b"), node("Mul", "a b", "y")], [], 2),
    "concats": ([2, 3], [node("Concat", "x x", "a", axis=0), node("Exp", "x", "e"), node("Concat", "e a x", "y", axis=0)],
                [], 2),
    "stack": ([2, 3], [node("Exp", "x", "a"), node("Unsqueeze", "a one", "b"), node("Sigmoid", "x", "c"), node("Unsqueeze", "c one", "d"),
                       node("Concat", "b d", "y", axis=1)], [ints("one", 1)], 4),
    "mean_unsqueezed": ([2, 3, 4], [node("ReduceMean", "x", "a", axes=[1], keepdims=0), node("Unsqueeze", "a one", "y")], [ints("one", 1)], 1),
    "gelu": ([2, 3], GELU, GELU_NUMBERS, 1, 20),
    "gelu_without_a_name": ([2, 3], GELU, GELU_NUMBERS, 5, 17),
    "layer_norm": ([2, 3, 8], [
        node("ReduceMean", "x", "m", axes=[-1]), node("Sub", "x m", "d"), node("Pow", "d two", "q"),
        node("ReduceMean", "q", "v", axes=[-1]), node("Add", "v e", "f"), node("Sqrt", "f", "r"), node("Div", "d r", "n"),
        node("Mul", "n g", "h"), node("Add", "h b", "y")],
        [number("two", 2), number("e", 1e-5), weights("g", 8), weights("b", 8)], 1),
}


def write_case(name, path):
    shape, body, initializers, left, *opset = CASES[name]
    graph = helper.make_graph(body, name, [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_value_info("y", onnx.TypeProto())], initializer=initializers)
    opset = helper.make_opsetid("", *(opset or [17]))
    onnx.save(onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[opset], ir_version=8)), path)
    return shape, left


def run(path, x, name="x"):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {name: x})[0]


@pytest.mark.parametrize("name", CASES)
def test_removes(emend, name, tmp_path):
    shape, left = write_case(name, tmp_path / "model.onnx")
    report = check(emend, tmp_path / "model.onnx", tmp_path)
    assert report["nodes_after"] == left
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    np.testing.assert_allclose(run(tmp_path / "ours.onnx", x), run(tmp_path / "model.onnx", x), rtol=1e-4, atol=1e-5)


def test_globs_switch_rules_off(emend, tmp_path):
    write_case("batch_norm", tmp_path / "model.onnx")
    for flags, left in [([], 1), (["--disable", "batch-norm-*"], 2),
                        (["--disable", "*", "--enable", "batch-norm-*", "--enable", "fold-*"], 2), (["-O0"], 2)]:
        emend("optimize", tmp_path / "model.onnx", tmp_path / "out.onnx", "--json", tmp_path / "r.json", *flags)
        assert json.loads((tmp_path / "r.json").read_text())["nodes_after"] == left, flags


def test_a_dynamic_batch(emend, tmp_path):
    """Cleaned at one size, the file is right at every size that it still claims to take."""
    write_case("batch_norm", tmp_path / "model.onnx")
    model = onnx.load(tmp_path / "model.onnx")
    for value in [*model.graph.input, *model.graph.output]:
        value.type.tensor_type.shape.dim[0].dim_param = "N"
    model.graph.ClearField("value_info")
    onnx.save(model, tmp_path / "dynamic.onnx")
    emend("optimize", tmp_path / "dynamic.onnx", tmp_path / "out.onnx")
    out = onnx.load(tmp_path / "out.onnx")
    assert nodes(out.graph) == 1
    batch = out.graph.input[0].type.tensor_type.shape.dim[0]
    for n in (1, 2, 5) if batch.dim_param == "N" else (batch.dim_value,):
        x = np.random.default_rng(n).normal(size=[n, *CASES["batch_norm"][0][1:]]).astype(np.float32)
        np.testing.assert_allclose(run(tmp_path / "out.onnx", x), run(tmp_path / "dynamic.onnx", x), rtol=1e-4,
                                   atol=1e-5)


def test_the_suite_survives_cleaning(emend, onnx_data, tmp_path):
    """Every node case of ONNX's suite, cleaned and written, gives what it gave before."""
    def clean(case):
        folder = tmp_path / case.name
        folder.mkdir()
        for item in case.iterdir():
            if item.name != "model.onnx":
                os.symlink(item, folder / item.name)
        emend("optimize", "-O1", "-q", case / "model.onnx", folder / "model.onnx")

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        assert len(list(pool.map(clean, sorted((onnx_data / "node").iterdir())))) > 1000
    before, after = (emend.run("conformance", folder).stdout.splitlines()[-1] for folder in (onnx_data / "node", tmp_path))
    assert after == before and after.startswith("total")
