"""Layers, losses and containers, by the names of torch.nn."""

from . import attention as attention
from . import functional as functional
from . import init as init
from . import modules as modules
from . import parallel as parallel
from . import utils as utils
from .modules import *  # noqa: F403
from .parameter import Buffer as Buffer
from .parameter import Parameter as Parameter
from .parameter import UninitializedBuffer as UninitializedBuffer
from .parameter import UninitializedParameter as UninitializedParameter


def __getattr__(name: str) -> object:
    if name in ("DataParallel", "SyncBatchNorm"):  # they live above this layer
        return getattr(parallel, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
