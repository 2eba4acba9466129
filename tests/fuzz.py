"""Forged handles and layouts by the million: `python -m tests.fuzz --inputs 1000000 --seed 7`."""

from __future__ import annotations

import argparse
import faulthandler
import os
import time

os.environ["SHMTENSOR_DOMAIN"] = "new"

from .memory.forger import forge

ROUND = 25_000  # attempts of each of the three kinds


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    faulthandler.enable()
    rounds = -(-options.inputs // (3 * ROUND))
    for seed in range(options.seed, options.seed + rounds):
        forge(seed, ROUND)
    print(f"{rounds * 3 * ROUND} inputs: an error each time, or what they name; no crash")


if __name__ == "__main__":
    main()
