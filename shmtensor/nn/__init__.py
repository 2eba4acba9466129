"""Layers, losses and containers, by the names of torch.nn."""

from . import functional as functional
from . import init as init
from . import parallel as parallel
from . import utils as utils
from .activation import *  # noqa: F403
from .container import *  # noqa: F403
from .dropout import *  # noqa: F403
from .embedding import *  # noqa: F403
from .linear import *  # noqa: F403
from .loss import *  # noqa: F403
from .module import Module as Module
from .normalisation import *  # noqa: F403
from .parameter import Buffer as Buffer
from .parameter import Parameter as Parameter
from .shape import *  # noqa: F403


def __getattr__(name: str) -> object:
    if name in ("DataParallel", "SyncBatchNorm"):  # they live above this layer
        return getattr(parallel, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
