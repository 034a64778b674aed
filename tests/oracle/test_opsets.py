"""--target-opset: what is written at an older opset is valid there, or is refused with the lowest opset that will do."""
import pathlib, re, subprocess, sys

import onnx
import pytest

ROOT = pathlib.Path(__file__).parents[2]
OPSET = 17


def is_valid(model):
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception:  # whatever it finds
        return False
    return True


# Many types, among them those that came late; two operators that learned a type late; one that did not exist.
@pytest.mark.parametrize("cases", ["test_cast_*", "test_castlike_*", "test_equal*", "test_isinf*", "test_quantizelinear*", "test_bitwise*"])
def test_an_older_opset_holds_the_model_or_refuses_it(emend, onnx_data, tmp_path, cases):
    out = tmp_path / "out.onnx"
    written, refused = [], []

    def write(folder, opset):
        out.unlink(missing_ok=True)
        return emend.run("optimize", "-O0", "-q", folder / "model.onnx", out, "--target-opset", opset)

    for folder in sorted((onnx_data / "node").glob(cases)):
        if not is_valid(onnx.load(folder / "model.onnx")):
            continue
        done = write(folder, OPSET)
        if done.returncode == 0:
            assert is_valid(onnx.load(out)), folder.name
            written.append(folder)
            continue
        assert done.returncode == 3 and not out.exists(), (folder.name, done.stderr)
        refused.append((folder, int(re.search(r"lowest opset .* is (\d+)$", done.stderr.strip()).group(1))))
    assert refused, "these cases are here to be refused"
    for folder, lowest in refused[::7]:  # each takes two more runs
        assert write(folder, lowest).returncode == 0 and is_valid(onnx.load(out)), folder.name
        assert lowest == OPSET + 1 or write(folder, lowest - 1).returncode == 3, folder.name


def test_a_refusal_names_node_type_and_opset(emend, onnx_data):
    done = emend.run("optimize", "-O0", onnx_data / "node/test_cast_FLOAT_to_INT4/model.onnx", "--target-opset", 17)
    assert done.returncode == 3
    for part in ('node "output"', "Cast", "i4", "opset 17", "lowest opset from there on that can hold the model is 21"):
        assert part in done.stderr


def test_the_table_of_types_is_current():
    printed = subprocess.run([sys.executable, ROOT / "tools/onnx_types.py"], capture_output=True, text=True, check=True).stdout
    assert printed == (ROOT / "src/export/onnx_types.inc").read_text()
