"""vmap equals the stacked loop over examples; one call where ops have rules."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import shmtensor as st
from shmtensor.func import vmap
from shmtensor.func.batched_tensor import Batched
from shmtensor.func.batching_rules import find_rule
from shmtensor.nn import functional as F

RANDOM = np.random.default_rng(11)
X = st.tensor(RANDOM.standard_normal((4, 3, 5)))
Y = st.tensor(RANDOM.standard_normal((4, 3, 5)))
M = st.tensor(RANDOM.standard_normal((4, 3, 3)) + 3 * np.eye(3))
V = st.tensor(RANDOM.standard_normal((4, 5)))
I = st.tensor(RANDOM.integers(0, 3, (4, 2, 5)))
IMAGES = st.tensor(RANDOM.standard_normal((4, 2, 3, 6, 6)))
KERNEL = st.tensor(RANDOM.standard_normal((2, 3, 3, 3)))
W = st.tensor(RANDOM.standard_normal((5, 2)))

# Functions of one example of the first argument (and the second).
ONE: dict[str, Callable[[Any], Any]] = {
    "pointwise": lambda x: x.sin() * 2 + x / 3 - x**2,
    "broadcast": lambda x: x + x[0] * x[:, :1],
    "unary": lambda x: st.relu(x).sigmoid().clamp(0.1, 0.9),
    "sum": lambda x: x.sum(),
    "sum along": lambda x: x.sum(1) + x.sum(-1) + x.mean((0, 1)),
    "keepdim": lambda x: x - x.amax(0, keepdim=True),
    "var": lambda x: x.var(1),
    "std of all": lambda x: x.std(),
    "max": lambda x: x.max(0),
    "argmax": lambda x: x.argmax(),
    "argmax along": lambda x: x.argmax(-1),
    "sort": lambda x: x.sort(0).values,
    "topk": lambda x: x.topk(2, 1).indices,
    "cumsum": lambda x: x.cumsum(0),
    "softmax": lambda x: x.softmax(0),
    "log_softmax": lambda x: x.log_softmax(-1),
    "norm": lambda x: x.norm(2, 0),
    "reshape": lambda x: x.reshape(5, -1),
    "flatten": lambda x: x.flatten(),
    "permute": lambda x: x.permute(1, 0).contiguous(),
    "transpose": lambda x: x.T + x.transpose(0, 1) + x.mT,
    "squeeze": lambda x: x[:1].squeeze() + x[:1].squeeze(0),
    "unsqueeze": lambda x: x.unsqueeze(-1) + x.unsqueeze(2),
    "expand": lambda x: x.unsqueeze(0).expand(2, -1, -1).clone(),
    "repeat": lambda x: x.repeat(2, 1, 1),
    "flip": lambda x: x.flip(0).roll(1, -1),
    "index": lambda x: x[1, 2:] + x[..., 0].sum(),
    "list index": lambda x: x[[0, 2, 0]],
    "two lists": lambda x: x[[0, 2], [1, 1]],
    "mask": lambda x: x[:, [True, False, True, False, True]],
    "cat": lambda x: st.cat([x, x[:1]], 0) + st.stack([x[0], x[0]], 0)[:1],
    "chunk": lambda x: x.chunk(2, 1)[1],
    "split": lambda x: x.split([1, 2])[1] * x.unbind(0)[0],
    "matmul": lambda x: x @ x.T,
    "matmul shared": lambda x: x @ W,
    "matvec": lambda x: x @ W[:, 0],
    "vecmat": lambda x: x[0] @ W,
    "dot": lambda x: x[0].dot(x[1]),
    "batched matmul": lambda x: st.stack([x, x]) @ x.T,
    "einsum": lambda x: st.einsum("ij,kj->ik", x, x),
    "linear": lambda x: F.linear(x, W.T, W[0]),
    "diagonal": lambda x: x.diagonal() + st.diag_embed(x)[0, 0, 0],
    "tril": lambda x: x.tril(),
    "where": lambda x: st.where(x > 0, x, 0.0),
    "masked_fill": lambda x: x.masked_fill(x > 0, -1.0),
    "gather": lambda x: x.gather(0, I[0]),
    "index_select": lambda x: x.index_select(1, I[0, 0]),
    "layer_norm": lambda x: F.layer_norm(x, (5,)),
    "gelu": lambda x: F.gelu(x),
    "cross_entropy": lambda x: F.cross_entropy(x, I[0, :1, :3].reshape(3)),
    "cast": lambda x: x.float().to(st.int32),
    "dtypes": lambda x: x.int() * x.sum().float() + 1.5,
    "in place": lambda x: x.clone().add_(x).mul_(2),
    "assignment": lambda x: assign(x),
    "tuple": lambda x: (x, {"sum": x.sum()}, [x[0]]),
    "attribute": lambda x: x * x.shape[0] + x.ndim + x.numel() + len(x),
    "fft": lambda x: st.fft.rfft(x, dim=0).abs(),
    "median": lambda x: x.median(1).values,
    "nonzero_static": lambda x: x.unfold(1, 2, 1),
    "cdist": lambda x: st.cdist(x, x),
    "kron": lambda x: st.kron(x, x[:1]),
    "shared result": lambda x: st.ones(2),
}


def assign(x: Any) -> Any:
    y = x.clone()
    y[0] = 1.0
    y[:, 1] = y[:, 0]
    y[st.tensor([1, 2]), 2] = 7.0
    return y


def loop(function: Callable[..., Any], *batches: Any) -> list[Any]:
    """The expected result of vmap, flattened."""
    from shmtensor.func.pytree import flatten

    rows = [flatten(function(*row))[0] for row in zip(*batches, strict=True)]
    return [np.stack([r[k].numpy() for r in rows]) for k in range(len(rows[0]))]


def same(ours: Any, expected: list[Any]) -> None:
    from shmtensor.func.pytree import flatten

    results = flatten(ours)[0]
    assert len(results) == len(expected)
    for x, y in zip(results, expected, strict=True):
        assert not isinstance(x, Batched)
        assert x.shape == y.shape
        assert x.dtype == y.dtype
        assert np.allclose(x.numpy(), y, 1e-10, 1e-10)


# Ops that run example by example.
SLOW = {"two lists"}


@pytest.mark.parametrize("name", ONE)
def test_vmap_is_the_loop(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one call for all examples."""
    if name not in SLOW:
        monkeypatch.setattr(find_rule, "call_each", None)
    calls = []

    def count_calls(x: Any) -> Any:
        calls.append(x)
        return ONE[name](x)

    same(vmap(count_calls)(X), loop(ONE[name], X))
    assert len(calls) == 1 or name in SLOW


TWO: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "add": (lambda x, y: x + y, X, V),
    "outer": (lambda x, y: x.unsqueeze(-1) * y, X, X[:, 0]),
    "matmul": (lambda x, y: x @ y, X, V),
    "matmul of ranks": (lambda x, y: x @ y, X.unsqueeze(1), X.mT),
    "linear": (lambda x, w: F.linear(x, w), X, X),
    "solve": (lambda a, b: st.linalg.solve(a, b), M, X),
    "inverse": (lambda a, b: st.linalg.inv(a) @ b, M, X),
    "qr": (lambda a, b: st.linalg.qr(a).R + st.linalg.svdvals(b)[0], M, X),
    "gather": (lambda x, i: x.gather(0, i), X, I),
    "index by example": (lambda x, i: x[i[0]], X, I),
    "take": (lambda x, i: st.take_along_dim(x, i, 0), X, I),
    "scatter": (lambda x, i: x.scatter_add(0, i, x[:2] * 0 + 1), X, I),
    "where": (lambda x, y: st.where(x > y, x, y), X, V),
    "cat": (lambda x, y: st.cat([x, y.unsqueeze(0)]), X, V),
    "conv2d": (lambda x, y: F.conv2d(x, KERNEL) + y.sum(), IMAGES, V),
    "conv2d by example": (lambda x, k: F.conv2d(x, k), IMAGES, IMAGES[:, :, :, :3, :3]),
    "max_pool2d": (lambda x, y: F.max_pool2d(x, 2) * y[0], IMAGES, V),
    "embedding": (lambda i, y: F.embedding(i, W.T.contiguous() @ W + 0), I % 2, V),
    "in place": (lambda x, y: x.clone().sub_(y), X, V),
    "cross": (lambda x, y: st.linalg.vecdot(x, y), X, Y),
}


@pytest.mark.parametrize("name", TWO)
def test_vmap_of_two_is_the_loop(name: str) -> None:
    function, a, b = TWO[name]
    same(vmap(function)(a, b), loop(function, a, b))


def test_dimensions_in_and_out() -> None:
    result = vmap(lambda x, y: x * y, in_dims=(1, None), out_dims=-1)(V, 2.0)
    assert np.allclose(result.numpy(), 2 * V.numpy())
    result = vmap(lambda d, y: d["a"] + y, in_dims=({"a": 0, "b": None}, 0))({"a": V, "b": W}, V)
    assert np.allclose(result.numpy(), 2 * V.numpy())
    a, b = vmap(lambda x: (x, x.sum()), out_dims=(1, 0))(V)
    assert a.shape == (5, 4)
    assert b.shape == (4,)
    shared = vmap(lambda x: (x, W), out_dims=(0, None))(V)[1]
    assert shared is W
    assert vmap(lambda x, scale: x * scale)(V, scale=2).shape == (4, 5)


def test_nested() -> None:
    x, y = st.arange(3.0), st.arange(4.0)
    outer = vmap(vmap(lambda a, b: a * b + a, in_dims=(None, 0)), in_dims=(0, None))(x, y)
    assert np.allclose(outer.numpy(), x.numpy()[:, None] * (y.numpy() + 1))
    twice = vmap(vmap(lambda v: v.sum() * v))(X)
    assert np.allclose(twice.numpy(), X.numpy().sum(-1, keepdims=True) * X.numpy())
    with_rest = vmap(lambda row: vmap(lambda v: v + row.sum())(row))(X)
    assert np.allclose(with_rest.numpy(), X.numpy() + X.numpy().sum((1, 2))[:, None, None])


def test_examples_run_one_by_one_if_data_is_needed() -> None:
    calls = []

    def branch(x: Any) -> Any:
        calls.append(x)
        return x * 2 if x[0] > 0 else x * float(x[1])

    same(vmap(branch)(V), loop(branch, V))
    assert vmap(lambda x: st.tensor(x.tolist()).sum())(V).shape == (4,)
    assert vmap(lambda x: st.from_numpy(x.numpy() + 1))(V).equal(V + 1)


def test_chunks() -> None:
    sizes = []

    def note(x: Any) -> Any:
        sizes.append(x.level.size)
        return x.sin()

    result = vmap(note, chunk_size=3)(V)
    assert sizes == [3, 1]
    assert np.allclose(result.numpy(), np.sin(V.numpy()))


def test_randomness() -> None:
    zeros = st.zeros(3, 4)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(lambda x: x + st.rand(4))(zeros)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(lambda x: F.dropout(x))(zeros)
    same_numbers = vmap(lambda x: x + st.rand(4), randomness="same")(zeros)
    assert same_numbers[0].equal(same_numbers[1])
    different = vmap(lambda x: x + st.rand(4), randomness="different")(zeros)
    assert not different[0].equal(different[1])
    st.rand(2)  # the guard has been removed


def test_wrong_use() -> None:
    with pytest.raises(ValueError, match="same size"):
        vmap(lambda x, y: x)(V, X[:3])
    with pytest.raises(ValueError, match="at least one argument"):
        vmap(lambda x: x, in_dims=None)(V) if False else vmap(lambda x: x, in_dims=(None,))(V)
    with pytest.raises(ValueError, match="dimensionality 2"):
        vmap(lambda x: x, in_dims=2)(V)
    with pytest.raises(ValueError, match="only return Tensors"):
        vmap(lambda x: 3)(V)
    with pytest.raises(ValueError, match="out_dim is None"):
        vmap(lambda x: x, out_dims=None)(V)
    with pytest.raises(ValueError, match="out_dim 3"):
        vmap(lambda x: x, out_dims=3)(V)
    with pytest.raises(RuntimeError, match="inplace arithmetic"):
        vmap(lambda x: st.zeros(5, dtype=st.float64).add_(x))(V)
    with pytest.raises(RuntimeError, match="differ in shape"):
        vmap(lambda x: x.nonzero())(st.tensor([[1, 0], [1, 1]]))
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(lambda x: x, randomness="any")
    with pytest.raises(ValueError, match="chunk_size"):
        vmap(lambda x: x, chunk_size=0)
    with pytest.raises(ValueError, match="no inputs"):
        vmap(lambda: 1)()
    with pytest.raises(RuntimeError, match="not inside vmap"):
        vmap(lambda x: x.sum().backward())(V)


def test_errors_of_ops_are_the_ops() -> None:
    with pytest.raises(IndexError):
        vmap(lambda x: x.sum(3))(V)
    with pytest.raises(RuntimeError):
        vmap(lambda x: x @ x[:2])(V)


def test_an_example_shows_one_shape() -> None:
    def check_shape(x: Any) -> Any:
        assert x.shape == (3, 5)
        assert x.stride() == (5, 1)
        assert x.dtype == st.float64
        assert x.is_contiguous()
        assert "Batched(shape=(3, 5), of 4" in repr(x)
        return x

    assert vmap(check_shape)(X).equal(X)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_a_loss_is_one_for_each_example(reduction: str) -> None:
    loss = st.nn.functional.mse_loss
    losses = vmap(lambda x: loss(x, X[0], reduction=reduction))(X)
    np.testing.assert_allclose(
        losses.numpy(), [loss(x, X[0], reduction=reduction).numpy() for x in X], rtol=1e-12
    )


def test_randomness_is_checked_in_each_thread() -> None:
    """Another thread's vmap ends while this one runs; random numbers are still refused here."""
    inside, left = threading.Event(), threading.Event()

    def end_another() -> None:
        inside.wait(30)
        vmap(lambda x: x + 1)(V)
        left.set()

    def draw(x: Any) -> Any:
        inside.set()
        assert left.wait(30)
        return x + st.rand(5)

    other = threading.Thread(target=end_another)
    other.start()
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(draw)(V)
    other.join()
    st.rand(3)


@pytest.mark.parametrize("randomness", ["error", "same", "different"])
def test_batch_of_no_examples(randomness: str) -> None:
    empty = st.zeros(0, 3)
    assert vmap(lambda x: x * 2, randomness=randomness)(empty).shape == (0, 3)
    assert vmap(st.dot, randomness=randomness)(empty, empty).shape == (0,)
    assert vmap(lambda x: st.zeros(2), randomness=randomness)(empty).shape == (0, 2)
    with pytest.raises(RuntimeError, match="size 0"):
        vmap(lambda x: x * x.sum().item(), randomness=randomness)(empty)
    with pytest.raises(RuntimeError, match="size 0"):
        vmap(lambda x: st.unique(x), randomness=randomness)(empty)


class Double(st.autograd.Function):
    @staticmethod
    def forward(x: Any, y: Any) -> Any:
        return x * 2 + y

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2, g


class DoubleByRule(Double):
    calls: ClassVar[list[Any]] = []

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any, y: Any) -> Any:
        DoubleByRule.calls.append((info, in_dims, x.shape, y.shape))
        return DoubleByRule.apply(x, y).t(), 1


def test_function_with_its_own_rule() -> None:
    y = st.ones(5, dtype=st.float64)
    assert vmap(Double.apply, in_dims=(0, None))(V, y).equal(V * 2 + y)
    DoubleByRule.calls.clear()
    assert vmap(DoubleByRule.apply, in_dims=(0, None))(V, y).equal(V * 2 + y)
    assert DoubleByRule.calls == [((4, "error"), (0, None), (4, 5), (5,))]
    assert DoubleByRule.calls[0][0].batch_size == 4
    slope = vmap(st.func.grad(lambda x: DoubleByRule.apply(x, x).sum()))(V)
    assert slope.equal(st.full_like(V, 3.0))

    DoubleByRule.calls.clear()  # the inner vmap has no batch of it, the outer one has
    both = vmap(lambda x: vmap(lambda z: DoubleByRule.apply(x, x) * z)(V[0]))(V)
    assert both.equal(3 * V.unsqueeze(1) * V[0].unsqueeze(1))
    assert DoubleByRule.calls == [((4, "error"), (0, 0), (4, 5), (4, 5))]

    class Both(DoubleByRule):
        generate_vmap_rule = True

    with pytest.raises(RuntimeError, match="Both has both generate_vmap_rule=True and an overri"):
        vmap(Both.apply)(V, V)
