"""Every model of the zoo at a size that tests can afford: fewer of the equal layers, fewer tokens, smaller images. The structure
does not depend on what is left out."""

OPTIONS = {
    "resnet18": ["--size", 64],
    "resnet50": ["--size", 64],
    "resnext50": ["--size", 64],
    "resnet3d18": ["--steps", 4, "--size", 32],
    "vgg19": ["--size", 64],
    "csrnet": ["--size", 96],
    "csrnet_pet": [],
    "squeezenet": [],
    "inception_v3": ["--size", 139],
    "mobilenet_v2": [],
    "nasnet_a": [],
    "nasnet_a_tensat": ["--size", 32],
    "nasrnn": [],
    "bert_base": ["--layers", 2, "--seq", 48],
    "bert_large": ["--layers", 2, "--seq", 16],
    "bert_tensat": ["--layers", 2],
    "bert_pet": ["--layers", 2],
    "vit_b16": ["--layers", 2],
    "llama_block": ["--seq", 16],
    "tour": [],
}


def write(emend, name, path):
    emend("zoo", name, path, *OPTIONS[name])
    return path
