"""The networks of the zoo as PyTorch modules, whose state dicts name and shape the parameters as `emend zoo` does, so that a twin
of any model is one of TWINS with the weights of its file. Tests compare with them, benchmarks race against them."""
import math

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper
from torch import nn


def seq(**named):
    """A container whose members have these names; order is the order of application."""
    box = nn.Sequential()
    for name, module in named.items():
        box.add_module(name.lstrip("_"), module)
    return box


# --- residual networks ---


class Block(nn.Module):
    """The basic block and, with `width`, the bottleneck."""

    def __init__(self, cin, cout, stride, width=0, groups=1):
        super().__init__()
        if width:
            self.conv1, self.bn1 = nn.Conv2d(cin, width, 1, bias=False), nn.BatchNorm2d(width)
            self.conv2 = nn.Conv2d(width, width, 3, stride, 1, groups=groups, bias=False)
            self.bn2 = nn.BatchNorm2d(width)
            self.conv3, self.bn3 = nn.Conv2d(width, cout, 1, bias=False), nn.BatchNorm2d(cout)
        else:
            self.conv1, self.bn1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout)
            self.conv2, self.bn2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False), nn.BatchNorm2d(cout)
        self.bottleneck = width > 0
        self.downsample = None
        if stride != 1 or cin != cout:
            self.downsample = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.bottleneck:
            y = self.bn3(self.conv3(F.relu(y)))
        return F.relu(y + (self.downsample(x) if self.downsample else x))


class ResNet(nn.Module):
    def __init__(self, blocks, bottleneck=False, groups=1, width_per_group=64):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        channels = 64
        for stage, count in enumerate(blocks):
            planes = 64 << stage
            cout = planes * 4 if bottleneck else planes
            width = planes * width_per_group // 64 * groups if bottleneck else 0
            layers = []
            for i in range(count):
                layers.append(Block(channels, cout, 2 if stage and not i else 1, width, groups))
                channels = cout
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
        self.fc = nn.Linear(channels, 1000)

    def forward(self, x):
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class Block3d(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Sequential(nn.Conv3d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm3d(cout), nn.ReLU())
        self.conv2 = nn.Sequential(nn.Conv3d(cout, cout, 3, 1, 1, bias=False), nn.BatchNorm3d(cout))
        self.downsample = None
        if stride != 1 or cin != cout:
            self.downsample = nn.Sequential(nn.Conv3d(cin, cout, 1, stride, bias=False), nn.BatchNorm3d(cout))

    def forward(self, x):
        return F.relu(self.conv2(self.conv1(x)) + (self.downsample(x) if self.downsample else x))


class ResNet3d18(nn.Module):
    def __init__(self):
        super().__init__()
        stem = nn.Conv3d(3, 64, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False)
        self.stem = nn.Sequential(stem, nn.BatchNorm3d(64), nn.ReLU())
        channels = 64
        for stage in range(4):
            cout = 64 << stage
            blocks = [Block3d(channels, cout, 2 if stage else 1), Block3d(cout, cout, 1)]
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
            channels = cout
        self.fc = nn.Linear(512, 400)

    def forward(self, x):
        x = self.layer4(self.layer3(self.layer2(self.layer1(self.stem(x)))))
        return self.fc(x.mean((2, 3, 4)))


# --- plain stacks ---

POOL = 0


def stack(plan, channels, dilation=1, bias=True):
    layers = []
    for c in plan:
        if c == POOL:
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(channels, c, 3, padding=dilation, dilation=dilation, bias=bias), nn.ReLU()]
            channels = c
    return nn.Sequential(*layers)


class Vgg19(nn.Module):
    def __init__(self):
        super().__init__()
        plan = [64] * 2 + [POOL] + [128] * 2 + [POOL] + [256] * 4 + [POOL] + ([512] * 4 + [POOL]) * 2
        self.features = stack(plan, 3)
        linear = nn.Linear
        self.classifier = nn.Sequential(
            linear(25088, 4096), nn.ReLU(), nn.Identity(), linear(4096, 4096), nn.ReLU(), nn.Identity(), linear(4096, 1000)
        )

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


BACK_END = [512, 512, 512, 256, 128, 64]


class CsrNet(nn.Module):
    def __init__(self):
        super().__init__()
        plan = [64] * 2 + [POOL] + [128] * 2 + [POOL] + [256] * 3 + [POOL] + [512] * 3
        self.frontend = stack(plan, 3)
        self.backend = stack(BACK_END, 512, 2)
        self.output_layer = nn.Conv2d(64, 1, 1)

    def forward(self, x):
        return self.output_layer(self.backend(self.frontend(x)))


def csrnet_pet():
    return stack(BACK_END, 512, 2, bias=False)


class Fire(nn.Module):
    def __init__(self, cin, squeeze, expand):
        super().__init__()
        self.squeeze = nn.Conv2d(cin, squeeze, 1)
        self.expand1x1 = nn.Conv2d(squeeze, expand, 1)
        self.expand3x3 = nn.Conv2d(squeeze, expand, 3, padding=1)

    def forward(self, x):
        x = F.relu(self.squeeze(x))
        return torch.cat([F.relu(self.expand1x1(x)), F.relu(self.expand3x3(x))], 1)


class SqueezeNet(nn.Module):
    def __init__(self):
        super().__init__()
        pool = lambda: nn.MaxPool2d(3, 2, ceil_mode=True)
        fires = [Fire(*a) for a in [(64, 16, 64), (128, 16, 64), (128, 32, 128), (256, 32, 128)]]
        fires += [Fire(*a) for a in [(256, 48, 192), (384, 48, 192), (384, 64, 256), (512, 64, 256)]]
        head = [nn.Conv2d(3, 64, 3, 2), nn.ReLU(), pool()]
        self.features = nn.Sequential(*head, *fires[:2], pool(), *fires[2:4], pool(), *fires[4:])
        self.classifier = nn.Sequential(nn.Identity(), nn.Conv2d(512, 1000, 1), nn.ReLU())

    def forward(self, x):
        return self.classifier(self.features(x)).mean((2, 3))


# --- Inception-v3 ---


class Basic(nn.Module):
    def __init__(self, cin, cout, kernel, stride=1, pad=0):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, kernel, stride, pad, bias=False)
        self.bn = nn.BatchNorm2d(cout, eps=1e-3)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


class Mixed(nn.Module):
    """Branches side by side. Each is a list of steps: (name, channels, kernel, stride, pad), a function, or a fork (list of steps)."""

    def __init__(self, cin, branches):
        super().__init__()
        self.branches, self.channels = branches, 0
        for branch in branches:
            c = cin
            for step in branch:
                if isinstance(step, tuple):
                    self.add_module(step[0], Basic(c, *step[1:]))
                    c = step[1]
                elif isinstance(step, list):
                    for s in step:
                        self.add_module(s[0], Basic(c, *s[1:]))
                    c = sum(s[1] for s in step)
            self.channels += c

    def forward(self, x):
        results = []
        for branch in self.branches:
            y = x
            for step in branch:
                if isinstance(step, tuple):
                    y = getattr(self, step[0])(y)
                elif isinstance(step, list):
                    y = torch.cat([getattr(self, s[0])(y) for s in step], 1)
                else:
                    y = step(y)
            results.append(y)
        return torch.cat(results, 1)


def smooth(x):
    return F.avg_pool2d(x, 3, 1, 1)


def shrink(x):
    return F.max_pool2d(x, 3, 2)


ROW7, COLUMN7 = ((1, 7), 1, (0, 3)), ((7, 1), 1, (3, 0))
ROW3, COLUMN3 = ((1, 3), 1, (0, 1)), ((3, 1), 1, (1, 0))


def mixed_a(cin, pool):
    twice = [("branch3x3dbl_1", 64, 1), ("branch3x3dbl_2", 96, 3, 1, 1), ("branch3x3dbl_3", 96, 3, 1, 1)]
    five = [("branch5x5_1", 48, 1), ("branch5x5_2", 64, 5, 1, 2)]
    return Mixed(cin, [[("branch1x1", 64, 1)], five, twice, [smooth, ("branch_pool", pool, 1)]])


def mixed_b(cin):
    twice = [("branch3x3dbl_1", 64, 1), ("branch3x3dbl_2", 96, 3, 1, 1), ("branch3x3dbl_3", 96, 3, 2)]
    return Mixed(cin, [[("branch3x3", 384, 3, 2)], twice, [shrink]])


def mixed_c(cin, c):
    seven = [("branch7x7_1", c, 1), ("branch7x7_2", c, *ROW7), ("branch7x7_3", 192, *COLUMN7)]
    twice = [("branch7x7dbl_1", c, 1), ("branch7x7dbl_2", c, *COLUMN7), ("branch7x7dbl_3", c, *ROW7)]
    twice += [("branch7x7dbl_4", c, *COLUMN7), ("branch7x7dbl_5", 192, *ROW7)]
    return Mixed(cin, [[("branch1x1", 192, 1)], seven, twice, [smooth, ("branch_pool", 192, 1)]])


def mixed_d(cin):
    three = [("branch3x3_1", 192, 1), ("branch3x3_2", 320, 3, 2)]
    seven = [("branch7x7x3_1", 192, 1), ("branch7x7x3_2", 192, *ROW7), ("branch7x7x3_3", 192, *COLUMN7)]
    return Mixed(cin, [three, seven + [("branch7x7x3_4", 192, 3, 2)], [shrink]])


def mixed_e(cin):
    three = [("branch3x3_1", 384, 1), [("branch3x3_2a", 384, *ROW3), ("branch3x3_2b", 384, *COLUMN3)]]
    twice = [("branch3x3dbl_1", 448, 1), ("branch3x3dbl_2", 384, 3, 1, 1)]
    twice += [[("branch3x3dbl_3a", 384, *ROW3), ("branch3x3dbl_3b", 384, *COLUMN3)]]
    return Mixed(cin, [[("branch1x1", 320, 1)], three, twice, [smooth, ("branch_pool", 192, 1)]])


class InceptionV3(nn.Module):
    def __init__(self):
        super().__init__()
        stem = dict(Conv2d_1a_3x3=Basic(3, 32, 3, 2), Conv2d_2a_3x3=Basic(32, 32, 3), Conv2d_2b_3x3=Basic(32, 64, 3, 1, 1))
        stem |= dict(maxpool1=nn.MaxPool2d(3, 2), Conv2d_3b_1x1=Basic(64, 80, 1), Conv2d_4a_3x3=Basic(80, 192, 3))
        self.steps = dict(stem, maxpool2=nn.MaxPool2d(3, 2))
        c = 192
        blocks = [("5b", mixed_a, 32), ("5c", mixed_a, 64), ("5d", mixed_a, 64), ("6a", mixed_b), ("6b", mixed_c, 128)]
        blocks += [("6c", mixed_c, 160), ("6d", mixed_c, 160), ("6e", mixed_c, 192), ("7a", mixed_d), ("7b", mixed_e), ("7c", mixed_e)]
        for name, make, *args in blocks:
            block = make(c, *args)
            self.steps[f"Mixed_{name}"] = block
            c = block.channels
        for name, module in self.steps.items():
            self.add_module(name, module)
        self.fc = nn.Linear(2048, 1000)

    def forward(self, x):
        for step in self.steps.values():
            x = step(x)
        return self.fc(x.mean((2, 3)))


# --- MobileNet-V2 ---


def conv_bn_relu6(cin, cout, kernel, stride=1, groups=1):
    conv = nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(cout), nn.ReLU6())


class InvertedResidual(nn.Module):
    def __init__(self, cin, cout, stride, expansion):
        super().__init__()
        hidden = cin * expansion
        layers = [conv_bn_relu6(cin, hidden, 1)] if expansion != 1 else []
        layers += [conv_bn_relu6(hidden, hidden, 3, stride, hidden)]
        self.conv = nn.Sequential(*layers, nn.Conv2d(hidden, cout, 1, bias=False), nn.BatchNorm2d(cout))
        self.residual = stride == 1 and cin == cout

    def forward(self, x):
        return x + self.conv(x) if self.residual else self.conv(x)


class MobileNetV2(nn.Module):
    def __init__(self):
        super().__init__()
        layers, c = [conv_bn_relu6(3, 32, 3, 2)], 32
        stages = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
        for expansion, cout, count, stride in stages:
            for i in range(count):
                layers.append(InvertedResidual(c, cout, stride if i == 0 else 1, expansion))
                c = cout
        self.features = nn.Sequential(*layers, conv_bn_relu6(320, 1280, 1))
        self.classifier = nn.Sequential(nn.Identity(), nn.Linear(1280, 1000))

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


# --- NASNet-A ---


def same_pads(x, kernel, stride, odd_before=False):
    """For F.pad: borders for ceil(size / stride) outputs; the odd one behind, or before."""
    pads = []
    for size in (x.shape[3], x.shape[2]):
        total = max(0, (-(-size // stride) - 1) * stride + kernel - size)
        before = (total + 1) // 2 if odd_before else total // 2
        pads += [before, total - before]
    return pads


def same_max(x, stride, odd_before=False):
    return F.max_pool2d(F.pad(x, same_pads(x, 3, stride, odd_before), value=-math.inf), 3, stride)


def same_average(x, stride, odd_before=False):
    """Borders do not count."""
    pads = same_pads(x, 3, stride, odd_before)
    sums = F.avg_pool2d(F.pad(x, pads), 3, stride)
    return sums / F.avg_pool2d(F.pad(torch.ones_like(x), pads), 3, stride)


class SameConv(nn.Conv2d):
    def __init__(self, cin, cout, kernel, stride=1, groups=1, odd_before=False):
        super().__init__(cin, cout, kernel, stride, groups=groups, bias=False)
        self.odd_before = odd_before

    def forward(self, x):
        return super().forward(F.pad(x, same_pads(x, self.kernel_size[0], self.stride[0], self.odd_before)))


def bn(c):
    return nn.BatchNorm2d(c, eps=1e-3)


def depthwise_pointwise(cin, cout, kernel, stride):
    return seq(depthwise_conv2d=SameConv(cin, cin, kernel, stride, cin), pointwise_conv2d=nn.Conv2d(cin, cout, 1, bias=False))


class Separable(nn.Module):
    def __init__(self, cin, cout, kernel, stride=1):
        super().__init__()
        self.separable_1, self.bn_sep_1 = depthwise_pointwise(cin, cout, kernel, stride), bn(cout)
        self.separable_2, self.bn_sep_2 = depthwise_pointwise(cout, cout, kernel, 1), bn(cout)

    def forward(self, x):
        x = self.bn_sep_1(self.separable_1(F.relu(x)))
        return self.bn_sep_2(self.separable_2(F.relu(x)))


def squeeze(cin, cout):
    return seq(relu=nn.ReLU(), conv=nn.Conv2d(cin, cout, 1, bias=False), bn=bn(cout))


class Cell(nn.Module):
    """`halve`: the previous output is twice as large and is reduced by two shifted reads."""

    def __init__(self, previous, current, width, halve):
        super().__init__()
        self.conv_1x1 = squeeze(current, width)
        self.halve, self.has_previous = halve, previous > 0
        if halve:
            self.path_1 = seq(conv=nn.Conv2d(previous, width // 2, 1, bias=False))
            self.path_2 = seq(conv=nn.Conv2d(previous, width - width // 2, 1, bias=False))
            self.final_path_bn = bn(width)
        elif previous:
            self.conv_prev_1x1 = squeeze(previous, width)

    def fit(self, p):
        if not self.halve:
            return self.conv_prev_1x1(p)
        p = F.relu(p)
        shifted = F.pad(p, (0, 1, 0, 1))[:, :, 1:, 1:]
        return self.final_path_bn(torch.cat([self.path_1(p[:, :, ::2, ::2]), self.path_2(shifted[:, :, ::2, ::2])], 1))


class NormalCell(Cell):
    def __init__(self, previous, current, width, halve=False):
        super().__init__(previous, current, width, halve)
        self.comb_iter_0_left, self.comb_iter_0_right = Separable(width, width, 5), Separable(width, width, 3)
        self.comb_iter_1_left, self.comb_iter_1_right = Separable(width, width, 5), Separable(width, width, 3)
        self.comb_iter_4_left = Separable(width, width, 3)

    def forward(self, previous, current):
        p, c = self.fit(previous), self.conv_1x1(current)
        y0 = self.comb_iter_0_left(c) + self.comb_iter_0_right(p)
        y1 = self.comb_iter_1_left(p) + self.comb_iter_1_right(p)
        y2 = same_average(c, 1) + p
        y3 = same_average(p, 1) * 2
        y4 = self.comb_iter_4_left(c) + c
        return torch.cat([p, y0, y1, y2, y3, y4], 1)


class ReductionCell(Cell):
    def __init__(self, previous, current, width, halve=False):
        super().__init__(previous, current, width, halve)
        p = width if previous else current
        self.comb_iter_0_left, self.comb_iter_0_right = Separable(width, width, 5, 2), Separable(p, width, 7, 2)
        self.comb_iter_1_right, self.comb_iter_2_right = Separable(p, width, 7, 2), Separable(p, width, 5, 2)
        self.comb_iter_4_left = Separable(width, width, 3)

    def forward(self, previous, current):
        p, c = self.fit(previous) if self.has_previous else current, self.conv_1x1(current)
        y0 = self.comb_iter_0_left(c) + self.comb_iter_0_right(p)
        y1 = same_max(c, 2) + self.comb_iter_1_right(p)
        y2 = same_average(c, 2) + self.comb_iter_2_right(p)
        y3 = same_average(y0, 1) + y1
        y4 = self.comb_iter_4_left(y0) + same_max(c, 2)
        return torch.cat([y1, y2, y3, y4], 1)


class NasNetA(nn.Module):
    def __init__(self):
        super().__init__()
        f = 44
        self.conv0 = seq(conv=nn.Conv2d(3, 32, 3, 2, bias=False), bn=bn(32))
        self.cell_stem_0 = ReductionCell(0, 32, f // 4)
        self.cell_stem_1 = ReductionCell(32, f, f // 2, halve=True)
        self.order, previous, current, number = [], f, 2 * f, 0
        for stage in range(3):
            width = f << stage
            for i in range(4):
                self.order.append(f"cell_{number}")
                self.add_module(self.order[-1], NormalCell(previous, current, width, halve=i == 0))
                previous, current, number = current, 6 * width, number + 1
            if stage < 2:
                self.order.append(f"reduction_cell_{stage}")
                self.add_module(self.order[-1], ReductionCell(previous, current, 2 * width))
                previous, current = current, 8 * width
        self.last_linear = nn.Linear(24 * f, 1000)

    def forward(self, x):
        x = self.conv0(x)
        previous = self.cell_stem_0(None, x)
        current = self.cell_stem_1(x, previous)
        for name in self.order:
            previous, current = current, getattr(self, name)(previous, current)
        return self.last_linear(F.relu(current).mean((2, 3)))


class TensatSeparable(nn.Module):
    def __init__(self, c, kernel, stride=1):
        super().__init__()
        self.depthwise = SameConv(c, c, kernel, stride, c, odd_before=True)
        self.pointwise = nn.Conv2d(c, c, 1, bias=False)

    def forward(self, x):
        return self.pointwise(self.depthwise(x))


class TensatCell(nn.Module):
    def __init__(self, previous, current, width, reduction):
        super().__init__()
        self.current = nn.Conv2d(current, width, 1, bias=False)
        self.previous = nn.Conv2d(previous, width, 1, bias=False)
        kinds = [(7, 2), (5, 2), (7, 2), (5, 2), (3, 1)] if reduction else [(3, 1)] * 5
        self.separable = nn.ModuleList(TensatSeparable(width, *k) for k in kinds)
        self.reduction = reduction

    def forward(self, previous, current):
        c, p, sep = F.relu(self.current(current)), F.relu(self.previous(previous)), self.separable
        average, largest = lambda x, s: same_average(x, s, True), lambda x: same_max(x, 2, True)
        if self.reduction:
            y0 = sep[0](p) + sep[1](c)
            y1 = largest(c) + sep[2](p)
            y2 = average(c, 2) + sep[3](p)
            return torch.cat([y0, y1, y2, largest(c) + sep[4](y0), average(y0, 1) + y1], 1)
        y0, y1, y2 = sep[0](c) + c, sep[1](p) + sep[2](c), average(c, 1) + p
        return torch.cat([y0, y1, y2, average(p, 1) * 2, sep[3](p) + sep[4](p)], 1)


class NasNetATensat(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = seq(conv=SameConv(3, 64, 7, 2, odd_before=True))
        self.stage, channels, x = nn.ModuleList(), 128, 64
        for _ in range(3):
            previous, current, cells = x, x, nn.ModuleList()
            for _ in range(5):
                cells.append(TensatCell(previous, current, channels, False))
                previous, current = current, 5 * channels
            channels *= 2
            reduction = TensatCell(previous, current, channels, True)
            self.stage.append(nn.ModuleDict({"normal": cells, "reduction": reduction}))
            x = 5 * channels

    def forward(self, x):
        x = same_max(F.relu(self.stem(x)), 2, True)
        for stage in self.stage:
            previous = current = x
            for cell in stage["normal"]:
                previous, current = current, cell(previous, current)
            x = stage["reduction"](previous, current)
        return x


# --- recurrent ---


def weights(*shape):
    return nn.Parameter(torch.empty(*shape))


class NasRnn(nn.Module):
    def __init__(self, steps=5, hidden=512):
        super().__init__()
        self.state = weights(1, hidden)
        matrices = lambda: nn.ParameterList(weights(hidden, hidden) for _ in range(8))
        self.step = nn.ModuleList(nn.ModuleDict({"w": matrices(), "v": matrices()}) for _ in range(steps))

    def forward(self, *xs):
        h = self.state
        for x, cell in zip(xs, self.step):
            t = [x @ w + h @ v for w, v in zip(cell["w"], cell["v"])]
            sigmoid, tanh = torch.sigmoid, torch.tanh
            a, b = F.relu(t[0]) + sigmoid(t[3]), sigmoid(t[1]) + tanh(t[2])
            c, d = sigmoid(t[4]) * tanh(t[5]), sigmoid(t[6]) * F.relu(t[7])
            h = tanh(tanh(sigmoid(b) + tanh(c)) * tanh(tanh(a) * tanh(d)))
        return h


# --- transformers ---


class BertAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.add_module("self", seq(**{n: nn.Linear(width, width) for n in ("query", "key", "value")}))
        self.output = seq(dense=nn.Linear(width, width), LayerNorm=nn.LayerNorm(width, eps=1e-12))

    def forward(self, x, mask):
        parts = getattr(self, "self")
        q, k, v = (f(x).unflatten(2, (self.heads, -1)).transpose(1, 2) for f in (parts.query, parts.key, parts.value))
        scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1]) + mask
        y = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        return self.output.LayerNorm(self.output.dense(y) + x)


class BertLayer(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.attention = BertAttention(width, heads)
        self.intermediate = seq(dense=nn.Linear(width, inner))
        self.output = seq(dense=nn.Linear(inner, width), LayerNorm=nn.LayerNorm(width, eps=1e-12))

    def forward(self, x, mask):
        x = self.attention(x, mask)
        return self.output.LayerNorm(self.output.dense(F.gelu(self.intermediate.dense(x))) + x)


class Bert(nn.Module):
    def __init__(self, width, heads, inner, layers):
        super().__init__()
        tables = dict(word_embeddings=nn.Embedding(30522, width), position_embeddings=nn.Embedding(512, width))
        tables |= dict(token_type_embeddings=nn.Embedding(2, width), LayerNorm=nn.LayerNorm(width, eps=1e-12))
        self.embeddings = seq(**tables)
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(BertLayer(width, heads, inner) for _ in range(layers))})
        self.pooler = seq(dense=nn.Linear(width, width))

    def forward(self, ids, mask, kinds):
        e = self.embeddings
        x = e.word_embeddings(ids) + e.token_type_embeddings(kinds) + e.position_embeddings(torch.arange(ids.shape[1]))
        x = e.LayerNorm(x)
        mask = (1.0 - mask[:, None, None, :].float()) * torch.finfo(torch.float32).min
        for layer in self.encoder["layer"]:
            x = layer(x, mask)
        return x, torch.tanh(self.pooler.dense(x[:, 0]))


class Matrix(nn.Module):
    """A weight multiplied as it is."""

    def __init__(self, width):
        super().__init__()
        self.weight = weights(width, width)

    def forward(self, x):
        return x @ self.weight


class BertTensat(nn.Module):
    def __init__(self, layers=8):
        super().__init__()
        names = ("query", "key", "value", "linear")
        self.layer = nn.ModuleList(nn.ModuleDict({n: Matrix(1024) for n in names}) for _ in range(layers))

    def forward(self, x):
        x, outputs = F.relu(x), []
        for layer in self.layer:
            q, k, v = (layer[n](x).reshape(64, 16, 64).transpose(0, 1) for n in ("query", "key", "value"))
            outputs.append((q @ k @ v).transpose(0, 1).reshape(64, 1024))
            x = layer["linear"](x)
        return (*outputs, x)


class BertPet(nn.Module):
    def __init__(self, layers=12):
        super().__init__()
        linear = lambda bias: nn.Linear(768, 768, bias)
        make = lambda: seq(q=linear(False), k=linear(False), v=linear(False), ff1=linear(True), ff2=linear(True))
        self.layers = nn.Sequential(*(make() for _ in range(layers)))

    def forward(self, x):
        for layer in self.layers:
            q, k, v = (f(x).unflatten(2, (12, 64)).transpose(1, 2) for f in (layer.q, layer.k, layer.v))
            y = ((q @ k.transpose(2, 3)).softmax(3) @ v).transpose(1, 2).flatten(2)
            x = x + F.relu(layer.ff2(F.relu(layer.ff1(y))))
        return x


class VitLayer(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.self_attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Identity(), nn.Linear(inner, width))

    def forward(self, x):
        y = self.ln_1(x)
        x = x + self.self_attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class VitB16(nn.Module):
    def __init__(self, size=224, layers=12):
        super().__init__()
        width = 768
        self.class_token = weights(1, 1, width)
        self.conv_proj = nn.Conv2d(3, width, 16, 16)
        self.encoder = nn.Module()
        self.encoder.pos_embedding = weights(1, (size // 16) ** 2 + 1, width)
        self.encoder.layers = seq(**{f"encoder_layer_{i}": VitLayer(width, 12, 3072) for i in range(layers)})
        self.encoder.ln = nn.LayerNorm(width, eps=1e-6)
        self.heads = seq(head=nn.Linear(width, 1000))

    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(x.shape[0], -1, -1), x], 1) + self.encoder.pos_embedding
        return self.heads(self.encoder.ln(self.encoder.layers(x))[:, 0])


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = weights(width)

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class LlamaBlock(nn.Module):
    def __init__(self, width=2048, heads=32, key_heads=8, inner=8192):
        super().__init__()
        self.heads, self.key_heads, self.each = heads, key_heads, width // heads
        linear = lambda a, b: nn.Linear(a, b, bias=False)
        self.input_layernorm, self.post_attention_layernorm = RmsNorm(width), RmsNorm(width)
        keys = key_heads * self.each
        self.self_attn = seq(q_proj=linear(width, width), k_proj=linear(width, keys), v_proj=linear(width, keys), o_proj=linear(width, width))
        self.mlp = seq(gate_proj=linear(width, inner), up_proj=linear(width, inner), down_proj=linear(inner, width))

    def rotated(self, x):
        half = self.each // 2
        angle = torch.arange(x.shape[2], dtype=torch.float64)[:, None] * 500000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
        cos, sin = angle.cos().float(), angle.sin().float()
        low, high = x[..., :half], x[..., half:]
        return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)

    def forward(self, x):
        a, y = self.self_attn, self.input_layernorm(x)
        q = self.rotated(a.q_proj(y).unflatten(2, (self.heads, -1)).transpose(1, 2))
        k = self.rotated(a.k_proj(y).unflatten(2, (self.key_heads, -1)).transpose(1, 2))
        v = a.v_proj(y).unflatten(2, (self.key_heads, -1)).transpose(1, 2)
        k, v = (t.repeat_interleave(self.heads // self.key_heads, 1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + a.o_proj(y)
        y = self.post_attention_layernorm(x)
        return x + self.mlp.down_proj(F.silu(self.mlp.gate_proj(y)) * self.mlp.up_proj(y))


class Tour(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.fc = nn.Conv2d(2, 2, 1, bias=False), nn.BatchNorm2d(2), nn.Linear(2, 3)

    def forward(self, x):
        return self.fc(F.relu(self.bn(self.conv(x))).mean((2, 3)))


# --- twins ---

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
