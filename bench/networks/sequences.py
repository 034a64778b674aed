"""Networks over sequences and rows without attention: gates, mixtures, cells, convolutions in time, tables; and one for norms of every kind."""
import numpy as np
from onnx import TensorProto

from .attention import feed_forward, residual, separate, style, tokens
from .layers import IMAGE_ACTIVATIONS, TOKEN_ACTIVATIONS, features, head


def gated_feed(b, x, wide, act, one_product, bias):
    """SwiGLU's and GEGLU's: half of a wide layer, activated, gates the other half."""
    with b.scope("feed"):
        if one_product:
            gate, up = b.split(b.linear(x, 2 * wide, bias, name="both"), 2, len(b.shape(x)) - 1)
        else:
            gate, up = b.linear(x, wide, bias, name="gate"), b.linear(x, wide, bias, name="up")
        return b.linear(b.add("Mul", b.act(gate, act), up), b.width(x), bias, name="down")


def gated_mlp(b):
    before, s, c = style(b), b.choose(32, 64, 128, 256), b.choose(64, 96, 128, 192, 256)
    act, one_product, bias = b.choose("silu", "silu", "gelu", "gelu_tanh", "sigmoid", "relu"), b.chance(0.4), b.chance(0.4)
    wide = b.choose(2, 3, 4) * c * 2 // 3 // 8 * 8
    x = tokens(b, s, c)
    for _ in range(b.int(2, 4)):
        with b.scope("block"):
            if b.chance(0.2):
                x = residual(b, x, lambda y: b.linear(separate(b, y, y, c // 32, bias, None), c, bias, name="out"), "norm0", before)
            x = residual(b, x, lambda y: gated_feed(b, y, wide, act, one_product, bias), "norm1", before)
    return b.linear(b.normed(x), b.choose(64, 100), False, name="head") if b.chance(0.5) else b.normed(x)


def spatial_gate(b):
    """gMLP's: half of the channels, mixed over the tokens, gate the others."""
    b.activation, b.token_norm = b.choose(*TOKEN_ACTIVATIONS), b.choose("layer", "layer", "layer_spelled")
    s, c, times, as_conv = b.choose(49, 64, 100, 128, 196), b.choose(64, 96, 128), b.choose(2, 4), b.chance(0.4)
    x = tokens(b, s, c)
    for _ in range(b.int(2, 4)):
        with b.scope("block"):
            y = b.act(b.linear(b.normed(x, "norm1"), times * c, name="expand"))
            kept, gate = b.split(y, 2, 2)
            gate = b.normed(gate, "norm2")
            if as_conv:
                gate = b.conv(gate, s, 1, name="places")
            else:
                gate = b.transpose(b.linear(b.transpose(gate, 0, 2, 1), s, name="places"), 0, 2, 1)
            x = b.add("Add", x, b.linear(b.add("Mul", kept, gate), c, name="project"))
    return b.linear(b.mean(b.normed(x), 1, keep=False), 100, name="head") if b.chance(0.5) else x


def expert_sum(b, x, experts, wide, spelling):
    """Dense mixture: all experts run, a softmax says how much each counts. `parts`: one after the other; `stack`: their results on an axis of their
    own; `products`: weights of all in one tensor, batched products."""
    n, s, c = b.shape(x)
    shares = b.add("Softmax", b.linear(x, experts, False, name="router"), axis=-1)
    if spelling == "products":
        y = b.add("MatMul", b.add("Unsqueeze", x, b.whole(1)), b.weight("up", [1, experts, c, wide], c**-0.5))
        y = b.add("MatMul", b.act(y), b.weight("down", [1, experts, wide, c], wide**-0.5))
        shares = b.add("Unsqueeze", b.transpose(shares, 0, 2, 1), b.whole(3))
        return b.add("ReduceSum", b.add("Mul", y, shares), b.whole(1), keepdims=0)
    made = []
    for i in range(experts):
        with b.scope("expert"):
            made.append(b.linear(b.act(b.linear(x, wide, name="up")), c, name="down"))
    if spelling == "stack":
        stacked = b.add("Concat", *(b.add("Unsqueeze", y, b.whole(2)) for y in made), axis=2)
        return b.add("ReduceSum", b.add("Mul", stacked, b.add("Unsqueeze", shares, b.whole(3))), b.whole(2), keepdims=0)
    return b.sum([b.add("Mul", y, share) for y, share in zip(made, b.split(shares, experts, 2))])


def mixture(b):
    before, s, c = style(b), b.choose(16, 32, 64, 128), b.choose(64, 96, 128)
    experts, wide, spelling = b.choose(2, 3, 4, 4, 8), b.choose(1, 2, 4) * c, b.choose("parts", "parts", "stack", "products")
    x = tokens(b, s, c)
    for _ in range(b.int(1, 3)):
        with b.scope("block"):
            if b.chance(0.3):
                x = residual(b, x, lambda y: b.linear(separate(b, y, y, c // 32, True, None), c, name="out"), "norm0", before)
            x = residual(b, x, lambda y: expert_sum(b, y, experts, wide, spelling), "norm1", before)
    return b.linear(b.normed(x), 100, name="head") if b.chance(0.5) else x


class Cell:
    """A recurrent cell's weights, made once and read in every step; `fused`: one product for all gates, cut behind it."""

    def __init__(self, b, kind, width, hidden, fused):
        self.b, self.kind, self.hidden, self.fused = b, kind, hidden, fused
        gates = {"lstm": "ifgo", "gru": "rzn", "minimal": "fn"}[kind]
        groups = [gates] if fused else list(gates)
        with b.scope(kind):
            self.weights = {g: [b.weight(f"{side}_{g}", [rows, len(g) * hidden], hidden**-0.5) for side, rows in (("w", width), ("u", hidden))]
                            + [b.weight(f"b_{g}", [len(g) * hidden], 0.1)] for g in groups}

    def gates(self, x, h):
        """What the input gives to each gate, with the bias, and what the state gives."""
        b, given = self.b, {}
        for group, (w, u, bias) in self.weights.items():
            parts = b.add("Add", b.add("MatMul", x, w), bias), b.add("MatMul", h, u)
            if len(group) == 1:
                given[group] = parts
            else:
                cut = [b.split(part, len(group), 1) for part in parts]
                given |= {g: pair for g, pair in zip(group, zip(*cut))}
        return given

    def step(self, x, h, c):
        b = self.b
        with b.scope(f"{self.kind}_step"):
            given = self.gates(x, h)
            gate = lambda g, act: b.act(b.add("Add", *given[g]), act)
            if self.kind == "lstm":
                c = b.add("Add", b.add("Mul", gate("f", "sigmoid"), c), b.add("Mul", gate("i", "sigmoid"), gate("g", "tanh")))
                return b.add("Mul", gate("o", "sigmoid"), b.act(c, "tanh")), c
            if self.kind == "gru":
                new = b.act(b.add("Add", given["n"][0], b.add("Mul", gate("r", "sigmoid"), given["n"][1])), "tanh")
                z = gate("z", "sigmoid")
            else:
                z = gate("f", "sigmoid")
                new = b.act(b.add("Add", given["n"][0], b.add("Mul", z, given["n"][1])), "tanh")
            return b.add("Add", b.add("Mul", b.add("Sub", b.constant(1), z), new), b.add("Mul", z, h)), c


def recurrent_cells(b):
    """Cells written out over a few steps."""
    kind, width, hidden, steps = b.choose("lstm", "gru", "minimal"), b.choose(128, 256, 512), b.choose(192, 256, 384, 512), b.int(2, 5)
    layers = b.int(1, 2)
    x, states = b.input("steps", [steps, width]), [b.input(f"h{i}", [hidden]) for i in range(layers)]
    kept = [b.input(f"c{i}", [hidden]) if kind == "lstm" else None for i in range(layers)]
    cells = [Cell(b, kind, hidden if i else width, hidden, b.habit("gates", False, False, True)) for i in range(layers)]
    seen = []
    for step in range(steps):
        y = b.add("Gather", x, b.constant(step, np.int64), axis=1, name=f"x{step}")
        for i, cell in enumerate(cells):
            y = states[i], kept[i] = cell.step(y, states[i], kept[i])
            y = y[0]
        seen.append(y)
    if b.chance(0.5):
        return b.linear(seen[-1], b.choose(10, 100), name="head")
    return b.add("Concat", *(b.add("Unsqueeze", y, b.whole(1)) for y in seen), axis=1)


def recurrent_layer(b, x, op, hidden, both):
    """[time, batch, width], as PyTorch writes nn.LSTM and nn.GRU."""
    count, gates = 2 if both else 1, {"LSTM": 4, "GRU": 3}[op]
    with b.scope(op.lower()):
        weights = [b.weight(name, [count, *shape], hidden**-0.5) for name, shape in
                   (("w", [gates * hidden, b.width(x)]), ("r", [gates * hidden, hidden]), ("b", [2 * gates * hidden]))]
        more = {"linear_before_reset": 1} if op == "GRU" else {}
        y = b.add(op, x, *weights, name=op.lower(), outputs=2, hidden_size=hidden, direction="bidirectional" if both else "forward", **more)[0]
        return b.reshape(b.transpose(y, 0, 2, 1, 3), 0, 0, -1) if both else b.add("Squeeze", y, b.whole(1))


def recurrent_operator(b):
    """ONNX's own LSTM and GRU behind a few convolutions or linear layers, as in readers of text and speech."""
    b.style("relu", "relu", "silu", "tanh", "hardswish")
    op, steps, hidden, both = b.choose("LSTM", "GRU"), b.choose(16, 24, 32, 48), b.choose(64, 96, 128, 192), b.chance(0.5)
    front = b.choose("conv", "linear", "words")
    if front == "conv":
        x = b.input("signal", [b.choose(20, 40, 80), 2 * steps])
        for i in range(b.int(1, 2)):
            x = b.conv_act(x, b.choose(64, 96, 128), b.choose(3, 5), 1 if i else 2)
        x = b.transpose(x, 2, 0, 1)
    else:
        x = tokens(b, steps, 96) if front == "words" else b.input("rows", [steps, 80])
        x = b.transpose(b.act(b.linear(x, hidden, name="front")), 1, 0, 2)
    for i in range(b.int(1, 3)):
        y = recurrent_layer(b, x, op, hidden, both)
        x = b.add("Add", x, y) if b.shape(x) == b.shape(y) and b.chance(0.6) else y
    x = b.transpose(x, 1, 0, 2)
    x = b.act(b.linear(b.normed(x), b.choose(64, 128), name="dense"))
    return b.add("LogSoftmax", b.linear(x, b.choose(28, 40, 100), name="head"), axis=-1)


def causal_conv(b, x, channels, kernel, dilation, name="conv"):
    """Sees the past alone: pads in front, by a Pad, by the convolution, or on both ends with the end cut off."""
    reach, steps, spelling = dilation * (kernel - 1), b.width(x), b.habit("causal", "pad", "conv", "cut")
    if spelling == "pad":
        return b.conv(b.add("Pad", x, b.whole(0, 0, reach, 0, 0, 0)), channels, kernel, dilation=dilation, pads=[0, 0], name=name)
    y = b.conv(x, channels, kernel, dilation=dilation, pads=[reach, reach if spelling == "cut" else 0], name=name)
    return b.slice(y, 0, steps, 2) if spelling == "cut" and reach else y


def wavenet(b):
    """Dilated causal convolutions, tanh gated by a sigmoid, residuals and a sum of skips."""
    c, steps, kernel, one_product = b.choose(16, 32, 48, 64), b.choose(128, 256, 400, 512, 1000), b.choose(2, 2, 3), b.chance(0.4)
    x, skips = causal_conv(b, b.input("signal", [b.choose(1, 8, 40), steps]), c, b.choose(1, 2), 1, "first"), []
    for i in range(b.int(3, 6)):
        with b.scope("layer"):
            if one_product:
                filtered, gate = b.split(causal_conv(b, x, 2 * c, kernel, 1 << i), 2, 1)
            else:
                filtered, gate = (causal_conv(b, x, c, kernel, 1 << i, name) for name in ("filter", "gate"))
            y = b.add("Mul", b.act(filtered, "tanh"), b.act(gate, "sigmoid"), name="gated")
            skips.append(b.conv(y, c, 1, name="skip"))
            x = b.add("Add", x, b.conv(y, c, 1, name="residual"))
    y = b.act(b.conv(b.act(b.sum(skips), "relu"), c, 1, name="last1"), "relu")
    return b.conv(y, b.choose(1, 16, 64), 1, name="last2")


def temporal(b):
    """Temporal convolution networks: two causal convolutions and a residual."""
    b.style("relu", "relu", "leaky_relu", "silu", "gelu")
    c, steps, kernel = b.choose(24, 32, 48, 64, 96), b.choose(100, 128, 200, 256, 400), b.choose(2, 3, 3, 5)
    x = b.input("signal", [b.choose(1, 6, 9, 40), steps])
    for i in range(b.int(2, 4)):
        with b.scope("block"):
            y = x
            for part in ("conv1", "conv2"):
                y = causal_conv(b, y, c, kernel, 1 << i, part)
                y = b.act(y if b.folded else b.norm(y, name=part.replace("conv", "norm")))
            x = b.act(b.add("Add", y, x if b.channels(x) == c else b.conv(x, c, 1, name="downsample")))
    return head(b, x)


def mlp(b, x, widths, last=True):
    for i, width in enumerate(widths):
        x = b.linear(x, width, name=f"layer{i}")
        x = b.act(x) if last or i + 1 < len(widths) else x
    return x


def looked_up(b, name, count, size, width):
    """Ids of that many places, each of them a row."""
    ids = b.input(f"{name}_id", [count] if count else [], TensorProto.INT64)
    return b.add("Gather", b.weight(f"{name}.table", [size, width], 0.3), ids, name=name)


def two_tower(b):
    """A user and candidates, each through a tower, and their products."""
    width, candidates, size = b.choose(32, 64, 128), b.choose(64, 128, 256, 512), b.choose(200, 1000, 2000)
    with b.scope("user"):
        user = b.add("Concat", looked_up(b, "user", 1, size, width), b.input("user_features", [1, b.choose(16, 32)]), axis=2)
        user = mlp(b, user, (2 * width, width), last=False)
    with b.scope("item"):
        kind = looked_up(b, "category", candidates, 100, 16)
        item = b.add("Concat", looked_up(b, "item", candidates, size, width), kind, b.input("item_features", [candidates, 16]), axis=2)
        item = mlp(b, item, (2 * width, width), last=False)
    if b.chance(0.5):
        return b.add("Sigmoid", b.add("ReduceSum", b.add("Mul", user, item), b.whole(2), keepdims=0))
    user, item = (b.add("Div", y, b.add("Add", b.add("ReduceL2", y, axes=[2], keepdims=1), b.constant(1e-6))) for y in (user, item))
    return b.add("MatMul", user, b.transpose(item, 0, 2, 1))


def interactions(b):
    """DLRM's and factorization machines': embeddings of many rows, all products of pairs, a network over them."""
    rows, width, fields = b.choose(32, 64, 128, 256), b.choose(16, 32, 64), b.int(3, 8)
    dense = mlp(b, b.input("dense", [rows, 13]), (128, width))
    found = [dense] + [looked_up(b, f"field{i}", rows, b.choose(100, 500, 2000), width) for i in range(fields)]
    stacked = b.add("Concat", *(b.add("Unsqueeze", y, b.whole(2)) for y in found), axis=2)
    if b.chance(0.5):
        pairs = b.add("MatMul", stacked, b.transpose(stacked, 0, 1, 3, 2))
        chosen = [i * len(found) + j for i in range(len(found)) for j in range(i)]
        pairs = b.add("Gather", b.reshape(pairs, 0, 0, -1), b.constant(chosen, np.int64), axis=2)
    else:
        total = b.add("ReduceSum", stacked, b.whole(2), keepdims=0)
        squares = b.add("ReduceSum", b.add("Mul", stacked, stacked), b.whole(2), keepdims=0)
        pairs = b.add("Mul", b.add("Sub", b.add("Mul", total, total), squares), b.constant(0.5))
    x = b.add("Concat", dense, pairs, axis=2)
    if b.chance(0.4):
        for i in range(2):  # cross layers of DCN
            with b.scope("cross"):
                made = b.linear(x, b.width(x))
                first = x if i == 0 else first
                x = b.add("Add", b.add("Mul", first, made), x)
    return b.add("Sigmoid", mlp(b, x, (b.choose(128, 256), 64, 1), last=False))


def recommender(b):
    b.style("relu", "relu", "silu", "sigmoid", "leaky_relu")
    return two_tower(b) if b.chance(0.5) else interactions(b)


def norms(b):
    """Norms of every kind between layers that are not much more than an excuse for them."""
    if b.chance(0.5):
        b.style(*IMAGE_ACTIVATIONS)
        b.folded, c, kinds = False, b.choose(16, 32, 48, 64), ("batch", "instance", "group", "group_spelled", "channel_layer", "channel_rms")
        x = features(b, c, 14, 16, 20, 28, 32)
        for _ in range(b.int(2, 4)):
            y = b.act(b.norm(b.conv(x, c, b.choose(1, 3), bias=b.chance(0.3)), b.choose(*kinds)))
            x = b.add("Add", x, y) if b.chance(0.5) else y
        return head(b, x)
    s, c, kinds = b.choose(32, 64, 128, 196), b.choose(64, 96, 128, 256), ("layer", "layer_spelled", "rms")
    b.activation = b.choose(*TOKEN_ACTIVATIONS)
    x = tokens(b, s, c)
    for _ in range(b.int(3, 6)):
        y = b.norm(x, b.choose(*kinds))
        y = feed_forward(b, y, b.choose(1, 2)) if b.chance(0.6) else b.act(b.linear(y, c))
        x = b.add("Add", x, y) if b.chance(0.7) else y
    return b.norm(x, b.choose(*kinds))


KINDS = gated_mlp, spatial_gate, mixture, recurrent_cells, recurrent_operator, wavenet, temporal, recommender, norms
