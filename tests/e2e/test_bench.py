"""emend bench: the facts that scripts rely on, and a model that is run line by line; and what `make bench` does with it."""
import json, os, pathlib, subprocess, sys

import numpy as np
import pytest


@pytest.fixture(scope="module")
def tour(emend, tmp_path_factory):
    path = tmp_path_factory.mktemp("bench") / "tour.onnx"
    emend("zoo", "tour", path)
    return path


def facts(emend, *args):
    return json.loads(emend("bench", *args, "--json", "-", "--quiet"))


@pytest.mark.parametrize("target", ["interp", "cpu"])
def test_the_contract(emend, tour, target):
    report = facts(emend, tour, "--target", target, "--runs", 7)
    assert report["schema"] == 1
    assert report["peak_memory_bytes"] > 1e6
    assert report["compile_s"] > 0
    [model] = report["models"]
    assert model["path"] == str(tour) and model["target"] == target
    assert 0 < model["p10_ms"] <= model["median_ms"] <= model["p90_ms"]
    assert model["runs"] == 7
    assert 0 < model["max_rel_err"] < 1e-5 and 0 < model["max_abs_err"] < 1e-5


def test_models_on_targets_are_compared(emend, tour, tmp_path):
    better = tmp_path / "better.onnx"
    emend(tour, better)
    report = facts(emend, better, "--against", tour, "--target", "interp,cpu", "--runs", 3)
    assert [(m["path"], m["target"]) for m in report["models"]] == [(str(p), t) for p in (tour, better) for t in ("interp", "cpu")]
    base = report["models"][0]
    assert base["speedup"] == 1
    for m in report["models"]:
        assert m["speedup"] == pytest.approx(base["median_ms"] / m["median_ms"])


def test_steps_are_told_slowest_first(emend, tour):
    [model] = facts(emend, tour, "--runs", 3, "--steps")["models"]
    steps = model["steps"]
    assert len(steps) == model["step_count"] > 0
    assert sum(s["share"] for s in steps) == pytest.approx(1)
    assert [s["ms"] for s in steps] == sorted((s["ms"] for s in steps), reverse=True)
    assert any(s["label"].endswith("(y)") for s in steps)  # as the model names it


def test_rankings_say_where_the_fastest_candidate_stood(emend, tmp_path, monkeypatch):
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    monkeypatch.setenv("EMEND_CACHE_DIR", str(tmp_path / "cache"))
    weights = numpy_helper.from_array(np.random.default_rng(1).standard_normal((64, 48)).astype(np.float32), "w")
    value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    product = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "product", [value("x", [40, 64])], [value("y", [40, 48])], [weights])
    path = tmp_path / "product.onnx"
    onnx.save(helper.make_model(product, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    how = ("--runs", 1, "--no-check", "--budget", "60s", "--candidates", 12)
    [model] = facts(emend, path, *how)["models"]
    rankings = model["rankings"]
    assert rankings and model["prices_measured"] >= sum(r["of"] for r in rankings)
    for r in rankings:
        assert 1 <= r["rank"] <= r["of"] <= 12 and 0 < r["ms"] <= r["first_ms"]
        assert (r["rank"] == 1) == (r["ms"] == r["first_ms"]) and r["best"]
    [again] = facts(emend, path, *how)["models"]
    assert again["rankings"] == rankings and again["prices_measured"] == 0  # all from the list
    text = emend("bench", path, *how, "--quiet")
    within = sum(r["rank"] <= 8 for r in rankings)
    assert f"within its first 8 in {100 * within / len(rankings):.0f}% of {len(rankings)} groups" in text
    [few] = facts(emend, path, "--runs", 1, "--no-check")["models"]
    assert few["rankings"] == []


def test_what_is_not_checked_says_so(emend, tour):
    [model] = facts(emend, tour, "--runs", 1, "--no-check")["models"]
    assert model["max_rel_err"] is None and model["not_checked"] == "--no-check"


def test_strictness_has_a_price_and_no_kernel_that_rounds_otherwise(emend, tmp_path):
    path = tmp_path / "squeezenet.onnx"
    emend("zoo", "squeezenet", path)
    strict, free = facts(emend, path, "--runs", 3, "--steps", "--accuracy", "strict")["models"]
    assert strict["strict"] and not free["strict"]
    kernels = lambda model: {s["kernel"].partition("[")[0] for s in model["steps"]}
    assert "winograd" in kernels(free) and "winograd" not in kernels(strict)
    assert free["weight_bytes"] > strict["weight_bytes"]
    assert "strictness costs" in emend("bench", path, "--runs", 3, "--accuracy", "strict", "--quiet")


def test_shares_of_peak_are_told(emend, tour):
    [model] = facts(emend, tour, "--runs", 3, "--steps")["models"]
    assert all(s["share_of_flops"] >= 0 and s["share_of_bandwidth"] > 0 for s in model["steps"])
    assert any(s["share_of_flops"] > 0 for s in model["steps"])
    assert all(s["estimate_ms"] > 0 for s in model["steps"])


def test_an_error_above_what_is_allowed_fails(emend, tour):
    assert emend.run("bench", tour, "--runs", 1, "--accuracy", "1e-12").returncode == 4
    assert emend.run("bench", tour, "--runs", 1, "--accuracy", "1e-4").returncode == 0


def test_usage(emend, tour):
    assert emend.run("bench").returncode == 2
    assert emend.run("bench", tour, "--target", "abacus").returncode == 2
    assert emend.run("bench", tour, tour, "--serve").returncode == 2
    for unknown in "nonsense", "search,nonsense", "":
        assert emend.run("bench", tour, "--without", unknown).returncode == 2
    assert emend.run("bench", tour, "--runs", 1, "--disable", "search").returncode == 0
    assert emend.run("bench", "absent.onnx").returncode == 3


def test_served_line_by_line(emend, tour, tmp_path):
    x = np.random.default_rng(0).standard_normal((1, 2, 4, 4), dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    emend("run", tour, "--input", f"x:{tmp_path}/x.npy", "--save", tmp_path / "run")
    command = [emend.path, "bench", tour, "--serve", "--quiet", "--input", f"x:{tmp_path}/x.npy"]
    lines = f"run 3\noutputs {tmp_path}/served\nsteps 2\nrun -1\nrun\nsteps 0\nnonsense\n"
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    ready, ran, wrote, timed, *refused = map(json.loads, done.stdout.splitlines())
    assert ready["ready"] is True and ready["compile_s"] > 0
    assert len(ran["ms"]) == 3 and min(ran["ms"]) > 0
    [name] = wrote["outputs"]
    got, want = (np.load(tmp_path / folder / f"{name}.npy") for folder in ("served", "run"))
    assert np.abs(got - want).max() < 1e-5
    steps = timed["steps"]
    assert all(len(s["ms"]) == 2 and min(s["ms"]) > 0 for s in steps)
    assert steps[0]["end"] and steps[-1]["end"] and sum(s["operations"] for s in steps) > 0
    assert len(refused) == 4 and all("expected" in r["error"] for r in refused)


@pytest.mark.parametrize("peer", ["onnxruntime", "before"])
def test_the_race_of_make_bench(emend, tmp_path, peer):
    script = pathlib.Path(__file__).resolve().parents[2] / "bench/compare.py"
    against = ["--before", emend.path] if peer == "before" else ["--runtimes", f"emend,{peer}"]
    command = [sys.executable, script, "tour", *against, "--seconds", "0.1", "--threads", "1", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "EMEND": emend.path})
    assert done.returncode == 0, done.stderr
    assert "geometric mean" in done.stdout
    report = json.loads((tmp_path / "results.json").read_text())
    assert report["machine"]["gflops"] > 1 and report["machine"]["gbytes"] > 0.1
    [model] = report["models"]
    assert model["name"] == "tour" and model["needed_bytes"] == 4 * (32 + 3 + 4 + 8 + 9)
    for runtime in ("emend", peer):
        r = model["runtimes"][runtime]
        assert 0 < r["min_ms"] <= r["median_ms"] and r["max_rel_err"] < 1e-5
        assert r["start_s"] > 0 and r["peak_memory_bytes"] > 1e6 and len(r["rounds_ms"]) >= 3
    assert model["runtimes"][peer]["ratio"] == 1
    assert not list(tmp_path.glob("race-*"))  # nothing is left behind


def test_what_is_left_out_runs_beside_the_whole(emend, tour):
    whole, without = facts(emend, tour, "--runs", 3, "--without", "search,mutate")["models"]
    assert whole["without"] == "" and without["without"] == "search,mutate"
    text = emend("bench", tour, "--runs", 3, "--without", "search", "--quiet")
    assert "without search" in text and "search gains" in text
