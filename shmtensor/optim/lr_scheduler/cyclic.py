"""Schedules that rise and fall: warm restarts, cycles, one cycle."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..optimizer import Optimizer
from .lr_scheduler import LRScheduler, each, functions_state, restore_functions

__all__ = ["CosineAnnealingWarmRestarts", "CyclicLR", "OneCycleLR"]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine down, again and again, each T_mult times as long (Loshchilov and Hutter 2016).

    Parameters
    ----------
    optimizer : Optimizer
        Whose groups' "lr" it sets.
    T_0 : int
        Steps of the first half cosine.
    T_mult : int, optional
        How many times as long each is as the one before.
    eta_min : float, optional
        The smallest rate.
    last_epoch : int, optional
        The number of the last step, to resume; -1 starts anew.

    Raises
    ------
    ValueError
        T_0 is not positive, or T_mult is less than 1.

    Examples
    --------
    >>> sgd = st.optim.SGD([st.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = st.optim.lr_scheduler.CosineAnnealingWarmRestarts(sgd, T_0=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(sgd.param_groups[0]["lr"])
    ...     sgd.step()
    ...     schedule.step()
    >>> [round(rate, 4) for rate in rates]
    [1.0, 0.5, 1.0, 0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"CosineAnnealingWarmRestarts: expected positive integer T_0: {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"CosineAnnealingWarmRestarts: expected integer T_mult >= 1: {T_mult}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        part = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * part for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """To the next step, or to any `epoch`, which need not be whole."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        self._count_step()
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        else:
            if epoch < 0:
                raise ValueError(f"step: expected a non-negative epoch: {epoch}")
            self._find_restart(epoch)
        self.last_epoch = math.floor(epoch)
        self._write(self.get_lr())

    def _find_restart(self, epoch: float) -> None:
        """Sets T_cur and T_i of an epoch. Logarithms would miss a restart by rounding."""
        self.T_i, self.T_cur = self.T_0, epoch
        if self.T_mult == 1:
            self.T_cur = epoch % self.T_0
            return
        while self.T_cur >= self.T_i:
            self.T_cur -= self.T_i
            self.T_i *= self.T_mult

    def _resume(self) -> None:
        self.step(self.last_epoch + 1)


def _momentum_of(optimizer: Optimizer, name: str) -> bool:
    """Whether the optimizer's momentum is beta1."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(
            f"{name}: optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
        )
    return "betas" in optimizer.defaults


def _write_momentum(group: dict[str, Any], momentum: float, by_beta1: bool) -> None:
    if by_beta1:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


class CyclicLR(LRScheduler):
    """Up and down between base_lr and max_lr (Smith 2017).

    Parameters
    ----------
    optimizer : Optimizer
        Whose groups' "lr" it sets.
    base_lr : float or list of float
        The smallest rate, for all groups or each.
    max_lr : float or list of float
        The largest rate, for all groups or each.
    step_size_up : int, optional
        Steps upwards.
    step_size_down : int, optional
        Steps downwards; as many as upwards if None.
    mode : str, optional
        "triangular", "triangular2" (half the height each cycle) or "exp_range" (gamma ** step).
    gamma : float, optional
        Of "exp_range".
    scale_fn : callable, optional
        The height as a function, instead of `mode`.
    scale_mode : str, optional
        Whether scale_fn takes the number of the "cycle" or of the step ("iterations").
    cycle_momentum : bool, optional
        Whether the momentum goes the opposite way.
    base_momentum, max_momentum : float, optional
        The smallest and the largest momentum.
    last_epoch : int, optional
        The number of the last step, to resume; -1 starts anew.

    Raises
    ------
    ValueError
        The mode is unknown, or the optimizer has no momentum to cycle.

    Examples
    --------
    >>> sgd = st.optim.SGD([st.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = st.optim.lr_scheduler.CyclicLR(
    ...     sgd, base_lr=1.0, max_lr=2.0, step_size_up=2, cycle_momentum=False
    ... )
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(sgd.param_groups[0]["lr"])
    ...     sgd.step()
    ...     schedule.step()
    >>> rates
    [1.0, 1.5, 2.0, 1.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        groups = optimizer.param_groups
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError(f"CyclicLR: mode is invalid and scale_fn is None: {mode!r}")
        if last_epoch == -1:
            for group, rate in zip(groups, each("base_lr", base_lr, groups), strict=True):
                group["lr"] = rate
        self.max_lrs = each("max_lr", max_lr, groups)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self._scale_mode = scale_mode if scale_fn else _MODES[mode]
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _momentum_of(optimizer, "CyclicLR")
            self.base_momentums = each("base_momentum", base_momentum, groups)
            self.max_momentums = each("max_momentum", max_momentum, groups)
            if last_epoch == -1:
                for group, most in zip(groups, self.max_momentums, strict=True):
                    _write_momentum(group, most, self.use_beta1)
        self._lower_lrs = each("base_lr", base_lr, groups)
        super().__init__(optimizer, last_epoch)
        del self._lower_lrs

    def _initial_step(self) -> None:
        self.base_lrs = self._lower_lrs
        super()._initial_step()

    def scale_fn(self, x: float) -> float:
        """The height of cycle (or step) x."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / (2.0 ** (x - 1)) if self.mode == "triangular2" else float(self.gamma**x)

    def get_lr(self) -> list[Any]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self._scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            groups = self.optimizer.param_groups
            bounds = zip(groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in bounds:
                _write_momentum(group, high - (high - low) * height * scale, self.use_beta1)
        pairs = zip(self.base_lrs, self.max_lrs, strict=True)
        return [base + (most - base) * height * scale for base, most in pairs]

    def state_dict(self) -> dict[str, Any]:
        saved = super().state_dict()
        custom = saved.pop("_scale_fn_custom")
        saved["_scale_fn_custom"] = functions_state([custom])[0] if custom else None
        return saved

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if self._scale_fn_custom is not None:
            restore_functions([self._scale_fn_custom], [state_dict["_scale_fn_custom"]])
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})


_MODES = {"triangular": "cycle", "triangular2": "cycle", "exp_range": "iterations"}


class OneCycleLR(LRScheduler):
    """One rise to max_lr and a long fall to nearly nothing (Smith and Topin 2017).

    Parameters
    ----------
    optimizer : Optimizer
        Whose groups' "lr" it sets.
    max_lr : float or list of float
        The largest rate, for all groups or each.
    total_steps : int, optional
        Length of the cycle.
    epochs, steps_per_epoch : int, optional
        The length as a product, instead of total_steps.
    pct_start : float, optional
        The part of it that rises.
    anneal_strategy : str, optional
        "cos" or "linear".
    cycle_momentum : bool, optional
        Whether the momentum goes the opposite way.
    base_momentum, max_momentum : float or list of float, optional
        The smallest and the largest momentum.
    div_factor : float, optional
        max_lr over the first rate.
    final_div_factor : float, optional
        The first rate over the last.
    three_phase : bool, optional
        Whether the rate falls to the first one as long as it rose, then to the last.
    last_epoch : int, optional
        The number of the last step, to resume; -1 starts anew.

    Raises
    ------
    ValueError
        A number is out of its range, the length is not given, or more than total_steps steps are
        taken.

    Notes
    -----
    The schedule steps after every batch, not after every epoch.

    Examples
    --------
    >>> sgd = st.optim.SGD([st.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = st.optim.lr_scheduler.OneCycleLR(
    ...     sgd, max_lr=1.0, total_steps=5, pct_start=0.5, cycle_momentum=False
    ... )
    >>> rates = []
    >>> for _ in range(4):
    ...     rates.append(sgd.param_groups[0]["lr"])
    ...     sgd.step()
    ...     schedule.step()
    >>> rates[0] < rates[1] < rates[2] > rates[3]
    True
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError(
                    "OneCycleLR: you must define either total_steps OR (epochs AND "
                    f"steps_per_epoch): got {epochs}, {steps_per_epoch}"
                )
            total_steps = epochs * steps_per_epoch
        if total_steps <= 0 or not isinstance(total_steps, int):
            raise ValueError(f"OneCycleLR: expected positive integer total_steps: {total_steps}")
        if not 0 <= pct_start <= 1:
            raise ValueError(f"OneCycleLR: pct_start must be between 0 and 1: {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"OneCycleLR: anneal_strategy must be 'cos' or 'linear': {anneal_strategy!r}"
            )
        self.total_steps = total_steps
        self._anneal_func_type = anneal_strategy
        up = float(pct_start * total_steps) - 1
        if three_phase:
            self._phases = [
                (up, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                (2 * up + 1 - 0.0, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                (total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
            self._phases[1] = (2 * pct_start * total_steps - 2, *self._phases[1][1:])
        else:
            self._phases = [
                (up, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                (total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum"),
            ]
        groups = optimizer.param_groups
        for group, most in zip(groups, each("max_lr", max_lr, groups), strict=True):
            if last_epoch == -1 or "max_lr" not in group:
                group["initial_lr"] = most / div_factor
                group["max_lr"] = most
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _momentum_of(optimizer, "OneCycleLR")
            lows = each("base_momentum", base_momentum, groups)
            highs = each("max_momentum", max_momentum, groups)
            for group, low, high in zip(groups, lows, highs, strict=True):
                if last_epoch == -1 or "max_momentum" not in group:
                    _write_momentum(group, high, self.use_beta1)
                    group["max_momentum"], group["base_momentum"] = high, low
        super().__init__(optimizer, last_epoch)

    def _between(self, start: float, end: float, part: float) -> float:
        if self._anneal_func_type == "linear":
            return (end - start) * part + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)

    def get_lr(self) -> list[Any]:
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        i = next((i for i, phase in enumerate(self._phases) if step <= phase[0]), -1)
        start = self._phases[i - 1][0] if i % len(self._phases) else 0.0
        end, *names = self._phases[i]
        part = (step - start) / (end - start)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._between(group[names[0]], group[names[1]], part))
            if self.cycle_momentum:
                momentum = self._between(group[names[2]], group[names[3]], part)
                _write_momentum(group, momentum, self.use_beta1)
        return rates
