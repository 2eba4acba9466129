"""Losses times a factor, so that gradients in 16 bits do not vanish; the factor finds itself.

```
 scale(loss).backward()     gradients times s
 unscale_(optimizer)        in place, times 1 / s; is one of them infinite or NaN?
 step(optimizer)            unscale_ if that was not done; the step, or none if one was
 update()                   s times backoff_factor if one was; times growth_factor after
                            growth_interval steps in a row without
```

The factor is a float of 32 bits and no tensor: on the CPU there is nothing to wait for.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from enum import Enum
from typing import Any

import numpy as np

from .. import accelerator, dtypes
from ..autograd import no_grad
from ..tensor import Tensor

__all__ = ["GradScaler"]

LARGEST = float(np.finfo(np.float32).max)


class Stage(Enum):
    """How far an optimizer is since the last `update`."""

    UNSCALED = 1
    STEPPED = 2


class GradScaler:
    """Scales losses, unscales gradients, leaves out steps with infinite ones.

    Args:
        device: "cpu", or "cuda", which warns and does nothing where there is none.
        init_scale: the first factor.
        growth_factor: times the factor after growth_interval good steps; more than 1.
        backoff_factor: times the factor after a step with an infinite gradient or NaN; less than 1.
        growth_interval: how many good steps in a row.
        enabled: False: `step` is the optimizer's own, and all else does nothing.

    Example:
        >>> import shmtensor as st
        >>> from shmtensor import nn, optim
        >>> model = nn.Linear(2, 1)
        >>> optimizer, scaler = optim.SGD(model.parameters(), 0.1), st.amp.GradScaler("cpu")
        >>> with st.autocast("cpu", st.float16):
        ...     loss = model(st.ones(4, 2)).square().mean()
        >>> scaler.scale(loss).backward()
        >>> scaler.step(optimizer)
        >>> scaler.update()
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda" and not accelerator.is_available():
            warnings.warn(
                "GradScaler: CUDA is not available: disabling it, hint: GradScaler('cpu')",
                UserWarning,
                stacklevel=2,
            )
            self._enabled = False
        if self._enabled and growth_factor <= 1.0:
            raise AssertionError(f"GradScaler: growth_factor must be more than 1: {growth_factor}")
        if self._enabled and backoff_factor >= 1.0:
            raise AssertionError(
                f"GradScaler: backoff_factor must be less than 1: {backoff_factor}"
            )
        self._scale = rounded(init_scale)
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._growth_tracker = 0
        self._begun = False  # scale() was called
        self._stages: dict[int, Stage] = {}  # by the id of an optimizer
        self._found: dict[int, bool] = {}  # whether its gradients had an infinity or NaN

    # ---------------------------------------------------------------- a training step

    def scale(self, outputs: Any) -> Any:
        """A tensor times the factor; or a list, tuple or other iterable of them, nested.

        Raises: ValueError, something else is in there.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            self._begun = True
            return outputs * self._scale
        if isinstance(outputs, Iterable):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled
        raise ValueError(
            f"GradScaler.scale: a tensor or an iterable of tensors is needed: {outputs!r}"
        )

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of an optimizer's parameters by the factor, in place: before they
        are clipped or looked at; otherwise `step` does it.

        Copies: none.
        Raises:
            RuntimeError: a second time since the last `update`, or after `step`.
            ValueError: a gradient of float16: parameters stay float32 under autocast.
        """
        if not self._enabled:
            return
        self._insist_on_scale("unscale_")
        stage = self._stages.get(id(optimizer))
        if stage is Stage.UNSCALED:
            raise RuntimeError(
                "GradScaler: unscale_() has already been called on this optimizer since the last "
                "update()"
            )
        if stage is Stage.STEPPED:
            raise RuntimeError("GradScaler: unscale_() is being called after step()")
        gradients = gradients_of(optimizer)
        inverse = rounded(1 / self._scale)
        with no_grad():
            found = [not is_finite(g) for g in gradients]
            for g in gradients:
                g.mul_(inverse)
        if gradients:
            self._found[id(optimizer)] = any(found)
        self._stages[id(optimizer)] = Stage.UNSCALED

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step(*args, **kwargs)`, unless a gradient is infinite or NaN.

        Returns: what the optimizer does; None if the step is left out.
        Raises:
            RuntimeError: a closure is given; a second time since the last `update`.
            AssertionError: no gradient is there, or `scale` was never called.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("GradScaler.step: closures are not supported")
        self._insist_on_scale("step")
        if self._stages.get(id(optimizer)) is Stage.STEPPED:
            raise RuntimeError("GradScaler: step() has already been called since the last update()")
        if id(optimizer) not in self._stages:
            self.unscale_(optimizer)
        if id(optimizer) not in self._found:
            raise AssertionError("GradScaler.step: No inf checks were recorded for this optimizer.")
        result = None if self._found[id(optimizer)] else optimizer.step(*args, **kwargs)
        self._stages[id(optimizer)] = Stage.STEPPED
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """The factor for the next step; at the end of each.

        Args:
            new_scale: this one, a number or a tensor of one element.

        Raises: AssertionError, no optimizer was stepped or unscaled since the last one.
        """
        if not self._enabled:
            return
        self._insist_on_scale("update")
        if new_scale is not None:
            if isinstance(new_scale, Tensor) and (
                new_scale.numel() != 1 or new_scale.requires_grad
            ):
                raise AssertionError(
                    f"GradScaler.update: new_scale must have one element and not require grad: "
                    f"{new_scale}"
                )
            self._scale = rounded(float(new_scale))
        elif not self._found:
            raise AssertionError("GradScaler.update: No inf checks were recorded prior to update.")
        elif any(self._found.values()):
            self._scale = rounded(self._scale * self._backoff_factor)
            self._growth_tracker = 0
        else:
            self._grow()
        self._stages.clear()
        self._found.clear()

    def _grow(self) -> None:
        self._growth_tracker += 1
        if self._growth_tracker == self._growth_interval:
            grown = self._scale * self._growth_factor
            if grown <= LARGEST:
                self._scale = rounded(grown)
            self._growth_tracker = 0

    def _insist_on_scale(self, where: str) -> None:
        if not self._begun:
            raise AssertionError(
                f"GradScaler.{where}: scale() was not called, hint: scaler.scale(loss).backward()"
            )

    # ---------------------------------------------------------------- settings and state

    def get_scale(self) -> float:
        """The factor; 1.0 if not enabled."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """What the factor is multiplied by after good steps."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets it."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the factor is multiplied by after a step that was left out."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets it."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many good steps in a row the factor grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets it."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether it does anything."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """ "scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"; empty
        if not enabled. After `update`.
        """
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Puts it back; nothing if not enabled.

        Raises: RuntimeError, it is empty.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "GradScaler.load_state_dict: the state is empty: saved from one that was not "
                "enabled?"
            )
        self._scale = rounded(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]

    def __getstate__(self) -> dict[str, Any]:
        if self._stages:
            raise AssertionError(
                "GradScaler: it may be pickled at the beginning of a step or after update() only"
            )
        return self.__dict__.copy()


def rounded(scale: float) -> float:
    """As a float of 32 bits."""
    return float(np.float32(scale))


def gradients_of(optimizer: Any) -> list[Any]:
    """The gradients of an optimizer's parameters.

    Raises: ValueError, one is of float16.
    """
    found = []
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.grad is None:
                continue
            if p.grad.dtype is dtypes.float16:
                raise ValueError("GradScaler: Attempting to unscale FP16 gradients.")
            found.append(p.grad._values() if p.grad.is_sparse else p.grad)
    return found


def is_finite(g: Tensor) -> bool:
    """Whether no element is infinite or NaN.

    Copies: none as a rule. A sum with one of those is none that is finite; where the sum of finite
    elements overflows, the elements are looked at one by one.
    """
    return math.isfinite(float(g.sum())) or bool(g.isfinite().all())
