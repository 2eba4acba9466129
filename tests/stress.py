"""Random actions and kills for as long as one likes: `python -m tests.stress --seconds 300`."""

from __future__ import annotations

import argparse
import os
import time

os.environ["SHMTENSOR_DOMAIN"] = "new"

from .memory.test_stress import stress


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.stress", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    seed, end = options.seed, time.monotonic() + options.seconds
    while (rest := end - time.monotonic()) > 0:
        print(f"seed {seed}", flush=True)
        stress(seed, min(10.0, rest))
        seed += 1


if __name__ == "__main__":
    main()
