"""Tensors as text, in PyTorch's style: `tensor([1., 2.])`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes
from ..cuda_arrays import device_of, move_array
from ..device import CPU, META


class Options:
    precision = 4
    threshold = 1000
    edgeitems = 3
    linewidth = 80
    sci_mode: bool | None = None


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Sets how tensors are printed, in all threads.

    Parameters
    ----------
    precision : int, optional
        Digits after the point; 4 by default.
    threshold : int, optional
        Tensors with more elements show only their edges; 1000 by default.
    edgeitems : int, optional
        How many elements at each edge; 3 by default.
    linewidth : int, optional
        Characters in a line; 80 by default.
    profile : str, optional
        "default", "short" or "full": sets the above.
    sci_mode : bool, optional
        Always or never scientific notation; None decides by the values.

    Raises
    ------
    ValueError
        A number is negative, or the profile is unknown; nothing is set.
    TypeError
        A number is not an integer; nothing is set.

    Examples
    --------
    >>> st.set_printoptions(precision=2)
    >>> st.tensor([0.12345])
    tensor([0.12])
    >>> st.set_printoptions(profile="default")
    """
    counts = {"precision": precision, "edgeitems": edgeitems, "linewidth": linewidth}
    for name, n in counts.items():
        if n is not None and operator.index(n) < 0:
            raise ValueError(f"set_printoptions: {name} must not be negative: {n}")
    max_elements = None if threshold is None else int(min(threshold, 2**62))
    if profile is not None:
        values = {"default": (4, 1000, 3), "short": (2, 1000, 2), "full": (4, 2**62, 3)}
        if profile not in values:
            raise ValueError(f"set_printoptions: no such profile: {profile!r}")
        Options.precision, Options.threshold, Options.edgeitems = values[profile]
        Options.linewidth = 80
    for name, n in {**counts, "threshold": max_elements}.items():
        if n is not None:
            setattr(Options, name, n)
    Options.sci_mode = sci_mode


class ElementFormat:
    """The format of the elements of one tensor, which all have the same width."""

    def __init__(self, values: Any) -> None:
        self.is_floating = values.dtype.kind == "f"
        self.is_integral = True
        self.is_scientific = False
        self.width = 1
        if not self.is_floating:
            self.width = max((len(self.format(v)) for v in values.flat), default=1)
            return
        nonzero = values[np.isfinite(values) & (values != 0)]
        if not nonzero.size:  # the width stays 1
            return
        magnitudes = np.abs(nonzero.astype(np.float64))
        low, high = float(magnitudes.min()), float(magnitudes.max())
        self.is_integral = bool((np.ceil(magnitudes) == magnitudes).all())
        self.is_scientific = high / low > 1000.0 or high > 1.0e8 or low < 1.0e-4
        if Options.sci_mode is not None:
            self.is_scientific = Options.sci_mode
        self.width = max(len(self.format(v)) for v in nonzero.flat)

    def format(self, v: Any) -> str:
        if v.dtype.kind == "b":
            return str(bool(v))
        if not self.is_floating:
            return str(int(v))
        value = float(v)
        if value != value or value in (float("inf"), float("-inf")):
            return str(value)
        if self.is_scientific:
            return f"{value:.{Options.precision}e}"
        if self.is_integral:
            return f"{value:.0f}."
        return f"{value:.{Options.precision}f}"

    def write(self, v: Any) -> str:
        return self.format(v).rjust(self.width)


def writer_of(array: Any) -> Any:
    """The function that formats one element, and its width."""
    if array.dtype.kind != "c":
        style = ElementFormat(array)
        return style.write, style.width
    real, imag = ElementFormat(array.real), ElementFormat(array.imag)

    def write(v: Any) -> str:
        sign = "-" if np.signbit(v.imag) and v.imag == v.imag else "+"
        return f"{real.write(v.real)}{sign}{imag.format(abs(v.imag))}j"

    return write, real.width + imag.width + 1


def edges(a: Any) -> Any:
    """The elements of a large array that are shown."""
    n = Options.edgeitems
    for dim in range(a.ndim):
        if a.shape[dim] > 2 * n:
            indices = np.r_[:n, a.shape[dim] - n : a.shape[dim]]
            a = a.take(indices, dim)
    return a


def nested(a: Any, indent: int, summarise: bool, write: Callable[[Any], str], width: int) -> str:
    if a.ndim == 0:
        return write(a[()])
    n = Options.edgeitems
    is_cut = summarise and a.shape[0] > 2 * n
    if a.ndim == 1:
        parts = [write(v) for v in (a[:n] if is_cut else a)]
        if is_cut:
            parts += [" ..."] + [write(v) for v in a[-n:]]
        per_line = max(1, (Options.linewidth - indent) // (width + 2))
        lines = [parts[i : i + per_line] for i in range(0, len(parts), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(", ".join(line) for line in lines) + "]"
    rows = [nested(v, indent + 1, summarise, write, width) for v in (a[:n] if is_cut else a)]
    if is_cut:
        rows += ["..."] + [nested(v, indent + 1, summarise, write, width) for v in a[-n:]]
    separator: str = "," + "\n" * (a.ndim - 1) + " " * (indent + 1)
    return f"[{separator.join(rows)}]"


def format_array(array: Any, prefix: str = "tensor(", suffixes: tuple[str, ...] = ()) -> str:
    """An array as `tensor(...)`, with its dtype unless that is the default for the values."""
    indent = len(prefix)
    notes = []
    device = device_of(array)
    dtype = array.dtype
    if device is META:
        notes = ["...", "device='meta'", f"size={tuple(array.shape)}"]
        if dtype != dtypes.get_default_dtype():
            notes.append(f"dtype={dtypes.library}.{dtype}")
        return f"{prefix}{', '.join([*notes, *suffixes])})"
    if device is not CPU:
        notes.append(f"device='{device}'")
        array = move_array(array, CPU)
    if dtype is dtypes.bfloat16:
        array = array.astype(np.float32)
    if array.size == 0:
        text = "[]"
        if array.ndim != 1:
            notes.append(f"size={tuple(array.shape)}")
    else:
        summarise = array.size > Options.threshold
        write, width = writer_of(edges(array) if summarise else array)
        text = nested(array, indent, summarise, write, width)
    default_dtypes = (
        dtypes.get_default_dtype(),
        dtypes.default_complex(),
        dtypes.int64,
        dtypes.bool,
    )
    if dtype not in default_dtypes or (array.size == 0 and dtype != dtypes.get_default_dtype()):
        notes.append(f"dtype={dtypes.library}.{dtype}")
    notes += suffixes
    column = len(text) - text.rfind("\n") + 1 + (indent if "\n" not in text else 0)
    for note in notes:
        if column + len(note) + 2 > Options.linewidth:
            text += ",\n" + " " * indent + note
            column = indent + len(note)
        else:
            text += ", " + note
            column += len(note) + 2
    return f"{prefix}{text})"
