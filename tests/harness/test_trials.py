"""Each trial of `python -m benchmarks.kernels` is a valid call of its row."""

from __future__ import annotations

import numpy.ma  # noqa: F401  np.isin imports it; its constants would be blocks of the heap
import pytest

from benchmarks import kernels, trials
from shmtensor.ops import ROWS, load

load()
WITH_KERNEL = [r for r in ROWS.values() if r.numpy is not None and r.name not in kernels.OF_NORMS]


def test_each_kernel_runs_on_its_trials_beside_the_numpy_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trials, "SIZE", kernels.QUICK_SIZE)
    failed = {}
    for row in WITH_KERNEL:
        try:
            for trial in trials.trials_of(row):
                for call in kernels.calls(row, trial._replace(torch=None)):
                    call()
        except Exception as error:
            failed[row.name] = repr(error)
    assert failed == {}
