"""Copies of a DistributedDataParallel: by deepcopy, pickle and save.

A group belongs to its process: a deepcopy is of the same group, a model that is loaded of the
default group of the process that loads it.
"""

from __future__ import annotations

import copy
from typing import Any

from ..group.process_group import ProcessGroup
from ..group.world import World, is_initialized

__all__ = ["Copyable"]


class Copyable:
    """A base class of DistributedDataParallel, which makes what `DERIVED` names in `_start`.

    Communication hooks and optimizers in backward are not copied.
    """

    DERIVED = frozenset(
        {
            "process_group", "_absent", "_bucket_of", "_buckets", "_counts", "_expected",
            "_followed", "_handles", "_hook", "_hook_state", "_joining", "_named_params", "_next",
            "_optimizers", "_pending", "_trainable", "_unused", "_used_leaves",
        }
    )  # fmt: skip

    process_group: ProcessGroup

    def _start(self, group: ProcessGroup) -> None:
        raise NotImplementedError(f"{type(self).__name__}._start: not defined")

    def _state(self) -> dict[str, Any]:
        return {name: x for name, x in self.__dict__.items() if name not in self.DERIVED}

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        cls = type(self)
        copied = memo[id(self)] = cls.__new__(cls)
        copied.__dict__.update(copy.deepcopy(self._state(), memo))
        copied._start(self.process_group)
        return copied

    def __getstate__(self) -> dict[str, Any]:
        if self.process_group is not World.default:
            raise RuntimeError(
                "DistributedDataParallel: a model of another group than the default one cannot be "
                f"pickled or saved: group {self.process_group.name()!r}, hint: pickle or save its "
                ".module (or its state_dict()), and wrap it again"
            )
        return self._state()

    def __setstate__(self, state: dict[str, Any]) -> None:
        if not is_initialized():
            raise RuntimeError(
                "DistributedDataParallel: a model that was pickled or saved is loaded into the "
                "default group, and there is none: hint: call init_process_group first, or save "
                "its .module (or its state_dict()), and wrap it again"
            )
        group = World.default
        assert group is not None
        self.__dict__.update(state)
        self._start(group)
