"""Every model of the zoo against the same network in PyTorch (zoo_torch.py), which gets its weights from the file by name.

Most run at the size they are known for. The largest run smaller, so that the whole file takes minutes on two cores: the transformers with
fewer layers and tokens, the video network with fewer and smaller frames, PET's BERT with fewer tokens. Layers are alike, so nothing that
is built goes unseen; the full sizes are held to their parameter counts in tests/unit/zoo_test.cpp.
"""
import numpy as np
import onnx
import pytest
import zoo_torch as z
from onnx import numpy_helper

torch = pytest.importorskip("torch")

# name: how to make the twin, options of the command
MODELS = {
    "resnet18": (lambda: z.ResNet([2, 2, 2, 2]), []),
    "resnet50": (lambda: z.ResNet([3, 4, 6, 3], True), []),
    "resnext50": (lambda: z.ResNet([3, 4, 6, 3], True, 32, 4), []),
    "resnet3d18": (z.ResNet3d18, ["--steps", 8, "--size", 56]),
    "vgg19": (z.Vgg19, []),
    "csrnet": (z.CsrNet, ["--size", 96]),
    "csrnet_pet": (z.csrnet_pet, ["--batch", 2]),
    "squeezenet": (z.SqueezeNet, []),
    "inception_v3": (z.InceptionV3, []),
    "mobilenet_v2": (z.MobileNetV2, ["--batch", 2]),
    "nasnet_a": (z.NasNetA, []),
    "nasnet_a_tensat": (z.NasNetATensat, ["--size", 72]),
    "nasrnn": (z.NasRnn, ["--batch", 3]),
    "bert_base": (lambda: z.Bert(768, 12, 3072, 3), ["--layers", 3, "--seq", 40, "--batch", 2]),
    "bert_large": (lambda: z.Bert(1024, 16, 4096, 2), ["--layers", 2, "--seq", 16]),
    "bert_tensat": (z.BertTensat, []),
    "bert_pet": (lambda: z.BertPet(12), ["--seq", 96]),
    "vit_b16": (lambda: z.VitB16(layers=4), ["--layers", 4]),
    "llama_block": (z.LlamaBlock, ["--seq", 48]),
    "tour": (z.Tour, ["--batch", 2]),
}

# What the graph needs and PyTorch computes for itself.
COMPUTED = {"embeddings.position_ids", "rotary_emb.cos", "rotary_emb.sin", "causal_mask"}


def random_inputs(model, rng):
    inputs = {}
    for v in model.graph.input:
        shape = [d.dim_value for d in v.type.tensor_type.shape.dim]
        if v.name == "attention_mask":
            inputs[v.name] = (np.arange(shape[1]) < rng.integers(shape[1] // 2, shape[1] + 1, (shape[0], 1))).astype(np.int64)
        elif v.type.tensor_type.elem_type == onnx.TensorProto.INT64:
            inputs[v.name] = rng.integers(0, 2 if v.name == "token_type_ids" else 30522, shape)
        else:
            inputs[v.name] = rng.standard_normal(shape, dtype=np.float32)
    return inputs


def give_weights(twin, model):
    """Every parameter of the twin comes from the file, and every weight of the file goes into the twin."""
    arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    state = {k: v for k, v in twin.state_dict().items() if not k.endswith("num_batches_tracked")}
    missing = sorted(set(state) - set(arrays))
    assert not missing, f"not in the file: {missing[:5]}"
    # Numbers and shape operands aside, which the writer adds.
    unused = [k for k, v in arrays.items() if k not in state and v.dtype == np.float32 and v.ndim > 0 and k not in COMPUTED]
    assert not unused, f"not in the twin: {unused[:5]}"
    with torch.no_grad():
        for name, tensor in state.items():
            assert tuple(tensor.shape) == arrays[name].shape, name
            tensor.copy_(torch.from_numpy(arrays[name].copy()))


@pytest.mark.parametrize("name", MODELS)
def test_agrees_with_pytorch(emend, tmp_path, name):
    make, options = MODELS[name]
    path = tmp_path / f"{name}.onnx"
    emend("zoo", name, path, "--seed", 7, *options)
    model = onnx.load(path)
    onnx.checker.check_model(str(path))

    inputs = random_inputs(model, np.random.default_rng(1))
    command = ["run", path, "--target", "interp", "--save", tmp_path]
    for key, value in inputs.items():
        np.save(tmp_path / f"in_{key}.npy", value)
        command += ["--input", f"{key}:{tmp_path / f'in_{key}.npy'}"]
    emend(*command)

    twin = make().eval()
    give_weights(twin, model)
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
    assert listed == set(MODELS)


def test_what_cannot_be_built_is_refused(emend, tmp_path):
    for arguments in (["zoo", "resnet19", tmp_path / "x.onnx"], ["zoo", "resnet18", tmp_path / "x.onnx", "--seq", 4]):
        done = emend.run(*arguments)
        assert done.returncode != 0 and "emend:" in done.stderr
        assert not (tmp_path / "x.onnx").exists()
