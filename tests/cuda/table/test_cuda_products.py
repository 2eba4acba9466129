"""Products of matrices on a GPU: layouts, batches, dtypes, the bias of `linear`."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native, nn

BATCHES = [(), (3,), (2, 1), (1, 3), (2, 3)]
SIZES = [(4, 5, 3), (1, 5, 1), (4, 1, 3), (4, 0, 3), (0, 2, 3)]
LAYOUTS = ["plain", "transposed", "gaps"]
DTYPES = [
    (st.float32, 1e-5),
    (st.float64, 1e-12),
    (st.complex64, 1e-5),
    (st.float16, 2e-2),
    (st.bfloat16, 1e-1),
]


def pair(random: Any, batch: Any, n: int, m: int, layout: str, dtype: Any) -> tuple[Any, Any]:
    """A batch of matrices on the CPU and the same on the GPU."""
    shape = (m, n) if layout == "transposed" else (n, 2 * m if layout == "gaps" else m)
    x = st.tensor(random.standard_normal((*batch, *shape))).to(dtype)
    if layout == "transposed":
        return x.mT, x.cuda().mT
    return (x[..., ::2], x.cuda()[..., ::2]) if layout == "gaps" else (x, x.cuda())


@pytest.mark.parametrize(("dtype", "bound"), DTYPES)
def test_products_are_the_cpus(cp: Any, dtype: Any, bound: float) -> None:
    random = np.random.default_rng(0)
    for left, right in product(BATCHES, BATCHES):
        for (n, k, m), a, b in product(SIZES, LAYOUTS, LAYOUTS):
            x, x_gpu = pair(random, left, n, k, a, dtype)
            y, y_gpu = pair(random, right, k, m, b, dtype)
            expected, ours = x @ y, (x_gpu @ y_gpu).cpu()
            assert (ours.dtype, ours.shape) == (expected.dtype, expected.shape)
            if ours.numel():
                assert (ours - expected).abs().max() <= bound, (left, right, n, k, m, a, b)


def test_vectors_and_integers(cp: Any) -> None:
    x = st.arange(24.0).reshape(2, 3, 4)
    for shape in ((4,), (2, 3), (3,)):
        v = st.arange(float(np.prod(shape))).reshape(shape)
        ours, expected = (
            (x @ y if shape == (4,) else y[..., None, :] @ x if len(shape) > 1 else y @ x)
            for x, y in ((x.cuda(), v.cuda()), (x, v))
        )
        assert ours.tolist() == expected.tolist()
    ours = x.long().cuda() @ st.ones(4, 2, dtype=st.int64, device="cuda")
    assert ours.tolist() == (x.long() @ st.ones(4, 2, dtype=st.int64)).tolist()
    with pytest.raises(RuntimeError, match="matmul"):
        x.cuda() @ st.ones(3, device="cuda")


@pytest.mark.parametrize("dtype", [st.float32, st.bfloat16])
def test_linear_adds_the_bias_before_it_rounds(cp: Any, dtype: Any) -> None:
    st.manual_seed(0)
    layer = nn.Linear(5, 3).to(dtype)
    x = st.randn(2, 4, 5).to(dtype).requires_grad_()
    layer(x).float().square().sum().backward()
    expected = [layer(x).detach(), x.grad, layer.weight.grad, layer.bias.grad]
    on_gpu = nn.Linear(5, 3).to(dtype)
    on_gpu.load_state_dict(layer.state_dict())
    on_gpu.cuda()
    y = x.detach().cuda().requires_grad_()
    on_gpu(y).float().square().sum().backward()
    ours = [on_gpu(y).detach(), y.grad, on_gpu.weight.grad, on_gpu.bias.grad]
    for a, b in zip(ours, expected, strict=True):
        error = (a.cpu().float() - b.float()).abs().max()
        assert error <= st.finfo(dtype).eps * b.float().abs().max()


@pytest.mark.parametrize("shape", [(4,), (1,), (), (3, 5)])
def test_the_bias_of_linear_is_checked(cp: Any, shape: Any) -> None:
    for place in ("cpu", "cuda"):
        x, weight, bias = (st.ones(s, device=place) for s in ((3, 4), (5, 4), shape))
        with pytest.raises(RuntimeError, match="linear: the bias does not match the weight: "):
            nn.functional.linear(x, weight, bias)


def test_the_weight_of_linear_is_a_vector(cp: Any) -> None:
    x, weight = st.arange(8.0).reshape(2, 4), st.arange(4.0)
    for shape in ((), (2,), (1,), (3, 1)):
        operands = (x, weight, st.ones(shape))
        expected = nn.functional.linear(*operands)
        assert nn.functional.linear(*(a.cuda() for a in operands)).tolist() == expected.tolist()


def test_a_product_makes_no_copies(cp: Any) -> None:
    """Transposed and broadcast operands: the only new memory is the result's."""
    x, w = st.ones(64, 32, 16).cuda(), st.ones(48, 16).cuda()
    a, b = st.ones(1, 64, 64).cuda(), st.ones(8, 64, 64).cuda()
    for operands in ((x, w.T), (b.mT, b), (a, b.mT), (a.expand(8, 64, 64), b)):
        before = st.cuda.memory_allocated()
        st.cuda.reset_peak_memory_stats()
        result = operands[0] @ operands[1]
        assert st.cuda.max_memory_allocated() - before <= result.nbytes + 512


def test_tf32_is_asked_of_cublas(cp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from shmtensor.ops.cuda import matmul

    seen: list[int] = []
    gemm = matmul.gemm
    monkeypatch.setattr(matmul, "gemm", lambda *a: (seen.append(a[17]), gemm(*a)))
    x = st.ones(4, 4).cuda()
    before = st.get_float32_matmul_precision()
    try:
        for precision in ("highest", "high"):
            st.set_float32_matmul_precision(precision)
            assert (x @ x).sum().item() == 64
            assert (x.double() @ x.double()).sum().item() == 64
    finally:
        st.set_float32_matmul_precision(before)
    plain, double = cp.cuda.cublas.CUBLAS_COMPUTE_32F, cp.cuda.cublas.CUBLAS_COMPUTE_64F
    assert seen == [plain, double, cp.cuda.cublas.CUBLAS_COMPUTE_32F_FAST_TF32, double]


def test_products_run_on_the_current_stream(cp: Any) -> None:
    """The handle's stream is set if it is another one, whoever has set it."""
    x = st.ones(8, 8).cuda()
    assert (x @ x).sum().item() == 512
    handle = cp.cuda.device.get_cublas_handle()
    main, other = cp.cuda.get_current_stream(), st.cuda.Stream()
    with st.cuda.stream(other):
        y = x @ x
        assert cp.cuda.cublas.getStream(handle) == other.cuda_stream
        z = y @ x
    other.synchronize()
    assert z.sum().item() == 4096
    assert (x @ x).sum().item() == 512
    assert cp.cuda.cublas.getStream(handle) == main.ptr
    cp.cuda.cublas.setStream(handle, other.cuda_stream)
    assert (x @ x).sum().item() == 512
    assert cp.cuda.cublas.getStream(handle) == main.ptr


def test_cupys_binding_gives_the_same(cp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from shmtensor.ops.cuda import matmul

    assert matmul.gemm is not matmul.cublas.gemmEx
    x, w, b = st.randn(5, 3, 8).cuda(), st.randn(4, 8).cuda(), st.randn(4).cuda()
    ours = nn.functional.linear(x, w, b).tolist()
    monkeypatch.setattr(matmul, "gemm", matmul.cublas.gemmEx)
    assert nn.functional.linear(x, w, b).tolist() == ours
    monkeypatch.setattr(matmul.backend_stream, "__pyx_capi__", {})
    monkeypatch.setattr(matmul.native, "set_cublas", lambda *_: False)
    assert matmul.find_gemm() is matmul.cublas.gemmEx


def test_an_error_of_cublas_is_raised(cp: Any) -> None:
    from shmtensor.ops.cuda import matmul

    x = cp.ones((4, 4), "f4")
    kind = matmul.KINDS[x.dtype]
    elements, address = kind.elements, x.data.ptr
    with pytest.raises(cp.cuda.cublas.CUBLASError):
        matmul.gemm(
            matmul.get_handle(), 0, 0, 4, 4, 4, kind.one, address, elements, 1,
            address, elements, 1, kind.zero, address, elements, 1, kind.sums, matmul.DEFAULT,
        )  # fmt: skip
    with pytest.raises(TypeError, match="19 arguments"):
        matmul.native.gemm_ex(1)


@pytest.mark.parametrize("n", [1, 3, 64])
@pytest.mark.parametrize("dtype", [st.float32, st.float16, st.float64])
def test_a_bias_with_gaps(cp: Any, dtype: Any, n: int) -> None:
    x, w, b = (st.randn(*shape).to(dtype) for shape in ((6, 4), (n, 4), (2 * n + 1,)))
    for cut in (slice(1, None, 2), slice(1, n + 1), slice(None, n)):
        wanted = nn.functional.linear(x, w, b[cut])
        ours = nn.functional.linear(x.cuda(), w.cuda(), b.cuda()[cut])
        assert st.allclose(ours.cpu().float(), wanted.float(), 2e-3, 2e-2)


@pytest.mark.parametrize(
    "weight", ["w[:, ::2]", "w[0, :4].expand(4, 4)", "w[::2, :4]", "w[:, :4].T"]
)
def test_a_square_weight_in_any_layout_is_transposed(cp: Any, weight: str) -> None:
    """BLAS cannot read some of these: their copy has the weight's order."""
    st.manual_seed(0)
    x, w = st.randn(3, 4), st.randn(4, 8)
    if weight == "w[::2, :4]":
        w = st.randn(8, 8)
    results = []
    for device in ("cpu", "cuda"):
        leaves = [v.detach().to(device).requires_grad_() for v in (x, w)]
        used = eval(weight, {"w": leaves[1]})
        out = st.nn.functional.linear(leaves[0], used)
        (out * st.arange(float(out.numel()), device=device).reshape(out.shape)).sum().backward()
        results.append([v.detach().cpu().numpy() for v in (out, leaves[0].grad, leaves[1].grad)])
    for plain, ours in zip(*results, strict=True):
        np.testing.assert_allclose(ours, plain, 1e-5, 1e-5)


def test_sizes_beyond_32_bits_are_refused(cp: Any) -> None:
    st.ones(1, device="cuda")
    from shmtensor.ops.cuda import matmul

    if matmul.gemm is matmul.cublas.gemmEx:
        pytest.skip("cuBLAS is called by CuPy's binding")
    with pytest.raises(OverflowError, match="4294967298"):
        native.gemm_ex(*([0] * 3), 2**32 + 2, *([0] * 15))
