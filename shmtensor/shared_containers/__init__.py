"""Python data that several processes read from one copy: `SharedList`, `SharedDict`.

They are built once and packed into few blocks of shared memory. Reading writes nothing, not even a
reference count, so no page is copied after a fork (docs/shared-data.md).
"""

from ..tensor.register_pickling import register_class
from .packing import reduce_for_stdlib
from .shared_dict import SharedDict
from .shared_list import SharedList

__all__ = ["SharedDict", "SharedList"]

register_class(SharedList, reduce_for_stdlib)
register_class(SharedDict, reduce_for_stdlib)
