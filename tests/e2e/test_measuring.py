"""What is run is chosen by a clock: once on a machine, within a budget, and kept."""
import json

import pytest


@pytest.fixture
def model(emend, tmp_path, monkeypatch):
    monkeypatch.setenv("EMEND_CACHE_DIR", str(tmp_path / "cache"))
    emend("zoo", "squeezenet", tmp_path / "model.onnx", "--size", 64)
    return tmp_path / "model.onnx"


def bench(emend, model, *how, **environment):
    done = emend.run("bench", model, "--runs", 1, "--steps", "--json", "-", "--quiet", *how, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["models"][0]


def kernels(report):
    return sorted((s["label"], s["kernel"]) for s in report["steps"])


def test_the_second_start_measures_nothing_and_runs_the_same(emend, model):
    first = bench(emend, model, "--budget", "3s")
    assert first["prices_measured"] > 0 and not first["plan_recalled"]
    assert first["max_rel_err"] < 1e-4
    again = bench(emend, model, "--budget", "3s")
    assert again["plan_recalled"] and again["prices_measured"] == 0
    assert again["plans"] == first["plans"] and kernels(again) == kernels(first)


def test_a_larger_budget_goes_on_from_what_is_known(emend, model):
    short = bench(emend, model, "--budget", "1")
    long = bench(emend, model, "--budget", "6")
    assert long["prices_known"] >= short["prices_measured"] > 0 and long["prices_measured"] > 0


def test_run_takes_what_bench_decided(emend, model):
    bench(emend, model, "--budget", "2s")
    for budget, known in ("2s", True), ("3s", False):
        facts = json.loads(emend("run", model, "--target", "cpu", "--random", 1, "--budget", budget, "--json", "-"))
        assert facts["plan_recalled"] is known


def test_without_measuring_nothing_is_asked_of_a_clock(emend, model):
    for how in (["--no-measure"], ["--budget", "0"], ["-O", "1"]):
        report = bench(emend, model, *how, EMEND_BUDGET=5)
        assert report["prices_measured"] == report["prices_known"] == 0 and report["plans"] == [], how
    measured = bench(emend, model, EMEND_BUDGET=1)
    assert measured["prices_measured"] > 0


def test_with_time_enough_nothing_that_could_matter_is_left(emend, tmp_path, model):
    emend("zoo", "tour", tmp_path / "tour.onnx")
    report = bench(emend, tmp_path / "tour.onnx", "--budget", "5m")
    assert report["prices_left"] == 0 and report["prices_measured"] > 0
    assert all(s["estimate_ms"] > 0 for s in report["steps"])


@pytest.mark.parametrize("budget", ["soon", "-1", "5 apples", "nan"])
def test_what_is_no_time(emend, model, budget):
    assert emend.run("bench", model, f"--budget={budget}").returncode == 2
    assert emend.run("bench", model, EMEND_BUDGET=budget).returncode == 2


def test_a_file_for_this_machine_has_what_a_clock_found_faster(emend, tmp_path, monkeypatch):
    monkeypatch.setenv("EMEND_CACHE_DIR", str(tmp_path / "cache"))
    emend("zoo", "nasrnn", tmp_path / "model.onnx", "--steps", 2)
    command = ("optimize", tmp_path / "model.onnx", tmp_path / "better.onnx", "--target", "cpu", "--quiet", "--json", "-")
    facts = json.loads(emend(*command, "--budget", "4s"))
    assert facts["runtime"] in ("emend", None)  # None: nothing was found, or there was no time for a race
    written = (tmp_path / "better.onnx").read_bytes()
    assert json.loads(emend(*command, "--budget", "4s"))["prices_measured"] in (0, None)
    assert (tmp_path / "better.onnx").read_bytes() == written
    assert json.loads(emend(*command, "--no-measure"))["runtime"] is None
