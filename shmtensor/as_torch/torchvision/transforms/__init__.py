"""Transforms of one image by torchvision's names: an image of Pillow, or a tensor `(..., H, W)`."""

from . import functional as functional
from .functional import InterpolationMode as InterpolationMode
from .geometry import CenterCrop as CenterCrop
from .geometry import Pad as Pad
from .geometry import RandomCrop as RandomCrop
from .geometry import RandomHorizontalFlip as RandomHorizontalFlip
from .geometry import RandomResizedCrop as RandomResizedCrop
from .geometry import RandomVerticalFlip as RandomVerticalFlip
from .geometry import Resize as Resize
from .pixels import Compose as Compose
from .pixels import ConvertImageDtype as ConvertImageDtype
from .pixels import Grayscale as Grayscale
from .pixels import Lambda as Lambda
from .pixels import Normalize as Normalize
from .pixels import PILToTensor as PILToTensor
from .pixels import RandomApply as RandomApply
from .pixels import ToPILImage as ToPILImage
from .pixels import ToTensor as ToTensor

__all__ = [
    "CenterCrop",
    "Compose",
    "ConvertImageDtype",
    "Grayscale",
    "InterpolationMode",
    "Lambda",
    "Normalize",
    "PILToTensor",
    "Pad",
    "RandomApply",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Resize",
    "ToPILImage",
    "ToTensor",
    "functional",
]
