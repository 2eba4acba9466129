"""Schedules one after the other, or together."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from ..optimizer import Optimizer
from .lr_scheduler import LRScheduler

__all__ = ["ChainedScheduler", "SequentialLR"]


class _CompositeScheduler(LRScheduler):
    _schedulers: list[Any]

    def state_dict(self) -> dict[str, Any]:
        saved = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "_schedulers")}
        saved["_schedulers"] = [schedule.state_dict() for schedule in self._schedulers]
        return saved

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for schedule, saved in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            schedule.load_state_dict(saved)
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "_schedulers"})


def _one_optimizer(name: str, schedulers: Sequence[Any], optimizer: Optimizer | None) -> Optimizer:
    if not schedulers:
        raise ValueError(f"{name}: at least one scheduler is needed: got none")
    for i, schedule in enumerate(schedulers):
        if not hasattr(schedule, "optimizer"):
            raise TypeError(f"{name}: scheduler {i} has no optimizer: {schedule!r}")
        optimizer = schedule.optimizer if optimizer is None else optimizer
        if schedule.optimizer is not optimizer:
            raise ValueError(f"{name}: scheduler {i} belongs to a different optimizer")
    assert optimizer is not None
    return optimizer


class SequentialLR(_CompositeScheduler):
    """One schedule after the other, each from its milestone on.

    Parameters
    ----------
    optimizer : Optimizer
        That of the schedules.
    schedulers : sequence of LRScheduler
        The schedules, in order.
    milestones : sequence of int
        The steps where the next one begins: one less than schedulers.
    last_epoch : int, optional
        Where to resume; -1 starts anew.

    Raises
    ------
    ValueError
        There is not one milestone less than schedulers.

    See Also
    --------
    ChainedScheduler

    Examples
    --------
    >>> sgd = st.optim.SGD([st.ones(1, requires_grad=True)], lr=1.0)
    >>> warm_up = st.optim.lr_scheduler.ConstantLR(sgd, factor=0.25, total_iters=2)
    >>> decay = st.optim.lr_scheduler.ExponentialLR(sgd, gamma=0.5)
    >>> schedule = st.optim.lr_scheduler.SequentialLR(sgd, [warm_up, decay], milestones=[2])
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(sgd.param_groups[0]["lr"])
    ...     sgd.step()
    ...     schedule.step()
    >>> rates
    [0.25, 0.25, 1.0, 0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[Any],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        _one_optimizer("SequentialLR", schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "SequentialLR: expected one milestone less than schedulers: "
                f"{len(schedulers)} schedulers, {len(milestones)} milestones"
            )
        self._schedulers = list(schedulers)
        self._milestones = list(milestones)
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # each made its first step when it was constructed: undo them, and repeat only the first
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for schedule in self._schedulers:
            _undo(schedule)
        self._schedulers[0]._initial_step()
        self._last_lr = self._schedulers[0].get_last_lr()
        if last_epoch >= 0:
            self._repeat(last_epoch + 1)

    def _repeat(self, n: int) -> None:
        """Repeats the first n steps: which schedule wrote a rate depends on all of them."""
        called, self.optimizer._opt_called = self.optimizer._opt_called, True
        try:
            self.last_epoch = 0
            for _ in range(n):
                self.step()
        finally:
            self.optimizer._opt_called = called

    def step(self, epoch: int | None = None) -> None:
        """One step of the current schedule."""
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        schedule = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            schedule.step(0)
        else:
            schedule.step()
        self._last_lr = schedule.get_last_lr()


def _undo(schedule: Any) -> None:
    for inner in getattr(schedule, "_schedulers", ()):
        _undo(inner)
    schedule.last_epoch = -1
    if hasattr(schedule, "_step_count"):
        schedule._step_count = 0


class ChainedScheduler(_CompositeScheduler):
    """Several schedules at every step: the product of their factors.

    Parameters
    ----------
    schedulers : sequence of LRScheduler
        Schedules of one optimizer.
    optimizer : Optimizer, optional
        Theirs, which is the first one's if None.

    See Also
    --------
    SequentialLR

    Examples
    --------
    >>> sgd = st.optim.SGD([st.ones(1, requires_grad=True)], lr=1.0)
    >>> warm_up = st.optim.lr_scheduler.ConstantLR(sgd, factor=0.25, total_iters=2)
    >>> decay = st.optim.lr_scheduler.ExponentialLR(sgd, gamma=0.5)
    >>> schedule = st.optim.lr_scheduler.ChainedScheduler([warm_up, decay])
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(sgd.param_groups[0]["lr"])
    ...     sgd.step()
    ...     schedule.step()
    >>> rates
    [0.25, 0.125, 0.25, 0.125]
    """

    def __init__(self, schedulers: Sequence[Any], optimizer: Optimizer | None = None) -> None:
        self.optimizer = _one_optimizer("ChainedScheduler", schedulers, optimizer)
        self._schedulers = list(schedulers)
        self._last_lr = self._rates

    def step(self, epoch: int | None = None) -> None:
        """One step of each."""
        for schedule in self._schedulers:
            schedule.step()
        self._last_lr = self._rates
