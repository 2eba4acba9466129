"""shmtensor: a tensor library that allocates tensors in memory shared with other processes."""

import sys as _sys
from typing import TYPE_CHECKING

from .version import __version__ as __version__

# First: if it is not compiled, its error says what to do.
from . import native  # isort: skip
from .dtypes import *  # isort: skip  # noqa: F403
from . import autograd, random
from . import sparse as sparse
from .autograd import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .device import Device as device
from .functions import *  # noqa: F403
from .native import get_num_threads, set_num_threads
from .other_names import Finder as _Finder
from .random import *  # noqa: F403
from .sparse import sparse_coo, sparse_coo_tensor, spmm
from .tensor import Size, Tensor
from .tensor.array_protocols import set_array_namespace as _set_array_namespace
from .tensor.from_data import *  # noqa: F403
from .tensor.global_settings import *  # noqa: F403
from .tensor.legacy_types import *  # noqa: F403
from .tensor.printing import set_printoptions
from .tensor.register_pickling import reduce_tensor as _reduce_tensor
from .tensor.register_pickling import register_class as _register_class
from .tensor.register_pickling import set_multiprocessing as _set_multiprocessing
from .tensor.torch_constants import *  # noqa: F403

_sys.meta_path.insert(0, _Finder())
_set_array_namespace(lambda: __getattr__("array_api"))
_register_class(Tensor, _reduce_tensor)
_set_multiprocessing(lambda: __getattr__("multiprocessing"))

# Methods that PyTorch has as functions, too.
_METHODS = """
    addmv_ as_strided_ clamp_ clamp_max_ clamp_min_ clip_ detach detach_ fill_ get_device index_put_
    is_conj is_distributed is_inference is_neg is_same_size is_signed ldexp_
"""
globals().update({name: getattr(Tensor, name) for name in _METHODS.split()})

# Imported at first use, so that `import shmtensor` is fast: name -> module and its attribute (None:
# the module itself).
_LATER: dict[str, tuple[str, str | None]] = {
    "GradScaler": ("amp", "GradScaler"),
    "OutOfMemoryError": ("errors", "OutOfMemoryError"),
    "Queue": ("queue", "Queue"),
    "SharedDict": ("shared_containers", "SharedDict"),
    "SharedList": ("shared_containers", "SharedList"),
    "launch": ("distributed.launcher.notebook", "launch"),
    "load": ("serialization", "load"),
    "save": ("serialization", "save"),
    "__config__": ("__config__", None),
    "__future__": ("__future__", None),
    "TypedStorage": ("storage", "TypedStorage"),
    "UntypedStorage": ("storage", "UntypedStorage"),
    "accelerator": ("accelerator", None),
    "amp": ("amp", None),
    "array_api": ("array_api", None),
    "autocast": ("amp", "autocast"),
    "backends": ("backends", None),
    "cuda": ("cuda", None),
    "distributed": ("distributed", None),
    "fft": ("fft", None),
    "func": ("func", None),
    "hub": ("hub", None),
    "linalg": ("linalg", None),
    "masked": ("masked", None),
    "memory": ("memory", None),
    "multiprocessing": ("multiprocessing", None),
    "nn": ("nn", None),
    "optim": ("optim", None),
    "overrides": ("overrides", None),
    "queue": ("queue", None),
    "serialization": ("serialization", None),
    "signal": ("signal", None),
    "special": ("special", None),
    "storage": ("storage", None),
    "testing": ("testing", None),
    "trainer": ("trainer", None),
    "utils": ("utils", None),
    "viz": ("viz", None),
}

_MANY = {
    "amp.autocast_state": """
        autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache
        get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype is_autocast_cache_enabled
        is_autocast_cpu_enabled is_autocast_enabled set_autocast_cache_enabled
        set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_dtype set_autocast_enabled
        set_autocast_gpu_dtype
    """,
    "autograd.anomaly_mode": "is_anomaly_check_nan_enabled is_anomaly_enabled set_anomaly_enabled",
    "func": "vmap",
    "nn.functional.embedding_forms": "embedding embedding_bag",
    "nn.functional": """
        adaptive_max_pool1d alpha_dropout bilinear celu_ cosine_similarity pairwise_distance pdist
        rms_norm rrelu rrelu_ selu_
    """,
}
# What programs of PyTorch look for, and what to do without it.
_ABSENT = {
    "compile": "models are not compiled, they run as they are: leave torch.compile out",
    "compiler": "models are not compiled",
    "distributions": "not there yet: use rand, randn, multinomial, bernoulli, normal",
    "export": "models are not exported: save their state_dict",
    "fx": "models are not traced",
    "jit": "models are not compiled, they run as they are: save their state_dict",
    "onnx": "models are not exported: save their state_dict",
    "profiler": "use autograd.profiler.profile",
    "quantize_per_tensor": "quantized tensors are not there",
}
_LATER.update({name: (module, name) for module, names in _MANY.items() for name in names.split()})

if TYPE_CHECKING:
    from . import amp as amp
    from . import array_api as array_api
    from . import cuda as cuda
    from . import nn as nn
    from . import optim as optim
    from . import viz as viz
    from .amp import GradScaler as GradScaler
    from .amp import autocast as autocast
    from .errors import OutOfMemoryError as OutOfMemoryError
    from .queue import Queue as Queue
    from .shared_containers import SharedDict as SharedDict
    from .shared_containers import SharedList as SharedList


def __getattr__(name: str) -> object:
    if name not in _LATER:
        hint = f": {_ABSENT[name]}" if name in _ABSENT else ""
        raise AttributeError(f"module 'shmtensor' has no attribute {name!r}{hint}")
    from importlib import import_module

    module, member = _LATER[name]
    value = import_module(f"{__name__}.{module}")
    if member is not None:
        value = globals()[name] = getattr(value, member)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
