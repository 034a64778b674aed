"""What a process holds, against the bounds that bench/memory.py states; and --memory, which sets one of them."""
import json, os, pathlib, sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import memory


@pytest.fixture(scope="module")
def models(emend, tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory")
    paths = {}
    for name in ("resnet18", "squeezenet"):
        paths[name] = folder / f"{name}.onnx"
        emend("zoo", name, paths[name])
    return paths


@pytest.mark.parametrize("name", ["resnet18", "squeezenet"])
def test_a_process_holds_little_more_than_weights_and_what_is_alive(emend, models, name):
    m = memory.second_start(emend.path, models[name])
    assert m["lower_bound"] <= m["arena"]
    assert m["peak"] > m["weights"]  # it does hold them
    assert m["peak_ratio"] <= memory.ALLOWED_PEAK, m
    assert m["weights_ratio"] <= memory.ALLOWED_WEIGHTS, m


def test_memory_bounds_the_weights_as_stored(emend, models):
    def stored(factor):
        report = json.loads(emend("bench", models["squeezenet"], "--runs", 1, "--no-check", "--memory", factor, "--json", "-", "--quiet"))
        return report["models"][0]["weight_bytes"] / report["models"][0]["model_weight_bytes"]
    assert stored(1) <= 1
    assert stored(1.01) <= 1.01
    assert emend.run("bench", models["squeezenet"], "--memory", "0.5").returncode == 2
