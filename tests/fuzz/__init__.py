"""Forged inputs: whatever a file, a handle or a peer may hold.

    python -m tests.fuzz [--inputs 1000000] [--seed 7] [target ...]

Each module beside this one has a function `forge(seed, count)`. It tries `count` inputs that follow
from the seed, and fails unless each one gives what it says or raises a documented exception.
"""
