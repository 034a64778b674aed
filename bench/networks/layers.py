"""Activations and norms, each in the nodes that exporters write; where several spellings are about, each is one of its own. And the parts that many
networks share: squeeze and excitation, a stem, a head."""
import math

ACTIVATIONS, NORMS = {}, {}

IMAGE_ACTIVATIONS = "relu", "relu", "silu", "hardswish", "leaky_relu", "mish", "gelu", "relu6", "hardswish_spelled", "elu"
TOKEN_ACTIVATIONS = "gelu", "gelu", "gelu_tanh", "quick_gelu", "silu", "relu", "squared_relu"


def activation(f):
    ACTIVATIONS[f.__name__] = f
    return f


def norm(f):
    NORMS[f.__name__] = f
    return f


for name, op, how in (("relu", "Relu", {}), ("sigmoid", "Sigmoid", {}), ("tanh", "Tanh", {}), ("leaky_relu", "LeakyRelu", {"alpha": 0.1}), ("elu", "Elu", {}),
                      ("softplus", "Softplus", {}), ("hardswish", "HardSwish", {}), ("hardsigmoid", "HardSigmoid", {"alpha": 1 / 6})):
    ACTIVATIONS[name] = lambda b, x, name=name, op=op, how=how: b.add(op, x, name=name, **how)


@activation
def relu6(b, x):
    return b.add("Clip", x, b.constant(0), b.constant(6), name="relu6")


@activation
def silu(b, x):
    return b.add("Mul", x, b.add("Sigmoid", x), name="silu")


@activation
def hardswish_spelled(b, x):
    shifted = b.add("Clip", b.add("Add", x, b.constant(3)), b.constant(0), b.constant(6))
    return b.add("Div", b.add("Mul", x, shifted), b.constant(6), name="hardswish")


@activation
def mish(b, x):
    return b.add("Mul", x, b.add("Tanh", b.add("Softplus", x)), name="mish")


@activation
def prelu(b, x):
    return b.add("PRelu", x, b.weight("prelu.slope", [b.channels(x)] + [1] * (len(b.shape(x)) - 2), 0.05, 0.25), name="prelu")


@activation
def gelu(b, x):
    grown = b.add("Add", b.add("Erf", b.add("Div", x, b.constant(math.sqrt(2)))), b.constant(1))
    return b.add("Mul", b.add("Mul", x, grown), b.constant(0.5), name="gelu")


@activation
def gelu_tanh(b, x):
    cubed = b.add("Mul", b.add("Pow", x, b.constant(3)), b.constant(0.044715))
    grown = b.add("Add", b.add("Tanh", b.add("Mul", b.add("Add", x, cubed), b.constant(math.sqrt(2 / math.pi)))), b.constant(1))
    return b.add("Mul", b.add("Mul", x, b.constant(0.5)), grown, name="gelu")


@activation
def quick_gelu(b, x):
    return b.add("Mul", x, b.add("Sigmoid", b.add("Mul", x, b.constant(1.702))), name="quick_gelu")


@activation
def squared_relu(b, x):
    kept = b.add("Relu", x)
    return b.add("Mul", kept, kept, name="squared_relu")


def scale_and_shift(b, x, shape, name, shifted=True):
    y = b.add("Mul", x, b.weight(f"{name}.weight", shape, 0.15, 1), name=f"{name}.scaled" if shifted else name)
    return b.add("Add", y, b.weight(f"{name}.bias", shape, 0.1), name=name) if shifted else y


@norm
def batch(b, x, name):
    c = [b.channels(x)]
    drawn = ("weight", 0.15, 1), ("bias", 0.1, 0), ("mean", 0.1, 0), ("var", 0.25, 1)
    given = (b.weight(f"{name}.{key}", c, scale, around) for key, scale, around in drawn)
    return b.add("BatchNormalization", x, *given, name=name, epsilon=1e-5)


@norm
def instance(b, x, name):
    c = [b.channels(x)]
    return b.add("InstanceNormalization", x, b.weight(f"{name}.weight", c, 0.15, 1), b.weight(f"{name}.bias", c, 0.1), name=name, epsilon=1e-5)


@norm
def group(b, x, name):
    """As PyTorch writes it: groups beside the batch, an InstanceNormalization of ones and zeros, and the scale behind it."""
    shape = b.shape(x)
    groups = next(g for g in (8, 4, 2, 1) if shape[1] % g == 0)
    y = b.reshape(x, 0, groups, -1)
    y = b.add("InstanceNormalization", y, b.constant([1] * groups), b.constant([0] * groups), name=f"{name}.instance", epsilon=1e-5)
    return scale_and_shift(b, b.reshape(y, *shape), [shape[1]] + [1] * (len(shape) - 2), name)


@norm
def group_spelled(b, x, name):
    shape = b.shape(x)
    groups = next(g for g in (8, 4, 2, 1) if shape[1] % g == 0)
    y = b.reshape(standardized(b, b.reshape(x, shape[0], groups, -1), -1), *shape)
    return scale_and_shift(b, y, [shape[1]] + [1] * (len(shape) - 2), name)


def standardized(b, x, *axes):
    centered = b.add("Sub", x, b.mean(x, *axes))
    variance = b.mean(b.add("Pow", centered, b.constant(2)), *axes)
    return b.add("Div", centered, b.add("Sqrt", b.add("Add", variance, b.constant(1e-5))))


@norm
def layer(b, x, name):
    c = [b.width(x)]
    return b.add("LayerNormalization", x, b.weight(f"{name}.weight", c, 0.15, 1), b.weight(f"{name}.bias", c, 0.1), name=name, axis=-1, epsilon=1e-5)


@norm
def layer_spelled(b, x, name):
    return scale_and_shift(b, standardized(b, x, -1), [b.width(x)], name)


@norm
def rms(b, x, name):
    spread = b.add("Sqrt", b.add("Add", b.mean(b.add("Pow", x, b.constant(2)), -1), b.constant(1e-6)))
    y = b.add("Mul", x, b.add("Reciprocal", spread)) if b.habit("rms", "mul", "div") == "mul" else b.add("Div", x, spread)
    return scale_and_shift(b, y, [b.width(x)], name, shifted=False)


@norm
def channel_layer(b, x, name):
    """The layer norm of an image's channels, between two transposes."""
    return b.transpose(layer(b, b.transpose(x, 0, 2, 3, 1), name), 0, 3, 1, 2)


@norm
def channel_rms(b, x, name):
    spread = b.add("Sqrt", b.add("Add", b.mean(b.add("Mul", x, x), 1), b.constant(1e-6)))
    return scale_and_shift(b, b.add("Div", x, spread), [b.channels(x), 1, 1], name, shifted=False)


def global_pool(b, x):
    return b.add("GlobalAveragePool", x, name="pool") if b.habit("pool", "op", "op", "mean") == "op" else b.mean(x, *range(2, len(b.shape(x))))


def squeeze_excite(b, x, reduced, act="relu", gate="sigmoid"):
    with b.scope("se"):
        y = b.act(b.conv(global_pool(b, x), reduced, 1, name="reduce"), act)
        return b.add("Mul", x, b.act(b.conv(y, b.channels(x), 1, name="expand"), gate), name="scaled")


def features(b, channels, *sizes):
    """What the blocks stand on: some networks begin at an image, some in the middle of a larger one."""
    size, beginning = b.choose(*sizes), b.choose("middle", "image", "pooled")
    if beginning == "middle":
        return b.input("features", [channels, size, size])
    if beginning == "image" or channels > 96:
        return b.conv_act(b.input("image", [3, 2 * size, 2 * size]), channels, b.choose(3, 3, 5, 7), 2, name="stem.conv")
    x = b.conv_act(b.input("image", [3, 4 * size, 4 * size]), channels, b.choose(3, 7), 2, name="stem.conv")
    return b.add("MaxPool", x, name="stem.pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])


def head(b, x):
    """Classes, a map of them, or the features themselves."""
    kind = b.choose("classes", "classes", "map", "features")
    if kind == "classes":
        return b.linear(b.add("Flatten", global_pool(b, x), axis=1), b.choose(10, 100, 200), name="head")
    return b.conv(x, b.choose(1, 8, 19, 21), 1, name="head") if kind == "map" else x
