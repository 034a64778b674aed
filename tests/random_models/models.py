"""`model_of(seed)`: a model and how to draw its inputs, a pure function of the seed (and of the versions that deps.txt pins)."""
import dataclasses

import numpy as np
import onnx
from onnx import helper, numpy_helper

from blocks import FAMILIES, sprinkle
from build import Builder, Given, Refused, session, value_info
from expected import OF_DATA

REGIMES = ("normal", "integers", "ties", "large", "small", "pixels", "spikes", "ends", "special", "denormal")


@dataclasses.dataclass
class Case:
    family: str
    model: onnx.ModelProto
    inputs: list  # of Given
    sizes: list = dataclasses.field(default_factory=list)  # other sizes of the symbols at which onnxruntime runs the model

    def draw(self, regime, seed, sizes=None):
        rng = np.random.default_rng([seed, REGIMES.index(regime)])
        values = {}
        for given in self.inputs:
            shape = [(sizes or {}).get(given.symbols.get(axis), d) for axis, d in enumerate(given.shape)]
            values[given.name] = draw(rng, given, shape, regime)
        return values


def draw(rng, given, shape, regime):
    dtype = given.dtype
    if given.below:
        return rng.integers(0, given.below, shape).astype(dtype)
    if dtype == np.bool_:
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        values = rng.integers(0 if dtype.kind == "u" else -5, 6, shape).astype(dtype)
        if regime == "ends":
            values = np.where(rng.random(shape) < 0.3, dtype.type(ends.max), values)
            values = np.where(rng.random(shape) < 0.2, dtype.type(ends.min), values)
        return values.astype(dtype)
    return floats(rng, shape, regime, dtype)


def floats(rng, shape, regime, dtype):
    normal, most = rng.normal(size=shape), float(np.finfo(dtype).max)
    if regime == "integers":
        normal = np.round(normal * 2)
    elif regime == "ties":
        normal = rng.choice([-1.0, 0.0, 1.0, 2.0], shape)
    elif regime == "large":
        normal = normal * min(1e30, most / 100)
    elif regime == "small":
        normal = normal * (1e-30 if dtype != np.float16 else 1e-3)
    elif regime == "pixels":
        normal = np.floor(rng.uniform(0, 256, shape))
    elif regime == "spikes":
        normal = np.where(rng.random(shape) < 0.1, normal * min(1e6, most / 100), normal)
    elif regime == "special":
        normal = np.where(rng.random(shape) < 0.3, rng.choice([np.nan, np.inf, -np.inf, -0.0], shape), normal)
    elif regime == "denormal":
        tiny = float(np.finfo(dtype).smallest_subnormal)
        normal = np.where(rng.random(shape) < 0.5, rng.choice([-0.0, 0.0, 3 * tiny, -5 * tiny], shape), normal)
    return np.asarray(normal).astype(dtype)


def outputs_of(b, interface):
    """The values that nobody reads, some others, and in models of interfaces what is awkward: inputs, constants, the same twice."""
    read = {i for n in b.nodes for i in n.input}
    arrays = [n for n in b.order if isinstance(b.values[n], np.ndarray)]
    made = {o for n in b.nodes for o in n.output}
    chosen = [n for n in arrays if n in made and n not in read][-4:]
    chosen += [n for n in arrays if n in made and n not in chosen and b.chance(0.1)][:2]
    if interface or b.chance(0.05):
        extra = [g.name for g in b.inputs] + [n for n in b.constants if b.values[n].ndim < 3][:2] + chosen
        chosen += [b.choose(extra) for _ in range(b.int(1, 3))]
        chosen = [chosen[i] for i in b.rng.permutation(len(chosen))]
    return chosen


def named(b, chosen):
    """Names of outputs differ; one that was named already, or in half of the cases, is given by an Identity."""
    outputs = []
    for name in chosen:
        if name in outputs:
            copy = b.name("y")
            b.nodes.append(helper.make_node("Identity", [name], [copy]))
            b.values[copy] = b.values[name]
            name = copy
        outputs.append(name)
    return outputs


def proto(b, outputs, inputs):
    shape = lambda g: [g.symbols.get(axis, d) for axis, d in enumerate(g.shape)]
    read = {i for n in b.nodes for i in n.input} | {i for n in b.nodes for a in n.attribute for m in a.g.node for i in m.input} | set(outputs)
    # A model that declared how large a result of data is would be wrong for other inputs.
    tells = not any(g.symbols for g in inputs) and not OF_DATA & {n.op_type for n in b.nodes}
    graph = helper.make_graph(
        b.nodes, "soak", [value_info(g.name, g.dtype, shape(g)) for g in inputs],
        [value_info(o, b.values[o].dtype, b.values[o].shape if tells else None) for o in outputs],
        [numpy_helper.from_array(v, n) for n, v in b.constants.items() if n in read])
    return b.model_of(graph)


def with_symbols(b, case):
    """Axes of inputs that the model takes at other sizes become symbols: one for each size that axes share by chance or meaning."""
    symbols = {}
    for given in case.inputs:
        for axis, size in enumerate(given.shape):
            if size > 0 and b.chance(0.9 if axis == 0 else 0.5):
                given.symbols[axis] = symbols.setdefault((axis, size), f"s{len(symbols)}")
    base = {name: size for (axis, size), name in symbols.items()}
    running = session(proto_open(case))
    for name, size in base.items():
        works = [other for other in (1, size + 1, 2 * size + 1) if other != size and runs(running, case, {**base, name: other})]
        if len(works) < 2:
            for given in case.inputs:
                given.symbols = {a: s for a, s in given.symbols.items() if s != name}
        else:
            case.sizes += [{**base, name: other} for other in works]
    together = {name: 2 * size + 1 for name, size in base.items()}
    if case.sizes and runs(running, case, together):
        case.sizes.append(together)


def proto_open(case):
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for info in [*model.graph.input, *model.graph.output]:
        for i, d in enumerate(info.type.tensor_type.shape.dim):
            d.Clear()
            d.dim_param = f"{info.name}_{i}"
    return model


def runs(running, case, sizes):
    try:
        running.run(None, case.draw("normal", 1, sizes))
        return True
    except Exception:
        return False


# Operators whose constants fit one size, and which onnxruntime runs at others all the same.
OF_ONE_SIZE = {"Compress"}


def model_of(seed, family=None, closed=False):
    """None where the seed leads to nothing that onnxruntime runs. `closed`: without open sizes."""
    rng = np.random.default_rng([77, seed])
    b = Builder(rng, int(rng.choice([13, 14, 15, 16, 17, 18, 19, 20, 21])))
    family = family or b.choose(list(FAMILIES))
    try:
        FAMILIES[family](b)
    except Refused:
        pass
    if b.chance(0.4) and b.nodes:
        sprinkle(b)
    outputs = named(b, outputs_of(b, family == "interface"))
    if not outputs or not b.nodes or not b.inputs:
        return None
    read = {i for n in b.nodes for i in n.input} | set(outputs)
    inputs = [g for g in b.inputs if g.name in read or b.chance(0.5)]
    case = Case(family, proto(b, outputs, inputs), inputs)
    try:
        session(case.model).run(None, case.draw("normal", 0))
        if b.chance(0.4) and not closed and not b.of_one_size and not OF_ONE_SIZE & {n.op_type for n in b.nodes}:
            with_symbols(b, case)
            case.model = proto(b, outputs, inputs)
    except Exception:
        return None
    return case
