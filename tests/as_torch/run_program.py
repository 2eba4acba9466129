"""Runs a program in which `torch` is this library, and writes data in the formats it reads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

PROGRAMS = Path(__file__).with_name("programs")
ALIAS = ("-m", "shmtensor.as_torch")


def python(
    *arguments: str | Path, folder: Path, warnings: str = "error", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs Python in `folder`."""
    command = [sys.executable, "-W", warnings, *map(str, arguments)]
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def run(*arguments: str | Path, folder: Path, warnings: str = "error", **environment: str) -> str:
    """What a program prints that is run by the command, which must succeed."""
    process = python(*ALIAS, *arguments, folder=folder, warnings=warnings, **environment)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def write_mnist(root: Path, train: int = 320, test: int = 64) -> None:
    """Files as of MNIST whose digits are ten random pictures with noise."""
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 200, (10, 28, 28))
    folder = root / "MNIST" / "raw"
    folder.mkdir(parents=True)
    for part, n in (("train", train), ("t10k", test)):
        labels = rng.integers(0, 10, n)
        images = pictures[labels] + rng.integers(0, 55, (n, 28, 28))
        for name, array in (("images-idx3", images), ("labels-idx1", labels)):
            header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
            data = header + array.astype(np.uint8).tobytes()
            (folder / f"{part}-{name}-ubyte").write_bytes(data)
