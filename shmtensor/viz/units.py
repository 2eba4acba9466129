"""Numbers with units."""

from __future__ import annotations


def in_bytes(n: int) -> str:
    """`1.50 MiB`: three digits and a unit, in powers of 1024."""
    return with_unit(n, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))


def in_thousands(n: int) -> str:
    """`1.50 M`: three digits and a unit, in powers of 1000."""
    return with_unit(n, 1000, ("", "k", "M", "G", "T", "P")).rstrip()


def with_unit(n: int, base: int, units: tuple[str, ...]) -> str:
    value, unit = float(n), 0
    while value >= base and unit < len(units) - 1:
        value, unit = value / base, unit + 1
    digits = 0 if not unit or value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f} {units[unit]}"
