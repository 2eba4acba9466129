"""Tensors of a GPU beside the CPU's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def near(far: Any, expected: Any, tolerance: float = 1e-5) -> None:
    """Asserts that a tensor has another's dtype, and its values nearly."""
    assert far.dtype is expected.dtype
    ours, plain = (x.detach().cpu().double().numpy() for x in (far, expected))
    np.testing.assert_allclose(ours, plain, tolerance, tolerance)


def compare(run: Callable[[str], list[Any]], tolerance: float = 1e-5) -> None:
    """Asserts that a function of the device gives nearly equal tensors on both."""
    for far, expected in zip(run("cuda"), run("cpu"), strict=True):
        near(far, expected, tolerance)
