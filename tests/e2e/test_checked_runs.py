"""run and bench compare what they run with what came in, once on a machine, as optimize does."""
import json

import pytest


@pytest.fixture
def tour(emend, tmp_path, monkeypatch):
    monkeypatch.setenv("EMEND_CACHE_DIR", str(tmp_path / "cache"))
    emend("zoo", "tour", tmp_path / "tour.onnx")
    return tmp_path / "tour.onnx"


def checks_kept(emend):
    return json.loads(emend("cache", "stats", "--json", "-"))["checks"]["count"]


def check_of_run(emend, model, *options):
    return json.loads(emend("run", model, "--target", "cpu", "--random", 1, "--json", "-", *options))["check"]


def check_of_bench(emend, model):
    [entry] = json.loads(emend("bench", model, "--runs", 1, "--json", "-", "--quiet"))["models"]
    return entry["check"]


def test_what_runs_is_compared_once(emend, tour):
    first = check_of_run(emend, tour)
    assert first.startswith("error of ") and checks_kept(emend) == 1
    assert check_of_run(emend, tour) == first
    assert check_of_bench(emend, tour) == first
    assert checks_kept(emend) == 1


def test_another_level_is_another_program(emend, tour):
    assert check_of_run(emend, tour, "-O", 0) == "not run: nothing was changed"
    assert checks_kept(emend) == 0


def test_clearing_forgets_what_was_compared(emend, tour):
    check_of_run(emend, tour)
    emend("cache", "clear")
    assert checks_kept(emend) == 0
    check_of_run(emend, tour)
    assert checks_kept(emend) == 1


def test_a_verdict_about_other_weights_is_not_taken(emend, tour):
    import numpy as np, onnx
    from onnx import numpy_helper

    check_of_run(emend, tour)
    model = onnx.load(tour)
    weight = next(w for w in model.graph.initializer if w.data_type == onnx.TensorProto.FLOAT and len(w.dims) > 1)
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * np.float32(1.5), weight.name))
    onnx.save(model, tour)
    check_of_run(emend, tour)
    assert checks_kept(emend) == 2
