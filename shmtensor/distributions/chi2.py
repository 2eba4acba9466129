"""The chi-squared distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..tensor import Tensor
from . import constraints
from .gamma import Gamma

__all__ = ["Chi2"]


class Chi2(Gamma):
    """The chi-squared distribution: of the sum of squares of `df` standard normal numbers.

    Parameters
    ----------
    df : Tensor or float
        The degrees of freedom, positive.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        `df` is not positive.

    Notes
    -----
    The gamma distribution of concentration df / 2 and rate 1 / 2.

    Examples
    --------
    >>> p = st.distributions.Chi2(3.0)
    >>> p.mean, p.variance
    (tensor(3.), tensor(6.))
    >>> p.log_prob(st.tensor(2.0))
    tensor(-1.5724)
    """

    arg_constraints = {"df": constraints.positive}  # noqa: RUF012

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return 2 * self.concentration

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expand(Chi2, batch_shape, ("concentration", "rate"), _instance)
