"""A step on a GPU that may be skipped: `grad_scale` and `found_inf` stay in the GPU's memory.

See Note [Steps that may be skipped] in device_flat.py.
"""

from __future__ import annotations

import functools
import importlib
from types import SimpleNamespace
from typing import Any

from ...cuda_arrays import array_module, move_array
from ...device import Device
from ...dtypes import HALVES, float32
from ...profiler import profiling
from .. import reference_updates


class Scaling:
    """A step's `grad_scale` and `found_inf`, on each GPU that needs them."""

    def __init__(self, scale: Any, found: Any) -> None:
        self.scale = scale
        self.found = found
        self.arrays: dict[tuple[str, Device], Any] = {}

    def scale_on(self, device: Device) -> Any:
        """What gradients are divided by: an array of one number on a GPU, or None."""
        return self._on("scale", self.scale, device)

    def found_on(self, device: Device) -> Any:
        """Whether to skip the step, likewise."""
        return self._on("found", self.found, device)

    def _on(self, name: str, tensor: Any, device: Device) -> Any:
        if tensor is None:
            return None
        array = self.arrays.get((name, device))
        if array is None:
            array = move_array(tensor.detach().to(float32).array, device).reshape(1)
            self.arrays[name, device] = array
        return array


NO_SCALING = Scaling(None, None)


@functools.cache
def device_rules() -> Any:
    """The rules of reference_updates.py for arrays on GPUs."""
    update = importlib.import_module("shmtensor.ops.cuda.update_rules").update
    rules = {
        name: functools.partial(recorded, update, rule, f"_fused_{name.removesuffix('_')}_")
        for name, rule in RULES.items()
    }
    return SimpleNamespace(**rules)


def recorded(update: Any, rule: Any, name: str, *operands: Any, **scaling: Any) -> Any:
    """A rule's step; in a profile it is an op, whose name is PyTorch's."""
    if profiling.on:
        return profiling.call_op(name, update, rule, *operands, **scaling)
    return update(rule, *operands, **scaling)


RULES = {k: v for k, v in vars(reference_updates).items() if isinstance(v, reference_updates.Rule)}


def update_on_device(
    rule: str,
    arrays: tuple[Any, Any, list[Any]],
    part: tuple[int, int],
    arguments: tuple[Any, ...],
    scaling: dict[str, Any],
) -> None:
    """Applies a rule to a part of a flat, by its kernel.

    Args:
        arrays: the parameter, its gradient, and the state that the rule takes (None: not used).
        part: the first element and the end.
        scaling: grad_scale and found_inf, arrays of one number, or None.

    Copies: none of flat float32 and float64; all arrays of others, and those with gaps.
    """
    p, g, state = arrays
    if p.ndim == 1 and part != (0, p.shape[0]):
        start, stop = part
        p, g = p[start:stop], g[start:stop]
        state = [None if x is None else x[start:stop] for x in state]
    all_arrays = [p, *state]
    flat: list[Any] = [None if x is None else in_kernel_s_form(x) for x in all_arrays]
    getattr(device_rules(), rule)(flat[0], in_kernel_s_form(g), *flat[1:], *arguments, **scaling)
    for x, copy in zip(all_arrays, flat, strict=True):
        if x is not None and not is_kernel_s_form(x):
            values = copy.view(x.dtype) if x.dtype.kind == "c" else copy
            x[...] = values.reshape(x.shape)


def is_kernel_s_form(x: Any) -> bool:
    """Whether the kernel writes to the array itself."""
    return bool(x.flags.c_contiguous) and x.dtype not in HALVES


def in_kernel_s_form(x: Any) -> Any:
    """The array as a flat one of float32 or float64: a view if that is possible, else a copy."""
    flat = array_module(x).ascontiguousarray(x).reshape(-1)
    if flat.dtype.kind == "c":
        return flat.view(flat.real.dtype)
    return flat.astype(float32) if flat.dtype in HALVES else flat
