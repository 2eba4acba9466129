"""PostLocalSGDOptimizer: a local optimizer that calls a model averager after each step."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ...optim import Optimizer
from ..algorithms.model_averaging.averagers import ModelAverager

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """Post-local SGD (Lin, Stich, Patel, Jaggi 2018): each rank updates by itself, and now and
    then the averager averages the parameters.

    Args:
        optim: the local optimizer, whose groups and state this optimizer has.
        averager: for example a PeriodicModelAverager.
    """

    def __init__(self, optim: Optimizer, averager: ModelAverager) -> None:
        self.optim = optim
        self.averager = averager
        self.defaults = optim.defaults
        self._make_hooks()

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The local optimizer's."""
        return self.optim.state

    @property
    def param_groups(self) -> Any:  # type: ignore[override]
        """The local optimizer's."""
        return self.optim.param_groups

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> dict[str, Any]:
        """The local optimizer's state_dict, and the averager's step as "step"."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads both. Without a "step" it warns, and the averager begins at step 0."""
        self.optim.load_state_dict({k: v for k, v in state_dict.items() if k != "step"})
        if "step" not in state_dict:
            warnings.warn(
                "PostLocalSGDOptimizer.load_state_dict: there is no step of the averager, which "
                f"begins at 0: {sorted(state_dict)}",
                stacklevel=2,
            )
        self.averager.step = state_dict.get("step", 0)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """The local optimizer's step, then the averager's."""
        loss = self.optim.step(closure)
        self.averager.average_parameters(self.optim.param_groups)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """The local optimizer's."""
        self.optim.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds to the local optimizer."""
        self.optim.add_param_group(param_group)
