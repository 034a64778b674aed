"""The networks of the zoo as PyTorch modules, whose state dicts name and shape the parameters as `emend zoo` does, so that a twin
of any model is one of TWINS with the weights of its file. Tests compare with them, benchmarks race against them."""
import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper
from torch import nn
from zoo_torch_images import CsrNet, InceptionV3, MobileNetV2, ResNet, ResNet3d18, SqueezeNet, Vgg19, csrnet_pet
from zoo_torch_nasnet import NasNetA, NasNetATensat
from zoo_torch_sequences import Bert, BertPet, BertTensat, LlamaBlock, NasRnn, VitB16


class Tour(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.fc = nn.Conv2d(2, 2, 1, bias=False), nn.BatchNorm2d(2), nn.Linear(2, 3)

    def forward(self, x):
        return self.fc(F.relu(self.bn(self.conv(x))).mean((2, 3)))


# At the size they are known for. Of stacks of equal layers there may be fewer.
TWINS = {
    "resnet18": lambda: ResNet([2, 2, 2, 2]),
    "resnet50": lambda: ResNet([3, 4, 6, 3], True),
    "resnext50": lambda: ResNet([3, 4, 6, 3], True, 32, 4),
    "resnet3d18": ResNet3d18,
    "vgg19": Vgg19,
    "csrnet": CsrNet,
    "csrnet_pet": csrnet_pet,
    "squeezenet": SqueezeNet,
    "inception_v3": InceptionV3,
    "mobilenet_v2": MobileNetV2,
    "nasnet_a": NasNetA,
    "nasnet_a_tensat": NasNetATensat,
    "nasrnn": NasRnn,
    "bert_base": lambda layers=12: Bert(768, 12, 3072, layers),
    "bert_large": lambda layers=24: Bert(1024, 16, 4096, layers),
    "bert_tensat": BertTensat,
    "bert_pet": BertPet,
    "vit_b16": lambda layers=12: VitB16(layers=layers),
    "llama_block": LlamaBlock,
    "tour": Tour,
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


def twin_of(name, model, **size):
    """With the weights of the file: every parameter of the twin comes from it, and every weight of it goes into the twin."""
    twin = TWINS[name](**size).eval()
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
    return twin
