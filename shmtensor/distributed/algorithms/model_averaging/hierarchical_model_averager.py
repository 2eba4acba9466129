"""Averages over small groups of ranks often, over larger groups less often."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...group.new_subgroups import new_subgroups
from ...group.process_group import ProcessGroup
from .averagers import ModelAverager, average_parameters_or_parameter_groups, warn_about_period_1

__all__ = ["HierarchicalModelAverager"]


class HierarchicalModelAverager(ModelAverager):
    """In a step that several periods divide, the longest of them is used. All ranks construct it.

    Args:
        period_group_size_dict: period to number of consecutive ranks, both increasing, as
            `{4: 8, 16: 16}`: each 8 ranks every 4 steps, all 16 every 16 steps.
        warmup_steps: steps without averaging.
        process_group: of all ranks; None: the default one.

    Raises:
        ValueError: periods or sizes that do not increase, a last size that is not the group's, a
            negative number of steps.
    """

    def __init__(
        self,
        period_group_size_dict: Mapping[int, int] | None = None,
        warmup_steps: int = 0,
        process_group: ProcessGroup | None = None,
    ) -> None:
        super().__init__(process_group)
        sizes = dict(period_group_size_dict or {})
        periods = list(sizes)
        if not sizes or periods[0] < 1 or periods != sorted(periods) or warmup_steps < 0:
            raise ValueError(
                "HierarchicalModelAverager: periods have to be positive and rise, and warmup_steps "
                f"not negative: {sizes}, {warmup_steps}"
            )
        if list(sizes.values()) != sorted(sizes.values()) or (
            sizes[periods[-1]] != self.process_group.size()
        ):
            raise ValueError(
                "HierarchicalModelAverager: sizes have to rise up to the group's: "
                f"{sizes} for {self.process_group.size()} ranks"
            )
        warn_about_period_1("HierarchicalModelAverager", periods[-1])
        self.warmup_steps = warmup_steps
        self.period_process_group_dict: dict[int, ProcessGroup | None] = {}
        for period, size in sizes.items():
            group: ProcessGroup | None = self.process_group
            if size != self.process_group.size():
                group, _ = new_subgroups(size, self.process_group)
            self.period_process_group_dict[period] = group

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Averages if this step is one to average in; counts the step."""
        if self.step >= self.warmup_steps:
            periods = [p for p in self.period_process_group_dict if self.step % p == 0]
            if periods:
                group = self.period_process_group_dict[periods[-1]]
                average_parameters_or_parameter_groups(params, group)
        self.step += 1
