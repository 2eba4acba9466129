"""The C++17 core: heap and ledger (memory/), shared words and channels (sync/), kernels (compute/), op calls (call/)."""

from ._core import *  # noqa: F403
