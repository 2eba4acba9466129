"""LinearCrossEntropyOptions: what it accepts, and what each option does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native, nn
from shmtensor.ops.loss.linear_cross_entropy import rows_of_a_piece

F = nn.functional
Options = nn.LinearCrossEntropyOptions


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


def results(
    options: Any, reduction: str = "mean", dtype: Any = st.float32, bias: bool = True
) -> list[Any]:
    """The loss and the gradients by input, weight and bias, of 37 rows and 50 classes."""
    random = np.random.default_rng(3)
    x, w, b = (
        st.tensor(random.normal(size=s), dtype=dtype, requires_grad=True)
        for s in ((37, 8), (50, 8), (50,))
    )
    target = st.tensor(np.where(np.arange(37) % 5, random.integers(0, 50, 37), 7))
    loss = F.linear_cross_entropy(
        x, w, target, linear_bias=b if bias else None, reduction=reduction, ignore_index=7,
        options=options,
    )  # fmt: skip
    leaves = (x, w, b) if bias else (x, w)
    g = st.tensor(random.normal(size=tuple(loss.shape)), dtype=dtype)
    return [loss.detach(), *st.autograd.grad(loss, leaves, g)]


@pytest.mark.parametrize("dtype", [st.float32, st.float64, st.bfloat16])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("bias", [True, False])
def test_pieces_give_the_same_loss_and_gradients(bias: bool, reduction: str, dtype: Any) -> None:
    expected = results(None, reduction, st.float64, bias)
    bound = {st.float32: 1e-5, st.float64: 1e-12, st.bfloat16: 0.03}[dtype]
    for options in (
        Options(),
        Options(batch_chunk_size=10),
        Options(chunking_method="aspect_ratio", acc_policy="accurate"),
        Options(batch_chunk_size=100, chunking_method=None, acc_dtype=st.float64),
    ):
        for x, y in zip(results(options, reduction, dtype, bias), expected, strict=True):
            assert x.dtype == dtype
            scale = max(1.0, float(y.abs().max()))
            assert np.allclose(x.double().numpy(), y.numpy(), rtol=bound, atol=bound * scale)


class Spy:
    """Counts the calls of a function of `native` by the shapes of its results."""

    def __init__(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.function = getattr(native, name)
        self.shapes: list[tuple[int, ...]] = []
        monkeypatch.setattr(native, name, self)

    def __call__(self, *args: Any) -> Any:
        out = self.function(*args)
        self.shapes.append(out.shape)
        return out


def test_batch_chunk_size_is_the_rows_of_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = Spy("linear", monkeypatch)
    results(Options(batch_chunk_size=16))
    assert logits.shapes == [(16, 50), (16, 50), (5, 50)] * 2  # forward, backward


def test_chunking_method_gives_the_rows() -> None:
    def rows(n: int, in_features: int, classes: int, **kwargs: Any) -> int:
        return rows_of_a_piece(Options(**kwargs), n, in_features, classes)

    assert rows(1000, 64, 6400, chunking_method="aspect_ratio") == 16  # 10, rounded up
    assert rows(1000, 64, 6400, chunking_method="aspect_ratio:4") == 4
    assert rows(1000, 64, 6400, chunking_method="aspect_ratio:64") == 1
    assert rows(1000, 64, 6400) == 64
    assert rows(50, 64, 6400) == 50
    assert rows(10, 64, 32, chunking_method="aspect_ratio") == 10
    assert rows(1000, 64, 6400, batch_chunk_size=30) == 30
    assert rows(20, 64, 6400, batch_chunk_size=30) == 20
    assert rows(20, 64, 6400, chunking_method=None) == 20
    with pytest.raises(ValueError, match="give different sizes: 30, 16"):
        rows(1000, 64, 6400, batch_chunk_size=30, chunking_method="aspect_ratio")


@pytest.mark.parametrize(("policy", "blocks"), [("compact", 2), ("auto", 2), ("accurate", 1)])
def test_acc_policy_bounds_the_products(
    policy: str, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    products = Spy("matmul", monkeypatch)
    x, w = (st.randn(n, 4, requires_grad=True) for n in (6, 3000))
    options = Options(acc_policy=policy, batch_chunk_size=6)
    loss = F.linear_cross_entropy(x, w, st.arange(6), options=options)
    loss.backward()
    assert sum(shape[0] for shape in products.shapes if shape != (6, 4)) == 3000
    assert len(products.shapes) == 1 + blocks


def test_acc_dtype_is_that_of_sums_over_pieces() -> None:
    n = 300
    x = st.ones(n, 1)
    x[0] = 2.0**25  # beside its third, a third is less than half a unit of float32
    w = st.zeros(3, 1, requires_grad=True)
    errors = []
    for acc_dtype in (None, st.float64):
        options = Options(batch_chunk_size=1, acc_dtype=acc_dtype)
        loss = F.linear_cross_entropy(
            x, w, st.zeros(n, dtype=st.int64), reduction="sum", options=options
        )
        (g,) = st.autograd.grad(loss, w)
        assert g.dtype == st.float32
        errors.append(abs(float(g[1]) - float(x.double().sum()) / 3))
    assert errors[0] > 50
    assert errors[1] < 2


@pytest.mark.parametrize("allow", [False, True])
def test_backward_may_run_twice(allow: bool) -> None:
    x, w = (st.randn(n, 4, requires_grad=True) for n in (6, 5))
    options = Options(allow, 2, None)
    loss = F.linear_cross_entropy(x, w, st.tensor([0, 1, 2, 3, 4, 0]), options=options)
    first = st.autograd.grad(loss, (x, w), retain_graph=True)
    second = st.autograd.grad(loss, (x, w))
    assert all(bool((a == b).all()) for a, b in zip(first, second, strict=True))


def test_pieces_have_a_second_gradient() -> None:
    x, w, b = (st.randn(*s, dtype=st.float64, requires_grad=True) for s in ((4, 3), (5, 3), (5,)))
    target, options = st.tensor([0, 4, 2, 2]), Options(batch_chunk_size=3)

    def loss(x: Any, w: Any, b: Any) -> Any:
        return F.linear_cross_entropy(x, w, target, linear_bias=b, ignore_index=4, options=options)

    assert st.autograd.gradcheck(loss, (x, w, b))
    assert st.autograd.gradgradcheck(loss, (x, w, b))


def test_pieces_keep_two_numbers_a_row() -> None:
    x, w = st.randn(64, 4, requires_grad=True), st.randn(500, 4, requires_grad=True)
    sizes: list[int] = []

    def pack(tensor: Any) -> Any:
        sizes.append(tensor.numel())
        return tensor

    with st.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        F.linear_cross_entropy(x, w, st.arange(64), options=Options())
    assert max(sizes) == w.numel()
    assert 2 * 64 in sizes
