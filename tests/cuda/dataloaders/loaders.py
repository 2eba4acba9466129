"""Loaders with spawned workers: `python -m tests.cuda.dataloaders.loaders CASE`.

A program of its own, because the children of `spawn` import it anew. It prints "ok" at the end.
"""

from __future__ import annotations

import sys
from typing import Any

from tests.cuda.standin.install import install

install()

import numpy as np  # noqa: E402

import shmtensor as st  # noqa: E402
from shmtensor import cupy_runtime  # noqa: E402
from shmtensor.dataloaders import DataLoader, Dataset, DevicePrefetcher, TensorDataset  # noqa: E402
from tests.cuda.standin.program import run_case  # noqa: E402

ROWS = np.arange(24.0, dtype=np.float32).reshape(12, 2)


class OnGpu(Dataset[Any]):
    """Holds rows on a GPU, which workers receive by handle."""

    def __init__(self) -> None:
        self.rows = st.tensor(ROWS).to("cuda:0")

    def __len__(self) -> int:
        return len(ROWS)

    def __getitem__(self, index: int) -> Any:
        return self.rows[index] * 2


class OnHost(Dataset[Any]):
    """Says whether its process has used CUDA."""

    def __len__(self) -> int:
        return len(ROWS)

    def __getitem__(self, index: int) -> Any:
        used = cupy_runtime.is_initialized() or cupy_runtime.state.devices is not None
        return st.tensor(ROWS[index]), used


def case_workers_send_gpu_tensors() -> None:
    for data in (OnGpu(), TensorDataset(st.tensor(ROWS * 2).to("cuda:0"))):
        with DataLoader(data, 4, num_workers=2, multiprocessing_context="spawn") as loader:
            for _ in range(2):
                got = [x[0] if isinstance(x, (list, tuple)) else x for x in loader]
                assert {x.device for x in got} == {st.device("cuda:0")}
                assert (np.concatenate([x.cpu().numpy() for x in got]) == ROWS * 2).all()
                del got


def case_workers_leave_cuda_alone() -> None:
    st.zeros(1, device="cuda")
    for method in ("fork", "spawn", "forkserver"):
        with DataLoader(
            OnHost(), 4, num_workers=2, pin_memory=True, multiprocessing_context=method
        ) as loader:
            for _ in range(2):
                got = list(DevicePrefetcher(loader))
                assert (np.concatenate([x.cpu().numpy() for x, _ in got]) == ROWS).all()
                inherited = method == "fork"  # the count of its parent's devices
                assert all(used.cpu().numpy().any() <= inherited for _, used in got)
                del got


if __name__ == "__main__":
    run_case(globals()[f"case_{sys.argv[1]}"])
