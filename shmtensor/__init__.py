"""shmtensor: a tensor library whose tensors are born in memory that other processes can see."""

from .version import __version__ as __version__
