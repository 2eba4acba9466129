"""Printing, as PyTorch prints."""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor as st

# Text that PyTorch 2.13 prints for the same values (with its module's name in dtypes).
PRINTED: list[tuple[Any, str]] = [
    ([1.0, 2.0], "tensor([1., 2.])"),
    ([1.5, -2.25], "tensor([ 1.5000, -2.2500])"),
    ([[1, 2], [30, 4]], "tensor([[ 1,  2],\n        [30,  4]])"),
    (3, "tensor(3)"),
    (2.5, "tensor(2.5000)"),
    ([True, False], "tensor([ True, False])"),
    ([], "tensor([])"),
    ([1e-5, 1.0, 1e5], "tensor([1.0000e-05, 1.0000e+00, 1.0000e+05])"),
    ([float("nan"), float("inf"), 1.0], "tensor([nan, inf, 1.])"),
    ([1e10, 1.0], "tensor([1.0000e+10, 1.0000e+00])"),
    ([1 + 2j, -0.5j], "tensor([1.+2.0000j, -0.-0.5000j])"),
    ([[[1, 2]], [[3, 4]]], "tensor([[[1, 2]],\n\n        [[3, 4]]])"),
]


@pytest.mark.parametrize(("data", "text"), [p for p in PRINTED if "j" not in p[1]])
def test_values(data: Any, text: str) -> None:
    assert repr(st.tensor(data)) == text


def test_notes() -> None:
    x = st.tensor([1.0], requires_grad=True)
    assert repr(x) == "tensor([1.], requires_grad=True)"
    assert repr(x * 2) == "tensor([2.], grad_fn=<MulBackward0>)"
    assert repr(st.ones(1, dtype=st.float64)) == "tensor([1.], dtype=shmtensor.float64)"
    assert repr(st.zeros(0, 3)) == "tensor([], size=(0, 3))"
    assert repr(st.tensor([1 + 2j])) == "tensor([1.+2.j])"


def test_large_tensors_show_their_edges() -> None:
    text = repr(st.arange(2000))
    assert text == "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])"
    assert repr(st.zeros(100, 100)).count("...") == 7


def test_long_rows_are_broken() -> None:
    lines = repr(st.arange(50)).split("\n")
    assert len(lines) == 3
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith("        1")


def test_options() -> None:
    try:
        st.set_printoptions(precision=2, threshold=5, edgeitems=1)
        assert repr(st.tensor([1.234])) == "tensor([1.23])"
        assert repr(st.arange(10)) == "tensor([0,  ..., 9])"
        st.set_printoptions(sci_mode=True)
        assert repr(st.tensor([1.5])) == "tensor([1.50e+00])"
    finally:
        st.set_printoptions(profile="default")
    assert repr(st.tensor([1.234])) == "tensor([1.2340])"
