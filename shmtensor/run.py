"""`python -m shmtensor.run --nproc-per-node 4 train.py`: the launcher
(shmtensor/distributed/launcher/launcher.py).
"""

from __future__ import annotations

import sys

from .distributed.launcher.launcher import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
