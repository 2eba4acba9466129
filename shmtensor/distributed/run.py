"""`python -m shmtensor.distributed.run`, as `torch.distributed.run`: the launcher."""

from __future__ import annotations

import sys

from .launcher.arguments import parser as get_args_parser
from .launcher.launcher import main

__all__ = ["get_args_parser", "main"]

if __name__ == "__main__":
    sys.exit(main())
