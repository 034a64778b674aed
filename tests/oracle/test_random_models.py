"""tests/random_models: the tester itself, and a few minutes of it on models that are always the same (`make soak` runs it for as long as one likes)."""
import pathlib, re, subprocess, sys

import numpy as np
import onnx
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/random_models"))
import checker, models, operators, shrink, standard
from expected import Reference


def test_every_operator_of_onnx_that_we_know_is_drawn_or_said_to_be_left_out():
    standard = {s.name for s in onnx.defs.get_all_schemas()}
    rows = [line for line in (ROOT / "docs/operators.md").read_text().splitlines() if line.startswith("| `")]
    known = {cell.split(".")[-1] for row in rows for cell in re.findall(r"(?<=[|,]) ([\w.]+)(?=,| \|)", row)} & standard
    assert {"ConvTranspose", "Scaler", "Relu", "Cast"} <= known
    assert sorted(known - set(operators.EMITTERS) - set(operators.LEFT_OUT)) == []


def test_a_seed_always_means_the_same_model():
    for seed in range(40):
        first, second = models.model_of(seed), models.model_of(seed)
        assert (first is None) == (second is None)
        if first:
            assert first.model.SerializeToString() == second.model.SerializeToString()
            a, b = first.draw("spikes", seed), second.draw("spikes", seed)
            assert all(np.array_equal(a[k], b[k], equal_nan=True) for k in a)


def with_outputs(family, changes):
    """How the outputs of some seeds of a family are judged after `changes(value)`, channel by channel."""
    for seed in range(12):
        case = models.model_of(seed, family)
        expected = case and checker.expected_at(Reference(case.model), case.draw("normal", seed))
        if expected is None:
            continue
        got = dict(zip(expected.reference.outputs, expected.outputs))
        yield expected.faults({k: changes(v) for k, v in got.items()})


@pytest.mark.parametrize("family", ["cnn", "attention", "half", "soup"])
def test_what_is_off_by_rounding_passes(family):
    slightly = lambda v: (v * (1 + np.finfo(v.dtype).eps)).astype(v.dtype) if v.dtype.kind == "f" else v
    assert not any(with_outputs(family, slightly))


@pytest.mark.parametrize("family", ["cnn", "attention", "residual"])
def test_one_small_channel_that_is_wrong_does_not_hide_behind_a_large_one(family):
    def wrong(v):
        if v.dtype.kind != "f" or v.ndim == 0:
            return v
        factors = np.ones(v.shape[-1], v.dtype)
        factors[-1] = 1.001
        return v * factors

    faults = list(with_outputs(family, wrong))
    assert faults and sum(f is not None for f in faults) > len(faults) / 2


def test_a_sum_that_overflows_to_both_sides_may_be_a_nan_and_one_that_does_not_may_not():
    graph = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]> g (float[2, 2] a, float[2, 2] b) => (float[2, 2] y) {
        s = MatMul(a, b) y = Reciprocal(s) }""")
    values = {"a": np.full([2, 2], 1e30, np.float32), "b": np.array([[1e30, 1], [-1e30, 2]], np.float32)}
    expected = checker.expected_at(Reference(graph), values)
    got = expected.outputs[0].copy()
    got[:, 0] = np.nan
    assert expected.faults({"y": got}) is None
    assert expected.faults({"y": np.full([2, 2], np.nan, np.float32)}) is not None


def test_the_standards_evaluator_knows_recurrent_layers():
    seen = set()
    for seed in range(60):
        case = models.model_of(seed, "recurrent")
        ops = [n.op_type for n in case.model.graph.node] if case else []
        if ops[-2:] != ["MatMul", "Add"]:
            continue
        reference, values = Reference(case.model), case.draw("normal", seed)
        for own, theirs in zip(reference.run(values), standard.outputs_of(case.model, values, [None] * 9)):
            np.testing.assert_allclose(own, theirs, atol=1e-5)
        node = case.model.graph.node[0]
        seen |= {node.op_type, *(a.s for a in node.attribute if a.name == "direction"), "lengths" if "" != (list(node.input) + [""] * 9)[4] else ""}
    assert seen >= {"LSTM", "GRU", "RNN", b"forward", b"reverse", b"bidirectional", "lengths"}


def test_nothing_is_found_in_models_that_are_always_the_same(tmp_path):
    done = subprocess.run([sys.executable, ROOT / "tests/random_models/soak.py", "--models", "140", "--seconds", "600", "--out", tmp_path],
                          capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "run interp" in done.stdout and "optimize -O3" in done.stdout


def test_a_finding_shrinks_to_the_node_that_shows_it():
    case = next(c for c in (models.model_of(s, "attention") for s in range(20)) if c)
    assert len(case.model.graph.node) > 8
    small = shrink.shrink(case, 1, checker.plan_of(1), lambda c: any(n.op_type == "Softmax" for n in c.model.graph.node))
    assert [n.op_type for n in small.model.graph.node] == ["Softmax"]
    assert len(small.model.graph.output) == 1 and max(d for g in small.inputs for d in g.shape) <= 2
