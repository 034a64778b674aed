"""The search: `emend optimize -O2` finds what it should, writes valid ONNX, and does the same every time."""
import hashlib
import json

import onnx
import pytest


@pytest.fixture(scope="module")
def recurrent(emend, tmp_path_factory):
    path = tmp_path_factory.mktemp("search") / "nasrnn.onnx"
    emend("zoo", "nasrnn", path, "--steps", 1)
    return path


def count(path, op):
    return sum(node.op_type == op for node in onnx.load(path).graph.node)


def test_products_that_share_an_operand_are_merged(emend, recurrent, tmp_path):
    better, facts = tmp_path / "better.onnx", tmp_path / "facts.json"
    emend("optimize", recurrent, better, "-O2", "--json", facts)
    onnx.checker.check_model(onnx.load(better))
    assert count(recurrent, "MatMul") == 16 and count(better, "MatMul") <= 2
    facts = json.loads(facts.read_text())
    assert facts["cost_after"] < facts["cost_before"] and facts["enodes"] > 100 and facts["iterations"] > 0
    assert facts["verified"]["max_rel_err"] < 1e-4
    assert {"saturate", "price", "extract"} <= set(facts["phases_ms"])
    assert any(fired["rule"].startswith("merge-matmuls") for fired in facts["fired"])


def test_ten_runs_give_one_hash(emend, recurrent, tmp_path):
    hashes = set()
    for i in range(10):
        emend("optimize", recurrent, tmp_path / "again.onnx", "-O2")
        hashes.add(hashlib.sha256((tmp_path / "again.onnx").read_bytes()).hexdigest())
    assert len(hashes) == 1


def test_rules_can_be_left_out(emend, recurrent, tmp_path):
    emend("optimize", recurrent, tmp_path / "apart.onnx", "-O2", "--disable", "*")
    assert count(tmp_path / "apart.onnx", "MatMul") == 16


def test_explain_names_what_the_result_rests_on(emend, recurrent):
    told = emend("explain", recurrent)
    assert "rests on" in told and "merge-matmuls" in told and "taken" in told
    facts = json.loads(emend("explain", recurrent, "--json", "-"))
    assert facts["trail"] and min(facts["prices_ms"]) < facts["price_before_ms"]
