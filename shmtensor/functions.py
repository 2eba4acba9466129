"""The functions of shmtensor that come from the op table. Their types are in functions.pyi, which a
script writes.
"""

from .autograd.dispatch.tensor_methods import functions

found = functions()
globals().update(found)
__all__ = sorted(found)
del functions, found
