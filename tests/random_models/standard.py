"""A model's outputs by the standard's own evaluator; recurrent layers, of which it knows one direction only, and GlobalLpPool, which it lacks, are
computed here, in double precision."""
import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun


def outputs_of(model, values, otherwise):
    """One by one: what the evaluator does not know is `otherwise`, and hides no other output."""
    outputs = []
    for output, other in zip(model.graph.output, otherwise):
        try:
            with np.errstate(all="ignore"):
                [value] = ReferenceEvaluator(up_to(model, output), new_ops=[GRU, LSTM, RNN, GlobalLpPool]).run(None, values)
            outputs.append(np.asarray(value))
        except Exception:
            outputs.append(other)
    return outputs


def up_to(model, output):
    """The model with what this output needs."""
    needed, nodes = {output.name}, []
    for node in reversed(model.graph.node):
        if needed & set(node.output):
            nodes.insert(0, node)
            needed |= set(node.input) | {i for a in node.attribute for n in a.g.node for i in n.input}
    small = onnx.ModelProto()
    small.CopyFrom(model)
    small.graph.ClearField("node")
    small.graph.ClearField("output")
    small.graph.node.extend(nodes)
    small.graph.output.append(output)
    return small


def sigmoid(v):
    return np.exp(np.minimum(v, 0)) / (1 + np.exp(-np.abs(v)))


def gru(x, states, w, r, bw, br, linear):
    [h] = states
    (xz, xr, xn), (hz, hr, hn) = np.split(x @ w.T + bw, 3), np.split(h @ r.T + br, 3)
    z, reset = sigmoid(xz + hz), sigmoid(xr + hr)
    n = np.tanh(xn + (reset * hn if linear else (reset * h) @ np.split(r, 3)[2].T + np.split(br, 3)[2]))
    return [(1 - z) * n + z * h]


def lstm(x, states, w, r, bw, br, linear):
    h, c = states
    i, o, f, n = np.split(x @ w.T + bw + h @ r.T + br, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(n)
    return [sigmoid(o) * np.tanh(c), c]


def rnn(x, states, w, r, bw, br, linear):
    return [np.tanh(x @ w.T + bw + states[0] @ r.T + br)]


def layer(step, count, given, direction, linear):
    """Y and the last states: [steps, directions, batch, size] and [directions, batch, size]; the functions are the default ones."""
    x, w, r, b, lengths, *first = [None if v is None else np.asarray(v, np.float64) for v in [*given, *[None] * 6][: 5 + count]]
    (steps, batch, _), (directions, _, size) = x.shape, r.shape
    b = np.zeros((directions, 2 * r.shape[1])) if b is None else b
    first = [np.zeros((directions, batch, size)) if s is None else s for s in first]
    y, last = np.zeros((steps, directions, batch, size)), [s.copy() for s in first]
    for d in range(directions):
        for n in range(batch):
            times = range(steps if lengths is None else int(lengths[n]))
            states = [s[d, n] for s in first]
            for t in reversed(times) if d == 1 or direction == "reverse" else times:
                states = step(x[t, n], states, w[d], r[d], *np.split(b[d], 2), linear)
                y[t, d, n] = states[0]
            for s, state in zip(last, states):
                s[d, n] = state
    return tuple(v.astype(np.asarray(given[0]).dtype) for v in (y, *last))


def attribute(op, name, default):
    value = next((onnx.helper.get_attribute_value(a) for a in op.onnx_node.attribute if a.name == name), default)
    return value.decode() if isinstance(value, bytes) else value


def recurrent(op, step, count, given):
    known = {"direction", "hidden_size", "linear_before_reset"}
    others = {a.name for a in op.onnx_node.attribute} - known
    if others or len(given) > 5 + count:
        raise NotImplementedError(f"{op.onnx_node.op_type} with {others}")
    return layer(step, count, given, attribute(op, "direction", "forward"), attribute(op, "linear_before_reset", 0))[: len(op.onnx_node.output)]


class GRU(OpRun):
    op_domain = ""

    def _run(self, *given, **_):
        return recurrent(self, gru, 1, given)


class LSTM(OpRun):
    op_domain = ""

    def _run(self, *given, **_):
        return recurrent(self, lstm, 2, given)


class RNN(OpRun):
    op_domain = ""

    def _run(self, *given, **_):
        return recurrent(self, rnn, 1, given)


class GlobalLpPool(OpRun):
    op_domain = ""

    def _run(self, x, **_):
        p, axes = attribute(self, "p", 2), tuple(range(2, x.ndim))
        return ((np.abs(x.astype(np.float64)) ** p).sum(axes, keepdims=True) ** (1 / p)).astype(x.dtype),
