"""What is written, and where: nothing takes the place of what somebody else needs, and a limit on the size of files is a full disk."""
import hashlib, json, os, resource, signal, subprocess

import numpy as np
import onnx, onnxruntime, pytest
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(5)


def value(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def model(x="x"):
    weights = [numpy_helper.from_array(RNG.normal(size=(64, 64)).astype(np.float32), "w")]
    nodes = [helper.make_node("MatMul", [x, "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    graph = helper.make_graph(nodes, "g", [value(x, 4, 64)], [value("y", 4, 64)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def save(made, path, data=None):
    if data:
        onnx.save(made, path, save_as_external_data=True, location=data, size_threshold=0)
    else:
        onnx.save(made, path)
    return computed(path)


def computed(path):
    onnx.checker.check_model(str(path))
    x = np.linspace(-1, 1, 256, dtype=np.float32).reshape(4, 64)
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


def same(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


# Data files.


def test_data_that_the_input_maps_stays(emend, tmp_path):
    there, out = tmp_path / "m.onnx", tmp_path / "o.onnx"
    wanted = save(model(), there, data="o.onnx.data")
    before = digest(tmp_path / "o.onnx.data")
    emend("optimize", there, out, "-O1", "-q")
    assert digest(tmp_path / "o.onnx.data") == before
    same(computed(there), wanted)
    same(computed(out), wanted)


def test_data_that_output_and_input_share_stays(emend, tmp_path):
    """The old output is a copy of the input: its data is the input's."""
    there, out = tmp_path / "m.onnx", tmp_path / "o.onnx"
    wanted = save(model(), there, data="o.onnx.data")
    out.write_bytes(there.read_bytes())
    emend("optimize", there, out, "-O1", "-q")
    same(computed(there), wanted)
    same(computed(out), wanted)


def test_data_of_a_stranger_stays(emend, tmp_path):
    there, out, stranger = tmp_path / "m.onnx", tmp_path / "o.onnx", tmp_path / "s.onnx"
    wanted, others = save(model(), there, data="m.data"), save(model(), stranger, data="o.onnx.data")
    emend("optimize", there, out, "-O1", "-q")
    same(computed(stranger), others)
    same(computed(out), wanted)


@pytest.mark.parametrize("again", [1, 3])
def test_one_s_own_data_is_replaced(emend, tmp_path, again):
    there = tmp_path / "m.onnx"
    wanted = save(model(), there, data="m.onnx.data")
    for _ in range(again):
        emend("optimize", there, there, "-O1", "-q")
    same(computed(there), wanted)
    assert sorted(os.listdir(tmp_path)) == ["m.onnx", "m.onnx.data"]


# Names.

TWICE = {
    "report over the result": (["m.onnx", "o.onnx", "--json", "o.onnx"], "OUT and --json are one file"),
    "under another name": (["m.onnx", "o.onnx", "--json", "./o.onnx"], "OUT and --json are one file"),
    "report over the input": (["m.onnx", "o.onnx", "--json", "m.onnx"], "--json m.onnx is the file that is read"),
    "dumps over the result": (["m.onnx", "o.onnx", "--dump-dir", "o.onnx"], "OUT and --dump-dir are one file"),
    "dumps over the report": (["m.onnx", "--json", "r", "--dump-dir", "r"], "--json and --dump-dir are one file"),
    "no name": (["m.onnx", ""], "an empty name is no file"),
}


@pytest.mark.parametrize("how", TWICE)
def test_what_would_be_one_file_is_refused(emend, tmp_path, how):
    arguments, told = TWICE[how]
    save(model(), tmp_path / "m.onnx")
    before = digest(tmp_path / "m.onnx")
    done = subprocess.run([emend.path, "optimize", *arguments, "-O1"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and told in done.stderr, done.stderr
    assert digest(tmp_path / "m.onnx") == before and sorted(os.listdir(tmp_path)) == ["m.onnx"]


def test_extract_refuses_them_too(emend, tmp_path):
    graph = tmp_path / "g.json"
    graph.write_text(json.dumps({"nodes": {"a": {"op": "x", "children": [], "eclass": "0", "cost": 1}}, "root_eclasses": ["0"]}))
    for arguments in (["--out", graph], ["--out", tmp_path / "o", "--json", tmp_path / "o"]):
        assert emend.run("extract", graph, *arguments).returncode == 2


def test_a_device_may_be_named_twice(emend, tmp_path):
    save(model(), tmp_path / "m.onnx")
    emend("optimize", tmp_path / "m.onnx", "/dev/null", "-O1", "--json", "/dev/null")


# A limit.


def test_a_limit_on_the_size_of_files_is_a_full_disk(emend, tmp_path):
    there, out = tmp_path / "m.onnx", tmp_path / "o.onnx"
    save(model(), there)
    out.write_bytes(b"old")
    limited = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    done = subprocess.run([emend.path, "optimize", there, out, "-O1", "-q"], capture_output=True, text=True, preexec_fn=limited)
    assert done.returncode == 3 and "File too large" in done.stderr and "o.onnx" in done.stderr
    assert out.read_bytes() == b"old" and sorted(os.listdir(tmp_path)) == ["m.onnx", "o.onnx"]


# A model of nothing.


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_a_model_without_outputs(emend, tmp_path, level):
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value("x", 2)], [])
    there = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), there)
    emend("optimize", there, tmp_path / "o.onnx", f"-O{level}", "-q")
    assert list(onnx.load(tmp_path / "o.onnx").graph.output) == []
    for target in ("interp", "cpu"):
        emend("run", there, "--target", target, "--random", 1)
