"""Differentiable functions that are not rows, with inputs, to be checked against differences.

Names are those of tests/surface/names.txt. `FLAT` lists functions without a gradient; tests/surface
reports names in neither.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from test_composites import CASES

import shmtensor as st
from shmtensor import linalg, special
from shmtensor.autograd.dispatch.op_function import table
from shmtensor.device import CPU
from shmtensor.nn import functional as F

__all__ = ["CHECKED", "FLAT", "ONCE", "REACHED", "SLOPES", "case"]

RANDOM = np.random.default_rng(11)


def normal(*shape: int) -> Any:
    return RANDOM.normal(size=shape)


def between(low: float, high: float, *shape: int) -> Any:
    return RANDOM.uniform(low, high, shape)


X, Y, Z = normal(3, 4), normal(3, 4), normal(3, 4)
UP, P = between(0.5, 2, 3, 4), between(0.1, 0.9, 3, 4)
V, W = normal(4), between(0.5, 2, 4)
S = normal(3, 3) + 3 * np.eye(3)
TALL = normal(4, 3)
C = normal(3, 3) + 1j * normal(3, 3)
LINE, IMAGE, VOLUME = normal(2, 4, 6), normal(1, 4, 5, 4), normal(1, 2, 4, 3, 4)
TARGET = np.array([1, 0, 3])
DRAWN = {n: st.tensor(between(0, 1, 1, c, n)) for n, c in ((2, 4), (3, 2))}
SOME = st.tensor([[1, 0, 1, 1], [1, 1, 0, 1], [0, 1, 1, 0]], dtype=st.bool)
LEFT = SOME * st.tensor([[True], [False], [True]])  # nothing of the second row
SIGNS = np.array([1.0, -1.0, 1.0])
LETTERS = np.array([[0, 2, 1], [3, 3, 0]])
CLASSES = np.array([[1, 0, -1, 2], [2, 3, 1, -1], [0, -1, 1, 1]])


def positive(x: Any) -> Any:
    return x @ x.mT + st.eye(x.shape[-1], dtype=st.float64)


def seeded(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with the same random numbers at each call."""

    def run(*xs: Any) -> Any:
        with st.random.fork_rng():
            st.manual_seed(5)
            return function(*xs)

    return run


def unpooled(n: int) -> Callable[..., Any]:
    pool, unpool = getattr(F, f"max_pool{n}d"), getattr(F, f"max_unpool{n}d")
    return lambda x: unpool(*pool(x, 2, return_indices=True), 2)


def recurrent(name: str, gates: int) -> tuple[Any, ...]:
    """One layer over two steps: (function, input, hidden, weights...)."""
    weights = (normal(gates * 2, 3), normal(gates * 2, 2), normal(gates * 2), normal(gates * 2))

    def run(x: Any, h: Any, *w: Any) -> Any:
        hidden = (h, h * 0.5) if name == "lstm" else h
        return getattr(st, name)(x, hidden, list(w), True, 1, 0.0, False, False, False)

    return (run, normal(2, 2, 3), normal(1, 2, 2), *weights)


def cell(name: str, gates: int) -> tuple[Any, ...]:
    weights = (normal(gates * 2, 3), normal(gates * 2, 2), normal(gates * 2), normal(gates * 2))

    def run(x: Any, h: Any, *w: Any) -> Any:
        return getattr(st, name)(x, (h, h * 0.5) if name == "lstm_cell" else h, *w)

    return (run, normal(2, 3), normal(2, 2), *weights)


def attended(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


SLOPES: dict[str, tuple[Any, ...]] = {
    # ------------------------------------------------ shmtensor and Tensor
    "H": (lambda x: x.H, C),
    "T": (lambda x: x.T, X),
    "mH": (lambda x: x.mH, C),
    "mT": (lambda x: x.mT, X),
    "imag": (lambda x: x.imag, C),
    "to": (lambda x: x.to(st.complex128), X),
    "type": (lambda x: x.type(st.complex128), X),
    "type_as": (lambda x: x.type_as(st.zeros(1, dtype=st.complex128)), X),
    "double": (lambda x: (x + 1j).real.double(), X),
    "cdouble": (lambda x: x.cdouble(), X),
    "contiguous": (lambda x: x.T.contiguous(), X),
    "cpu": (lambda x: x.cpu() * x, X),
    "_to_device": (lambda x: table._to_device(x * x, CPU, CPU), X),  # tests/cuda/dispatch: others
    "resize": (lambda x: x.resize(4, 3), X),
    "as_strided": (lambda x: x.as_strided((3, 2), (2, 3), 1), X),
    "copy_": (lambda x, y: (x * 1).copy_(y * y), X, V),
    "polygamma_": (lambda x: (x * x + 1).polygamma_(1), X),
    "fill": (lambda x, v: st.fill(x * x, v.sum()), X, V),
    "fill_diagonal_": (lambda x: (x * x).fill_diagonal_(0), X),
    "zero_": (lambda x: (x * x)[:, 1:].zero_() + x[:, 1:], X),
    "index assignment": (lambda x, v: assign(x, v), X, V),
    "expand_as": (lambda x: x.expand_as(st.ones(2, 3, 4)), X),
    "reshape_as": (lambda x: x.reshape_as(st.ones(4, 3)), X),
    "view_as": (lambda x: x.view_as(st.ones(4, 3)), X),
    "view": (lambda x: x.view(2, -1), X),
    "sum_to_size": (lambda x: x.sum_to_size(1, 4), X),
    "conj": (st.conj, C),
    "real": (st.real, C),
    "positive": (st.positive, X),
    "resolve_conj": (lambda x: st.resolve_conj(x.conj()), C),
    "resolve_neg": (lambda x: st.resolve_neg(x.imag), C),
    "view_as_complex": (st.view_as_complex, normal(3, 2)),
    "view_as_real": (st.view_as_real, C),
    "view_as_complex_copy": (st.view_as_complex_copy, normal(3, 2)),
    "view_as_real_copy": (st.view_as_real_copy, C),
    "slice_copy": (lambda x: st.slice_copy(x, 1, 0, 3, 2), X),
    "split_copy": (lambda x: st.split_copy(x, [1, 3], 1)[1], X),
    "vander": (lambda x: st.vander(x, 3), V),
    "nanmedian": (lambda x: st.nanmedian(x, 1).values, X),
    "gradient": (lambda x: st.gradient(x, spacing=0.5, edge_order=2), normal(4, 4)),
    "igamma": (lambda x: st.igamma(st.full((3, 4), 1.5, dtype=st.float64), x), UP),
    "igammac": (lambda x: st.igammac(st.full((3, 4), 1.5, dtype=st.float64), x), UP),
    "mvlgamma": (lambda x: st.mvlgamma(x, 2), UP + 1),
    "special.multigammaln": (lambda x: special.multigammaln(x, 3), UP + 2),
    "segment_reduce": (
        lambda x: st.segment_reduce(x, "prod", lengths=st.tensor([2, 0, 1]), initial=1.0), X,
    ),
    "stft": (lambda x: st.view_as_real(st.stft(
        x, 4, window=st.ones(4, dtype=st.float64), return_complex=True)), normal(9)),
    "istft": (lambda x: st.istft(st.view_as_complex(x), 4, window=st.ones(4, dtype=st.float64)),
              normal(3, 5, 2)),
    "pdist": (F.pdist, normal(4, 3)),
    # ------------------------------------------------ matrices
    "cholesky": (lambda x: st.cholesky(positive(x)), S),
    "cholesky_inverse": (lambda x: st.cholesky_inverse(st.tril(x)), S),
    "cholesky_solve": (lambda x, b: st.cholesky_solve(b, st.tril(x)), S, normal(3, 2)),
    "logdet": (lambda x: st.logdet(positive(x)), S),
    "matrix_power": (lambda x: st.matrix_power(x, 3), S),
    "triangular_solve": (lambda x, b: st.triangular_solve(b, x).solution, S, normal(3, 2)),
    "qr": (lambda x: tuple(st.qr(x)), TALL),
    "lu": (lambda x: st.lu(x)[0], S),
    "lu_unpack": (lambda x: st.lu_unpack(*linalg.lu_factor(x))[1:], S),
    "lu_solve": (lambda x, b: st.lu_solve(b, *linalg.lu_factor(x)), S, normal(3, 2)),
    "svd": (lambda x: st.svd(x)[1], TALL),
    "svd_lowrank": (seeded(lambda x: st.svd_lowrank(x, 3)[1]), TALL),
    "pca_lowrank": (seeded(lambda x: st.pca_lowrank(x, 3)[1]), TALL),
    "orgqr": (lambda x: st.orgqr(x, x[0]), S),
    "ormqr": (lambda x, y: st.ormqr(x, x[0], y), S, normal(3, 2)),
    "special.modified_bessel_i0": (special.modified_bessel_i0, X),
    "special.modified_bessel_i1": (special.modified_bessel_i1, X),
    "geqrf": (lambda x: linalg.qr(x)[1], TALL),
    "linalg.cholesky": (lambda x: linalg.cholesky(positive(x), upper=True), S),
    "linalg.cholesky_ex": (lambda x: linalg.cholesky_ex(positive(x)).L, S),
    "linalg.cond": (linalg.cond, S),
    "linalg.cross": (linalg.cross, TALL, normal(4, 3)),
    "linalg.det": (linalg.det, S),
    "linalg.diagonal": (linalg.diagonal, S),
    "linalg.eig": (lambda x: linalg.eig(x)[1].abs(), S),
    "linalg.eigh": (lambda x: linalg.eigh(x + x.mT)[1].square(), S),
    "linalg.eigvals": (lambda x: linalg.eigvals(x).abs().prod(), S),
    "linalg.eigvalsh": (lambda x: linalg.eigvalsh(x + x.mT), S),
    "linalg.householder_product": (lambda x: linalg.householder_product(x, x[0]), S),
    "linalg.inv": (linalg.inv, S),
    "linalg.inv_ex": (lambda x: linalg.inv_ex(x)[0], S),
    "linalg.lstsq": (lambda x, b: linalg.lstsq(x, b).solution, TALL, normal(4, 2)),
    "linalg.lu": (lambda x: linalg.lu(x)[1:], S),
    "linalg.lu_factor": (lambda x: linalg.lu_factor(x)[0], S),
    "linalg.lu_factor_ex": (lambda x: linalg.lu_factor_ex(x)[0], S),
    "linalg.lu_solve": (lambda x, b: linalg.lu_solve(*linalg.lu_factor(x), b), S, normal(3, 2)),
    "linalg.matrix_exp": (linalg.matrix_exp, S / 3),
    "linalg.matrix_norm": (lambda x: linalg.matrix_norm(x, "nuc"), TALL),
    "linalg.matrix_power": (lambda x: linalg.matrix_power(x, -2), S),
    "linalg.multi_dot": (lambda x, y: linalg.multi_dot([x, y, x]), S, normal(3, 3)),
    "linalg.norm": (lambda x: linalg.norm(x, 3, 0), X),
    "linalg.pinv": (linalg.pinv, TALL),
    "linalg.qr": (lambda x: tuple(linalg.qr(x)), TALL),
    "linalg.slogdet": (lambda x: linalg.slogdet(x)[1], S),
    "linalg.solve": (linalg.solve, S, normal(3, 2)),
    "linalg.solve_ex": (lambda x, b: linalg.solve_ex(x, b)[0], S, normal(3, 2)),
    "linalg.solve_triangular": (
        lambda x, b: linalg.solve_triangular(x, b, upper=True), S, normal(3, 2),
    ),
    "linalg.svd": (lambda x: linalg.svd(x, False)[0].square(), TALL),
    "linalg.svdvals": (linalg.svdvals, TALL),
    "linalg.tensorinv": (lambda x: linalg.tensorinv(x.reshape(3, 3, 1), 1), S),
    "linalg.tensorsolve": (
        lambda x, b: linalg.tensorsolve(x.reshape(3, 3, 1), b), S, normal(3),
    ),
    "linalg.vander": (lambda x: linalg.vander(x, N=3), V),
    "linalg.vecdot": (linalg.vecdot, X, Y),
    "linalg.vector_norm": (lambda x: linalg.vector_norm(x, 1.5, 1), X),
    "norm_except_dim": (lambda x: st.norm_except_dim(x, 2, 0), X),
    # ------------------------------------------------ layers
    **{f"nn.functional.adaptive_avg_pool{n}d": (
        lambda x, n=n: getattr(F, f"adaptive_avg_pool{n}d")(x, 2), image)
       for n, image in enumerate((LINE, IMAGE, VOLUME), 1)},
    **{f"nn.functional.adaptive_max_pool{n}d": (
        lambda x, n=n: getattr(F, f"adaptive_max_pool{n}d")(x, 2), image)
       for n, image in enumerate((LINE, IMAGE, VOLUME), 1)},
    **{f"nn.functional.avg_pool{n}d": (
        lambda x, n=n: getattr(F, f"avg_pool{n}d")(x, 2, 1, 1), image)
       for n, image in enumerate((LINE, IMAGE, VOLUME), 1)},
    **{f"nn.functional.max_pool{n}d": (
        lambda x, n=n: getattr(F, f"max_pool{n}d")(x, 2, 1), image)
       for n, image in enumerate((LINE, IMAGE, VOLUME), 1)},
    **{f"nn.functional.lp_pool{n}d": (
        lambda x, n=n: getattr(F, f"lp_pool{n}d")(x, 3, 2), np.abs(image) + 0.1)
       for n, image in enumerate((LINE, IMAGE, VOLUME), 1)},
    **{f"nn.functional.max_unpool{n}d": (unpooled(n), image)
       for n, image in enumerate((LINE, IMAGE, VOLUME[..., :2, :]), 1)},
    **{f"nn.functional.fractional_max_pool{n}d": (
        lambda x, n=n: getattr(F, f"fractional_max_pool{n}d")(
            x, 2, 2, None, False, DRAWN[n].to(x.device, x.dtype)
        ),
        image,
    ) for n, image in ((2, IMAGE), (3, VOLUME))},
    "nn.functional.conv1d": (lambda x, w, b: F.conv1d(x, w, b, 2, 1), LINE, normal(3, 4, 3), V[:3]),
    "nn.functional.conv2d": (
        lambda x, w, b: F.conv2d(x, w, b, 1, 1, 2, 2), IMAGE, normal(2, 2, 2, 2), V[:2],
    ),
    "nn.functional.conv3d": (lambda x, w: F.conv3d(x, w), VOLUME, normal(2, 2, 2, 2, 2)),
    "nn.functional.conv_tbc": (
        lambda x, w, b: F.conv_tbc(x, w, b, 1), normal(4, 2, 3), normal(2, 3, 2), V[:2],
    ),
    "nn.functional.conv_transpose1d": (
        lambda x, w: F.conv_transpose1d(x, w, None, 2), LINE, normal(4, 2, 3),
    ),
    "nn.functional.conv_transpose2d": (
        lambda x, w: F.conv_transpose2d(x, w, None, 2, 1), IMAGE, normal(4, 2, 2, 2),
    ),
    "nn.functional.conv_transpose3d": (
        lambda x, w: F.conv_transpose3d(x, w), VOLUME, normal(2, 1, 2, 2, 2),
    ),
    "nn.functional.linear": (F.linear, X, normal(2, 4), V[:2]),
    "nn.functional.bilinear": (F.bilinear, normal(3, 2), normal(3, 4), normal(2, 2, 4), V[:2]),
    "nn.functional.affine_grid": (
        lambda t: F.affine_grid(t, (1, 2, 3, 4), align_corners=False), normal(1, 2, 3),
    ),
    "nn.functional.grid_sample": (
        lambda x, g: F.grid_sample(x, g, align_corners=False),
        IMAGE, between(-0.9, 0.9, 1, 3, 2, 2),
    ),
    "grid_sampler_2d": (
        lambda x, g: st.grid_sampler_2d(x, g, 0, 0, True), IMAGE, between(-0.9, 0.9, 1, 3, 2, 2),
    ),
    "grid_sampler_3d": (
        lambda x, g: st.grid_sampler_3d(x, g, 0, 0, True),
        VOLUME, between(-0.9, 0.9, 1, 2, 3, 2, 3),
    ),
    "grid_sampler": (
        lambda x, g: st.grid_sampler(x, g, 0, 1, True), IMAGE, between(-0.9, 0.9, 1, 3, 2, 2),
    ),
    "nn.functional.interpolate": (
        lambda x: F.interpolate(x, (3, 7), mode="bicubic", align_corners=False), IMAGE,
    ),
    "nn.functional.upsample": (lambda x: F.upsample(x, scale_factor=2), IMAGE),
    "nn.functional.upsample_bilinear": (lambda x: F.upsample_bilinear(x, (3, 7)), IMAGE),
    "nn.functional.upsample_nearest": (lambda x: F.upsample_nearest(x, (3, 7)), IMAGE),
    "nn.functional.pad": (lambda x: F.pad(x, (1, 2, 0, 1), "reflect"), IMAGE),
    "nn.functional.fold": (lambda x: F.fold(x, (3, 4), 2), normal(1, 8, 6)),
    "nn.functional.unfold": (lambda x: F.unfold(x, 2, 1, 1), IMAGE),
    "nn.functional.pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), IMAGE),
    "nn.functional.pixel_unshuffle": (lambda x: F.pixel_unshuffle(x[..., :4, :], 2), IMAGE),
    "nn.functional.channel_shuffle": (lambda x: F.channel_shuffle(x, 2), IMAGE),
    "nn.functional.native_channel_shuffle": (lambda x: F.native_channel_shuffle(x, 2), IMAGE),
    "nn.functional.scaled_dot_product_attention": (
        attended, normal(1, 3, 4), normal(1, 3, 4), normal(1, 3, 2),
    ),
    "nn.functional.multi_head_attention_forward": (
        lambda q, k, w, b: F.multi_head_attention_forward(
            q, k, k, 4, 2, w, b, None, None, True, 0.0, w[:4], b[:4])[0],
        normal(2, 1, 4), normal(3, 1, 4), normal(12, 4), normal(12),
    ),
    "nn.functional.embedding": (lambda w: F.embedding(st.tensor(LETTERS), w), X[[0, 1, 2, 0]]),
    "nn.functional.embedding_bag": (
        lambda w: F.embedding_bag(st.tensor(LETTERS), w), normal(4, 3),
    ),
    "nn.functional.batch_norm": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True), normal(5, 4, 3), W, V,
    ),
    "nn.functional.instance_norm": (lambda x: F.instance_norm(x), IMAGE),
    "nn.functional.group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), IMAGE, W, V),
    "nn.functional.layer_norm": (lambda x, w, b: F.layer_norm(x, (4,), w, b), X, W, V),
    "nn.functional.rms_norm": (lambda x, w: F.rms_norm(x, (4,), w), X, W),
    "nn.functional.local_response_norm": (lambda x: F.local_response_norm(x, 3), IMAGE),
    "nn.functional.normalize": (lambda x: F.normalize(x, 3.0), X),
    "nn.functional.dropout": (seeded(F.dropout), X),
    "nn.functional.dropout1d": (seeded(F.dropout1d), LINE),
    "nn.functional.dropout2d": (seeded(F.dropout2d), IMAGE),
    "nn.functional.dropout3d": (seeded(F.dropout3d), VOLUME),
    "nn.functional.alpha_dropout": (seeded(lambda x: F.alpha_dropout(x, 0.5, True)), X),
    "nn.functional.feature_alpha_dropout": (
        seeded(lambda x: F.feature_alpha_dropout(x, 0.5, True)), LINE,
    ),
    "nn.functional.rrelu": (seeded(lambda x: F.rrelu(x, training=True)), X),
    "nn.functional.rrelu_": (lambda x: F.rrelu_(x * 1), X),
    "nn.functional.gumbel_softmax": (seeded(F.gumbel_softmax), X),
    "nn.functional.gelu": (lambda x: F.gelu(x, approximate="tanh"), X),
    "nn.functional.glu": (F.glu, X),
    "nn.functional.relu6": (F.relu6, X),
    "nn.functional.softmin": (lambda x: F.softmin(x, 1), X),
    "nn.functional.softsign": (F.softsign, X),
    "nn.functional.tanhshrink": (F.tanhshrink, X),
    # ------------------------------------------------ distances and losses
    "nn.functional.pairwise_distance": (F.pairwise_distance, X, Y),
    "nn.functional.cosine_similarity": (F.cosine_similarity, X, Y),
    "nn.functional.binary_cross_entropy": (F.binary_cross_entropy, P, P[::-1].copy()),
    "nn.functional.binary_cross_entropy_with_logits": (
        lambda x, y: F.binary_cross_entropy_with_logits(x, y, pos_weight=st.tensor(W)), X, P,
    ),
    "nn.functional.cosine_embedding_loss": (
        lambda x, y: F.cosine_embedding_loss(x, y, st.tensor(SIGNS), 0.1), X, Y,
    ),
    "nn.functional.cross_entropy": (
        lambda x: F.cross_entropy(
            x, st.tensor(TARGET), st.tensor(W, dtype=x.dtype), label_smoothing=0.1
        ),
        X,
    ),
    "nn.functional.ctc_loss": (
        lambda x: F.ctc_loss(x.log_softmax(-1), st.tensor(LETTERS + 1), (5, 4), (2, 3)),
        normal(5, 2, 5),
    ),
    "nn.functional.linear_cross_entropy": (
        lambda x, w: F.linear_cross_entropy(x, w, st.tensor(TARGET)), X, normal(4, 4),
    ),
    "nn.functional.gaussian_nll_loss": (F.gaussian_nll_loss, X, Y, UP),
    "nn.functional.hinge_embedding_loss": (
        lambda x: F.hinge_embedding_loss(x, st.tensor(SIGNS)[:, None].expand(3, 4)), X,
    ),
    "nn.functional.huber_loss": (F.huber_loss, X, Y),
    "nn.functional.kl_div": (lambda x, y: F.kl_div(x, y, reduction="batchmean"), X, P),
    "nn.functional.l1_loss": (F.l1_loss, X, Y),
    "nn.functional.mse_loss": (F.mse_loss, X, Y),
    "nn.functional.margin_ranking_loss": (
        lambda x, y: F.margin_ranking_loss(x, y, st.tensor(SIGNS)[:, None], 0.3), X, Y,
    ),
    "nn.functional.multi_margin_loss": (
        lambda x: F.multi_margin_loss(x, st.tensor(TARGET), 2), X,
    ),
    "nn.functional.multilabel_margin_loss": (
        lambda x: F.multilabel_margin_loss(x, st.tensor(CLASSES)), X,
    ),
    "nn.functional.multilabel_soft_margin_loss": (
        lambda x: F.multilabel_soft_margin_loss(x, st.tensor((CLASSES > 0) * 1.0)), X,
    ),
    "nn.functional.nll_loss": (
        lambda x: F.nll_loss(x, st.tensor(TARGET), st.tensor(W, dtype=x.dtype)), X,
    ),
    "nn.functional.poisson_nll_loss": (lambda x: F.poisson_nll_loss(x, st.tensor(UP)), X),
    "nn.functional.smooth_l1_loss": (F.smooth_l1_loss, X, Y),
    "nn.functional.soft_margin_loss": (
        lambda x: F.soft_margin_loss(x, st.tensor(SIGNS)[:, None].expand(3, 4)), X,
    ),
    "nn.functional.triplet_margin_loss": (F.triplet_margin_loss, X, Y, Z),
    "nn.functional.triplet_margin_with_distance_loss": (
        F.triplet_margin_with_distance_loss, X, Y, Z,
    ),
    # ------------------------------------------------ what a mask leaves
    **{f"masked.{name}": (lambda x, name=name: getattr(st.masked, name)(x, 1, mask=LEFT), X)
       for name in ("sum", "prod", "cumsum", "cumprod")},
    **{f"masked.{name}": (lambda x, name=name: getattr(st.masked, name)(x, mask=SOME), X)
       for name in ("amax", "amin", "logsumexp", "mean", "var", "std")},
    **{f"masked.{name}": (lambda x, name=name: getattr(st.masked, name)(x, 0, mask=SOME)[SOME], X)
       for name in ("softmax", "log_softmax", "softmin")},
    "masked.median": (lambda x: st.masked.median(x, 1, mask=SOME), X),
    "masked.norm": (lambda x: st.masked.norm(x, 3.0, 1, mask=SOME), X),
    "masked.normalize": (lambda x: st.masked.normalize(x, 2.0, 1, mask=SOME), X),
    "masked.logaddexp": (
        lambda x, y: st.masked.logaddexp(x, y, input_mask=SOME, other_mask=SOME)[SOME], X, Y,
    ),
    # ------------------------------------------------ recurrent layers
    "lstm": recurrent("lstm", 4),
    "gru": recurrent("gru", 3),
    "rnn_tanh": recurrent("rnn_tanh", 1),
    "rnn_relu": recurrent("rnn_relu", 1),
    "lstm_cell": cell("lstm_cell", 4),
    "gru_cell": cell("gru_cell", 3),
    "rnn_tanh_cell": cell("rnn_tanh_cell", 1),
    "rnn_relu_cell": cell("rnn_relu_cell", 1),
    # ------------------------------------------------ Fourier transforms
    **{f"fft.{name}": (getattr(st.fft, name), normal(4, 3)) for name in (
        "fft", "fft2", "fftn", "fftshift", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft",
        "ihfft2", "ihfftn", "rfft", "rfft2", "rfftn",
    )},
    **{f"fft.{name}": (getattr(st.fft, name), normal(3, 3) + 1j * normal(3, 3)) for name in (
        "hfft", "hfft2", "hfftn", "irfft", "irfft2", "irfftn",
    )},
    # ------------------------------------------------ sparse
    "sparse.mm": (lambda v, d: st.sparse.mm(sparse(v), d), V, normal(4, 2)),
    "spmm": (lambda v, d: st.spmm(sparse(v), d), V, normal(4, 2)),
    "to_dense": (lambda v: sparse(v).to_dense(), V),
    "to_sparse": (lambda x: (x * x).to_sparse().to_dense(), X),
    "coalesce": (lambda v: sparse(v).coalesce().values(), V),
    "values": (lambda v: sparse(v).coalesce().values().square(), V),
    "sparse_coo_tensor": (lambda v: sparse(v).to_dense().square(), V),
}  # fmt: skip

FLAT = {
    # places, counts, truth values, whole numbers
    "allclose", "argsort", "argwhere", "bincount", "broadcast_shapes", "bucketize", "equal", "isin",
    "histc", "histogram", "histogramdd", "nonzero", "nonzero_static", "one_hot", "searchsorted",
    "tril_indices", "triu_indices", "unique", "unique_consecutive", "unravel_index",
    "linalg.matrix_rank", "masked.argmax", "masked.argmin", "detach_copy", "Tensor.chalf",
    # creation from sizes
    "arange", "empty", "empty_like", "empty_permuted", "empty_strided", "eye", "full", "full_like",
    "linspace", "logspace", "new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros",
    "ones", "ones_like", "range", "resize_as_", "zeros", "zeros_like", "fft.fftfreq",
    "fft.rfftfreq", "bartlett_window", "blackman_window", "hamming_window", "hann_window",
    "kaiser_window", *(f"signal.windows.{name}" for name in st.signal.windows.__all__),
    # drawn: the result does not follow the operands
    "bernoulli", "bernoulli_", "binomial", "cauchy_", "exponential_", "geometric_", "log_normal_",
    "multinomial", "normal", "normal_", "poisson", "rand", "rand_like", "randint", "randint_like",
    "randn", "randn_like", "random_", "randperm", "uniform_",
    # factors that PyTorch does not differentiate
    "linalg.geqrf", "linalg.ldl_factor", "linalg.ldl_factor_ex", "linalg.ldl_solve",
    # integers, and properties of a tensor
    "Tensor.apply_", "Tensor.backward", "bool", "byte", "char", "int", "long", "short", "item",
    "scalar_tensor", "Tensor.const_data_ptr", "Tensor.cuda", "Tensor.data_ptr", "Tensor.detach",
    "Tensor.detach_", "Tensor.dim", "Tensor.element_size", "Tensor.get_device",
    "Tensor.is_complex", "Tensor.is_conj", "Tensor.is_contiguous", "Tensor.is_distributed",
    "Tensor.is_floating_point", "Tensor.is_inference", "Tensor.is_neg", "Tensor.is_nonzero",
    "Tensor.is_pinned", "Tensor.is_same_size", "Tensor.is_set_to", "Tensor.is_shared",
    "Tensor.is_signed", "Tensor.map2_", "Tensor.map_", "Tensor.ndimension", "Tensor.nelement",
    "Tensor.new", "Tensor.new_tensor", "Tensor.numel", "Tensor.numpy", "Tensor.pin_memory",
    "Tensor.record_stream", "Tensor.register_hook", "Tensor.register_post_accumulate_grad_hook",
    "Tensor.requires_grad_", "Tensor.retain_grad", "Tensor.set_", "Tensor.size",
    "Tensor.storage_offset", "Tensor.stride", "Tensor.tolist", "resize_", "Tensor.indices",
    "Tensor.is_sparse", "Tensor.layout",
    # parts of other functions that users do not call
    "_embedding_bag", "_channel_affine", "_batch_norm_inference", "fft.segments",
    "linalg.lu_unpacked", "_rnn_cell", "_rnn",
}  # fmt: skip


# Of one order alone: the gradient has no derivative here, and none in PyTorch.
ONCE = {"nn.functional.ctc_loss"}

# Rows that no sample can express, and aliases: by the case that reaches them.
REACHED = {
    "resize_as": "resize", "_to_copy": "to", "float": "to", "half": "to", "bfloat16": "to",
    "cfloat": "to", "copy": "copy_", "_overwrite": "polygamma_", "_refill": "fill",
    "_view_as_real": "view_as_complex",
    "_view_as_complex": "view_as_real", "image_unfold": "nn.functional.unfold",
    "_cross_entropy_backward": "nn.functional.cross_entropy", "_zero_view": "index assignment",
    "_ctc_loss": "nn.functional.ctc_loss", "_ctc_loss_backward": "nn.functional.ctc_loss",
    "_replay_view_backward": "index assignment", "_replay_view": "index assignment",
    # no differences of numbers of one seed
    "_standard_gamma": "random/test_standard_gamma.py", "_gamma": "random/test_standard_gamma.py",
    "_standard_gamma_grad": "random/test_standard_gamma.py",
}  # fmt: skip
CHECKED = {*SLOPES, *REACHED, *CASES} - FLAT


def assign(x: Any, v: Any) -> Any:
    out = x * 2
    out[1] = v * v
    out[:, 2:] *= 3
    return out


def sparse(values: Any) -> Any:
    indices = st.tensor([[0, 2, 2, 0], [1, 0, 3, 1]])
    return st.sparse_coo_tensor(indices, values, (3, 4))


def case(name: str) -> tuple[Callable[..., Any], list[Any]]:
    """A function of tensors alone, and arrays for them.

    A case of tests/ops/test_composites.py has other arguments, too, and lists of arrays.
    """
    if name in SLOPES:
        function, *operands = SLOPES[name]
        return function, operands
    args, kwargs, _ = CASES[name]
    arrays: list[Any] = []

    def leaves_of(value: Any) -> Any:
        """The value with a number in place of each array of floats."""
        if isinstance(value, np.ndarray) and value.dtype == np.float64:
            arrays.append(np.array(value))
            return Place(len(arrays) - 1)
        if isinstance(value, np.ndarray):
            return st.tensor(value)
        if isinstance(value, (list, tuple)):
            return type(value)(leaves_of(v) for v in value)
        return value

    spelled = leaves_of(args)

    def restore(value: Any, xs: Any) -> Any:
        if isinstance(value, Place):
            return xs[value.number]
        if isinstance(value, (list, tuple)):
            return type(value)(restore(v, xs) for v in value)
        return value

    return lambda *xs: getattr(st, name)(*restore(spelled, xs), **kwargs), arrays


class Place:
    def __init__(self, number: int) -> None:
        self.number = number
