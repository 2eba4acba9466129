"""In the place of cupy.random._generator_api, which has a CUDA runtime inside: the names that CuPy
imports. Nothing here draws numbers by CuPy.
"""

from __future__ import annotations


class Generator:
    """Not there."""


class FeistelBijection:
    """Not there."""
