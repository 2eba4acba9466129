"""`Distribution` as a base class, and constraints."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import shmtensor as st
from shmtensor import distributions
from shmtensor.distributions import Distribution, Normal, constraints, utils


def test_names() -> None:
    assert distributions.normal.Normal is Normal
    assert st.distributions is distributions
    with pytest.raises(AttributeError, match="no attribute 'Norml'"):
        _ = distributions.Norml


def test_validation_is_a_setting() -> None:
    assert Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        assert Normal(0.0, -1.0).scale.item() == -1
        with pytest.raises(ValueError, match="parameter scale"):
            Normal(0.0, -1.0, validate_args=True)
    finally:
        Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError, match="a bool is needed: 3"):
        Distribution.set_default_validate_args(3)  # type: ignore[arg-type]


class Point(Distribution):
    """A distribution of users: one value."""

    arg_constraints = {"at": constraints.nonnegative}  # type: ignore[assignment] # noqa: RUF012
    support = constraints.nonnegative  # type: ignore[assignment]

    def __init__(self, at: st.Tensor, validate_args: bool | None = None) -> None:
        self.at = at
        super().__init__(at.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> st.Tensor:
        return self.at + st.zeros(*self._extended_shape(sample_shape))


def test_a_subclass_needs_no_more() -> None:
    at = st.tensor([1.0, 2.0], requires_grad=True)
    p = Point(at)
    assert p.sample((3,)).tolist() == [[1.0, 2.0]] * 3
    assert not p.sample().requires_grad
    assert repr(p) == "Point(at: Size([2]))"
    with pytest.raises(ValueError, match=r"parameter at .* GreaterThanEq\(lower_bound=0.0\)"):
        Point(st.tensor([-1.0]))
    for call in (p.entropy, lambda: p.mean, lambda: p.variance, lambda: p.stddev, lambda: p.mode):
        with pytest.raises(NotImplementedError, match=r"Point\."):
            call()  # type: ignore[no-untyped-call]
    for name in ("log_prob", "cdf", "icdf"):
        with pytest.raises(NotImplementedError, match=rf"Point\.{name}"):
            getattr(p, name)(at)
    with pytest.raises(NotImplementedError):
        p.expand((3, 2))


def test_a_constructor_of_its_own_needs_an_expand_of_its_own() -> None:
    class Standard(Normal):
        def __init__(self) -> None:
            super().__init__(0.0, 1.0)

    with pytest.raises(NotImplementedError, match="expand: Standard has a constructor of its own"):
        Standard().expand((2,))


def test_what_has_no_constraints_warns() -> None:
    class Bare(Distribution):
        pass

    with pytest.warns(UserWarning, match="Bare does not define `arg_constraints`"):
        p = Bare()
    with pytest.warns(UserWarning, match="Bare does not define `support`"):
        p._validate_sample(st.tensor(1.0))


INSIDE: dict[str, tuple[Any, list[float], list[bool]]] = {
    "boolean": (constraints.boolean, [0, 1, 2, 0.5], [True, True, False, False]),
    "real": (constraints.real, [0, float("nan"), float("inf")], [True, False, True]),
    "positive": (constraints.positive, [-1, 0, 1], [False, False, True]),
    "nonnegative": (constraints.nonnegative, [-1, 0, 1], [False, True, True]),
    "positive_integer": (constraints.positive_integer, [0, 1, 1.5], [False, True, False]),
    "nonnegative_integer": (constraints.nonnegative_integer, [-1, 0, 1.5], [False, True, False]),
    "greater_than": (constraints.greater_than(2), [2, 3], [False, True]),
    "greater_than_eq": (constraints.greater_than_eq(2), [1, 2], [False, True]),
    "less_than": (constraints.less_than(2), [1, 2], [True, False]),
    "interval": (constraints.interval(0, 2), [-1, 0, 2], [False, True, True]),
    "half_open_interval": (constraints.half_open_interval(0, 2), [0, 2], [True, False]),
    "unit_interval": (constraints.unit_interval, [0, 1, 2], [True, True, False]),
    "integer_interval": (constraints.integer_interval(0, 2), [0, 1.5, 3], [True, False, False]),
}


@pytest.mark.parametrize("name", INSIDE)
def test_constraints(name: str) -> None:
    constraint, values, expected = INSIDE[name]
    assert constraint.check(st.tensor(values)).tolist() == expected


def test_constraints_of_vectors() -> None:
    rows = st.tensor([[0.5, 0.5], [1.0, 0.0], [0.7, 0.7], [float("nan"), 0.0]])
    assert constraints.simplex.check(rows).tolist() == [True, True, False, False]
    assert constraints.one_hot.check(rows).tolist() == [False, True, False, False]
    assert constraints.real_vector.check(rows).tolist() == [True, True, True, False]
    assert constraints.independent(constraints.real, 2).check(rows).tolist() is False
    assert constraints.real_vector.check(st.zeros(0, 3)).shape == (0,)
    assert repr(constraints.independent(constraints.real, 1)) == "IndependentConstraint(Real(), 1)"
    assert constraints.is_dependent(constraints.dependent)
    assert constraints.is_dependent(distributions.Categorical.support)
    assert isinstance(distributions.Categorical.support, constraints.dependent_property)
    assert isinstance(constraints.real, constraints.Constraint)
    with pytest.raises(ValueError, match="dependent"):
        constraints.dependent.check(rows)


NAN, INF = float("nan"), float("inf")
MATRICES: dict[str, list[list[float]]] = {
    "the identity": [[1, 0], [0, 1]],
    "lower": [[-1, 0], [2, 0]],
    "factor": [[1, 0], [0.6, 0.8]],
    "symmetric": [[1, 2], [2, 1]],
    "semidefinite": [[1, 1], [1, 1]],
    "upper": [[1, 1], [0, 1]],
    "nan": [[1, 0], [0, NAN]],
    "infinite": [[INF, INF], [INF, INF]],
}
IN: dict[str, tuple[Any, set[str]]] = {
    "LowerTriangular": (constraints.lower_triangular, {"the identity", "lower", "factor"}),
    "LowerCholesky": (constraints.lower_cholesky, {"the identity", "factor"}),
    "CorrCholesky": (constraints.corr_cholesky, {"the identity", "factor"}),
    "Square": (constraints.square, set(MATRICES)),
    "Symmetric": (constraints.symmetric, {"the identity", "symmetric", "semidefinite", "infinite"}),
    "PositiveSemidefinite": (constraints.positive_semidefinite, {"the identity", "semidefinite"}),
    "PositiveDefinite": (constraints.positive_definite, {"the identity"}),
}


@pytest.mark.parametrize("name", IN)
def test_constraints_of_matrices(name: str) -> None:
    constraint, expected = IN[name]
    assert constraint.event_dim == 2
    assert repr(constraint) == f"{name}()"
    found = constraint.check(st.tensor(list(MATRICES.values()))).tolist()
    assert {key for key, inside in zip(MATRICES, found, strict=True) if inside} == expected


def test_matrices_that_are_not_square() -> None:
    for constraint in (constraints.square, constraints.symmetric):
        assert constraint.check(st.ones(3, 2, 1)).tolist() == [False] * 3
    for constraint in (constraints.positive_definite, constraints.positive_semidefinite):
        assert constraint.check(st.ones(3, 2, 1)).tolist() == [False] * 3


def test_counts_of_a_sum() -> None:
    counts = st.tensor([[1.0, 2.0], [1.0, 1.0], [0.5, 2.5], [-1.0, 4.0]])
    assert constraints.multinomial(3).check(counts).tolist() == [True, False, False, False]
    assert constraints.multinomial(3).is_discrete
    assert repr(constraints.multinomial(3)) == "Multinomial(upper_bound=3)"


def test_utils() -> None:
    x, y = utils.broadcast_all(st.ones(2, 1, dtype=st.float64), 3)
    assert (x.shape, y.shape, y.dtype) == ((2, 1), (2, 1), st.float64)
    with pytest.raises(ValueError, match=r"Number, Tensor .*: str"):
        utils.broadcast_all("a")
    p = st.tensor([0.25, 0.75])
    assert st.allclose(utils.logits_to_probs(utils.probs_to_logits(p)), p)
    assert st.allclose(utils.logits_to_probs(utils.probs_to_logits(p, True), True), p)
    eps = st.finfo(st.float32).eps
    assert utils.clamp_probs(st.tensor([0.0, 1.0])).tolist() == [eps, 1 - eps]
    assert isinstance(distributions.Bernoulli.logits, utils.lazy_property)
    assert importlib.import_module("shmtensor.distributions.kl").kl_divergence
