"""`python -m shmtensor.distributed.launch`, as PyTorch's former launcher: `run`.

With `--use-env` and without, the local rank is in the environment variable LOCAL_RANK, and in no
argument.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .launcher.launcher import main as run

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """As `run`. Args: arguments: those of the command line if None."""
    rest = list(sys.argv[1:] if arguments is None else arguments)
    for option in ("--use-env", "--use_env"):
        if option in rest:
            rest.remove(option)
    return run(rest)


if __name__ == "__main__":
    sys.exit(main())
