"""shmtensor: a tensor library whose tensors are born in memory that other processes can see."""

from typing import TYPE_CHECKING

from .version import __version__ as __version__

from .dtypes import *  # isort: skip  # noqa: F403
from . import array_api as array_api
from . import autograd, random
from . import nn as nn
from . import optim as optim
from . import sparse as sparse
from .autograd import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .conversion import *  # noqa: F403
from .device import Device as device
from .formats import *  # noqa: F403
from .functions import *  # noqa: F403
from .native import get_num_threads, set_num_threads
from .packed import SharedDict, SharedList
from .printing import set_printoptions
from .random import *  # noqa: F403
from .registration import enter as _enter
from .settings import *  # noqa: F403
from .sparse import sparse_coo, sparse_coo_tensor, spmm
from .tensor import Size, Tensor
from .typed import *  # noqa: F403

_enter()


# What stands above optim is imported when it is first asked for: `import shmtensor` stays cheap.
_LATER = ("distributed", "memory", "multiprocessing", "queue", "serialization", "trainer", "utils")


if TYPE_CHECKING:
    from .queue import Queue as Queue


def __getattr__(name: str) -> object:
    if name == "Queue":
        from .queue import Queue

        return Queue
    if name in ("save", "load"):
        from . import serialization

        return getattr(serialization, name)
    if name in _LATER:
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'shmtensor' has no attribute {name!r}")
