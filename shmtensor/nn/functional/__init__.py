"""The functions under the layers, by PyTorch's names."""

from .activation import *  # noqa: F403
from .dropout import *  # noqa: F403
from .linear import *  # noqa: F403
from .loss import *  # noqa: F403
from .normalisation import *  # noqa: F403
