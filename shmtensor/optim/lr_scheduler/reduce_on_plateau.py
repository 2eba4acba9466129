"""ReduceLROnPlateau: a lower rate when a metric stops improving."""

from __future__ import annotations

import math
from typing import Any

from ..optimizer import Optimizer
from .lr_scheduler import LRScheduler, each

__all__ = ["ReduceLROnPlateau"]


class ReduceLROnPlateau(LRScheduler):
    """Times a factor if a metric has not improved for more than `patience` steps.

    Parameters
    ----------
    optimizer : Optimizer
        Whose groups' "lr" it sets.
    mode : str, optional
        "min" or "max": which way is better.
    factor : float, optional
        Less than 1.
    patience : int, optional
        How many steps without improvement are tolerated.
    threshold : float, optional
        What counts as better.
    threshold_mode : str, optional
        Better by this part ("rel") or this much ("abs").
    cooldown : int, optional
        Steps to wait after a reduction.
    min_lr : float or list of float, optional
        The rate's lower bound, for all groups or each.
    eps : float, optional
        Smaller changes are not made.

    Raises
    ------
    ValueError
        factor is not less than 1, or a mode is unknown.

    Notes
    -----
    Its `step` takes the metric.

    Examples
    --------
    >>> sgd = st.optim.SGD([st.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = st.optim.lr_scheduler.ReduceLROnPlateau(sgd, factor=0.5, patience=1)
    >>> for loss in [1.0, 0.9, 0.9, 0.9, 0.9]:
    ...     schedule.step(loss)
    >>> sgd.param_groups[0]["lr"]
    0.5
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError(f"ReduceLROnPlateau: factor should be < 1.0: {factor}")
        if mode not in ("min", "max"):
            raise ValueError(f"ReduceLROnPlateau: mode must be 'min' or 'max': {mode!r}")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(
                f"ReduceLROnPlateau: threshold_mode must be 'rel' or 'abs': {threshold_mode!r}"
            )
        self.factor = factor
        self.default_min_lr = min_lr
        self.min_lrs = each("min_lr", min_lr, optimizer.param_groups)
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self._reset()
        super().__init__(optimizer)

    def _initial_step(self) -> None:
        self.last_epoch = 0
        self._last_lr = self._rates

    def _reset(self) -> None:
        """Resets the best metric and the counters."""
        self.best = math.inf if self.mode == "min" else -math.inf
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether it waits after a reduction."""
        return self.cooldown_counter > 0

    def is_better(self, a: float, best: float) -> bool:
        """Whether a counts as better than the best so far."""
        sign = 1 if self.mode == "min" else -1
        if self.threshold_mode == "abs":
            return sign * (best - a) > self.threshold
        limit = best * (1.0 - sign * self.threshold)
        return a < limit if self.mode == "min" else a > limit

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Takes the metric of this step."""
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._rates

    def _reduce(self) -> None:
        for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            rate = max(group["lr"] * self.factor, least)
            if group["lr"] - rate > self.eps:
                group["lr"] = rate
