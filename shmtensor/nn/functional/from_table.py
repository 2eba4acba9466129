"""The functions of the op table, as a module; their types, from_table.pyi, are generated."""

from typing import Any

from ...autograd import table


def __getattr__(name: str) -> Any:
    function = globals()[name] = getattr(table, name)
    return function
