"""RNN, GRU and LSTM with every option against onnxruntime: direction, lengths, initial states, biases, peepholes, clip, lists of
activations, layout (onnxruntime has only the first: for the other, operands and results are transposed)."""
import itertools

import numpy as np
import pytest
from onnx import TensorProto, helper

import cases

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
ACTIVATIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}
STEPS, BATCH, INPUT, HIDDEN = 5, 3, 4, 2
# Names, then how many alphas and betas each takes.
FUNCTIONS = [("Tanh", 0, 0), ("Sigmoid", 0, 0), ("Relu", 0, 0), ("Softsign", 0, 0), ("Softplus", 0, 0), ("LeakyRelu", 1, 0),
             ("ThresholdedRelu", 1, 0), ("Elu", 1, 0), ("HardSigmoid", 1, 1), ("ScaledTanh", 1, 1), ("Affine", 1, 1)]


def options(op):
    """Pairwise different ways to use the operator; every option appears with and without its neighbours."""
    for k, (direction, biased, lengths, states) in enumerate(itertools.product(
            ["forward", "reverse", "bidirectional"], [False, True], [False, True], [False, True])):
        yield {"direction": direction, "biased": biased, "lengths": lengths, "states": states, "clip": k % 5 == 1,
               "peepholes": op == "LSTM" and k % 3 == 0, "input_forget": op == "LSTM" and k % 7 == 2,
               "linear_before_reset": op == "GRU" and k % 2 == 1, "activations": k % 4 == 3, "layout": k % 3 == 1}


def model_and_feeds(op, o, rng):
    dirs, gates = 2 if o["direction"] == "bidirectional" else 1, GATES[op]
    feeds = {"x": rng.normal(size=(STEPS, BATCH, INPUT)), "w": rng.normal(size=(dirs, gates * HIDDEN, INPUT)),
             "r": rng.normal(size=(dirs, gates * HIDDEN, HIDDEN)),
             "b": rng.normal(size=(dirs, 2 * gates * HIDDEN)) if o["biased"] else None,
             "lengths": np.array([STEPS, 2, 3]) if o["lengths"] else None,
             "h": rng.normal(size=(dirs, BATCH, HIDDEN)) if o["states"] else None}
    if op == "LSTM":
        feeds["c"] = rng.normal(size=(dirs, BATCH, HIDDEN)) if o["states"] else None
        feeds["p"] = rng.normal(size=(dirs, 3 * HIDDEN)) if o["peepholes"] else None
    feeds = {n: None if v is None else v.astype(np.int32 if n == "lengths" else np.float32) for n, v in feeds.items()}
    attributes = {"hidden_size": HIDDEN, "direction": o["direction"]}
    if o["clip"]:
        attributes["clip"] = 0.6
    for flag in ("input_forget", "linear_before_reset"):
        if o[flag]:
            attributes[flag] = 1
    if o["activations"]:
        chosen = [FUNCTIONS[i] for i in rng.integers(0, len(FUNCTIONS), ACTIVATIONS[op] * dirs)]
        attributes["activations"] = [f[0] for f in chosen]
        for name, column in (("activation_alpha", 1), ("activation_beta", 2)):
            numbers = [float(np.float32(rng.uniform(0.2, 0.9))) for f in chosen if f[column]]
            if numbers:
                attributes[name] = numbers
    names = [n if v is not None else "" for n, v in feeds.items()]
    while not names[-1]:
        names.pop()
    given = {n: v for n, v in feeds.items() if v is not None}
    outputs = ["y", "y_h", "y_c"] if op == "LSTM" else ["y", "y_h"]

    def model(layout, feeds):
        extra = {"layout": 1} if layout else {}
        node = helper.make_node(op, names, outputs, **attributes, **extra)
        types = {n: (TensorProto.INT32 if n == "lengths" else TensorProto.FLOAT, v.shape) for n, v in feeds.items()}
        return cases.model_of([node], types, outputs, 14)

    return model, given


@pytest.mark.parametrize("op", list(GATES))
def test_recurrent(op, tmp_path):
    rng = np.random.default_rng(2)
    for k, o in enumerate(options(op)):
        model, feeds = model_and_feeds(op, o, rng)
        results = cases.in_onnxruntime(model(0, feeds), feeds)
        assert results is not None, (op, o)
        if o["layout"]:
            feeds = {n: v.swapaxes(0, 1) if n in ("x", "h", "c") else v for n, v in feeds.items()}
            results = [results[0].transpose(2, 0, 1, 3)] + [r.swapaxes(0, 1) for r in results[1:]]
        name = f"{op}_{k}_" + "_".join(n if v is True else str(v) for n, v in o.items() if v)
        cases.write_case(tmp_path / name, model(o["layout"], feeds), feeds, results, 1e-5, 1e-5)
    failed, lines, done = cases.failures(tmp_path)
    assert len(lines) >= k + 1, done.stderr
    assert not failed, "\n".join(failed)
