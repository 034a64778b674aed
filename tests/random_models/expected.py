"""What rounding explains, measured on the model itself: it is run again with every float on the way off by a few units in its last place, at random.

Values that nobody rounds (small whole numbers) stay as they are, so that ties stay ties. How far the outputs then move says, channel by channel, how far
another order of the same arithmetic may lie; an element that tips (an index, a comparison, a step) is not held against anybody."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from build import session

FLOAT_TYPES = {TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16}
# Operands that say how large a result is, or that onnxruntime wants as constants.
STRUCTURAL = {"Resize": range(1, 4), "Range": range(3), "RoiAlign": (), "MelWeightMatrix": range(5), "QLinearConv": range(8), "QLinearMatMul": range(8)}
# Functions that onnxruntime computes by polynomials whose error does not shrink with the value.
APPROXIMATED = {"Sigmoid", "Tanh", "Erf", "LSTM", "GRU", "RNN", "Softplus", "Gelu", "Mish", "Softmax", "HardSwish"}
ABSOLUTE = 1e-7
# What is too small for the type is lost here, and is not where factors stand in another order.
UNDERFLOWING = {"Mul", "Div"}
# Operators at which onnxruntime treats NaN otherwise than Emend, which passes it on (docs/ir.md), or at which the standard leaves it open.
NAN_APART = {"QuantizeLinear", "DynamicQuantizeLinear", "Cast", "CastLike", "ArgMax", "ArgMin", "Max", "Min", "ReduceMax", "ReduceMin", "MaxPool", "GlobalMaxPool", "TopK",
             "Hardmax", "Clip", "Relu", "Sign", "Unique", "NonZero", "Shrink", "Where", "RoiAlign", "If", "Loop", "Scan", "HardSigmoid", "HardSwish", "ThresholdedRelu"}
# Of values so small that their squares vanish these give 0 in onnxruntime, the value itself here, and neither what the formula says.
VANISHING = {"LpNormalization"}
# Sums that cancel: what rounding leaves in one element is of the largest one.
CANCELLING = {"DFT", "STFT", "BlackmanWindow", "HammingWindow", "HannWindow"}
# A normalization may be folded into the weights before it, which are no whole numbers then.
CONTRACTIONS = {"Conv", "ConvTranspose", "Gemm", "MatMul"}
# Sums in which an overflow may meet one of the other sign: infinity or NaN, as the order of the terms will have it, and whether a product is
# rounded before it is added (a fused one is not, so that two that overflow to both sides give an infinity there and a NaN elsewhere).
SUMS = CONTRACTIONS | {"Einsum", "DeformConv", "ReduceSum", "ReduceMean", "AveragePool", "GlobalAveragePool", "CumSum", "DFT", "STFT", "LinearRegressor"}
# Products in which an overflow may meet a zero: NaN or zero, as the order of the factors will have it.
PRODUCTS = {"ReduceProd"}
# How large their results are depends on values.
OF_DATA = {"NonZero", "Compress", "Unique", "NonMaxSuppression"}
# onnxruntime adds to a running sum and takes away from it again, so that rounding of one large square is left in all channels that follow.
RUNNING = {"LRN"}
UNITS = 4  # of the last place, up or down
TIMES = 8  # how often what was seen in a few runs
FEW, SOME, MANY = 3, 10, 60  # runs: for most cases, for what seems wrong, and for steps that seem wrong


def structural(graph):
    return {node.input[i] for node in graph.node for i in STRUCTURAL.get(node.op_type, ()) if i < len(node.input)}


class Reference:
    """A model in onnxruntime, without optimizations, and how far its values can be trusted."""

    def __init__(self, model):
        self.model, self.plain = model, session(model)
        self.outputs = [o.name for o in model.graph.output]
        self.noisy, self.seen, self.names = None, None, []

    def run(self, values):
        return self.plain.run(None, values)

    def with_noise(self):
        """One that returns every float on the way, and one in which each is multiplied by an input of its own."""
        keep = structural(self.model.graph)
        seen = onnx.ModelProto()
        seen.CopyFrom(self.model)
        inferred = onnx.shape_inference.infer_shapes(self.model)
        types = {v.name: v.type.tensor_type.elem_type for v in [*inferred.graph.value_info, *inferred.graph.output] if v.type.HasField("tensor_type")}
        wanted = [o for n in self.model.graph.node for o in n.output if types.get(o) in FLOAT_TYPES and o not in keep]
        seen.graph.ClearField("output")
        seen.graph.output.extend(helper.make_empty_tensor_value_info(o) for o in wanted)
        constants = {c.name: numpy_helper.to_array(c) for c in self.model.graph.initializer if c.data_type in FLOAT_TYPES and c.name not in keep}
        self.scaled = scaled_weights(self.model.graph)
        constants = {k: v for k, v in constants.items() if v.size and (k in self.scaled or not exact(v).all())}
        noisy = onnx.ModelProto()
        noisy.CopyFrom(self.model)
        graph = noisy.graph
        for node in graph.node:
            for i, name in enumerate(node.output):
                node.output[i] = name + "_raw" if name in wanted else name
        for c in graph.initializer:
            c.name += "_raw" if c.name in constants else ""
        first = [helper.make_node("Mul", [c + "_raw", "noise_" + c], [c]) for c in constants]
        nodes = [m for n in graph.node for m in [n, *(d for o in n.output if o.endswith("_raw") for d in disturbed(o[:-4], n.op_type))]]
        graph.ClearField("node")
        graph.node.extend(first + nodes)
        kinds = {**{o: types[o] for o in wanted}, **{c: helper.np_dtype_to_tensor_dtype(v.dtype) for c, v in constants.items()}}
        graph.input.extend(helper.make_tensor_value_info("noise_" + name, kind, None) for name, kind in kinds.items())
        self.products = {o for n in self.model.graph.node if n.op_type in PRODUCTS for o in n.output if o in wanted}
        for name in sorted(self.products):
            graph.input.extend([helper.make_tensor_value_info("fits_" + name, TensorProto.BOOL, None), helper.make_tensor_value_info("zero_" + name, types[name], None)])
        self.seen, self.noisy, self.names, self.constants = (session(seen) if wanted else None), session(noisy), wanted, constants
        self.added = {o for n in self.model.graph.node if n.op_type in APPROXIMATED for o in n.output}
        self.cancelling = {o for n in self.model.graph.node if n.op_type in CANCELLING for o in n.output}
        self.factors = {n.output[0]: list(n.input) for n in self.model.graph.node if n.op_type in UNDERFLOWING}
        self.running = {n.output[0]: n for n in self.model.graph.node if n.op_type in RUNNING}
        self.sums = {o for n in self.model.graph.node if n.op_type in SUMS for o in n.output}

    def spread(self, values, rounds, units, seed):
        """Outputs of so many noisy runs."""
        if self.noisy is None:
            self.with_noise()
        known = dict(self.constants)
        if self.seen:
            known.update(zip(self.names, self.seen.run(None, values)))
        lost = {k: underflown(v, [{**values, **known}.get(i) for i in self.factors[k]]) for k, v in known.items() if k in self.factors}
        lost |= {k: 4 * np.finfo(v.dtype).eps * magnitude(v).max(initial=0) for k, v in known.items() if k in self.cancelling}
        finite = all(np.isfinite(v).all() for v in values.values() if v.dtype.kind == "f")
        lost |= {k: left_over(known[k], {**values, **known}.get(n.input[0]), n) for k, n in self.running.items() if k in known}
        for r in range(rounds):
            rng = np.random.default_rng([seed, r])
            moved = {k: (v * noise(v, units, rng) if v.dtype.kind == "f" else v) for k, v in values.items()}
            made = {}
            for k, v in known.items():
                if k in self.added or k in lost:
                    made["noise_" + k] = shift(v, units, rng, lost.get(k, ABSOLUTE))
                else:
                    made["noise_" + k] = noise(v, units, rng, whole_stays=k not in self.scaled)
                if k in self.sums and finite:
                    made["noise_" + k] = np.where(np.isinf(v) & (rng.random(v.shape) < 0.5), np.nan, made["noise_" + k]).astype(v.dtype)
                if k in self.products:
                    made["zero_" + k], made["fits_" + k] = np.zeros_like(v), np.asarray(np.isfinite(v) | (rng.random(v.shape) < 0.5) | (not finite))
            yield self.noisy.run(None, {**moved, **made})


def exact(v):
    """Whole numbers that sums and products do not round."""
    with np.errstate(all="ignore"):
        return (np.abs(v) < (2**9 if v.dtype == np.float16 else 2**20)) & (v == np.round(v))


def scaled_weights(graph):
    if not any(n.op_type == "BatchNormalization" for n in graph.node):
        return set()
    return {i for n in graph.node if n.op_type in CONTRACTIONS for i in n.input[1:]}


def noise(v, units, rng, whole_stays=True):
    unit = units * np.finfo(v.dtype).eps / 2
    return np.where(exact(v) & whole_stays, 1.0, 1 + unit * rng.choice([-1.0, -0.5, 0.5, 1.0], v.shape)).astype(v.dtype)


def shift(v, units, rng, absolute):
    with np.errstate(all="ignore"):
        return np.nan_to_num(v * (noise(v, units, rng) - 1) + absolute * rng.choice([-1.0, 1.0], v.shape)).astype(v.dtype)


def underflown(v, factors):
    """So much may be lost by element: the least number, where factors that are not zero give none that is normal."""
    limits = np.finfo(v.dtype)
    small = np.abs(v) < limits.smallest_normal
    for f in factors:
        small = small & (f != 0) if f is not None else small & (v != 0)
    return small * float(limits.smallest_subnormal)


def left_over(v, x, node):
    """What rounding of the running sum of squares, where it is largest among the channels, makes of each element of x / (bias + factor sum) ^ beta."""
    if x is None:
        return ABSOLUTE
    beta = next(a.f for a in node.attribute if a.name == "beta")
    with np.errstate(all="ignore"):
        divisor = np.abs(x.astype(np.float64) / v) ** (1 / beta)
        share = 4 * np.finfo(v.dtype).eps * np.nan_to_num(divisor).max(1, keepdims=True) / divisor
        return np.nan_to_num(magnitude(v) * np.minimum(1, beta * share), posinf=0)


def grouped(v, keep):
    """The largest of each slice along an axis, in the shape of v."""
    axes = tuple(i for i in range(v.ndim) if i != keep)
    return np.broadcast_to(v.max(axes, keepdims=True, initial=0), v.shape)


def by_channel(v):
    """Over slices along the second axis or the last, whichever is less."""
    if v.ndim < 2:
        return np.broadcast_to(v.max(initial=0), v.shape)
    return np.minimum(grouped(v, 1), grouped(v, v.ndim - 1))


def magnitude(v):
    with np.errstate(all="ignore"):
        return np.nan_to_num(np.abs(v.astype(np.float64)), nan=0, posinf=0)


def disturbed(name, op):
    """The nodes that make a value of its raw one."""
    if op in PRODUCTS:
        return [helper.make_node("Mul", [name + "_raw", "noise_" + name], [name + "_moved"]),
                helper.make_node("Where", ["fits_" + name, name + "_moved", "zero_" + name], [name])]
    return [helper.make_node("Add" if op in APPROXIMATED | UNDERFLOWING | CANCELLING | RUNNING else "Mul", [name + "_raw", "noise_" + name], [name])]


class Expected:
    """Outputs at some inputs, and what is allowed around them."""

    def __init__(self, reference, values, regime="normal"):
        self.reference, self.values, self.special = reference, values, regime == "special"
        apart = {"special": NAN_APART, "small": VANISHING}.get(regime, set())
        self.comparable = not apart & {n.op_type for n in reference.model.graph.node}
        self.own = reference.run(values)  # onnxruntime's, which noise is measured on
        self.outputs = self.own  # what is compared with

    def faults(self, got, slack=0.0):
        """`got` by name; None where it agrees. `slack` is a share of the channel's largest value that is allowed besides."""
        names = self.reference.outputs
        missing = [n for n in names if n not in got]
        if missing:
            return f"lacks the outputs {missing}"
        for name, want in zip(names, self.outputs):
            if got[name].dtype != want.dtype or got[name].shape != want.shape and not self.shape_tips(name):
                return f"{name} is {got[name].dtype}{list(got[name].shape)}, not {want.dtype}{list(want.shape)}"
        if not self.comparable:
            return None
        # What is the same, bit for bit or but for rounding of a unit, needs no measuring of noise.
        if all(np.array_equal(got[n], w, equal_nan=w.dtype.kind == "f") for n, w in zip(names, self.outputs)):
            return None
        for rounds, units in ((FEW, UNITS), (SOME, 4 * UNITS), (MANY, 4 * UNITS)):
            fault = self.measured(got, slack, rounds, units)
            if not fault:
                return None
        return fault

    def shape_tips(self, name):
        """Does the size of an output follow from rounding, as that of NonZero's may, or from what cannot be compared?"""
        if not OF_DATA & {n.op_type for n in self.reference.model.graph.node}:
            return False
        if not self.comparable:
            return True
        try:
            i = self.reference.outputs.index(name)
            with np.errstate(all="ignore"):
                return any(r[i].shape != self.own[i].shape for r in self.reference.spread(self.values, 10, 4 * UNITS, 5))
        except Exception:
            return True

    def measured(self, got, slack, rounds, units):
        try:
            with np.errstate(all="ignore"):
                runs = list(self.reference.spread(self.values, rounds, units, 5))
        except Exception:
            return None  # sizes that tip: nothing can be said
        for i, (name, want) in enumerate(zip(self.reference.outputs, self.outputs)):
            noisy, own = [r[i] for r in runs], self.own[i]
            if got[name].shape != want.shape or any(n.shape != own.shape for n in noisy):
                continue
            if own.shape != want.shape:
                noisy, own = [want], want  # of another size here: as if nothing were rounded
            fault = self.fault(got[name], want, own, noisy, slack)
            if fault:
                return f"{name}{fault}"
        return None

    def fault(self, got, want, own, noisy, slack):
        if want.dtype.kind != "f":
            # Of many ties that tip by the toss of a coin, some do not in a few runs.
            stable = np.all([n == own for n in noisy], axis=0)
            return at(got, want, stable & (got != want))
        noisy = noisy[:SOME]  # more of them would allow more, by and by
        with np.errstate(all="ignore"):
            trusted = np.isfinite(want) & np.all([np.isfinite(n) for n in noisy], axis=0)
            lost = trusted & ~np.isfinite(got) if not self.special else np.zeros(want.shape, bool)
            if lost.any():
                return at(got, want, lost)
            exact_want, exact_own = want.astype(np.float64), own.astype(np.float64)
            trusted &= np.isfinite(own)
            spread = np.max([np.where(trusted, np.abs(n.astype(np.float64) - exact_own), 0) for n in noisy], axis=0)
            info = np.finfo(want.dtype)
            allowed = TIMES * by_channel(np.where(trusted, spread, 0)) + slack * by_channel(magnitude(want))
            allowed += 4 * info.eps * magnitude(want) + 16 * float(info.smallest_subnormal)
            both = trusted & np.isfinite(got)
            return at(got, want, both & (np.abs(got.astype(np.float64) - exact_want) > allowed))


def at(got, want, wrong):
    if not wrong.any():
        return None
    where = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{list(where)} is {got[where]!r}, not {want[where]!r} ({int(wrong.sum())} of {want.size})"
