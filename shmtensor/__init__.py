"""shmtensor: a tensor library that allocates tensors in memory shared with other processes."""

import sys as _sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TypeAlias

from .version import __version__ as __version__

# First: if it is not compiled, its error says what to do.
from . import native  # isort: skip
from .dtype_objects import *  # isort: skip  # noqa: F403
from . import autograd as autograd
from . import random as random
from . import sparse as sparse
from .absent_names import install as _install_finder
from .absent_names import missing as _missing
from .autograd import enable_grad as enable_grad
from .autograd import inference_mode as inference_mode
from .autograd import is_grad_enabled as is_grad_enabled
from .autograd import is_inference_mode_enabled as is_inference_mode_enabled
from .autograd import no_grad as no_grad
from .autograd import set_grad_enabled as set_grad_enabled
from .device import Device as _Device
from .functions import *  # noqa: F403
from .native import get_num_threads as get_num_threads
from .native import set_num_threads as set_num_threads
from .other_names import Finder as _Finder
from .random import *  # noqa: F403
from .sparse import sparse_compressed_tensor as sparse_compressed_tensor
from .sparse import sparse_coo as sparse_coo
from .sparse import sparse_coo_tensor as sparse_coo_tensor
from .sparse import sparse_csc as sparse_csc
from .sparse import sparse_csc_tensor as sparse_csc_tensor
from .sparse import sparse_csr as sparse_csr
from .sparse import sparse_csr_tensor as sparse_csr_tensor
from .sparse import spmm as spmm
from .tensor import Size as Size
from .tensor import Tensor as Tensor
from .tensor.array_protocols import set_array_namespace as _set_array_namespace
from .tensor.from_data import *  # noqa: F403
from .tensor.global_settings import *  # noqa: F403
from .tensor.legacy_types import *  # noqa: F403
from .tensor.printing import set_printoptions as set_printoptions
from .tensor.register_pickling import reduce_tensor as _reduce_tensor
from .tensor.register_pickling import register_class as _register_class
from .tensor.register_pickling import set_multiprocessing as _set_multiprocessing
from .tensor.torch_constants import *  # noqa: F403

_sys.meta_path.insert(0, _Finder())
_install_finder()
device: "TypeAlias" = _Device  # not `import ... as`, which checkers take for a private name

_set_array_namespace(lambda: _import_later("array_api"))
_register_class(Tensor, _reduce_tensor)
_set_multiprocessing(lambda: _import_later("multiprocessing"))

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
    "compile": ("compiler", "compile"),
    "compiler": ("compiler", None),
    "cpu": ("cpu", None),
    "cuda": ("cuda", None),
    "dataloaders": ("dataloaders", None),
    "distributed": ("distributed", None),
    "distributions": ("distributions", None),
    "fft": ("fft", None),
    "func": ("func", None),
    "hub": ("hub", None),
    "jit": ("jit", None),
    "linalg": ("linalg", None),
    "masked": ("masked", None),
    "memory": ("memory", None),
    "multiprocessing": ("multiprocessing", None),
    "nn": ("nn", None),
    "optim": ("optim", None),
    "overrides": ("overrides", None),
    "profiler": ("profiler", None),
    "quasirandom": ("quasirandom", None),
    "queue": ("queue", None),
    "ray": ("ray", None),
    "serialization": ("serialization", None),
    "signal": ("signal", None),
    "special": ("special", None),
    "storage": ("storage", None),
    "testing": ("testing", None),
    "trainer": ("trainer", None),
    "types": ("types", None),
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
    "tensor.legacy_storages": """
        BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage ComplexFloatStorage
        DoubleStorage FloatStorage HalfStorage IntStorage LongStorage ShortStorage Storage
    """,
}
_LATER.update({name: (module, name) for module, names in _MANY.items() for name in names.split()})

if TYPE_CHECKING:  # these names and those of _METHODS: the build writes the file from the tables
    from ._lazy_names import *  # noqa: F403


def _import_later(name: str) -> object:
    if name not in _LATER:
        raise _missing(__name__, name)
    from importlib import import_module

    module, member = _LATER[name]
    value = import_module(f"{__name__}.{module}")
    if member is not None:
        value = globals()[name] = getattr(value, member)
    return value


# Modules of the package that are no API.
_INTERNAL = {
    "TYPE_CHECKING", "absent_names", "cuda_arrays", "cudnn_runtime", "cupy_runtime",
    "dtype_objects", "dtypes", "functions", "html_table", "meta_arrays", "native", "ops",
    "other_names", "refused_names",
}  # fmt: skip
if not TYPE_CHECKING:  # with it a checker would take any name for one of the module's
    __getattr__ = _import_later


def __dir__() -> list[str]:
    """The public names; Python's own, as `__name__`."""
    names = {*globals(), *_LATER} - _INTERNAL
    return sorted(n for n in names if not n.startswith("_") or n.endswith("__"))
