"""The nine light CNNs, refilled, agree with onnxruntime to 1e-4 relative to the largest output."""
import subprocess

import numpy as np
import onnx
import onnxruntime
import pytest

import cases
import light_models


@pytest.mark.parametrize("name", light_models.NAMES)
def test_agrees_with_onnxruntime(name, tmp_path):
    model, input_name, data = light_models.refilled(name, seed=11)
    onnx.save(model, tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", data)
    expected = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(
        None, {input_name: data})[0]
    subprocess.run([cases.EMEND, "run", str(tmp_path / "model.onnx"), "--input", f"{input_name}:{tmp_path / 'x.npy'}",
                    "--save", str(tmp_path / "out")], check=True, capture_output=True)
    (path,) = (tmp_path / "out").rglob("*.npy")
    got = np.load(path)
    assert got.shape == expected.shape
    assert np.abs(got - expected).max() <= 1e-4 * np.abs(expected).max()
