"""Models by torchvision's names, without weights: nothing is downloaded."""

from .resnet import ResNet as ResNet
from .resnet import resnet18 as resnet18
from .resnet import resnet34 as resnet34
from .resnet import resnet50 as resnet50
from .resnet import resnet101 as resnet101
from .resnet import resnet152 as resnet152

__all__ = ["ResNet", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152"]
