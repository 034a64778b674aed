"""Networks over images: classifiers, U-Nets, detectors, windows of attention, warps, resizes."""
import torch
import torch.nn.functional as F
from spec import export
from torch import nn

N = [1, 2, 3, 5, 8]
EVEN = [16, 20, 24, 36, 40]
WIDE = [32, 48, 16, 64, 80]
ODD = [17, 24, 31, 40, 53]


def block(a, b, stride=1, groups=1):
    return nn.Sequential(nn.Conv2d(a, b, 3, stride, 1, groups=groups, bias=False), nn.BatchNorm2d(b), nn.ReLU())


@export("cnn", "x:f32[N,3,24,24]", {"N": N}, "legacy-11 dynamo-18")
class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(block(3, 8), nn.MaxPool2d(2), block(8, 16), nn.MaxPool2d(2))
        self.head = nn.Sequential(nn.Linear(16 * 36, 24), nn.ReLU(), nn.Dropout(), nn.Linear(24, 10))

    def forward(self, x):
        x = self.features(x)
        return F.log_softmax(self.head(x.view(x.size(0), -1)), dim=1)


class Residual(nn.Module):
    def __init__(self, a, b, stride):
        super().__init__()
        self.one, self.two = block(a, b, stride), nn.Sequential(nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b))
        self.skip = nn.Sequential(nn.Conv2d(a, b, 1, stride, bias=False), nn.BatchNorm2d(b)) if stride > 1 or a != b else nn.Identity()

    def forward(self, x):
        return F.relu(self.two(self.one(x)) + self.skip(x))


@export("resnet", "image:f32[N,3,H,W]", {"N": N, "H": ODD, "W": EVEN}, "legacy-13 dynamo-20")
class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.layers = nn.Sequential(Residual(8, 8, 1), Residual(8, 16, 2))
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        x = self.layers(self.stem(x))
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


class MbConv(nn.Module):
    """Expansion, depthwise convolution, squeeze and excitation, projection."""

    def __init__(self, a, b, stride):
        super().__init__()
        wide = 2 * a
        self.expand = nn.Sequential(nn.Conv2d(a, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.Hardswish())
        self.depth = nn.Sequential(nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.SiLU())
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(wide, 4, 1), nn.SiLU(), nn.Conv2d(4, wide, 1), nn.Sigmoid())
        self.project = nn.Sequential(nn.Conv2d(wide, b, 1, bias=False), nn.BatchNorm2d(b))
        self.same = stride == 1 and a == b

    def forward(self, x):
        y = self.depth(self.expand(x))
        y = self.project(y * self.squeeze(y))
        return x + y if self.same else y


@export("efficientnet", "x:f32[N,3,H,W]", {"N": N, "H": EVEN, "W": ODD}, "legacy-14 dynamo-21")
class EfficientNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.SiLU())
        self.blocks = nn.Sequential(MbConv(8, 8, 1), MbConv(8, 16, 2), MbConv(16, 16, 1))
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        return self.fc(self.blocks(self.stem(x)).mean([2, 3]))


@export("unet_deconv", "x:f32[N,1,H,W]", {"N": N, "H": EVEN, "W": WIDE}, "legacy-11 dynamo-18")
class UNetDeconv(nn.Module):
    def __init__(self):
        super().__init__()
        self.d1, self.d2, self.mid = block(1, 8), block(8, 16), block(16, 16)
        self.u2, self.u1 = nn.ConvTranspose2d(16, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)
        self.c2, self.c1, self.out = block(32, 16), block(16, 8), nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        y = self.mid(F.max_pool2d(b, 2))
        y = self.c2(torch.cat([b, self.u2(y)], 1))
        return self.out(self.c1(torch.cat([a, self.u1(y)], 1)))


@export("unet_resize", "x:f32[N,3,H,W]", {"N": N, "H": EVEN, "W": WIDE}, "legacy-12 dynamo-19")
class UNetResize(nn.Module):
    def __init__(self):
        super().__init__()
        self.d1, self.d2, self.mid = block(3, 8), block(8, 16), block(16, 16)
        self.c2, self.c1, self.out = block(32, 8), block(16, 8), nn.Conv2d(8, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.avg_pool2d(a, 2))
        y = self.mid(F.avg_pool2d(b, 2))
        y = self.c2(torch.cat([F.interpolate(y, scale_factor=2, mode="nearest"), b], 1))
        y = self.c1(torch.cat([F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False), a], 1))
        return torch.sigmoid(self.out(y))


@export("fpn", "x:f32[N,3,H,W]", {"N": N, "H": ODD, "W": EVEN}, "legacy-16 dynamo-20", outputs=("p2", "p3", "p4"))
class Fpn(nn.Module):
    """Upsampled to the size that the other branch has, whatever that is."""

    def __init__(self):
        super().__init__()
        self.c2, self.c3, self.c4 = block(3, 8, 2), block(8, 12, 2), block(12, 16, 2)
        self.l2, self.l3, self.l4 = (nn.Conv2d(c, 8, 1) for c in (8, 12, 16))
        self.smooth = nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x):
        c2 = self.c2(x)
        c3 = self.c3(c2)
        c4 = self.c4(c3)
        p4 = self.l4(c4)
        p3 = self.l3(c3) + F.interpolate(p4, size=c3.shape[-2:], mode="nearest")
        p2 = self.l2(c2) + F.interpolate(p3, size=c2.shape[-2:], mode="nearest")
        return self.smooth(p2), self.smooth(p3), self.smooth(p4)


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.depth, self.norm = nn.Conv2d(c, c, 7, padding=3, groups=c), nn.LayerNorm(c)
        self.up, self.down, self.scale = nn.Linear(c, 4 * c), nn.Linear(4 * c, c), nn.Parameter(torch.rand(c))

    def forward(self, x):
        y = self.norm(self.depth(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)


@export("convnext", "pixel_values:f32[N,3,H,W]", {"N": N, "H": [32, 36, 45, 64, 51], "W": WIDE}, "legacy-17 dynamo-20")
class ConvNext(nn.Module):
    """A stem of 4x4 with stride 4, as PatchTST's cousins over images have it."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 4, 4), LayerNorm2d(16))
        self.one, self.two = ConvNextBlock(16), ConvNextBlock(16)
        self.norm, self.fc = nn.LayerNorm(16), nn.Linear(16, 10)

    def forward(self, x):
        x = self.two(self.one(self.stem(x)))
        return self.fc(self.norm(x.mean([-2, -1])))


class WindowAttention(nn.Module):
    def __init__(self, c, window, heads, shift):
        super().__init__()
        self.window, self.heads, self.shift = window, heads, shift
        self.norm, self.qkv, self.out = nn.LayerNorm(c), nn.Linear(c, 3 * c), nn.Linear(c, c)
        self.bias = nn.Parameter(torch.randn(heads, window**2, window**2) * 0.1)

    def forward(self, x):
        b, h, w, c = x.shape
        k = self.window
        y = self.norm(x)
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), (1, 2))
        y = y.view(b, h // k, k, w // k, k, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, k * k, c)
        q, key, v = self.qkv(y).reshape(-1, k * k, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        y = ((q @ key.transpose(-1, -2)) * (c // self.heads) ** -0.5 + self.bias).softmax(-1) @ v
        y = self.out(y.transpose(1, 2).reshape(-1, k * k, c))
        y = y.view(b, h // k, w // k, k, k, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        return x + y


@export("swin", "x:f32[N,3,H,W]", {"N": N, "H": [32, 48, 64, 16, 80], "W": WIDE}, "legacy-16 dynamo-20")
class Swin(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 4, 4)
        self.one, self.two = WindowAttention(16, 4, 2, 0), WindowAttention(16, 4, 2, 2)
        self.fc = nn.Linear(16, 6)

    def forward(self, x):
        x = self.stem(x).permute(0, 2, 3, 1)
        return self.fc(self.two(self.one(x)).mean((1, 2)))


@export("ssd", "image:f32[N,3,H,W]", {"N": N, "H": EVEN, "W": ODD}, "legacy-13 dynamo-20", outputs=("scores", "boxes"))
class Ssd(nn.Module):
    """Heads over two levels, laid out as one list of anchors."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Sequential(block(3, 8, 2), block(8, 16, 2)), block(16, 16, 2)
        self.scores = nn.ModuleList(nn.Conv2d(16, 3 * 5, 3, padding=1) for _ in range(2))
        self.boxes = nn.ModuleList(nn.Conv2d(16, 3 * 4, 3, padding=1) for _ in range(2))

    def forward(self, x):
        a = self.one(x)
        levels = [a, self.two(a)]
        flat = lambda y, c: y.permute(0, 2, 3, 1).reshape(y.size(0), -1, c)
        scores = torch.cat([flat(head(y), 5) for head, y in zip(self.scores, levels)], 1)
        boxes = torch.cat([flat(head(y), 4) for head, y in zip(self.boxes, levels)], 1)
        return scores.softmax(-1), boxes


@export("yolo", "images:f32[N,3,H,W]", {"N": N, "H": WIDE, "W": EVEN[1:] + [44]}, "legacy-17 dynamo-20")
class Yolo(nn.Module):
    """Decodes boxes by a grid that is made of the sizes of the maps."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.SiLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.SiLU())
        self.head = nn.Conv2d(16, 2 * 7, 1)
        self.register_buffer("anchors", torch.tensor([[10.0, 13.0], [33.0, 23.0]]).view(1, 2, 1, 1, 2))

    def forward(self, x):
        y = self.head(self.body(x))
        n, _, h, w = y.shape
        y = y.view(n, 2, 7, h, w).permute(0, 1, 3, 4, 2)
        rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        grid = torch.stack((columns, rows), -1).view(1, 1, h, w, 2).float()
        xy = (y[..., :2].sigmoid() * 2 - 0.5 + grid) * 4
        wh = (y[..., 2:4].sigmoid() * 2) ** 2 * self.anchors
        return torch.cat((xy, wh, y[..., 4:].sigmoid()), -1).view(n, -1, 7)


@export("flow_warp", "image:f32[N,3,H,W] flow:f32[N,2,H,W]", {"N": N, "H": ODD, "W": EVEN}, "legacy-16 dynamo-20")
class FlowWarp(nn.Module):
    def forward(self, image, flow):
        n, _, h, w = image.shape
        ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        x = 2 * (xs.float() + flow[:, 0]) / (w - 1) - 1
        y = 2 * (ys.float() + flow[:, 1]) / (h - 1) - 1
        return F.grid_sample(image, torch.stack((x, y), -1), mode="bilinear", padding_mode="border", align_corners=True)


@export("super_resolution", "x:f32[N,1,H,W]", {"N": N, "H": ODD, "W": EVEN}, "legacy-11 dynamo-18")
class SuperResolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 16, 5, padding=2), nn.Tanh(), nn.Conv2d(16, 8, 3, padding=1), nn.Tanh(), nn.Conv2d(8, 9, 3, padding=1))

    def forward(self, x):
        return F.pixel_shuffle(self.body(x), 3)


@export("vit", "x:f32[N,3,24,24]", {"N": N}, "legacy-14 dynamo-21")
class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches, self.token = nn.Conv2d(3, 24, 8, 8), nn.Parameter(torch.randn(1, 1, 24))
        self.place = nn.Parameter(torch.randn(1, 10, 24) * 0.1)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(24, 2, 48, 0.0, "gelu", batch_first=True, norm_first=True) for _ in range(2))
        self.norm, self.fc = nn.LayerNorm(24), nn.Linear(24, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.place
        for layer in self.blocks:
            x = layer(x)
        return self.fc(self.norm(x)[:, 0])


@export("video", "clip:f32[N,3,T,16,16]", {"N": N, "T": [8, 4, 6, 10, 12]}, "legacy-15 dynamo-21")
class Video(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv3d(3, 8, 3, (1, 2, 2), 1), nn.BatchNorm3d(8), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(8, 12, (3, 1, 1), padding=(1, 0, 0)), nn.ReLU())
        self.fc = nn.Linear(12, 5)

    def forward(self, x):
        return self.fc(self.body(x).mean((2, 3, 4)))


@export("deeplab", "x:f32[N,3,H,W]", {"N": N, "H": EVEN, "W": WIDE}, "legacy-12 dynamo-18")
class DeepLab(nn.Module):
    """Dilated branches and the image's mean, resized back to the input."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(block(3, 8, 2), block(8, 16, 2))
        self.branches = nn.ModuleList([nn.Conv2d(16, 6, 1), nn.Conv2d(16, 6, 3, padding=2, dilation=2), nn.Conv2d(16, 6, 3, padding=3, dilation=3)])
        self.pooled, self.out = nn.Conv2d(16, 6, 1), nn.Conv2d(24, 4, 1)

    def forward(self, x):
        y = self.body(x)
        parts = [F.relu(b(y)) for b in self.branches]
        mean = F.relu(self.pooled(F.adaptive_avg_pool2d(y, 1)))
        parts.append(F.interpolate(mean, size=y.shape[-2:], mode="bilinear", align_corners=False))
        return F.interpolate(self.out(torch.cat(parts, 1)), size=x.shape[-2:], mode="bilinear", align_corners=False)


@export("crowd", "x:f32[1,3,H,W]", {"H": WIDE, "W": EVEN}, "legacy-13")
class Crowd(nn.Module):
    def __init__(self):
        super().__init__()
        layers, c = [], 3
        for width, dilation in ((8, 1), (8, 2), (12, 2), (8, 2)):
            layers += [nn.Conv2d(c, width, 3, padding=dilation, dilation=dilation), nn.ReLU()]
            c = width
        self.body = nn.Sequential(*layers, nn.Conv2d(c, 1, 1))

    def forward(self, x):
        density = self.body(x)
        return density.sum((1, 2, 3)), density


@export("style", "x:f32[1,3,H,W]", {"H": [20, 24, 32, 40, 44], "W": WIDE}, "legacy-11 dynamo-18")
class Style(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.ReflectionPad2d(4), nn.Conv2d(3, 8, 9), nn.InstanceNorm2d(8, affine=True), nn.ReLU(), nn.ReflectionPad2d(1), nn.Conv2d(8, 12, 3, 2))
        self.up = nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(12, 3, 3))
        self.norm = nn.InstanceNorm2d(12, affine=True)

    def forward(self, x):
        return torch.tanh(self.up(F.interpolate(F.relu(self.norm(self.down(x))), scale_factor=2, mode="nearest")))


@export("diffusion", "x:f32[N,4,H,W] t:f32[N] context:f32[N,S,16]", {"N": N, "H": [8, 10, 12, 6, 4], "W": [8, 6, 12, 14, 10], "S": [7, 3, 5, 9, 4]}, "legacy-17 dynamo-20")
class Diffusion(nn.Module):
    """A block of a denoiser: time by sines, group norms, attention over what the prompt says."""

    def __init__(self):
        super().__init__()
        self.inner, self.time = nn.Conv2d(4, 16, 3, padding=1), nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 16))
        self.norm1, self.conv1 = nn.GroupNorm(4, 16), nn.Conv2d(16, 16, 3, padding=1)
        self.norm2, self.q = nn.GroupNorm(4, 16), nn.Linear(16, 16)
        self.k, self.v, self.o, self.out = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16), nn.Conv2d(16, 4, 1)
        self.register_buffer("frequencies", torch.exp(-torch.arange(8).float() * 0.6))

    def forward(self, x, t, context):
        angles = t[:, None] * self.frequencies
        time = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        x = self.inner(x)
        x = x + self.conv1(F.silu(self.norm1(x))) + time[:, :, None, None]
        b, c, h, w = x.shape
        y = self.norm2(x).flatten(2).transpose(1, 2)
        heads = lambda z: z.view(b, -1, 2, 8).transpose(1, 2)
        y = F.scaled_dot_product_attention(heads(self.q(y)), heads(self.k(context)), heads(self.v(context)))
        y = self.o(y.transpose(1, 2).reshape(b, h * w, c))
        return self.out(x + y.transpose(1, 2).reshape(b, c, h, w))
