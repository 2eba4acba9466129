"""The functions of shmtensor that come from the op table. Their types are in functions.pyi, which
is generated.
"""

from .autograd.dispatch.tensor_methods import functions

table_functions = functions()
globals().update(table_functions)
__all__ = sorted(table_functions)
del functions, table_functions
