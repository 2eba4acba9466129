"""The Pareto distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..tensor import Tensor
from . import constraints
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .utils import broadcast_all

__all__ = ["Pareto"]


class Pareto(TransformedDistribution):
    """Numbers from a smallest one on, whose density falls as a power.

    Parameters
    ----------
    scale : Tensor or float
        The smallest number, positive.
    alpha : Tensor or float
        The exponent, positive: P(X > x) is `(scale / x) ** alpha`.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        A parameter is not positive.

    Examples
    --------
    >>> p = st.distributions.Pareto(1.0, 3.0)
    >>> p.mean, p.cdf(st.tensor(2.0))
    (tensor(1.5000), tensor(0.8750))
    """

    scale: Tensor
    alpha: Tensor
    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}  # noqa: RUF012

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, self._from_exponential(), validate_args=validate_args)

    def _from_exponential(self) -> list[Any]:
        return [ExpTransform(), AffineTransform(0, self.scale)]

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """The numbers from `scale` on."""
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        alpha = self.alpha.clamp(min=1)  # infinite up to 1
        return alpha * self.scale / (alpha - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        alpha = self.alpha.clamp(min=2)  # infinite up to 2
        return self.scale.square() * alpha / ((alpha - 1).square() * (alpha - 2))

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._new(Pareto, _instance)
        new.scale, new.alpha = self.scale.expand(batch_shape), self.alpha.expand(batch_shape)
        new = self._expand_base(Pareto, batch_shape, new)
        new.transforms = new._from_exponential()
        return new

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())
