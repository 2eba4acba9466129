"""`make cuda-standin`: builds the stand-in device and runs the tests that need it, in two workers.

    python -m tests.cuda.standin.run [--quick] [arguments of pytest]

--quick leaves out the tests marked slow and test_softmax.py, which every run of the suite has.
Where the packages cannot be had, it says what is missing and exits with 0.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from tests.cuda.standin.build import ROOT, VENV, Unavailable, build

# Every test on the stand-in: whoever takes the fixture `cp`, or finds two GPUs by itself.
PATHS = ("tests/cuda", "tests/distributed/backends/test_nccl_gpu.py")


def environment() -> dict[str, str]:
    """For programs on the stand-in: this checkout's sources, and its tests for spawned children."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}


def main(arguments: list[str]) -> int:
    quick = "--quick" in arguments
    rest = [a for a in arguments if a != "--quick"]
    begin = time.monotonic()
    try:
        build()
    except Unavailable as missing:
        print(f"SKIPPED: the stand-in CUDA device was NOT tested: {missing}")
        return 0
    built = time.monotonic()
    print(f"the stand-in is ready after {built - begin:.0f} s", flush=True)
    # importlib: with tests/ in sys.path, tests/cuda would hide NVIDIA's package `cuda`.
    command = [str(VENV / "bin" / "python"), "-m", "pytest", "--import-mode=importlib", "-q"]
    # Whole suites in two workers: most of the time is g++'s, or spent on work that is late.
    command += ["-p", "no:cacheprovider", *(rest or [*PATHS, "-n", "2", "--dist", "worksteal"])]
    if quick:
        command += ["-m", "not slow", "--deselect", "tests/cuda/kernels/test_softmax.py"]
    status = subprocess.run(command, cwd=ROOT, env=environment()).returncode
    print(f"the tests took {time.monotonic() - built:.0f} s")
    return status


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
