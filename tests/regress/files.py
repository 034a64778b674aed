"""The files that once showed a fault. `NN-name.onnx` are of an attack, by the number of the finding, with inputs beside them; `name.onnx.gz` are exports
of ordinary networks without their larger weights, which are drawn again with the mean and the deviation that they had."""
import gzip, pathlib

import numpy as np
import onnx
from onnx import helper, numpy_helper

FOLDER = pathlib.Path(__file__).parent


def attack(name):
    return FOLDER / f"{name}.onnx"


def inputs_of(name):
    """Inputs that stand beside the model: x alone, where nothing else is said."""
    return {"x": np.load(FOLDER / f"{name}_x.npy")}


def filled(graph, rng):
    inner = [a.g for n in graph.node for a in n.attribute if a.HasField("g")]
    tensors = [*graph.initializer, *(a.t for n in graph.node for a in n.attribute if a.HasField("t"))]
    for t in tensors:
        if t.doc_string:
            mean, deviation = map(float, t.doc_string.split())
            dtype = helper.tensor_dtype_to_np_dtype(t.data_type)
            values = rng.normal(mean, deviation, t.dims)
            if dtype.kind in "iu":
                values = np.clip(np.round(values), np.iinfo(dtype).min, np.iinfo(dtype).max)
            t.CopyFrom(numpy_helper.from_array(values.astype(dtype), t.name))
    for g in inner:
        filled(g, rng)


def export(name):
    model = onnx.ModelProto.FromString(gzip.decompress((FOLDER / f"{name}.onnx.gz").read_bytes()))
    filled(model.graph, np.random.default_rng(1))
    return model
