"""Vectorised transforms of whole batches, with randomness that belongs to each sample."""

from .geometry import CenterCrop as CenterCrop
from .geometry import Pad as Pad
from .geometry import RandomCrop as RandomCrop
from .geometry import RandomHorizontalFlip as RandomHorizontalFlip
from .geometry import RandomResizedCrop as RandomResizedCrop
from .geometry import RandomVerticalFlip as RandomVerticalFlip
from .geometry import Resize as Resize
from .key import make_keys as make_keys
from .mixing import CutMix as CutMix
from .mixing import MixUp as MixUp
from .mixing import OneHot as OneHot
from .pixel import Normalize as Normalize
from .pixel import RandomErasing as RandomErasing
from .pixel import ToDtype as ToDtype
from .transform import Compose as Compose
from .transform import Lambda as Lambda
from .transform import RandomApply as RandomApply
from .transform import Transform as Transform

__all__ = [
    "CenterCrop",
    "Compose",
    "CutMix",
    "Lambda",
    "MixUp",
    "Normalize",
    "OneHot",
    "Pad",
    "RandomApply",
    "RandomCrop",
    "RandomErasing",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Resize",
    "ToDtype",
    "Transform",
    "make_keys",
]
