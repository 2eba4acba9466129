"""The functions that the layers call, by PyTorch's names."""

from typing import TYPE_CHECKING, Any

from ...absent_names import missing as _missing
from .activation import *  # noqa: F403
from .conv import *  # noqa: F403
from .dropout import *  # noqa: F403
from .linear_embedding_attention import *  # noqa: F403
from .linear_embedding_attention import _canonical_mask as _canonical_mask
from .loss import *  # noqa: F403
from .normalization import *  # noqa: F403
from .pad_interpolate_grid_sample import *  # noqa: F403
from .pooling import *  # noqa: F403

if TYPE_CHECKING:
    from .. import grad as grad
else:

    def __getattr__(name: str) -> Any:
        if name == "grad":  # nn.grad, which imports this module
            from importlib import import_module

            return import_module("shmtensor.nn.grad")
        raise _missing(__name__, name)
