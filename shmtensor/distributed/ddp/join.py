"""Join: ranks with fewer inputs go on answering the collectives of those with more.

```
rank 0   batch  batch  batch                      end: joined, answers with zeros ...  } until all
rank 1   batch  batch  batch  batch  batch        end                                  } have joined
```

Every rank that still has inputs tells the others at each step (one all_reduce of a 1); the joined
ones answer 0, and so everybody knows how many are left.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from ..collectives.reference import ReduceOp
from ..group.process_group import ProcessGroup

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """What a joined rank does in place of a step, and when all have joined."""

    def main_hook(self) -> None:
        """Answers the collectives of one step of the others."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Is called once all ranks have joined.

        Args:
            is_last_joiner: whether this rank was among the last.
        """


class JoinState(NamedTuple):
    """What a Joinable knows about the Join that it is in."""

    enable: bool = False
    throw_on_early_termination: bool = False
    is_first_joinable: bool = False


class Joinable(ABC):
    """Something that calls collectives in each step, and can be in a Join."""

    def __init__(self) -> None:
        self._joining = JoinState()

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """The hook of this one; gets the named arguments of Join."""

    @property
    def join_device(self) -> str:
        """Where its tensors are."""
        return "cpu"

    @property
    @abstractmethod
    def join_process_group(self) -> ProcessGroup:
        """The group of its collectives."""


def summed(group: ProcessGroup, number: int, op: ReduceOp = ReduceOp.SUM) -> int:
    """The sum of everybody's number."""
    box = np.array([number], np.int64)
    group.native.all_reduce(box, op, group.timeout)
    return int(box[0])


class Join:
    """Inside, ranks may have different numbers of inputs.

    Args:
        joinables: for example a DistributedDataParallel and a ZeroRedundancyOptimizer; all of one
            group.
        enable: False: does nothing.
        throw_on_early_termination: all ranks raise RuntimeError as soon as one has no more inputs.
        kwargs: for the join_hook of each joinable (`divide_by_initial_world_size`).
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
        while summed(self._group, 0):
            if self._throws:
                summed(self._group, 1)
                raise terminated(self._group)
            is_last = False
            for hook in self._hooks:
                hook.main_hook()
        for hook in self._hooks:
            hook.post_hook(is_last)

    @staticmethod
    def notify_join_context(joinable: Joinable) -> int:
        """Tells the joined ranks that a step begins here; a Joinable calls it before its first
        collective of a step.

        Returns: how many ranks have not joined; 0 outside a Join, and for all joinables of a Join
            but the first.

        Raises:
            RuntimeError: a rank has joined, and throw_on_early_termination was asked for.
        """
        state = joinable._joining
        if not state.enable or not state.is_first_joinable:
            return 0
        group = joinable.join_process_group
        active = summed(group, 1)
        if state.throw_on_early_termination and active < group.size():
            summed(group, 0)
            raise terminated(group)
        return active


def terminated(group: ProcessGroup) -> RuntimeError:
    return RuntimeError(
        f"Join: a rank has no more inputs: seen by rank {group.rank()} of {group.size()}, "
        "throw_on_early_termination was asked for"
    )
