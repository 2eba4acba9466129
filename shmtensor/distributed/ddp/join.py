"""Join: ranks with fewer inputs take part in the collectives of ranks with more.

```
rank 0   batch  batch  batch                      end: joined, shadow steps of zeros   } until all
rank 1   batch  batch  batch  batch  batch        end                                  } have joined
```

At each step there is an all_reduce, in which a rank that still has inputs contributes 1 and a
joined rank 0. The sum is the number of active ranks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from ...device import Device
from ..collectives.reference import ReduceOp
from ..group.process_group import ProcessGroup


class JoinHook:
    """What a joined rank does instead of a step, and after all ranks have joined."""

    def main_hook(self) -> None:
        """Takes part in the collectives of one step of the others."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called after all ranks have joined.

        Args:
            is_last_joiner: whether this rank was among the last to join.
        """


class JoinState(NamedTuple):
    """The arguments of the Join that a Joinable is in."""

    enable: bool = False
    throw_on_early_termination: bool = False
    is_first_joinable: bool = False


class Joinable(ABC):
    """An object that calls collectives in each step, and can be in a Join."""

    def __init__(self) -> None:
        self._joining = JoinState()

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """The hook of this object; gets the keyword arguments of Join."""

    @property
    def join_device(self) -> Device:
        """The device of its tensors."""
        return Device("cpu")

    @property
    @abstractmethod
    def join_process_group(self) -> ProcessGroup:
        """The group of its collectives."""


def all_reduce_int(group: ProcessGroup, number: int, op: ReduceOp = ReduceOp.SUM) -> int:
    """The sum (or another reduction) of everybody's number."""
    array = np.array([number], np.int64)
    group.native.all_reduce(array, op, group.timeout)
    return int(array[0])


class Join:
    """Inside, ranks may have different numbers of inputs.

    Args:
        joinables: for example a DistributedDataParallel and a ZeroRedundancyOptimizer, of the same
            group.
        enable: False: does nothing.
        throw_on_early_termination: all ranks raise RuntimeError as soon as one has no more inputs.
        kwargs: passed to the join_hook of each joinable (`divide_by_initial_world_size`).
    """

    def __init__(
        self,
        joinables: list[Joinable],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError("Join: there is nothing to join: the list of joinables is empty")
        groups = {id(each.join_process_group): each.join_process_group for each in joinables}
        if len(groups) > 1:
            raise ValueError(f"Join: the joinables are of several groups: {len(groups)}")
        self._joinables = joinables
        self._group = joinables[0].join_process_group
        self._enable = enable
        self._throws = throw_on_early_termination
        self._hooks = [each.join_hook(**kwargs) for each in joinables]

    def __enter__(self) -> Join:
        for i, each in enumerate(self._joinables):
            each._joining = JoinState(self._enable, self._throws, i == 0)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each in self._joinables:
            each._joining = JoinState()
        if not self._enable or kind is not None:
            return
        is_last = True
        while all_reduce_int(self._group, 0):
            if self._throws:
                all_reduce_int(self._group, 1)
                raise early_termination_error(self._group)
            is_last = False
            for hook in self._hooks:
                hook.main_hook()
        for hook in self._hooks:
            hook.post_hook(is_last)

    @staticmethod
    def notify_join_context(joinable: Joinable) -> int:
        """Tells the joined ranks that a step begins. A Joinable calls it before its first
        collective of a step.

        Returns: how many ranks have not joined; 0 outside a Join, and for all joinables of a Join
            but the first.

        Raises:
            RuntimeError: a rank has joined, and throw_on_early_termination is True.
        """
        state = joinable._joining
        if not state.enable or not state.is_first_joinable:
            return 0
        group = joinable.join_process_group
        active = all_reduce_int(group, 1)
        if state.throw_on_early_termination and active < group.size():
            all_reduce_int(group, 0)
            raise early_termination_error(group)
        return active


def early_termination_error(group: ProcessGroup) -> RuntimeError:
    return RuntimeError(
        f"Join: a rank has no more inputs: noticed by rank {group.rank()} of {group.size()}, "
        "throw_on_early_termination is True"
    )
