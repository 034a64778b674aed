"""Models that onnxruntime quantised: products of bytes in the compiled program, results as onnxruntime's and the interpreter's
up to some steps of the last quantisation (a value on a tie may round to either side, and what follows differs by that)."""
import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T, helper, numpy_helper

quantization = pytest.importorskip("onnxruntime.quantization")


def weights(rng, name, *shape):
    return numpy_helper.from_array((rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32), name)


def written(path, nodes, x, y, initializers):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", T.FLOAT, x)], [value("y", T.FLOAT, y)], initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def conv_net(path):
    rng, n = np.random.default_rng(1), helper.make_node
    nodes = [n("Conv", ["x", "w1", "b1"], ["a"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]), n("Relu", ["a"], ["b"]),
             n("Conv", ["b", "w2", "b2"], ["c"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
             n("Relu", ["c"], ["d"]), n("Conv", ["d", "w3", "b3"], ["e"], kernel_shape=[1, 1]), n("Add", ["d", "e"], ["f"]),
             n("GlobalAveragePool", ["f"], ["g"]), n("Flatten", ["g"], ["h"]), n("Gemm", ["h", "w4", "b4"], ["y"], transB=1)]
    shapes = [(16, 3, 3, 3), (32, 16, 3, 3), (32, 32, 1, 1), (10, 32)]
    made = [weights(rng, f"w{i + 1}", *s) for i, s in enumerate(shapes)] + [weights(rng, f"b{i + 1}", s[0]) for i, s in enumerate(shapes)]
    written(path, nodes, [1, 3, 17, 15], [1, 10], made)


def attention_net(path):
    rng, n = np.random.default_rng(2), helper.make_node
    nodes = [n("MatMul", ["x", f"w{k}"], [k]) for k in "qkv"]
    nodes += [n("Transpose", ["k"], ["t"], perm=[0, 2, 1]), n("MatMul", ["q", "t"], ["s"]), n("Softmax", ["s"], ["p"], axis=-1),
              n("MatMul", ["p", "v"], ["c"]), n("Add", ["c", "x"], ["r"]), n("MatMul", ["r", "w1"], ["h"]), n("Relu", ["h"], ["i"]),
              n("MatMul", ["i", "w2"], ["y"])]
    shapes = {"wq": (48, 48), "wk": (48, 48), "wv": (48, 48), "w1": (48, 96), "w2": (96, 30)}
    written(path, nodes, [2, 21, 48], [2, 21, 30], [weights(rng, name, *s) for name, s in shapes.items()])


class Samples(quantization.CalibrationDataReader):
    def __init__(self, shape):
        rng = np.random.default_rng(3)
        self.left = [rng.normal(size=shape).astype(np.float32) for _ in range(4)]

    def get_next(self):
        return {"x": self.left.pop()} if self.left else None


BYTES = {"u8": quantization.QuantType.QUInt8, "s8": quantization.QuantType.QInt8}


def quantized(plain, path, how):
    if how == "dynamic":
        quantization.quantize_dynamic(plain, path, weight_type=BYTES["s8"])
        return
    activations, parameters, per_channel, form = {"u8s8": ("u8", "s8", True, "QDQ"), "s8s8": ("s8", "s8", False, "QDQ"),
                                                  "u8u8": ("u8", "u8", False, "QDQ"), "operators": ("u8", "s8", False, "QOperator")}[how]
    shape = [d.dim_value for d in onnx.load(plain).graph.input[0].type.tensor_type.shape.dim]
    only = ["Conv", "MatMul"] if form == "QOperator" else None  # others become operators of onnxruntime's own
    quantization.quantize_static(plain, path, Samples(shape), quant_format=quantization.QuantFormat[form], per_channel=per_channel, op_types_to_quantize=only,
                                 activation_type=BYTES[activations], weight_type=BYTES[parameters])


@pytest.mark.parametrize("how", ["u8s8", "s8s8", "u8u8", "operators", "dynamic"])
@pytest.mark.parametrize("net", [conv_net, attention_net])
def test_agrees_and_multiplies_bytes(emend, tmp_path, net, how):
    import onnxruntime

    plain, model = tmp_path / "plain.onnx", tmp_path / "quantized.onnx"
    net(plain)
    quantized(plain, model, how)
    x = Samples([d.dim_value for d in onnx.load(plain).graph.input[0].type.tensor_type.shape.dim]).left[0]
    np.save(tmp_path / "x.npy", x)
    [wanted] = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    made = {}
    for target in ("cpu", "interp"):
        emend("run", model, "--target", target, "--input", f"x:{tmp_path / 'x.npy'}", "--save", tmp_path / target)
        [file] = (tmp_path / target).glob("*.npy")
        made[target] = np.load(file)
    largest = np.abs(wanted).max()
    assert np.abs(made["cpu"] - made["interp"]).max() <= 0.02 * largest
    assert np.abs(made["cpu"] - wanted).max() <= 0.04 * largest
    facts = json.loads(emend("bench", model, "--steps", "--runs", 1, "--json", "-", "--quiet"))
    [facts] = facts["models"]
    products = [s for s in facts["steps"] if s["kernel"].startswith("contract") and "cast" in s["label"]]
    assert len(products) >= 3, [s["kernel"] for s in facts["steps"]]
