"""A library that may be there or not: with it, its kernels take part; without it, or with something else in its place, nothing is lost but speed."""
import json, re, subprocess

import onnx, pytest
from onnx import TensorProto, helper


@pytest.fixture(scope="module")
def model(emend, tmp_path_factory):
    """Products whose weights are not known ahead, so that none of our own is packed for them. Whose kernel is the best at which height
    depends on the processor's caches: one of three is the library's on those that were tried."""
    path = tmp_path_factory.mktemp("onednn") / "product.onnx"
    value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    heights = (64, 96, 200)
    nodes = [n for m in heights for n in (helper.make_node("MatMul", [f"x{m}", f"w{m}"], [f"y{m}"]), helper.make_node("ReduceMax", [f"y{m}"], [f"z{m}"], axes=[1]))]
    inputs = [value(f"{name}{m}", shape) for m in heights for name, shape in (("x", (m, 1024)), ("w", (1024, 4096)))]
    graph = helper.make_graph(nodes, "g", inputs, [value(f"z{m}", (m, 1)) for m in heights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)
    return path


def bench(emend, model, **environment):
    done = emend.run("bench", model, "--steps", "--runs", 1, "--json", "-", "--quiet", **environment)
    assert done.returncode == 0, done.stderr
    [facts] = json.loads(done.stdout)["models"]
    assert facts["max_rel_err"] < 1e-5
    return [step["kernel"].partition("[")[0].partition(" ")[0] for step in facts["steps"]]


def finding(emend, **environment):
    done = emend.run("doctor", "--json", "-", **environment)
    [found] = [f for f in json.loads(done.stdout)["findings"] if f["what"] == "oneDNN"]
    return found


def test_it_takes_part(emend, model, tmp_path):
    found = finding(emend)
    if found["lack"]:
        pytest.skip(f"oneDNN is {found['value']}")
    kernels = bench(emend, model, EMEND_CACHE_DIR=tmp_path)
    assert "onednn_matmul" in kernels and "rows" in kernels


@pytest.mark.parametrize("what", ["absent", "no library", "another library"])
def test_without_it_nothing_is_lost_but_speed(emend, model, tmp_path, what):
    path = tmp_path / "libdnnl.so.3"
    if what == "no library":
        path.write_text("not a library")
    given = {"EMEND_ONEDNN": "libm.so.6" if what == "another library" else path, "EMEND_CACHE_DIR": tmp_path / "cache"}
    assert finding(emend, **given)["lack"]
    assert not any(kernel.startswith("onednn") for kernel in bench(emend, model, **given))


def test_it_is_never_taken_from_the_current_folder(emend):
    """An empty entry of the list of places would mean just that."""
    dynamic = subprocess.run(["readelf", "-d", emend.path], capture_output=True, text=True, check=True).stdout
    [places] = re.findall(r"R(?:UN)?PATH.*\[(.*)\]", dynamic)
    assert all(place.startswith("$ORIGIN/") for place in places.split(":")), places
