"""The contract of `emend verify`: models are fed by name, and what is not the same is not called equal."""
import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

X, Y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4]) for name in "xy")
P, Q = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4]) for name in "pq")
BOTH = [helper.make_node("Sub", ["x", "y"], ["p"]), helper.make_node("Exp", ["x"], ["q"])]


@pytest.fixture
def verdict(emend, tmp_path):
    """The exit code and the report on two models, each a list of nodes, inputs, outputs and weights."""

    def verify(*models, options=()):
        for name, (nodes, inputs, outputs, *weights) in zip("ab", models):
            graph = helper.make_graph(nodes, name, inputs, outputs, weights)
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / f"{name}.onnx")
        done = emend.run("verify", tmp_path / "a.onnx", tmp_path / "b.onnx", "--json", tmp_path / "facts.json", *options)
        return done.returncode, json.loads((tmp_path / "facts.json").read_text())

    return verify


def test_inputs_and_outputs_are_matched_by_name(verdict):
    for inputs, outputs in (([Y, X], [P, Q]), ([X, Y], [Q, P]), ([Y, X], [Q, P])):
        code, facts = verdict((BOTH, [X, Y], [P, Q]), (BOTH, inputs, outputs))
        assert (code, facts["verdict"]) == (0, "equal"), facts


def test_other_names_are_matched_by_place(verdict):
    a, b = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4]) for name in "ab")
    nodes = [helper.make_node("Sub", ["a", "b"], ["p"]), helper.make_node("Exp", ["a"], ["q"])]
    assert verdict((BOTH, [X, Y], [P, Q]), (nodes, [a, b], [P, Q]))[1]["verdict"] == "equal"
    code, facts = verdict((BOTH, [X, Y], [P, Q]), (nodes, [b, a], [P, Q]))
    assert (code, facts["verdict"]) == (4, "different")
    assert facts["worst"]["output"] in "pq" and len(facts["worst"]["position"]) == 2 and facts["worst"]["abs"] > 0


def test_a_value_that_was_rounded_is_not_the_value(verdict):
    nodes = [helper.make_node("Cast", ["x"], ["h"], to=TensorProto.BFLOAT16), helper.make_node("Cast", ["h"], ["c"], to=TensorProto.FLOAT),
             helper.make_node("Add", ["c", "y"], ["p"])]
    code, facts = verdict((nodes, [X, Y], [P]), ([helper.make_node("Add", ["x", "y"], ["p"])], [X, Y], [P]))
    assert facts["verdict"] != "equal"


def test_what_is_zero_but_for_rounding_is_zero(verdict):
    axes = numpy_helper.from_array(np.array([1]), "axes")
    zero = numpy_helper.from_array(np.array(0, np.float32), "zero")
    out = helper.make_tensor_value_info("p", TensorProto.FLOAT, [3, 1])
    deviations = [helper.make_node("Tanh", ["x"], ["t"]), helper.make_node("ReduceMean", ["t"], ["m"], axes=[1]),
                  helper.make_node("Sub", ["t", "m"], ["d"]), helper.make_node("ReduceSum", ["d", "axes"], ["p"])]
    nothing = [helper.make_node("ReduceSum", ["x", "axes"], ["s"]), helper.make_node("Mul", ["s", "zero"], ["p"])]
    code, facts = verdict((deviations, [X], [out], axes), (nothing, [X], [out], axes, zero))
    assert code in (0, 7) and facts["verdict"] != "different", facts


def test_every_verdict_has_its_exit_code(verdict):
    half, third = (numpy_helper.from_array(np.array(v, np.float32), "c") for v in (0.5, 0.5001))
    scaled = [helper.make_node("Mul", ["x", "c"], ["p"])]
    draws = [helper.make_node("RandomUniformLike", ["x"], ["p"])]
    plain = [helper.make_node("Identity", ["x"], ["p"])]
    assert verdict((scaled, [X], [P], half), (scaled, [X], [P], half))[0] == 0
    code, facts = verdict((scaled, [X], [P], half), (scaled, [X], [P], third))
    assert (code, facts["verdict"]) == (4, "different")
    code, facts = verdict((draws, [X], [P]), (plain, [X], [P]))
    assert (code, facts["verdict"]) == (7, "unknown"), facts


def test_a_tolerance_is_the_users_word(verdict):
    a, b = (numpy_helper.from_array(np.array(v, np.float32), "c") for v in (1, 1.001))
    nodes = [helper.make_node("Mul", ["x", "c"], ["p"])]
    pair = (nodes, [X], [P], a), (nodes, [X], [P], b)
    assert verdict(*pair)[0] == 4
    code, facts = verdict(*pair, options=["--rtol", "1e-2"])
    assert (code, facts["verdict"], facts["method"]) == (0, "equal", "tolerance")
    assert verdict(*pair, options=["--rtol", "1e-4", "--atol", "1e-9"])[0] == 4


def test_the_first_node_that_differs_is_named(verdict):
    def model(slope):
        return [helper.make_node("Exp", ["x"], ["e"], name="first"), helper.make_node("LeakyRelu", ["y"], ["l"], name="second", alpha=slope),
                helper.make_node("Add", ["e", "l"], ["p"], name="third")], [X, Y], [P]

    code, facts = verdict(model(0.1), model(0.2), options=["--where"])
    assert code == 4 and facts["where"]["operator"] == "leaky_relu", facts


def test_integers_wrap(verdict):
    x, p = (helper.make_tensor_value_info(name, TensorProto.UINT8, [4]) for name in "xp")
    one = numpy_helper.from_array(np.array(1, np.uint8), "one")
    more = [helper.make_node("Add", ["x", "one"], ["m"])]
    largest = more + [helper.make_node("Max", ["m", "x"], ["p"])]
    code, facts = verdict((largest, [x], [p], one), ([helper.make_node("Add", ["x", "one"], ["p"])], [x], [p], one))
    assert (code, facts["verdict"]) == (4, "different"), facts


def test_interfaces_are_compared_with_their_symbols(verdict):
    def relu(rows):
        return [helper.make_node("Relu", ["x"], ["p"])], *([helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, 3])] for name in "xp")

    code, facts = verdict(relu("N"), relu("batch"))
    assert (code, facts["verdict"]) == (0, "equal") and "N = 5" in facts["reason"], facts
    for one in (relu("N"), relu(1)), (relu(1), relu("N")):
        code, facts = verdict(*one)
        assert (code, facts["verdict"]) == (4, "different") and "equal at N = 1" in facts["reason"], facts
    assert verdict(relu("N"), relu(1), options=["--shape", "x:1x3"])[0] == 0


def test_a_bound_at_the_end_of_a_type_is_none_for_finite_values(verdict):
    zero = numpy_helper.from_array(np.array(0, np.float32), "zero")
    clip = [helper.make_node("Clip", ["x", "zero"], ["c"]), helper.make_node("Exp", ["c"], ["p"])]
    relu = [helper.make_node("Relu", ["x"], ["c"]), helper.make_node("Exp", ["c"], ["p"])]
    code, facts = verdict((clip, [X], [P], zero), (relu, [X], [P]))
    assert (code, facts["verdict"]) == (0, "equal"), facts


def test_an_output_that_is_said_to_have_one_size_is_no_open_one(verdict):
    def relu(rows):
        return [helper.make_node("Relu", ["x"], ["p"])], [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])], [
            helper.make_tensor_value_info("p", TensorProto.FLOAT, [rows, 3])]

    code, facts = verdict(relu("N"), relu(1))
    assert (code, facts["verdict"], facts["method"]) == (4, "different", "signature") and "output p" in facts["reason"], facts


def test_what_holds_at_one_size_only_is_different(verdict):
    x, p = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 3]) for name in "xp")
    one = numpy_helper.from_array(np.array([1, 3]), "one")
    relu, fixed = helper.make_node("Relu", ["x"], ["p"]), [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Reshape", ["r", "one"], ["p"])]
    code, facts = verdict(([relu], [x], [p]), (fixed, [x], [p], one))
    assert (code, facts["verdict"]) == (4, "different") and "at N = 5" in facts["reason"], facts
