"""The zoo in PyTorch: NASNet-A, and as TENSAT runs it."""
import math

import torch
import torch.nn.functional as F
from torch import nn
from zoo_torch_parts import seq


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
