"""Communication hooks of DistributedDataParallel: how a bucket of gradients is reduced."""

from . import default_hooks as default_hooks
from . import powerSGD_hook as powerSGD_hook
