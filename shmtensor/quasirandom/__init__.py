"""Numbers that fill space more evenly than random ones: `torch.quasirandom` by name."""

from .sobol_engine import SobolEngine as SobolEngine

__all__ = ["SobolEngine"]
