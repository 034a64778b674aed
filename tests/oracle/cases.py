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

# Relative tolerances of one operator: a few units in the last place, more where functions are not correctly rounded
# (onnxruntime computes some functions of doubles in floats).
TOLERANCE = {TensorProto.FLOAT: 2e-5, TensorProto.DOUBLE: 2e-7, TensorProto.FLOAT16: 2e-3, TensorProto.BFLOAT16: 2e-2}


def model_of(nodes, inputs, outputs, opset, initializers=()):
    """inputs: name -> (element type, shape); outputs: names."""
    graph = helper.make_graph(
        nodes, "case", [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [helper.make_value_info(n, onnx.TypeProto()) for n in outputs], initializer=list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model, strict_mode=False)


def float_twin(model, feeds):
    """The same model on float inputs, for element types that onnxruntime has no kernel for."""
    twin = onnx.ModelProto()
    twin.CopyFrom(model)
    for value in twin.graph.input:
        if value.type.tensor_type.elem_type in TOLERANCE:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    for value in twin.graph.output:
        value.ClearField("type")
    twin.graph.ClearField("value_info")
    twin = onnx.shape_inference.infer_shapes(twin)
    return twin, {n: v.astype(np.float32) if v.dtype.kind == "f" or v.dtype.name == "bfloat16" else v
                  for n, v in feeds.items()}


def in_onnxruntime(model, feeds):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, feeds)
    except Exception:
        return None


def oracle(model, feeds):
    """Results, who gave them, and their relative accuracy: onnxruntime; onnxruntime in floats, rounded, where it lacks the
    type; ONNX's reference evaluator, which computes some functions in floats; or None."""
    types = {v.type.tensor_type.elem_type for v in model.graph.input}
    own = max((TOLERANCE.get(t, 0) for t in types), default=0)
    narrow = types & {TensorProto.FLOAT16, TensorProto.BFLOAT16}
    if not narrow and (results := in_onnxruntime(model, feeds)) is not None:
        return results, "onnxruntime", own
    if types & set(TOLERANCE) and (results := in_onnxruntime(*float_twin(model, feeds))) is not None:
        wanted = helper.tensor_dtype_to_np_dtype(next(iter(types & set(TOLERANCE))))
        results = [r.astype(wanted) if r.dtype == np.float32 else r for r in results]
        return results, "onnxruntime in floats", max(own, TOLERANCE[TensorProto.FLOAT])
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(model).run(None, feeds)
    except Exception:
        return None, "none", own
    declared = [helper.tensor_dtype_to_np_dtype(o.type.tensor_type.elem_type) for o in model.graph.output]
    if any(r.dtype != d for r, d in zip(results, declared)):
        return None, "none", own  # numpy's promotion, not ONNX's type
    return results, "reference", max(own, 1e-6)


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
