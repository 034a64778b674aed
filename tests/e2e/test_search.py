"""The search: `emend optimize` finds what it should, writes valid ONNX, and does the same every time."""
import hashlib
import json

import numpy as np
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
    emend("optimize", recurrent, better, "--search-again", "--json", facts)
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
        emend("optimize", recurrent, tmp_path / "again.onnx", *(["--search-again"] if i % 2 else []))
        hashes.add(hashlib.sha256((tmp_path / "again.onnx").read_bytes()).hexdigest())
    assert len(hashes) == 1


def test_rules_can_be_left_out(emend, recurrent, tmp_path):
    emend("optimize", recurrent, tmp_path / "apart.onnx", "--disable", "*")
    assert count(tmp_path / "apart.onnx", "MatMul") == 16


def test_what_was_found_is_kept_for_the_next_start(emend, recurrent, tmp_path):
    def facts(*options):
        done = emend.run("optimize", recurrent, "--json", "-", *options, EMEND_CACHE_DIR=tmp_path / "cache")
        return json.loads(done.stdout)

    first, second = facts(), facts()
    assert first["search_recalled"] is False and second["search_recalled"] is True
    same = ("cost_before", "cost_after", "enodes", "iterations", "fired", "trail", "operators_after")
    assert {name: first[name] for name in same} == {name: second[name] for name in same}
    assert "recall" in second["phases_ms"] and "saturate" not in second["phases_ms"]
    assert facts("--search-again")["search_recalled"] is False
    assert facts("--disable", "merge*")["search_recalled"] is False
    kept = json.loads(emend.run("cache", "stats", "--json", "-", EMEND_CACHE_DIR=tmp_path / "cache").stdout)["searches"]
    assert kept["count"] == 2 and kept["bytes"] > 0
    emend.run("cache", "clear", EMEND_CACHE_DIR=tmp_path / "cache")
    assert facts()["search_recalled"] is False


def test_run_searches_too_and_computes_the_same(emend, recurrent, tmp_path):
    for level, target in (("-O1", "cpu"), ("-O2", "cpu"), (None, "interp")):
        emend("run", recurrent, "--random", 1, "--target", target, "--save", tmp_path / f"{target}{level}", *([level] if level else []))
    names = sorted(path.name for path in (tmp_path / "interpNone").iterdir())
    assert names
    for name in names:
        expected = np.load(tmp_path / "interpNone" / name)
        for other in ("cpu-O1", "cpu-O2"):
            np.testing.assert_allclose(np.load(tmp_path / other / name), expected, rtol=1e-4, atol=1e-5)
    assert "-O" in emend.run("run", recurrent, "--random", 1, "-O1").stderr


def test_explain_names_what_the_result_rests_on(emend, recurrent):
    told = emend("explain", recurrent)
    assert "rests on" in told and "merge-matmuls" in told and "taken" in told
    facts = json.loads(emend("explain", recurrent, "--json", "-"))
    assert facts["trail"] and min(facts["prices_ms"]) < facts["price_before_ms"]


def test_mutants_that_no_table_names_are_generated_at_level_three(emend, tmp_path):
    weights = np.random.default_rng(1).standard_normal((128, 128, 3, 3)).astype(np.float32)
    conv = onnx.helper.make_node("Conv", ["x", "w"], ["y"], dilations=[2, 2], pads=[2, 2, 2, 2])
    image = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 128, 14, 14]) for name in "xy"]
    graph = onnx.helper.make_graph([conv], "dilated", image[:1], image[1:], [onnx.numpy_helper.from_array(weights, "w")])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), tmp_path / "dilated.onnx")

    def generated(level):
        facts = tmp_path / "facts.json"
        emend("optimize", tmp_path / "dilated.onnx", level, "--search-again", "--json", facts)
        facts = json.loads(facts.read_text())
        assert facts["verified"]["max_rel_err"] < 1e-4
        return [mutant for mutant in facts["mutants"] if mutant["mutation"] == "generated"]

    assert not generated("-O2")
    assert any(mutant["outcome"] == "equal" for mutant in generated("-O3"))
