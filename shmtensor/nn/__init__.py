"""Layers, losses and containers, by the names of torch.nn.

The layers are imported from their files one by one: `from .modules import *` would also import the
submodules, and modules.utils would replace nn.utils.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ..absent_names import missing as _missing
from . import attention as attention
from . import functional as functional
from . import init as init
from . import modules as modules
from . import parallel as parallel
from . import utils as utils
from .modules.activation import *  # noqa: F403
from .modules.adaptive import *  # noqa: F403
from .modules.batchnorm import *  # noqa: F403
from .modules.channelshuffle import *  # noqa: F403
from .modules.container import *  # noqa: F403
from .modules.conv import *  # noqa: F403
from .modules.distance import *  # noqa: F403
from .modules.dropout import *  # noqa: F403
from .modules.flatten import *  # noqa: F403
from .modules.fold import *  # noqa: F403
from .modules.instancenorm import *  # noqa: F403
from .modules.linear import *  # noqa: F403
from .modules.linear_cross_entropy_options import *  # noqa: F403
from .modules.loss import *  # noqa: F403
from .modules.module import Module as Module
from .modules.normalization import *  # noqa: F403
from .modules.padding import *  # noqa: F403
from .modules.pixelshuffle import *  # noqa: F403
from .modules.pooling import *  # noqa: F403
from .modules.rnn import *  # noqa: F403
from .modules.sparse import *  # noqa: F403
from .modules.transformer import *  # noqa: F403
from .modules.upsampling import *  # noqa: F403
from .parameter import Buffer as Buffer
from .parameter import Parameter as Parameter
from .parameter import UninitializedBuffer as UninitializedBuffer
from .parameter import UninitializedParameter as UninitializedParameter

if TYPE_CHECKING:
    from .parallel import DataParallel as DataParallel
    from .parallel import SyncBatchNorm as SyncBatchNorm
else:

    def __getattr__(name: str) -> object:
        if name in ("DataParallel", "SyncBatchNorm"):  # implemented in a higher layer
            return getattr(parallel, name)
        if name in ("common_types", "grad"):  # imported on first access
            return import_module(f"{__name__}.{name}")
        raise _missing(__name__, name)
