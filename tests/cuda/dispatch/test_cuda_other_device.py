"""What composites and other functions compute themselves runs on their operands' device, while
another one is current.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.autograd import functional
from shmtensor.nn import functional as F

SQUARE = [[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]]
TALL = [[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]]
WIDE = [[1.0, 2.0, 4.0], [3.0, 4.0, 1.0]]


def numbers(rows: Any, like: Any, dtype: Any = st.float64) -> Any:
    return st.tensor(rows, dtype=dtype, device=like.device)


def square(like: Any) -> Any:
    return numbers(SQUARE, like)


def tall(like: Any) -> Any:
    return numbers(TALL, like)


def gradient(call: Callable[[Any], Any], x: Any) -> Any:
    x = x.detach().requires_grad_()
    call(x).square().sum().backward()
    return x.grad


def lu_solve(x: Any, **options: Any) -> Any:
    return st.linalg.lu_solve(*st.linalg.lu_factor(square(x)), tall(x), **options)


def lu_solve_batch(x: Any) -> Any:
    a = st.stack([square(x), square(x).flip(0)])
    return st.linalg.lu_solve(*st.linalg.lu_factor(a), tall(x), adjoint=True)


def embedding_bag(x: Any, mode: str, **options: Any) -> Any:
    rows = numbers([0, 2, 1, 2, 0], x, st.int64)
    offsets = numbers([0, 2, 2], x, st.int64)
    return F.embedding_bag(rows, tall(x), offsets, mode=mode, **options)


def quantile(x: Any, **options: Any) -> Any:
    return st.quantile(tall(x), numbers([0.25, 0.5], x), **options)


def quantile_gradient(x: Any) -> Any:
    return gradient(lambda q: st.quantile(tall(x), q, dim=0), numbers([0.25, 0.6], x))


def nanquantile_gradient(x: Any) -> Any:
    data = numbers([[1.0, float("nan")], [3.0, 4.0], [5.0, 8.0]], x)
    return gradient(lambda q: st.nanquantile(data, q, dim=0), numbers([0.25, 0.6], x))


def multilabel_margin(x: Any) -> Any:
    labels = numbers([[2, -1, 0], [0, 1, -1]], x, st.int64)
    return gradient(lambda y: F.multilabel_margin_loss(y, labels), numbers(WIDE, x))


def independent(x: Any) -> Any:
    """The Jacobian of an output that does not depend on the input."""
    return functional.jacobian(lambda y: square(x)[0], tall(x))


def resized(x: Any) -> Any:
    y = tall(x)[:0]
    y.resize_(2)
    return y.fill_(3)


def enlarged(x: Any) -> Any:
    y = numbers([1.0, 2.0], x)
    return y.resize_(4)[:2]


def storage_items(x: Any) -> Any:
    typed, untyped = tall(x).storage(), tall(x).untyped_storage()
    untyped[0:4] = 7
    untyped[5] = 1
    return st.tensor([float(typed[3]), typed[1:3].size, *untyped[:8].tolist(), untyped[5]])


def bools(x: Any) -> Any:
    file = io.BytesIO()
    st.save(tall(x) > 2, file)
    file.seek(0)
    return st.load(file)


def bools_with_gaps(x: Any) -> Any:
    file = io.BytesIO()
    st.save((tall(x) > 2).T[:, 1:], file)
    file.seek(0)
    return st.load(file)


CASES: list[tuple[str, Callable[[Any], Any]]] = [
    ("pinv", lambda x: st.linalg.pinv(tall(x))),
    ("pinv, rtol", lambda x: st.linalg.pinv(tall(x), rtol=0.5)),
    ("pinv, tensors", lambda x: st.linalg.pinv(tall(x), atol=numbers(0.1, x), rtol=0.0)),
    ("pinv, gradient", lambda x: gradient(st.linalg.pinv, tall(x))),
    ("matrix_rank", lambda x: st.linalg.matrix_rank(tall(x))),
    ("matrix_rank, hermitian", lambda x: st.linalg.matrix_rank(square(x), hermitian=True)),
    ("matrix_rank, empty", lambda x: st.linalg.matrix_rank(tall(x)[:0])),
    ("lstsq", lambda x: st.linalg.lstsq(tall(x), square(x))[:3]),
    ("lstsq, gels", lambda x: st.linalg.lstsq(tall(x), square(x), driver="gels")[:2]),
    ("lstsq, gelsd", lambda x: st.linalg.lstsq(tall(x), square(x)[0], driver="gelsd")),
    ("lu", lambda x: st.linalg.lu(tall(x))),
    ("lu_unpack", lambda x: st.lu_unpack(*st.linalg.lu_factor(square(x).flip(0)))),
    ("lu, gradient", lambda x: gradient(lambda a: st.linalg.lu(a)[1], square(x))),
    ("lu_solve", lu_solve),
    ("lu_solve, adjoint", lambda x: lu_solve(x, adjoint=True)),
    ("lu_solve, batch", lu_solve_batch),
    ("cholesky_ex", lambda x: st.linalg.cholesky_ex(square(x))),
    ("cholesky_ex, info", lambda x: st.linalg.cholesky_ex(-square(x))[1]),
    ("embedding_bag, sum", lambda x: embedding_bag(x, "sum")),
    ("embedding_bag, mean", lambda x: embedding_bag(x, "mean", padding_idx=0)),
    ("embedding_bag, max", lambda x: embedding_bag(x, "max")),
    ("embedding_bag, last", lambda x: embedding_bag(x, "sum", include_last_offset=True)),
    (
        "embedding_bag, weights",
        lambda x: embedding_bag(x, "sum", per_sample_weights=numbers([1, 2, 3, 4, 5], x)),
    ),
    ("embedding_bag, 2-d", lambda x: F.embedding_bag(numbers([[0, 2]], x, st.int64), tall(x))),
    ("multilabel_margin_loss", multilabel_margin),
    ("quantile", quantile),
    ("quantile, keepdim", lambda x: quantile(x, dim=1, keepdim=True, interpolation="midpoint")),
    ("quantile, number", lambda x: st.quantile(tall(x), 0.3, dim=0)),
    ("quantile, gradient", quantile_gradient),
    ("nanquantile, gradient", nanquantile_gradient),
    ("cov", lambda x: st.cov(tall(x).T, fweights=numbers([1, 2, 1], x, st.int64))),
    ("jacobian", lambda x: functional.jacobian(st.exp, tall(x))),
    ("jacobian, forward", lambda x: functional.jacobian(st.exp, tall(x), strategy="forward-mode")),
    ("jacobian, independent", independent),
    ("jacobian, empty", lambda x: functional.jacobian(lambda y: y[:0], tall(x))),
    (
        "jacobian, forward, empty",
        lambda x: functional.jacobian(st.exp, tall(x)[:0], strategy="forward-mode"),
    ),
    ("hessian", lambda x: functional.hessian(lambda y: (y**3).sum(), tall(x))),
    ("vjp", lambda x: functional.vjp(lambda y: (y**2).sum(), tall(x))[1]),
    ("hvp", lambda x: functional.hvp(lambda y: (y**3).sum(), tall(x), tall(x))[1]),
    ("resize_ of an empty view", resized),
    ("resize_ to more memory", enlarged),
    ("storage", storage_items),
    ("load of bools", bools),
    ("load of bools with gaps", bools_with_gaps),
]

ON_CPU = {"storage"}


def tensors_in(result: Any) -> list[Any]:
    return [result] if isinstance(result, st.Tensor) else list(result)


@pytest.mark.parametrize(("name", "call"), CASES, ids=[name for name, _ in CASES])
def test_results_are_the_cpus(
    cp: Any, last_device: str, name: str, call: Callable[[Any], Any]
) -> None:
    st.zeros(1, device="cuda:0")
    assert cp.cuda.runtime.getDevice() == 0
    results = tensors_in(call(st.zeros(1, device=last_device)))
    assert cp.cuda.runtime.getDevice() == 0
    expected = tensors_in(call(st.zeros(1)))
    assert len(results) == len(expected)
    for result, on_cpu in zip(results, expected):
        assert result.device == st.device("cpu" if name in ON_CPU else last_device)
        assert (result.dtype, result.shape) == (on_cpu.dtype, on_cpu.shape)
        np.testing.assert_allclose(
            result.detach().cpu().numpy(), on_cpu.detach().numpy(), rtol=1e-9, atol=1e-12
        )


def test_tolerances_on_another_device_are_an_error(two_devices: Any) -> None:
    x = st.tensor(TALL, device="cuda:1")
    with pytest.raises(RuntimeError, match=r"two devices, cuda:1 .* and cuda:0"):
        st.linalg.pinv(x, atol=st.tensor(0.1, device="cuda:0"))
