"""tests/regress: every file that an attack or a first use broke has its right answer, or its right refusal."""
import json, pathlib, sys

import numpy as np
import onnx, onnxruntime, pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "regress"))
import files
import test_accuracy


def computed(model, feeds):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    content = model.SerializeToString() if isinstance(model, onnx.ModelProto) else str(model)
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"]).run(None, feeds)


def close(got, wanted, error=1e-4):
    assert len(got) == len(wanted)
    for g, w in zip(got, wanted):
        assert g.dtype == w.dtype and g.shape == w.shape
        np.testing.assert_array_equal(np.isfinite(g), np.isfinite(w))
        g, w = (np.nan_to_num(v.astype(np.float64), posinf=0, neginf=0) for v in (g, w))
        assert np.abs(g - w).max(initial=0) <= error * np.abs(w).max(initial=0), (g, w)
        # A step that is tipped shows in a few elements.
        assert g.size == 0 or np.abs(g - w).mean() <= max(1e-4, error / 10) * np.abs(w).max(initial=0), (g, w)


def run(emend, path, feeds, folder, *options):
    """Outputs of `emend run`, in the model's order, and what it said."""
    given = []
    for name, value in feeds.items():
        np.save(folder / f"{name}.in.npy", value)
        given += ["--input", f"{name}:{folder / name}.in.npy"]
    done = emend.run("run", path, *given, "--save", folder, *options)
    assert done.returncode == 0, done.stderr
    names = [o.name for o in onnx.load(path).graph.output]
    return [np.load(folder / ("".join(c if c.isalnum() or c in ".-" else "_" for c in n) + ".npy")) for n in names], done.stderr


def drawn(model, sizes):
    """Inputs at these sizes of the symbols; indices are small."""
    rng, feeds = np.random.default_rng(3), {}
    for i in model.graph.input:
        shape = [sizes[d.dim_param] if d.dim_param else d.dim_value for d in i.type.tensor_type.shape.dim]
        whole = i.type.tensor_type.elem_type == onnx.TensorProto.INT64
        feeds[i.name] = rng.integers(0, 5, shape) if whole else rng.normal(size=shape).astype(np.float32)
    return feeds


# 01: the longest search takes models of one node.


@pytest.mark.parametrize("name", ["gather", "gemm", "identity", "less", "ln"])
def test_the_longest_search(emend, tmp_path, name):
    path = files.attack(f"01-{name}")
    emend("optimize", path, tmp_path / "o.onnx", "-O3", "--json", tmp_path / "facts.json")
    assert json.loads((tmp_path / "facts.json").read_text())["faults"] == []
    feeds = {k: v % 2 if v.dtype == np.int64 else v for k, v in drawn(onnx.load(path), {}).items()}
    close(computed(tmp_path / "o.onnx", feeds), computed(path, feeds))


# 02: an output that is an input, before one that needs a copy.


@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2", "-O3"])
def test_an_output_that_is_an_input(emend, tmp_path, level):
    path = files.attack("02-passthrough")
    emend("optimize", path, tmp_path / "o.onnx", level)
    onnx.checker.check_model(str(tmp_path / "o.onnx"), full_check=True)
    feeds = drawn(onnx.load(path), {})
    close(computed(tmp_path / "o.onnx", feeds), computed(path, feeds))


# 03: stacked convolutions by one thread.


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_stacked_convolutions(emend, tmp_path, threads):
    path = files.attack("03-stacked")
    feeds = drawn(onnx.load(path), {})
    got, said = run(emend, path, feeds, tmp_path, "--target", "cpu", "--threads", threads)
    assert "error" not in said
    close(got, computed(path, feeds))


# 04: pairs of models that differ. What differs by less than the other terms of a sum are rounded by may stay unknown.

DIFFERENT, UNKNOWN = {4}, {4, 7}
PAIRS = {
    "211": DIFFERENT, "220": UNKNOWN, "222": DIFFERENT, "329": DIFFERENT, "343": UNKNOWN, "403": DIFFERENT, "b122": UNKNOWN, "b123": DIFFERENT,
    "b125": UNKNOWN, "b23": DIFFERENT, "b26": DIFFERENT, "b32": DIFFERENT, "b58": DIFFERENT, "b60": DIFFERENT, "b69": DIFFERENT,
}  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS)
def test_what_differs_is_not_called_equal(emend, pair):
    done = emend.run("verify", *(files.attack(f"04-{pair}_{k}") for k in "01"))
    assert done.returncode in PAIRS[pair], done.stdout


@pytest.mark.parametrize("pair", ["64", "65", "66"])
def test_what_is_equal_for_finite_numbers_says_so(emend, pair):
    said = emend("verify", *(files.attack(f"04-{pair}_{k}") for k in "01"))
    assert said.startswith("equal") and "of infinities and NaNs nothing is said" in said


# 05: Winograd and Strassen, held to what --accuracy promises.


def layer(after, regime):
    """A convolution as the attack had it: pixels before a Clip, or a column that no weight reads."""
    rng = np.random.default_rng(5)
    x, w = rng.normal(size=(1, 64, 56, 56)), rng.normal(size=(64, 64, 3, 3)) / 24
    if regime == "pixels":
        x *= 255
    else:
        w[..., 1:], x[..., -1] = 0, float(regime)
    x, w = x.astype(np.float32), w.astype(np.float32)
    return test_accuracy.model_of("Conv", x.shape, w.shape, after, w), x, w


@pytest.mark.parametrize("after,regime", [("Clip", "pixels"), ("Tanh", "pixels"), (None, "1e4"), (None, "1e7"), (None, "3e38")])
def test_inputs_of_scales_that_nobody_draws(emend, tmp_path, after, regime):
    model, x, w = layer(after, regime)
    onnx.save(model, tmp_path / "m.onnx")
    [got], said = run(emend, tmp_path / "m.onnx", {"x": x}, tmp_path, "--target", "cpu")
    sums, magnitudes = test_accuracy.summed("Conv", x, w), test_accuracy.summed("Conv", np.abs(x), np.abs(w))
    wanted = test_accuracy.followed(after, sums, x)
    allowed = (1e-4 + 576 * 2**-24) * magnitudes.max((0, 2, 3), keepdims=True) + 2**-23 * np.abs(wanted) + 1e-7
    assert np.isfinite(got).all() and (np.abs(got - wanted) <= allowed).all()
    assert "error" not in said


def test_small_integers_before_a_clip(emend, tmp_path):
    import torch

    path = files.attack("05-conv3d_relu6")
    graph = onnx.load(path).graph
    x = np.load(files.FOLDER / "05-conv3d_relu6_x.npy")
    weights = {w.name: torch.from_numpy(onnx.numpy_helper.to_array(w).astype(np.float64)) for w in graph.initializer}

    def conv(node, values, bias=True, of=lambda t: t):
        pads = next(list(a.ints) for a in node.attribute if a.name == "pads")
        assert pads[:3] == pads[3:]
        w, b = weights[node.input[1]], weights[node.input[2]] if bias else None
        return torch.nn.functional.conv3d(values, of(w), b, padding=tuple(pads[:3]))

    # What each of both may lose, and what the second one makes of what the first one lost.
    exact, lost = torch.from_numpy(x.astype(np.float64)), torch.zeros((), dtype=torch.float64)
    for node in graph.node[:2]:
        magnitudes = conv(node, exact.abs(), bias=False, of=torch.abs)
        terms = int(np.prod(weights[node.input[1]].shape[1:]))
        carried = conv(node, lost.expand(exact.shape), bias=False, of=torch.abs)
        lost = (1e-4 + terms * 2**-24) * magnitudes.amax((0, 2, 3, 4), keepdim=True) + carried
        exact = conv(node, exact)
    [got], said = run(emend, path, {graph.input[0].name: x}, tmp_path, "--target", "cpu")
    wanted = exact.clamp(0, 6).numpy()
    assert (np.abs(got - wanted) <= lost.numpy() + 1e-6).all()
    assert "error" not in said


# 07: costs whose sum overflows.


def test_costs_that_overflow_are_refused(emend):
    done = emend.run("extract", files.FOLDER / "07-huge_cost.json")
    assert done.returncode == 3 and "huge_cost.json" in done.stderr and "internal" not in done.stderr


# 09: chains of scales.

SCALES = {"f16_matmul": 1e-2, "f16_down": 1e-1, "f16_up": 4e-3, "f32_up": 1e-5, "f32_down_up": 2e-2, "f32_denormal": 1e-5, "scales": 1e-5, "square": 1e-5}


@pytest.mark.parametrize("level", ["-O1", "-O2", "-O3"])
@pytest.mark.parametrize("name", SCALES)
def test_chains_of_scales(emend, tmp_path, name, level):
    path, feeds = files.attack(f"09-{name}"), files.inputs_of(f"09-{name}")
    wanted = computed(path, feeds)
    emend("optimize", path, tmp_path / "o.onnx", level)
    close(computed(tmp_path / "o.onnx", feeds), wanted, SCALES[name])
    close(run(emend, path, feeds, tmp_path, "--target", "cpu", level)[0], wanted, SCALES[name])


# 11: what is left open by the standard is the same on both targets.


def test_an_integer_to_a_negative_power(emend, tmp_path):
    path = files.attack("11-int_pow")
    feeds = {"x": np.array([0, 1, -1, 2], np.int32), "e": np.array([-1, -3, -3, -1], np.int32)}
    for target in ("interp", "cpu"):
        [y], _ = run(emend, path, feeds, tmp_path, "--target", target)
        assert y.tolist() == [0, 1, -1, 0], target
    [y], _ = run(emend, path, {"x": np.load(files.FOLDER / "11-px.npy"), "e": np.load(files.FOLDER / "11-pe.npy")}, tmp_path, "--target", "cpu")
    assert y[0] == 0


def test_a_model_without_outputs(emend, tmp_path):
    path = files.attack("11-no_outputs")
    for target in ("interp", "cpu"):
        emend("run", path, "--random", 1, "--target", target)
    emend("optimize", path, tmp_path / "o.onnx")
    assert emend("verify", path, tmp_path / "o.onnx").startswith("equal")


# Exports of ordinary networks: sizes of the symbols at which they are run.

EXPORTS = {
    "dlrm2.dynamo": [{"s11": 1}, {"s11": 5}],
    "effnet.dynamo": [{"s77": 1, "s53": 64, "s0": 96}, {"s77": 2, "s53": 33, "s0": 40}],
    "effnet.legacy": [{"N": 1, "H": 64, "W": 96}, {"N": 3, "H": 32, "W": 32}],
    "gptkv.legacy": [{"B": 1, "S": 1, "P": 7}, {"B": 2, "S": 3, "P": 4}],
    "mambacum.dynamo": [{"s77": 1}, {"s77": 3}],
    "mobv3_QDQ": [{"N": 1}, {"N": 2}],
    "parallel_resolutions": [{}],
    "whisper_dyn8": [{"N": 1}, {"N": 2}],
}
# A tipped step of eight bits is one quantum.
ERROR = {"mobv3_QDQ": 0.25, "whisper_dyn8": 0.1}


def is_open(value):
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


@pytest.mark.parametrize("level", ["-O1", "-O2"])
@pytest.mark.parametrize("name", EXPORTS)
def test_exports_keep_their_sizes(emend, tmp_path, name, level):
    model, path = files.export(name), tmp_path / "m.onnx"
    onnx.save(model, path)
    emend("optimize", path, tmp_path / "o.onnx", level, "--json", tmp_path / "facts.json")
    facts = json.loads((tmp_path / "facts.json").read_text())
    assert facts["faults"] == [] and facts.get("fixed_dimensions", {}) == {}
    assert [is_open(i) for i in onnx.load(tmp_path / "o.onnx").graph.input] == [is_open(i) for i in model.graph.input]
    for sizes in EXPORTS[name]:
        feeds = drawn(model, sizes)
        close(computed(tmp_path / "o.onnx", feeds), computed(path, feeds), ERROR.get(name, 1e-4))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", EXPORTS)
def test_exports_are_compiled(emend, tmp_path, name, threads):
    """One kernel that cannot be compiled costs itself; none is refused for what its own inputs overflow at."""
    model, path = files.export(name), tmp_path / "m.onnx"
    onnx.save(model, path)
    feeds = drawn(model, EXPORTS[name][-1])
    got, said = run(emend, path, feeds, tmp_path, "--target", "cpu", "--threads", threads)
    close(got, computed(path, feeds), ERROR.get(name, 1e-4))
    assert "error" not in said and "does not compile" not in said


# What random models and readers brought up: models of a few nodes.

FLOAT = onnx.TensorProto.FLOAT


def small(path, nodes, inputs, outputs, constants=None, opset=17):
    values = [onnx.helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs]
    results = [onnx.helper.make_empty_tensor_value_info(name) for name in outputs]
    weights = [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in (constants or {}).items()]
    graph = onnx.helper.make_graph([onnx.helper.make_node(*n[:3], **(n[3] if len(n) > 3 else {})) for n in nodes], "g", values, results, weights)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(model, path)
    return model


@pytest.mark.parametrize("opset", [10, 13, 17])
@pytest.mark.parametrize("bounds", [{}, {"min": 0.0}, {"max": 6.0}])
def test_a_clip_without_a_bound_leaves_no_infinity(emend, tmp_path, bounds, opset):
    if opset < 11:
        model = small(tmp_path / "m.onnx", [("Clip", ["x"], ["y"], bounds)], [("x", FLOAT, [5])], ["y"], opset=opset)
    else:
        given = [k if k in bounds else "" for k in ("min", "max")]
        model = small(tmp_path / "m.onnx", [("Clip", ["x", *given], ["y"])], [("x", FLOAT, [5])], ["y"], {k: np.float32(v) for k, v in bounds.items()}, opset)
    feeds = {"x": np.array([-np.inf, -1, 2, 3e38, np.inf], np.float32)}
    [wanted] = computed(model, feeds)
    assert np.isfinite(wanted).all()
    for target in ("interp", "cpu"):
        np.testing.assert_array_equal(run(emend, tmp_path / "m.onnx", feeds, tmp_path, "--target", target)[0][0], wanted)
    emend("optimize", tmp_path / "m.onnx", tmp_path / "o.onnx")
    np.testing.assert_array_equal(computed(tmp_path / "o.onnx", feeds)[0], wanted)


@pytest.mark.parametrize("opset", [13, 17])
def test_a_reshape_to_nothing_is_written_so_that_it_is_read(emend, tmp_path, opset):
    nodes = [("Squeeze", ["x", "axes"], ["s"]), ("Add", ["s", "one"], ["y"])]
    model = small(tmp_path / "m.onnx", nodes, [("x", FLOAT, [1, 4, 0, 1])], ["y"], {"axes": [0, 3], "one": np.float32([[1.0]])}, opset)
    emend("optimize", tmp_path / "m.onnx", tmp_path / "o.onnx")
    feeds = {"x": np.zeros((1, 4, 0, 1), np.float32)}
    close(computed(tmp_path / "o.onnx", feeds), computed(model, feeds))


def test_attributes_that_are_left_out_are_floats_too(emend, tmp_path):
    """1e-5 and 0.01 are other numbers in double precision."""
    double = onnx.TensorProto.DOUBLE
    nodes = [("LeakyRelu", ["x"], ["l"]), ("BatchNormalization", ["l", *"sbmv"], ["y"])]
    constants = {k: np.array([v], np.float64) for k, v in zip("sbmv", (1, 0, 0, 1e-4))}
    model = small(tmp_path / "m.onnx", nodes, [("x", double, [1, 1, 3])], ["y"], constants)
    feeds = {"x": np.array([[[-3.0, -0.5, 2.0]]])}
    for target in ("interp", "cpu"):
        close(run(emend, tmp_path / "m.onnx", feeds, tmp_path, "--target", target)[0], computed(model, feeds), 1e-15)


def test_an_index_is_named_as_it_stands_there(emend, tmp_path):
    small(tmp_path / "m.onnx", [("Gather", ["x", "i"], ["y"])], [("x", FLOAT, [4])], ["y"], {"i": [-99]})
    done = emend.run("run", tmp_path / "m.onnx", "--random", 1)
    assert done.returncode == 3 and "-99" in done.stderr and "-95" not in done.stderr


def test_a_number_that_rounding_makes_is_no_difference(emend, tmp_path):
    """The determinant of a matrix of too small a rank is 0, and what rounding leaves where the matrix is computed beforehand."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(5, 4)).astype(np.float32), rng.normal(size=(4, 5)).astype(np.float32)
    small(tmp_path / "a.onnx", [("MatMul", ["a", "b"], ["p"]), ("Det", ["p"], ["d"]), ("Mul", ["d", "x"], ["y"])], [("x", FLOAT, [2])], ["y"], {"a": a, "b": b})
    small(tmp_path / "b.onnx", [("Mul", ["d", "x"], ["y"])], [("x", FLOAT, [2])], ["y"], {"d": np.float32(np.linalg.det(a @ b))})
    assert emend.run("verify", tmp_path / "a.onnx", tmp_path / "b.onnx").returncode != 4


def test_a_rank_may_follow_from_a_size(emend, tmp_path):
    indices = ("i", onnx.TensorProto.INT64, ["N", "K"])
    model = small(tmp_path / "m.onnx", [("Relu", ["x"], ["r"]), ("GatherND", ["r", "i"], ["y"])], [("x", FLOAT, [2, 2, 2]), indices], ["y"], opset=16)
    emend("optimize", tmp_path / "m.onnx", tmp_path / "o.onnx")
    for k in (1, 2, 3):
        feeds = {"x": np.arange(8, dtype=np.float32).reshape(2, 2, 2), "i": np.ones((3, k), np.int64)}
        close(computed(tmp_path / "o.onnx", feeds), computed(model, feeds))


def test_a_size_that_is_another_at_the_edge_is_not_declared(emend, tmp_path):
    """x[:, -2:] has two columns, or as many as x has."""
    ends = {"b": [-2], "e": [2**62], "a": [1]}
    model = small(tmp_path / "m.onnx", [("Slice", ["x", "b", "e", "a"], ["s"]), ("Relu", ["s"], ["y"])], [("x", FLOAT, [3, "N"])], ["y"], ends)
    emend("optimize", tmp_path / "m.onnx", tmp_path / "o.onnx")
    [y] = onnx.load(tmp_path / "o.onnx").graph.output
    assert is_open(y)[1] == 0
    for n in (1, 2, 5):
        feeds = {"x": np.ones((3, n), np.float32)}
        close(computed(tmp_path / "o.onnx", feeds), computed(model, feeds))


@pytest.mark.parametrize("op,attributes", [("LRN", {"size": 3}), ("LpPool", {"kernel_shape": [2, 1], "p": 2}), ("LpNormalization", {"axis": 1})])
def test_squares_of_half_precision_have_room(emend, tmp_path, op, attributes):
    model = small(tmp_path / "m.onnx", [(op, ["x"], ["y"], attributes)], [("x", onnx.TensorProto.FLOAT16, [1, 4, 2, 1])], ["y"])
    feeds = {"x": np.linspace(-900, 700, 8).reshape(1, 4, 2, 1).astype(np.float16)}
    wide = small(tmp_path / "wide.onnx", [(op, ["x"], ["y"], attributes)], [("x", FLOAT, [1, 4, 2, 1])], ["y"])
    [wanted] = computed(wide, {"x": feeds["x"].astype(np.float32)})
    for target in ("interp", "cpu"):
        [[y], _] = run(emend, tmp_path / "m.onnx", feeds, tmp_path, "--target", target)
        assert y.dtype == np.float16 and np.abs(y - wanted).max() <= 1e-3 * np.abs(wanted).max()


def test_a_declared_shape_that_data_does_not_keep_to_is_an_error(emend, tmp_path):
    model = small(tmp_path / "m.onnx", [("NonZero", ["x"], ["n"]), ("Compress", ["n", "c"], ["y"], {"axis": 0})], [("x", FLOAT, [3])], ["y"], {"c": [True]})
    model.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT64, [1, 2]))
    onnx.save(model, tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.ones(3, np.float32))
    done = emend.run("run", tmp_path / "m.onnx", "--target", "cpu", "--input", f"x:{tmp_path / 'x.npy'}")
    assert done.returncode == 3 and "says that it gives i64[1,2], and it gives i64[1,3]" in done.stderr, done.stderr


def test_a_step_that_constants_tip_is_no_fault(emend, tmp_path):
    """A quantized network whose sums lie next to ties: its input is quantized first, so that moving that alone changes nothing."""
    emend("optimize", files.attack("tipped-quantized"), tmp_path / "o.onnx", "-O1")


def test_weights_of_half_precision_that_are_rounded_once_more_are_no_fault(emend, tmp_path):
    """A chain of batch norms whose one result happens to be rounded by little where nothing is folded."""
    emend("optimize", files.attack("half-norms"), tmp_path / "o.onnx", "-O1")


@pytest.mark.parametrize("opset", [11, 14, 16, 18])
def test_what_onnxruntime_knows_by_its_spelling_is_spelled_so(emend, tmp_path, opset):
    """Norms and Gelu at opsets that have no word for them: onnxruntime has kernels for what exporters write."""
    axes = {"axes": [-1]} if opset < 18 else {}
    mean = lambda x, y: ("ReduceMean", [x] if opset < 18 else [x, "k"], [y], axes)
    constants = {"two": np.float32(2), "e": np.float32(1e-5), "root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5), "k": np.array([-1]),
                 "g": np.linspace(0.5, 2, 8, dtype=np.float32), "b": np.linspace(-1, 1, 8, dtype=np.float32)}
    spread = lambda x, n: [("Pow", [x, "two"], [f"{n}p"]), mean(f"{n}p", f"{n}v"), ("Add", [f"{n}v", "e"], [f"{n}a"]), ("Sqrt", [f"{n}a"], [f"{n}s"]),
                           ("Div", [x, f"{n}s"], [f"{n}d"]), ("Mul", [f"{n}d", "g"], [f"{n}g"])]
    nodes = [mean("x", "m"), ("Sub", ["x", "m"], ["c"]), *spread("c", "l"), ("Add", ["lg", "b"], ["l"]), *spread("l", "r")]
    nodes += [("Div", ["rg", "root"], ["q"]), ("Erf", ["q"], ["f"]), ("Add", ["f", "one"], ["h"]), ("Mul", ["rg", "h"], ["t"]), ("Mul", ["t", "half"], ["y"])]
    if opset >= 17:
        del constants["b"]  # has a word
        nodes = [n for n in nodes if n[2] not in (["m"], ["c"]) and not n[2][0].startswith("l")]
        nodes = [(o, ["x" if i == "l" else i for i in ins], *rest) for o, ins, *rest in nodes]
    used = {i for n in nodes for i in n[1]}
    model = small(tmp_path / "m.onnx", nodes, [("x", FLOAT, ["B", 3, 8])], ["y"], {k: v for k, v in constants.items() if k in used}, opset)
    emend("optimize", tmp_path / "m.onnx", tmp_path / "o.onnx", "-O1")

    def kernels(name):
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = str(tmp_path / "fused.onnx")
        onnxruntime.InferenceSession(str(tmp_path / name), options, providers=["CPUExecutionProvider"])
        return sorted(n.op_type for n in onnx.load(tmp_path / "fused.onnx").graph.node)

    assert {"Gelu", "SimplifiedLayerNormalization"} <= set(kernels("m.onnx"))
    assert kernels("o.onnx") == kernels("m.onnx")
    feeds = {"x": np.random.default_rng(1).normal(size=(2, 3, 8)).astype(np.float32)}
    close(computed(tmp_path / "o.onnx", feeds), computed(model, feeds))


def test_a_pool_over_whole_images_stays_one(emend, tmp_path):
    """onnxruntime leaves blocks of channels for a mean, not for a pool."""
    weights = {"w": np.random.default_rng(1).normal(size=(4, 4, 1, 1)).astype(np.float32)}
    nodes = [("Conv", ["x", "w"], ["c"]), ("GlobalAveragePool", ["c"], ["p"]), ("Conv", ["p", "w"], ["s"]), ("Mul", ["c", "s"], ["y"])]
    model = small(tmp_path / "m.onnx", nodes, [("x", FLOAT, ["B", 4, "H", "W"])], ["y"], weights)
    emend("optimize", tmp_path / "m.onnx", tmp_path / "o.onnx", "-O1")
    assert [n.op_type for n in onnx.load(tmp_path / "o.onnx").graph.node] == [n.op_type for n in model.graph.node]
    feeds = {"x": np.random.default_rng(2).normal(size=(2, 4, 5, 6)).astype(np.float32)}
    close(computed(tmp_path / "o.onnx", feeds), computed(model, feeds))


def test_halves_of_even_and_odd_sizes(emend, tmp_path):
    """Windows of two and of three leave as many places of an odd size, not of an even one."""
    pool = lambda k, y: ("MaxPool", ["x"], [y], {"kernel_shape": [k, k], "strides": [2, 2]})
    nodes = [pool(2, "a"), pool(3, "b"), ("Shape", ["a"], ["sa"]), ("Shape", ["b"], ["sb"]), ("Relu", ["x"], ["r"])]
    nodes += [("Resize", ["r", "", "", s], [y], {"mode": "nearest"}) for s, y in (("sa", "ya"), ("sb", "yb"))]
    model = small(tmp_path / "m.onnx", nodes, [("x", FLOAT, ["B", 1, "N", "M"])], ["ya", "yb"])
    emend("optimize", tmp_path / "m.onnx", tmp_path / "o.onnx")
    for n, m in ((6, 8), (7, 9), (8, 12), (3, 5), (5, 6)):
        feeds = {"x": np.random.default_rng(n).normal(size=(2, 1, n, m)).astype(np.float32)}
        close(computed(tmp_path / "o.onnx", feeds), computed(model, feeds))


def test_a_sum_of_integers_is_no_gemm(emend, tmp_path):
    constants = {"w": np.array([[1, -3, 5]]), "b": np.array([[5, 4, 0], [1, 2, 3]])}
    model = small(tmp_path / "m.onnx", [("MatMul", ["x", "w"], ["p"]), ("Add", ["p", "b"], ["y"])], [("x", onnx.TensorProto.INT64, [2, 1])], ["y"], constants)
    emend("optimize", tmp_path / "m.onnx", tmp_path / "o.onnx", "-O1")
    feeds = {"x": np.array([[7], [-2]])}
    close(computed(tmp_path / "o.onnx", feeds), computed(model, feeds))
