"""`make cuda-standin`: builds the stand-in device and runs the tests that need it, in two workers.

    python -m tests.cuda.standin.run [--quick] [arguments of pytest]

--quick runs a part: the stand-in itself, and a file of each area, without the tests marked slow.
Where the packages cannot be had, it says what is missing and exits with 0.
"""

from __future__ import annotations

import subprocess
import sys
import time

from tests.cuda.standin.build import ROOT, VENV, Unavailable, build
from tests.environment import environment

# Every test on the stand-in: whoever takes `cp` or `device`, or finds two GPUs by itself.
PATHS = (
    "tests/cuda",
    "tests/amp/test_scaler.py",
    "tests/distributed/backends/test_nccl.py",
    "tests/distributed/backends/test_nccl_faults.py",
)
QUICK = (
    "tests/cuda/standin",
    "tests/cuda/dispatch",
    "tests/cuda/api/test_cuda_streams.py",
    "tests/cuda/convolution/test_cuda_cudnn_plans.py",
    "tests/cuda/memory/test_cuda_sends.py",
    "tests/cuda/memory/test_cuda_defects.py",
    "tests/cuda/multiprocessing",
    "tests/cuda/distributed/test_cuda_ranks.py",
    "tests/cuda/nn/test_cuda_training.py",
)


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
    # In two workers: most of the time is g++'s, or spent on work that is late.
    paths = QUICK if quick else PATHS
    command += ["-p", "no:cacheprovider", *(rest or [*paths, "-n", "2", "--dist", "worksteal"])]
    if quick:
        command += ["-m", "not slow"]
    # The sources of this checkout, and its tests for spawned children.
    status = subprocess.run(command, cwd=ROOT, env=environment(ROOT, ROOT / "tests")).returncode
    print(f"the tests took {time.monotonic() - built:.0f} s")
    return status


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
