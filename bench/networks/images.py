"""Classifiers of images and their blocks, by the names that they have in papers."""
from .layers import IMAGE_ACTIVATIONS, features, head, squeeze_excite


def shortcut(b, x, channels, stride):
    return x if stride == 1 and b.channels(x) == channels else b.conv_norm(x, channels, 1, stride, name="downsample")


def basic_block(b, x, channels, stride=1, excite=False):
    with b.scope("block"):
        y = b.conv_norm(b.conv_act(x, channels, 3, stride, name="conv1"), channels, 3, name="conv2")
        y = squeeze_excite(b, y, max(4, channels // 8)) if excite else y
        return b.act(b.add("Add", y, shortcut(b, x, channels, stride)))


def preactivated_block(b, x, channels, stride=1):
    with b.scope("block"):
        y = b.act(b.norm(x, name="norm1"))
        skip = x if stride == 1 and b.channels(x) == channels else b.conv(y, channels, 1, stride, bias=False, name="downsample")
        y = b.act(b.norm(b.conv(y, channels, 3, stride, bias=False, name="conv1"), name="norm2"))
        return b.add("Add", b.conv(y, channels, 3, bias=False, name="conv2"), skip)


def residual(b):
    b.style(*IMAGE_ACTIVATIONS)
    c, excite, before = b.choose(16, 24, 32, 48, 64, 96), b.chance(0.2), b.chance(0.2)
    x = features(b, c, 14, 16, 20, 28, 32, 40, 56)
    for i in range(b.int(2, 5)):
        stride = 2 if i and b.chance(0.3) else 1
        x = preactivated_block(b, x, c * stride, stride) if before else basic_block(b, x, c * stride, stride, excite)
        c *= stride
    return head(b, b.act(x) if before else x)


def bottleneck_block(b, x, channels, stride=1, groups=1, excite=False):
    with b.scope("block"):
        y = b.conv_act(x, channels, 1, name="conv1")
        y = b.conv_act(y, channels, 3, stride, groups=groups, name="conv2")
        y = b.conv_norm(y, 4 * channels if groups == 1 else 2 * channels, 1, name="conv3")
        y = squeeze_excite(b, y, channels // 4) if excite else y
        return b.act(b.add("Add", y, shortcut(b, x, b.channels(y), stride)))


def bottleneck(b):
    """ResNet's, and with groups ResNeXt's."""
    b.style(*IMAGE_ACTIVATIONS)
    groups, excite = b.choose(1, 1, 4, 8, 32), b.chance(0.25)
    c = b.choose(64, 128) if groups > 1 else b.choose(16, 32, 48, 64)
    x = features(b, b.choose(c, 2 * c), 14, 16, 20, 28, 32)
    for i in range(b.int(2, 4)):
        stride = 2 if i and b.chance(0.3) else 1
        c *= stride
        x = bottleneck_block(b, x, c, stride, groups, excite)
    return head(b, x)


def dense_block(b, x, layers, growth, narrow):
    """Every layer reads all before it: norm, activation, convolution, concatenation."""
    for _ in range(layers):
        with b.scope("layer"):
            y = b.act(b.norm(x, name="norm1"))
            if narrow:
                y = b.conv_act(y, 4 * growth, 1, name="conv1")
            x = b.add("Concat", x, b.conv(y, growth, 3, bias=False, name="conv2"), axis=1)
    return x


def dense(b):
    b.style("relu", "relu", "silu", "elu", "leaky_relu")
    growth, narrow = b.choose(12, 16, 24, 32), b.chance(0.5)
    x = features(b, 2 * growth, 14, 16, 28, 32, 40)
    blocks = b.int(1, 2)
    for i in range(blocks):
        with b.scope("dense"):
            x = dense_block(b, x, b.int(3, 6), growth, narrow)
        if i + 1 < blocks:
            with b.scope("transition"):
                x = b.conv(b.act(b.norm(x)), b.channels(x) // 2, 1, bias=False)
                x = b.add("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    return head(b, b.act(b.norm(x)))


def inverted_block(b, x, channels, stride=1, expand=4, kernel=3, excite=True, gate="sigmoid"):
    with b.scope("block"):
        wide = expand * b.channels(x)
        y = b.conv_act(x, wide, 1, name="expand.conv") if expand > 1 else x
        y = b.conv_act(y, wide, kernel, stride, groups=wide, name="depthwise.conv")
        y = squeeze_excite(b, y, max(8, b.channels(x) // 4), b.habit("excite", "relu", b.activation), gate) if excite else y
        y = b.conv_norm(y, channels, 1, name="project.conv")
        return b.add("Add", x, y) if stride == 1 and channels == b.channels(x) else y


def inverted_residual(b):
    """MobileNet's and EfficientNet's."""
    b.style("silu", "silu", "hardswish", "hardswish_spelled", "relu6", "relu")
    excite, gate = b.chance(0.75), b.choose("sigmoid", "hardsigmoid")
    c = b.choose(16, 24, 32, 40, 48)
    x = features(b, c, 14, 16, 28, 32, 40, 56)
    for _ in range(b.int(2, 5)):
        stride = b.choose(1, 1, 1, 2)
        c = c if stride == 1 else c + b.choose(0, 8, 16, 24)
        x = inverted_block(b, x, c, stride, b.choose(3, 4, 4, 6), b.choose(3, 3, 5), excite, gate)
    if b.chance(0.4):
        x = b.conv_act(x, 4 * c, 1, name="last.conv")
    return head(b, x)


def depthwise_separable(b):
    """MobileNet's first version, and Xception's with residuals."""
    b.style("relu", "relu6", "silu", "leaky_relu", "hardswish")
    c, skips, between = b.choose(16, 32, 48, 64, 96), b.chance(0.5), b.chance(0.6)
    x = features(b, c, 14, 16, 28, 32, 56)
    for _ in range(b.int(3, 6)):
        with b.scope("block"):
            before, stride = x, b.choose(1, 1, 1, 2)
            wide = c if stride == 1 else b.choose(c, 2 * c)
            y = b.conv_norm(x, c, b.choose(3, 3, 5), stride, groups=c, name="depthwise.conv")
            y = b.conv_norm(b.act(y) if between else y, wide, 1, name="pointwise.conv")
            x = b.act(b.add("Add", y, shortcut(b, before, wide, stride)) if skips else y)
            c = wide
    return head(b, x)


def shuffled(b, x, groups):
    n, c, h, w = b.shape(x)
    y = b.transpose(b.reshape(x, n, groups, c // groups, h, w), 0, 2, 1, 3, 4)
    return b.reshape(y, n, c, h, w)


def shuffle_block(b, x, channels, down):
    """The second version's: one half passes, the other is computed, and they are shuffled."""
    with b.scope("block"):
        left, right = (x, x) if down else b.split(x, 2, 1)
        half = channels // 2
        if down:
            left = b.conv_norm(left, b.channels(x), 3, 2, groups=b.channels(x), name="left.depthwise.conv")
            left = b.conv_act(left, half, 1, name="left.conv")
        right = b.conv_act(right, half, 1, name="right.conv1")
        right = b.conv_norm(right, half, 3, 2 if down else 1, groups=half, name="right.depthwise.conv")
        right = b.conv_act(right, half, 1, name="right.conv2")
        return shuffled(b, b.add("Concat", left, right, axis=1), 2)


def grouped_shuffle_block(b, x, groups):
    """The first version's: grouped 1x1 convolutions with a shuffle between them."""
    with b.scope("block"):
        c = b.channels(x)
        y = shuffled(b, b.conv_act(x, c // 2, 1, groups=groups, name="conv1"), groups)
        y = b.conv_norm(y, c // 2, 3, groups=c // 2, name="depthwise.conv")
        return b.act(b.add("Add", b.conv_norm(y, c, 1, groups=groups, name="conv2"), x))


def channel_shuffle(b):
    b.style("relu", "relu", "silu", "hardswish")
    grouped, c = b.chance(0.4), b.choose(48, 96, 120, 192)
    x = features(b, c, 14, 16, 28, 32, 40)
    for _ in range(b.int(3, 5)):
        if grouped:
            x = grouped_shuffle_block(b, x, b.choose(2, 3, 4))
            continue
        down = b.chance(0.2)
        c = 2 * c if down else c
        x = shuffle_block(b, x, c, down)
    return head(b, x)


def repvgg_block(b, x, channels, stride=1, branches=((3, 3), (1, 1)), identity=True):
    """Before merging: parallel convolutions, each with a batch norm, the identity with one of its own where sizes allow."""
    with b.scope("block"):
        made = [b.norm(b.conv(x, channels, k, stride, bias=False, name=f"branch{k[0]}x{k[1]}.conv"), name=f"branch{k[0]}x{k[1]}.norm") for k in branches]
        if identity and stride == 1 and b.channels(x) == channels:
            made.append(b.norm(x, name="identity.norm"))
        return b.act(b.sum(made))


def repvgg(b):
    """Branches that could be one convolution: RepVGG's, ACNet's with 1x3 and 3x1, MobileOne's with several of a size."""
    b.style("relu", "relu", "silu", "leaky_relu")
    branches = b.choose(((3, 3), (1, 1)), ((3, 3), (1, 1)), ((3, 3), (1, 3), (3, 1)), ((3, 3), (3, 3), (1, 1)), ((5, 5), (3, 3)))
    c, identity = b.choose(24, 32, 48, 64, 96), len(branches) < 3 or b.chance(0.5)
    x = features(b, c, 14, 16, 20, 28, 32, 40)
    for _ in range(b.int(2, 5)):
        stride = b.choose(1, 1, 1, 2)
        c = c if stride == 1 else b.choose(c, 2 * c)
        x = repvgg_block(b, x, c, stride, branches, identity)
    return head(b, x)


def inception_block(b, x, width, kind):
    with b.scope("block"):
        made = [b.conv_act(x, width, 1, name="one.conv")]
        y = b.conv_act(x, b.choose(width // 2, width), 1, name="reduce.conv")
        if kind == "factored":
            for i, kernel in enumerate(((1, 7), (7, 1))):
                y = b.conv_act(y, width, kernel, name=f"long.conv{i}")
            made.append(y)
            made.append(b.conv_act(b.conv_act(x, width // 2, 1, name="three.conv0"), width, 3, name="three.conv1"))
        elif kind == "fanned":
            made += [b.conv_act(y, width, kernel, name="fan.conv") for kernel in ((1, 3), (3, 1))]
        else:
            made.append(b.conv_act(y, width, 3, name="three.conv"))
            made.append(b.conv_act(b.conv_act(x, width // 2, 1, name="five.conv0"), width // 2, 5, name="five.conv1"))
        pooled = b.add(b.choose("AveragePool", "MaxPool"), x, name="pool", kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
        made.append(b.conv_act(pooled, width // 2, 1, name="pool.conv"))
        return b.add("Concat", *made, axis=1)


def inception(b):
    b.style("relu", "relu", "relu", "silu", "elu")
    width = b.choose(16, 24, 32, 48, 64)
    x = features(b, b.choose(32, 64, 96), 12, 14, 16, 17, 28)
    for _ in range(b.int(1, 3)):
        x = inception_block(b, x, width, b.choose("factored", "factored", "fanned", "plain"))
        if b.chance(0.25):
            x = b.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    return head(b, x)


def volumetric(b):
    """Clips and scans: 3-D convolutions, whole or cut into space and time."""
    b.style("relu", "relu", "leaky_relu", "silu")
    c, size, depth, cut = b.choose(8, 12, 16, 24, 32), b.choose(14, 16, 20, 28, 32), b.choose(4, 6, 8, 16), b.chance(0.4)

    def three(x, channels, stride, name):
        if not cut:
            return b.conv_norm(x, channels, 3, stride, name=name)
        y = b.conv_act(x, channels, (1, 3, 3), (1, stride, stride), name=f"{name}.space.conv")
        return b.conv_norm(y, channels, (3, 1, 1), (stride, 1, 1), name=f"{name}.time.conv")

    x = b.conv_act(b.input("clip", [b.choose(1, 3), depth, 2 * size, 2 * size]), c, (3, 7, 7) if b.chance(0.3) else 3, (1, 2, 2), name="stem.conv")
    for _ in range(b.int(1, 3)):
        with b.scope("block"):
            stride = b.choose(1, 1, 2)
            y = three(b.act(three(x, c * stride, stride, "conv1")), c * stride, 1, "conv2")
            x = b.act(b.add("Add", y, shortcut(b, x, c * stride, stride)))
            c *= stride
    if b.chance(0.4):
        x = b.add("MaxPool", x, kernel_shape=[2, 2, 2], strides=[2, 2, 2])
    return b.linear(b.add("Flatten", b.add("GlobalAveragePool", x), axis=1), b.choose(2, 10, 101), name="head")


KINDS = residual, bottleneck, dense, inverted_residual, depthwise_separable, channel_shuffle, repvgg, inception, volumetric
