"""Attention in the shapes in which people write it: which products make queries, keys and values, how many heads share keys, what is looked at, what
is masked."""
import numpy as np
from onnx import TensorProto

from .layers import TOKEN_ACTIVATIONS


def to_heads(b, x, count, turned=False):
    """[batch, tokens, channels] to [batch, heads, tokens, channels of one], or with the last two turned."""
    n, s, c = b.shape(x)
    return b.transpose(b.reshape(x, n, s, count, c // count), *((0, 2, 3, 1) if turned else (0, 2, 1, 3)))


def from_heads(b, x):
    n, count, s, d = b.shape(x)
    return b.reshape(b.transpose(x, 0, 2, 1, 3), n, s, count * d)


def causal(b, queries, keys):
    return b.constant(np.where(np.tril(np.ones((queries, keys))) > 0, 0, -1e4), np.float32)


def attend(b, q, keys, v, mask=None):
    """Queries and values [.., tokens, d], keys turned. The scale stands before or behind the product, the mask as a sum."""
    scale, where = b.width(q) ** -0.5, b.habit("scale", "before", "behind", "divisor")
    q = b.add("Mul", q, b.constant(scale), name="scaled") if where == "before" else q
    scores = b.add("MatMul", q, keys, name="scores")
    if where == "behind":
        scores = b.add("Mul", scores, b.constant(scale), name="scaled")
    elif where == "divisor":
        scores = b.add("Div", scores, b.constant(1 / scale), name="scaled")
    scores = b.add("Add", scores, mask, name="masked") if mask else scores
    return b.add("MatMul", b.add("Softmax", scores, axis=-1), v, name="mixed")


def separate(b, x, memory, count, bias, mask):
    c = b.width(x)
    q, k, v = (b.linear(y, c, bias, name=name) for y, name in ((x, "query"), (memory, "key"), (memory, "value")))
    return from_heads(b, attend(b, to_heads(b, q, count), to_heads(b, k, count, turned=True), to_heads(b, v, count), mask))


def fused(b, x, count, bias, mask, spelling):
    """One product for all three, cut before or behind the heads: `split`, or as timm writes it, five axes and a Gather of the first."""
    n, s, c = b.shape(x)
    y = b.linear(x, 3 * c, bias, name="qkv")
    if spelling == "split":
        q, k, v = b.split(y, 3, 2)
        return from_heads(b, attend(b, to_heads(b, q, count), to_heads(b, k, count, turned=True), to_heads(b, v, count), mask))
    y = b.transpose(b.reshape(y, n, s, 3, count, c // count), 2, 0, 3, 1, 4)
    q, k, v = (b.add("Gather", y, b.constant(i, np.int64), axis=0) for i in range(3))
    return from_heads(b, attend(b, q, b.transpose(k, 0, 1, 3, 2), v, mask))


def rotated(b, x):
    """Rotary positions: halves turned by angles that are constants."""
    s, d = b.shape(x)[2:]
    angles = np.outer(np.arange(s), 10000.0 ** (-np.arange(d // 2) / (d // 2)))
    cos, sin = (b.constant(np.concatenate([f(angles)] * 2, 1), np.float32) for f in (np.cos, np.sin))
    turned = b.add("Concat", b.add("Neg", b.slice(x, d // 2, d, 3)), b.slice(x, 0, d // 2, 3), axis=3)
    return b.add("Add", b.add("Mul", x, cos), b.add("Mul", turned, sin), name="rotated")


def grouped(b, x, count, shared, mask, rotary, spelling):
    """Several queries for each key. `repeat`: keys are copied to all heads that share them; `axes`: the queries have an axis more."""
    n, s, c = b.shape(x)
    d = c // count
    q, k, v = (to_heads(b, b.linear(x, width, False, name=name), width // d) for width, name in ((c, "query"), (shared * d, "key"), (shared * d, "value")))
    q, k = (rotated(b, q), rotated(b, k)) if rotary else (q, k)
    several = count // shared
    if spelling == "axes":
        q = b.reshape(q, n, shared, several, s, d)
        y = attend(b, q, b.transpose(b.add("Unsqueeze", k, b.whole(2)), 0, 1, 2, 4, 3), b.add("Unsqueeze", v, b.whole(2)), mask)
        return from_heads(b, b.reshape(y, n, count, s, d))
    if several > 1:
        k, v = (b.reshape(b.add("Expand", b.add("Unsqueeze", y, b.whole(2)), b.whole(n, shared, several, s, d)), n, count, s, d) for y in (k, v))
    return from_heads(b, attend(b, q, b.transpose(k, 0, 1, 3, 2), v, mask))


def rolled(b, x, by, axis):
    size, by = b.shape(x)[axis], by % b.shape(x)[axis]
    return b.add("Concat", b.slice(x, by, size, axis), b.slice(x, 0, by, axis), axis=axis)


def windowed(b, x, window, count, bias, shifted):
    """Swin's: attention inside windows, every second time of an image that is rolled by half of one; relative places as a bias."""
    n, h, w, c = b.shape(x)
    tall, wide, each = h // window, w // window, window * window
    if shifted:
        x = rolled(b, rolled(b, x, window // 2, 1), window // 2, 2)
    y = b.transpose(b.reshape(x, n, tall, window, wide, window, c), 0, 1, 3, 2, 4, 5)
    y = b.reshape(y, n * tall * wide, each, c)
    y = fused(b, y, count, bias, b.weight("places", [1, count, each, each], 0.5), "gather")
    y = b.linear(y, c, name="out")
    y = b.transpose(b.reshape(y, n, tall, wide, window, window, c), 0, 1, 3, 2, 4, 5)
    y = b.reshape(y, n, h, w, c)
    return rolled(b, rolled(b, y, -(window // 2), 1), -(window // 2), 2) if shifted else y


def feed_forward(b, x, times, gated=False):
    c = b.width(x)
    with b.scope("feed"):
        if gated:
            y = b.add("Mul", b.act(b.linear(x, times * c, False, name="gate"), "silu"), b.linear(x, times * c, False, name="up"))
            return b.linear(y, c, False, name="down")
        return b.linear(b.act(b.linear(x, times * c, name="up")), c, name="down")


def residual(b, x, part, name, before=True):
    """Norm before the part or behind the sum: both are written."""
    return b.add("Add", x, part(b.normed(x, name))) if before else b.normed(b.add("Add", x, part(x)), name)


def style(b):
    b.activation, b.token_norm = b.choose(*TOKEN_ACTIVATIONS), b.choose("layer", "layer", "layer_spelled", "rms")
    return b.chance(0.7)


def sizes(b):
    return b.choose(32, 49, 64, 100, 128, 197), b.choose(64, 96, 128, 192, 256)


def tokens(b, count, channels):
    """Given, or looked up with their places."""
    if b.chance(0.7):
        return b.input("tokens", [count, channels])
    ids = b.input("ids", [count], TensorProto.INT64)
    x = b.add("Gather", b.weight("words", [b.choose(200, 500, 1000), channels], 1), ids)
    return b.add("Add", x, b.weight("positions", [count, channels], 0.5))


def mask_of(b, count):
    """None, a constant one, or one made of a mask that is given."""
    kind = b.choose("none", "none", "causal", "given")
    if kind == "given":
        given = b.add("Sub", b.constant(1), b.add("Unsqueeze", b.input("mask", [count]), b.whole(1, 2)))
        return b.add("Mul", given, b.constant(-1e4))
    return causal(b, count, count) if kind == "causal" else None


def stack(b, x, attention, before, blocks=3):
    """Attention that is the function's, and a feed-forward part behind each."""
    times, gated = b.choose(2, 3, 4), b.chance(0.2)

    def one(y):
        with b.scope("attention"):
            return b.linear(attention(y), b.width(y), b.token_norm != "rms", name="out")

    for _ in range(b.int(1, blocks)):
        with b.scope("block"):
            x = residual(b, x, one, "norm1", before)
            x = residual(b, x, lambda y: feed_forward(b, y, times, gated), "norm2", before)
    return b.linear(b.normed(x), b.choose(10, 64, 100), name="head") if b.chance(0.4) else x


def attention_separate(b):
    before, (s, c), bias = style(b), sizes(b), b.chance(0.8)
    x, mask, count = tokens(b, s, c), mask_of(b, s), c // b.choose(16, 32)
    return stack(b, x, lambda y: separate(b, y, y, count, bias, mask), before)


def attention_fused(b):
    before, (s, c), bias, spelling = style(b), sizes(b), b.chance(0.8), b.choose("split", "gather")
    x, mask, count = tokens(b, s, c), mask_of(b, s), c // b.choose(16, 32)
    return stack(b, x, lambda y: fused(b, y, count, bias, mask, spelling), before)


def attention_grouped(b):
    before, (s, c), rotary, spelling = style(b), sizes(b), b.chance(0.6), b.choose("repeat", "repeat", "axes")
    b.token_norm = b.choose("rms", "rms", "layer")
    count = c // b.choose(16, 32)
    shared = b.choose(*(k for k in (1, 2, 4) if count % k == 0 and k <= count))
    x, mask = tokens(b, s, c), causal(b, s, s) if b.chance(0.7) else None
    return stack(b, x, lambda y: grouped(b, y, count, shared, mask, rotary, spelling), before, 2)


def attention_cross(b):
    """A decoder's: its own tokens, then a memory of another length."""
    before, (s, c), bias = style(b), sizes(b), b.chance(0.8)
    x, memory, count = tokens(b, s, c), b.input("memory", [b.choose(20, 50, 77, 128), c]), c // b.choose(16, 32)
    own, times, mask = b.chance(0.6), b.choose(2, 4), causal(b, s, s)
    for _ in range(b.int(1, 2)):
        with b.scope("block"):
            if own:
                x = residual(b, x, lambda y: b.linear(separate(b, y, y, count, bias, mask), c, name="self.out"), "norm0", before)
            x = residual(b, x, lambda y: b.linear(separate(b, y, memory, count, bias, None), c, name="cross.out"), "norm1", before)
            x = residual(b, x, lambda y: feed_forward(b, y, times), "norm2", before)
    return x


def attention_windowed(b):
    before, window, bias = style(b), b.choose(4, 7, 8), b.chance(0.8)
    c, size, count = b.choose(32, 48, 64, 96), window * b.int(2, 4), b.choose(2, 4)
    x, times = b.input("features", [size, size, c]), b.choose(2, 4)
    for i in range(b.int(1, 2)):
        with b.scope("block"):
            x = residual(b, x, lambda y: windowed(b, y, window, count, bias, i % 2 == 1), "norm1", before)
            x = residual(b, x, lambda y: feed_forward(b, y, times), "norm2", before)
    if b.chance(0.3):
        n, h, w, _ = b.shape(x)
        y = b.transpose(b.reshape(x, n, h // 2, 2, w // 2, 2, c), 0, 1, 3, 4, 2, 5) if h % 2 == 0 else None
        x = b.linear(b.normed(b.reshape(y, n, h // 2, w // 2, 4 * c)), 2 * c, False, name="merge") if y else x
    return x


def vision_transformer(b):
    """Patches as tokens, places added, a class by the mean."""
    before, c, patch, side = style(b), b.choose(64, 96, 128, 192), b.choose(4, 8, 16), b.choose(7, 8, 10, 12, 14)
    x = b.conv(b.input("image", [3, patch * side, patch * side]), c, patch, patch, pads=[0, 0, 0, 0], name="patches")
    x = b.transpose(b.reshape(x, b.batch, c, side * side), 0, 2, 1)
    x = b.add("Add", x, b.weight("positions", [1, side * side, c], 0.5))
    count, spelling = c // b.choose(16, 32), b.choose("split", "gather")
    times, depth = b.choose(2, 4), b.int(1, 3)
    for _ in range(depth):
        with b.scope("block"):
            x = residual(b, x, lambda y: b.linear(fused(b, y, count, True, None, spelling), c, name="out"), "norm1", before)
            x = residual(b, x, lambda y: feed_forward(b, y, times), "norm2", before)
    return b.linear(b.mean(b.normed(x), 1, keep=False), 100, name="head")


KINDS = attention_separate, attention_fused, attention_grouped, attention_cross, attention_windowed, vision_transformer
