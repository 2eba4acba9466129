"""The functions that the layers call, by PyTorch's names."""

from .activation import *  # noqa: F403
from .conv import *  # noqa: F403
from .dropout import *  # noqa: F403
from .linear_embedding_attention import *  # noqa: F403
from .linear_embedding_attention import _canonical_mask as _canonical_mask
from .loss import *  # noqa: F403
from .normalization import *  # noqa: F403
from .pad_interpolate_grid_sample import *  # noqa: F403
from .pooling import *  # noqa: F403
