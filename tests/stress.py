"""Random actions and kills for any time: `python -m tests.stress --seconds 300`.

Eight processes with three threads each (tests/memory/stress_workers.py). Each round of ten seconds
prints its seed, by which it can be repeated.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import time

os.environ["SHMTENSOR_DOMAIN"] = "new"

from .memory.stress_workers import stress


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.stress", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    faulthandler.enable()
    stress(options.seed, options.seconds)


if __name__ == "__main__":
    main()
