"""`python -m shmtensor top | ls | doctor`: what runs on this machine, seen from outside.

Nothing here joins a domain: a looker that is no member cannot disturb one, and holds nothing when
the members end (docs/command-line.md).
"""

from .command import main

__all__ = ["main"]
