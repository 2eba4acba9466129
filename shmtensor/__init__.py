"""shmtensor: a tensor library whose tensors are born in memory that other processes can see."""

from .version import __version__ as __version__
from .dtypes import *  # isort: skip  # noqa: F403
from .device import Device as device
from .tensor import Size, Tensor
from .functions import *  # noqa: F403
from .conversion import *  # noqa: F403
from .printing import set_printoptions
from .autograd import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from . import autograd
from .autograd.dispatch import table as ops_table
from .formats import *  # noqa: F403
from .random import *  # noqa: F403
from . import random
from . import nn as nn
from . import optim as optim
