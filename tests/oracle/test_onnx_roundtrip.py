"""Every model of ONNX's suite and of the zoo through import and export: what is written must pass the checker and compute the same.

The judge of the suite's cases is onnxruntime where it runs the original, else onnx's reference implementation. A model that neither runs is only checked.
"""
import collections, concurrent.futures, json, os

import numpy as np
import onnx
import onnx.reference
import onnxruntime
import pytest
from onnx import numpy_helper

import light_models
import zoo_models

KINDS = ["node", "simple", "pytorch-converted", "pytorch-operator"]


def load_value(path, value_type):
    data = path.read_bytes()
    if value_type.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if value_type.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def feeds_of(folder, model):
    constants = {t.name for t in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in constants]
    data = folder / "test_data_set_0"
    return {v.name: load_value(data / f"input_{i}.pb", v.type) for i, v in enumerate(inputs) if (data / f"input_{i}.pb").exists()}


def shapes_of(folder):
    """Sizes for what the file leaves open, as the data has them."""
    model = onnx.load(folder / "model.onnx")
    types = {i.name: i.type for i in model.graph.input}
    for name, value in feeds_of(folder, model).items():
        tensor = types[name].tensor_type
        if types[name].HasField("tensor_type") and not (tensor.HasField("shape") and all(d.HasField("dim_value") for d in tensor.shape.dim)):
            yield from ("--shape", f"{name}:" + "x".join(map(str, value.shape)))


def session_of(source):
    """Of a model in memory or of a file; without optimizations, so that operators are what the file says."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def run_onnxruntime(model, feeds):
    return session_of(model.SerializeToString()).run(None, feeds)


def run_reference(model, feeds):
    return onnx.reference.ReferenceEvaluator(model).run(None, feeds)


JUDGES = {"onnxruntime": run_onnxruntime, "reference": run_reference}


def same(a, b):
    if isinstance(a, (list, tuple)) or isinstance(b, (list, tuple)):
        return isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(same, a, b))
    if a is None or b is None:
        return a is b
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind in "OUSb":
        return bool((a == b).all())
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    a, b = a.astype(wide), b.astype(wide)
    largest = np.abs(a[np.isfinite(a)]).max(initial=1)  # rounding noise is relative to the largest value
    return np.allclose(a, b, rtol=1e-3, atol=1e-6 * largest, equal_nan=True)


def alike(a, b):
    """Random values differ from run to run; types and shapes do not."""
    return np.asarray(a).dtype == np.asarray(b).dtype and np.shape(a) == np.shape(b)


def outcome(judge, model, feeds):
    try:
        return judge(model, feeds), None
    except Exception as e:  # anything may be wrong with a model, and that is the answer
        return None, f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"


RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial", "Dropout"}


# Its implementations do not know the attribute output_dtype, which opset 23 brought and which we always write.
REFERENCE_LACKS = {"QuantizeLinear", "DequantizeLinear"}


def stored_outputs(folder, model):
    return [load_value(folder / f"test_data_set_0/output_{i}.pb", o.type) for i, o in enumerate(model.graph.output)]


def check_case(folder, written):
    """Why the written model is not as good as the original; None if it is. Second: who judged."""
    original = onnx.load(folder / "model.onnx")
    model = onnx.load(written)
    try:
        onnx.checker.check_model(original, full_check=True)
        original_valid = True
    except Exception:
        original_valid = False
    if original_valid:
        try:
            onnx.checker.check_model(model, full_check=True)
        except Exception as e:
            return f"checker: {e}", None
    if [o.name for o in model.graph.output] != [o.name for o in original.graph.output]:
        return "outputs are named otherwise", None
    feeds = feeds_of(folder, original)
    random = any(n.op_type in RANDOM for n in original.graph.node)
    for name, judge in JUDGES.items():
        expected, problem = outcome(judge, original, feeds)
        if problem:
            continue
        # What the judge of the original cannot run may be fit for the other one: we write opset 6 as opset 7.
        for other in (judge, run_onnxruntime):
            actual, problem = outcome(other, model, feeds)
            if not problem:
                break
        if problem and name == "reference" and REFERENCE_LACKS & {n.op_type for n in model.graph.node}:
            continue
        if problem:
            return f"{name} refuses it: {problem}", name
        if not all(map(alike if random else same, actual, expected)):
            # The judge may be wrong about the original; the suite's own outputs decide.
            if not all(map(same, actual, stored_outputs(folder, original))):
                return f"{name} computes something else", name
        return None, name
    return None, "nobody"


@pytest.mark.parametrize("kind", KINDS)
def test_suite_models_survive_a_round_trip(emend, onnx_data, tmp_path, kind):
    only = os.environ.get("EMEND_ONLY", "*")
    folders = sorted(f for f in (onnx_data / kind).glob(only) if (f / "model.onnx").exists())
    assert folders

    def write(folder):
        return emend.run("optimize", "-O0", "-q", *shapes_of(folder), folder / "model.onnx", tmp_path / f"{folder.name}.onnx")

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        written = list(pool.map(write, folders))
    failures, judges = [], collections.Counter()
    for folder, done in zip(folders, written):
        if done.returncode != 0:
            failures.append(f"{folder.name}: {done.stderr.strip()}")
            continue
        reason, judge = check_case(folder, tmp_path / f"{folder.name}.onnx")
        judges[judge] += 1
        if reason:
            failures.append(f"{folder.name}: {reason}")
    assert not failures, f"{len(failures)} of {len(folders)} models:\n" + "\n".join(failures)
    assert judges["onnxruntime"] > 0, judges


def random_feeds(session, rng):
    """Integers are indices into small tables."""
    for value in session.get_inputs():
        if value.type == "tensor(float)":
            yield value.name, rng.normal(size=value.shape).astype(np.float32)
        else:
            assert value.type == "tensor(int64)"
            yield value.name, rng.integers(0, 2, value.shape)


def check_network(emend, original, written):
    emend("optimize", "-O0", "-q", original, written)
    onnx.checker.check_model(str(written), full_check=True)
    before, after = session_of(str(original)), session_of(str(written))
    assert [o.name for o in after.get_outputs()] == [o.name for o in before.get_outputs()]
    feeds = dict(random_feeds(before, np.random.default_rng(3)))
    assert all(map(same, after.run(None, feeds), before.run(None, feeds)))


@pytest.mark.parametrize("name", light_models.NAMES)
def test_light_networks_survive_a_round_trip(emend, tmp_path, name):
    onnx.save(light_models.scaled(name), tmp_path / "model.onnx")
    check_network(emend, tmp_path / "model.onnx", tmp_path / "written.onnx")


@pytest.mark.parametrize("name", zoo_models.OPTIONS)
def test_zoo_models_survive_a_round_trip(emend, tmp_path, name):
    check_network(emend, zoo_models.write(emend, name, tmp_path / "model.onnx"), tmp_path / "written.onnx")


def test_the_whole_zoo_is_tested(emend, tmp_path):
    emend("zoo", "--json", tmp_path / "zoo.json")
    assert {m["name"] for m in json.loads((tmp_path / "zoo.json").read_text())["models"]} == set(zoo_models.OPTIONS)
