"""The names of `torch.cuda`: the GPUs, their streams, events, memory and random numbers.

Tensors are on GPUs through CuPy: `is_available()` says whether CuPy and a GPU are there. Without
them functions behave as in PyTorch's CPU build. Queries return values for no GPU (`device_count` 0,
memory 0). Functions that seed, empty or reset do nothing. Functions that need a GPU raise
`DeviceMissing`, a RuntimeError and an AssertionError.

A process that was forked from one that had used CUDA cannot use it: RuntimeError. The start methods
"spawn" and "forkserver" of `multiprocessing` make processes that can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..absent_names import missing as _missing
from ..ops.random.generators import cuda_generators as _cuda_generators
from . import amp as amp
from . import comm as comm
from . import (
    devices,
    graphs,
    management,
    memory,
    random,
    refused,
    runtime_api,
    streams,
    tensor_types,
)
from . import jiterator as jiterator
from . import nccl as nccl
from . import nvtx as nvtx
from . import profiler as profiler
from . import sparse as sparse
from . import tunable as tunable
from .devices import *  # noqa: F403
from .graphs import *  # noqa: F403
from .management import *  # noqa: F403
from .memory import *  # noqa: F403
from .random import *  # noqa: F403
from .refused import *  # noqa: F403
from .runtime_api import *  # noqa: F403
from .streams import *  # noqa: F403
from .tensor_types import *  # noqa: F403

has_half = True  # tensors of float16 can be on a GPU
has_magma = False  # solvers are cuSOLVER's


if TYPE_CHECKING:
    from ..ops.random.philox import Generator as _Generator

    default_generators: tuple[_Generator, ...]
else:
    __all__ = ["amp", "comm", "jiterator", "nccl", "nvtx", "profiler", "sparse", "tunable"]
    __all__ += ["default_generators", "has_half", "has_magma"]
    for _module in (
        devices, graphs, management, memory, random, refused, runtime_api, streams, tensor_types,
    ):  # fmt: skip
        __all__ += [name for name in _module.__all__ if name not in __all__]

    def __getattr__(name: str) -> Any:
        if name == "default_generators":  # one of each GPU
            return _cuda_generators()
        raise _missing(__name__, name)
