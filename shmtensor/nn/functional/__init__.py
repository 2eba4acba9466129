"""The functions under the layers, by PyTorch's names."""

from .activation import *  # noqa: F403
from .convolution import *  # noqa: F403
from .dropout import *  # noqa: F403
from .linear import *  # noqa: F403
from .loss import *  # noqa: F403
from .normalisation import *  # noqa: F403
from .pooling import *  # noqa: F403
from .resampling import *  # noqa: F403
