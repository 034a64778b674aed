"""A library that may be there or not: with it, its kernels take part; without it, or with something else in its place, nothing is lost but speed."""
import json, re, subprocess

import pytest


@pytest.fixture(scope="module")
def model(emend, tmp_path_factory):
    path = tmp_path_factory.mktemp("onednn") / "squeezenet.onnx"
    emend("zoo", "squeezenet", path)
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
    assert "onednn_convolution" in kernels and "rows" in kernels


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
