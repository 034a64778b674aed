"""An internal error leaves a folder from which it can be seen again, without the files that were there."""
import json, os, subprocess

import onnx
import pytest


@pytest.mark.parametrize("weights", ["inside", "beside"])
def test_an_internal_error_can_be_replayed(emend, tmp_path, monkeypatch, weights):
    monkeypatch.setenv("EMEND_CACHE_DIR", str(tmp_path / "cache"))  # what was checked before is not checked again
    there = tmp_path / "there"
    (there / "models").mkdir(parents=True)
    model = there / "models" / "it's a model.onnx"
    emend("zoo", "tour", model)
    if weights == "beside":
        onnx.save(onnx.load(model), model, save_as_external_data=True, location="weights.bin", size_threshold=0)
    command = [emend.path, "optimize", f"models/{model.name}", there / "models" / "out.onnx", "--seed", "3", "--debug-fail", "check"]
    done = subprocess.run(command, cwd=there, capture_output=True, text=True)
    assert done.returncode == 1
    error = next(line for line in done.stderr.splitlines() if "internal error" in line)
    assert "--debug-fail" in error and not (there / "models" / "out.onnx").exists()

    (bundle,) = there.glob("emend-bug-*")
    assert f"sh {bundle}/replay.sh" in done.stderr
    facts = json.loads((bundle / "facts.json").read_text())
    assert facts["error"] in error and facts["arguments"][-4:] == ["--seed", "3", "--debug-fail", "check"]
    assert [(f["path"], f["copied"]) for f in facts["files"]] == [(str(model), True)]

    for file in (there / "models").iterdir():
        file.unlink()
    script = bundle / "replay.sh"
    again = subprocess.run(["sh", script], capture_output=True, text=True)
    assert again.returncode == 1 and error in again.stderr
    # Without the bug the copies are all that the command needs, and it writes nothing elsewhere.
    script.write_text(script.read_text().replace(" '--debug-fail' 'check'", ""))
    assert subprocess.run(["sh", script], capture_output=True).returncode == 0
    onnx.checker.check_model(str(bundle / "out.onnx"))
    assert os.listdir(there / "models") == []


def test_a_model_s_own_fault_leaves_no_bundle(emend, tmp_path):
    (tmp_path / "broken.onnx").write_bytes(b"\x08")
    done = subprocess.run([emend.path, "optimize", "broken.onnx"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 3 and "broken.onnx" in done.stderr
    assert os.listdir(tmp_path) == ["broken.onnx"]
