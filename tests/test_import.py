"""`import shmtensor`: its cost, the modules that it imports, and the state that it leaves alone."""

from __future__ import annotations

import json
import os
import shutil
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


def test_imports_few_modules_beyond_numpys() -> None:
    """The time is a case of the benchmarks, processes/import."""
    code = """
import sys, numpy
before = set(sys.modules)
import shmtensor
print(len(set(sys.modules) - before))
"""
    assert int(run(code)) <= 220


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

    for name, text in (("export", "save their state_dict"), ("jagged", "pad_sequence")):
        assert not hasattr(st, name)
        with pytest.raises(AttributeError, match=f"no attribute '{name}': .*{text}"):
            getattr(st, name)
    assert st.OutOfMemoryError is st.cuda.OutOfMemoryError
