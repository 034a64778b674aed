"""Property tests: every elementwise, reduction and contraction operator that ONNX has a name for, over random shapes and
all element types, against onnxruntime (or ONNX's reference evaluator where onnxruntime has no kernel for the type).

The operators come from docs/operators.md, which is generated from the table: a new operator is tested without touching
this file, unless its family needs a generator of its own, and then the completeness test says so."""
import pathlib, re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import cases

ROOT = pathlib.Path(__file__).resolve().parents[2]
KINDS = ("elementwise", "reduction", "contraction")


def table():
    """kind -> ONNX names of the default domain."""
    names, kind = {}, None
    for line in (ROOT / "docs/operators.md").read_text().splitlines():
        if line.startswith("## "):
            kind = line[3:]
        elif line.startswith("| `") and kind in KINDS:
            onnx_names = line.split("|")[-2]
            names.setdefault(kind, []).extend(n.strip() for n in onnx_names.split(",") if n.strip() and "." not in n)
    return {k: sorted(set(v)) for k, v in names.items()}


TABLE = table()
TABLE["composite"] = ["AveragePool", "LpPool", "GlobalLpPool", "GlobalAveragePool", "ConvTranspose"]  # made of sums
POSITIVE = {"Log", "Sqrt", "Reciprocal", "Pow"}
UNIT = {"Asin", "Acos", "Atanh"}
FLOATS = {TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16}
TYPES = {"float": TensorProto.FLOAT, "double": TensorProto.DOUBLE, "float16": TensorProto.FLOAT16,
         "bfloat16": TensorProto.BFLOAT16, "int8": TensorProto.INT8, "int16": TensorProto.INT16,
         "int32": TensorProto.INT32, "int64": TensorProto.INT64, "uint8": TensorProto.UINT8,
         "uint16": TensorProto.UINT16, "uint32": TensorProto.UINT32, "uint64": TensorProto.UINT64,
         "bool": TensorProto.BOOL}


def values(rng, op, elem, shape, position):
    dtype = helper.tensor_dtype_to_np_dtype(elem)
    if elem == TensorProto.BOOL:
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    if elem in FLOATS:
        x = np.asarray(rng.normal(size=shape) * 2)
        if op in POSITIVE and position == 0:
            x = np.abs(x) + 0.1
        elif op == "Acosh":
            x = np.abs(x) + 1.01
        elif op in UNIT:
            x = np.clip(x / 6, -0.95, 0.95)
        elif op == "Pow":
            x = np.abs(x) / 2
        elif op in ("Mod", "Div") and position == 1:
            x = np.where(np.abs(x) < 0.2, 0.7, x)
        return np.asarray(x).astype(np.float32).astype(dtype)  # a double that is a float too: see cases.float_twin
    signed = np.issubdtype(dtype, np.signedinteger)
    low, high = (-9, 9) if signed else (0, 9)
    if op in ("Div", "Mod") and position == 1:
        low = 1
    if op in ("Pow", "BitShift") and position == 1:
        low, high = 0, 4
    if op == "Pow" and position == 0:
        low = 1  # a fractional power of a negative integer is undefined
    return np.asarray(rng.integers(low, high + 1, shape)).astype(dtype)


def shapes(rng, n):
    """n shapes that broadcast against each other."""
    full = [int(d) for d in rng.integers(1, 6, rng.integers(0, 5))]
    out = [list(full)]
    for _ in range(n - 1):
        cut = rng.integers(0, len(full) + 1)
        out.append([1 if rng.random() < 0.25 else d for d in full[cut:]])
    rng.shuffle(out)
    return out


def opset_for(op):
    return max(21, onnx.defs.get_schema(op).since_version)


def element_types(op, opset):
    """All assignments of element types to the type variables of an operator, as far as TYPES goes."""
    schema = onnx.defs.get_schema(op, opset)
    allowed = {c.type_param_str: [TYPES[t[7:-1]] for t in c.allowed_type_strs if t[7:-1] in TYPES]
               for c in schema.type_constraints}
    variables = []
    for i in schema.inputs:
        if i.type_str not in variables and i.type_str in allowed:
            variables.append(i.type_str)
    main = variables[0] if variables else None
    for t in allowed.get(main, []):
        chosen = {main: t}
        for v in variables[1:]:
            chosen[v] = t if t in allowed[v] else allowed[v][0]
        yield chosen, schema
    for v in variables[1:]:  # and the second variable through all of its types
        for t in allowed[v]:
            yield {**{u: allowed[u][0] for u in variables}, v: t}, schema


def add_case(folder, name, model, feeds, sources):
    results, source, rtol = cases.oracle(model, feeds)
    sources[source] = sources.get(source, 0) + 1
    if results is None:
        return
    largest = max([float(np.abs(r.astype(np.float64)).max(initial=0)) if r.dtype != object else 0 for r in results if
                   np.isfinite(r.astype(np.float64)).all()] or [0])
    cases.write_case(folder / name, model, feeds, results, rtol, rtol * largest + 1e-12)


def elementwise_cases(folder, op, sources, seed):
    rng = np.random.default_rng(seed)
    opset = opset_for(op)
    for chosen, schema in element_types(op, opset):
        for trial in range(2):
            variadic = any(i.option == onnx.defs.OpSchema.FormalParameterOption.Variadic for i in schema.inputs)
            n = 3 if variadic else len([i for i in schema.inputs
                                        if i.option == onnx.defs.OpSchema.FormalParameterOption.Single])
            types = [chosen.get(schema.inputs[min(k, len(schema.inputs) - 1)].type_str, TensorProto.BOOL) for k in range(n)]
            dims = shapes(rng, n)
            if op == "PRelu":  # the slope broadcasts to the input, not the other way
                dims.sort(key=lambda s: (-len(s), -int(np.prod(s))))
                dims[1] = [1 if rng.random() < 0.3 else d for d in dims[0]]
            feeds = {f"x{k}": values(rng, op, types[k], dims[k], k) for k in range(n)}
            attributes = {}
            if op == "BitShift":
                attributes["direction"] = ["LEFT", "RIGHT"][trial]
            if op == "Mod" and types[0] in FLOATS:
                attributes["fmod"] = 1
            for a, spec in schema.attributes.items():  # numbers other than the default
                if spec.type == onnx.defs.OpSchema.AttrType.FLOAT and trial:
                    attributes[a] = float(np.float32(rng.uniform(0.2, 1.4)))
            if op == "Gelu":
                attributes["approximate"] = ["none", "tanh"][trial]
            node = helper.make_node(op, list(feeds), ["y"], **attributes)
            model = cases.model_of([node], {f"x{k}": (types[k], dims[k]) for k in range(n)}, ["y"], opset)
            kinds = "_".join(TensorProto.DataType.Name(t).lower() for t in types)
            add_case(folder, f"{op}_{kinds}_{trial}", model, feeds, sources)


def reduction_cases(folder, op, sources, seed):
    rng = np.random.default_rng(seed)
    opset = opset_for(op)
    for chosen, schema in element_types(op, opset):
        elem = chosen[schema.inputs[0].type_str]
        for trial in range(4):
            shape = [int(d) for d in rng.integers(1, 6, rng.integers(1, 5))]
            axes = sorted(int(a) for a in rng.choice(len(shape), rng.integers(1, len(shape) + 1), replace=False))
            if trial == 1:
                axes = [a - len(shape) for a in axes]
            x = values(rng, op, elem, shape, 0)
            if op in ("ReduceLogSum", "ReduceProd"):
                x = np.abs(x) + np.asarray(0.1 if elem in FLOATS else 1).astype(x.dtype)
                x = (x / 2 if elem in FLOATS else x % 2 + 1).astype(x.dtype)
            takes_axes = any(i.name == "axes" for i in schema.inputs)
            names, initializers, attributes = ["x"], [], {"keepdims": trial % 2}
            if trial != 3 and takes_axes:
                names.append("axes")
                initializers.append(numpy_helper.from_array(np.array(axes, np.int64), "axes"))
            elif trial != 3 and "axes" in schema.attributes:
                attributes["axes"] = axes
            node = helper.make_node(op, names, ["y"], **attributes)
            model = cases.model_of([node], {"x": (elem, shape)}, ["y"], opset, initializers)
            add_case(folder, f"{op}_{TensorProto.DataType.Name(elem).lower()}_{trial}", model, {"x": x}, sources)


def matmul_cases(folder, op, sources, seed):
    rng = np.random.default_rng(seed)
    for chosen, schema in element_types(op, 21):
        elem = next(iter(chosen.values()))
        for trial in range(8):
            m, k, n = (int(d) for d in rng.integers(1, 9, 3))
            batch = [int(d) for d in rng.integers(1, 4, rng.integers(0, 3))]
            other = [1 if rng.random() < 0.4 else d for d in batch[rng.integers(0, len(batch) + 1):]]
            a = [k] if trial == 6 else batch + [m, k]
            b = [k] if trial == 7 else other + [k, n]
            feeds = {"a": values(rng, op, elem, a, 0), "b": values(rng, op, elem, b, 1)}
            model = cases.model_of([helper.make_node(op, ["a", "b"], ["y"])], {"a": (elem, a), "b": (elem, b)}, ["y"], 21)
            add_case(folder, f"{op}_{TensorProto.DataType.Name(elem).lower()}_{trial}", model, feeds, sources)


def conv_cases(folder, op, sources, seed):
    rng = np.random.default_rng(seed)
    transposed = op == "ConvTranspose"
    for elem in (TensorProto.FLOAT, TensorProto.DOUBLE):
        for trial in range(40):
            rank = 1 + trial % 3
            group = int(rng.integers(1, 4))
            per_group, filters = int(rng.integers(1, 4)), int(rng.integers(1, 4))
            kernel = [int(d) for d in rng.integers(1, 4, rank)]
            dilations = [int(d) for d in rng.integers(1, 3, rank)]
            strides = [int(d) for d in rng.integers(1, 5 if transposed else 3, rank)]
            pads = [int(d) for d in rng.integers(0, 3, 2 * rank)]
            size = [int(d) for d in rng.integers(5, 10, rank)]
            x_shape = [int(rng.integers(1, 3)), per_group * group] + size
            w_shape = ([per_group * group, filters] if transposed else [filters * group, per_group]) + kernel
            feeds = {"x": values(rng, op, elem, x_shape, 0), "w": values(rng, op, elem, w_shape, 1)}
            if trial % 2:
                feeds["b"] = values(rng, op, elem, [filters * group], 2)
            attributes = dict(group=group, dilations=dilations, strides=strides, kernel_shape=kernel)
            if trial % 5 == 4:
                attributes["auto_pad"] = ["SAME_UPPER", "SAME_LOWER", "VALID"][trial % 3]
                attributes["dilations"] = [1] * rank
                if transposed:  # onnxruntime does not reach the size of SAME where kernels are smaller than strides
                    attributes["strides"] = [min(s, k) for s, k in zip(strides, kernel)]
            else:
                attributes["pads"] = pads
                if transposed:
                    attributes["output_padding"] = [int(rng.integers(0, s)) for s in strides]
            node = helper.make_node(op, list(feeds), ["y"], **attributes)
            types = {n: (elem, list(v.shape)) for n, v in feeds.items()}
            model = cases.model_of([node], types, ["y"], 21)
            add_case(folder, f"{op}_{TensorProto.DataType.Name(elem).lower()}_{trial}", model, feeds, sources)


def gemm_cases(folder, op, sources, seed):
    rng = np.random.default_rng(seed)
    for elem in (TensorProto.FLOAT, TensorProto.DOUBLE):
        for trial in range(8):
            m, k, n = (int(d) for d in rng.integers(1, 9, 3))
            a, b = [[m, k], [k, m]][trial % 2], [[k, n], [n, k]][trial // 2 % 2]
            feeds = {"a": values(rng, op, elem, a, 0), "b": values(rng, op, elem, b, 1),
                     "c": values(rng, op, elem, [[n], [m, 1], [], [m, n]][trial % 4], 2)}
            node = helper.make_node(op, list(feeds), ["y"], transA=trial % 2, transB=trial // 2 % 2, alpha=0.5, beta=1.5)
            model = cases.model_of([node], {x: (elem, list(v.shape)) for x, v in feeds.items()}, ["y"], 21)
            add_case(folder, f"{op}_{TensorProto.DataType.Name(elem).lower()}_{trial}", model, feeds, sources)


def pool_cases(folder, op, sources, seed):
    rng = np.random.default_rng(seed)
    for trial in range(40):
        rank = 1 + trial % 3
        size = [int(d) for d in rng.integers(5, 10, rank)]
        feeds = {"x": values(rng, op, TensorProto.FLOAT, [2, 3] + size, 0)}
        attributes = {}
        if not op.startswith("Global"):
            kernel = [int(d) for d in rng.integers(1, 4, rank)]
            attributes = dict(kernel_shape=kernel, strides=[int(d) for d in rng.integers(1, 4, rank)])
            if trial % 5 == 4:
                attributes["auto_pad"] = ["SAME_UPPER", "SAME_LOWER", "VALID"][trial % 3]
                attributes["strides"] = [min(s, k) for s, k in zip(attributes["strides"], kernel)]  # no gaps: pads are not negative
            else:
                attributes["pads"] = [int(rng.integers(0, k)) for k in kernel * 2]
                attributes["ceil_mode"] = trial // 3 % 2
            if op == "MaxPool" and trial % 2 and "pads" in attributes:  # onnxruntime's SAME forgets dilations
                attributes["dilations"] = [int(d) for d in rng.integers(1, 3, rank)]
        if op == "AveragePool":
            attributes["count_include_pad"] = trial // 2 % 2
        if op.endswith("LpPool"):
            attributes["p"] = 1 + trial % 4
        outputs = ["y", "at"] if op == "MaxPool" and trial % 4 == 3 else ["y"]
        node = helper.make_node(op, ["x"], outputs, **attributes)
        model = cases.model_of([node], {"x": (TensorProto.FLOAT, [2, 3] + size)}, outputs, 21)
        add_case(folder, f"{op}_{trial}", model, feeds, sources)


def einsum_cases(folder, op, sources, seed):
    rng = np.random.default_rng(seed)
    extent = {letter: int(rng.integers(1, 5)) for letter in "ijklm"}
    for trial in range(40):
        terms = ["".join(rng.choice(list("ijklm"), rng.integers(1, 4), replace=False)) for _ in range(1 + trial % 3)]
        equation = ",".join(terms)
        if trial % 4:
            letters = sorted(set("".join(terms)))
            equation += "->" + "".join(rng.permutation(letters)[:rng.integers(0, len(letters) + 1)])
        feeds = {f"x{k}": values(rng, op, TensorProto.FLOAT, [extent[c] for c in t], k) for k, t in enumerate(terms)}
        node = helper.make_node(op, list(feeds), ["y"], equation=equation)
        model = cases.model_of([node], {n: (TensorProto.FLOAT, list(v.shape)) for n, v in feeds.items()}, ["y"], 21)
        add_case(folder, f"{op}_{trial}", model, feeds, sources)


def cumulative_cases(folder, op, sources, seed):
    rng = np.random.default_rng(seed)
    for trial in range(16):
        shape = [int(d) for d in rng.integers(1, 6, 1 + trial % 3)]
        axis = np.array(int(rng.integers(-len(shape), len(shape))), np.int64)
        feeds = {"x": values(rng, op, TensorProto.FLOAT, shape, 0)}
        node = helper.make_node(op, ["x", "axis"], ["y"], exclusive=trial % 2, reverse=trial // 2 % 2)
        model = cases.model_of([node], {"x": (TensorProto.FLOAT, shape)}, ["y"], opset_for(op),
                               [numpy_helper.from_array(axis, "axis")])
        add_case(folder, f"{op}_{trial}", model, feeds, sources)


CONTRACTIONS = {"Einsum": einsum_cases, "MatMul": matmul_cases, "Conv": conv_cases, "ConvTranspose": conv_cases, "Gemm": gemm_cases}
# Covered case by case by ONNX's own suite only; each with the reason why no generator is here.
SUITE_ONLY = {"Cast": "the suite goes through every pair of types", "CausalConvWithState": "newer than both oracles' kernels"}


def generator(kind, op):
    if op in SUITE_ONLY:
        return None
    if kind == "elementwise":
        return elementwise_cases
    if kind == "reduction" and op.startswith("Reduce"):
        return reduction_cases
    if op.endswith("Pool"):
        return pool_cases
    if op.startswith("Cum"):
        return cumulative_cases
    return CONTRACTIONS.get(op)


def test_every_operator_has_a_generator():
    missing = [f"{kind}: {op}" for kind in KINDS for op in TABLE[kind]
               if generator(kind, op) is None and op not in SUITE_ONLY]
    assert not missing, "operators without random tests: " + ", ".join(missing)


@pytest.mark.parametrize("kind,op", [(k, op) for k in TABLE for op in TABLE[k]])
def test_agrees(kind, op, tmp_path):
    make = generator(kind, op)
    if make is None:
        pytest.skip(SUITE_ONLY.get(op, "no generator"))
    sources = {}
    make(tmp_path, op, sources, seed=len(op))
    written = len(list(tmp_path.iterdir()))
    assert written, f"neither oracle runs {op}"
    bad, lines, done = cases.failures(tmp_path)
    assert done.returncode in (0, 4), done.stderr
    assert not bad, f"{len(bad)} of {written} cases ({sources}):\n" + "\n".join(bad[:12])
