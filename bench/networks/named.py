"""Fixed networks: what issues and tests speak of by name. Nothing here is drawn but the weights."""
from . import images, maps, modern


def plain(b, activation, folded=False):
    """The style that is drawn elsewhere, and the usual spelling of what has several."""
    b.activation, b.folded = activation, folded
    b.habits = {"sum": "chain", "pool": "op", "excite": activation}


def dilated(b):
    """Strided and dilated 3x3 convolutions with SiLU, 256 channels at 32x32, dilations 2, 3 and 6, some of them parallel."""
    plain(b, "silu", folded=True)
    x = maps.dilated_block(b, b.input("features", [128, 64, 64]), 256, 1, stride=2)
    for dilation in (2, 3, 6):
        x = maps.dilated_block(b, x, 256, dilation)
    return maps.dilated_parallel(b, x, 256, (2, 3, 6), "sum")


def split_attention(b):
    plain(b, "relu", folded=True)
    x = b.input("features", [128, 28, 28])
    for _ in range(3):
        x = modern.split_attention_block(b, x, 64)
    return x


def repvgg(b):
    plain(b, "relu")
    x = b.input("features", [64, 56, 56])
    for channels, stride in ((64, 1), (64, 1), (128, 2), (128, 1)):
        x = images.repvgg_block(b, x, channels, stride)
    return x


def convnext_v2(b):
    plain(b, "gelu")
    x = b.input("features", [80, 28, 28])
    for _ in range(3):
        x = modern.convnext_block(b, x)
    return x


def inverted_residual(b):
    plain(b, "silu", folded=True)
    x = b.conv_act(b.input("image", [3, 112, 112]), 32, 3, 2, name="stem.conv")
    for channels, stride, expand, kernel in ((16, 1, 1, 3), (24, 2, 6, 3), (24, 1, 6, 3), (40, 2, 6, 5), (40, 1, 6, 5)):
        x = images.inverted_block(b, x, channels, stride, expand, kernel)
    return b.linear(b.add("Flatten", b.add("GlobalAveragePool", x), axis=1), 100, name="head")


def focal(b):
    plain(b, "gelu")
    x = b.conv(b.input("image", [3, 112, 112]), 96, 4, 4, pads=[0, 0, 0, 0], name="patches")
    x = b.transpose(x, 0, 2, 3, 1)
    for _ in range(2):
        x = modern.focal_block(b, x)
    return b.linear(b.mean(b.normed(x), 1, 2, keep=False), 100, name="head")


NETWORKS = dilated, split_attention, repvgg, convnext_v2, inverted_residual, focal
