"""Is a network one that computes something? It runs in onnxruntime on random inputs: nothing may be NaN or infinite, no output constant, or the same
for other inputs."""
import dataclasses, time

import numpy as np
import onnxruntime

IDS_BELOW = 100  # every table has as many rows


@dataclasses.dataclass
class Checked:
    nodes: int
    megabytes: float
    milliseconds: float
    largest: float
    faults: list


def drawn_inputs(session, seed):
    rng = np.random.default_rng(seed)
    draw = lambda i: rng.integers(0, IDS_BELOW, i.shape) if i.type == "tensor(int64)" else rng.standard_normal(i.shape).astype(np.float32)
    return {i.name: draw(i) for i in session.get_inputs()}


def faults_of(names, first, second):
    for name, a, b in zip(names, first, second):
        if not np.isfinite(a).all():
            yield f"{name} has a NaN or an infinity"
        elif np.array_equal(a, b):
            yield f"{name} is the same for other inputs"
        elif a.size > 1 and np.ptp(a) < 1e-5 * np.abs(a).max():
            yield f"{name} is constant"


def check(model, threads=2):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    content = model.SerializeToString()
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    first = session.run(names, drawn_inputs(session, 1))
    feeds = drawn_inputs(session, 2)
    start = time.perf_counter()
    second = session.run(names, feeds)
    spent = 1e3 * (time.perf_counter() - start)
    return Checked(len(model.graph.node), len(content) / (1 << 20), spent, max(np.abs(a).max() for a in first), list(faults_of(names, first, second)))
