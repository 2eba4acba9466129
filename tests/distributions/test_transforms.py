"""Transforms, and the registries from constraints to them."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.autograd import gradcheck
from shmtensor.autograd.functional import jacobian
from shmtensor.distributions import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    Normal,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    biject_to,
    constraints,
    identity_transform,
    transform_to,
)
from shmtensor.distributions.constraint_registry import ConstraintRegistry

A, B = st.tensor([1.0, -2.0, 0.5], dtype=st.float64), st.tensor([-1.0, 3.0, 2.0], dtype=st.float64)
# Name -> transform of vectors with 3 or 6 elements, or of matrices of 3 rows.
BIJECTIVE: dict[str, Transform] = {
    "affine": AffineTransform(0.5, -2.0),
    "affine of vectors": AffineTransform(A, B, event_dim=1),
    "cat": CatTransform([ExpTransform(), AffineTransform(1.0, 3.0)], dim=-1, lengths=[1, 2]),
    "compose": ComposeTransform([AffineTransform(A, B), SigmoidTransform()]),
    "compose vectors": ComposeTransform([AffineTransform(A, B), StickBreakingTransform()]),
    "correlations": CorrCholeskyTransform(),
    "cumulative distribution": CumulativeDistributionTransform(Normal(A, B.abs())),
    "exp": ExpTransform(),
    "identity": identity_transform,
    "independent": IndependentTransform(TanhTransform(), 1),
    "power": PowerTransform(st.tensor(1.5, dtype=st.float64)),
    "reshape": ReshapeTransform((3,), (3, 1)),
    "sigmoid": SigmoidTransform(),
    "softplus": SoftplusTransform(),
    "stack": StackTransform([ExpTransform(), TanhTransform(), identity_transform], dim=-1),
    "stick breaking": StickBreakingTransform(),
    "tanh": TanhTransform(),
}
OTHERS: dict[str, Transform] = {
    "abs": AbsTransform(),
    "lower cholesky": LowerCholeskyTransform(),
    "positive definite": PositiveDefiniteTransform(),
    "softmax": SoftmaxTransform(),
}
ALL = {**BIJECTIVE, **OTHERS}


def argument(name: str) -> st.Tensor:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(3, 3) if name in ("lower cholesky", "positive definite") else 3)
    return st.tensor(np.abs(x) if name == "power" else x)


@pytest.mark.parametrize("name", ALL)
def test_domain_codomain_and_inverse(name: str) -> None:
    t, x = ALL[name], argument(name)
    y = t(x)
    assert bool(t.domain.check(x).all())
    assert bool(t.codomain.check(y).all())
    np.testing.assert_allclose(t(t.inv(y)), y, rtol=1e-10)
    if name in BIJECTIVE:
        np.testing.assert_allclose(t.inv(y), x, rtol=1e-8, atol=1e-12)
    assert t.bijective == (name in BIJECTIVE)
    assert t.forward_shape(x.shape) == y.shape
    assert t.inverse_shape(y.shape) == x.shape
    assert t.inv.forward_shape(y.shape) == x.shape
    batch = st.stack([x, x])
    if name not in ("cat", "stack"):
        assert t.forward_shape(batch.shape) == t(batch).shape
    np.testing.assert_allclose(t(batch)[1], y)
    assert (t.inv.domain.event_dim, t.inv.codomain.event_dim) == (
        t.codomain.event_dim,
        t.domain.event_dim,
    )


@pytest.mark.parametrize("name", BIJECTIVE)
def test_the_jacobian_is_that_of_autograd(name: str) -> None:
    t, x = BIJECTIVE[name], argument(name)

    def free(x: st.Tensor) -> st.Tensor:
        """The result, without elements that follow from the others."""
        y = t(x)
        if name in ("stick breaking", "compose vectors"):
            return y[:-1]
        return y[[1, 2, 2], [0, 0, 1]] if name == "correlations" else y.reshape(-1)

    matrix = jacobian(free, x)
    expected = st.linalg.slogdet(matrix)[1]
    found = t.log_abs_det_jacobian(x, t(x))
    np.testing.assert_allclose(found.sum(), expected, rtol=1e-10)
    np.testing.assert_allclose(t.inv.log_abs_det_jacobian(t(x), x), -found)
    assert found.shape == x.shape[: x.ndim - t.domain.event_dim]


@pytest.mark.parametrize("name", ALL)
def test_gradients(name: str) -> None:
    t, x = ALL[name], argument(name).requires_grad_()
    assert gradcheck(t, (x,))
    if name in BIJECTIVE and x.ndim == 1:
        function = lambda x: st.as_tensor(t.log_abs_det_jacobian(x, t(x)))  # noqa: E731
        if function(x).requires_grad:
            assert gradcheck(function, (x,))


@pytest.mark.parametrize("name", ALL)
def test_a_cache_keeps_the_last_pair(name: str) -> None:
    t, x = ALL[name], argument(name)
    cached = t.with_cache()
    assert cached.with_cache() is cached
    assert t.with_cache(0) is t
    if name != "identity":
        y = cached(x)
        assert cached(x) is y
        if not isinstance(t, ComposeTransform):
            assert cached.inv(y) is x
            assert cached.inv.inv(x) is y
    np.testing.assert_array_equal(cached(x), t(x))
    assert pickle.loads(pickle.dumps(ExpTransform(1))) == ExpTransform()


def test_equal_transforms() -> None:
    for t in (ExpTransform(), SoftmaxTransform(), AffineTransform(A, 2.0), PowerTransform(2.0)):
        assert t == t.with_cache()
        assert t.inv == t.inv
        assert t.inv.inv is t
        assert t != t.inv
        assert t != AbsTransform()
    assert AffineTransform(0, 1) != AffineTransform(0, 2)
    assert AffineTransform(A, 1) == AffineTransform(A.clone(), 1)
    assert AffineTransform(A, 1) != AffineTransform(B, 1)
    assert ComposeTransform([]) == identity_transform
    assert ComposeTransform([ExpTransform()]) == ComposeTransform([ExpTransform()])
    assert Transform() != Transform()
    assert repr(ExpTransform().inv) == "_InverseTransform(ExpTransform())"
    assert (
        repr(IndependentTransform(ExpTransform(), 1)) == "IndependentTransform(ExpTransform(), 1)"
    )
    composed = ComposeTransform([ExpTransform(), TanhTransform()])
    assert repr(composed) == "ComposeTransform(\n    ExpTransform(),\n    TanhTransform()\n)"


def test_signs() -> None:
    assert ExpTransform().sign == ExpTransform().inv.sign == 1
    assert AffineTransform(0, -2.0).sign == -1
    assert AffineTransform(0, B).sign.tolist() == [-1, 1, 1]
    assert ComposeTransform([AffineTransform(0, -2.0), ExpTransform()]).sign == -1
    assert PowerTransform(-2.0).sign.item() == -1
    assert IndependentTransform(ExpTransform(), 1).sign == 1
    for t in (AbsTransform(), Transform()):
        with pytest.raises(NotImplementedError, match=r"Transform\.sign"):
            _ = t.sign


def test_large_arguments_stay_in_the_codomain() -> None:
    x = st.tensor([-1000.0, 1000.0])
    y = SigmoidTransform()(x)
    assert bool(((y > 0) & (y < 1)).all())
    assert bool(SigmoidTransform().inv(st.tensor([0.0, 1.0])).isfinite().all())
    assert bool(TanhTransform().log_abs_det_jacobian(x, x.tanh()).isfinite().all())
    assert bool(StickBreakingTransform().inv(st.tensor([1.0, 0.0])).isfinite()[0])


def test_wrong_arguments() -> None:
    def fails(error: type[Exception], match: str, call: Any) -> None:
        with pytest.raises(error, match=match):
            call()

    fails(ValueError, "cache_size must be 0 or 1: 2", lambda: ExpTransform(2))
    fails(ValueError, r"\(4,\) and \(2, 3\)", lambda: ReshapeTransform((4,), (2, 3)))
    reshape = ReshapeTransform((4,), (2, 2))
    fails(ValueError, r"expected \(4,\) but got \(3,\)", lambda: reshape.forward_shape((3,)))
    fails(ValueError, "Too few dimensions", lambda: reshape(st.ones(())))
    for t in (SoftmaxTransform(), StickBreakingTransform(), CorrCholeskyTransform()):
        fails(ValueError, r"Too few dimensions on input: \(\)", lambda t=t: t.forward_shape(()))
    independent = IndependentTransform(ExpTransform(), 1)
    fails(ValueError, "Too few dimensions", lambda: independent(st.ones(())))
    fails(ValueError, "Too few dimensions", lambda: independent.inv(st.ones(())))
    fails(ValueError, "lower-diagonal number: 4", lambda: CorrCholeskyTransform()(st.ones(4)))
    square = CorrCholeskyTransform().inverse_shape
    fails(ValueError, r"not square: \(4, 3\)", lambda: square((4, 3)))
    fails(ValueError, r"event_dim: they are 1 and 2", lambda: CorrCholeskyTransform().event_dim)
    for make in (CatTransform, StackTransform):
        fails(TypeError, r"Transform instances: \[2\]", lambda make=make: make([2]))
        t = make([ExpTransform()])
        fails(ValueError, r"size of 1: \(2, 2\)", lambda t=t: t(st.ones(2, 2)))
        fails(ValueError, r"no dimension 0: \(\)", lambda t=t: t(st.ones(())))
    fails(ValueError, "1 transforms have 2", lambda: CatTransform([ExpTransform()], lengths=[1, 2]))
    for name in ("_call", "_inverse"):
        fails(NotImplementedError, name, lambda name=name: getattr(Transform(), name)(A))
    fails(NotImplementedError, "jacobian", lambda: AbsTransform().log_abs_det_jacobian(A, A))


def test_cat_and_stack_along_a_batch() -> None:
    x = st.tensor(np.random.default_rng(1).normal(size=(3, 2)))
    t = CatTransform([ExpTransform(), TanhTransform()], dim=0, lengths=[2, 1])
    np.testing.assert_array_equal(t(x), np.concatenate([np.exp(x[:2]), np.tanh(x[2:])]))
    assert t.length == 3
    found = t.log_abs_det_jacobian(x, t(x))
    np.testing.assert_allclose(found[:2], x[:2])
    np.testing.assert_allclose(found[2], -2 * np.log(np.cosh(x[2])), rtol=1e-12)
    vectors = CatTransform([IndependentTransform(ExpTransform(), 1)] * 2, dim=-1)
    np.testing.assert_allclose(vectors.log_abs_det_jacobian(x, vectors(x)), x.sum(-1))
    stacked = StackTransform([ExpTransform(), TanhTransform()], dim=1)
    np.testing.assert_array_equal(stacked(x)[:, 0], np.exp(x[:, 0]))
    assert stacked.domain.check(x).shape == x.shape
    assert stacked.codomain.check(x)[:, 1].shape == (3,)


CONSTRAINTS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "real": (constraints.real, (4,)),
    "real_vector": (constraints.real_vector, (4,)),
    "positive": (constraints.positive, (4,)),
    "nonnegative": (constraints.nonnegative, (4,)),
    "greater_than": (constraints.greater_than(st.tensor([1.0, 2.0])), (4, 2)),
    "greater_than_eq": (constraints.greater_than_eq(-2.0), (4,)),
    "less_than": (constraints.less_than(2.0), (4,)),
    "unit_interval": (constraints.unit_interval, (4,)),
    "interval": (constraints.interval(-3.0, st.tensor([1.0, 2.0])), (4, 2)),
    "half_open_interval": (constraints.half_open_interval(1.0, 3.0), (4,)),
    "simplex": (constraints.simplex, (4,)),
    "corr_cholesky": (constraints.corr_cholesky, (6,)),
    "lower_cholesky": (constraints.lower_cholesky, (2, 3, 3)),
    "positive_definite": (constraints.positive_definite, (2, 3, 3)),
    "positive_semidefinite": (constraints.positive_semidefinite, (2, 3, 3)),
    "cat": (constraints.cat([constraints.positive, constraints.less_than(0)], -1, [1, 3]), (2, 4)),
    "stack": (constraints.stack([constraints.positive, constraints.less_than(0)], -1), (3, 2)),
    "independent": (constraints.independent(constraints.positive, 1), (4,)),
}


# Their transforms have no `log_abs_det_jacobian`: `biject_to` has none.
NO_JACOBIAN = {"lower_cholesky", "positive_definite", "positive_semidefinite"}


@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.parametrize("registry", [biject_to, transform_to])
def test_values_satisfy_the_constraint(name: str, registry: Any) -> None:
    constraint, shape = CONSTRAINTS[name]
    if registry is biject_to and name in NO_JACOBIAN:
        with pytest.raises(NotImplementedError, match="Cannot transform"):
            registry(constraint)
        return
    x = st.tensor(np.random.default_rng(2).normal(size=shape).astype(np.float32))
    t = registry(constraint)
    assert t.bijective or registry is transform_to
    y = t(x)
    assert bool(constraint.check(y).all())
    assert bool(t.codomain.check(y).all())
    np.testing.assert_allclose(t(t.inv(y)), y, rtol=2e-4, atol=1e-5)


def test_registries_of_users() -> None:
    class Even(constraints.Constraint):
        pass

    with pytest.raises(NotImplementedError, match="Cannot transform Even constraints"):
        biject_to(Even())
    with pytest.raises(NotImplementedError, match="Cannot transform _Dependent constraints"):
        transform_to(constraints.dependent)
    with pytest.raises(TypeError, match="Constraint subclass or instance, but got 3"):
        transform_to.register(3, lambda c: ExpTransform())
    registry = ConstraintRegistry()
    registry.register(Even(), lambda c: AffineTransform(0, 2))
    assert registry(Even())(A).tolist() == [2, -4, 1]


def test_constraints_of_matrices() -> None:
    rows = st.tensor([[[2.0, 0.0], [1.0, 3.0]], [[1.0, 0.0], [0.6, 0.8]], [[1.0, 2.0], [2.0, 1.0]]])
    checks = {
        constraints.square: [True, True, True],
        constraints.symmetric: [False, False, True],
        constraints.lower_triangular: [True, True, False],
        constraints.lower_cholesky: [True, True, False],
        constraints.corr_cholesky: [False, True, False],
    }
    for constraint, expected in checks.items():
        assert constraint.check(rows).tolist() == expected, constraint
        assert constraint.event_dim == 2
    for constraint in (constraints.square, constraints.symmetric, constraints.positive_definite):
        assert constraint.check(st.ones(4, 2, 3)).tolist() == [False] * 4
    singular = st.tensor([[1.0, 0.0], [0.0, 0.0]])
    both = st.stack([singular, st.eye(2), -st.eye(2)])
    assert constraints.positive_semidefinite.check(both).tolist() == [True, True, False]
    assert constraints.positive_definite.check(both).tolist() == [False, True, False]
    assert not constraints.positive_semidefinite.check(rows).any()


def test_constraints_of_parts() -> None:
    c = constraints
    cat, stack = c.cat([c.positive, c.simplex]), c.stack([c.positive, c.boolean])
    assert (cat.is_discrete, cat.event_dim) == (False, 1)
    assert (stack.is_discrete, stack.event_dim) == (True, 0)
    with pytest.raises(ValueError, match="2 constraints have 1 lengths"):
        c.cat([c.real, c.real], lengths=[1])
    with pytest.raises(ValueError, match=r"2 constraints for a size of 3: \(3,\), dim=0"):
        stack.check(st.ones(3))
    counts = st.tensor([[1.0, 1], [2, 1], [-1, 3]])
    assert c.multinomial(2).check(counts).tolist() == [True, False, False]
    for attribute in ("is_discrete", "event_dim"):
        with pytest.raises(NotImplementedError, match=f"{attribute} cannot be determined"):
            getattr(c.dependent, attribute)
    assert c.dependent(event_dim=1).event_dim == 1
    mixture = c.MixtureSameFamilyConstraint(c.simplex)
    assert mixture.check(st.tensor([[0.5, 0.5], [0.5, 0.6]])).tolist() == [True, False]
    assert repr(mixture) == "MixtureSameFamilyConstraint(Simplex())"


def test_triangles_as_vectors() -> None:
    from shmtensor.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix

    x = st.arange(12.0).reshape(2, 6)
    for diagonal, n in ((0, 3), (-1, 4)):
        matrix = vec_to_tril_matrix(x, diagonal)
        assert matrix.shape == (2, n, n)
        assert matrix[0].tolist() == np.tril(matrix[0], diagonal).tolist()
        assert tril_matrix_to_vec(matrix, diagonal).tolist() == x.tolist()
    with pytest.raises(ValueError, match="last dimension is 4"):
        vec_to_tril_matrix(st.ones(4))
    with pytest.raises(ValueError, match="at most 0: 1"):
        vec_to_tril_matrix(st.ones(3), 1)
    with pytest.raises(ValueError, match=r"diag \(3\) provided is outside \[-3, 2\]"):
        tril_matrix_to_vec(st.ones(3, 3), 3)
    assert math.isclose(biject_to(constraints.simplex)(st.zeros(2)).sum().item(), 1, rel_tol=1e-6)
