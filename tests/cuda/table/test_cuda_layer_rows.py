"""Convolution, pooling, recurrent layers, CTC and linear algebra on CUDA beside the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.nn import functional as F
from tests.cuda.table.device_tensors import compare_calls

random = np.random.default_rng(7)


def normal(*shape: int) -> Any:
    return random.normal(size=shape)


def compare(function: Callable[..., Any], *arrays: Any, order: int = 1) -> None:
    """Checks the values and the gradients of a function of tensors on both devices."""
    compare_calls(function, arrays, "", order, 1e-9)


CONVOLUTIONS: list[tuple[Any, ...]] = [
    # image, filters, stride, padding, dilation, groups
    ((2, 4, 9), (6, 2, 3), 2, 1, 2, 2),
    ((3, 2, 7, 6), (4, 2, 3, 2), (1, 2), (2, 1), 1, 1),
    ((2, 4, 5, 5), (4, 1, 3, 3), 1, 1, 1, 4),
    ((2, 3, 4, 4), (5, 3, 1, 1), 1, 0, 1, 1),
    ((2, 2, 4, 5, 4), (2, 2, 2, 3, 2), 1, (0, 1, 1), 1, 1),
]


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=lambda c: f"{c[0]}")
@pytest.mark.parametrize("whole", [True, False], ids=["the batch at once", "one image a part"])
def test_convolutions(cp: Any, monkeypatch: Any, case: Any, whole: bool) -> None:
    st.zeros(1).to("cuda")
    if not whole:
        from shmtensor.ops.cuda import convolution

        monkeypatch.setattr(convolution, "BYTES", 1)
    image, filters, *rest = case
    n = len(image) - 2
    forward = getattr(F, f"conv{n}d")
    compare(lambda x, w, b: forward(x, w, b, *rest), normal(*image), normal(*filters),
            normal(filters[0]), order=2)  # fmt: skip
    stride, padding, dilation, groups = rest
    back = getattr(F, f"conv_transpose{n}d")
    compare(lambda x, w: back(x, w, None, stride, padding, 0, groups, dilation),
            normal(image[0], filters[0], *image[2:]), normal(*filters), order=2)  # fmt: skip


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_images_read_at_points(cp: Any, mode: str, padding: str) -> None:
    grid = random.uniform(-1.4, 1.4, (2, 3, 4, 2))
    compare(lambda x, g: F.grid_sample(x, g, mode, padding, False), normal(2, 3, 5, 4), grid)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_of_packed_sequences(cp: Any, kind: str) -> None:
    options = {"proj_size": 2} if kind == "LSTM" else {}
    layer = getattr(st.nn, kind)(3, 4, 2, bidirectional=True, **options).double()
    names, values = zip(*[(n, p.detach().numpy()) for n, p in layer.named_parameters()])

    def run(x: Any, *weights: Any) -> Any:
        packed = st.nn.utils.rnn.pack_padded_sequence(x, st.tensor([4, 2, 1]))
        out, h = st.func.functional_call(layer, dict(zip(names, weights)), (packed,))
        return out.data, *(h if isinstance(h, tuple) else (h,))

    compare(run, normal(4, 3, 3), *values)


@pytest.mark.parametrize("concatenated", [False, True])
def test_ctc_loss(cp: Any, concatenated: bool) -> None:
    lengths, counts = (12, 10, 3, 12), (3, 5, 2, 0)
    targets = random.integers(1, 6, (4, 5))
    targets[0] = 2  # labels that are equal need a blank between them
    if concatenated:
        targets = np.concatenate([row[:n] for row, n in zip(targets, counts)])
    compare(lambda x, t: F.ctc_loss(x.log_softmax(-1), t, lengths, counts, 0, "none"),
            normal(12, 4, 6), targets)  # fmt: skip
    compare(lambda x, t: F.ctc_loss(x.log_softmax(-1), t, lengths, counts), normal(12, 4, 6),
            targets)  # fmt: skip
    impossible = (12, 4, 3, 0)  # steps, too few for two samples
    compare(
        lambda x, t: F.ctc_loss(x.log_softmax(-1), t, impossible, (3, 5, 2, 1), 0, "sum", True),
        normal(12, 4, 6), random.integers(1, 6, (4, 5)),
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_embeddings(cp: Any, mode: str) -> None:
    indices, offsets = np.array([1, 4, 2, 3, 3, 0]), np.array([0, 2, 2, 5])
    compare(
        lambda w, i, o: F.embedding_bag(i, w, o, mode=mode, padding_idx=3),
        normal(5, 3), indices, offsets,
    )  # fmt: skip


# ---- linear algebra


def test_matrices_that_have_no_factors_are_named(cp: Any) -> None:
    singular = st.tensor(np.stack([np.eye(3), np.ones((3, 3))])).to("cuda")
    with pytest.raises(st.linalg.LinAlgError, match="singular"):
        st.linalg.inv(singular)
    inverse, info = st.linalg.inv_ex(singular)
    assert info.cpu().tolist() == [0, 2]
    assert inverse[0].isfinite().all()
    assert inverse[1].isnan().all()
    bad = st.tensor(np.stack([np.eye(3), np.diag([1.0, -1.0, 1.0])])).to("cuda")
    with pytest.raises(st.linalg.LinAlgError, match=r"element 1.*order 2"):
        st.linalg.cholesky(bad)
    assert st.linalg.cholesky_ex(bad).info.cpu().tolist() == [0, 2]


@pytest.mark.parametrize("dtype", [st.complex64, st.complex128], ids=str)
@pytest.mark.parametrize("diagonal", [1.0, 0.0])
def test_factors_of_hermitian_matrices(cp: Any, diagonal: float, dtype: Any) -> None:
    random = np.random.default_rng(3)
    x = random.normal(size=(2, 9, 9)) + 1j * random.normal(size=(2, 9, 9))
    x = x + x.conj().swapaxes(-1, -2)
    x[:, np.arange(9), np.arange(9)] *= diagonal
    right = st.tensor(random.normal(size=(2, 9, 3)) + 0j).to(dtype)
    results = []
    for device in ("cpu", "cuda"):
        a, b = st.tensor(x).to(dtype).to(device), right.to(device)
        factors, pivots, info = st.linalg.ldl_factor_ex(a, hermitian=True)
        y = st.linalg.ldl_solve(factors, pivots, b, hermitian=True)
        assert (a @ y - b).abs().max() < (1e-3 if dtype == st.complex64 else 1e-9)
        results.append([pivots, info, factors])
    for ours, expected in zip(results[1], results[0], strict=True):
        assert ours.is_cuda
        assert (ours.dtype, ours.shape) == (expected.dtype, expected.shape)
        tolerance = 2e-3 if dtype == st.complex64 else 1e-9
        np.testing.assert_allclose(ours.cpu().numpy(), expected.numpy(), tolerance, tolerance)
    empty = st.empty(0, 3, 3, dtype=dtype, device="cuda")
    assert st.linalg.ldl_factor(empty, hermitian=True).LD.shape == (0, 3, 3)
