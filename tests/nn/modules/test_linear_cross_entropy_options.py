"""LinearCrossEntropyOptions: what it accepts; that the loss does not depend on it."""

from __future__ import annotations

import pytest

import shmtensor as st
from shmtensor import nn


def test_values_are_checked() -> None:
    nn.LinearCrossEntropyOptions(True, 8, None, "compact", st.float32)
    nn.LinearCrossEntropyOptions(chunking_method="aspect_ratio:4")
    for name, value in (
        ("acc_policy", "fast"),
        ("chunking_method", "aspect_ratio:"),
        ("batch_chunk_size", 0),
        ("acc_dtype", st.int64),
    ):
        with pytest.raises(ValueError, match=f"invalid {name}: "):
            nn.LinearCrossEntropyOptions(**{name: value})


def test_options_leave_the_loss_alone() -> None:
    plain = nn.LinearCrossEntropyLoss(4, 6)
    other = nn.LinearCrossEntropyLoss(4, 6, options=nn.LinearCrossEntropyOptions())
    other.load_state_dict(plain.state_dict())
    x, target = st.randn(5, 4), st.tensor([0, 1, 2, 3, 5])
    assert other(x, target).item() == plain(x, target).item()
    assert "acc_policy='auto'" in repr(other)
