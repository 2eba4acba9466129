"""Tables for notebooks: what `_repr_html_` of histories, statistics and data sets returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

__all__ = ["attribute_table", "html_table"]

MOST = 20  # parts of a list or a dict that get a line each


def html_table(header: Sequence[object], rows: Iterable[Sequence[object]], below: str = "") -> str:
    """A table in HTML, with a line of text below it; texts are escaped."""
    head = "".join(f"<th>{escape(str(cell))}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return table + (f"<p>{escape(below)}</p>" if below else "")


def attribute_table(value: Any, *first: tuple[str, object]) -> str:
    """An object's class and public attributes, after the rows `first`.

    Lists, tuples and dicts of arrays or of objects get a row for each, others their length.
    """
    rows: list[tuple[str, object]] = list(first)
    for name, attribute in vars(value).items():
        if name[0] != "_":
            rows += attribute_rows(name, attribute)
    return html_table((type(value).__name__, ""), rows)


def attribute_rows(name: str, value: Any) -> list[tuple[str, object]]:
    """The rows of one attribute."""
    if isinstance(value, Mapping):
        parts = [(f"{name}[{key!r}]", v) for key, v in value.items()]
    elif isinstance(value, (list, tuple)):
        parts = [(f"{name}[{i}]", v) for i, v in enumerate(value)]
    else:
        return [(name, described(value))]
    if 0 < len(parts) <= MOST and not all(isinstance(v, (int, float, str)) for _, v in parts):
        return [(part, described(v)) for part, v in parts]
    return [(name, f"{type(value).__name__} of {len(parts)}")]


def described(value: Any) -> str:
    """A value in a few words: shape and dtype of an array, the name of a function, or its repr."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{tuple(value.shape)} {str(value.dtype).rpartition('.')[2]}"
    text = getattr(value, "__qualname__", None) or repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
