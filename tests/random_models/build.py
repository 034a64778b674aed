"""A model grown node by node. Each node is run by onnxruntime as it is added, alone, on the values that its operands have, so that shapes and types are
known whatever the operator, and one that onnxruntime refuses does not come about."""
import dataclasses

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

MOST_ELEMENTS = 30000
FLOATS = (np.float32, np.float64, np.float16)
SIGNED = (np.int64, np.int32, np.int8, np.int16)
UNSIGNED = (np.uint8, np.uint16, np.uint32, np.uint64)


class Refused(Exception):
    """This node cannot be, or is not wanted, here."""


@dataclasses.dataclass
class Given:
    """An input of the model, and how its values are drawn: data, or places below a bound."""

    name: str
    dtype: np.dtype
    shape: list
    below: int = 0
    symbols: dict = dataclasses.field(default_factory=dict)  # axis: symbol


def session(model, threads=1):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    content = model if isinstance(model, (bytes, str)) else model.SerializeToString()
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def value_info(name, dtype, shape):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)


def known(op, domain, opset):
    """onnxruntime takes some operators before the standard has them."""
    try:
        onnx.defs.get_schema(op, 3 if domain else opset, domain)
        return True
    except onnx.defs.SchemaError:
        return False


# The version of the file format that came with a version of the operators.
IR = {13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11}


class Builder:
    def __init__(self, rng, opset, prefix=""):
        self.rng, self.opset, self.prefix = rng, opset, prefix
        self.nodes, self.inputs, self.constants, self.values, self.order = [], [], {}, {}, []
        self.of_one_size = False
        self.count = 0

    # Drawing.
    def chance(self, p):
        return self.rng.random() < p

    def choose(self, *options):
        options = options[0] if len(options) == 1 else options
        return options[int(self.rng.integers(len(options)))]

    def int(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def name(self, kind="v"):
        self.count += 1
        return f"{self.prefix}{kind}{self.count}"

    # Values.
    def array(self, shape, dtype, scale=1.0):
        dtype = np.dtype(dtype)
        if dtype == np.bool_:
            return self.rng.random(shape) < 0.5
        if dtype.kind == "f":
            style = self.rng.random()
            drawn = self.rng.normal(size=shape) * scale
            return (np.round(drawn * 2) if style < 0.15 else drawn).astype(dtype)
        low = 0 if dtype.kind == "u" else -5
        return self.rng.integers(low, 6, shape).astype(dtype)

    def input(self, shape, dtype=np.float32, below=0):
        given = Given(self.name("x"), np.dtype(dtype), list(shape), below)
        self.inputs.append(given)
        value = self.rng.integers(0, below, shape).astype(dtype) if below else self.array(shape, dtype)
        return self.keep(given.name, value)

    def constant(self, value, dtype=None):
        value = np.asarray(value, dtype)
        name = self.name("c")
        self.constants[name] = value
        self.values[name] = value
        return name

    def keep(self, name, value):
        self.values[name] = value
        self.order.append(name)
        return name

    def shape(self, name):
        return list(self.values[name].shape)

    def dtype(self, name):
        return self.values[name].dtype

    def pick(self, where=lambda v: True, fresh=0.35):
        """A value made already, the later the likelier, for which this holds."""
        fit = [n for n in self.order if isinstance(self.values[n], np.ndarray) and where(self.values[n])]
        if not fit:
            raise Refused("no such value")
        return fit[-1] if self.chance(fresh) else self.choose(fit)

    def pick_float(self, rank=None, least=0):
        return self.pick(lambda v: v.dtype.kind == "f" and (rank is None or v.ndim == rank) and v.ndim >= least and v.size > 0)

    # Nodes.
    def add(self, op, inputs, outputs=1, domain="", **attributes):
        if not known(op, domain, self.opset):
            raise Refused(f"no {op} yet at opset {self.opset}")
        node = helper.make_node(op, [i or "" for i in inputs], [self.name() for _ in range(outputs)], domain=domain, name=self.name("n"), **attributes)
        return self.append(node)

    def append(self, node):
        results = self.run([node], list(node.output))
        for value in results:
            if isinstance(value, np.ndarray) and (value.size > MOST_ELEMENTS or value.ndim > 6):
                raise Refused("too large")
        if "Pool" in node.op_type and not self.fits(node):
            raise Refused("the window is larger than the image, where onnxruntime rounds sizes differently than the standard")
        self.nodes.append(node)
        for name, value in zip(node.output, results):
            self.keep(name, value)
        return node.output[0] if len(node.output) == 1 else list(node.output)

    def fits(self, node):
        given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        window, image = given.get("kernel_shape", []), self.shape(node.input[0])[2:]
        pads = given.get("pads", [0] * 2 * len(window))
        return all(w <= d + p + q for w, d, p, q in zip(window, image, pads, pads[len(window):]))

    def run(self, nodes, wanted):
        made = {o for n in nodes for o in n.output}
        read = dict.fromkeys(i for n in nodes for i in n.input if i and i not in made)
        fed = [i for i in read if i not in self.constants]
        if any(not isinstance(self.values[i], np.ndarray) for i in fed):
            return self.run_lists(nodes, wanted)
        graph = helper.make_graph(
            nodes, "one", [value_info(i, self.values[i].dtype, self.values[i].shape) for i in fed], [onnx.ValueInfoProto(name=w) for w in wanted],
            [numpy_helper.from_array(self.constants[i], i) for i in read if i in self.constants])
        try:
            return session(self.model_of(graph)).run(None, {i: self.values[i] for i in fed})
        except Exception as e:
            raise Refused(str(e)) from e

    def run_lists(self, nodes, wanted):
        """What reads sequences is run with everything that was before it: they cannot be fed."""
        needed, all_nodes = {i for n in nodes for i in n.input}, list(nodes)
        for node in reversed(self.nodes):
            if needed & set(node.output):
                all_nodes.insert(0, node)
                needed |= set(node.input)
        read = {i for n in all_nodes for i in n.input}
        graph = helper.make_graph(
            all_nodes, "many", [value_info(g.name, g.dtype, g.shape) for g in self.inputs if g.name in read], [onnx.ValueInfoProto(name=w) for w in wanted],
            [numpy_helper.from_array(v, n) for n, v in self.constants.items() if n in read])
        try:
            return session(self.model_of(graph)).run(None, {g.name: self.values[g.name] for g in self.inputs if g.name in read})
        except Exception as e:
            raise Refused(str(e)) from e

    def model_of(self, graph):
        domains = {n.domain for n in graph.node}
        opsets = [helper.make_opsetid("", self.opset)] + ([helper.make_opsetid("ai.onnx.ml", 3)] if "ai.onnx.ml" in domains else [])
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR[self.opset])

    # Common patterns.
    def linear(self, x, width, bias=True):
        k = self.shape(x)[-1]
        y = self.add("MatMul", [x, self.constant(self.array([k, width], self.dtype(x), k**-0.5))])
        return self.add("Add", [y, self.constant(self.array([width], self.dtype(x), 0.3))]) if bias else y

    def conv(self, x, width, kernel=3, stride=1, group=1, dilation=1, pad=None, bias=True, op="Conv", **more):
        shape, rank = self.shape(x), len(self.shape(x)) - 2
        channels = shape[1]
        pad = dilation * (kernel // 2) if pad is None else pad
        sizes = [width, channels // group] if op == "Conv" else [channels, width // group]
        scale = (max(1, channels // group) * kernel**rank) ** -0.5
        inputs = [x, self.constant(self.array(sizes + [kernel] * rank, self.dtype(x), scale))]
        if bias:
            inputs.append(self.constant(self.array([width], self.dtype(x), 0.3)))
        return self.add(op, inputs, kernel_shape=[kernel] * rank, strides=[stride] * rank, dilations=[dilation] * rank, pads=[pad] * (2 * rank), group=group, **more)

    def batch_norm(self, x):
        c, dtype = self.shape(x)[1], self.dtype(x)
        positive = lambda: self.constant(self.rng.uniform(0.5, 1.5, c), dtype)
        return self.add("BatchNormalization", [x, positive(), self.constant(self.array([c], dtype, 0.3)), self.constant(self.array([c], dtype, 0.3)), positive()])

    def reshape(self, x, shape):
        return self.add("Reshape", [x, self.constant(shape, np.int64)])

    def activation(self, x):
        op = self.choose("Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip", "Silu", "Gelu", "HardSwish", "Softplus", "Elu")
        if op == "Silu":
            return self.add("Mul", [x, self.add("Sigmoid", [x])])
        if op == "Clip":
            return self.add("Clip", [x, self.constant(0, self.dtype(x)), self.constant(6, self.dtype(x))])
        if op == "Gelu":
            half, one, root = (self.constant(v, self.dtype(x)) for v in (0.5, 1.0, 2**-0.5))
            return self.add("Mul", [self.add("Mul", [x, half]), self.add("Add", [self.add("Erf", [self.add("Mul", [x, root])]), one])])
        return self.add(op, [x])

    def optional(self, make):
        """What cannot be is left out."""
        try:
            return make()
        except Refused:
            return None
