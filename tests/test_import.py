"""`import shmtensor`: its cost, the modules that it imports, and the state that it leaves alone."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

OPTIONAL = ("cupy", "sklearn", "matplotlib", "torch", "scipy", "mpi4py", "tensorboardX")
LATER = (
    "cloudpickle",
    "tqdm",
    "posix_ipc",
    "multiprocessing",
    "asyncio",
    "dataclasses",
    "shmtensor.amp",
    "shmtensor.multiprocessing",
    "shmtensor.nn",
    "shmtensor.optim",
    "shmtensor.shared_containers",
)


def run(code: str, **environment: str) -> str:
    command = [sys.executable, "-W", "error", "-c", code]
    process = subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_brings_nothing_optional() -> None:
    modules = set(
        json.loads(run("import sys, json, shmtensor; print(json.dumps(list(sys.modules)))"))
    )
    for name in (*OPTIONAL, *LATER):
        assert name not in modules, f"import shmtensor imports {name}"


def test_makes_no_domain_and_changes_no_allocator() -> None:
    code = """
import os, numpy
before = sorted(os.listdir("/proc/self/fd"))
import shmtensor
assert sorted(os.listdir("/proc/self/fd")) == before, "a descriptor was opened"
from numpy._core.multiarray import get_handler_name
assert get_handler_name(numpy.zeros(3)) == "default_allocator", get_handler_name(numpy.zeros(3))
"""
    run(code)


def test_takes_at_most_twice_numpys_time(tmp_path: Path) -> None:
    # Compiled once, as an install does, for any location and environment.
    cached = {"PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}
    run("import shmtensor", **cached)
    # The process's CPU time: other load on the machine is not the import's. Nor is what the
    # threads of NumPy's BLAS use up while they wait for their first work.
    cached["OPENBLAS_NUM_THREADS"] = "1"
    code = "import time; a = time.process_time(); import {}; print(time.process_time() - a)"
    pairs = [
        [float(run(code.format(name), **cached)) for name in ("numpy", "shmtensor")]
        for _ in range(7)
    ]
    ratio = statistics.median(ours / numpys for numpys, ours in pairs)
    assert ratio <= 2, f"import shmtensor takes {ratio:.2f} times NumPy's time"


def test_source_tree_without_the_extension_names_the_command(tmp_path: Path) -> None:
    import shmtensor

    package = Path(shmtensor.__file__).parent
    shutil.copytree(package, tmp_path / "shmtensor", ignore=shutil.ignore_patterns("*.so", "*.cc"))
    (tmp_path / "setup.py").touch()
    code = """
try:
    import shmtensor
except ImportError as error:
    print(error)
"""
    text = run(code, PYTHONPATH=str(tmp_path))
    assert text == (
        f"import shmtensor: no module shmtensor.native._core for {sys.executable}: {tmp_path} is a "
        f"source tree, type `make build PYTHON={sys.executable}` there, or run "
        f"{tmp_path}/.venv/bin/python, which `make demo` makes\n"
    )


def test_what_is_not_there_says_what_to_use() -> None:
    import shmtensor as st

    for name, text in (("export", "save their state_dict"), ("profiler", "autograd.profiler")):
        assert not hasattr(st, name)
        with pytest.raises(AttributeError, match=f"no attribute '{name}': .*{text}"):
            getattr(st, name)
    assert st.OutOfMemoryError is st.cuda.OutOfMemoryError
