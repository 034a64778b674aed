"""Networks that answer for every place of an image: pyramids, U-shapes, several resolutions at once, larger images, codes."""
from .images import basic_block, shortcut
from .layers import IMAGE_ACTIVATIONS, features, global_pool, squeeze_excite


def dilated_block(b, x, channels, dilation, stride=1, skip=False):
    y = b.conv_act(x, channels, 3, stride, dilation=dilation, name=f"conv_d{dilation}")
    return b.add("Add", x, y) if skip else y


def dilated_parallel(b, x, channels, dilations, joined):
    """The same features seen at several reaches, summed or side by side."""
    with b.scope("parallel"):
        made = [b.conv_act(x, channels, 3, dilation=d, name=f"conv_d{d}") for d in dilations]
        return b.sum(made) if joined == "sum" else b.add("Concat", *made, axis=1)


def dilated_pyramid(b):
    """Strided and dilated 3x3 convolutions, some of them parallel."""
    b.style("silu", "silu", "relu", "leaky_relu", "mish", "gelu")
    b.image_norm, b.folded = "batch", b.chance(0.75)  # most are written without norms
    c, size = b.choose(32, 48, 64, 96, 128, 192, 256), b.choose(14, 16, 20, 24, 28, 32, 40)
    reaches = b.choose((2, 3, 6), (2, 3, 6), (1, 2, 4), (2, 4, 8), (1, 2, 5), (2, 3), (3, 6))
    x = b.input("features", [c, size, size])
    if b.chance(0.5):
        x = b.conv_act(x, c, 3, 2 if size >= 28 else 1, name="stem.conv")
    for _ in range(b.int(1, 3)):
        shape = b.choose("sum", "sum", "concat", "chain", "chain")
        if shape == "sum":
            x = dilated_parallel(b, x, c, reaches, "sum")
        elif shape == "concat":
            x = b.conv_act(dilated_parallel(b, x, c // 2, reaches, "concat"), c, 1, name="join.conv")
        else:
            skip = b.chance(0.3)
            for dilation in reaches[: b.int(1, len(reaches))]:
                x = dilated_block(b, x, c, dilation, skip=skip)
    return b.conv(x, b.choose(1, 19, c), b.choose(1, 3), name="head") if b.chance(0.5) else x


def aspp(b):
    """Atrous spatial pyramid pooling: reaches side by side with what the whole image says."""
    b.style("relu", "relu", "silu", "leaky_relu")
    c, width, size = b.choose(64, 96, 128, 192, 256), b.choose(32, 48, 64, 96, 128), b.choose(16, 20, 28, 32, 33)
    x = b.input("features", [c, size, size])
    if b.chance(0.5):
        x = basic_block(b, x, c)
    with b.scope("aspp"):
        made = [b.conv_act(x, width, 1, name="one.conv")]
        made += [b.conv_act(x, width, 3, dilation=d, name=f"reach{d}.conv") for d in b.choose((2, 4, 6), (3, 6, 9), (6, 12), (6, 12, 18))]
        pooled = b.conv_act(global_pool(b, x), width, 1, name="pool.conv")
        if b.chance(0.5):
            pooled = b.add("Expand", pooled, b.whole(b.batch, width, size, size))
        else:
            pooled = b.add("Resize", pooled, "", "", b.whole(b.batch, width, size, size), mode="linear", coordinate_transformation_mode="half_pixel")
        x = b.conv_act(b.add("Concat", *made, pooled, axis=1), width, 1, name="join.conv")
    classes = b.choose(1, 8, 19, 21)
    if b.chance(0.4):
        low = b.conv_act(b.input("low", [32, 2 * size, 2 * size]), 24, 1, name="low.conv")
        x = b.conv_act(b.add("Concat", b.resize(x, 2, "linear"), low, axis=1), width, 3, name="decode.conv")
        return b.conv(x, classes, 1, name="head")
    x = b.conv(b.conv_act(x, width, 3, name="decode.conv"), classes, 1, name="head")
    return b.resize(x, 2, "linear") if b.chance(0.4) else x


def u_block(b, x, channels, count):
    for _ in range(count):
        x = b.conv_act(x, channels, 3)
    return x


def u_shape(b):
    """Down with convolutions, up with transposed ones, and the skips between."""
    b.style("relu", "relu", "leaky_relu", "silu", "mish", "elu")
    b.image_norm = b.choose("batch", "batch", "batch", "instance", "group")
    c, size, depth, count = b.choose(8, 12, 16, 24, 32), b.choose(32, 48, 64, 80, 96), b.int(2, 3), b.int(1, 2)
    up, pooled, joined = b.choose("transposed", "transposed", "transposed", "resize"), b.chance(0.6), b.choose("concat", "concat", "add")
    rank = b.choose(2, 2, 2, 2, 3)
    if rank == 3:
        size, depth = 16, 2
    x, skips = b.input("image", [b.choose(1, 3, 4)] + [size] * rank), []
    for _ in range(depth):
        with b.scope("down"):
            x = u_block(b, x, c, count)
            skips.append(x)
            x = b.add("MaxPool", x, kernel_shape=[2] * rank, strides=[2] * rank) if pooled else b.conv_act(x, c, 3, 2, name="reduce.conv")
        c *= 2
    with b.scope("bottom"):
        x = u_block(b, x, c, count)
    for skip in reversed(skips):
        c //= 2
        with b.scope("up"):
            x = b.deconv(x, c, b.choose(2, 2, 4, 3)) if up == "transposed" else b.conv(b.resize(x, 2), c, 3)
            x = b.add("Add", x, skip) if joined == "add" else b.add("Concat", skip, x, axis=1)
            x = u_block(b, x, c, count)
    return b.conv(x, b.choose(1, 2, 3, 8), 1, name="head")


def top_down(b, levels, width, post):
    """Coarse features, twice as large, onto finer ones."""
    sides = [b.conv(x, width, 1, name=f"lateral{i}.conv") for i, x in enumerate(levels)]
    for i in reversed(range(len(sides) - 1)):
        sides[i] = b.add("Add", sides[i], b.resize(sides[i + 1], 2), name=f"merge{i}")
    return [b.conv_act(x, width, 3, name=f"post{i}.conv") for i, x in enumerate(sides)] if post else sides


def feature_pyramid(b):
    """FPN, and PANet's with the way back down; a head that all levels share."""
    b.style("relu", "silu", "relu", "leaky_relu")
    c, width, size = b.choose(16, 24, 32, 48), b.choose(32, 48, 64, 96), b.choose(8, 10, 12, 16)
    x, levels = b.conv_act(b.input("image", [3, size * 8, size * 8]), c, 3, 2, name="stem.conv"), []
    for i in range(3):
        x = basic_block(b, x, c << i, 1 if i == 0 else 2)
        levels.append(x)
    levels = top_down(b, levels, width, b.chance(0.7))
    if b.chance(0.4):
        for i in range(1, len(levels)):
            down = b.conv_act(levels[i - 1], width, 3, 2, name=f"down{i}.conv")
            levels[i] = b.conv_act(b.add("Concat", down, levels[i], axis=1), width, 1, name=f"join{i}.conv")
    if b.chance(0.5):
        total = [levels[0]] + [b.resize(x, 1 << i) for i, x in enumerate(levels) if i]
        return b.conv(b.sum(total), b.choose(4, 19), 1, name="head")
    found = b.choose(4, 12, 36)
    weights = [b.weight("head.weight", [found, width, 3, 3], (2 / (9 * width)) ** 0.5), b.weight("head.bias", [found], 0.1)]
    made = [b.add("Conv", x, *weights, kernel_shape=[3, 3], pads=[1] * 4, name=f"head{i}") for i, x in enumerate(levels)]
    return [b.add("Sigmoid", y) for y in made] if b.chance(0.3) else made


def exchange(b, levels):
    """Every resolution gets the sum of all, brought to its size."""
    made = []
    for i, target in enumerate(levels):
        parts = []
        for j, x in enumerate(levels):
            name, c = f"from{j}to{i}", b.channels(target)
            if j > i:
                x = b.resize(b.conv_norm(x, c, 1, name=f"{name}.conv"), 1 << (j - i))
            for step in range(i - j):
                last = step == i - j - 1
                x = b.conv_norm(x, c, 3, 2, name=f"{name}.conv{step}") if last else b.conv_act(x, b.channels(x), 3, 2, name=f"{name}.conv{step}")
            parts.append(x)
        made.append(b.act(b.sum(parts, name=f"fuse{i}")))
    return made


def multi_resolution(b):
    """HRNet's."""
    b.style("relu", "relu", "silu")
    c, size, count = b.choose(16, 18, 24, 32), b.choose(16, 20, 24, 28, 32), b.int(2, 3)
    levels = [b.input("features", [c, size, size])]
    for i in range(1, count):
        levels.append(b.conv_act(levels[-1], c << i, 3, 2, name=f"transition{i}.conv"))
    for _ in range(b.int(1, 4 - count)):
        with b.scope("stage"):
            levels = exchange(b, [basic_block(b, x, b.channels(x)) for x in levels])
    if b.chance(0.5):
        return levels
    x = b.add("Concat", levels[0], *(b.resize(x, 1 << i, "linear") for i, x in enumerate(levels) if i), axis=1)
    return b.conv(b.conv_act(x, 2 * c, 1, name="join.conv"), b.choose(8, 17, 19), 1, name="head")


def super_resolution(b):
    """EDSR's and RCAN's residuals without norms, then pixels out of channels."""
    b.style("relu", "relu", "leaky_relu", "prelu", "gelu")
    c, size, times, color = b.choose(16, 24, 32, 48, 64), b.choose(24, 32, 48, 64), b.choose(2, 2, 3, 4), b.choose(1, 3)
    image = b.input("image", [color, size, size])
    first = x = b.conv(image, c, 3, name="stem.conv")
    scale, excite = b.choose(0, 0.1, 0.2), b.chance(0.3)
    for _ in range(b.int(2, 5)):
        with b.scope("block"):
            y = b.conv(b.act(b.conv(x, c, 3, name="conv1")), c, 3, name="conv2")
            y = squeeze_excite(b, y, max(4, c // 8)) if excite else y
            x = b.add("Add", b.add("Mul", y, b.constant(scale)) if scale else y, x)
    x = b.add("Add", b.conv(x, c, 3, name="body.conv"), first)
    mode = b.choose("DCR", "CRD", "CRD")
    x = b.add("DepthToSpace", b.conv(x, color * times * times, 3, name="shuffle.conv"), blocksize=times, mode=mode)
    if b.chance(0.5):
        x = b.add("Add", x, b.resize(image, times, b.choose("nearest", "linear")))
    return b.add("Clip", x, b.constant(-1), b.constant(1)) if b.chance(0.3) else x


def convolutional_autoencoder(b):
    c, depth, size = b.choose(8, 16, 24, 32), b.int(2, 3), b.choose(32, 48, 64)
    x = b.input("image", [b.choose(1, 3), size, size])
    color = b.channels(x)
    for i in range(depth):
        x = b.conv_act(x, c << i, b.choose(3, 5), 2, name=f"encode{i}.conv")
    shape = b.shape(x)
    if b.chance(0.6):
        x = b.linear(b.reshape(x, shape[0], -1), b.choose(32, 64, 128), name="code")
        x = b.act(b.linear(x, shape[1] * shape[2] * shape[3], name="decode.linear"))
        x = b.reshape(x, *shape)
    for i in reversed(range(depth)):
        x = b.deconv(x, c << (i - 1) if i else color, b.choose(2, 3, 4), name=f"decode{i}.up")
        x = b.act(b.norm(x)) if i else x
    return b.act(x, b.choose("sigmoid", "tanh"))


def flat_autoencoder(b):
    widths = b.choose((784, 256, 64), (784, 512, 128, 32), (1024, 256, 64, 16), (512, 384, 256, 64))
    x = b.input("rows", [b.choose(64, 128, 256), widths[0]])
    for i, width in enumerate([*widths[1:], *reversed(widths[:-1])]):
        x = b.linear(x, width, name=f"layer{i}")
        x = b.act(x) if i < 2 * len(widths) - 3 else x
    return b.act(x, "sigmoid") if b.chance(0.5) else x


def autoencoder(b):
    b.style(*IMAGE_ACTIVATIONS)
    return flat_autoencoder(b) if b.chance(0.3) else convolutional_autoencoder(b)


KINDS = dilated_pyramid, aspp, u_shape, feature_pyramid, multi_resolution, super_resolution, autoencoder
