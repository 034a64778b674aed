"""The nine `light` CNNs of ONNX's suite with weights worth testing: the files generate theirs by ConstantOfShape, all equal,
which hides wrong rewrites. Here every generated or stored weight is replaced by a seeded random one of sensible scale."""
import os, pathlib

import numpy as np
import onnx
from onnx import numpy_helper

FOLDER = pathlib.Path(os.environ.get("EMEND_ONNX_DATA", "")) / "light"
NAMES = ["bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet", "vgg19",
         "zfnet512"]


def roles(graph):
    """name of a weight -> what it is used for, seen through Unsqueeze."""
    found = {}
    alias = {n.output[0]: n.input[0] for n in graph.node if n.op_type == "Unsqueeze"}
    for node in graph.node:
        kinds = {"Conv": ["", "filter", "bias"], "Gemm": ["", "matrix", "bias"],
                 "BatchNormalization": ["", "scale", "bias", "mean", "variance"], "Mul": ["", "scale"], "Add": ["", "bias"]}
        for kind, name in zip(kinds.get(node.op_type, []), node.input):
            if kind:
                found[alias.get(name, name)] = kind
    return found


def draw(rng, kind, shape):
    if kind in ("filter", "matrix"):
        # Gemm's matrix is [out, in] in these files; filters are [out, in, h, w].
        return rng.normal(size=shape) * np.sqrt(2.0 / max(1, int(np.prod(shape[1:]))))
    if kind == "bias" or kind == "mean":
        return rng.normal(size=shape) * 0.1
    return rng.uniform(0.6, 1.4, size=shape)


def scaled(name):
    """The small file itself, its generated weights scaled so that values stay of order one: as the file has them they grow until
    the last softmax shows nothing but the rounding before it."""
    model = onnx.load(FOLDER / f"light_{name}.onnx")
    shapes = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "ConstantOfShape":
            shape = shapes[node.input[0]]
            value = 1 / np.prod(shape[1:]) if len(shape) > 1 else 0.5
            node.attribute[0].t.CopyFrom(numpy_helper.from_array(np.array([value], np.float32)))
    return model


def refilled(name, seed):
    """The model with seeded weights as initializers, and its one real input."""
    model = onnx.load(FOLDER / f"light_{name}.onnx")
    graph, rng = model.graph, np.random.default_rng(seed)
    use = roles(graph)
    shapes = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    weights = {}
    for node in list(graph.node):
        if node.op_type == "ConstantOfShape":
            shape = [int(d) for d in shapes[node.input[0]]]
            weights[node.output[0]] = draw(rng, use.get(node.output[0], "scale"), shape)
            graph.node.remove(node)
    kept = []
    needed = {name for node in graph.node for name in node.input}
    for i in graph.initializer:
        if use.get(i.name):
            weights[i.name] = draw(rng, use[i.name], list(i.dims))
        elif i.name in needed:
            kept.append(i)
    graph.ClearField("initializer")
    graph.initializer.extend(kept)
    graph.initializer.extend(numpy_helper.from_array(w.astype(np.float32), n) for n, w in weights.items())
    stored = {i.name for i in graph.initializer}
    inputs = [i for i in graph.input if i.name in needed]
    graph.ClearField("input")
    graph.input.extend(inputs)
    data = next(i for i in inputs if i.name not in stored)
    shape = [d.dim_value for d in data.type.tensor_type.shape.dim]
    return model, data.name, rng.normal(size=shape).astype(np.float32)
