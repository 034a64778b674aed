"""A large model is mapped, not copied: import takes under a second, and memory of at most 1.2 times the file."""
import subprocess, sys

import numpy as np
import pytest
from onnx import TensorProto, helper

LAYERS, WIDTH = 27, 2000  # 432 MB


def large_model(path, external):
    weights = []
    for i in range(LAYERS):
        t = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[WIDTH, WIDTH])
        if external:
            t.data_location = TensorProto.EXTERNAL
            for key, value in (("location", "weights.bin"), ("offset", i * WIDTH * WIDTH * 4), ("length", WIDTH * WIDTH * 4)):
                t.external_data.add(key=key, value=str(value))
        else:
            t.raw_data = np.full(WIDTH * WIDTH, i, np.float32).tobytes()
        weights.append(t)
    nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(LAYERS)]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", WIDTH]) for name in ("x0", f"x{LAYERS}"))
    model = helper.make_model(helper.make_graph(nodes, "large", [x], [y], weights), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    if external:
        with open(path.parent / "weights.bin", "wb") as data:
            data.truncate(LAYERS * WIDTH * WIDTH * 4)  # zeros that take no room


# A process of its own that is small itself: what a child inherits from its parent counts as the child's.
MEASURE = """
import resource, subprocess, sys, time
begin = time.monotonic()
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""


@pytest.mark.parametrize("external", [False, True])
def test_import_of_a_large_model(emend, tmp_path, external):
    path = tmp_path / "large.onnx"
    large_model(path, external)
    runs = []
    for _ in range(3):  # the machine may be busy
        command = [sys.executable, "-c", MEASURE, emend.path, "inspect", str(path)]
        runs.append([float(word) for word in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()])
    assert min(seconds for seconds, _ in runs) < 1
    assert max(memory for _, memory in runs) < 1.2 * LAYERS * WIDTH * WIDTH * 4
