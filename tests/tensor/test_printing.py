"""Printing, as PyTorch prints."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
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


@pytest.mark.torch
def test_pytorch_prints_the_same() -> None:
    """Ten dtypes, shapes with and without elements, magnitudes that change the notation."""
    import torch

    random = np.random.default_rng(0)
    for shape in ((), (1,), (0,), (2, 0), (3, 4), (2, 2, 2), (30,), (1001,), (40, 60)):
        base = np.asarray(random.normal(size=shape))
        scaled = base * 10.0 ** random.integers(-6, 6, shape)
        holes = np.where(random.random(shape) < 0.3, np.nan, np.where(base > 1, np.inf, base))
        integers = np.asarray(np.round(base * 50))
        for values in (base, base * 1e-5, base * 1e9, scaled, integers, np.asarray(holes)):
            for name in ("float32", "float64", "float16", "bfloat16", "complex64", "complex128"):
                with np.errstate(all="ignore"):
                    same_text(torch, values + 1j * base if name[0] == "c" else values, name)
        for name in ("int64", "int32", "uint8", "bool"):
            same_text(torch, np.abs(integers).astype(name), name)


def same_text(torch: Any, values: Any, name: str) -> None:
    theirs = torch.from_numpy(np.array(values)).to(getattr(torch, name))
    ours = st.from_numpy(np.array(values)).to(getattr(st, name))
    text = repr(theirs).replace("torch.", "shmtensor.")
    if "dtype=" in text:  # with a longer name it may need a line of its own
        text, printed = (re.sub(r",\s+dtype", ", dtype", t) for t in (text, repr(ours)))
        assert printed == text
    else:
        assert repr(ours) == text
    if name == "float32":
        again, other = ours.clone().requires_grad_(), theirs.clone().requires_grad_()
        assert repr(again) == repr(other)
        assert repr(again * 2) == repr(other * 2)


def test_sparse_tensors_stand_under_their_brackets() -> None:
    x = st.sparse_coo_tensor(st.tensor([[0, 1], [1, 0]]), st.tensor([1.0, 2.0]), (2, 3))
    assert repr(x.requires_grad_()) == (
        "tensor(indices=tensor([[0, 1],\n"
        "                       [1, 0]]),\n"
        "       values=tensor([1., 2.]),\n"
        "       size=(2, 3), nnz=2, layout=shmtensor.sparse_coo, requires_grad=True)"
    )
    values = st.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert "values=tensor([[1., 2.],\n                      [3., 4.]])" in repr(
        st.sparse_coo_tensor(st.tensor([[0, 1]]), values, (2, 2))
    )


def test_limits_are_printed_short() -> None:
    assert repr(st.finfo(st.float32)) == (
        "finfo(resolution=1e-06, min=-3.40282e+38, max=3.40282e+38, eps=1.19209e-07, "
        "smallest_normal=1.17549e-38, tiny=1.17549e-38, dtype=float32)"
    )


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"precision": 2.5}, TypeError),
        ({"precision": -1}, ValueError),
        ({"linewidth": "80"}, TypeError),
        ({"edgeitems": -3, "precision": 2}, ValueError),
        ({"threshold": "all"}, TypeError),
        ({"profile": "long"}, ValueError),
    ],
)
def test_print_options_that_are_refused_change_nothing(
    wrong: dict[str, Any], error: type[Exception]
) -> None:
    before = repr(st.tensor([1.5, 2e9]))
    with pytest.raises(error):
        st.set_printoptions(**wrong)
    assert repr(st.tensor([1.5, 2e9])) == before
