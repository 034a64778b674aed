"""Quantised operators against onnxruntime: every type it has, per tensor, per axis, blocked, and integer products with all ways
to give zero points. Results must be equal, save where a quotient falls on a tie that the two round differently."""
import numpy as np
import pytest
from onnx import TensorProto, helper

import cases

T = TensorProto
QUANTIZED = {T.UINT8: (0, 255), T.INT8: (-128, 127), T.UINT16: (0, 65535), T.INT16: (-32768, 32767)}


def array(elem, values):
    return np.asarray(values).astype(helper.tensor_dtype_to_np_dtype(elem))


def whole(rng, elem, shape, low=None, high=None):
    bounds = QUANTIZED[elem]
    return array(elem, rng.integers(bounds[0] if low is None else low, (bounds[1] if high is None else high) + 1, shape))


def write(folder, name, nodes, feeds, outputs, opset=21, atol=0):
    feeds = {n: np.asarray(v) for n, v in feeds.items()}
    types = {n: (helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in feeds.items()}
    model = cases.model_of(nodes, types, outputs, opset)
    results = cases.in_onnxruntime(model, feeds)
    assert results is not None, f"onnxruntime does not run {name}"
    cases.write_case(folder / name, model, feeds, results, 1e-6, atol)


def passes(folder):
    failed, lines, done = cases.failures(folder)
    assert lines, done.stderr
    assert not failed, "\n".join(failed)


def granularities(rng, shape, axis, block):
    """name, shape of the scales, attributes"""
    blocks = list(shape)
    blocks[axis] = -(-shape[axis] // block)
    return [("tensor", (), {}), ("axis", (shape[axis],), {"axis": axis}), ("last", (shape[-1],), {"axis": -1}),
            ("blocked", tuple(blocks), {"axis": axis, "block_size": block})]


@pytest.mark.parametrize("elem", list(QUANTIZED))
def test_linear(elem, tmp_path):
    rng, shape = np.random.default_rng(elem), (2, 6, 3)
    low, high = QUANTIZED[elem]
    for name, scales, attributes in granularities(rng, shape, 1, 2):
        scale = rng.uniform(0.1, 2, scales).astype(np.float32)
        for zero in (False, True):
            x = (rng.normal(size=shape) * (high - low) * 0.6).astype(np.float32)
            feeds = {"x": x, "scale": scale}
            extra = {} if zero else {"output_dtype": elem}
            if zero:
                feeds["zero"] = whole(rng, elem, scales)
            node = helper.make_node("QuantizeLinear", list(feeds), ["y"], **attributes, **extra)
            write(tmp_path, f"quantize_{name}_{zero}", [node], feeds, ["y"])
            feeds["x"] = whole(rng, elem, shape)
            node = helper.make_node("DequantizeLinear", list(feeds), ["y"], **attributes)
            write(tmp_path, f"dequantize_{name}_{zero}", [node], feeds, ["y"], atol=1e-6 * (high - low))
    passes(tmp_path)


def test_dynamic(tmp_path):
    rng = np.random.default_rng(1)
    for k, x in enumerate([rng.normal(size=(3, 5)), rng.uniform(2, 5, (4,)), -rng.uniform(2, 5, (4,)), np.zeros(3)]):
        node = helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"])
        write(tmp_path, f"dynamic_{k}", [node], {"x": x.astype(np.float32)}, ["y", "scale", "zero"], atol=1e-6)
    passes(tmp_path)


@pytest.mark.parametrize("left,right", [(T.UINT8, T.UINT8), (T.UINT8, T.INT8), (T.INT8, T.INT8)])
def test_products(left, right, tmp_path):
    rng = np.random.default_rng(5)
    a, b = whole(rng, left, (2, 4, 5)), whole(rng, right, (5, 3))
    x, w = whole(rng, left, (1, 4, 6, 5)), whole(rng, right, (4, 2, 3, 2))
    window = {"strides": [2, 1], "pads": [1, 0, 1, 1], "group": 2}
    a_zero, b_zero = whole(rng, left, ()), whole(rng, right, ())
    for name, one, two in (("none", "", ""), ("left", "az", ""), ("both", "az", "bz"), ("right", "", "bz")):
        zeros = {n: v for n, v in (("az", a_zero), ("bz", b_zero)) if n in (one, two)}
        node = helper.make_node("MatMulInteger", ["a", "b", one, two], ["y"])
        write(tmp_path, f"matmul_{name}", [node], {"a": a, "b": b, **zeros}, ["y"])
        if right == T.UINT8 and left == T.UINT8:  # what onnxruntime has
            node = helper.make_node("ConvInteger", ["x", "w", one, two], ["y"], **window)
            write(tmp_path, f"conv_{name}", [node], {"x": x, "w": w, **zeros}, ["y"])
    scales = {n: np.float32(rng.uniform(0.01, 0.1)) for n in ("as", "bs")}
    scales["ys"] = np.float32(1.7)
    y_zero = whole(rng, left, ())
    names = ["a", "as", "az", "b", "bs", "bz", "ys", "yz"]
    for per_column in (False, True):
        bs = rng.uniform(0.01, 0.1, 3).astype(np.float32) if per_column else scales["bs"]
        bz = np.full(3, b_zero, b_zero.dtype) if per_column else b_zero
        feeds = dict(zip(names, [a, scales["as"], a_zero, b, bs, bz, scales["ys"], y_zero]))
        node = helper.make_node("QLinearMatMul", names, ["y"])
        write(tmp_path, f"qlinear_matmul_{per_column}", [node], feeds, ["y"])
        ws = rng.uniform(0.01, 0.1, 4).astype(np.float32) if per_column else scales["bs"]
        wz = np.full(4, b_zero, b_zero.dtype) if per_column else b_zero
        bias = rng.integers(-500, 500, 4).astype(np.int32)
        feeds = dict(zip(names + ["bias"], [x, scales["as"], a_zero, w, ws, wz, scales["ys"], y_zero, bias]))
        node = helper.make_node("QLinearConv", names + ["bias"], ["y"], **window)
        write(tmp_path, f"qlinear_conv_{per_column}", [node], feeds, ["y"])
    passes(tmp_path)
