"""Writing at indices in place: only the indexed elements change, and autograd stays right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import memory, native

rows = st.tensor([4, 0, 4])
indices = st.tensor([[1, 3, 0], [2, 3, 3]])
unlike = st.tensor([[1, 3, 0], [2, 0, 4]])
flat = st.tensor([3, 7, -1])
WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "index_add": lambda x, s: x.index_add_(0, rows, s, alpha=2),
    "index_copy": lambda x, s: x.index_copy_(0, st.tensor([3, 0, 1]), s),
    "index_fill": lambda x, s: x.index_fill_(0, rows, s[0, 0]),
    "index_put": lambda x, s: x.index_put_((st.tensor([3, 0, 1]),), s),
    "index_put added": lambda x, s: x.index_put_((rows,), s, accumulate=True),
    "index_reduce": lambda x, s: x.index_reduce_(0, rows, s, "prod"),
    "put": lambda x, s: x.put_(flat, s[:, 0]),
    "put added": lambda x, s: x.put_(flat, s[:, 0], accumulate=True),
    "scatter": lambda x, s: x.scatter_(0, unlike, s),
    "scatter of a number": lambda x, s: x.scatter_(0, indices, 2),
    "scatter multiplied": lambda x, s: x.scatter_(0, indices, s, reduce="multiply"),
    "scatter_add": lambda x, s: x.scatter_add_(0, indices, s),
    **{
        f"scatter_reduce {how} {include_self}": lambda x, s, how=how, itself=include_self: (
            x.scatter_reduce_(0, indices, s, how, include_self=itself)
        )
        for how in ("sum", "prod", "mean", "amax", "amin")
        for include_self in (True, False)
    },
}
each = pytest.mark.parametrize("name", WRITES)


def out_of_place(name: str, x: Any, s: Any) -> Any:
    """The same through the public form without the underscore, on a copy."""

    class Forms:
        def __getattr__(self, method: str) -> Any:
            return getattr(x, method.removesuffix("_"))

    return WRITES[name](Forms(), s)


def operands(dtype: Any = st.float64) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    x, s = (st.tensor(rng.normal(size=shape)) for shape in ((5, 3), (3, 3)))
    return x.to(dtype), s.to(dtype)


@each
@pytest.mark.parametrize("dtype", [st.float64, st.float32, st.bfloat16, st.int64])
def test_in_place_is_as_out_of_place(name: str, dtype: Any) -> None:
    x, s = operands(dtype)
    want = out_of_place(name, x, s)
    for target in (x.clone(), x.T.clone().T, st.stack([x, x], -1)[..., 1]):
        assert WRITES[name](target, s) is target
        assert st.equal(target, want)


@each
def test_gradients(name: str) -> None:
    x, s = (t.requires_grad_() for t in operands())
    write = lambda x, s: WRITES[name](x * 1, s)  # noqa: E731
    assert st.autograd.gradcheck(write, (x, s))

    def part(x: Any, s: Any) -> Any:
        """A write to a view: its base has the history."""
        base = st.stack([x, x * 2.0], -1)
        WRITES[name](base[..., 1], s)
        return base

    assert st.autograd.gradcheck(part, (x, s))


@each
def test_leaves_are_refused_untouched(name: str) -> None:
    x, s = operands()
    x.requires_grad_()
    before = x.detach().clone()
    with pytest.raises(RuntimeError, match="leaf"):
        WRITES[name](x, s)
    assert st.equal(x.detach(), before)


# a mean counts the elements at each index of the full tensor
@pytest.mark.parametrize("name", [name for name in WRITES if "mean" not in name])
def test_memory_depends_on_the_written_part(name: str) -> None:
    s = operands(st.float32)[1]
    x = st.zeros(1_000_000, 3)

    def committed_by(call: Callable[[], Any]) -> int:
        native.trim()  # what is freed stays committed until then
        before = memory.statistics().committed_bytes
        call()
        return memory.statistics().committed_bytes - before

    assert committed_by(x.clone) >= x.nbytes
    assert committed_by(lambda: WRITES[name](x, s)) < 0.1 * x.nbytes


def test_operands_in_the_written_memory_are_copied_first() -> None:
    x = st.arange(6)
    x.scatter_(0, x[:3], x[3:])
    assert x.tolist() == [3, 4, 5, 3, 4, 5]
    x = st.arange(6)
    x[1:].index_add_(0, x[:3], x[:3])
    assert x.tolist() == [0, 1, 3, 5, 4, 5]
    x = st.arange(6).view(3, 2)
    x.index_copy_(0, st.tensor([1, 2]), x[:2])
    assert x.tolist() == [[0, 1], [0, 1], [2, 3]]


@pytest.mark.parametrize("wrong", [[1, 9, 0], [1, -9, 0]])
def test_indices_out_of_range_change_nothing(wrong: list[int]) -> None:
    at, s = st.tensor(wrong), st.ones(3, 3)
    calls: list[Callable[[Any], Any]] = [
        lambda x: x.index_add_(0, at, s),
        lambda x: x.index_copy_(0, at, s),
        lambda x: x.index_fill_(0, at, 7.0),
        lambda x: x.index_put_((at,), s),
        lambda x: x.index_put_((at,), s, accumulate=True),
        lambda x: x.index_reduce_(0, at, s, "amax", include_self=False),
        lambda x: x.scatter_(0, at[:, None], s),
        lambda x: x.scatter_add_(0, at[:, None], s),
        lambda x: x.scatter_reduce_(0, at[:, None], s, "amax", include_self=False),
        lambda x: x.put_(at * 3, s[0]),
    ]
    for call in calls:
        for x in (st.zeros(5, 3), st.zeros(3, 5).T):
            with pytest.raises((IndexError, RuntimeError), match=r"9|27|range|bounds"):
                call(x)
            assert not x.any()


def test_indices_out_of_range_have_pytorchs_classes() -> None:
    x, at = st.zeros(3, 2), st.tensor([3])
    with pytest.raises(IndexError, match=r"index_reduce.*3"):
        x.index_reduce_(0, at, st.ones(1, 2), "amax")
    with pytest.raises(RuntimeError, match=r"scatter.*3"):
        x.scatter_(0, at[:, None], 1.0)
