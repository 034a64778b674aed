"""Every operator by itself, put on values that are there already: how its operands, shapes and attributes are drawn.

`EMITTERS` maps a name of ONNX to the function that puts it into a Builder; `LEFT_OUT` says of every other operator of the importer why it is not here."""
import numpy as np
from onnx import TensorProto, helper

from build import FLOATS, SIGNED, UNSIGNED, Refused

EMITTERS = {}


def emits(names):
    def add(f):
        for name in names.split():
            EMITTERS[name] = (lambda b, f=f, name=name: f(b, name))
        return f

    return add


LEFT_OUT = {
    "RandomNormal": "its values are left to the implementation", "RandomNormalLike": "the same", "RandomUniform": "the same",
    "RandomUniformLike": "the same", "Bernoulli": "the same", "Multinomial": "the same",
    "Gradient": "training", "Adam": "training", "Adagrad": "training", "Momentum": "training",
    "Scatter": "deprecated since opset 11", "Upsample": "deprecated since opset 10",
    "Constant": "every initializer", "FlexAttention": "onnxruntime has none", "LinearAttention": "onnxruntime has none",
    "CausalConvWithState": "onnxruntime has none", "Attention": "opset 23; tests/oracle runs it", "RotaryEmbedding": "opset 23; tests/oracle runs it",
    "RMSNormalization": "opset 23; tests/oracle runs it", "TensorScatter": "opset 24; tests/oracle runs it", "BitCast": "opset 26; tests/oracle runs it",
    "Swish": "opset 24; tests/oracle runs it", "CumProd": "opset 26; tests/oracle runs it", "TreeEnsemble": "tests/oracle runs it", "LabelEncoder": "strings are not inputs of the soak",
    "StringConcat": "strings are not inputs of the soak", "StringNormalizer": "the same", "StringSplit": "the same", "RegexFullMatch": "the same",
    "TfIdfVectorizer": "the same", "SequenceMap": "onnxruntime unfolds it in a pass that is off here", "SequenceEmpty": "made by the other operators of sequences",
    "NonMaxSuppression": "a tipped comparison changes every row; tests/oracle runs it",
    "Optional": "an optional cannot be an output of most runtimes; tests/oracle runs it", "OptionalGetElement": "the same", "OptionalHasElement": "the same",
    "If": "blocks.py", "Loop": "blocks.py", "Scan": "blocks.py", "LSTM": "blocks.py", "GRU": "blocks.py", "RNN": "blocks.py",
}


def axis_of(b, x):
    rank = len(b.shape(x))
    if rank == 0:
        raise Refused("a scalar has no axis")
    return b.int(-rank, rank - 1)


def like(b, x, dtype=None):
    """A second operand that broadcasts with x: a value, or a constant of a shape with ones or fewer axes."""
    dtype = dtype or b.dtype(x)
    if b.chance(0.4):
        fit = [n for n in b.order if isinstance(b.values[n], np.ndarray) and b.dtype(n) == dtype and broadcasts(b.shape(n), b.shape(x))]
        if fit:
            return b.choose(fit)
    shape = [1 if b.chance(0.4) else d for d in b.shape(x)]
    return b.constant(b.array(shape[b.int(0, len(shape)) if b.chance(0.5) else 0 :], dtype))


def broadcasts(a, b):
    return all(x == y or 1 in (x, y) for x, y in zip(a[::-1], b[::-1])) and np.prod([max(p) for p in zip(a[::-1], b[::-1])] or [1]) < 5000


def swap(b, pair):
    return pair[::-1] if b.chance(0.5) else pair


@emits("Abs Neg Sign")
def numbers(b, op):
    return b.add(op, [b.pick(lambda v: v.dtype.kind in "fi")])


@emits("Acos Asin Atanh")
def inside_one(b, op):
    x = b.pick_float()
    return b.add(op, [b.add("Mul", [b.add("Tanh", [x]), b.constant(0.9, b.dtype(x))])])


@emits("Acosh")
def above_one(b, op):
    x = b.pick_float()
    return b.add(op, [b.add("Add", [b.add("Abs", [x]), b.constant(1.1, b.dtype(x))])])


@emits("Log Sqrt Reciprocal")
def positive(b, op):
    x = b.pick_float()
    return b.add(op, [b.add("Add", [b.add("Abs", [x]), b.constant(0.1, b.dtype(x))])])


@emits("Asinh Atan Ceil Cos Cosh Erf Exp Floor Round Sigmoid Sin Sinh Softplus Softsign Tan Tanh Relu HardSwish Mish IsNaN Identity Celu Elu HardSigmoid LeakyRelu Selu "
       "ThresholdedRelu Gelu")
def unary(b, op):
    drawn = {"Celu": ["alpha"], "Elu": ["alpha"], "HardSigmoid": ["alpha", "beta"], "LeakyRelu": ["alpha"], "Selu": ["alpha", "gamma"], "ThresholdedRelu": ["alpha"]}
    attributes = {k: round(float(b.rng.uniform(0.1, 1.5)), 2) for k in drawn.get(op, []) if b.chance(0.6)}
    if op == "Gelu" and b.chance(0.5):
        attributes["approximate"] = "tanh"
    return b.add(op, [b.pick_float()], **attributes)


@emits("Shrink")
def shrink(b, op):
    return b.add(op, [b.pick_float()], lambd=0.4, bias=b.choose(0.0, 0.2))


@emits("IsInf")
def is_inf(b, op):
    return b.add(op, [b.pick(lambda v: v.dtype in (np.float32, np.float64))], detect_negative=b.int(0, 1), detect_positive=b.int(0, 1))


@emits("Add Sub Mul")
def arithmetic(b, op):
    x = b.pick(lambda v: v.dtype in (*FLOATS, np.int32, np.int64))
    return b.add(op, swap(b, [x, like(b, x)]))


@emits("Div Mod")
def division(b, op):
    """By constants away from zero: what whole numbers do there is left open, and ends the process in onnxruntime."""
    x = b.pick(lambda v: v.dtype in (*FLOATS, np.int32, np.int64, np.uint8 if op == "Mod" else np.int64))
    dtype = b.dtype(x)
    if dtype.kind == "f":
        y = b.constant(b.choose(1, -1) * b.rng.uniform(0.3, 3, [1 if b.chance(0.5) else d for d in b.shape(x)]), dtype)
        return b.add(op, [x, y], **({"fmod": 1} if op == "Mod" else {}))
    y = b.constant(b.choose([2, 3, 5, 7] if dtype.kind == "u" else [2, 3, 5, -3, -4]), dtype)
    return b.add(op, [x, y], **({"fmod": b.int(0, 1)} if op == "Mod" else {}))


@emits("Pow")
def power(b, op):
    x = b.pick(lambda v: v.dtype in (np.float32, np.float64))
    return b.add(op, [x, b.constant(b.choose([2.0, 3.0, 1.0, 0.0]), b.dtype(x))]) if b.chance(0.7) else b.add(
        op, [b.add("Add", [b.add("Abs", [x]), b.constant(0.1, b.dtype(x))]), like(b, x)])


@emits("Max Min Sum Mean")
def variadic(b, op):
    kinds = (*FLOATS, np.int32, np.int64) if op in ("Max", "Min") else FLOATS
    x = b.pick(lambda v: v.dtype in kinds)
    return b.add(op, [x] + [like(b, x) for _ in range(b.int(0, 2))])


@emits("Equal Less Greater LessOrEqual GreaterOrEqual")
def comparison(b, op):
    x = b.pick(lambda v: v.dtype in (np.float32, np.float64, np.int32, np.int64, *([np.bool_] if op == "Equal" else [])))
    return b.add(op, swap(b, [x, like(b, x)]))


def a_bool(b):
    fit = [n for n in b.order if isinstance(b.values[n], np.ndarray) and b.dtype(n) == np.bool_]
    if fit:
        return b.choose(fit)
    x = b.pick_float()
    return b.add(b.choose("Less", "Greater"), [x, like(b, x)])


@emits("And Or Xor")
def logic(b, op):
    x = a_bool(b)
    return b.add(op, swap(b, [x, like(b, x)]))


@emits("Not")
def negation(b, op):
    return b.add(op, [a_bool(b)])


@emits("Where")
def where(b, op):
    condition = a_bool(b)
    dtype = b.choose(np.float32, np.float32, np.int64)
    return b.add(op, [condition, like(b, condition, dtype), like(b, condition, dtype)])


def integers(b):
    return b.pick(lambda v: v.dtype.kind in "iu" and v.ndim > 0)


@emits("BitwiseAnd BitwiseOr BitwiseXor")
def bits(b, op):
    x = integers(b)
    return b.add(op, [x, like(b, x)])


@emits("BitwiseNot")
def flipped(b, op):
    return b.add(op, [integers(b)])


@emits("BitShift")
def shift(b, op):
    x = b.pick(lambda v: v.dtype in (np.uint8, np.uint32, np.uint64))
    return b.add(op, [x, b.constant(b.int(0, 7), b.dtype(x))], direction=b.choose("LEFT", "RIGHT"))


@emits("Clip")
def clip(b, op):
    """With both ends: what stands for one that is missing differs (the largest number of the type, or infinity)."""
    x = b.pick(lambda v: v.dtype in (*FLOATS, np.int32, np.int64))
    low, high = sorted([b.int(-3, 2), b.int(-3, 4)])
    return b.add(op, [x, b.constant(low, b.dtype(x)), b.constant(high, b.dtype(x))])


@emits("PRelu")
def prelu(b, op):
    x = b.pick_float(least=1)
    return b.add(op, [x, b.constant(b.array([1 if b.chance(0.5) else b.shape(x)[-1]], b.dtype(x)))])


@emits("Cast CastLike")
def cast(b, op):
    """Floats become whole numbers after a Clip: what is out of range becomes is left open."""
    x = b.pick()
    to = np.dtype(b.choose(*FLOATS, *SIGNED, *UNSIGNED, np.bool_))
    if b.dtype(x).kind == "f" and to.kind in "iu":
        low = b.constant(0 if to.kind == "u" else -100, b.dtype(x))
        x = b.add("Clip", [x, low, b.constant(100, b.dtype(x))])
    elif b.dtype(x).kind in "iu" and to.kind in "iu":
        to = np.dtype(np.int64)
    if op == "CastLike":
        return b.add(op, [x, b.constant(np.zeros([1], to))])
    return b.add(op, [x], to=helper.np_dtype_to_tensor_dtype(to))


@emits("Bfloat16")
def bfloat16(b, op):
    """To bf16 and back at once, or with a move between: its values cannot be fetched."""
    x = b.pick(lambda v: v.dtype == np.float32 and v.ndim > 0)
    names = [b.name() for _ in range(3)]
    perm = [int(p) for p in b.rng.permutation(len(b.shape(x)))]
    nodes = [helper.make_node("Cast", [x], names[:1], to=TensorProto.BFLOAT16), helper.make_node("Transpose", names[:1], names[1:2], perm=perm),
             helper.make_node("Cast", names[1:2], names[2:], to=TensorProto.FLOAT)]
    value = b.run(nodes, names[2:])[0]
    b.nodes += nodes
    return b.keep(names[2], value)


# Movement.
@emits("Reshape")
def reshape(b, op):
    x = b.pick()
    shape = b.shape(x)
    target = list(shape)
    if len(target) > 1 and b.chance(0.6):
        i = b.int(0, len(target) - 2)
        target[i : i + 2] = [target[i] * target[i + 1]]
    else:
        i = b.int(0, max(0, len(target) - 1))
        d = target[i] if target else 1
        factor = next((f for f in (2, 3) if d % f == 0 and d), 1)
        target[i : i + 1] = [factor, d // factor]
    if target and b.chance(0.4) and 0 not in shape:
        target[b.int(0, len(target) - 1)] = -1
    elif target and len(shape) and target[0] == shape[0] and b.chance(0.5):
        target[0] = 0
    return b.reshape(x, target)


@emits("Flatten Transpose")
def laid_out(b, op):
    x = b.pick(lambda v: v.ndim > 0)
    rank = len(b.shape(x))
    return b.add(op, [x], axis=b.int(-rank, rank)) if op == "Flatten" else b.add(op, [x], perm=[int(p) for p in b.rng.permutation(rank)])


@emits("Squeeze Unsqueeze")
def ones(b, op):
    x = b.pick(lambda v: v.ndim < 5)
    rank = len(b.shape(x))
    axes = [i for i, d in enumerate(b.shape(x)) if d == 1] if op == "Squeeze" else sorted({b.int(0, rank), b.int(0, rank)})[: b.int(1, 2)]
    if not axes:
        raise Refused("no axis of size 1")
    return b.add(op, [x, b.constant(axes, np.int64)])


@emits("Slice")
def slices(b, op):
    x = b.pick(lambda v: v.ndim > 0)
    axes = sorted({axis_of(b, x) % len(b.shape(x)) for _ in range(b.int(1, 2))})
    starts, ends, steps = [], [], []
    for axis in axes:
        d, step = b.shape(x)[axis], b.choose(1, 1, 2, -1, -2, 3)
        first, last = b.int(-d, d - 1) if d else 0, b.choose(b.int(-d - 1, d), 2**31, -(2**31)) if step < 0 else b.choose(b.int(0, d), 2**31 - 1, 2**63 - 1)
        starts, ends, steps = starts + [first], ends + [last], steps + [step]
    return b.add(op, [x] + [b.constant(v, np.int64) for v in (starts, ends, axes, steps)])


@emits("Concat")
def concat(b, op):
    x = b.pick(lambda v: v.ndim > 0)
    axis, shape, parts = axis_of(b, x), b.shape(x), [x]
    for _ in range(b.int(0, 2)):
        other = list(shape)
        other[axis] = b.int(0 if b.chance(0.1) else 1, 3)
        parts.insert(b.int(0, len(parts)), x if b.chance(0.3) else b.constant(b.array(other, b.dtype(x))))
    return b.add(op, parts, axis=axis)


@emits("Split")
def split(b, op):
    x = b.pick(lambda v: v.ndim > 0)
    axis = axis_of(b, x)
    d = b.shape(x)[axis]
    if d < 2:
        raise Refused("nothing to split")
    first = b.int(1, d - 1)
    return b.choose(b.add(op, [x, b.constant([first, d - first], np.int64)], outputs=2, axis=axis))


@emits("Pad")
def pad(b, op):
    x = b.pick(lambda v: v.ndim > 0 and v.dtype.kind in "fi")
    shape, mode = b.shape(x), b.choose("constant", "constant", "reflect", "edge", *(["wrap"] if b.opset >= 19 else []))
    most = lambda d: 0 if b.chance(0.5) else min(2, d - 1 if mode in ("reflect", "wrap") else 2)
    pads = [b.int(0, max(0, most(d))) for d in shape + shape]
    if mode == "constant" and b.chance(0.2):
        pads[0] = -min(1, shape[0] - 1)
    value = [b.constant(b.choose(0, 1, -2), b.dtype(x))] if mode == "constant" and b.chance(0.6) else []
    return b.add(op, [x, b.constant(pads, np.int64)] + value, mode=mode)


@emits("Tile Expand")
def repeated(b, op):
    x = b.pick(lambda v: v.ndim > 0 and v.size < 2000)
    if op == "Tile":
        return b.add(op, [x, b.constant([b.int(1, 2) for _ in b.shape(x)], np.int64)])
    target = [b.int(1, 3) if d == 1 else (1 if b.chance(0.3) else d) for d in b.shape(x)]
    return b.add(op, [x, b.constant(([2] if b.chance(0.3) else []) + target, np.int64)])


@emits("DepthToSpace SpaceToDepth")
def blocks(b, op):
    x = b.pick_float(4)
    return b.add(op, [x], blocksize=2, **({"mode": b.choose("DCR", "CRD")} if op == "DepthToSpace" else {}))


@emits("Trilu")
def trilu(b, op):
    return b.add(op, [b.pick(lambda v: v.ndim >= 2), b.constant(b.int(-2, 2), np.int64)], upper=b.int(0, 1))


def places(b, below, shape, given=0.4):
    """Indices, as an input or a constant; the constant counts from the end, too."""
    if below == 0:
        raise Refused("nothing to index")
    if b.chance(given):
        return b.input(shape, np.int64, below=below)
    return b.constant(b.rng.integers(-below, below, shape), np.int64)


@emits("Gather")
def gather(b, op):
    x = b.pick(lambda v: v.ndim > 0)
    axis = axis_of(b, x)
    return b.add(op, [x, places(b, b.shape(x)[axis], b.choose([[], [2], [3, 2], [1]]))], axis=axis)


@emits("GatherElements")
def gather_elements(b, op):
    x = b.pick(lambda v: v.ndim > 0)
    axis = axis_of(b, x)
    shape = list(b.shape(x))
    shape[axis] = b.int(1, 3)
    return b.add(op, [x, places(b, b.shape(x)[axis], shape)], axis=axis)


@emits("GatherND")
def gather_nd(b, op):
    x = b.pick(lambda v: v.ndim >= 2)
    depth = b.int(1, len(b.shape(x)))
    return b.add(op, [x, places(b, min(b.shape(x)[:depth]), [b.int(1, 3), depth])])


@emits("ScatterElements")
def scatter_elements(b, op):
    """Places are constants without repetition unless they add up: which of two comes last is left open."""
    x = b.pick_float(least=1)
    axis = axis_of(b, x)
    shape = list(b.shape(x))
    d = shape[axis]
    how = b.choose("none", "none", *(["add", "mul"] if b.opset >= 16 else []), *(["max", "min"] if b.opset >= 18 else []))
    shape[axis] = k = b.int(1, d) if d else 0
    order = np.stack([b.rng.permutation(d)[:k] for _ in range(int(np.prod(shape[:axis] + shape[axis:][1:])) if axis >= 0 else 1)] or [[]])
    full = np.broadcast_to(order[0].reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))]), shape)
    updates = b.constant(b.array(shape, b.dtype(x)))
    return b.add(op, [x, b.constant(full, np.int64), updates], axis=axis, **({} if how == "none" else {"reduction": how}))


@emits("ScatterND")
def scatter_nd(b, op):
    x = b.pick_float(least=1)
    d = b.shape(x)[0]
    chosen = b.rng.permutation(d)[: b.int(1, max(1, d))]
    return b.add(op, [x, b.constant(chosen[:, None], np.int64), b.constant(b.array([len(chosen)] + b.shape(x)[1:], b.dtype(x)))],
                 **({"reduction": b.choose("add", "mul")} if b.opset >= 16 and b.chance(0.3) else {}))


@emits("ReverseSequence")
def reverse(b, op):
    x = b.pick(lambda v: v.ndim >= 2)
    time = b.int(0, 1)
    if not b.shape(x)[time]:
        raise Refused("nothing to reverse")
    lengths = b.rng.integers(1, b.shape(x)[time] + 1, b.shape(x)[1 - time])
    return b.add(op, [x, b.constant(lengths, np.int64)], time_axis=time, batch_axis=1 - time)


@emits("OneHot")
def one_hot(b, op):
    return b.add(op, [places(b, 4, [b.int(1, 4)]), b.constant(4, np.int64), b.constant([0.5, 2.0], np.float32)], axis=b.choose(-1, 0, 1))


@emits("Shape Size")
def sizes(b, op):
    x = b.pick()
    made = b.add(op, [x])
    return b.add("Add", [made, b.constant(1, np.int64)]) if b.chance(0.5) else made


@emits("ConstantOfShape EyeLike")
def filled(b, op):
    if op == "EyeLike":
        return b.add(op, [b.pick(lambda v: v.ndim == 2 and v.dtype in FLOATS)], k=b.int(-1, 1))
    value = helper.make_tensor("value", TensorProto.FLOAT, [1], [1.5])
    return b.add(op, [b.add("Shape", [b.pick()])], value=value)


@emits("Range")
def ranges(b, op):
    dtype = b.choose(np.int64, np.float32)
    return b.add(op, [b.constant(b.int(-2, 3), dtype), b.constant(b.int(4, 9), dtype), b.constant(b.int(1, 3), dtype)])


@emits("NonZero Compress Unique")
def by_value(b, op):
    x = b.pick(lambda v: v.dtype in (np.float32, np.int64) and v.ndim > 0)
    if op == "Compress":
        return b.add(op, [x, b.constant(b.rng.random(b.shape(x)[0]) < 0.6)], axis=0)
    if op == "Unique":
        return b.add(op, [b.add("Round", [x]) if b.dtype(x).kind == "f" else x], sorted=1)
    return b.add(op, [b.add("Relu", [x]) if b.dtype(x) == np.float32 else x])


@emits("CenterCropPad")
def center(b, op):
    x = b.pick(lambda v: v.ndim > 0)
    return b.add(op, [x, b.constant([max(1, d + b.int(-1, 2)) for d in b.shape(x)], np.int64)])


# Reductions and order.
@emits("ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare")
def reduction(b, op):
    """Over axes that are named: over none, the standard and onnxruntime disagree."""
    x = b.pick(lambda v: v.ndim > 0 and v.size > 0 and (v.dtype in FLOATS or (op in ("ReduceMax", "ReduceMin", "ReduceSum") and v.dtype in (np.int32, np.int64))))
    if op == "ReduceLogSum":
        x = b.add("Add", [b.add("Abs", [x]), b.constant(0.1, b.dtype(x))])
    axes = sorted({axis_of(b, x) % len(b.shape(x)) for _ in range(b.int(1, 2))})
    keep = b.int(0, 1)
    if b.opset >= 18 or op == "ReduceSum":
        return b.add(op, [x, b.constant(axes, np.int64)], keepdims=keep)
    return b.add(op, [x], axes=axes, keepdims=keep)


@emits("ArgMax ArgMin")
def arg(b, op):
    x = b.pick(lambda v: v.ndim > 0 and v.dtype in (np.float32, np.float64, np.int32))
    return b.add(op, [x], axis=axis_of(b, x), keepdims=b.int(0, 1), select_last_index=b.int(0, 1))


@emits("TopK")
def top_k(b, op):
    x = b.pick(lambda v: v.ndim > 0 and v.dtype in (np.float32, np.float64, np.int64))
    axis = axis_of(b, x)
    return b.choose(b.add(op, [x, b.constant([b.int(1, max(1, b.shape(x)[axis]))], np.int64)], outputs=2, axis=axis, largest=b.int(0, 1)))


@emits("Softmax LogSoftmax Hardmax LpNormalization")
def along(b, op):
    x = b.pick_float(least=1)
    return b.add(op, [x], axis=axis_of(b, x), **({"p": b.int(1, 2)} if op == "LpNormalization" else {}))


@emits("CumSum")
def running(b, op):
    x = b.pick(lambda v: v.ndim > 0 and v.dtype in (np.float32, np.float64, np.int32, np.int64))
    return b.add(op, [x, b.constant(axis_of(b, x), np.int64)], exclusive=b.int(0, 1), reverse=b.int(0, 1))


# Norms.
@emits("BatchNormalization")
def batch_norm(b, op):
    return b.batch_norm(b.pick_float(least=2))


@emits("InstanceNormalization")
def instance_norm(b, op):
    x = b.pick_float(least=3)
    c, dtype = b.shape(x)[1], b.dtype(x)
    return b.add(op, [x, b.constant(b.array([c], dtype)), b.constant(b.array([c], dtype))], epsilon=1e-3)


@emits("LayerNormalization")
def layer_norm(b, op):
    """Of doubles the standard keeps mean and deviation as floats, onnxruntime as doubles."""
    x = b.pick_float(least=1)
    if b.dtype(x) == np.float64:
        raise Refused("rounded otherwise")
    axis = b.int(-min(2, len(b.shape(x))), -1)
    shape, dtype = b.shape(x)[axis:], b.dtype(x)
    return b.add(op, [x, b.constant(b.array(shape, dtype))] + ([b.constant(b.array(shape, dtype))] if b.chance(0.7) else []), axis=axis, epsilon=1e-3)


@emits("GroupNormalization")
def group_norm(b, op):
    x = b.pick_float(least=3)
    c, dtype = b.shape(x)[1], b.dtype(x)
    groups = b.choose([g for g in (1, 2, 3, 4) if c % g == 0])
    size = c if b.opset >= 21 else groups
    return b.add(op, [x, b.constant(b.array([size], dtype)), b.constant(b.array([size], dtype))], num_groups=groups, epsilon=1e-3)


@emits("LRN")
def lrn(b, op):
    return b.add(op, [b.pick_float(4)], size=b.choose(1, 3, 5), alpha=0.1, beta=0.75, bias=1.0)


@emits("MeanVarianceNormalization")
def mean_variance(b, op):
    return b.add(op, [b.pick_float(4)], axes=[0, 2, 3])


# Windows.
def window(b, x, pads=True):
    spatial = b.shape(x)[2:]
    kernel = [b.int(1, min(3, d)) for d in spatial]
    pads = [b.int(0, k // 2) if pads and b.chance(0.5) else 0 for k in kernel + kernel]
    return {"kernel_shape": kernel, "strides": [b.int(1, 2) for _ in spatial], "pads": pads}


@emits("MaxPool AveragePool LpPool")
def pool(b, op):
    """No window is larger than the image, where onnxruntime rounds sizes differently than the standard."""
    x = b.pick_float(least=3)
    more = {"MaxPool": {"ceil_mode": b.int(0, 1)}, "AveragePool": {"count_include_pad": b.int(0, 1)}, "LpPool": {"p": b.int(1, 2)}}[op]
    return b.add(op, [x], **window(b, x), **more)


@emits("MaxUnpool")
def unpool(b, op):
    x = b.pick(lambda v: v.ndim == 4 and v.dtype == np.float32 and v.shape[2] % 2 == v.shape[3] % 2 == 0)
    values, where = b.add("MaxPool", [x], outputs=2, kernel_shape=[2, 2], strides=[2, 2])
    return b.add(op, [values, where], kernel_shape=[2, 2], strides=[2, 2])


@emits("GlobalAveragePool GlobalMaxPool GlobalLpPool")
def whole(b, op):
    return b.add(op, [b.pick_float(least=3)])


@emits("Conv")
def conv(b, op):
    x = b.pick_float(least=3)
    c = b.shape(x)[1]
    group = b.choose([1, 1, c] + [g for g in (2, 3) if c % g == 0])
    w = window(b, x)
    if b.chance(0.3):
        w["auto_pad"] = b.choose("SAME_UPPER", "SAME_LOWER", "VALID")
        del w["pads"]
    width = group * b.int(1, 4)
    operands = [x, b.constant(b.array([width, c // group] + w["kernel_shape"], b.dtype(x), 0.4))]
    if b.chance(0.6):
        operands.append(b.constant(b.array([width], b.dtype(x))))
    dilations = {"dilations": [b.int(1, 2) for _ in w["kernel_shape"]]} if b.chance(0.3) and "auto_pad" not in w else {}
    return b.add(op, operands, group=group, **w, **dilations)


@emits("ConvTranspose")
def conv_transpose(b, op):
    x = b.pick_float(least=3)
    c = b.shape(x)[1]
    group = b.choose([1, 1] + [g for g in (2, 3) if c % g == 0])
    w = window(b, x)
    operands = [x, b.constant(b.array([c, b.int(1, 3)] + w["kernel_shape"], b.dtype(x), 0.4))]
    if b.chance(0.4):
        w["output_padding"] = [b.int(0, s - 1) for s in w["strides"]]
    return b.add(op, operands, group=group, **w)


@emits("Resize")
def resize(b, op):
    """Without align_corners and half_pixel_symmetric, where onnxruntime and the standard's own evaluator disagree."""
    x = b.pick(lambda v: v.ndim == 4 and v.dtype == np.float32)
    mode = b.choose("nearest", "linear", "cubic")
    more = {"coordinate_transformation_mode": b.choose("half_pixel", "asymmetric", "pytorch_half_pixel")}
    if mode == "nearest":
        more = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": b.choose("floor", "round_prefer_floor")}
    scales = b.constant([1, 1, b.choose(1, 2, 1.5, 0.5), b.choose(1, 2, 3)], np.float32)
    return b.add(op, [x, "", scales], mode=mode, **more)


@emits("GridSample AffineGrid")
def sampled(b, op):
    x = b.pick(lambda v: v.ndim == 4 and v.dtype == np.float32)
    n, c = b.shape(x)[:2]
    if op == "AffineGrid":
        theta = b.constant(b.array([n, 2, 3], np.float32, 0.5))
        grid = b.add(op, [theta, b.constant([n, c, 3, 4], np.int64)], align_corners=b.int(0, 1))
    else:
        grid = b.constant(b.array([n, 3, 2, 2], np.float32, 0.7))
    mode = b.choose(("bilinear", "nearest") if b.opset < 20 else ("linear", "nearest"))
    return b.add("GridSample", [x, grid], mode=mode, padding_mode=b.choose("zeros", "border", "reflection"), align_corners=b.int(0, 1))


@emits("RoiAlign")
def roi_align(b, op):
    x = b.pick(lambda v: v.ndim == 4 and v.dtype == np.float32)
    rois = np.sort(b.rng.uniform(0, 6, [3, 2, 2]), 1).reshape(3, 4)
    return b.add(op, [x, b.constant(rois, np.float32), b.constant(b.rng.integers(0, b.shape(x)[0], 3), np.int64)], output_height=2, output_width=3,
                 sampling_ratio=b.int(1, 2), mode=b.choose("avg", "avg", "max"))


@emits("Col2Im")
def col2im(b, op):
    x = b.input([b.int(1, 2), 2 * 4, 4])
    return b.add(op, [x, b.constant([3, 3], np.int64), b.constant([2, 2], np.int64)])


@emits("DeformConv")
def deform_conv(b, op):
    x = b.pick(lambda v: v.ndim == 4 and v.dtype == np.float32 and v.shape[2] > 2 and v.shape[3] > 2)
    n, c, h, w = b.shape(x)
    offset = b.constant(b.array([n, 8, h - 1, w - 1], np.float32, 0.5))
    return b.add(op, [x, b.constant(b.array([2, c, 2, 2], np.float32)), offset], kernel_shape=[2, 2])


# Products.
@emits("MatMul")
def matmul(b, op):
    x = b.pick(lambda v: v.ndim > 0 and v.size > 0 and v.dtype in (*FLOATS, np.int32, np.int64))
    shape = b.shape(x)
    other = [shape[-1], b.int(1, 6)] if b.chance(0.85) else [shape[-1]]
    if len(shape) > 2 and b.chance(0.3):
        other = [1 if b.chance(0.4) else d for d in shape[:-2]] + other[:2] if len(other) == 2 else other
    return b.add(op, [x, b.constant(b.array(other, b.dtype(x), 0.5))])


@emits("Gemm")
def gemm(b, op):
    x = b.pick_float(2)
    flip, turned, width = b.int(0, 1), b.int(0, 1), b.int(1, 6)
    rows, k = b.shape(x)[::-1] if flip else b.shape(x)
    y = b.constant(b.array([width, k] if turned else [k, width], b.dtype(x), 0.5))
    c = [b.constant(b.array(b.choose([[width], [1, width], [rows, 1], [rows, width], []]), b.dtype(x)))] if b.chance(0.7) else []
    return b.add(op, [x, y] + c, transA=flip, transB=turned, alpha=b.choose(1.0, 0.5), beta=b.choose(1.0, 2.0))


@emits("Einsum")
def einsum(b, op):
    x = b.pick(lambda v: v.ndim == 2 and v.dtype == np.float32)
    i, j = b.shape(x)
    equation, other = b.choose([("ij,jk->ik", [j, 3]), ("ij,ij->i", [i, j]), ("ij,kj->ki", [2, j]), ("ij,j->ij", [j]), ("ij,ij->", [i, j]), ("ij,jk->kji", [j, 2])])
    return b.add(op, [x, b.constant(b.array(other, np.float32))], equation=equation)


@emits("Det")
def det(b, op):
    x = b.pick(lambda v: v.ndim == 2 and v.dtype == np.float32 and v.shape[0] >= 2)
    k = b.constant(b.array([b.shape(x)[1], b.shape(x)[0]], np.float32, 0.5))
    return b.add(op, [b.add("MatMul", [x, k])])


@emits("QuantizeLinear DequantizeLinear")
def quantized(b, op):
    x = b.pick(lambda v: v.dtype == np.float32 and v.ndim > 0)
    dtype = b.choose(np.int8, np.uint8)
    axis = axis_of(b, x)
    d = b.shape(x)[axis]
    scales, zeros = ([d], [d]) if b.chance(0.4) else ([], [])
    scale = b.constant(b.rng.uniform(0.02, 0.1, scales), np.float32)
    zero = b.constant(b.rng.integers(0 if dtype == np.uint8 else -3, 4, zeros), dtype)
    q = b.add("QuantizeLinear", [x, scale, zero], axis=axis)
    return b.add("DequantizeLinear", [q, scale, zero], axis=axis)


@emits("DynamicQuantizeLinear")
def dynamic_quantized(b, op):
    q, scale, zero = b.add(op, [b.pick(lambda v: v.dtype == np.float32)], outputs=3)
    return b.add("DequantizeLinear", [q, scale, zero])


@emits("MatMulInteger")
def matmul_integer(b, op):
    x = b.input([b.int(1, 4), b.int(1, 6)], np.uint8)
    return b.add(op, [x, b.constant(b.rng.integers(-9, 9, [b.shape(x)[1], 3]), np.int8), b.constant(b.int(0, 3), np.uint8)])


@emits("ConvInteger")
def conv_integer(b, op):
    x = b.input([1, 2, 5, 5], np.uint8)
    return b.add(op, [x, b.constant(b.rng.integers(0, 9, [3, 2, 3, 3]), np.uint8), b.constant(b.int(0, 3), np.uint8)], pads=[b.int(0, 1)] * 4)


@emits("QLinearMatMul")
def qlinear_matmul(b, op):
    x = b.input([b.int(1, 4), b.int(1, 6)], np.uint8)
    f, u = lambda v: b.constant(v, np.float32), lambda v: b.constant(v, np.uint8)
    return b.add(op, [x, f(0.1), u(3), u(b.rng.integers(0, 9, [b.shape(x)[1], 3])), f(0.05), u(4), f(0.07), u(100)])


@emits("QLinearConv")
def qlinear_conv(b, op):
    x = b.input([1, 2, 5, 5], np.uint8)
    f, u = lambda v: b.constant(v, np.float32), lambda v: b.constant(v, np.uint8)
    return b.add(op, [x, f(0.1), u(3), u(b.rng.integers(0, 9, [3, 2, 3, 3])), f(0.05), u(4), f(0.07), u(100)])


# Signals and losses.
@emits("HannWindow HammingWindow BlackmanWindow")
def windows(b, op):
    return b.add("Mul", [b.input([8]), b.add(op, [b.constant(8, np.int64)], periodic=b.int(0, 1))])


@emits("DFT")
def dft(b, op):
    x = b.input([b.int(1, 2), b.int(3, 8), 1])
    return b.add(op, [x], axis=1, onesided=b.int(0, 1)) if b.opset < 20 else b.add(op, [x, "", b.constant(1, np.int64)], onesided=b.int(0, 1))


@emits("STFT")
def stft(b, op):
    return b.add(op, [b.input([1, 16, 1]), b.constant(4, np.int64), b.constant(b.array([8], np.float32)), b.constant(8, np.int64)])


@emits("MelWeightMatrix")
def mel(b, op):
    i = lambda v: b.constant(v, np.int64)
    matrix = b.add(op, [i(4), i(16), i(8000), b.constant(20.0, np.float32), b.constant(3000.0, np.float32)])
    return b.add("MatMul", [b.input([2, 9]), matrix])


@emits("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss")
def loss(b, op):
    scores, labels = b.input([3, 5]), b.input([3], np.int64, below=5)
    if op[0] == "N":
        scores = b.add("LogSoftmax", [scores], axis=1)
    return b.add(op, [scores, labels], reduction=b.choose("none", "mean", "sum"))


@emits("Dropout")
def dropout(b, op):
    return b.add(op, [b.pick_float()])


# Machine learning of tables.
@emits("Scaler Normalizer LinearRegressor Binarizer Imputer ArrayFeatureExtractor")
def tables(b, op):
    x = b.pick(lambda v: v.ndim == 2 and v.dtype == np.float32 and v.size > 0)
    k = b.shape(x)[1]
    floats = lambda n: [round(float(v), 3) for v in b.rng.normal(size=n)]
    attributes = {"Scaler": {"offset": floats(k), "scale": floats(k)}, "Normalizer": {"norm": b.choose("L1", "L2", "MAX")},
                  "LinearRegressor": {"coefficients": floats(2 * k), "intercepts": floats(2), "targets": 2}, "Binarizer": {"threshold": 0.25},
                  "Imputer": {"imputed_value_floats": [0.5], "replaced_value_float": float("nan")}, "ArrayFeatureExtractor": {}}[op]
    inputs = [x, b.constant(b.rng.integers(0, k, 2), np.int64)] if op[0] == "A" else [x]
    return b.add(op, inputs, domain="ai.onnx.ml", **attributes)


# Sequences.
@emits("SplitToSequence SequenceAt SequenceConstruct SequenceInsert SequenceErase SequenceLength ConcatFromSequence")
def sequences(b, op):
    x = b.pick(lambda v: v.ndim > 0 and v.dtype == np.float32 and v.shape[0] > 1)
    s = b.add("SplitToSequence", [x], axis=0) if b.chance(0.5) else b.add("SequenceConstruct", [x, x])
    if op == "SequenceErase":
        s = b.add(op, [s, b.constant(0, np.int64)])
    if op == "SequenceInsert":
        s = b.add(op, [s, x])
    if op == "SequenceLength":
        return b.add(op, [s])
    return b.add("SequenceAt", [s, b.constant(0, np.int64)]) if op == "SequenceAt" else b.add("ConcatFromSequence", [s], axis=0)
