"""Image classification networks in torch, layer by layer as in their papers, for 1,000 classes.

Only the computation matters here, so they are untrained: a network with random weights takes as long as a trained
one. torchvision has the same networks, but brings decoders of pictures and video with it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


def _norm(inside: int, outside: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """Convolution and batch normalisation."""
    padding = (kernel - 1) // 2
    conv = nn.Conv2d(inside, outside, kernel, stride, padding, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(outside)]


class _Sum(nn.Module):
    """The input, maybe brought to another shape, plus what the layers make of it."""

    def __init__(self, layers: nn.Module, shortcut: nn.Module | None = None, relu: bool = False) -> None:
        super().__init__()
        self.layers, self.shortcut, self.relu = layers, shortcut or nn.Identity(), relu

    def forward(self, x: Tensor) -> Tensor:
        total: Tensor = self.shortcut(x) + self.layers(x)
        return torch.relu(total) if self.relu else total


class _Fire(nn.Module):
    """Squeeze to few channels, then expand by kernels of 1 and 3 side by side."""

    def __init__(self, inside: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Sequential(nn.Conv2d(inside, squeezed, 1), nn.ReLU())
        self.one = nn.Sequential(nn.Conv2d(squeezed, expanded, 1), nn.ReLU())
        self.three = nn.Sequential(nn.Conv2d(squeezed, expanded, 3, padding=1), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        x = self.squeeze(x)
        return torch.cat([self.one(x), self.three(x)], 1)


def _resnet(*blocks: int) -> nn.Module:
    """He, Zhang, Ren, Sun: Deep residual learning for image recognition, 2016; basic blocks, table 1."""
    layers: list[nn.Module] = [*_norm(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inside = 64
    for level, count in enumerate(blocks):
        outside = 64 << level
        for block in range(count):
            stride = 2 if level and not block else 1
            shortcut = nn.Sequential(*_norm(inside, outside, 1, stride)) if stride != 1 or inside != outside else None
            inner = nn.Sequential(*_norm(inside, outside, 3, stride), nn.ReLU(), *_norm(outside, outside, 3))
            layers.append(_Sum(inner, shortcut, relu=True))
            inside = outside
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 1000))


def _mobilenet_v2() -> nn.Module:
    """Sandler et al.: MobileNetV2, inverted residuals and linear bottlenecks, 2018; table 2."""
    layers: list[nn.Module] = [*_norm(3, 32, 3, 2), nn.ReLU6()]
    inside = 32
    for factor, outside, count, first in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for block in range(count):
            stride, wide = first if not block else 1, inside * factor
            inner = [*_norm(inside, wide, 1), nn.ReLU6()] if factor != 1 else []
            inner += [*_norm(wide, wide, 3, stride, wide), nn.ReLU6(), *_norm(wide, outside, 1)]
            body = nn.Sequential(*inner)
            layers.append(_Sum(body) if stride == 1 and inside == outside else body)
            inside = outside
    layers += [*_norm(inside, 1280, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000)]
    return nn.Sequential(*layers)


def _squeezenet() -> nn.Module:
    """Iandola et al.: SqueezeNet, 2016; version 1.0, table 1."""

    def pool() -> nn.Module:
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    return nn.Sequential(
        nn.Conv2d(3, 96, 7, 2), nn.ReLU(), pool(),
        _Fire(96, 16, 64), _Fire(128, 16, 64), _Fire(128, 32, 128), pool(),
        _Fire(256, 32, 128), _Fire(256, 48, 192), _Fire(384, 48, 192), _Fire(384, 64, 256), pool(),
        _Fire(512, 64, 256), nn.Conv2d(512, 1000, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip


MAKERS: dict[str, Callable[[], nn.Module]] = {
    "resnet18": lambda: _resnet(2, 2, 2, 2), "resnet34": lambda: _resnet(3, 4, 6, 3), "squeezenet1_0": _squeezenet,
    "mobilenet_v2": _mobilenet_v2,
}  # fmt: skip


def make(name: str, seed: int = 1) -> nn.Module:
    """The network `name` with weights drawn from `seed`, ready to classify."""
    torch.manual_seed(seed)
    return MAKERS[name]().eval()
