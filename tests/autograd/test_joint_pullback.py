"""Rows with one pullback for all inputs: called once a node, told which gradients are needed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native
from shmtensor.autograd.dispatch.op_function import Rule, declare, rule_of
from shmtensor.autograd.engine.grad_fn import saved_positions
from shmtensor.ops.table.op_table import ROWS, Pullback, Row, op
from tests.ops.draws import Call, calls, families

declare()  # so that all families are registered


class Counter:
    """A row's joint pullback that counts its calls and keeps what it was told."""

    def __init__(self, row: Row) -> None:
        assert row.joint is not None
        self.function, self.at = row.joint.function, row.joint.needs.index("needed")
        self.needed: list[Any] = []

    def __call__(self, *args: Any) -> Any:
        self.needed.append(args[self.at])
        return self.function(*args)


def count_calls(row: Row, monkeypatch: pytest.MonkeyPatch) -> Counter:
    """Counts the calls of the row's pullback until the test ends."""
    rule, counter = rule_of(row.name), Counter(row)
    assert row.joint is not None
    monkeypatch.setattr(row, "joint", row.joint._replace(function=counter))
    for name, on_tensors in (("arrays", False), ("tensors", True)):
        getattr(rule, name)  # so that the test's end restores it
        monkeypatch.setattr(rule, name, rule.gradients(on_tensors))
    return counter


def flat(tensors: list[Any]) -> list[Any]:
    return [v for t in tensors for v in (t if isinstance(t, list) else [t]) if v is not None]


def operands_with_grad(call: Call, needed: tuple[bool, ...]) -> tuple[list[Any], list[Any]]:
    """The operands of a call, and those of its differentiable ones that require grad."""
    tensors = call.tensors(requires_grad=True)
    leaves = call.differentiable(tensors)
    for t in flat(tensors):
        t.requires_grad_(False)
    chosen = [t for t, is_needed in zip(leaves, needed, strict=True) if is_needed]
    for t in chosen:
        t.requires_grad_()
    return tensors, chosen


def subsets(call: Call) -> Iterator[tuple[bool, ...]]:
    """All choices of operands that require grad, at first of all of them."""
    n = len(call.differentiable(call.tensors(requires_grad=True)))
    yield from (s for s in product((True, False), repeat=n) if any(s))


def gradients_of(
    call: Call,
    needed: tuple[bool, ...],
    create_graph: bool,
    others_require_grad: bool = False,
    allow_unused: bool = False,
) -> list[Any]:
    """The gradient of each differentiable operand as bytes, None if it is not needed or unused."""
    requiring = (True,) * len(needed) if others_require_grad else needed
    tensors, chosen = operands_with_grad(call, requiring)
    if others_require_grad:
        chosen = [t for t, is_needed in zip(chosen, needed, strict=True) if is_needed]
    outputs = [out for out in call.public(*tensors) if out.requires_grad]
    random = np.random.default_rng(1)
    cotangents = [st.tensor(random.normal(size=out.shape)).to(out.dtype) for out in outputs]
    gradients = iter(
        st.autograd.grad(
            outputs, chosen, cotangents, create_graph=create_graph, allow_unused=allow_unused
        )
    )
    found = [next(gradients) if is_needed else None for is_needed in needed]
    arrays = [None if g is None else g.detach().numpy() for g in found]
    return [None if a is None else (a.dtype, a.shape, a.tobytes()) for a in arrays]


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(**families(lambda row: row.joint))
def test_one_call_a_node_and_the_same_bits_for_all_needed_gradients(
    family: list[Row], dtype: str, create_graph: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for row in family:
        counter = count_calls(row, monkeypatch)
        for call in calls(row, dtype):
            by_all: list[Any] = []
            for needed in subsets(call):
                counter.needed.clear()
                found = gradients_of(call, needed, create_graph)
                by_all = by_all or found
                assert len(counter.needed) == 1, (str(call), needed)
                for one, of_all, is_needed in zip(found, by_all, needed, strict=True):
                    assert not is_needed or one == of_all, (str(call), needed)


class Calls:
    """A pullback that counts its calls."""

    def __init__(self, pullback: Pullback) -> None:
        self.function, self.n = pullback.function, 0

    def __call__(self, *args: Any) -> Any:
        self.n += 1
        return self.function(*args)


def count_pullbacks(row: Row, monkeypatch: pytest.MonkeyPatch) -> dict[str, Calls]:
    """Counts the calls of the row's pullbacks until the test ends."""
    rule, counters = rule_of(row.name), {name: Calls(p) for name, p in row.pullbacks.items()}
    pullbacks = {name: p._replace(function=counters[name]) for name, p in row.pullbacks.items()}
    monkeypatch.setattr(row, "pullbacks", pullbacks)
    for name, on_tensors in (("arrays", False), ("tensors", True)):
        getattr(rule, name)  # so that the test's end restores it
        monkeypatch.setattr(rule, name, rule.gradients(on_tensors))
    return counters


def has_several_pullbacks(row: Row) -> bool:
    return len(row.pullbacks) > 1 and not any(x.listed for x in row.inputs)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize(**families(has_several_pullbacks))
def test_grad_computes_the_gradients_of_its_inputs_alone(
    family: list[Row], create_graph: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for row in family:
        counters = count_pullbacks(row, monkeypatch) if row.joint is None else {}
        joint = None if row.joint is None else count_calls(row, monkeypatch)
        for call in calls(row):
            tensors, _ = operands_with_grad(call, next(subsets(call)))
            names = [x.name for x, t in zip(row.inputs, tensors, strict=True) if t is not None]
            names = [name for name in names if name in row.pullbacks]
            every = (True,) * len(names)
            by_all = gradients_of(call, every, create_graph, allow_unused=True)
            for i, name in enumerate(names):
                for counter in counters.values():
                    counter.n = 0
                alone = tuple(k == i for k in range(len(names)))
                found = gradients_of(call, alone, create_graph, True, allow_unused=True)
                assert found[i] == by_all[i], (str(call), name)
                if joint is None:
                    called = {n for n, counter in counters.items() if counter.n}
                    assert called == {name}, str(call)
                    assert counters[name].n == 1
                else:
                    assert sum(joint.needed[-1]) == 1, str(call)
                    assert dict(zip(row.pullbacks, joint.needed[-1], strict=True))[name]


def test_the_rows_with_a_joint_pullback_have_samples() -> None:
    joint = {row.name for row in ROWS.values() if row.joint}
    unsampled = {name for name in joint if not ROWS[name].samples}
    assert {"_native_layer_norm", "_native_batch_norm", "_scatter_reduce", "_rnn_layer"} <= joint
    assert unsampled == {"_cross_entropy_backward"}  # tested below


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_second_gradients_of_cross_entropy(reduction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counter = count_calls(ROWS["_cross_entropy_backward"], monkeypatch)
    target, direction = st.tensor([0, 2, 1, 3, 0]), st.randn(5, 4)
    values = st.randn(5, 4)

    def second(needs_x: bool, needs_g: bool) -> list[Any]:
        x, g = values.clone().requires_grad_(), st.tensor(0.7, requires_grad=needs_g)
        loss = st.nn.functional.cross_entropy(x, target, reduction=reduction)
        (slope,) = st.autograd.grad(loss, x, g, create_graph=True)
        leaves = [t for t, is_needed in ((x, needs_x), (g, needs_g)) if is_needed]
        return [t.tolist() for t in st.autograd.grad((slope * direction).sum(), leaves)]

    by_x, by_g = second(True, True)
    assert second(True, False) == [by_x]
    assert second(False, True) == [by_g]
    assert len(counter.needed) == 3


@pytest.mark.parametrize(**families(lambda row: row.joint))
def test_inputs_are_saved_for_needed_gradients_alone(family: list[Row]) -> None:
    for row in family:
        differentiable = [x for x in row.inputs if x.name in row.pullbacks]
        if any(x.listed for x in differentiable):
            continue  # a list is saved as a whole
        call = next(calls(row))
        for needed in subsets(call):
            tensors, _ = operands_with_grad(call, needed)
            node = next(out for out in call.public(*tensors) if out.requires_grad).grad_fn
            given = [x for x, t in zip(row.inputs, tensors, strict=True) if t is not None]
            present = [x.name for x in given if x in differentiable]
            chosen = {name for name, is_needed in zip(present, needed, strict=True) if is_needed}
            read = {n for name in chosen for n in row.pullbacks[name].needs}
            for x in row.inputs:
                position = saved_positions(row).positions.get(x.name)
                if position is not None:
                    is_saved = node.saved[position] is not None
                    assert is_saved == (x.name in read and x in given), (str(call), needed, x.name)


def saved_nbytes(node: Any) -> int:
    return sum(v.nbytes for v in node.saved if native.is_array(v))


def test_frozen_parameters_of_a_norm_save_what_the_gradients_need() -> None:
    n, m = 16, 64
    layer_norm = lambda x, w, b: st.nn.functional.layer_norm(x, (m,), w, b)  # noqa: E731
    statistics = 2 * n * 4

    def nbytes(*requires_grad: bool) -> int:
        shapes = ((n, m), (m,), (m,))
        operands = (st.ones(s, requires_grad=r) for s, r in zip(shapes, requires_grad, strict=True))
        return saved_nbytes(layer_norm(*operands).grad_fn)

    assert nbytes(True, True, True) == nbytes(True, False, False) == 4 * (n * m + m) + statistics
    assert nbytes(False, True, True) == 4 * n * m + statistics
    assert nbytes(False, False, True) == statistics


def test_the_pullback_is_told_what_has_an_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = count_calls(ROWS["_native_layer_norm"], monkeypatch)
    x, w, b = st.randn(3, 4, requires_grad=True), st.randn(4, requires_grad=True), st.randn(4)
    st.nn.functional.layer_norm(x, (4,), w, b).sum().backward()
    assert counter.needed == [(True, True, False)]
    assert b.grad is None
    y = st.nn.functional.layer_norm(x, (4,), None, b.requires_grad_())
    y.backward(st.ones(3, 4), retain_graph=True)
    y.backward(st.ones(3, 4))
    assert counter.needed[1:] == [(True, False, True)] * 2
    assert b.grad.tolist() == [6.0] * 4


def test_chosen_inputs_get_their_gradients_from_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = count_calls(ROWS["_native_batch_norm"], monkeypatch)
    operands = [st.randn(*shape, requires_grad=True) for shape in ((5, 4), (4,), (4,))]
    weights = st.randn(5, 4)
    by_all = st.autograd.grad((batch_norm(*operands) * weights).sum(), operands)
    for x, expected in zip(operands, by_all, strict=True):
        (found,) = st.autograd.grad((batch_norm(*operands) * weights).sum(), x)
        assert found.tolist() == expected.tolist()
        (batch_norm(*operands) * weights).sum().backward(inputs=[x])
        assert x.grad.tolist() == expected.tolist()
    assert len(counter.needed) == 7


def test_recurrent_layers_are_told_about_each_operand(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = count_calls(ROWS["_rnn_layer"], monkeypatch)
    layer = st.nn.GRU(3, 2)
    layer.weight_hh_l0.requires_grad_(False)
    layer.bias_hh_l0.requires_grad_(False)
    layer(st.randn(4, 1, 3))[0].sum().backward()
    ((needed,),) = counter.needed
    assert needed[0]
    assert not any(needed[1:])
    assert layer.weight_hh_l0.grad is None is layer.bias_hh_l0.grad
    assert layer.weight_ih_l0.grad is not None


def test_hooks_see_one_call() -> None:
    x, w = st.randn(3, 4, requires_grad=True), st.randn(4)
    y = st.nn.functional.layer_norm(x, (4,), w)
    gradients = []
    y.grad_fn.register_hook(lambda inputs, outputs: gradients.append((inputs, outputs)))
    y.sum().backward()
    (((g_x, g_w, g_b), (g,)),) = gradients
    assert g_x.shape == (3, 4)
    assert g_w is None is g_b
    assert g.tolist() == [[1.0] * 4] * 3


def batch_norm(x: Any, w: Any, b: Any) -> Any:
    return st.nn.functional.batch_norm(x, None, None, w, b, True)


def layer_norm(x: Any, w: Any, b: Any) -> Any:
    return st.nn.functional.layer_norm(x, (4,), w, b)


@pytest.mark.parametrize("function", [layer_norm, batch_norm])
def test_forward_mode_and_checkpoints(function: Any) -> None:
    st.manual_seed(3)
    operands = [st.randn(*shape, dtype=st.float64) for shape in ((5, 4), (4,), (4,))]
    tangents = [st.randn(*t.shape, dtype=st.float64) for t in operands]
    _, slope = st.func.jvp(function, tuple(operands), tuple(tangents))
    step = 1e-6
    ahead, behind = (
        function(*(t + sign * step * v for t, v in zip(operands, tangents, strict=True)))
        for sign in (1, -1)
    )
    assert st.allclose(slope, (ahead - behind) / (2 * step), atol=1e-7)

    weights = st.randn(5, 4, dtype=st.float64)
    leaves = [t.clone().requires_grad_() for t in operands]
    plain = st.autograd.grad((function(*leaves) * weights).sum(), leaves)
    again = st.utils.checkpoint.checkpoint(function, *leaves, use_reentrant=False)
    for g, expected in zip(st.autograd.grad((again * weights).sum(), leaves), plain, strict=True):
        assert g.tolist() == expected.tolist()


def test_gradients_of_each_example() -> None:
    x, w, b = st.randn(3, 2, 4), st.randn(4), st.randn(4)

    def loss(x: Any, w: Any, b: Any) -> Any:
        return (layer_norm(x, w, b) ** 2).sum()

    of_each = st.func.vmap(st.func.grad(loss, argnums=(0, 1, 2)), in_dims=(0, None, None))(x, w, b)
    for i in range(3):
        for found, expected in zip(of_each, st.func.grad(loss, (0, 1, 2))(x[i], w, b), strict=True):
            assert st.allclose(found[i], expected, atol=1e-5)


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
