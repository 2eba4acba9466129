"""`torchvision.models`: residual networks with its keys, so that its files of weights load.

Source: K. He et al., "Deep residual learning for image recognition", CVPR 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from shmtensor import nn

__all__ = [
    "BasicBlock",
    "Bottleneck",
    "ResNet",
    "ResNet18_Weights",
    "ResNet34_Weights",
    "ResNet50_Weights",
    "ResNet101_Weights",
    "ResNet152_Weights",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet101",
    "resnet152",
]


class Residual(nn.Module):
    """The sum of some convolutions and their input, which is `downsample`d where shapes differ."""

    expansion = 1  # output channels over inner ones
    kernels: Sequence[int] = (3, 3)

    def __init__(self, inplanes: int, planes: int, stride: int) -> None:
        super().__init__()
        outplanes = planes * self.expansion
        last = len(self.kernels)
        channels = [inplanes, *[planes] * (last - 1), outplanes]
        at = self.kernels.index(3) + 1  # the first convolution of 3 x 3 has the stride
        for n, kernel in enumerate(self.kernels, 1):
            step = stride if n == at else 1
            self.add_module(f"conv{n}", conv(channels[n - 1], channels[n], kernel, step))
            self.add_module(f"bn{n}", nn.BatchNorm2d(channels[n]))
        self.relu = nn.ReLU(inplace=True)
        self.downsample: Any = None
        if stride != 1 or inplanes != outplanes:
            self.downsample = nn.Sequential(
                conv(inplanes, outplanes, 1, stride), nn.BatchNorm2d(outplanes)
            )

    def forward(self, x: Any) -> Any:
        identity = x if self.downsample is None else self.downsample(x)
        layers = self._modules
        last = len(self.kernels)
        for n in range(1, last + 1):
            x = layers[f"bn{n}"](layers[f"conv{n}"](x))
            if n < last:
                x = self.relu(x)
        return self.relu(x + identity)


class BasicBlock(Residual):
    """Two convolutions of 3 x 3."""


class Bottleneck(Residual):
    """A convolution of 3 x 3 on fewer channels, between two of 1 x 1."""

    expansion = 4
    kernels = (1, 3, 1)


class ResNet(nn.Module):
    """A residual network for images `(N, 3, H, W)`.

    Args:
        block: `BasicBlock` or `Bottleneck`.
        layers: the number of blocks in each of the four stages.
        num_classes: the number of outputs.
    """

    def __init__(
        self, block: type[Residual], layers: Sequence[int], num_classes: int = 1000
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        channels = 64
        for n, count in enumerate(layers):
            planes, blocks = 64 << n, []
            for i in range(count):
                blocks.append(block(channels, planes, 2 if n and not i else 1))
                channels = planes * block.expansion
            self.add_module(f"layer{n + 1}", nn.Sequential(*blocks))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(channels, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Any) -> Any:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


def conv(inplanes: int, outplanes: int, kernel: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(inplanes, outplanes, kernel, stride, padding=kernel // 2, bias=False)


def make(
    name: str, block: type[Residual], layers: Sequence[int], weights: Any, options: dict[str, Any]
) -> ResNet:
    """The network.

    Raises:
        ValueError: weights are asked for.
    """
    options.pop("progress", None)
    pretrained = options.pop("pretrained", False)
    if weights or pretrained:
        wrong = f"weights={weights}" if weights else f"pretrained={pretrained!r}"
        raise ValueError(
            f"{name}: nothing is downloaded: {wrong}, load a file: "
            f"model = {name}(); model.load_state_dict(torch.load(path))"
        )
    return ResNet(block, layers, **options)


# Programs name them; as `weights=` they are refused, because nothing is downloaded.


class ResNet18_Weights(Enum):
    """torchvision's files of weights for `resnet18`."""

    IMAGENET1K_V1 = DEFAULT = "IMAGENET1K_V1"


class ResNet34_Weights(Enum):
    """torchvision's files of weights for `resnet34`."""

    IMAGENET1K_V1 = DEFAULT = "IMAGENET1K_V1"


class ResNet50_Weights(Enum):
    """torchvision's files of weights for `resnet50`."""

    IMAGENET1K_V1 = "IMAGENET1K_V1"
    IMAGENET1K_V2 = DEFAULT = "IMAGENET1K_V2"


class ResNet101_Weights(Enum):
    """torchvision's files of weights for `resnet101`."""

    IMAGENET1K_V1 = "IMAGENET1K_V1"
    IMAGENET1K_V2 = DEFAULT = "IMAGENET1K_V2"


class ResNet152_Weights(Enum):
    """torchvision's files of weights for `resnet152`."""

    IMAGENET1K_V1 = "IMAGENET1K_V1"
    IMAGENET1K_V2 = DEFAULT = "IMAGENET1K_V2"


def resnet18(*, weights: Any = None, **options: Any) -> ResNet:
    """ResNet of 18 layers. Args: weights: None; **options: as of `ResNet`."""
    return make("resnet18", BasicBlock, (2, 2, 2, 2), weights, options)


def resnet34(*, weights: Any = None, **options: Any) -> ResNet:
    """ResNet of 34 layers. Args: weights: None; **options: as of `ResNet`."""
    return make("resnet34", BasicBlock, (3, 4, 6, 3), weights, options)


def resnet50(*, weights: Any = None, **options: Any) -> ResNet:
    """ResNet of 50 layers. Args: weights: None; **options: as of `ResNet`."""
    return make("resnet50", Bottleneck, (3, 4, 6, 3), weights, options)


def resnet101(*, weights: Any = None, **options: Any) -> ResNet:
    """ResNet of 101 layers. Args: weights: None; **options: as of `ResNet`."""
    return make("resnet101", Bottleneck, (3, 4, 23, 3), weights, options)


def resnet152(*, weights: Any = None, **options: Any) -> ResNet:
    """ResNet of 152 layers. Args: weights: None; **options: as of `ResNet`."""
    return make("resnet152", Bottleneck, (3, 8, 36, 3), weights, options)
