"""From constraints to transforms whose values satisfy them: `biject_to`, `transform_to`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import constraints
from .transforms import (
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    SigmoidTransform,
    SoftmaxTransform,
    StackTransform,
    StickBreakingTransform,
    Transform,
    identity_transform,
)

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

Factory = Callable[[Any], Transform]


class ConstraintRegistry:
    """From classes of constraints to functions that make transforms onto them.

    Parameters
    ----------
    constraint : Constraint
        Of a call of `biject_to` or `transform_to`.

    Returns
    -------
    Transform
        Of the call: from real numbers to values that satisfy the constraint.

    Raises
    ------
    NotImplementedError
        No function is registered for the constraint's class.

    Notes
    -----
    `biject_to` has bijections, whose Jacobian is known: for densities. `transform_to` may have
    cheaper transforms, for optimizing without constraints.

    Examples
    --------
    >>> from shmtensor.distributions import biject_to, constraints, transform_to
    >>> biject_to(constraints.positive)
    ExpTransform()
    >>> biject_to(constraints.simplex), transform_to(constraints.simplex)
    (StickBreakingTransform(), SoftmaxTransform())

    A class of one's own:

    >>> class Even(constraints.Constraint):
    ...     pass
    >>> @transform_to.register(Even)
    ... def to_even(constraint):
    ...     return st.distributions.AffineTransform(0.0, 2.0)
    >>> transform_to(Even())(st.tensor(3.0))
    tensor(6.)
    """

    def __init__(self) -> None:
        self._registry: dict[type, Factory] = {}

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Registers the function for a class of constraints, or for that of an object; without a
        function, a decorator.

        Raises:
            TypeError: no constraint.
        """
        if factory is None:
            return lambda function: self.register(constraint, function)
        cls = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not (isinstance(cls, type) and issubclass(cls, constraints.Constraint)):
            raise TypeError(
                "Expected constraint to be either a Constraint subclass or instance, but got "
                f"{constraint!r}"
            )
        self._registry[cls] = factory
        return factory

    def __call__(self, constraint: Any) -> Transform:
        """A transform from real numbers onto a constraint.

        Raises:
            NotImplementedError: none is registered for its class.
        """
        factory = self._registry.get(type(constraint))
        if factory is None:
            name = type(constraint).__name__
            raise NotImplementedError(f"Cannot transform {name} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _in_both(*which: Any) -> Callable[[Factory], Factory]:
    """A decorator: registers for some constraints in both registries."""

    def register(factory: Factory) -> Factory:
        for constraint in which:
            biject_to.register(constraint, factory)
            transform_to.register(constraint, factory)
        return factory

    return register


@_in_both(constraints.real)
def _to_real(constraint: Any) -> Transform:
    return identity_transform


@_in_both(constraints.greater_than, constraints.greater_than_eq)
def _to_greater(constraint: Any) -> Transform:
    bound = constraint.lower_bound
    if isinstance(bound, (int, float)) and bound == 0:
        return ExpTransform()
    return ComposeTransform([ExpTransform(), AffineTransform(bound, 1)])


@_in_both(constraints.less_than)
def _to_less(constraint: Any) -> Transform:
    return ComposeTransform([ExpTransform(), AffineTransform(constraint.upper_bound, -1)])


@_in_both(constraints.interval, constraints.half_open_interval)
def _to_interval(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and (low, high) == (0, 1):
        return SigmoidTransform()
    return ComposeTransform([SigmoidTransform(), AffineTransform(low, high - low)])


@_in_both(constraints.corr_cholesky)
def _to_corr_cholesky(constraint: Any) -> Transform:
    return CorrCholeskyTransform()


biject_to.register(constraints.simplex, lambda constraint: StickBreakingTransform())
transform_to.register(constraints.simplex, lambda constraint: SoftmaxTransform())

# These have no `log_abs_det_jacobian`, which `biject_to` promises.
transform_to.register(constraints.lower_cholesky, lambda constraint: LowerCholeskyTransform())
for _constraint in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(_constraint, lambda constraint: PositiveDefiniteTransform())


def _register_those_of_parts(registry: ConstraintRegistry) -> None:
    """Registers constraints that are made of others."""

    def to_independent(constraint: Any) -> Transform:
        part = registry(constraint.base_constraint)
        return IndependentTransform(part, constraint.reinterpreted_batch_ndims)

    def to_cat(constraint: Any) -> Transform:
        parts = [registry(c) for c in constraint.cseq]
        return CatTransform(parts, constraint.dim, constraint.lengths)

    def to_stack(constraint: Any) -> Transform:
        return StackTransform([registry(c) for c in constraint.cseq], constraint.dim)

    registry.register(constraints.independent, to_independent)
    registry.register(constraints.cat, to_cat)
    registry.register(constraints.stack, to_stack)


_register_those_of_parts(biject_to)
_register_those_of_parts(transform_to)
