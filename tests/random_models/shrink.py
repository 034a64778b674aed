"""A finding made small: fewer outputs, fewer nodes (what a dropped node made becomes an input with the values it had), smaller sizes; kept is
whatever still shows a finding of the same kind."""
import dataclasses

import numpy as np
import onnx
from onnx import helper, numpy_helper

from build import Given, session, value_info
from models import Case


@dataclasses.dataclass
class Fixed(Case):
    """With the very values that it failed with, as far as they are inputs of its own."""

    values: dict = dataclasses.field(default_factory=dict)  # regime: name: value

    def draw(self, regime, seed, sizes=None):
        made = super().draw(regime, seed, sizes)
        return made if sizes else {**made, **{k: v for k, v in self.values.get(regime, {}).items() if k in made}}


def everything(case, values):
    """Every value on the way that can be an input."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    inferred = onnx.shape_inference.infer_shapes(model)
    lists = {v.name for v in inferred.graph.value_info if not v.type.HasField("tensor_type")}
    wanted = [o for n in model.graph.node for o in n.output if o and o not in lists]
    model.graph.ClearField("output")
    model.graph.output.extend(helper.make_empty_tensor_value_info(w) for w in wanted)
    made = dict(zip(wanted, session(model).run(None, values)))
    return {**values, **{k: v for k, v in made.items() if isinstance(v, np.ndarray)}}


def pruned(case, outputs, without, known):
    """The case with these outputs only, and without a node; None where that cannot be."""
    graph = case.model.graph
    nodes, needed = [], set(outputs)
    for node in reversed(graph.node):
        if needed & set(node.output) and node.output[0] != without:
            nodes.insert(0, node)
            needed |= set(node.input) | {i for a in node.attribute for n in a.g.node for i in n.input}
    made = {o for n in nodes for o in n.output}
    inputs = [g for g in case.inputs if g.name in needed]
    fresh = [n for n in known[0] if n in needed and n not in made and n not in {g.name for g in inputs}]
    inputs += [Given(n, known[0][n].dtype, list(known[0][n].shape)) for n in fresh]
    if not nodes or not inputs:
        return None
    symbolic = any(g.symbols for g in inputs)
    shape = lambda g: [g.symbols.get(a, d) for a, d in enumerate(g.shape)]
    kept = [o for o in graph.output if o.name in outputs]
    small = helper.make_graph(nodes, "small", [value_info(g.name, g.dtype, shape(g)) for g in inputs], kept, [c for c in graph.initializer if c.name in needed])
    model = helper.make_model(small, opset_imports=case.model.opset_import, ir_version=case.model.ir_version)
    values = {r: {g.name: k[g.name] for g in inputs if g.name in k} for r, k in zip(case.values, known)}
    return Fixed(case.family, model, inputs, case.sizes if symbolic else [], values)


def with_outputs_of(case, name, known):
    """The case that ends at this value."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    model.graph.ClearField("output")
    value = known[0][name]
    model.graph.output.append(value_info(name, value.dtype, None if any(g.symbols for g in case.inputs) else value.shape))
    return pruned(dataclasses.replace(case, model=model), [name], None, known)


def smaller(case, size, to):
    """With every size of this number cut to another, in inputs and weights of more than one."""
    cut = lambda v: v[tuple(slice(to) if d == size else slice(None) for d in v.shape)]
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for c in model.graph.initializer:
        value = numpy_helper.to_array(c)
        if value.dtype.kind == "f" and size in value.shape:
            c.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(cut(value)), c.name))
    inputs = [dataclasses.replace(g, shape=[to if d == size else d for d in g.shape]) for g in case.inputs]
    model.graph.ClearField("input")
    model.graph.input.extend(value_info(g.name, g.dtype, [g.symbols.get(a, d) for a, d in enumerate(g.shape)]) for g in inputs)
    for o in model.graph.output:
        o.type.tensor_type.ClearField("shape")
    return Fixed(case.family, model, inputs, [], {r: {k: cut(v) for k, v in vs.items()} for r, vs in case.values.items()})


def shrink(case, seed, plan, shows, tries=150):
    """`shows(case)`: is the finding still there? What cannot be run at all shows nothing."""
    left = [tries]

    def still(other):
        if other is None or left[0] <= 0:
            return False
        left[0] -= 1
        try:
            return shows(other)
        except Exception:
            return False

    values = {r: case.draw(r, seed) for r in plan.regimes}
    case = Fixed(case.family, case.model, case.inputs, case.sizes, values)
    try:
        known = [everything(case, v) for v in values.values()]
    except Exception:
        return case
    for node in case.model.graph.node:  # the first value at which it shows
        other = with_outputs_of(case, node.output[0], known) if node.output[0] in known[0] else None
        if other and len(other.model.graph.node) < len(case.model.graph.node) and still(other):
            case = other
            break
    changed = True
    while changed and left[0] > 0:
        changed = False
        outputs = [o.name for o in case.model.graph.output]
        for o in outputs if len(outputs) > 1 else []:
            other = pruned(case, [p for p in outputs if p != o], None, known)
            if still(other):
                case, changed = other, True
                break
        for node in case.model.graph.node:
            if node.output[0] in known[0] and not set(node.output) & set(outputs):
                other = pruned(case, [o.name for o in case.model.graph.output], node.output[0], known)
                if still(other):
                    case, changed = other, True
                    break
    for size in sorted({d for g in case.inputs for d in g.shape if d > 1}, reverse=True):
        for to in (1, 2):
            if to < size and still(smaller(case, size, to)):
                case = smaller(case, size, to)
                break
    return case
