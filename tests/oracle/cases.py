"""Test cases in ONNX's own layout (model.onnx, test_data_set_0/input_k.pb, output_k.pb, data.json), so that one run of
`emend conformance` checks thousands of them."""
import json, os, pathlib, subprocess

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

EMEND = os.environ.get("EMEND", "build/emend")
onnxruntime.set_default_logger_severity(4)

# Relative tolerances of one operator: a few units in the last place, more where functions are not correctly rounded.
TOLERANCE = {TensorProto.FLOAT: 2e-5, TensorProto.DOUBLE: 1e-9, TensorProto.FLOAT16: 2e-3, TensorProto.BFLOAT16: 2e-2}


def model_of(nodes, inputs, outputs, opset, initializers=()):
    """inputs: name -> (element type, shape); outputs: names."""
    graph = helper.make_graph(
        nodes, "case", [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [helper.make_value_info(n, onnx.TypeProto()) for n in outputs], initializer=list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model, strict_mode=False)


def oracle(model, feeds):
    """What onnxruntime says, or ONNX's reference where onnxruntime has no kernel; None if neither has one."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    narrow = any(v.dtype.name in ("bfloat16", "float8_e4m3fn") for v in feeds.values())
    if not narrow:
        try:
            session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            return session.run(None, feeds), "onnxruntime"
        except Exception:
            pass
    try:
        with np.errstate(all="ignore"):
            return ReferenceEvaluator(model).run(None, feeds), "reference"
    except Exception:
        return None, "none"


def write_case(folder, model, feeds, results, rtol, atol):
    data = pathlib.Path(folder) / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    onnx.save(model, pathlib.Path(folder) / "model.onnx")
    (pathlib.Path(folder) / "data.json").write_text(json.dumps({"rtol": rtol, "atol": atol}))
    for kind, tensors in (("input", feeds.values()), ("output", results)):
        for k, tensor in enumerate(tensors):
            proto = numpy_helper.from_array(np.array(tensor, order="C"))
            (data / f"{kind}_{k}.pb").write_bytes(proto.SerializeToString())


def failures(folder):
    """Lines of the cases that Emend fails."""
    done = subprocess.run([EMEND, "conformance", str(folder), "--list"], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    return [line for line in lines if "fail" in line.lower()], lines, done
