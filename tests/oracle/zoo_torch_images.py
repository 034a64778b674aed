"""The zoo in PyTorch: networks for images."""
import torch
import torch.nn.functional as F
from torch import nn


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
