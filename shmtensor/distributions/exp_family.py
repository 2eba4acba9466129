"""`ExponentialFamily`: the entropy from the normalizer of the density."""

from __future__ import annotations

from typing import Any

from ..autograd import enable_grad, grad, is_grad_enabled
from ..tensor import Tensor
from .distribution import Distribution
from .utils import sum_rightmost

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """A distribution with density exp(<t(x), natural parameters> - log normalizer + k(x)).

    Parameters
    ----------
    batch_shape, event_shape : sequence of int, optional
        The shapes of the batch and of one value.
    validate_args : bool, optional
        Whether parameters and values are checked; None: as `set_default_validate_args` says.

    Notes
    -----
    A subclass defines `_natural_params`, a tuple of tensors, `_log_normalizer`, a function of
    these, and `_mean_carrier_measure`, the expectation of k(x). The entropy, and the divergence of
    two of one class, then follow by a derivative (Nielsen and Nock, 2010, "Entropies and
    cross-entropies of exponential families").

    Examples
    --------
    >>> class Waiting(st.distributions.ExponentialFamily):
    ...     arg_constraints = {"rate": st.distributions.constraints.positive}
    ...     _mean_carrier_measure = 0
    ...     def __init__(self, rate):
    ...         self.rate = rate
    ...         super().__init__(rate.shape)
    ...     @property
    ...     def _natural_params(self):
    ...         return (-self.rate,)
    ...     def _log_normalizer(self, x):
    ...         return -(-x).log()
    >>> Waiting(st.tensor(1.0)).entropy()
    tensor(1.)
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError(f"{type(self).__name__}._natural_params")

    def _log_normalizer(self, *args: Any, **kwargs: Any) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}._log_normalizer")

    @property
    def _mean_carrier_measure(self) -> Any:
        name = type(self).__name__
        raise NotImplementedError(f"{name}.entropy: its `_mean_carrier_measure` is not defined")

    def _mean_statistics(self) -> tuple[tuple[Tensor, ...], Tensor, tuple[Tensor, ...]]:
        """The natural parameters, their log normalizer, and its derivatives: the means of t(x).

        All have a history that reaches the distribution's parameters, if these have gradients.
        """
        parameters = self._natural_params
        recorded = is_grad_enabled() and any(p.requires_grad for p in parameters)
        with enable_grad():
            if not recorded:
                parameters = tuple(p.detach() for p in parameters)
            points = [p if p.requires_grad else p.detach().requires_grad_() for p in parameters]
            log_normalizer = self._log_normalizer(*points)
            means = grad(log_normalizer.sum(), points, create_graph=recorded)
        return parameters, log_normalizer if recorded else log_normalizer.detach(), means

    def _sum_of_event(self, x: Tensor) -> Tensor:
        """The sum over all dimensions behind those of the batch."""
        return sum_rightmost(x, x.ndim - len(self._batch_shape))

    def entropy(self) -> Tensor:
        """The entropy, in nats: (*batch_shape)."""
        parameters, log_normalizer, means = self._mean_statistics()
        result = log_normalizer - self._mean_carrier_measure
        for p, mean in zip(parameters, means):
            result = result - self._sum_of_event(p * mean)
        return result
