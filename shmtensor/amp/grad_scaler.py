"""GradScaler: scales losses, so that 16-bit gradients do not underflow; adapts the scale.

```
 scale(loss).backward()     gradients times s
 unscale_(optimizer)        in place, times 1 / s; checks for infinity and NaN
 step(optimizer)            unscale_ if not done yet; the step, unless there was one
 update()                   s times backoff_factor if there was one; times growth_factor after
                            growth_interval steps in a row without
```

For losses on the CPU the scale is a Python float with float32's precision. For losses on a GPU it
is a number in the GPU's memory, as are the count of good steps and whether there was an infinity or
NaN. Then only `get_scale`, `state_dict` and the `step` of an optimizer that does not take
`found_inf` (its `_step_supports_amp_scaling` is not true) wait for the GPU, and read one number.
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import Any, overload

import numpy as np

from .. import cupy_runtime, dtypes, native
from ..autograd import no_grad, wrap
from ..autograd.dispatch.explain_error import is_writable
from ..device import CPU, Device
from ..tensor import Tensor
from ..tensor.from_data import tensor
from ..tensor.torch_private_names import Unsupported
from .scale import DeviceScale, HostScale, as_float32, combined, device_of_flags, kernels, scale_for

__all__ = ["GradScaler"]


class Stage(Enum):
    """The stage of an optimizer since the last `update`."""

    UNSCALED = 1
    STEPPED = 2


class GradScaler:
    """Scales losses, unscales gradients, and skips steps with infinite or NaN gradients.

    Parameters
    ----------
    device : str, optional
        "cpu", or "cuda", which warns and does nothing without a GPU.
    init_scale : float, optional
        The first scale.
    growth_factor : float, optional
        Multiplies the scale after growth_interval good steps; more than 1.
    backoff_factor : float, optional
        Multiplies the scale after a step with infinity or NaN; less than 1.
    growth_interval : int, optional
        The number of good steps in a row.
    enabled : bool, optional
        False: `step` is the optimizer's, and the other methods do nothing.

    Raises
    ------
    AssertionError
        A factor is out of its range.

    See Also
    --------
    autocast

    Examples
    --------
    >>> model = nn.Linear(2, 1)
    >>> optimizer = st.optim.SGD(model.parameters(), 0.1)
    >>> scaler = st.amp.GradScaler("cpu", init_scale=128.0)
    >>> with st.autocast("cpu", st.float16):
    ...     loss = model(st.ones(4, 2)).square().mean()
    >>> scaler.scale(loss).backward()
    >>> result = scaler.step(optimizer)
    >>> scaler.update()
    >>> scaler.get_scale()
    128.0
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
        self._init_scale = init_scale
        self._init_growth_tracker = 0
        self._current: HostScale | DeviceScale | None = None  # of the first loss's device
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._stages: dict[int, Stage] = {}  # by the id of an optimizer
        # whether its gradients had an infinity or NaN: a flag for each device
        self._found: dict[int, list[Any]] = {}

    # ---------------------------------------------------------------- a training step

    @overload
    def scale(self, outputs: Tensor) -> Tensor: ...
    @overload
    def scale(self, outputs: Iterable[Any]) -> Any: ...
    def scale(self, outputs: Any) -> Any:
        """Multiplies a tensor, or each tensor in a nested iterable, by the scale.

        Parameters
        ----------
        outputs : Tensor or iterable
            As a rule the loss.

        Returns
        -------
        Tensor or iterable
            Of the same structure.

        Raises
        ------
        ValueError
            Another kind of value.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._current is None:
                self._current = scale_for(
                    outputs.device, self._init_scale, self._init_growth_tracker
                )
            return outputs * self._current.on(outputs.device)
        if isinstance(outputs, Iterable):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled
        raise ValueError(
            f"GradScaler.scale: a tensor or an iterable of tensors is needed: {outputs!r}"
        )

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of an optimizer's parameters by the scale, in place. Call it
        before clipping or reading them; otherwise `step` calls it.

        Parameters
        ----------
        optimizer : Optimizer
            Whose parameters they are.

        Raises
        ------
        RuntimeError
            It was called since the last `update`, or after `step`; a gradient is expanded or
            read-only.
        ValueError
            A gradient is float16; parameters stay float32 under autocast.

        Notes
        -----
        Copies: none.
        """
        if not self._enabled:
            return
        scale = self._scale_for("unscale_")
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
            self._found[id(optimizer)] = unscale(gradients, scale)
        self._stages[id(optimizer)] = Stage.UNSCALED

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls `optimizer.step(*args, **kwargs)`, unless a gradient is infinite or NaN.

        An optimizer whose `_step_supports_amp_scaling` is true is called in any case: it changes
        nothing if its attribute `found_inf`, a tensor, is not 0, and divides gradients by its
        attribute `grad_scale` if that is not None. Adam, AdamW and SGD do so for parameters on
        GPUs, unless `fused=False`.

        Parameters
        ----------
        optimizer : Optimizer
            What is stepped.
        *args, **kwargs
            For its `step`; no closure.

        Returns
        -------
        any
            The optimizer's result; None if the step is skipped.

        Raises
        ------
        RuntimeError
            A closure is given, or it was called since the last `update`.
        AssertionError
            There are no gradients, or `scale` was never called.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("GradScaler.step: closures are not supported")
        self._scale_for("step")
        stage = self._stages.get(id(optimizer))
        if stage is Stage.STEPPED:
            raise RuntimeError("GradScaler: step() has already been called since the last update()")
        takes_found_inf = step_takes_found_inf(optimizer)
        is_scaled = stage is None and takes_found_inf and has_scaled_halves(optimizer)
        if is_scaled:
            self._found[id(optimizer)] = check(gradients_of(optimizer, True))
        elif stage is None:
            self.unscale_(optimizer)
        if id(optimizer) not in self._found:
            raise AssertionError("GradScaler.step: No inf checks were recorded for this optimizer.")
        if takes_found_inf:
            result = self._step_with_found_inf(optimizer, is_scaled, args, kwargs)
        else:
            flags = self._found[id(optimizer)]
            found = any(map(bool, flags))  # reads those of GPUs
            self._found[id(optimizer)] = [found]
            if found:
                note_skipped_step(optimizer)
            result = None if found else optimizer.step(*args, **kwargs)
        self._stages[id(optimizer)] = Stage.STEPPED
        return result

    def _step_with_found_inf(
        self, optimizer: Any, is_scaled: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The step of an optimizer that skips it by itself."""
        scale, flags = self._scale_for("step"), self._found[id(optimizer)]
        device = device_of_flags(flags)
        found = combined(flags, device)
        if device is CPU:
            found = np.array(found, np.float32)
        grad_scale = getattr(optimizer, "grad_scale", None)
        if is_scaled:
            factor = scale.on(device)
            grad_scale = factor if grad_scale is None else factor * grad_scale
        optimizer.grad_scale, optimizer.found_inf = grad_scale, wrap(found.reshape(()))
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            del optimizer.grad_scale, optimizer.found_inf

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Updates the scale at the end of a step.

        Parameters
        ----------
        new_scale : float or Tensor, optional
            The new scale, a number or a tensor of one element.

        Raises
        ------
        AssertionError
            No optimizer was stepped or unscaled since the last update.
        """
        if not self._enabled:
            return
        scale = self._scale_for("update")
        if new_scale is not None:
            if isinstance(new_scale, Tensor) and (
                new_scale.numel() != 1 or new_scale.requires_grad
            ):
                raise AssertionError(
                    f"GradScaler.update: new_scale must have one element and not require grad: "
                    f"{new_scale}"
                )
            scale.set(new_scale)
        elif not self._found:
            raise AssertionError("GradScaler.update: No inf checks were recorded prior to update.")
        else:
            flags = [flag for each in self._found.values() for flag in each]
            scale.update(flags, self._growth_factor, self._backoff_factor, self._growth_interval)
        self._stages.clear()
        self._found.clear()

    def _scale_for(self, where: str) -> HostScale | DeviceScale:
        """The scale, which `scale` has made."""
        if self._current is None:
            raise AssertionError(
                f"GradScaler.{where}: scale() was not called, hint: scaler.scale(loss).backward()"
            )
        return self._current

    def _read(self) -> tuple[float, int]:
        """The scale and the count of good steps."""
        if self._current is None:
            return as_float32(self._init_scale), self._init_growth_tracker
        return self._current.read()

    # PyTorch's private names, for programs that read or assign them.

    @property
    def _scale(self) -> Any:
        if self._current is None:
            return None
        scale = self._current.on(self._current.device)
        return scale if scale.is_cuda else scale.share(readonly=True)  # a write would be lost

    @_scale.setter
    def _scale(self, value: Any) -> None:
        if self._current is None:
            self._init_scale = self._init_scale if value is None else float(value)
        elif value is None:
            self._current = None
        else:
            self._current.set(value)

    @property
    def _growth_tracker(self) -> Any:
        return None if self._current is None else tensor(self._read()[1], dtype=dtypes.int32)

    @_growth_tracker.setter
    def _growth_tracker(self, value: Any) -> None:
        if self._current is None:
            self._init_growth_tracker = 0 if value is None else int(value)
        else:
            self._current.set_tracker(0 if value is None else int(value))

    _per_optimizer_states = Unsupported("unscale_(optimizer), and update(new_scale)")

    # ---------------------------------------------------------------- settings and state

    def __repr__(self) -> str:
        if not self.is_enabled():
            return "GradScaler(enabled=False)"
        return f"GradScaler(scale={self.get_scale()}, growth_factor={self._growth_factor})"

    def get_scale(self) -> float:
        """The scale; 1.0 if not enabled. Waits for the GPU if the scale is there."""
        return self._read()[0] if self._enabled else 1.0

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
        if not enabled. After `update`. Waits for the GPU if the scale is there.
        """
        if not self._enabled:
            return {}
        scale, tracker = self._read()
        return {
            "scale": scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": tracker,
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
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._current is not None:
            self._current.set(self._init_scale)
            self._current.set_tracker(self._init_growth_tracker)

    def __getstate__(self) -> dict[str, Any]:
        if self._stages:
            raise AssertionError(
                "GradScaler: it may be pickled at the beginning of a step or after update() only"
            )
        scale, tracker = self._read() if self._enabled else (1.0, 0)
        numbers = {"_init_scale": scale, "_init_growth_tracker": tracker, "_current": None}
        return {**self.__dict__, **numbers}


def step_takes_found_inf(optimizer: Any) -> bool:
    """Whether the optimizer itself has a true `_step_supports_amp_scaling`. That of an optimizer
    which it wraps, and which `__getattr__` gives, says nothing: `found_inf` would be set in the
    wrapper alone.
    """
    name = "_step_supports_amp_scaling"
    has_one = name in getattr(optimizer, "__dict__", {}) or hasattr(type(optimizer), name)
    return has_one and bool(getattr(optimizer, name))


def note_skipped_step(optimizer: Any) -> None:
    """Tells schedules that the program called `step`: they warn if it did not."""
    while optimizer is not None:
        if "_opt_called" in getattr(optimizer, "__dict__", {}):
            optimizer._opt_called = True
        optimizer = getattr(optimizer, "__dict__", {}).get("optimizer")  # of a wrapper


def has_scaled_halves(optimizer: Any) -> bool:
    """Whether gradients are float16, and the optimizer is a fused one, which takes them scaled."""
    groups = optimizer.param_groups
    return all(group.get("fused", True) for group in groups) and any(
        p.grad is not None and p.grad.dtype == dtypes.float16
        for group in groups
        for p in group["params"]
    )


def gradients_of(optimizer: Any, takes_halves: bool = False) -> list[Any]:
    """The gradients of an optimizer's parameters.

    Raises: ValueError, a gradient is float16.
    """
    gradients = []
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.grad is None:
                continue
            if p.grad.dtype == dtypes.float16 and not takes_halves:
                raise ValueError("GradScaler: Attempting to unscale FP16 gradients.")
            gradients.append(p.grad._values() if p.grad.is_sparse else p.grad)
    return gradients


def by_device(gradients: list[Any]) -> tuple[list[Any], list[list[Any]]]:
    """The gradients on the CPU, and those of each GPU."""
    near = [g for g in gradients if isinstance(g.array, np.ndarray)]
    if len(near) == len(gradients):
        return near, []
    far: defaultdict[Device, list[Any]] = defaultdict(list)
    for g in gradients:
        if not isinstance(g.array, np.ndarray):
            far[g.device].append(g)
    return near, list(far.values())


def unscale(gradients: list[Any], scale: HostScale | DeviceScale) -> list[Any]:
    """Multiplies gradients by the inverse scale, in place.

    Copies: none.
    Returns: a flag for the gradients of each device.
    Raises: RuntimeError, a gradient is expanded or read-only.
    """
    near, far = by_device(gradients)
    for on_one in far:
        for g in on_one:
            if not is_writable(g.array):
                raise RuntimeError(
                    f"mul_: the memory cannot be written: shape {g.array.shape}, it is expanded or "
                    "read-only; write to a clone()"
                )
    flags: list[Any] = []
    if near:
        inverse = scale.inverse()
        with no_grad():
            flags.append(not all(map(is_finite, near)))
            for g in near:
                g.mul_(inverse)
    for on_one in far:
        factor = scale.inverse_on(on_one[0].device)
        flags.append(kernels().unscale([g.array for g in on_one], factor))
        for g in on_one:
            native.wrote(g)
    return flags


def check(gradients: list[Any]) -> list[Any]:
    """A flag for the gradients of each device, which are not changed. Copies: none."""
    near, far = by_device(gradients)
    flags: list[Any] = [not all(map(is_finite, near))] if near else []
    return flags + [kernels().check([g.array for g in on_one]) for on_one in far]


def is_finite(g: Tensor) -> bool:
    """Whether no element is infinite or NaN.

    Copies: usually none. A sum with infinity or NaN is not finite. If the sum of finite elements
    overflows, it checks the elements one by one.
    """
    return math.isfinite(float(g.sum())) or bool(g.isfinite().all())
