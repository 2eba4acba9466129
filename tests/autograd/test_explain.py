"""Wrong use: PyTorch's exception class, the values, and a hint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as st
from shmtensor.errors import OutOfSharedMemory

CASES: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    (
        "shapes",
        lambda: st.ones(3, 4) + st.ones(5),
        RuntimeError,
        r"\(3, 4\) and \(5,\), 4 is not 5 at dimension -1",
    ),
    (
        "matmul",
        lambda: st.ones(3, 4) @ st.ones(5, 6),
        RuntimeError,
        r"inner sizes differ: \(3, 4\) @ \(5, 6\), 4 is not 5",
    ),
    (
        "dimension",
        lambda: st.ones(2, 3).sum(5),
        IndexError,
        r"sum: dim is out of range: 5, expected -2 to 1",
    ),
    (
        "index",
        lambda: st.ones(2, 3)[4],
        IndexError,
        r"index 4 is out of bounds for dimension 0 with size 2",
    ),
    ("too many indices", lambda: st.ones(2)[0, 0], IndexError, "too many indices"),
    (
        "assigned index",
        lambda: st.ones(2).__setitem__(5, 1),
        IndexError,
        r"index assignment: index 5 .*shape \(2,\)",
    ),
    (
        "assigned shape",
        lambda: st.ones(3).__setitem__(0, st.ones(2)),
        RuntimeError,
        r"value of shape \(2,\)",
    ),
    ("reshape", lambda: st.ones(2, 3).reshape(4), RuntimeError, r"reshape: .*\(2, 3\)"),
    (
        "float index",
        lambda: st.ones(3)[st.ones(1)],
        IndexError,
        "must be integers or booleans: float32",
    ),
    (
        "ambiguous",
        lambda: bool(st.ones(2)),
        RuntimeError,
        r"more than one value is ambiguous: shape \(2,\)",
    ),
    ("item", lambda: st.ones(2).item(), RuntimeError, "2 elements cannot be converted to Scalar"),
    ("length", lambda: len(st.tensor(1)), TypeError, "0-d tensor"),
    ("iteration", lambda: iter(st.tensor(1)), TypeError, "0-d tensor"),
    ("cat of nothing", lambda: st.cat([]), ValueError, "non-empty list of tensors"),
    ("stack of nothing", lambda: st.stack([]), RuntimeError, "non-empty list of tensors"),
    ("cuda", lambda: st.ones(2).to("cuda"), RuntimeError, r"shmtensor\[cuda12\]|only 'cpu'"),
    ("no device", lambda: st.ones(2).to("cpu:x"), RuntimeError, "no such device"),
    ("dtype", lambda: st.ones(2).to("float33"), TypeError, "not a dtype.*float33"),
    (
        "numpy of a tracked tensor",
        lambda: st.ones(2).requires_grad_().numpy(),
        RuntimeError,
        r"detach\(\).numpy",
    ),
    ("expand", lambda: st.ones(2, 3).expand(2, 4), RuntimeError, "expand"),
    (
        "in-place result",
        lambda: st.ones(3).int().div_(2),
        RuntimeError,
        "can't be cast to the desired output type int32",
    ),
]


@pytest.mark.parametrize(
    ("wrong", "error", "message"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_wrong_use_is_explained(
    wrong: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        wrong()


def test_running_out_of_memory_names_the_request() -> None:
    before = st.ones(3)
    with pytest.raises(OutOfSharedMemory, match="40000000000000"):
        st.zeros(10**13)
    with pytest.raises(MemoryError):
        st.ones(10**7, 1) * st.ones(1, 10**7)
    assert before.tolist() == [1, 1, 1]


def test_backward_running_out_is_explained_too() -> None:
    x = st.ones(1).requires_grad_()
    y = x.expand(10**13)
    with pytest.raises(MemoryError):
        (y * 2).sum()
