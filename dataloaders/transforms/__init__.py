"""Vectorised transforms of whole batches, with independent random numbers for each sample."""

from .compose import Compose as Compose
from .compose import Lambda as Lambda
from .compose import RandomApply as RandomApply
from .compose import Transform as Transform
from .crop_flip_resize import CenterCrop as CenterCrop
from .crop_flip_resize import Pad as Pad
from .crop_flip_resize import RandomCrop as RandomCrop
from .crop_flip_resize import RandomHorizontalFlip as RandomHorizontalFlip
from .crop_flip_resize import RandomResizedCrop as RandomResizedCrop
from .crop_flip_resize import RandomVerticalFlip as RandomVerticalFlip
from .crop_flip_resize import Resize as Resize
from .cutmix_mixup import CutMix as CutMix
from .cutmix_mixup import MixUp as MixUp
from .cutmix_mixup import OneHot as OneHot
from .normalize_erase import Normalize as Normalize
from .normalize_erase import RandomErasing as RandomErasing
from .normalize_erase import ToDtype as ToDtype
from .sample_rng import make_keys as make_keys

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
