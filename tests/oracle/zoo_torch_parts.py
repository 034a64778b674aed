"""What the networks of the zoo share in PyTorch."""
import torch
from torch import nn


def seq(**named):
    """A container whose members have these names; order is the order of application."""
    box = nn.Sequential()
    for name, module in named.items():
        box.add_module(name.lstrip("_"), module)
    return box


def weights(*shape):
    return nn.Parameter(torch.empty(*shape))
