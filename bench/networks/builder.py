"""A model grown layer by layer, in the words of who writes networks: conv, linear, norm, act. The layers become the nodes that exporters make of them,
named by where they stand (`stage1.block0.conv1`). Shapes come from ONNX's own inference, so that no operator is described a second time here. Weights
are only noted while a network grows, and drawn when it is finished: one that turns out too large costs nothing."""
import collections, contextlib, math

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

from .layers import ACTIVATIONS, NORMS

OPSET, IR = 17, 8
MEGABYTE = 1 << 20
# For an estimate of a run on two cores that is good enough to keep networks small: how much a millisecond does.
OPERATIONS_PER_MS, ELEMENTS_PER_MS = 2.5e8, 2e6

Weight = collections.namedtuple("Weight", "shape scale around")


class Builder:
    def __init__(self, rng, batch=1):
        self.rng, self.batch = rng, batch
        self.nodes, self.inputs, self.results = [], [], []
        self.types, self.weights, self.constants = {}, {}, {}
        self.path, self.used = "", collections.Counter()
        self.habits, self.operations, self.elements = {}, 0, 0
        # The style of a network: what `act()` and `norm()` make when nothing is said.
        self.activation, self.folded, self.image_norm, self.token_norm = "relu", False, "batch", "layer"

    # Drawing.
    def chance(self, p):
        return self.rng.random() < p

    def choose(self, *options):
        return options[int(self.rng.integers(len(options)))]

    def int(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def habit(self, what, *options):
        """Drawn once: who wrote the network has one way to write this."""
        if what not in self.habits:
            self.habits[what] = self.choose(*options)
        return self.habits[what]

    def style(self, *activations):
        """One activation for the whole network, and whether its batch norms stand there or went into the weights before the file was written."""
        self.activation = self.choose(*activations)
        self.folded = self.chance(0.5)

    # Names.
    def unique(self, label):
        path = self.path + label
        self.used[path] += 1
        return path if self.used[path] == 1 else self.unique(f"{label}_{self.used[path] - 1}")

    @contextlib.contextmanager
    def scope(self, label):
        outside, self.path = self.path, self.unique(label) + "."
        yield
        self.path = outside

    # Values.
    def input(self, name, shape, kind=TensorProto.FLOAT):
        """The batch comes in front by itself."""
        info = helper.make_tensor_value_info(name, kind, [self.batch, *shape])
        self.inputs.append(info)
        self.types[name] = info.type
        self.used[name] += 1
        return name

    def weight(self, name, shape, scale, around=0.0):
        name = self.unique(name)
        self.weights[name] = Weight(tuple(shape), scale, around)
        self.types[name] = helper.make_tensor_type_proto(TensorProto.FLOAT, shape)
        return name

    def constant(self, value, kind=np.float32):
        """One name for equal values, in whatever layer they are read."""
        value = np.asarray(value, kind)
        name = "_".join(["c", value.dtype.char, *(str(d) for d in value.shape), *(f"{v:g}" for v in value.ravel()[:8])])
        while name in self.constants and not np.array_equal(self.constants[name], value):
            name += "_"
        self.constants[name] = value
        self.types[name] = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        return name

    def whole(self, *values):
        return self.constant(values, np.int64)

    def shape(self, x):
        return [d.dim_value for d in self.types[x].tensor_type.shape.dim]

    def channels(self, x):
        return self.shape(x)[1]

    def width(self, x):
        return self.shape(x)[-1]

    # Nodes.
    def add(self, op, *inputs, name=None, outputs=1, **attributes):
        name = self.unique(name or op.lower())
        made = [name] if outputs == 1 else [f"{name}.{i}" for i in range(outputs)]
        node = helper.make_node(op, inputs, made, name=name, **attributes)
        read = [i for i in inputs if i]
        known = {i: numpy_helper.from_array(self.constants[i], i) for i in read if i in self.constants}
        found = shape_inference.infer_node_outputs(onnx.defs.get_schema(op, OPSET), node, {i: self.types[i] for i in read}, known,
                                                   opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)
        self.types.update(found)
        self.nodes.append(node)
        for shape in map(self.shape, made):
            assert shape and all(d > 0 for d in shape), f"{name}: no shape for {op} of {[self.shape(i) for i in read]}"
        self.count(node, read, made)
        return made[0] if outputs == 1 else made

    def count(self, node, read, made):
        size = lambda value: math.prod(self.shape(value))
        if node.op_type == "Conv":
            self.operations += 2 * size(made[0]) * math.prod(self.shape(read[1])[1:])
        elif node.op_type == "ConvTranspose":
            self.operations += 2 * size(read[0]) * math.prod(self.shape(read[1])[1:])
        elif node.op_type in ("MatMul", "Gemm"):
            self.operations += 2 * size(made[0]) * self.shape(read[0])[-1]
        elif node.op_type in ("LSTM", "GRU"):
            self.operations += 2 * math.prod(self.shape(read[0])[:2]) * (size(read[1]) + size(read[2]))
        if node.op_type not in ("Reshape", "Flatten", "Squeeze", "Unsqueeze"):
            # Weights are read in every run, from caches; what a Gather leaves of a table is not.
            self.elements += sum(map(size, made)) + (sum(size(i) for i in read if i in self.weights) / 4 if node.op_type != "Gather" else 0)

    def milliseconds(self):
        return self.operations / OPERATIONS_PER_MS + self.elements / ELEMENTS_PER_MS

    def weight_bytes(self):
        return 4 * sum(math.prod(w.shape) for w in self.weights.values()) + sum(c.nbytes for c in self.constants.values())

    # Layers.
    def conv(self, x, channels, kernel=3, stride=1, dilation=1, groups=1, bias=True, pads=None, name="conv"):
        """Kernel, stride and dilation are a number or one for each axis; without pads the image keeps its size."""
        rank = len(self.shape(x)) - 2
        kernel, strides, dilations = (list(v) if isinstance(v, (tuple, list)) else [v] * rank for v in (kernel, stride, dilation))
        pads = pads or [d * (k // 2) for k, d in zip(kernel, dilations)] * 2
        each = self.channels(x) // groups
        wanted = [self.weight(f"{name}.weight", [channels, each, *kernel], (2 / (each * math.prod(kernel))) ** 0.5)]
        wanted += [self.weight(f"{name}.bias", [channels], 0.1)] if bias else []
        return self.add("Conv", x, *wanted, name=name, kernel_shape=kernel, strides=strides, dilations=dilations, pads=pads, group=groups)

    def deconv(self, x, channels, kernel=2, stride=2, bias=True, name="up"):
        """A transposed convolution that makes the image larger by its stride."""
        rank, given = len(self.shape(x)) - 2, self.channels(x)
        pad, more = (kernel - stride + 1) // 2, (kernel - stride) % 2
        wanted = [self.weight(f"{name}.weight", [given, channels, *[kernel] * rank], (2 * stride**rank / (given * kernel**rank)) ** 0.5)]
        wanted += [self.weight(f"{name}.bias", [channels], 0.1)] if bias else []
        return self.add("ConvTranspose", x, *wanted, name=name, kernel_shape=[kernel] * rank, strides=[stride] * rank, dilations=[1] * rank, group=1,
                        pads=[pad] * (2 * rank), output_padding=[more] * rank)

    def conv_norm(self, x, channels, kernel=3, stride=1, name="conv", **how):
        """A batch norm that was folded before the file was written leaves a bias."""
        folded = self.folded and self.image_norm == "batch"
        x = self.conv(x, channels, kernel, stride, bias=folded, name=name, **how)
        return x if folded else self.norm(x, name=name.replace("conv", "norm") if "conv" in name else f"{name}_norm")

    def conv_act(self, x, channels, kernel=3, stride=1, name="conv", act=None, **how):
        return self.act(self.conv_norm(x, channels, kernel, stride, name=name, **how), act)

    def linear(self, x, width, bias=True, name="linear"):
        """As exporters write it: Gemm of two axes; of more a product and the bias's sum."""
        given = self.width(x)
        if len(self.shape(x)) == 2:
            weights = [self.weight(f"{name}.weight", [width, given], given**-0.5)] + ([self.weight(f"{name}.bias", [width], 0.1)] if bias else [])
            return self.add("Gemm", x, *weights, name=name, transB=1)
        y = self.add("MatMul", x, self.weight(f"{name}.weight", [given, width], given**-0.5), name=name if not bias else f"{name}.product")
        return self.add("Add", self.weight(f"{name}.bias", [width], 0.1), y, name=name) if bias else y

    def act(self, x, kind=None):
        return ACTIVATIONS[kind or self.activation](self, x)

    def norm(self, x, kind=None, name="norm"):
        """The network's norm of images; `token_norm` has the one of its tokens."""
        return NORMS[kind or self.image_norm](self, x, name)

    def normed(self, x, name="norm"):
        return self.norm(x, self.token_norm, name)

    def sum(self, values, name="sum"):
        """Of several values: one Sum or a chain of Adds, both are written."""
        if len(values) > 2 and self.habit("sum", "chain", "chain", "whole") == "whole":
            return self.add("Sum", *values, name=name)
        total = values[0]
        for value in values[1:]:
            total = self.add("Add", total, value, name=name)
        return total

    def reshape(self, x, *shape):
        return self.add("Reshape", x, self.whole(*shape))

    def transpose(self, x, *axes):
        return self.add("Transpose", x, perm=list(axes))

    def slice(self, x, start, end, axis):
        return self.add("Slice", x, self.whole(start), self.whole(end), self.whole(axis))

    def split(self, x, parts, axis):
        """Into that many equal parts, or parts of the sizes given."""
        sizes = parts if isinstance(parts, (list, tuple)) else [self.shape(x)[axis] // parts] * parts
        return self.add("Split", x, self.whole(*sizes), axis=axis, outputs=len(sizes))

    def mean(self, x, *axes, keep=True):
        return self.add("ReduceMean", x, axes=list(axes), keepdims=int(keep), name="mean")

    def resize(self, x, times, mode="nearest"):
        how = {"coordinate_transformation_mode": "half_pixel"}
        if mode == "nearest":
            how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        rank = len(self.shape(x)) - 2
        return self.add("Resize", x, "", self.constant([1, 1] + [times] * rank), mode=mode, **how)

    # The whole.
    def outputs(self, *values):
        """What nobody reads is left out, as exporters do: the residual of a last layer whose skip alone goes on."""
        self.results, read, kept = list(values), set(values), []
        for node in reversed(self.nodes):
            if read & set(node.output):
                read.update(node.input)
                kept.insert(0, node)
        self.nodes = kept
        self.weights, self.constants = ({name: value for name, value in of.items() if name in read} for of in (self.weights, self.constants))

    def model(self, name, seeds):
        rng = np.random.default_rng(seeds)
        initializers = [numpy_helper.from_array(value, key) for key, value in self.constants.items()]
        for key, (shape, scale, around) in self.weights.items():
            # Cut off at two deviations, so that a variance around 1 stays above 0.
            value = around + scale * np.clip(rng.standard_normal(shape, np.float32), -2, 2)
            initializers.append(numpy_helper.from_array(value.astype(np.float32), key))
        infos = [onnx.ValueInfoProto(name=value, type=self.types[value]) for value in self.results]
        graph = helper.make_graph(self.nodes, name, self.inputs, infos, initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR, producer_name="emend/bench/networks")
