"""Runs the targets in turn: `python -m tests.fuzz --inputs 1000000 --seed 7 handles`."""

from __future__ import annotations

import argparse
import faulthandler
import os
import time

os.environ["SHMTENSOR_DOMAIN"] = "new"

from . import file_formats, handles, name_requests, pickles, sockets

TARGETS = {
    "handles": handles,
    "pickles": pickles,
    "file_formats": file_formats,
    "name_requests": name_requests,
    "sockets": sockets,
}
ROUND = 75_000  # inputs of one seed


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "targets", nargs="*", metavar="target", help=f"of {', '.join(TARGETS)}; default: all"
    )
    parser.add_argument("--inputs", type=int, default=1_000_000, help="of each target")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    faulthandler.enable()
    for name in options.targets or TARGETS:
        start = time.monotonic()
        for i in range(0, options.inputs, ROUND):
            TARGETS[name].forge(options.seed + i // ROUND, min(ROUND, options.inputs - i))
        print(
            f"{name}: {options.inputs} inputs from seed {options.seed}, "
            f"{time.monotonic() - start:.0f} s: an error each time, or what they name; no crash",
            flush=True,
        )


if __name__ == "__main__":
    main()
