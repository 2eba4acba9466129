"""Averagers: average the ranks' parameters in certain steps."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from ...collectives.reference import ReduceOp
from ...group.operands import array_of, bump_version
from ...group.process_group import ProcessGroup
from ...group.world import GroupMember, group_of

__all__ = [
    "ModelAverager",
    "PeriodicModelAverager",
    "average_parameters",
    "average_parameters_or_parameter_groups",
    "get_params_to_average",
]


def average_parameters(params: Iterable[Any], process_group: ProcessGroup | None) -> None:
    """Averages the parameters over the ranks of the group, in place. All its ranks call it, with
    parameters of the same shapes; on a rank that is not in the group it does nothing.

    Copies: none of parameters in shared memory.
    """
    if process_group is GroupMember.NON_GROUP_MEMBER:
        return
    group = group_of("average_parameters", process_group)
    for p in params:
        array = array_of("average_parameters", p)
        staged = group.writable(array)
        group.native.all_reduce(staged, ReduceOp.AVG, group.timeout)
        group.copy_back(array, staged)
        bump_version(p)


def get_params_to_average(params: Iterable[Any]) -> list[Any]:
    """The parameters that have a gradient, of a model's parameters or an optimizer's groups."""
    parameters: list[Any] = []
    for each in params:
        parameters += each["params"] if isinstance(each, dict) else [each]
    return [p for p in parameters if p.grad is not None]


def average_parameters_or_parameter_groups(
    params: Iterable[Any], process_group: ProcessGroup | None
) -> None:
    """Averages a model's parameters, or those of an optimizer's groups, that have a gradient."""
    average_parameters(get_params_to_average(params), process_group)


class ModelAverager:
    """Base class of averagers.

    Args:
        process_group: of the ranks; None: the default one.

    Attributes:
        step: how often `average_parameters` has been called.
    """

    def __init__(self, process_group: ProcessGroup | None = None) -> None:
        self.process_group = group_of(type(self).__name__, process_group)
        self.step = 0

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Averages if this step is one to average in.

        Args:
            params: the parameters of a model or the groups of an optimizer.
        """
        raise NotImplementedError(f"{type(self).__name__}.average_parameters: not defined")


def warn_about_period_1(where: str, period: int) -> None:
    if period == 1:
        warnings.warn(
            f"{where}: averaging the models in every step costs as much as averaging the "
            "gradients, for which DistributedDataParallel suffices: period 1",
            stacklevel=3,
        )


class PeriodicModelAverager(ModelAverager):
    """Averages in every `period`-th step after the first `warmup_steps`.

    Args:
        period: steps from one average to the next.
        warmup_steps: steps without averaging; as `start_localSGD_iter` of PostLocalSGDState.

    Raises:
        ValueError: a period below 1, a negative number of steps.
    """

    def __init__(
        self, period: int, warmup_steps: int = 0, process_group: ProcessGroup | None = None
    ) -> None:
        super().__init__(process_group)
        if warmup_steps < 0 or period < 1:
            raise ValueError(
                "PeriodicModelAverager: period has to be positive and warmup_steps not negative: "
                f"{period}, {warmup_steps}"
            )
        warn_about_period_1("PeriodicModelAverager", period)
        self.period = period
        self.warmup_steps = warmup_steps

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Averages if this step is one to average in; counts the step."""
        elapsed = self.step - self.warmup_steps
        if elapsed >= 0 and elapsed % self.period == 0:
            average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1
