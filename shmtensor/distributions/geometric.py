"""The geometric distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd import no_grad
from ..autograd import table as ops
from ..dtypes import finfo
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .success_probability import SuccessProbability

__all__ = ["Geometric"]


class Geometric(SuccessProbability, Distribution):
    """How many trials fail before the first that succeeds: 0, 1, 2, ...

    Parameters
    ----------
    probs : Tensor or float, optional
        The probability that a trial succeeds, positive.
    logits : Tensor or float, optional
        Its log odds; one of both is given.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        None or both are given, or a parameter is out of its range.

    Examples
    --------
    >>> p = st.distributions.Geometric(0.25)
    >>> p.mean, p.log_prob(st.tensor(0.0)).exp()
    (tensor(3.), tensor(0.2500))
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # noqa: RUF012
    support = constraints.nonnegative_integer

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._set_probability(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not bool((self.probs > 0).all()):
            raise ValueError(
                f"Expected parameter probs ({type(self.probs).__name__} of shape "
                f"{tuple(self.probs.shape)}) of distribution {self!r} to be positive but found "
                f"invalid values:\n{self.probs}"
            )

    @property
    def mean(self) -> Tensor:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1 / self.probs - 1) / self.probs

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expand(Geometric, batch_shape, ("probs", "logits"), _instance)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            u = ops.rand(shape, dtype=self.probs.dtype, device=self.probs.device)
            u = u.clamp(min=float(finfo(u.dtype).tiny))
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ops.special_xlog1py(value, -self.probs) + self.probs.log()

    def entropy(self) -> Tensor:
        of_trial = ops.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
        return of_trial / self.probs
