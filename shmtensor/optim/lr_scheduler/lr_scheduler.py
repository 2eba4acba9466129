"""LRScheduler: counts steps and writes the learning rates into the optimizer's groups.

Schedules multiply the current rate, so that several can drive one optimizer; if a rate has a closed
form, `step(epoch)` uses that.

Note [Schedules that are resumed]
`last_epoch=k` goes on after step k + 1: the program has saved the optimizer after it. The rate that
was loaded with the optimizer's state is that of step k + 1, also if other schedules have a part in
it, and it stays. Where it is the initial rate (of an optimizer that is not loaded), or that of step
k (saved before the schedule's step), it becomes that of the closed form.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ..optimizer import Optimizer

__all__ = ["LRScheduler"]


class LRScheduler:
    """The base of the schedules: a subclass defines `get_lr`.

    Parameters
    ----------
    optimizer : Optimizer
        Whose groups' "lr" it sets, with each `step`.
    last_epoch : int, optional
        The number of the last step, to resume; -1 starts anew.

    Raises
    ------
    TypeError
        optimizer is not an Optimizer.
    KeyError
        A step to resume is given, and a group has no "initial_lr".

    Examples
    --------
    >>> class Halving(st.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [rate / 2**self.last_epoch for rate in self.base_lrs]
    >>> sgd = st.optim.SGD([st.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = Halving(sgd)
    >>> sgd.step()
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    "param 'initial_lr' is not specified in param_groups"
                    f"[{i}] when resuming an optimizer"
                )
        self.base_lrs: list[Any] = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_count = 0
        self._last_lr: list[Any] = []
        self._initial_step()

    def __repr__(self) -> str:
        shown = (bool, int, float, str)
        options: dict[str, Any] = {k: v for k, v in vars(self).items() if isinstance(v, shown)}
        options["lr"] = [group["lr"] for group in self.optimizer.param_groups]
        texts = (f"{name}={value!r}" for name, value in options.items() if name[0] != "_")
        return f"{type(self).__name__}({', '.join(texts)})"

    # Users' schedules read these two, by PyTorch's names.
    _get_lr_called_within_step = True
    _is_initial = False  # whether `get_lr` is called at construction

    def _initial_step(self) -> None:
        self._is_initial = True
        try:
            if self.last_epoch < 0:
                self.step()
            else:
                self._resume()
        finally:
            del self._is_initial

    def _resume(self) -> None:
        """Goes on after step `last_epoch` + 1. Note [Schedules that are resumed]."""
        self._step_count += 1
        self.last_epoch += 1
        self._write(self._resumed_rates())

    def _resumed_rates(self) -> list[Any]:
        closed_form = self._get_closed_form_lr
        if closed_form is None:
            return self.get_lr()
        rates = closed_form()
        self.last_epoch -= 1
        before = closed_form()
        self.last_epoch += 1
        columns = zip(self._rates, self.base_lrs, before, rates, strict=True)
        return [
            rate if is_close(lr, initial) or is_close(lr, previous) else lr
            for lr, initial, previous, rate in columns
        ]

    # ---------------------------------------------------------------- to be defined
    def get_lr(self) -> list[Any]:
        """The next rate of each group, from the present one and `last_epoch`."""
        raise NotImplementedError(f"{type(self).__name__}.get_lr: not defined")

    _get_closed_form_lr: Callable[[], list[Any]] | None = None

    # ---------------------------------------------------------------- stepping
    @property
    def _rates(self) -> list[Any]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def get_last_lr(self) -> list[Any]:
        """The rates that the last step wrote."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Sets the next rate (or that of `epoch`). Call it after the optimizer's step."""
        self._count_step()
        if epoch is None:
            self.last_epoch += 1
            rates = self.get_lr()
        else:
            self.last_epoch = epoch
            closed_form = self._get_closed_form_lr
            rates = self.get_lr() if closed_form is None else closed_form()
        self._write(rates)

    def _count_step(self) -> None:
        """Counts a step, and warns of a first one before the optimizer's."""
        if self._step_count == 1 and not self.optimizer._opt_called:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`: the first "
                "learning rate is skipped, hint: call `optimizer.step()` first",
                UserWarning,
                stacklevel=3,
            )
        self._step_count += 1

    def _write(self, rates: Sequence[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = list(rates)

    # ---------------------------------------------------------------- state
    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads the result of `state_dict`."""
        self.__dict__.update(state_dict)


def is_close(a: Any, b: Any) -> bool:
    """Whether two rates, numbers or tensors, are equal but for rounding."""
    return math.isclose(float(a), float(b), rel_tol=1e-6)


def check_optimizer(optimizer: object) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def check_steps(schedule: object, **steps: Any) -> None:
    """Raises for numbers of steps that are no numbers (TypeError) or not positive (ValueError)."""
    for name, value in steps.items():
        where = f"{type(schedule).__name__}: {name}"
        if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
            raise TypeError(f"{where} must be a number of steps: got {value!r:.80}")
        if value <= 0:
            raise ValueError(f"{where} must be positive: {value}")


def each(name: str, value: Any, groups: Sequence[Any]) -> list[Any]:
    """One value per group, from one for all or a list."""
    if not isinstance(value, (list, tuple)):
        return [value] * len(groups)
    if len(value) != len(groups):
        raise ValueError(f"{name}: expected {len(groups)} values, one per group: got {len(value)}")
    return list(value)


def functions_state(functions: Sequence[Any]) -> list[Any]:
    """The state of a list of callables: the attributes of objects, None for functions."""
    return [None if hasattr(f, "__code__") else f.__dict__.copy() for f in functions]


def restore_functions(functions: Sequence[Any], saved: Sequence[Any]) -> None:
    """Restores the attributes of callable objects."""
    for function, attributes in zip(functions, saved, strict=True):
        if attributes is not None:
            function.__dict__.update(attributes)
