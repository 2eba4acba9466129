"""Functions of layers beyond convolution: norms, attention, bags, margin losses, grids, unfold; and
histograms and gradients. Against NumPy's formulas.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.nn import functional as F

RANDOM = np.random.default_rng(1)
IMAGE = RANDOM.normal(size=(3, 4, 6, 5))
X = RANDOM.normal(size=(5, 4))
CLASSES = np.array([1, 0, 3, 2, 1])


def ones_at(values: Any, n: int) -> Any:
    return np.eye(n, dtype=bool)[values]


# ---- norms


def test_wrong_norms_are_refused() -> None:
    x = st.ones(1, 4)
    with pytest.raises(RuntimeError, match="are needed"):
        F.batch_norm(x, None, None)
    with pytest.raises(RuntimeError, match="divisible by num_groups"):
        F.group_norm(x, 3)
    with pytest.raises(ValueError, match="3 or more"):
        F.local_response_norm(x, 3)


# ---- attention


def attention(q: Any, k: Any, v: Any, mask: Any, scale: float) -> Any:
    scores = q @ k.swapaxes(-1, -2) * scale + mask
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def test_attention() -> None:
    q, k, v = (RANDOM.normal(size=(2, 4, n, 3)) for n in (5, 6, 6))
    tensors = [st.tensor(x) for x in (q, k, v)]
    attend = F.scaled_dot_product_attention
    plain = attention(q, k, v, 0, 1 / math.sqrt(3))
    assert np.allclose(attend(*tensors).numpy(), plain)
    bias = RANDOM.normal(size=(5, 6))
    out = attend(*tensors, attn_mask=st.tensor(bias), scale=0.5)
    assert np.allclose(out.numpy(), attention(q, k, v, bias, 0.5))
    causal = np.where(np.tri(5, 6, dtype=bool), 0, -np.inf)
    out = attend(*tensors, is_causal=True)
    assert np.allclose(out.numpy(), attention(q, k, v, causal, 1 / math.sqrt(3)))
    few = [st.tensor(q), st.tensor(k[:, :2]), st.tensor(v[:, :2])]
    wide = attention(q, k[:, :2].repeat(2, 1), v[:, :2].repeat(2, 1), 0, 1 / math.sqrt(3))
    assert np.allclose(attend(*few, enable_gqa=True).numpy(), wide)


def test_a_query_that_sees_nothing_gives_zero_and_a_gradient_without_nan() -> None:
    q, k, v = (st.tensor(RANDOM.normal(size=(2, 3)), requires_grad=True) for _ in range(3))
    mask = st.tensor(np.array([[True, False], [False, False]]))
    out = F.scaled_dot_product_attention(q, k, v, mask)
    assert np.allclose(out.detach().numpy(), [v.detach().numpy()[0], [0, 0, 0]])
    out.sum().backward()
    assert all(bool(x.grad.isfinite().all()) for x in (q, k, v))


@pytest.mark.parametrize("p", [0.0, 0.4])
@pytest.mark.parametrize("masked", ["not", "bool", "numbers"])
def test_the_kernel_and_the_composition_have_the_same_gradients(masked: str, p: float) -> None:
    """A gradient that is differentiated itself is composed of ops; dropout drops the same."""
    shapes = (2, 4, 9, 5), (2, 2, 7, 5), (2, 2, 7, 3)
    q, k, v = (st.tensor(RANDOM.normal(size=s), requires_grad=True) for s in shapes)
    mask = {
        "not": None,
        "bool": st.tensor(RANDOM.random((9, 7)) < 0.5),
        "numbers": st.tensor(RANDOM.normal(size=(4, 1, 7))),
    }[masked]
    out = F.scaled_dot_product_attention(q, k, v, mask, p, enable_gqa=True)
    g = st.tensor(RANDOM.normal(size=(2, 4, 9, 3)))
    kernel = st.autograd.grad(out, (q, k, v), g, retain_graph=True)
    composed = st.autograd.grad(out, (q, k, v), g, create_graph=True)
    for a, b in zip(kernel, composed, strict=True):
        assert not a.requires_grad
        assert b.requires_grad
        assert np.allclose(a.numpy(), b.detach().numpy())


def test_a_mask_of_numbers_has_a_gradient() -> None:
    q, k, v = (st.tensor(RANDOM.normal(size=(2, 3, 4, 5))) for _ in range(3))
    mask = st.tensor(RANDOM.normal(size=(3, 1, 4)), requires_grad=True)
    assert st.autograd.gradcheck(lambda m: F.scaled_dot_product_attention(q, k, v, m), (mask,))


def test_attention_saves_one_number_a_query() -> None:
    """Of the forward, beside its operands and its result."""
    q, k, v = (st.randn(2, 3, 200, 8, requires_grad=True) for _ in range(3))
    sizes: list[int] = []

    def pack(x: Any) -> Any:
        sizes.append(x.numel())
        return x

    with st.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.1)
    assert sorted(sizes) == [2 * 3 * 200, *[q.numel()] * 4]
    out.sum().backward()


# ---- bags of embeddings


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag(mode: str) -> None:
    table, at = RANDOM.normal(size=(7, 3)), np.array([1, 2, 4, 5, 4, 3])
    fold = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode]
    zero = np.zeros(3)
    bags = [at[:2], at[2:2], at[2:]]
    expected = np.stack([fold(table[b], 0) if len(b) else zero for b in bags])
    out = F.embedding_bag(
        st.tensor(at), st.tensor(table), st.tensor(np.array([0, 2, 2])), mode=mode
    )
    assert np.allclose(out.numpy(), expected)
    last = st.tensor(np.array([0, 2, 2, 6]))
    out = F.embedding_bag(
        st.tensor(at), st.tensor(table), last, mode=mode, include_last_offset=True
    )
    assert np.allclose(out.numpy(), expected)
    rows = F.embedding_bag(st.tensor(at.reshape(2, 3)), st.tensor(table), mode=mode, padding_idx=4)
    reduced = np.stack([fold(table[[1, 2]], 0), fold(table[[5, 3]], 0)])
    assert np.allclose(rows.numpy(), reduced)


def test_embedding_bag_weighs_samples_and_scales_gradients() -> None:
    table = st.tensor(RANDOM.normal(size=(4, 2)), requires_grad=True)
    at, share = st.tensor([[0, 1], [1, 1]]), st.tensor([[1.0, 2.0], [3.0, 4.0]]).double()
    out = F.embedding_bag(at, table, mode="sum", per_sample_weights=share)
    rows = table.detach().numpy()
    assert np.allclose(out.detach().numpy(), [rows[0] + 2 * rows[1], 7 * rows[1]])
    F.embedding_bag(at, table, mode="sum", scale_grad_by_freq=True).sum().backward()
    assert np.allclose(table.grad.numpy(), [[1, 1], [1, 1], [0, 0], [0, 0]])


# ---- margins


def test_margin_losses() -> None:
    target = X[np.arange(5), CLASSES][:, None]
    terms = np.maximum(0, 1 - target + X) * ~ones_at(CLASSES, 4)
    x, t = st.tensor(X), st.tensor(CLASSES)
    assert F.multi_margin_loss(x, t).item() == pytest.approx((terms.sum(1) / 4).mean())
    squared = F.multi_margin_loss(x, t, p=2, reduction="none")
    assert np.allclose(squared.numpy(), (terms**2).sum(1) / 4)
    labels = np.array([[1, 3, -1, 2]])
    one = X[:1]
    expected = sum(max(0, 1 - one[0, t] + one[0, c]) for t in (1, 3) for c in (0, 2)) / 4
    loss = F.multilabel_margin_loss(st.tensor(one), st.tensor(labels))
    assert loss.item() == pytest.approx(expected)
    truth = RANDOM.random((5, 4))
    soft = truth * np.log1p(np.exp(-X)) + (1 - truth) * np.log1p(np.exp(X))
    loss = F.multilabel_soft_margin_loss(x, st.tensor(truth))
    assert loss.item() == pytest.approx(soft.mean())


def test_pdist_is_the_upper_triangle_of_cdist() -> None:
    x = st.tensor(X)
    for p in (0, 1, 2, 3, math.inf):
        full = st.cdist(x, x, p).numpy()
        assert np.allclose(F.pdist(x, p).numpy(), full[np.triu_indices(5, 1)])


def test_linear_cross_entropy_is_both_in_one() -> None:
    w, b = RANDOM.normal(size=(6, 4)), RANDOM.normal(size=6)
    args = st.tensor(X), st.tensor(w), st.tensor(CLASSES)
    one = F.linear_cross_entropy(*args, linear_bias=st.tensor(b), ignore_index=3)
    two = F.cross_entropy(F.linear(args[0], args[1], st.tensor(b)), args[2], ignore_index=3)
    assert one.item() == pytest.approx(two.item())
    deep = RANDOM.normal(size=(6, 2, 4))
    many = F.linear_cross_entropy(
        args[0], st.tensor(deep), st.tensor(np.stack([CLASSES] * 2, 1)), reduction="none"
    )
    assert many.shape == (5, 2)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x, t: F.multi_margin_loss(x, t, p=3), ValueError),
        (lambda x, t: F.multi_margin_loss(x, t, reduction="some"), ValueError),
        (lambda x, t: F.multi_margin_loss(x, t.float()), RuntimeError),
        (lambda x, t: F.multilabel_margin_loss(x, t), RuntimeError),
        (lambda x, t: F.triplet_margin_with_distance_loss(x, x, x, margin=0), ValueError),
        (lambda x, t: F.linear_cross_entropy(x, x[:, :2], t), RuntimeError),
        (lambda x, t: F.pdist(x[0]), RuntimeError),
        (lambda x, t: F.embedding_bag(t, x), ValueError),
        (lambda x, t: F.embedding_bag(t, x, st.tensor([1])), RuntimeError),
        (lambda x, t: F.grid_sample(x, x), RuntimeError),
        (lambda x, t: F.fold(x, 3, 2), RuntimeError),
        (lambda x, t: F.unfold(x, 2), RuntimeError),
        (lambda x, t: F.pixel_shuffle(x[None], 2), RuntimeError),
        (lambda x, t: F.channel_shuffle(x[None], 2), RuntimeError),
        (lambda x, t: st.histogram(x, 0), RuntimeError),
        (lambda x, t: st.histogramdd(x, [2, 2]), RuntimeError),
        (lambda x, t: st.gradient(x, edge_order=3), RuntimeError),
    ],
)
def test_wrong_use_has_pytorchs_errors(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call(st.tensor(X), st.tensor(CLASSES))


# ---- grids and columns


def test_the_grid_of_the_identity_reads_the_image_itself() -> None:
    x = st.tensor(IMAGE)
    theta = st.tensor(np.stack([np.eye(2, 3)] * 3))
    for corners in (False, True):
        grid = F.affine_grid(theta, list(IMAGE.shape), align_corners=corners)
        assert grid.shape == (3, 6, 5, 2)
        for mode in ("bilinear", "nearest", "bicubic"):
            out = F.grid_sample(x, grid, mode, align_corners=corners)
            assert np.allclose(out.numpy(), IMAGE)
    volume = RANDOM.normal(size=(1, 2, 3, 4, 5))
    grid = F.affine_grid(st.tensor(np.eye(3, 4)[None]), list(volume.shape), align_corners=False)
    assert np.allclose(F.grid_sample(st.tensor(volume), grid).numpy(), volume)
    by_number = st.grid_sampler(st.tensor(volume), grid, 0, 0, False)
    assert np.allclose(by_number.numpy(), volume)
    assert st.grid_sampler_2d is st.grid_sampler_3d


def test_points_outside() -> None:
    x = st.tensor(np.arange(4.0).reshape(1, 1, 1, 4))
    grid = st.tensor([[[[-1.6, 0.0], [3.1, 0.0]]]]).double()
    read = lambda frame: F.grid_sample(x, grid, "nearest", frame).reshape(-1).tolist()  # noqa: E731
    assert read("zeros") == [0, 0]
    assert read("border") == [0, 3]
    assert read("reflection") == [1, 0]


def test_columns_are_windows_and_add_up() -> None:
    x = st.tensor(IMAGE)
    columns = F.unfold(x, (2, 3), padding=1, stride=2)
    framed = np.pad(IMAGE, [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(framed, (2, 3), (2, 3))[:, :, ::2, ::2]
    expected = windows.transpose(0, 1, 4, 5, 2, 3).reshape(3, 24, -1)
    assert np.array_equal(columns.numpy(), expected)
    count = F.fold(st.ones(3, 24, expected.shape[2]), (6, 5), (2, 3), padding=1, stride=2)
    image = F.fold(columns, (6, 5), (2, 3), padding=1, stride=2)
    assert np.allclose(image.numpy(), IMAGE * count.numpy())
    assert F.unfold(x[0], 2).shape == (16, 20)


# ---- histograms and slopes


def test_histograms_are_numpys() -> None:
    x, w = RANDOM.normal(size=50), RANDOM.random(50)
    for bins in (7, np.array([-2.0, -0.5, 0.1, 3.0])):
        bins_arg = bins if isinstance(bins, int) else st.tensor(bins)
        for density in (False, True):
            hist, edges = st.histogram(st.tensor(x), bins_arg, weight=st.tensor(w), density=density)
            expected = np.histogram(x, bins, weights=w, density=density)
            assert np.allclose(hist.numpy(), expected[0])
            assert np.allclose(edges.numpy(), expected[1])
    histogram = st.tensor(x).histogram(4, range=(-1.0, 1.0))
    assert np.allclose(histogram.hist.numpy(), np.histogram(x, 4, (-1, 1))[0])
    points = RANDOM.normal(size=(40, 2))
    hist, edges = st.histogramdd(st.tensor(points), [3, 4], range=[-1.0, 1.0, -2.0, 2.0])
    expected = np.histogramdd(points, [3, 4], [(-1, 1), (-2, 2)])
    assert np.allclose(hist.numpy(), expected[0])
    assert all(np.allclose(a.numpy(), b) for a, b in zip(edges, expected[1], strict=True))


def test_gradient_is_numpys() -> None:
    x = RANDOM.normal(size=(5, 6))
    at = np.cumsum(RANDOM.random(6) + 0.1)
    for order in (1, 2):
        gradients = st.gradient(st.tensor(x), edge_order=order)
        expected = np.gradient(x, edge_order=order)
        assert all(np.allclose(a.numpy(), b) for a, b in zip(gradients, expected, strict=True))
        (gradients,) = st.gradient(st.tensor(x), spacing=(st.tensor(at),), dim=1, edge_order=order)
        assert np.allclose(gradients.numpy(), np.gradient(x, at, axis=1, edge_order=order))


def test_bags_without_elements_have_a_gradient() -> None:
    for bags, kwargs in (
        (st.tensor([[1, 1]]), {"padding_idx": 1}),
        (st.empty(0, dtype=st.int64), {"offsets": st.tensor([0, 0])}),
    ):
        for mode in ("max", "mean", "sum"):
            weight = st.ones(3, 2, requires_grad=True)
            out = F.embedding_bag(bags, weight, mode=mode, **kwargs)
            assert (out == 0).all()
            out.sum().backward()
            assert weight.grad.tolist() == [[0, 0]] * 3


def test_bags_are_of_the_dtype_of_their_weight() -> None:
    bags = st.tensor([[0, 1]])
    for dtype in (st.float64, st.float16, st.int64):
        with pytest.raises(RuntimeError, match="has to be of weight's dtype"):
            shares = st.ones(1, 2).to(dtype)
            F.embedding_bag(bags, st.ones(3, 2), mode="sum", per_sample_weights=shares)
    with pytest.raises(RuntimeError, match="weight has to be floating point: int64"):
        F.embedding_bag(bags, st.ones(3, 2, dtype=st.int64))
