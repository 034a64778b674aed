"""`emend optimize --target onnxruntime|openvino`: another runtime's own times decide, and the file is never slower there."""
import hashlib
import json
import sys

import onnx
import pytest

# Speaks as the helper process does, with made-up times: what a test is about must not depend on how busy the machine is.
FAKE = """#!%s
import json, os, sys, time
import onnx
mode, log = os.environ["FAKE_MODE"], os.environ["FAKE_LOG"]
if mode == "silent":
    time.sleep(60)
print(json.dumps({"version": "0.0-fake"}), flush=True)
def seconds(path):
    graph = onnx.load(path).graph
    products = sum(node.op_type in ("MatMul", "Gemm") for node in graph.node)
    if mode == "merging is slow":
        return 1e-3 / (1 + products)
    return 1e-6 * len(graph.node) + 1e-4 * products
for line in sys.stdin:
    files = json.loads(line)["files"]
    with open(log, "a") as out:
        out.write(str(len(files)) + "\\n")
    if mode == "dies" or mode == "dies once" and not os.path.exists(log + ".died"):
        open(log + ".died", "w").close()
        sys.exit(7)
    if mode == "hangs":
        time.sleep(60)
    if mode == "garbage":
        print("what?", flush=True)
        continue
    refused = mode == "refuses" and any(len(onnx.load(f).graph.node) > 20 for f in files)
    print(json.dumps({"seconds": [None if refused else seconds(f) for f in files], "reasons": ["no such kernel" if refused else None] * len(files)}), flush=True)
"""


@pytest.fixture(scope="module")
def recurrent(emend, tmp_path_factory):
    path = tmp_path_factory.mktemp("target") / "nasrnn.onnx"
    emend("zoo", "nasrnn", path, "--steps", 1)
    return path


@pytest.fixture
def fake(emend, recurrent, tmp_path):
    """Optimizes by the times of a helper of that mode: what the command did, the written file, the facts, how often it was asked."""
    python = tmp_path / "python"
    python.write_text(FAKE % sys.executable)
    python.chmod(0o700)

    def run(mode, *options, cache="cache"):
        out, facts, log = tmp_path / "out.onnx", tmp_path / "facts.json", tmp_path / "log"
        for old in (out, facts, log):
            old.unlink(missing_ok=True)
        done = emend.run("optimize", recurrent, out, "-O2", "--target", "onnxruntime", "--json", facts, *options, EMEND_PYTHON=python, FAKE_MODE=mode,
                         FAKE_LOG=log, EMEND_CACHE_DIR=tmp_path / cache, EMEND_RUNTIME_TIMEOUT=1 if mode in ("silent", "hangs") else 60)
        asked = len(log.read_text().split()) if log.exists() else 0
        return done, out, json.loads(facts.read_text()) if facts.exists() else None, asked

    return run


def products(path):
    return sum(node.op_type in ("MatMul", "Gemm") for node in onnx.load(path).graph.node)


def test_what_is_faster_there_is_written(fake, recurrent):
    done, out, facts, asked = fake("counts")
    assert done.returncode == 0, done.stderr
    assert products(recurrent) == 16 and products(out) <= 2
    assert facts["runtime"] == "onnxruntime 0.0-fake" and facts["measured_after_ms"] < facts["measured_before_ms"]
    assert facts["prices_measured"] > 5 and asked > 5 and not facts["kept_input"]
    assert "measured in onnxruntime 0.0-fake" in done.stdout
    onnx.checker.check_model(onnx.load(out))


def test_what_is_slower_there_is_not_written(fake, recurrent):
    done, out, facts, _ = fake("merging is slow")
    assert done.returncode == 0, done.stderr
    assert products(out) == products(recurrent)
    assert facts["measured_after_ms"] <= 1.005 * facts["measured_before_ms"]


def test_known_prices_are_not_measured_again_and_decide_the_same(fake):
    hashes = set()
    for i in range(3):
        done, out, facts, asked = fake("counts")
        assert done.returncode == 0 and (asked == 0) == (i > 0)
        assert (facts["prices_measured"] == 0) == (i > 0) and facts["prices_known"] >= 10 * (i > 0)
        hashes.add(hashlib.sha256(out.read_bytes()).hexdigest())
    assert len(hashes) == 1


def test_a_missing_runtime_is_named(emend, recurrent, tmp_path):
    nowhere = tmp_path / "python"
    nowhere.write_text("#!/bin/sh\nexec %s -S -E \"$@\"\n" % sys.executable)  # without packages
    nowhere.chmod(0o700)
    done = emend.run("optimize", recurrent, tmp_path / "out.onnx", "-O2", "--target", "openvino", EMEND_PYTHON=nowhere)
    assert done.returncode == 3 and "No module named" in done.stderr
    assert "pip install openvino" in done.stderr and "EMEND_PYTHON" in done.stderr
    assert not (tmp_path / "out.onnx").exists()


def test_no_python_at_all(emend, recurrent, tmp_path):
    done = emend.run("optimize", recurrent, "--target", "onnxruntime", EMEND_PYTHON=tmp_path / "none")
    assert done.returncode == 3 and "could not be started" in done.stderr


@pytest.mark.parametrize("mode, says", [("dies", "exit code 7"), ("garbage", "what?"), ("silent", "no answer within 1"), ("hangs", "no answer within 1"), ("refuses", "no such kernel")])
def test_a_broken_helper_is_one_clear_error(fake, mode, says):
    done, out, _, _ = fake(mode)
    assert done.returncode == 3 and says in done.stderr and len(done.stderr.strip().splitlines()[-1]) < 400
    assert not out.exists()


def test_a_helper_that_dies_once_is_started_again(fake):
    done, out, facts, _ = fake("dies once")
    assert done.returncode == 0 and products(out) <= 2, done.stderr


def test_an_unknown_target_is_a_usage_error(emend, recurrent):
    assert emend.run("optimize", recurrent, "--target", "abacus").returncode == 2


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_in_the_runtime_itself(emend, recurrent, tmp_path, runtime):
    pytest.importorskip(runtime)
    out, facts = tmp_path / "out.onnx", tmp_path / "facts.json"
    done = emend.run("optimize", recurrent, out, "-O2", "--target", runtime, "--json", facts, EMEND_PYTHON=sys.executable, EMEND_CACHE_DIR=tmp_path)
    assert done.returncode == 0, done.stderr
    facts = json.loads(facts.read_text())
    assert facts["runtime"].startswith(runtime) and 0 < facts["measured_after_ms"] <= 1.005 * facts["measured_before_ms"]
    assert facts["verified"]["max_rel_err"] < 1e-4
    onnx.checker.check_model(onnx.load(out))
