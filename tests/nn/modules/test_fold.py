"""Fold and Unfold."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn


def test_columns_are_windows_and_fold_back() -> None:
    x = st.arange(24.0).reshape(1, 2, 3, 4)
    columns = nn.Unfold((2, 3))(x)
    windows = np.lib.stride_tricks.sliding_window_view(x.numpy(), (2, 3), (2, 3))
    expected = windows.transpose(0, 1, 4, 5, 2, 3).reshape(1, 12, 4)
    assert np.array_equal(columns.numpy(), expected)
    unfold = nn.Unfold((1, 2), stride=(1, 2))
    assert st.equal(nn.Fold((3, 4), (1, 2), stride=(1, 2))(unfold(x)), x)


def test_repr_names_all_sizes() -> None:
    assert repr(nn.Unfold(2)) == "Unfold(kernel_size=2, dilation=1, padding=0, stride=1)"
    assert repr(nn.Fold((3, 4), 2)) == (
        "Fold(output_size=(3, 4), kernel_size=2, dilation=1, padding=0, stride=1)"
    )


def test_sizes_that_do_not_fit() -> None:
    for m, shape, message in (
        (nn.Unfold(9), (1, 2, 3, 4), r"\(9, 9\) in \(1, 2, 3, 4\)"),
        (nn.Unfold(2, stride=0), (1, 2, 3, 4), r"stride .*\(0, 0\)"),
        (nn.Unfold(2, padding=-1), (1, 2, 3, 4), r"padding .*\(-1, -1\)"),
        (nn.Fold((3, 4), 2), (1, 8, 5), r"\(2, 3\) windows fit .* 5"),
        (nn.Fold((3, 4), 2), (1, 9, 6), r"multiple of 4: \(1, 9, 6\)"),
    ):
        with pytest.raises(RuntimeError, match=message):
            m(st.ones(*shape))
