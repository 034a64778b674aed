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


def measured(emend, *args, times=3):
    """Seconds and bytes of each run; several, since the machine may be busy."""
    command = [sys.executable, "-c", MEASURE, emend.path, *map(str, args)]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() for _ in range(times)]
    return [(float(seconds), float(memory)) for seconds, memory in runs]


@pytest.mark.parametrize("external", [False, True])
def test_import_of_a_large_model(emend, tmp_path, external):
    path = tmp_path / "large.onnx"
    large_model(path, external)
    runs = measured(emend, "inspect", path)
    assert min(seconds for seconds, _ in runs) < 1
    assert max(memory for _, memory in runs) < 1.2 * LAYERS * WIDTH * WIDTH * 4


def test_writing_and_checking_a_large_model_holds_it_once(emend, tmp_path):
    path, out = tmp_path / "large.onnx", tmp_path / "out.onnx"
    large_model(path, False)
    size = path.stat().st_size
    assert measured(emend, "optimize", "-O0", path, out, times=1)[0][1] < 1.2 * size
    assert out.stat().st_size >= LAYERS * WIDTH * WIDTH * 4
    out.unlink()
    # The check holds weights in double precision too, but never all of them.
    assert measured(emend, "optimize", "-O1", path, times=1)[0][1] < 1.5 * size
