"""Random actions and kills for any time: `python -m tests.stress --seconds 300`.

Eight processes with three threads each (tests/memory/stress_workers.py). Each round of ten seconds
prints its seed, by which it can be repeated. Before that, rows whose operands another process
changes (tests/ops/changing_operands.py), for at most a second each; and, in five minutes and more,
programs that end while daemon threads compute (tests/native/test_gil.py), ten times each.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import subprocess
import sys
import time
from pathlib import Path

os.environ["SHMTENSOR_DOMAIN"] = "new"

from .memory.stress_workers import stress

CHANGING_OPERANDS = Path(__file__).parent / "ops" / "changing_operands.py"
GIL = Path(__file__).parent / "native" / "test_gil.py"
CASES = 300  # about as many as it has


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.stress", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    faulthandler.enable()
    each = min(1.0, options.seconds / CASES)
    subprocess.run([sys.executable, CHANGING_OPERANDS, str(each)], check=True)
    if options.seconds >= 300:
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", GIL],
            env={**os.environ, "RUNS": "10"},
            check=True,
        )
    stress(options.seed, options.seconds)


if __name__ == "__main__":
    main()
