"""Structures as networks have them, each a family of models. A family takes a Builder and leaves what it made there."""
import numpy as np
from onnx import helper

from build import FLOATS, Builder, Refused, value_info
from operators import EMITTERS

FAMILIES = {}


def family(f):
    FAMILIES[f.__name__] = f
    return f


def image(b, rank=2, dtype=np.float32, channels=None):
    return b.input([b.int(1, 3), channels or b.choose(2, 3, 4, 6)] + [b.int(4, 9) for _ in range(rank)], dtype)


def sequence(b, dtype=np.float32, width=None):
    return b.input([b.int(1, 3), b.int(2, 6), width or b.choose(4, 8, 12)], dtype)


def sprinkle(b, some=4, names=None):
    """Some operators on what is there."""
    names = names or list(EMITTERS)
    for _ in range(b.int(1, some)):
        b.optional(lambda: EMITTERS[b.choose(names)](b))


@family
def single(b):
    """One operator on inputs of several ranks and types."""
    seed_values(b)
    for name in [b.choose(list(EMITTERS))] * 8:
        if b.optional(lambda: EMITTERS[name](b)):
            break


@family
def soup(b):
    seed_values(b)
    for _ in range(b.int(3, 14)):
        b.optional(lambda: EMITTERS[b.choose(list(EMITTERS))](b))


def seed_values(b):
    dtype = b.choose(np.float32, np.float32, np.float32, np.float64, np.float16)
    shapes = [[], [1], [b.int(1, 6)], [b.int(1, 4), b.int(1, 6)], [b.int(1, 3), b.int(1, 4), b.int(1, 5)], [b.int(1, 2), b.choose(2, 3, 4), b.int(3, 7), b.int(3, 7)]]
    for shape in [b.choose(shapes[3:])] + [b.choose(shapes) for _ in range(b.int(1, 2))]:
        b.input([0 if b.chance(0.01) else d for d in shape], dtype)
    if b.chance(0.4):
        b.input(b.choose(shapes[2:5]), b.choose(np.int64, np.int32, np.uint8, np.bool_, np.int8))


ELEMENTWISE = ("Abs Neg Sign Add Sub Mul Div Mod Pow Max Min Sum Mean Relu Sigmoid Tanh Exp Sqrt Erf Where Equal Less Greater And Or Not Clip Cast PRelu Floor Round Softplus "
               "Reciprocal Log").split()
MOVES = "Reshape Flatten Transpose Squeeze Unsqueeze Slice Concat Split Pad Tile Expand Gather GatherElements GatherND Trilu DepthToSpace SpaceToDepth ReverseSequence ScatterND".split()
WHOLE = "Add Sub Mul Div Mod Max Min Cast Clip BitShift BitwiseAnd BitwiseOr BitwiseXor BitwiseNot Abs Neg Sign Equal Less CumSum ReduceSum ReduceMax TopK MatMul Gather".split()


@family
def elementwise(b):
    b.input([b.int(1, 3), b.int(1, 4), b.int(1, 6)], b.choose(*FLOATS, np.float32))
    for _ in range(b.int(4, 14)):
        b.optional(lambda: EMITTERS[b.choose(ELEMENTWISE)](b))


@family
def movement(b):
    x = b.input([b.int(1, 2), b.choose(2, 4), b.int(2, 6), b.int(2, 6)], b.choose(np.float32, np.float32, np.float16, np.int64, np.bool_))
    for _ in range(b.int(3, 10)):
        b.optional(lambda: EMITTERS[b.choose(MOVES)](b))
    if b.dtype(x) == np.float32:
        sprinkle(b, 3, ["Add", "Mul", "MatMul", "ReduceSum", "Softmax"])


@family
def whole_numbers(b):
    for _ in range(b.int(1, 2)):
        b.input([b.int(1, 3), b.int(1, 6)], b.choose(np.int64, np.int32, np.int16, np.int8, np.uint8, np.uint32))
    for _ in range(b.int(3, 10)):
        b.optional(lambda: EMITTERS[b.choose(WHOLE)](b))


@family
def scales(b):
    """Chains of factors and terms that tempt to be folded into one."""
    x = b.input([b.int(1, 3), b.int(2, 6)], b.choose(np.float32, np.float32, np.float16, np.float64))
    factors = [0.5, 2.0, 3.0, 1e-4, 300.0, 0.1] if b.dtype(x) == np.float16 else [0.5, 3.0, 1e-25, 1e25, 1e-18, 1e18, 7.0]
    for _ in range(b.int(2, 6)):
        op = b.choose("Mul", "Mul", "Div", "Add", "MatMul", "Neg", "Sqrt")
        if op == "MatMul":
            x = b.optional(lambda: b.linear(x, b.int(2, 6), False)) or x
        elif op == "Neg":
            x = b.add(op, [x])
        elif op == "Sqrt":
            x = b.add(op, [b.add("Abs", [x])])
        else:
            x = b.add(op, [x, b.constant(b.choose(factors) if op != "Add" else 1.5, b.dtype(x))])


@family
def cnn(b, rank=2, dtype=np.float32):
    x = image(b, rank, dtype)
    for _ in range(b.int(1, 4)):
        c = b.shape(x)[1]
        kind = b.choose("conv", "conv", "depthwise", "group", "pool", "norm", "add", "pad")
        if kind == "conv":
            x = b.optional(lambda: b.conv(x, b.choose(2, 4, 6), b.choose(1, 3, 3, 5), b.choose(1, 1, 2), dilation=b.choose(1, 1, 2), bias=b.chance(0.6))) or x
        elif kind == "depthwise":
            x = b.conv(x, c, 3, b.choose(1, 2), group=c, bias=b.chance(0.5))
        elif kind == "group" and c % 2 == 0:
            x = b.conv(x, c, 3, group=2)
        elif kind == "pool":
            x = b.optional(lambda: b.add(b.choose("MaxPool", "AveragePool"), [x], kernel_shape=[2] * rank, strides=[b.int(1, 2)] * rank)) or x
        elif kind == "add":
            x = b.add("Add", [x, b.constant(b.array([1, c] + [1] * rank, dtype))])
        elif kind == "pad":
            pads = [0, 0] + [b.int(0, 2) for _ in range(rank)]
            x = b.add("Pad", [x, b.constant(pads + pads, np.int64)])
        if b.chance(0.5):
            x = b.batch_norm(x)
        if b.chance(0.7):
            x = b.activation(x)
    if b.chance(0.5):
        x = b.add("GlobalAveragePool", [x])
        x = b.add("Flatten", [x])
        b.add("Gemm", [x, b.constant(b.array([3, b.shape(x)[1]], dtype, 0.5)), b.constant(b.array([3], dtype))], transB=1)


@family
def conv3d(b):
    cnn(b, 3)


@family
def conv1d(b):
    cnn(b, 1)


@family
def half(b):
    b.choose([cnn, attention, gated])(b, dtype=np.float16)


@family
def residual(b):
    x = b.conv(image(b), b.choose(4, 6), 3)
    for _ in range(b.int(1, 3)):
        c = b.shape(x)[1]
        y = b.activation(b.batch_norm(b.conv(x, c, 3, bias=False)))
        y = b.batch_norm(b.conv(y, c, b.choose(1, 3), bias=b.chance(0.5)))
        if b.chance(0.4):
            s = b.add("GlobalAveragePool", [y])
            y = b.add("Mul", [y, b.add("Sigmoid", [b.conv(s, c, 1)])])
        x = b.add("Relu", [b.add("Add", [x, y])])


@family
def branches(b):
    """Of several resolutions or kernels, which come together again."""
    x = image(b, channels=4)
    parts = [b.activation(b.conv(x, 4, k)) for k in (1, 3, 5)[: b.int(2, 3)]]
    if b.chance(0.4):
        down = b.conv(x, 4, 3, 2)
        up = b.add("Resize", [down, "", b.constant([1, 1, 2, 2], np.float32)], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        parts.append(b.optional(lambda: b.add("Add", [up, x])) or up)
    same = [p for p in parts if b.shape(p) == b.shape(parts[0])]
    x = b.add("Concat", same, axis=1) if b.chance(0.6) else b.add("Sum", same)
    b.activation(b.conv(x, 4, 1))


@family
def deconv(b):
    x = image(b, b.choose(1, 2, 2, 3))
    y = b.activation(b.conv(x, 4, 3, b.int(1, 2)))
    k = b.choose(2, 3, 4)
    y = b.conv(y, b.choose(2, 4), k, 2, pad=b.int(0, 1), op="ConvTranspose", group=b.choose(1, 1, 2))
    if b.chance(0.5):
        y = b.batch_norm(y)
    if b.chance(0.5):
        y = b.conv(b.activation(y), 2, 3)
    b.optional(lambda: b.add("Add", [x, y]))


def heads(b, x, count):
    n, s, c = b.shape(x)
    return b.add("Transpose", [b.reshape(x, [0, -1 if b.chance(0.5) else s, count, c // count])], perm=[0, 2, 1, 3])


@family
def attention(b, dtype=np.float32):
    x = sequence(b, dtype, b.choose(4, 8))
    n, s, c = b.shape(x)
    count = b.choose(1, 2)
    memory = b.input([n, b.int(2, 5), c], dtype) if b.chance(0.25) else x
    q, k, v = (heads(b, b.linear(y, c, b.chance(0.7)), count) for y in (x, memory, memory))
    if b.chance(0.3):
        past = b.input([n, count, b.int(1, 4), c // count], dtype)
        k, v = (b.add("Concat", [past, y], axis=2) for y in (k, v))
    if b.chance(0.3):
        half, d = c // count // 2, c // count
        cut = lambda y, i, j: b.add("Slice", [y, b.constant([i], np.int64), b.constant([j], np.int64), b.constant([3], np.int64)])
        angle = b.rng.uniform(0, 3, [s, d])
        cos, sin = (b.constant(f(angle), dtype) for f in (np.cos, np.sin))
        turned = b.add("Concat", [b.add("Neg", [cut(q, half, d)]), cut(q, 0, half)], axis=3)
        q = b.add("Add", [b.add("Mul", [q, cos]), b.add("Mul", [turned, sin])])
    scores = b.add("MatMul", [q, b.add("Transpose", [k], perm=[0, 1, 3, 2])])
    scores = b.add(b.choose("Mul", "Div"), [scores, b.constant(1.7, dtype)])
    if b.chance(0.5):
        shape = b.shape(scores)[-2:]
        mask = np.where(np.tril(np.ones(shape)) > 0, 0, b.choose(-1e4, -np.inf)).astype(dtype)
        scores = b.add("Add", [scores, b.constant(mask)])
    y = b.add("MatMul", [b.add("Softmax", [scores], axis=-1), v])
    y = b.reshape(b.add("Transpose", [y], perm=[0, 2, 1, 3]), [0, 0, c])
    y = b.add("Add", [x, b.linear(y, c)])
    if b.chance(0.6):
        norm(b, y)


def norm(b, x):
    c, dtype = b.shape(x)[-1], b.dtype(x)
    kind = b.choose("layer", "spelled", "rms")
    if kind == "layer" and b.opset >= 17:
        return b.add("LayerNormalization", [x, b.constant(b.array([c], dtype)), b.constant(b.array([c], dtype))], axis=-1)
    mean = lambda y: b.add("ReduceMean", [y, b.constant([-1], np.int64)]) if b.opset >= 18 else b.add("ReduceMean", [y], axes=[-1])
    if kind != "rms":
        x = b.add("Sub", [x, mean(x)])
    square = b.add("Pow", [x, b.constant(2, dtype)]) if b.chance(0.5) else b.add("Mul", [x, x])
    deviation = b.add("Sqrt", [b.add("Add", [mean(square), b.constant(1e-3, dtype)])])
    y = b.add("Div", [x, deviation]) if b.chance(0.5) else b.add("Mul", [x, b.add("Reciprocal", [deviation])])
    return b.add("Add", [b.add("Mul", [y, b.constant(b.array([c], dtype))]), b.constant(b.array([c], dtype))])


@family
def norms(b):
    x = sequence(b)
    for _ in range(b.int(1, 2)):
        x = norm(b, x)
        x = b.linear(x, b.choose(4, 8)) if b.chance(0.5) else b.activation(x)
    y = image(b, channels=4)
    for op in b.choose([["InstanceNormalization"], ["GroupNormalization"], ["BatchNormalization", "LRN"]]):
        b.optional(lambda: EMITTERS[op](b))
    b.conv(y, 2, 3)


@family
def gated(b, dtype=np.float32):
    x = sequence(b, dtype)
    c, wide = b.shape(x)[-1], b.choose(8, 12)
    y = norm(b, x) if b.chance(0.5) else x
    gate, up = b.linear(y, wide, False), b.linear(y, wide, False)
    y = b.add("Mul", [b.activation(gate), up])
    b.add("Add", [x, b.linear(y, c)])


@family
def shared(b):
    """One weight in several layers, one layer on several values."""
    x = b.input([b.int(1, 4), 6])
    w, bias = b.constant(b.array([6, 6], np.float32, 0.4)), b.constant(b.array([6], np.float32))
    for _ in range(b.int(2, 4)):
        y = b.add("MatMul", [x, w])
        if b.chance(0.4):
            y = b.add("Add", [y, b.add("MatMul", [b.add("Neg", [x]), b.add("Transpose", [w])])])
        y = b.add(b.choose("Add", "Mul"), [y, bias])
        x = b.activation(y) if b.chance(0.7) else b.add("Add", [x, y])
    b.add("Gemm", [x, w, bias], transB=b.int(0, 1))


@family
def recurrent(b):
    op, directions = b.choose("LSTM", "GRU", "RNN"), b.choose("forward", "reverse", "bidirectional")
    count, gates = (2 if directions == "bidirectional" else 1), {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    t, n, c, h = b.int(1, 5), b.int(1, 3), b.choose(3, 4), b.choose(2, 4)
    x = b.input([t, n, c])
    weights = [b.constant(b.array(s, np.float32, 0.5)) for s in ([count, gates * h, c], [count, gates * h, h], [count, 2 * gates * h])]
    operands = [x] + weights[: b.int(2, 3)]
    operands += [""] * (4 - len(operands)) + ([b.constant(b.rng.integers(1, t + 1, n), np.int32)] if b.chance(0.3) else [""])
    if b.chance(0.4):
        operands.append(b.input([count, n, h]))
        if op == "LSTM":
            operands.append(b.input([count, n, h]))
    more = {"linear_before_reset": b.int(0, 1)} if op == "GRU" else {}
    made = b.add(op, operands, outputs=3 if op == "LSTM" else 2, hidden_size=h, direction=directions, **more)
    y = b.reshape(b.add("Transpose", [made[0]], perm=[0, 2, 1, 3]), [0, 0, -1])
    b.linear(y, 3)


@family
def quantized(b):
    """Weights and activations in eight bits, as a quantizer writes them."""
    def rounded(x, scale):
        s, z = b.constant(scale, np.float32), b.constant(b.choose(0, 3), np.int8)
        return b.add("DequantizeLinear", [b.add("QuantizeLinear", [x, s, z]), s, z])

    def weights(shape, axis):
        per = b.constant(b.rng.uniform(0.01, 0.05, shape[axis]), np.float32)
        zero = b.constant(np.zeros(shape[axis]), np.int8)
        return b.add("DequantizeLinear", [b.constant(b.rng.integers(-90, 90, shape), np.int8), per, zero], axis=axis)

    if b.chance(0.5):
        x = rounded(image(b), 0.05)
        c = b.shape(x)[1]
        for _ in range(b.int(1, 2)):
            x = b.add("Conv", [x, weights([4, b.shape(x)[1], 3, 3], 0), b.constant(b.array([4], np.float32))], pads=[1, 1, 1, 1])
            x = rounded(b.add("Relu", [x]) if b.chance(0.6) else x, 0.1)
    else:
        x = rounded(sequence(b), 0.05)
        for _ in range(b.int(1, 2)):
            x = rounded(b.add("MatMul", [x, weights([b.shape(x)[-1], 6], 1)]), 0.1)
        sprinkle(b, 2, ["Add", "Relu", "Softmax"])


def body(b, values, more_inputs=(), more_outputs=None):
    """A graph over copies of these values, which it names as its inputs, with one result of the same type and shape."""
    inner = Builder(b.rng, b.opset, prefix=b.name("b"))
    names = []
    for v in values:
        name = inner.name("x")
        names.append(inner.keep(name, b.values[v]))
    x = names[0]
    for _ in range(b.int(1, 3)):
        op = b.choose("Add", "Mul", "Tanh", "MatMul", "Neg")
        if op in ("Add", "Mul"):
            x = inner.add(op, [x, b.choose(names) if len(names) > 1 and b.chance(0.5) else inner.constant(inner.array(inner.shape(x)[-1:], np.float32, 0.5))])
        elif op == "MatMul":
            x = inner.linear(x, inner.shape(x)[-1], False)
        else:
            x = inner.add(op, [x])
        if inner.shape(x) != b.shape(values[0]):
            raise Refused("the state changed its shape")
    return inner, names, inner.add("Identity", [x])


def graph_of(inner, inputs, outputs):
    from onnx import numpy_helper

    return helper.make_graph(inner.nodes, "body", inputs, outputs, [numpy_helper.from_array(v, n) for n, v in inner.constants.items()])


@family
def control(b):
    x = b.input([b.int(1, 3), b.int(2, 4)])
    f32 = np.float32
    info = lambda inner, name: value_info(name, inner.dtype(name), inner.shape(name))
    kind = b.choose("If", "Loop", "Scan")
    if kind == "If":
        made = []
        for _ in range(2):
            inner, names, y = body(b, [x])
            inner.nodes.insert(0, helper.make_node("Identity", [x], names))  # it sees what is around it
            made.append(graph_of(inner, [], [info(inner, y)]))
        total = b.add("ReduceSum", [x], keepdims=0)
        y = b.add("If", [b.add("Greater", [total, b.constant(0.0, f32)])], then_branch=made[0], else_branch=made[1])
    elif kind == "Loop":
        inner, names, y = body(b, [x])
        inner.nodes.append(helper.make_node("Identity", ["keep_in"], ["keep_out"]))
        inputs = [value_info("turn", np.int64, []), value_info("keep_in", np.bool_, []), info(inner, names[0])]
        outputs = [value_info("keep_out", np.bool_, []), info(inner, y)]
        collect = b.chance(0.5)
        if collect:
            inner.nodes.append(helper.make_node("Neg", [y], ["seen"]))
            outputs.append(value_info("seen", f32, inner.shape(y)))
        turns = b.int(0, 4)
        b.of_one_size |= turns == 0  # a body that never runs is not asked whether it fits
        y = b.add("Loop", [b.constant(turns, np.int64), b.constant(True, np.bool_), x], outputs=1 + collect, body=graph_of(inner, inputs, outputs))
    else:
        rows = b.input([b.int(1, 4)] + b.shape(x))
        row = b.keep(b.name(), b.values[rows][0].copy())
        inner, names, y = body(b, [x, row])
        b.order.remove(row)
        inner.nodes.append(helper.make_node("Mul", [y, names[1]], ["seen"]))
        y = b.add("Scan", [x, rows], outputs=2, num_scan_inputs=1,
                  body=graph_of(inner, [info(inner, n) for n in names], [info(inner, y), value_info("seen", f32, inner.shape(y))]))
    sprinkle(b, 2, ["Add", "Relu", "ReduceSum", "Transpose"])


@family
def interface(b):
    """Outputs that are inputs, constants, and one another: decided in models.py; here only something to name."""
    x = b.input([b.int(1, 3), b.int(1, 4)])
    y = b.add(b.choose("Relu", "Identity", "Neg"), [x])
    b.add("Add", [y, b.constant(b.array(b.shape(x)[-1:], np.float32))])
    b.optional(lambda: b.add("Mul", [b.constant(2.0, np.float32), b.constant(3.0, np.float32)]))


@family
def embedding(b):
    ids = b.input([b.int(1, 3), b.int(1, 5)], np.int64, below=9)
    x = b.add("Gather", [b.constant(b.array([9, 6], np.float32)), ids])
    if b.chance(0.5):
        x = b.add("ReduceMean", [x, b.constant([1], np.int64)], keepdims=0) if b.opset >= 18 else b.add("ReduceMean", [x], axes=[1], keepdims=0)
    b.activation(b.linear(x, 4))


@family
def detection(b):
    x = image(b)
    levels = [b.conv(x, 6, 3), b.conv(x, 6, 3, 2)]
    n = b.shape(x)[0]
    flat = [b.reshape(b.add("Transpose", [y], perm=[0, 2, 3, 1]), [n if b.chance(0.3) else 0, -1, 3]) for y in levels]
    y = b.add("Concat", flat, axis=1)
    b.add("Sigmoid", [y])
    b.choose(b.add("TopK", [b.add("ReduceMax", [y], axes=[2], keepdims=0) if b.opset < 18 else b.add("ReduceMax", [y, b.constant([2], np.int64)], keepdims=0),
                            b.constant([3], np.int64)], outputs=2))


@family
def by_size(b):
    """Shapes computed from shapes, as exporters write them for open sizes."""
    x = sequence(b, width=8)
    dim = lambda y, i: b.add("Gather", [b.add("Shape", [y]), b.constant([i], np.int64)])
    n, s = dim(x, 0), dim(x, 1)
    y = b.add("Reshape", [b.linear(x, 8), b.add("Concat", [n, s, b.constant([2, 4], np.int64)], axis=0)])
    y = b.add("Transpose", [y], perm=[0, 2, 1, 3])
    if b.chance(0.5):
        y = b.add("Add", [y, b.add("Slice", [b.constant(b.array([16, 4], np.float32)), b.constant([0], np.int64), s, b.constant([0], np.int64)])])
    if b.chance(0.5):
        mask = b.add("Expand", [b.constant(b.array([1, 1, 1, 4], np.float32)), b.add("Concat", [n, b.constant([1], np.int64), s, b.constant([1], np.int64)], axis=0)])
        y = b.add("Mul", [y, mask])
    b.add("Reshape", [b.add("Transpose", [y], perm=[0, 2, 1, 3]), b.add("Concat", [b.add("Mul", [n, s]), b.constant([-1], np.int64)], axis=0)])
