"""Sizes of results are multiplied without overflow, and compared with the memory."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native
from shmtensor.ops.table.sizes import check_size


def test_bytes_that_do_not_fit_in_64_bits() -> None:
    for shape, itemsize in (((2**31, 2**31), 8), ((2**63,), 1), ((2**62,), 2), ((2**70, 1), 1)):
        with pytest.raises(RuntimeError, match="f: Storage size calculation overflowed"):
            check_size("f", shape, itemsize)


def test_more_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "headroom", lambda: (2**30, 2**31, "this machine"))
    check_size("f", (2**27,), 8)
    with pytest.raises(st.errors.OutOfSharedMemory, match=r"f: 1073741832 bytes .* 1073741824"):
        check_size("f", (2**27 + 1,), 8)


@pytest.mark.parametrize("shape", [(2**31, 0), (0,), (3,), (-1, 2**62), ()])
def test_sizes_that_pass(shape: tuple[int, ...]) -> None:
    check_size("f", shape)


def test_indices_of_triangles() -> None:
    for row in range(5):
        for col in range(5):
            for offset in range(-6, 7):
                every = np.ones((row, col))
                ours = st.tril_indices(row, col, offset).numpy()
                np.testing.assert_array_equal(ours, np.tril(every, offset).nonzero())
                ours = st.triu_indices(row, col, offset).numpy()
                np.testing.assert_array_equal(ours, np.triu(every, offset).nonzero())
    assert st.tril_indices(3, 2**40, 1).tolist() == [[0, 0, 1, 1, 1, 2, 2, 2, 2],
                                                     [0, 1, 0, 1, 2, 0, 1, 2, 3]]  # fmt: skip
    assert st.triu_indices(3, 2**40, 2**62).shape == (2, 0)
