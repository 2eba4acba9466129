"""The relaxed categorical distribution, and that of its logarithms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..autograd import table as ops
from ..native import Size
from ..tensor import Tensor
from . import constraints
from .categorical import Categorical
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform
from .utils import broadcast_all, clamp_probs, log_of

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


class ExpRelaxedCategorical(Distribution):
    """The logarithms of `RelaxedOneHotCategorical`.

    Parameters
    ----------
    temperature : Tensor or float
        Positive.
    probs : Tensor, optional
        `(*batch_shape, n)`, not negative; they are divided by their sum.
    logits : Tensor, optional
        Their logarithms, up to a constant; one of both is given.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        None or both are given, or a number without dimensions.

    Notes
    -----
    Maddison, Mnih, Teh, 2016, "The Concrete Distribution".

    Examples
    --------
    >>> from shmtensor.distributions.relaxed_categorical import ExpRelaxedCategorical
    >>> draw = ExpRelaxedCategorical(1.0, logits=st.zeros(3)).sample()
    >>> st.allclose(draw.exp().sum(), st.tensor(1.0))
    True
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}  # noqa: RUF012
    support = constraints.real_vector  # the vectors whose exponentials have the sum 1
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        # Its parameters are checked here, which names this class.
        self._categorical = Categorical(probs, logits, validate_args=False)
        self.temperature = temperature
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._categorical.param_shape

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._new(ExpRelaxedCategorical, _instance)
        new._categorical = self._categorical.expand(batch_shape)
        new.temperature = self.temperature
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape, logits = self._extended_shape(sample_shape), self.logits
        u = clamp_probs(ops.rand(shape, dtype=logits.dtype, device=logits.device))
        gumbel = -(-u.log()).log()
        return ops.log_softmax((logits + gumbel) / self.temperature, -1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self._categorical._num_events
        logits, value = broadcast_all(self.logits, value)
        log_scale = math.lgamma(n) + (n - 1) * log_of(self.temperature)
        return ops.log_softmax(logits - value * self.temperature, -1).sum(-1) + log_scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """Probabilities that are near a vector with one 1 at a low temperature, with gradients.

    Parameters
    ----------
    temperature : Tensor or float
        Positive.
    probs : Tensor, optional
        `(*batch_shape, n)`, not negative; they are divided by their sum.
    logits : Tensor, optional
        Their logarithms, up to a constant; one of both is given.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        None or both are given, or a number without dimensions.

    Notes
    -----
    Maddison, Mnih, Teh, 2016, "The Concrete Distribution"; Jang, Gu, Poole, 2016, "Categorical
    Reparameterization with Gumbel-Softmax".

    Examples
    --------
    >>> logits = st.zeros(3, requires_grad=True)
    >>> draw = st.distributions.RelaxedOneHotCategorical(0.5, logits=logits).rsample((2,))
    >>> draw.shape, draw.requires_grad
    (Size([2, 3]), True)
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}  # noqa: RUF012
    support = constraints.simplex
    has_rsample = True
    base_dist: ExpRelaxedCategorical

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self.base_dist.probs

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expand_base(RelaxedOneHotCategorical, batch_shape, _instance)
