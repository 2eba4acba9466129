"""Fourier transforms, `torch.fft` by name; they are implemented in ops/signal/fft.py."""

from __future__ import annotations

from typing import Any

from .absent_names import missing
from .autograd import table

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise missing(__name__, name)
    function = globals()[name] = getattr(table, f"fft_{name}")
    return function


def __dir__() -> list[str]:
    return list(__all__)
