"""Signals, `torch.signal` by name."""

from . import windows

__all__ = ["windows"]
