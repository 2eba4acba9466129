"""Numbers as people read them."""

from __future__ import annotations

__all__ = ["in_bytes", "in_thousands"]


def in_bytes(n: int) -> str:
    """`1.50 MiB`: three digits and the unit, of which each is 1024 of the one before."""
    return scaled(n, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))


def in_thousands(n: int) -> str:
    """`1.50 M`: three digits and the unit, of which each is 1000 of the one before."""
    return scaled(n, 1000, ("", "k", "M", "G", "T", "P")).rstrip()


def scaled(n: int, step: int, units: tuple[str, ...]) -> str:
    value, unit = float(n), 0
    while value >= step and unit < len(units) - 1:
        value, unit = value / step, unit + 1
    digits = 0 if not unit or value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f} {units[unit]}"
