"""The examples' networks, trained side by side with PyTorch from the same weights and data."""

import sys
from pathlib import Path

# `benchmarks` is not in the package; last, so that `shmtensor` stays the installed one.
sys.path.append(str(Path(__file__).resolve().parents[2]))
