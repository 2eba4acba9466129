"""GradScaler: scales losses, so that 16-bit gradients do not underflow; adapts the scale.

```
 scale(loss).backward()     gradients times s
 unscale_(optimizer)        in place, times 1 / s; checks for infinity and NaN
 step(optimizer)            unscale_ if not done yet; the step, unless there was one
 update()                   s times backoff_factor if there was one; times growth_factor after
                            growth_interval steps in a row without
```

The scale is a Python float with float32's precision, and a tensor on each device whose outputs it
multiplied. On a GPU the check is queued with the multiplication, and `step` waits for its result,
one number: so the scale is known in the host's memory without another wait.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import Any

import numpy as np

from .. import cupy_runtime, dtypes, native
from ..autograd import no_grad
from ..autograd.dispatch.explain_error import is_writable
from ..device import Device
from ..functions import full
from ..tensor import Tensor

__all__ = ["GradScaler"]

LARGEST = float(np.finfo(np.float32).max)


class Stage(Enum):
    """The stage of an optimizer since the last `update`."""

    UNSCALED = 1
    STEPPED = 2


class GradScaler:
    """Scales losses, unscales gradients, and skips steps with infinite or NaN gradients.

    Args:
        device: "cpu", or "cuda", which warns and does nothing without a GPU.
        init_scale: the initial scale.
        growth_factor: multiplies the scale after growth_interval good steps; more than 1.
        backoff_factor: multiplies the scale after a step with infinity or NaN; less than 1.
        growth_interval: the number of good steps in a row.
        enabled: False: `step` is the optimizer's, and the other methods do nothing.

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
        if enabled and device == "cuda" and not cupy_runtime.is_available():
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
        self._scale = as_float32(init_scale)
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._growth_tracker = 0
        self._begun = False  # scale() was called
        self._stages: dict[int, Stage] = {}  # by the id of an optimizer
        # whether its gradients had an infinity or NaN: a flag for each device
        self._found: dict[int, list[Any]] = {}
        self._scales: dict[Device, Any] = {}  # the scale as tensors

    # ---------------------------------------------------------------- a training step

    def scale(self, outputs: Any) -> Any:
        """Multiplies a tensor, or each tensor in a nested iterable, by the scale.

        Raises: ValueError, another kind of value.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            self._begun = True
            return outputs * self._scale_on(outputs.device)
        if isinstance(outputs, Iterable):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled
        raise ValueError(
            f"GradScaler.scale: a tensor or an iterable of tensors is needed: {outputs!r}"
        )

    def _scale_on(self, device: Device) -> Any:
        """The scale as a tensor on a device."""
        scale = self._scales.get(device)
        if scale is None:
            scale = full((), self._scale, dtype=dtypes.float32, device=device)
            self._scales[device] = scale
        return scale

    def _set_scale(self, scale: float) -> None:
        self._scale = as_float32(scale)
        self._scales.clear()

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of an optimizer's parameters by the scale, in place. Call it before
        clipping or reading them; otherwise `step` calls it.

        Copies: none.
        Raises:
            RuntimeError: it was called since the last `update`, or after `step`; a gradient is
                expanded or read-only.
            ValueError: a gradient is float16; parameters stay float32 under autocast.
        """
        if not self._enabled:
            return
        self._check_scaled("unscale_")
        stage = self._stages.get(id(optimizer))
        if stage is Stage.UNSCALED:
            raise RuntimeError(
                "GradScaler: unscale_() has already been called on this optimizer since the last "
                "update()"
            )
        if stage is Stage.STEPPED:
            raise RuntimeError("GradScaler: unscale_() is being called after step()")
        gradients = gradients_of(optimizer)
        if gradients:
            self._found[id(optimizer)] = unscale(gradients, as_float32(1 / self._scale))
        self._stages[id(optimizer)] = Stage.UNSCALED

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step(*args, **kwargs)`, unless a gradient is infinite or NaN.

        Returns: the optimizer's result; None if the step is skipped.
        Raises:
            RuntimeError: a closure is given, or it was called since the last `update`.
            AssertionError: there are no gradients, or `scale` was never called.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("GradScaler.step: closures are not supported")
        self._check_scaled("step")
        if self._stages.get(id(optimizer)) is Stage.STEPPED:
            raise RuntimeError("GradScaler: step() has already been called since the last update()")
        if id(optimizer) not in self._stages:
            self.unscale_(optimizer)
        if id(optimizer) not in self._found:
            raise AssertionError("GradScaler.step: No inf checks were recorded for this optimizer.")
        found = self._found[id(optimizer)] = [any(map(bool, self._found[id(optimizer)]))]
        result = None if found[0] else optimizer.step(*args, **kwargs)
        self._stages[id(optimizer)] = Stage.STEPPED
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Updates the scale at the end of a step.

        Args:
            new_scale: the new scale, a number or a tensor of one element.

        Raises: AssertionError, no optimizer was stepped or unscaled since the last update.
        """
        if not self._enabled:
            return
        self._check_scaled("update")
        if new_scale is not None:
            if isinstance(new_scale, Tensor) and (
                new_scale.numel() != 1 or new_scale.requires_grad
            ):
                raise AssertionError(
                    f"GradScaler.update: new_scale must have one element and not require grad: "
                    f"{new_scale}"
                )
            self._set_scale(float(new_scale))
        elif not self._found:
            raise AssertionError("GradScaler.update: No inf checks were recorded prior to update.")
        elif any(bool(flag) for flags in self._found.values() for flag in flags):
            self._set_scale(self._scale * self._backoff_factor)
            self._growth_tracker = 0
        else:
            self._grow()
        self._stages.clear()
        self._found.clear()

    def _grow(self) -> None:
        self._growth_tracker += 1
        if self._growth_tracker == self._growth_interval:
            new_scale = self._scale * self._growth_factor
            if new_scale <= LARGEST:
                self._set_scale(new_scale)
            self._growth_tracker = 0

    def _check_scaled(self, where: str) -> None:
        if not self._begun:
            raise AssertionError(
                f"GradScaler.{where}: scale() was not called, hint: scaler.scale(loss).backward()"
            )

    # ---------------------------------------------------------------- settings and state

    def get_scale(self) -> float:
        """The scale; 1.0 if not enabled."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """The factor by which the scale grows after good steps."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets `growth_factor`."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """The factor by which the scale shrinks after a skipped step."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets `backoff_factor`."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """The number of good steps in a row after which the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets `growth_interval`."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether scaling is enabled."""
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
        """Restores the state, if enabled.

        Raises: RuntimeError, it is empty.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "GradScaler.load_state_dict: the state is empty: saved from one that was not "
                "enabled?"
            )
        self._set_scale(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]

    def __getstate__(self) -> dict[str, Any]:
        if self._stages:
            raise AssertionError(
                "GradScaler: it may be pickled at the beginning of a step or after update() only"
            )
        return {**self.__dict__, "_scales": {}}


def as_float32(scale: float) -> float:
    """Rounds to float32."""
    return float(np.float32(scale))


def gradients_of(optimizer: Any) -> list[Any]:
    """The gradients of an optimizer's parameters.

    Raises: ValueError, a gradient is float16.
    """
    gradients = []
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.grad is None:
                continue
            if p.grad.dtype is dtypes.float16:
                raise ValueError("GradScaler: Attempting to unscale FP16 gradients.")
            gradients.append(p.grad._values() if p.grad.is_sparse else p.grad)
    return gradients


def unscale(gradients: list[Any], inverse: float) -> list[Any]:
    """Multiplies gradients by the inverse scale, in place.

    Copies: none.
    Returns: for the gradients of each device, whether one had an infinity or NaN; of a GPU an array
        of one element, which is computed later.
    Raises: RuntimeError, a gradient is expanded or read-only.
    """
    flags: list[Any] = []
    far = defaultdict(list)
    for g in gradients:
        if not isinstance(g.array, np.ndarray):
            if not is_writable(g.array):
                raise RuntimeError(
                    f"mul_: the memory cannot be written: shape {g.array.shape} and {inverse}, it "
                    "is expanded or read-only; write to a clone()"
                )
            far[g.device].append(g)
    near = [g for g in gradients if isinstance(g.array, np.ndarray)]
    if near:
        with no_grad():
            flags.append(not all(map(is_finite, near)))
            for g in near:
                g.mul_(inverse)
    for on_one in far.values():
        on_device = importlib.import_module("shmtensor.ops.cuda.unscale")
        flags.append(on_device.unscale([g.array for g in on_one], inverse))
        for g in on_one:
            native.wrote(g)
    return flags


def is_finite(g: Tensor) -> bool:
    """Whether no element is infinite or NaN.

    Copies: usually none. A sum with infinity or NaN is not finite. If the sum of finite elements
    overflows, it checks the elements one by one.
    """
    return math.isfinite(float(g.sum())) or bool(g.isfinite().all())
