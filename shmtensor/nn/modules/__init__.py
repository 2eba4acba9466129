"""The layers, by the names of torch.nn.modules."""

from .activation import *  # noqa: F403
from .container import *  # noqa: F403
from .dropout import *  # noqa: F403
from .flatten import *  # noqa: F403
from .linear import *  # noqa: F403
from .loss import *  # noqa: F403
from .module import Module as Module
from .normalization import *  # noqa: F403
from .rnn import *  # noqa: F403
from .sparse import *  # noqa: F403
