"""The numeric tests once per instruction-set level of ours, and once with NumPy's features off.

    python -m tests.levels [--quick] [arguments of pytest]

The expected results must not depend on the kernels that NumPy or shmtensor chooses on a machine.
`--quick` runs a sample, and leaves out our highest level, which every other run has.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

from shmtensor import native

ROOT = Path(__file__).resolve().parents[1]
LEVELS = ("generic", "avx2", "avx512", "avx512_bf16")  # the last one has no files of its own
FOLDERS = ("native", "ops", "tensor", "autograd", "nn", "func", "optim", "amp")
SAMPLE = (
    "native/kernels/pointwise/relu_sigmoid_gelu",
    "native/kernels/reduce/sum",
    "native/kernels/linalg/bfloat16_gemm",
    "native/kernels/nn/softmax",
    "native/kernels/nn/pooling",
    "native/kernels/nn/resample",
    "native/kernels/sort/sort_topk",
    "native/kernels/reduce/cumulative",
    "native/kernels/optim/optimizer_step",
    "native/kernels/random/uniform_normal",
    "native/half/conversion",
    "native/kernels/shape/clone_copy_arange",
    "native/kernels/nn/rnn",
    "native/kernels/nn/attention",
    "native/numpy_loops/broadcast_loops",
    "native/kernels/pointwise/silu_elu_shrink",
    "native/math/functions",
    "ops/special/special",
)


def environments(quick: bool) -> list[dict[str, str]]:
    """The environment variables of each run."""
    best = "avx512_bf16" if native.uses_avx512_bf16() else native.isa()
    levels = LEVELS[: LEVELS.index(best) + (not quick)]
    runs = [{"SHMTENSOR_ISA": level} for level in levels]
    # NumPy warns of features that the CPU lacks or that its build does not choose at run time.
    if features := [name for name in __cpu_dispatch__ if __cpu_features__[name]]:
        runs.append({"NPY_DISABLE_CPU_FEATURES": " ".join(features)})
    return runs


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.levels", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a sample: two minutes at most")
    options, pytest_args = parser.parse_known_args()
    sample = [f"tests/{folder}/test_{name}.py" for folder, name in map(os.path.split, SAMPLE)]
    files = sample if options.quick else [f"tests/{name}" for name in FOLDERS]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not torch", *pytest_args, *files]
    if os.uname().machine == "x86_64" and native.isa_levels() != LEVELS[:3]:
        sys.exit(f"levels: compiled are only {native.isa_levels()}, hint: make build")
    for settings in environments(options.quick):
        began = time.monotonic()
        print("=== " + " ".join(f"{k}='{v}'" for k, v in settings.items()), flush=True)
        environment = {**os.environ, **settings}
        if code := subprocess.run(command, cwd=ROOT, env=environment).returncode:
            return code
        print(f"=== {time.monotonic() - began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
