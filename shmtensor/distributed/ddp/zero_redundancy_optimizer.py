"""ZeroRedundancyOptimizer: each rank keeps the optimizer state of a part of the parameters
(Rajbhandari et al. 2020, stage 1).

```
parameters            rank 0: W1    rank 1: W2, b1, b2     the largest first, to the smallest part
step                  each rank updates its part, then sends it to all
```
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ...device import Device
from ...optim import Optimizer
from ..collectives.object_collectives import gather_object
from ..group.process_group import ProcessGroup
from ..group.world import group_of
from .join import Join, Joinable, JoinHook
from .replica import broadcast


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """An optimizer whose state is distributed over the ranks.

    Args:
        params: as for any optimizer, the same on all ranks.
        optimizer_class: the class that updates a rank's part, for example `optim.Adam`.
        process_group: the default one if None.
        parameters_as_bucket_view, overlap_with_ddp: accepted; they change nothing here.
        defaults: hyperparameters of `optimizer_class`.

    Copies: each parameter once a step, from its owner to every other rank.
    """

    def __init__(
        self,
        params: Any,
        optimizer_class: type[Optimizer],
        process_group: ProcessGroup | None = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        Joinable.__init__(self)
        self.process_group = group_of("ZeroRedundancyOptimizer", process_group)
        self._class = optimizer_class
        self._defaults = defaults
        self._full_state: dict[int, Any] | None = None
        Optimizer.__init__(self, params, dict(defaults))
        self._partition()

    def _partition(self) -> None:
        group = self.process_group
        parameters = [p for each in self.param_groups for p in each["params"]]
        part_sizes = [0] * group.size()
        self._owner: dict[int, int] = {}
        for p in sorted(parameters, key=lambda p: -p.array.size):  # stable: the same on all ranks
            owner = part_sizes.index(min(part_sizes))
            self._owner[id(p)] = owner
            part_sizes[owner] += p.array.size
        parts = []
        for each in self.param_groups:
            owned = [p for p in each["params"] if self._owner[id(p)] == group.rank()]
            parts.append({**{k: v for k, v in each.items() if k != "params"}, "params": owned})
        self._parts = [part for part in parts if part["params"]]
        self._group_indices = [i for i, part in enumerate(parts) if part["params"]]
        self.optim = self._class(self._parts, **self._defaults) if self._parts else None

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters and partitions all of them again, which resets the state."""
        Optimizer.add_param_group(self, param_group)
        if hasattr(self, "optim"):
            self._partition()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates this rank's part, and sends it to the others. All ranks call it."""
        Join.notify_join_context(self)
        loss = closure() if closure is not None else None
        if self.optim is not None:
            for at, part in zip(self._group_indices, self.optim.param_groups, strict=True):
                for key, value in self.param_groups[at].items():  # a scheduler changes these
                    if key != "params":
                        part[key] = value
            self.optim.step()
        for each in self.param_groups:
            for p in each["params"]:
                broadcast(self.process_group, p.array, self._owner[id(p)])
        return loss

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Gathers all ranks' state on rank `to`, for `state_dict` there. All ranks call it."""
        group = self.process_group
        local_state = None if self.optim is None else self.optim.state_dict()["state"]
        parts: list[Any] | None = [None] * group.size() if group.rank() == to else None
        gather_object(local_state, parts, group=group, group_dst=to)
        if parts is None:
            self._full_state = None
            return
        state, number = {}, 0
        positions = [0] * group.size()
        for each in self.param_groups:
            for p in each["params"]:
                owner = self._owner[id(p)]
                param_state = (parts[owner] or {}).get(positions[owner])
                positions[owner] += 1
                if param_state is not None:
                    state[number] = copy.deepcopy(param_state)
                number += 1
        self._full_state = state

    def state_dict(self) -> dict[str, Any]:
        """The full state, in the format of every optimizer, on the rank that gathered it.

        Raises:
            RuntimeError: consolidate_state_dict was not called, or for another rank.
        """
        if self._full_state is None:
            raise RuntimeError(
                "ZeroRedundancyOptimizer.state_dict: the state is not on this rank: call "
                f"consolidate_state_dict(to={self.process_group.rank()}) on all ranks"
            )
        result = Optimizer.state_dict(self)
        result["state"] = self._full_state
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads this rank's part of a full state. All ranks need the full dictionary."""
        rank, number, position, local_state = self.process_group.rank(), 0, 0, {}
        for each, theirs in zip(self.param_groups, state_dict["param_groups"], strict=True):
            each.update({k: v for k, v in theirs.items() if k != "params"})
            for p in each["params"]:
                if self._owner[id(p)] == rank:
                    if number in state_dict["state"]:
                        local_state[position] = state_dict["state"][number]
                    position += 1
                number += 1
        if self.optim is not None:
            groups = self.optim.state_dict()["param_groups"]
            self.optim.load_state_dict({"state": local_state, "param_groups": groups})

    @property
    def join_device(self) -> Device:
        """The device of the first parameter."""
        device: Device = self.param_groups[0]["params"][0].device
        return device

    @property
    def join_process_group(self) -> ProcessGroup:
        """The group of the ranks."""
        return self.process_group

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """A joined rank goes on updating its part: the gradients come from the other ranks."""
        return ZeroJoinHook(self)


class ZeroJoinHook(JoinHook):
    """The hook of a joined ZeroRedundancyOptimizer."""

    def __init__(self, zero: ZeroRedundancyOptimizer) -> None:
        self.zero = zero

    def main_hook(self) -> None:
        self.zero.step()
