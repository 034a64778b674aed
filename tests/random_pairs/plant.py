"""Pairs of models for `verify`: `pair_of(seed)` is a model, another one, and what is known of the two. Equal pairs are rewritten by laws of arithmetic;
in the others one difference was planted. The models come from tests/random_models, and from layers of which one weight or one integer decides."""
import dataclasses
import pathlib
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "random_models"))
import models  # noqa: E402
from build import Given, value_info  # noqa: E402


@dataclasses.dataclass
class Pair:
    kind: str
    a: onnx.ModelProto
    b: onnx.ModelProto
    case: models.Case  # draws the inputs
    equal: bool  # by construction
    certain: bool = False  # that planted differences are above rounding, though runs in f32 may not show them


def small(nodes, inputs, output, weights=()):
    """A model of few nodes; inputs and the output as (name, type, shape)."""
    infos = [value_info(*i) for i in inputs]
    initializers = [numpy_helper.from_array(np.asarray(w), n) for n, w in weights]
    graph = helper.make_graph(nodes, "pair", infos, [value_info(*output)], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def case_of(model, inputs):
    return models.Case("layer", model, [Given(n, np.dtype(t), list(s)) for n, t, s in inputs])


# Layers.


def layer(rng, weight):
    kind = rng.integers(3)
    if kind == 0:
        inputs = [("x", np.float32, [int(rng.integers(1, 4)), weight.shape[1], 5, 5])]
        return [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])], inputs
    flat = weight.reshape(weight.shape[0], -1)
    inputs = [("x", np.float32, [3, flat.shape[1]])]
    head = [helper.make_node("Constant", [], ["shape"], value=numpy_helper.from_array(np.array(flat.shape))), helper.make_node("Reshape", ["w", "shape"], ["f"])]
    gemm = [helper.make_node("Gemm", ["x", "f"], ["y"], transB=1)]
    product = [helper.make_node("Transpose", ["f"], ["t"], perm=[1, 0]), helper.make_node("MatMul", ["x", "t"], ["y"])]
    return head + (gemm if kind == 1 else product), inputs


def one_weight(rng, steps, equal):
    """One weight of a layer is so many of its own roundings away; channels have scales of their own."""
    out, inner = int(rng.integers(1, 9)), int(rng.integers(1, 9))
    scale = 10.0 ** rng.integers(-6, 7, size=(out, 1, 1, 1))
    weight = (rng.normal(size=(out, inner, 3, 3)) * scale).astype(np.float32)
    other = weight.copy()
    at = tuple(int(rng.integers(n)) for n in weight.shape)
    moved = np.float32(weight[at])
    for _ in range(steps):
        moved = np.nextafter(moved, np.float32(np.inf))
    other[at] = moved
    nodes, inputs = layer(rng, weight)
    output = ("y", np.float32, None)
    a, b = (small(nodes, inputs, output, [("w", w)]) for w in (weight, other))
    return Pair("a weight by one rounding" if steps == 1 else "a weight by some roundings", a, b, case_of(a, inputs), equal, certain=True)


INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]


def wrapping(rng):
    """Laws of order and division, which fail for integers that wrap."""
    dtype = INTEGERS[rng.integers(len(INTEGERS))]
    signed = np.dtype(dtype).kind == "i"
    n = helper.make_node
    c = dtype(rng.integers(2, 9))
    laws = [
        ([n("Add", ["x", "c"], ["s"]), n("Max", ["s", "x"], ["y"])], [n("Add", ["x", "c"], ["y"])], dtype),
        ([n("Mul", ["x", "c"], ["m"]), n("Div", ["m", "c"], ["y"])], [n("Identity", ["x"], ["y"])], dtype),
        ([n("Add", ["x", "c"], ["s"]), n("Greater", ["s", "x"], ["y"])], [n("Equal", ["x", "x"], ["y"])], np.bool_),
    ]
    if signed:
        laws += [
            ([n("Sub", ["x", "z"], ["d"]), n("Sub", ["c", "c"], ["o"]), n("Greater", ["d", "o"], ["y"])], [n("Greater", ["x", "z"], ["y"])], np.bool_),
            ([n("Abs", ["x"], ["a"]), n("Sub", ["c", "c"], ["o"]), n("Less", ["a", "o"], ["y"])], [n("Less", ["x", "x"], ["y"])], np.bool_),
        ]
    left, right, out = laws[rng.integers(len(laws))]
    inputs = [("x", dtype, [4]), ("z", dtype, [4])]
    a, b = (small(nodes, inputs, ("y", out, [4]), [("c", c)]) for nodes in (left, right))
    return Pair("integers that wrap", a, b, case_of(a, inputs), False, certain=True)


def ring(rng):
    """Laws of rings, which hold for integers that wrap."""
    dtype = INTEGERS[rng.integers(len(INTEGERS))]
    n = helper.make_node
    left = [n("Add", ["x", "z"], ["s"]), n("Mul", ["s", "x"], ["y"])]
    right = [n("Mul", ["x", "x"], ["p"]), n("Mul", ["z", "x"], ["q"]), n("Add", ["p", "q"], ["y"])]
    inputs = [("x", dtype, [4]), ("z", dtype, [4])]
    a, b = (small(nodes, inputs, ("y", dtype, [4])) for nodes in (left, right))
    return Pair("a ring's law", a, b, case_of(a, inputs), True)


def tipped(rng):
    """A step behind a product of which one column is another."""
    weight = (rng.normal(size=(4, 3)) * [1e7, 1, 1e-3]).astype(np.float32)
    other = weight.copy()
    other[:, int(rng.integers(3))] *= -1
    step = helper.make_node(["Sign", "Floor", "Round"][rng.integers(3)], ["m"], ["y"])
    inputs = [("x", np.float32, [5, 4])]
    a, b = (small([helper.make_node("MatMul", ["x", "w"], ["m"]), step], inputs, ("y", np.float32, [5, 3]), [("w", w)]) for w in (weight, other))
    return Pair("a step tipped", a, b, case_of(a, inputs), False)


# Changes of random models. Each returns whether it found a place.


def floats(model):
    return [i for i in model.graph.initializer if numpy_helper.to_array(i).dtype.kind == "f" and numpy_helper.to_array(i).size > 0]


def replaced(initializer, values):
    initializer.CopyFrom(numpy_helper.from_array(values, initializer.name))


def change_weight(model, rng):
    places = floats(model)
    if not places:
        return False
    chosen = places[rng.integers(len(places))]
    values = numpy_helper.to_array(chosen).copy()
    flat = values.reshape(-1)
    flat[rng.integers(flat.size)] += values.dtype.type(max(1e-2, np.abs(flat).max()) * 10.0 ** -rng.integers(0, 4))
    replaced(chosen, values)
    return True


def flip_channel(model, rng):
    places = [i for i in floats(model) if numpy_helper.to_array(i).ndim > 0]
    if not places:
        return False
    chosen = places[rng.integers(len(places))]
    values = numpy_helper.to_array(chosen).copy()
    axis = int(rng.integers(values.ndim))
    np.moveaxis(values, axis, 0)[rng.integers(values.shape[axis])] *= -1
    replaced(chosen, values)
    return True


def drop_operator(model, rng):
    places = [n for n in model.graph.node if n.op_type in "Relu Tanh Sigmoid Exp Neg Abs Sqrt Erf Floor Sign Softplus LeakyRelu Softmax Reciprocal Log".split()]
    if not places:
        return False
    node = places[rng.integers(len(places))]
    node.op_type = "Identity"
    del node.attribute[:]
    return True


SWAPS = {"Max": "Min", "Min": "Max", "Add": "Sub", "Sub": "Add", "Less": "Greater", "Greater": "GreaterOrEqual", "Floor": "Ceil", "Round": "Floor", "Mul": "Add"}
SWAPS |= {"ReduceMax": "ReduceMin", "Tanh": "Sigmoid", "Sigmoid": "Tanh", "ReduceMin": "ReduceMax", "And": "Or", "ReduceMean": "ReduceMax", "AveragePool": "MaxPool"}


def swap_operator(model, rng):
    places = [n for n in model.graph.node if n.op_type in SWAPS and not n.attribute]
    if not places:
        return False
    node = places[rng.integers(len(places))]
    node.op_type = SWAPS[node.op_type]
    return True


def change_attribute(model, rng):
    places = [(n, a) for n in model.graph.node for a in n.attribute if a.type in (onnx.AttributeProto.FLOAT, onnx.AttributeProto.INT, onnx.AttributeProto.INTS)]
    places = [(n, a) for n, a in places if a.name in "alpha beta epsilon axis perm pads strides dilations exclusive reverse largest gamma lambd bias keepdims".split()]
    if not places:
        return False
    _, a = places[rng.integers(len(places))]
    if a.type == onnx.AttributeProto.FLOAT:
        a.f = a.f * 1.05 + 0.01
    elif a.type == onnx.AttributeProto.INT:
        a.i = 1 - a.i if a.i in (0, 1) else a.i + 1
    else:
        values = list(a.ints)
        at = rng.integers(len(values)) if values else 0
        values = values[1:] + values[:1] if a.name == "perm" else [v + (i == at) for i, v in enumerate(values)]
        a.ClearField("ints")
        a.ints.extend(values)
    return True


def shift_slice(model, rng):
    constants = {i.name: i for i in model.graph.initializer}
    places = [n for n in model.graph.node if n.op_type in ("Slice", "Gather") and len(n.input) > 1 and n.input[1] in constants]
    if not places:
        return False
    node = places[rng.integers(len(places))]
    for name in node.input[1 : 3 if node.op_type == "Slice" else 2]:
        if name in constants:
            values = numpy_helper.to_array(constants[name])
            # What stands for the end stays: the largest number of a type does in onnxruntime whatever the step, and not in the standard.
            moved = values - 1 if values.min() > 0 else values + 1
            replaced(constants[name], np.where((values >= 2**30) | (values <= -(2**30)), values, moved).astype(values.dtype))
    return True


PLANTED = [change_weight, flip_channel, drop_operator, swap_operator, change_attribute, shift_slice]


# Rewriting by laws.


def spelled(model, rng, opset):
    """Nodes written otherwise: commuted, negated, scaled and back, through an Identity."""
    nodes, fresh, changed = [], 0, False
    constants = {i.name for i in model.graph.initializer}
    types = {i.name: i.data_type for i in model.graph.initializer}
    for node in list(model.graph.node):
        drawn, op = rng.random(), node.op_type
        if op in ("Add", "Mul", "Max", "Min", "And", "Or", "Equal") and len(node.input) == 2 and drawn < 0.6:
            swapped = [node.input[1], node.input[0]]
            del node.input[:]
            node.input.extend(swapped)
            changed = True
        elif op == "Sub" and drawn < 0.7 and len(node.input) == 2 and opset >= 13 and all(i not in constants or types[i] == 1 for i in node.input):
            fresh += 1
            nodes.append(helper.make_node("Identity", [node.input[1]], [f"same{fresh}"]))
            node.input[1] = f"same{fresh}"
            changed = True
        elif op == "Relu" and drawn < 0.8:
            fresh += 1
            nodes.append(helper.make_node("Relu", [node.input[0]], [f"again{fresh}"]))
            node.input[0] = f"again{fresh}"
            changed = True
        elif op in ("Tanh", "Sigmoid", "Abs", "Floor", "Exp", "Conv", "MatMul", "Gemm", "Softmax") and drawn < 0.6 and not node.attribute:
            fresh += 1
            nodes.append(helper.make_node("Identity", [node.input[0]], [f"same{fresh}"]))
            node.input[0] = f"same{fresh}"
            changed = True
        nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return changed


def folded(rng):
    """A scale behind a layer, and the same folded into its weights, rounded once."""
    weight = rng.normal(size=(int(rng.integers(1, 6)), int(rng.integers(1, 6)), 3, 3)).astype(np.float32)
    scale = (10.0 ** rng.integers(-3, 4) * rng.normal(size=(weight.shape[0], 1, 1))).astype(np.float32)
    inputs = [("x", np.float32, [2, weight.shape[1], 6, 6])]
    conv = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    apart = [helper.make_node("Conv", ["x", "w"], ["v"], pads=[1, 1, 1, 1]), helper.make_node("Mul", ["v", "s"], ["y"])]
    a = small(apart, inputs, ("y", np.float32, None), [("w", weight), ("s", scale)])
    b = small([conv], inputs, ("y", np.float32, None), [("w", (weight * scale[..., None]).astype(np.float32))])
    return Pair("folded weights", a, b, case_of(a, inputs), True)


def of_random_model(seed, rng):
    case = models.model_of(seed)
    if case is None:
        return None
    other = onnx.ModelProto()
    other.CopyFrom(case.model)
    if rng.random() < 0.35:
        changed = spelled(other, rng, case.model.opset_import[0].version)
        return Pair("written otherwise", case.model, other, case, True) if changed else None
    plant = PLANTED[rng.integers(len(PLANTED))]
    return Pair(plant.__name__.replace("_", " "), case.model, other, case, False) if plant(other, rng) else None


def pair_of(seed):
    """None where nothing came about."""
    rng = np.random.default_rng([seed, 77])
    drawn = rng.random()
    if drawn < 0.08:
        return one_weight(rng, int(rng.integers(24, 1000)), False)
    if drawn < 0.12:
        return one_weight(rng, 1, True)
    if drawn < 0.18:
        return wrapping(rng)
    if drawn < 0.22:
        return ring(rng)
    if drawn < 0.26:
        return tipped(rng)
    if drawn < 0.34:
        return folded(rng)
    return of_random_model(seed, rng)
