"""DevicePrefetcher without a GPU; tests/cuda/dataloaders has the tests with one."""

from __future__ import annotations

import sys

import pytest

from shmtensor.dataloaders import DevicePrefetcher


def test_without_cupy_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(RuntimeError, match=r"shmtensor\[cuda12\]"):
        DevicePrefetcher([])


def test_the_cpu_is_no_gpu() -> None:
    with pytest.raises(ValueError, match="device has to be a GPU: cpu"):
        DevicePrefetcher([], "cpu")
