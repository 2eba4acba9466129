"""What programs use of torchvision, by its names: the `torchvision` of `shmtensor.as_torch`."""

from . import datasets as datasets
from . import models as models
from . import save_image as utils
from . import transforms as transforms

__all__ = ["datasets", "models", "transforms", "utils"]
__version__ = "0.28.0+shmtensor"
