"""The functions of shmtensor that come from the op table. Their types are in functions.pyi, which
is generated.
"""

import copyreg
from typing import Any

from . import native
from .autograd import table
from .autograd.dispatch.op_function import functions

table_functions = functions()
globals().update(table_functions)
__all__ = sorted(table_functions)
del functions, table_functions


def table_function(name: str) -> Any:
    """A function of the op table, which a pickle names."""
    return getattr(table, name)


def reduce_function(function: Any) -> Any:
    """Pickles a function by name; those of `nn.functional`, `linalg` and the like by the name that
    they have in the op table."""
    name = function.__name__
    return name if globals().get(name) is function else (table_function, (name,))


for kind in (native.OpFunction, native.Composite):
    copyreg.pickle(kind, reduce_function)
del Any, copyreg, kind, native
