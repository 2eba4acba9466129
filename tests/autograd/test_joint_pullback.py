"""Rows with one pullback for all inputs: called once a node, told which gradients are needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import shmtensor as st
from shmtensor.autograd.dispatch.op_function import Rule
from shmtensor.ops.table.op_definition import ROWS, Row, op


# ---- the declaration


@pytest.fixture
def row() -> Iterator[Row]:
    """A row without pullbacks, which the test's end removes."""

    @op(method=False, function=False, name="product_of_three")
    def product_of_three(xp, x, y, z=None, /, scale=1.0):  # type: ignore[no-untyped-def]
        """x * y * scale, and z is ignored."""
        return x * y * scale

    try:
        yield product_of_three
    finally:
        del ROWS["product_of_three"]


def test_a_wrong_declaration_is_refused(row: Row) -> None:
    def pullback(needed: Any, g: Any, x: Any) -> Any:
        """Nothing."""

    with pytest.raises(TypeError, match=r"joint_pullback: no such input: 'q', it has \['x', 'y'"):
        row.joint_pullback(pullback, q="x")
    with pytest.raises(TypeError, match=r"those that the gradients need: \['x'\], \['x', 'y'\]"):
        row.joint_pullback(pullback, x="y", y="x")
    with pytest.raises(TypeError, match=r"those that the gradients need: \['x'\], \[\]"):
        row.joint_pullback(pullback, x="", y="")
    with pytest.raises(TypeError, match=r"the function has parameters unknown .*: \['into'\]"):
        row.joint_pullback(lambda needed, g, into: None, x="")
    with pytest.raises(TypeError, match=r"pullback: x has parameters unknown .*: \['needed'\]"):
        row.pullback(x=lambda g, needed: g)
    assert row.joint is None
    assert not row.pullbacks


def test_a_wrong_number_of_gradients_is_an_error(row: Row) -> None:
    row.joint_pullback(lambda needed, g, x, y: (g * y,), x="y", y="x")
    x = st.ones(2, requires_grad=True)
    out = Rule(row).public(x, st.ones(2))
    with pytest.raises(TypeError, match="must return a tuple of 2 gradients, not a tuple of 1"):
        out.sum().backward()


def test_a_gradient_that_nobody_needs_is_dropped(row: Row) -> None:
    row.joint_pullback(
        lambda needed, g, x, y, scale: (g * scale * y, g * scale if x is None else g * scale * x),
        x="y", y="x",
    )  # fmt: skip
    x, y = st.full((2,), 3.0, requires_grad=True), st.full((2,), 5.0)
    out = Rule(row).public(x, y, scale=2.0)
    seen = []
    out.grad_fn.register_hook(lambda inputs, outputs: seen.extend(inputs))
    (slope,) = st.autograd.grad(out.sum(), x)
    assert slope.tolist() == [10.0, 10.0]
    assert seen[1] is None
