"""What pickling depends on: the registered reductions, and whether another process can import
`__main__`.
"""

from __future__ import annotations

import sys
from multiprocessing.reduction import ForkingPickler
from typing import Any

# Not a copy: later registrations with ForkingPickler (sockets, connections) count, too.
extra_reductions: Any = vars(ForkingPickler)["_extra_reducers"]


def is_main_importable() -> bool:
    """Whether a process that did not inherit `__main__` can import it: true for a script or module,
    not for a notebook.
    """
    main = sys.modules.get("__main__")
    if getattr(getattr(main, "__spec__", None), "name", None) is not None:
        return True
    path = getattr(main, "__file__", None)
    return path is not None and not path.endswith(("ipython", "ipykernel_launcher.py"))
