"""Networks over images since transformers came: large kernels, split attention, focal modulation, mixing without it, gates of places and channels."""
from .layers import TOKEN_ACTIVATIONS, features, global_pool, head, scale_and_shift, squeeze_excite


def response_norm(b, x, name="grn"):
    """ConvNeXt V2's, over features in the last axis: each channel beside the mean of all."""
    c = b.width(x)
    with b.scope(name):
        size = b.add("ReduceL2", x, axes=[1, 2], keepdims=1)
        share = b.add("Div", size, b.add("Add", b.mean(size, 3), b.constant(1e-6)))
        y = scale_and_shift(b, b.add("Mul", x, share), [1, 1, 1, c], "affine")
        return b.add("Add", x, y)


def convnext_block(b, x, kernel=7, times=4, response=True):
    """A depthwise convolution with a large kernel; the rest with channels last."""
    with b.scope("block"):
        c = b.channels(x)
        y = b.transpose(b.conv(x, c, kernel, groups=c, name="depthwise"), 0, 2, 3, 1)
        y = b.act(b.linear(b.normed(y), times * c, name="expand"))
        y = response_norm(b, y) if response else y
        y = b.linear(y, c, name="project")
        if not response:
            y = b.add("Mul", y, b.weight("gamma", [c], 0.02, 0.1), name="scaled")
        return b.add("Add", x, b.transpose(y, 0, 3, 1, 2))


def convnext_down(b, x, channels):
    with b.scope("down"):
        return b.conv(b.norm(x, "channel_layer"), channels, 2, 2, pads=[0, 0, 0, 0])


def convnext_v2(b):
    """And the first version, with a scale in place of the response norm."""
    b.activation, b.token_norm, response = b.choose("gelu", "gelu", "gelu_tanh", "silu"), b.choose("layer", "layer", "layer_spelled"), b.chance(0.75)
    c, size, kernel = b.choose(32, 40, 48, 64, 80, 96), b.choose(14, 16, 20, 28, 32), b.choose(5, 7, 7, 7, 9)
    if b.chance(0.5):
        x = b.norm(b.conv(b.input("image", [3, 4 * size, 4 * size]), c, 4, 4, pads=[0, 0, 0, 0], name="stem"), "channel_layer")
    else:
        x = b.input("features", [c, size, size])
    for _ in range(b.int(2, 4)):
        x = convnext_block(b, x, kernel, b.choose(2, 4, 4), response)
        if size % 2 == 0 and b.chance(0.2):
            x, c, size = convnext_down(b, x, 2 * c), 2 * c, size // 2
    return head(b, x)


def large_kernel(b):
    """RepLKNet's before merging: a large depthwise kernel beside a small one, and 1x1 convolutions around them."""
    b.style("relu", "relu", "gelu", "silu")
    c, size, kernel = b.choose(32, 48, 64, 96), b.choose(14, 16, 20, 28), b.choose(9, 11, 13)
    x = b.input("features", [c, size, size])
    for _ in range(b.int(2, 3)):
        with b.scope("block"):
            y = b.conv_act(b.norm(x, name="pre"), c, 1, name="conv1")
            made = [b.conv_norm(y, c, k, groups=c, name=f"depthwise{k}.conv") for k in (kernel, b.choose(3, 5))]
            x = b.add("Add", x, b.conv_norm(b.act(b.sum(made)), c, 1, name="conv2"))
        with b.scope("feed"):
            y = b.conv_act(b.norm(x, name="pre"), b.choose(2, 4) * c, 1, name="conv1")
            x = b.add("Add", x, b.conv_norm(y, c, 1, name="conv2"))
    return head(b, x)


def radix_attention(b, x, radix=2, groups=1, reduced=None, joined="slices"):
    """ResNeSt's: the channels stand in radix groups, whose sum says by a softmax over the radix how much each counts."""
    n, wide, h, w = b.shape(x)
    c = wide // radix
    with b.scope("attention"):
        if joined == "slices":
            parts = b.split(x, radix, 1)
            total = b.sum(parts)
        else:
            stacked = b.reshape(x, n, radix, c, h, w)
            total = b.add("ReduceSum", stacked, b.whole(1), keepdims=0)
        y = b.conv_act(global_pool(b, total), reduced or max(16, wide // 4), 1, groups=groups, name="conv1")
        y = b.conv(y, wide, 1, groups=groups, name="conv2")
        y = b.transpose(b.reshape(y, n, groups, radix, c // groups), 0, 2, 1, 3)
        y = b.add("Softmax", y, axis=1)
        if joined != "slices":
            weighted = b.add("Mul", stacked, b.reshape(y, n, radix, c, 1, 1))
            return b.add("ReduceSum", weighted, b.whole(1), keepdims=0)
        shares = b.split(b.reshape(y, n, wide, 1, 1), radix, 1)
        return b.sum([b.add("Mul", part, share) for part, share in zip(parts, shares)])


def split_attention_block(b, x, channels, stride=1, radix=2, groups=1, joined="slices"):
    with b.scope("block"):
        wide = 2 * channels
        y = b.conv_act(x, channels, 1, name="conv1")
        y = b.conv_act(y, radix * channels, 3, groups=radix * groups, name="conv2")
        y = radix_attention(b, y, radix, groups, joined=joined)
        if stride > 1:
            y = b.add("AveragePool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
        y, skip = b.conv_norm(y, wide, 1, name="conv3"), x
        if stride > 1:
            skip = b.add("AveragePool", skip, kernel_shape=[2, 2], strides=[2, 2])
        if stride > 1 or b.channels(x) != wide:
            skip = b.conv_norm(skip, wide, 1, name="downsample")
        return b.act(b.add("Add", y, skip))


def split_attention(b):
    b.style("relu", "relu", "relu", "silu")
    radix, groups, joined = b.choose(2, 2, 2, 4), b.choose(1, 1, 2), b.choose("slices", "slices", "stacked")
    c = b.choose(32, 48, 64, 96)
    x = features(b, b.choose(c, 2 * c), 14, 16, 20, 28, 32)
    for i in range(b.int(1, 3)):
        stride = 2 if i and b.chance(0.3) else 1
        x = split_attention_block(b, x, c * stride, stride, radix, groups, joined)
        c *= stride
    return head(b, x)


def modulation(b, x, levels=2, first=3):
    """FocalNet's: contexts of growing reach, gated level by level, multiply the queries; with channels last outside."""
    c = b.width(x)
    with b.scope("modulation"):
        y = b.transpose(b.linear(x, 2 * c + levels + 1, name="project"), 0, 3, 1, 2)
        query, context, gates = b.split(y, [c, c, levels + 1], 1)
        gates, total = b.split(gates, levels + 1, 1), None
        for level in range(levels):
            context = b.act(b.conv(context, c, first + 2 * level, groups=c, bias=False, name=f"reach{level}"), "gelu")
            part = b.add("Mul", context, gates[level])
            total = part if total is None else b.add("Add", total, part)
        whole = b.act(b.mean(context, 2, 3), "gelu")
        total = b.add("Add", total, b.add("Mul", whole, gates[levels]))
        y = b.add("Mul", query, b.conv(total, c, 1, name="gather"), name="modulated")
        return b.linear(b.transpose(y, 0, 2, 3, 1), c, name="out")


def focal_block(b, x, levels=2, first=3, times=4):
    with b.scope("block"):
        x = b.add("Add", x, modulation(b, b.normed(x, "norm1"), levels, first))
        y = b.act(b.linear(b.normed(x, "norm2"), times * b.width(x), name="expand"), "gelu")
        return b.add("Add", x, b.linear(y, b.width(x), name="project"))


def focal(b):
    b.token_norm, levels, first = b.choose("layer", "layer", "layer_spelled"), b.int(2, 3), b.choose(3, 3, 5)
    c, size = b.choose(32, 48, 64, 96), b.choose(14, 16, 20, 28)
    x = b.conv(b.input("image", [3, 4 * size, 4 * size]), c, 4, 4, pads=[0, 0, 0, 0], name="patches") if b.chance(0.5) else b.input("features", [c, size, size])
    x = b.transpose(x, 0, 2, 3, 1)
    for _ in range(b.int(1, 3)):
        x = focal_block(b, x, levels, first, b.choose(2, 4))
    return b.linear(b.mean(b.normed(x), 1, 2, keep=False), 100, name="head") if b.chance(0.6) else x


def conv_mixer(b):
    """Patches, then depthwise convolutions with residuals and 1x1 ones; PoolFormer's have a pool for it."""
    b.style("gelu", "gelu", "relu", "silu")
    c, size, kernel, pooled = b.choose(48, 64, 96, 128), b.choose(14, 16, 20, 28), b.choose(5, 7, 9), b.chance(0.4)
    x = b.norm(b.act(b.conv(b.input("image", [3, 4 * size, 4 * size]), c, 4, 4, pads=[0, 0, 0, 0], name="patches")))
    for _ in range(b.int(2, 4)):
        with b.scope("block"):
            if pooled:
                y = b.norm(x, name="norm1")
                y = b.add("Sub", b.add("AveragePool", y, kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4, count_include_pad=0), y)
                x = b.add("Add", x, y)
                y = b.conv(b.act(b.conv(b.norm(x, name="norm2"), 2 * c, 1, name="conv1")), c, 1, name="conv2")
                x = b.add("Add", x, y)
            else:
                x = b.add("Add", x, b.norm(b.act(b.conv(x, c, kernel, groups=c, name="depthwise")), name="norm1"))
                x = b.norm(b.act(b.conv(x, c, 1, name="pointwise")), name="norm2")
    return head(b, x)


def place_gate(b, x, kernel=7):
    """CBAM's: which places count, by the mean and the largest of the channels there."""
    with b.scope("places"):
        seen = b.add("Concat", b.mean(x, 1), b.add("ReduceMax", x, axes=[1], keepdims=1), axis=1)
        return b.add("Mul", x, b.add("Sigmoid", b.conv(seen, 1, kernel, bias=False)))


def channel_gate(b, x, reduced):
    """CBAM's: one small network reads the mean and the largest."""
    with b.scope("channels"):
        c = b.channels(x)
        reduce = b.weight("reduce.weight", [reduced, c, 1, 1], (2 / c) ** 0.5)
        expand = b.weight("expand.weight", [c, reduced, 1, 1], (2 / reduced) ** 0.5)
        made = [b.add("Conv", b.act(b.add("Conv", b.add(op, x), reduce), "relu"), expand) for op in ("GlobalAveragePool", "GlobalMaxPool")]
        return b.add("Mul", x, b.add("Sigmoid", b.add("Add", *made)))


def line_gate(b, x, reduced):
    """Coordinate attention: the means of rows and columns, one convolution over both, a gate of each."""
    n, c, h, w = b.shape(x)
    with b.scope("lines"):
        means = b.add("Concat", b.mean(x, 3), b.transpose(b.mean(x, 2), 0, 1, 3, 2), axis=2)
        y = b.conv_act(means, reduced, 1, name="conv1", act="hardswish")
        rows, columns = b.split(y, [h, w], 2)
        rows = b.add("Sigmoid", b.conv(rows, c, 1, name="rows"))
        columns = b.add("Sigmoid", b.conv(b.transpose(columns, 0, 1, 3, 2), c, 1, name="columns"))
        return b.add("Mul", b.add("Mul", x, rows), columns)


def gated_residual(b):
    b.style("relu", "relu", "silu", "hardswish")
    kind, c = b.choose("cbam", "lines", "excite"), b.choose(24, 32, 48, 64)
    x = features(b, c, 14, 16, 20, 28, 32)
    for _ in range(b.int(2, 3)):
        with b.scope("block"):
            y = b.conv_norm(b.conv_act(x, c, 3, name="conv1"), c, 3, name="conv2")
            if kind == "cbam":
                y = place_gate(b, channel_gate(b, y, max(4, c // 8)), b.choose(3, 7))
            else:
                y = line_gate(b, y, max(8, c // 4)) if kind == "lines" else squeeze_excite(b, y, max(4, c // 8), b.activation)
            x = b.act(b.add("Add", x, y))
    return head(b, x)


def mlp_mixer(b):
    b.activation, b.token_norm = b.choose(*TOKEN_ACTIVATIONS), b.choose("layer", "layer", "layer_spelled")
    tokens, c = b.choose(49, 64, 100, 144, 196), b.choose(64, 96, 128, 192)
    hidden, wide = b.choose(32, 64, 128), b.choose(2, 4) * c
    x = b.input("tokens", [tokens, c])
    for _ in range(b.int(2, 4)):
        with b.scope("block"):
            y = b.transpose(b.normed(x, "norm1"), 0, 2, 1)
            y = b.linear(b.act(b.linear(y, hidden, name="tokens1")), tokens, name="tokens2")
            x = b.add("Add", x, b.transpose(y, 0, 2, 1))
            y = b.linear(b.act(b.linear(b.normed(x, "norm2"), wide, name="channels1")), c, name="channels2")
            x = b.add("Add", x, y)
    return b.linear(b.mean(b.normed(x), 1, keep=False), 100, name="head") if b.chance(0.6) else x


KINDS = convnext_v2, large_kernel, split_attention, focal, conv_mixer, gated_residual, mlp_mixer
