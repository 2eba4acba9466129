"""The C++17 core: memory/ heap, ledger; sync/ words, channels; compute/ kernels; call/ ops."""

from ._core import *  # noqa: F403
