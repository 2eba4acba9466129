"""`python -m shmtensor top | ls | doctor`: the domains on this machine, observed from outside.

Nothing here joins a domain: an observer that is not a member cannot disturb it, and holds nothing
when the members end (docs/command-line.md).
"""

from .command import main

__all__ = ["main"]
