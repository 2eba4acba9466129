"""The von Mises distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Number
from typing import Any

from ..autograd import no_grad
from ..autograd import table as ops
from ..tensor import Tensor
from . import constraints
from .distribution import Distribution
from .utils import broadcast_all

__all__ = ["VonMises"]


class VonMises(Distribution):
    """The von Mises distribution, of angles in radians.

    Parameters
    ----------
    loc : Tensor or float
        The mean direction, an angle.
    concentration : Tensor or float
        How much the angles are concentrated about it, positive.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        `concentration` is not positive, or a parameter is NaN.

    Notes
    -----
    Both are broadcast to the shape of the batch. Samples lie in [-pi, pi); they have no gradients.
    They are computed in float64, by rejection (Best and Fisher: Efficient simulation of the von
    Mises distribution, 1979). `variance` is the circular one, from 0 to 1.

    Examples
    --------
    >>> p = st.distributions.VonMises(0.0, 2.0)
    >>> p.mean, p.variance
    (tensor(0.), tensor(0.3022))
    >>> p.log_prob(st.tensor([0.0, 3.0]))
    tensor([-0.6619, -4.6419])
    """

    loc: Tensor
    concentration: Tensor
    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}  # noqa: RUF012
    support = constraints.real
    has_rsample = False

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        is_scalar = isinstance(loc, Number) and isinstance(concentration, Number)
        super().__init__(() if is_scalar else self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        k = self.concentration.double()  # the difference cancels
        return (1 - ops.special_i1e(k) / ops.special_i0e(k)).to(self.concentration.dtype)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expand(VonMises, batch_shape, ("loc", "concentration"), _instance)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            loc, k = self.loc.double(), self.concentration.double().expand(shape)
            angle = deviations(k) + loc
            return ((angle + math.pi) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        k = self.concentration
        # cos(x) - 1 by the half angle: it cancels near 0
        fall = -2 * k * (0.5 * (value - self.loc)).sin().square()
        return fall - math.log(2 * math.pi) - ops.special_i0e(k).log()


def deviations(k: Tensor) -> Tensor:
    """Random angles about 0, (...) like their concentrations, in float64.

    A wrapped Cauchy number is accepted with the ratio of the densities; all attempts of an element
    have the same position in each round, so that a rejection that flips changes that element alone.
    With r of the paper, s is r - 1, q is 1 - z, and gap is 1 - f: none of them cancels.
    """
    tau = 1 + ops.hypot(2 * k, ops.ones_like(k))
    rho = 2 * k / (tau + (2 * tau).sqrt())
    s = (1 - rho).square() / (2 * rho)
    angle, is_done = ops.zeros_like(k), ops.zeros_like(k, dtype="bool")
    while not bool(is_done.all()):
        u, v = ops.rand((2, *k.shape), dtype=k.dtype, device=k.device).unbind()
        u = 2 * u - 1
        q = 2 * (0.5 * math.pi * u).sin().square()
        gap = s * q / (s + 2 - q)
        c = k * (s + gap)
        candidate = 2 * u.sign() * (0.5 * gap).sqrt().asin()
        angle = ops.where(is_done, angle, candidate)
        is_done = is_done | ~((c / v).log() + 1 - c < 0)  # NaN is accepted
    return angle
