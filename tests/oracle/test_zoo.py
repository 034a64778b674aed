"""Every model of the zoo against the same network in PyTorch (zoo_torch.py), which gets its weights from the file by name.

Most run at the size they are known for. The largest run smaller, so that the whole file takes minutes on two cores: the transformers with
fewer layers and tokens, the video network with fewer and smaller frames, PET's BERT with fewer tokens. Layers are alike, so nothing that
is built goes unseen; the full sizes are held to their parameter counts in tests/unit/zoo_test.cpp.
"""
import numpy as np
import onnx
import pytest

torch = pytest.importorskip("torch")
import zoo_torch

# name: the size of the twin where it is not the whole, options of the command
MODELS = {
    "resnet18": ({}, []),
    "resnet50": ({}, []),
    "resnext50": ({}, []),
    "resnet3d18": ({}, ["--steps", 8, "--size", 56]),
    "vgg19": ({}, []),
    "csrnet": ({}, ["--size", 96]),
    "csrnet_pet": ({}, ["--batch", 2]),
    "squeezenet": ({}, []),
    "inception_v3": ({}, []),
    "mobilenet_v2": ({}, ["--batch", 2]),
    "nasnet_a": ({}, []),
    "nasnet_a_tensat": ({}, ["--size", 72]),
    "nasrnn": ({}, ["--batch", 3]),
    "bert_base": ({"layers": 3}, ["--layers", 3, "--seq", 40, "--batch", 2]),
    "bert_large": ({"layers": 2}, ["--layers", 2, "--seq", 16]),
    "bert_tensat": ({}, []),
    "bert_pet": ({}, ["--seq", 96]),
    "vit_b16": ({"layers": 4}, ["--layers", 4]),
    "llama_block": ({}, ["--seq", 48]),
    "tour": ({}, ["--batch", 2]),
}


@pytest.mark.parametrize("name", MODELS)
def test_agrees_with_pytorch(emend, tmp_path, name):
    size, options = MODELS[name]
    path = tmp_path / f"{name}.onnx"
    emend("zoo", name, path, "--seed", 7, *options)
    model = onnx.load(path)
    onnx.checker.check_model(str(path))

    inputs = zoo_torch.random_inputs(model, np.random.default_rng(1))
    command = ["run", path, "--target", "interp", "--save", tmp_path]
    for key, value in inputs.items():
        np.save(tmp_path / f"in_{key}.npy", value)
        command += ["--input", f"{key}:{tmp_path / f'in_{key}.npy'}"]
    emend(*command)

    twin = zoo_torch.twin_of(name, model, **size)
    with torch.no_grad():
        expected = twin(*(torch.from_numpy(v) for v in inputs.values()))
    expected = expected if isinstance(expected, tuple) else (expected,)
    assert len(expected) == len(model.graph.output)
    for output, want in zip(model.graph.output, expected):
        got, want = np.load(tmp_path / f"{output.name}.npy"), want.numpy()
        assert got.shape == want.shape
        error = np.abs(got - want).max() / np.abs(want).max()
        assert error < 1e-4, f"{output.name}: off by {error:.2e} of the largest value"
    path.unlink()  # hundreds of megabytes


def test_every_model_of_the_zoo_is_here(emend, tmp_path):
    import json

    emend("zoo", "--json", tmp_path / "zoo.json")
    listed = {m["name"] for m in json.loads((tmp_path / "zoo.json").read_text())["models"]}
    assert listed == set(MODELS) == set(zoo_torch.TWINS)


def test_what_cannot_be_built_is_refused(emend, tmp_path):
    for arguments in (["zoo", "resnet19", tmp_path / "x.onnx"], ["zoo", "resnet18", tmp_path / "x.onnx", "--seq", 4]):
        done = emend.run(*arguments)
        assert done.returncode != 0 and "emend:" in done.stderr
        assert not (tmp_path / "x.onnx").exists()
