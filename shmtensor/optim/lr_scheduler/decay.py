"""Schedules that follow a formula of the step number."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ..optimizer import Optimizer
from .lr_scheduler import (
    LRScheduler,
    check_optimizer,
    check_steps,
    each,
    functions_state,
    restore_functions,
)

__all__ = [
    "ConstantLR",
    "CosineAnnealingLR",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "PolynomialLR",
    "StepLR",
]

Factor = Callable[[int], float]


class LambdaLR(LRScheduler):
    """The first rate times a function of the step.

    Parameters
    ----------
    optimizer : Optimizer
        Whose groups' "lr" it sets.
    lr_lambda : callable or list of callable
        `step -> factor`: one function, or one for each group.
    last_epoch : int, optional
        The number of the last step, to resume; -1 starts anew.

    See Also
    --------
    MultiplicativeLR

    Examples
    --------
    >>> sgd = st.optim.SGD([st.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = st.optim.lr_scheduler.LambdaLR(sgd, lambda step: 1 / (step + 1))
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(sgd.param_groups[0]["lr"])
    ...     sgd.step()
    ...     schedule.step()
    >>> rates[:2]
    [1.0, 0.5]
    """

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Factor | list[Factor], last_epoch: int = -1
    ) -> None:
        check_optimizer(optimizer)
        self.lr_lambdas = each("lr_lambda", lr_lambda, optimizer.param_groups)
        for factor in self.lr_lambdas:
            if not callable(factor):
                raise TypeError(
                    f"{type(self).__name__}: lr_lambda must be a function of the step: "
                    f"got {factor!r:.80}"
                )
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        pairs = zip(self.base_lrs, self.lr_lambdas, strict=True)
        return [base * factor(self.last_epoch) for base, factor in pairs]

    def state_dict(self) -> dict[str, Any]:
        saved = super().state_dict()
        saved["lr_lambdas"] = functions_state(self.lr_lambdas)
        return saved

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        restore_functions(self.lr_lambdas, state_dict["lr_lambdas"])
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "lr_lambdas"})


class MultiplicativeLR(LambdaLR):
    """The present rate times a function of the step.

    Parameters
    ----------
    optimizer : Optimizer
        Whose groups' "lr" it sets.
    lr_lambda : callable or list of callable
        `step -> factor`: one function, or one for each group.
    last_epoch : int, optional
        The number of the last step, to resume; -1 starts anew.

    See Also
    --------
    LambdaLR

    Examples
    --------
    >>> sgd = st.optim.SGD([st.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = st.optim.lr_scheduler.MultiplicativeLR(sgd, lambda step: 0.5)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(sgd.param_groups[0]["lr"])
    ...     sgd.step()
    ...     schedule.step()
    >>> rates
    [1.0, 0.5, 0.25, 0.125]
    """

    def get_lr(self) -> list[Any]:
        if self.last_epoch == 0:
            return self._rates
        pairs = zip(self._rates, self.lr_lambdas, strict=True)
        return [rate * factor(self.last_epoch) for rate, factor in pairs]

    def _get_closed_form_lr(self) -> list[Any]:
        steps = range(1, self.last_epoch + 1)
        pairs = zip(self.base_lrs, self.lr_lambdas, strict=True)
        return [base * math.prod(map(factor, steps)) for base, factor in pairs]


class StepLR(LRScheduler):
    """Times gamma every step_size steps.

    Parameters
    ----------
    optimizer : Optimizer
        Whose groups' "lr" it sets.
    step_size : int
        Steps from one reduction to the next.
    gamma : float, optional
        The factor.
    last_epoch : int, optional
        The number of the last step, to resume; -1 starts anew.

    See Also
    --------
    MultiStepLR, ExponentialLR

    Examples
    --------
    >>> sgd = st.optim.SGD([st.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = st.optim.lr_scheduler.StepLR(sgd, step_size=2, gamma=0.5)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(sgd.param_groups[0]["lr"])
    ...     sgd.step()
    ...     schedule.step()
    >>> rates
    [1.0, 1.0, 0.5, 0.5]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        check_steps(self, step_size=step_size)
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self._rates
        return [rate * self.gamma for rate in self._rates]

    def _get_closed_form_lr(self) -> list[Any]:
        factor = self.gamma ** (self.last_epoch // self.step_size)
        return [base * factor for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Times gamma at each of the milestones.

    Parameters
    ----------
    optimizer : Optimizer
        Whose groups' "lr" it sets.
    milestones : iterable of int
        The steps of the reductions.
    gamma : float, optional
        The factor.
    last_epoch : int, optional
        The number of the last step, to resume; -1 starts anew.

    See Also
    --------
    StepLR

    Examples
    --------
    >>> sgd = st.optim.SGD([st.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = st.optim.lr_scheduler.MultiStepLR(sgd, milestones=[1, 3], gamma=0.5)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(sgd.param_groups[0]["lr"])
    ...     sgd.step()
    ...     schedule.step()
    >>> rates
    [1.0, 0.5, 0.5, 0.25]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(milestones, Iterable):
            raise TypeError(
                f"MultiStepLR: milestones must be a list of steps: got {milestones!r:.80}"
            )
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        times = self.milestones[self.last_epoch]
        return [rate * self.gamma**times for rate in self._rates] if times else self._rates

    def _get_closed_form_lr(self) -> list[Any]:
        exponent = sum(n for step, n in self.milestones.items() if step <= self.last_epoch)
        return [base * self.gamma**exponent for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Times a factor for the first total_iters steps.

    Parameters
    ----------
    optimizer : Optimizer
        Whose groups' "lr" it sets.
    factor : float, optional
        From 0 to 1.
    total_iters : int, optional
        How long.
    last_epoch : int, optional
        The number of the last step, to resume; -1 starts anew.

    Raises
    ------
    ValueError
        factor is not within 0 and 1.

    Examples
    --------
    >>> sgd = st.optim.SGD([st.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = st.optim.lr_scheduler.ConstantLR(sgd, factor=0.5, total_iters=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(sgd.param_groups[0]["lr"])
    ...     sgd.step()
    ...     schedule.step()
    >>> rates
    [0.5, 0.5, 1.0, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 <= factor <= 1:
            raise ValueError(f"ConstantLR: factor must be between 0 and 1: {factor}")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        if self.last_epoch == 0:
            return [rate * self.factor for rate in self._rates]
        if self.last_epoch != self.total_iters:
            return self._rates
        if not self.factor:
            return self._get_closed_form_lr()
        return [rate * (1.0 / self.factor) for rate in self._rates]

    def _get_closed_form_lr(self) -> list[Any]:
        factor = self.factor if self.last_epoch < self.total_iters else 1
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """Times a factor that goes from start_factor to end_factor in total_iters steps: a warm-up.

    Parameters
    ----------
    optimizer : Optimizer
        Whose groups' "lr" it sets.
    start_factor : float, optional
        The first factor, above 0 and at most 1.
    end_factor : float, optional
        The last factor, from 0 to 1.
    total_iters : int, optional
        How many steps are between.
    last_epoch : int, optional
        The number of the last step, to resume; -1 starts anew.

    Raises
    ------
    ValueError
        A factor is out of its range.

    See Also
    --------
    SequentialLR

    Examples
    --------
    >>> sgd = st.optim.SGD([st.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = st.optim.lr_scheduler.LinearLR(sgd, start_factor=0.5, total_iters=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(sgd.param_groups[0]["lr"])
    ...     sgd.step()
    ...     schedule.step()
    >>> rates
    [0.5, 0.75, 1.0, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError(
                f"LinearLR: start_factor must be above 0 and at most 1: {start_factor}"
            )
        if not 0 <= end_factor <= 1:
            raise ValueError(f"LinearLR: end_factor must be between 0 and 1: {end_factor}")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        if self.last_epoch == 0:
            return [rate * self.start_factor for rate in self._rates]
        if self.last_epoch > self.total_iters:
            return self._rates
        rise = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return [rate * (1 + rise / before) for rate in self._rates]

    def _get_closed_form_lr(self) -> list[Any]:
        part = min(self.total_iters, self.last_epoch) / self.total_iters
        factor = self.start_factor + (self.end_factor - self.start_factor) * part
        return [base * factor for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Times gamma every step.

    Parameters
    ----------
    optimizer : Optimizer
        Whose groups' "lr" it sets.
    gamma : float
        The factor.
    last_epoch : int, optional
        The number of the last step, to resume; -1 starts anew.

    See Also
    --------
    StepLR

    Examples
    --------
    >>> sgd = st.optim.SGD([st.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = st.optim.lr_scheduler.ExponentialLR(sgd, gamma=0.5)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(sgd.param_groups[0]["lr"])
    ...     sgd.step()
    ...     schedule.step()
    >>> rates
    [1.0, 0.5, 0.25, 0.125]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        if self.last_epoch == 0:
            return self._rates
        return [rate * self.gamma for rate in self._rates]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Down to zero in total_iters steps, by a power of the remaining share.

    Parameters
    ----------
    optimizer : Optimizer
        Whose groups' "lr" it sets.
    total_iters : int, optional
        How many steps.
    power : float, optional
        The exponent; 1 is a straight line.
    last_epoch : int, optional
        The number of the last step, to resume; -1 starts anew.

    Examples
    --------
    >>> sgd = st.optim.SGD([st.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = st.optim.lr_scheduler.PolynomialLR(sgd, total_iters=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(sgd.param_groups[0]["lr"])
    ...     sgd.step()
    ...     schedule.step()
    >>> rates
    [1.0, 0.5, 0.0, 0.0]
    """

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        n, last = self.last_epoch, self.total_iters
        if n == 0 or n > last:
            return self._rates
        factor = ((1.0 - n / last) / (1.0 - (n - 1) / last)) ** self.power
        return [rate * factor for rate in self._rates]

    def _get_closed_form_lr(self) -> list[Any]:
        part = min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (1.0 - part) ** self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """From the first rate to eta_min along half a cosine of T_max steps, and back (Loshchilov and
    Hutter 2016).

    Parameters
    ----------
    optimizer : Optimizer
        Whose groups' "lr" it sets.
    T_max : int
        Steps of half a cosine, as a rule those of the whole training.
    eta_min : float, optional
        The smallest rate.
    last_epoch : int, optional
        The number of the last step, to resume; -1 starts anew.

    See Also
    --------
    CosineAnnealingWarmRestarts, OneCycleLR

    Examples
    --------
    >>> sgd = st.optim.SGD([st.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = st.optim.lr_scheduler.CosineAnnealingLR(sgd, T_max=4)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(sgd.param_groups[0]["lr"])
    ...     sgd.step()
    ...     schedule.step()
    >>> [round(rate, 4) for rate in rates]
    [1.0, 0.8536, 0.5, 0.1464]
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        check_steps(self, T_max=T_max)
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        n, period, least = self.last_epoch, self.T_max, self.eta_min
        if n == 0:
            return self._rates
        if (n - 1 - period) % (2 * period) == 0:  # a factor would stay at the minimum
            rise = (1 - math.cos(math.pi / period)) / 2
            pairs = zip(self._rates, self.base_lrs, strict=True)
            return [rate + (base - least) * rise for rate, base in pairs]
        factor = (1 + math.cos(math.pi * n / period)) / (1 + math.cos(math.pi * (n - 1) / period))
        return [factor * (rate - least) + least for rate in self._rates]

    def _get_closed_form_lr(self) -> list[Any]:
        part = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * part for base in self.base_lrs]
