"""FlatOptimizer: an optimizer whose step is one kernel call over all parameters of a group."""

from __future__ import annotations

import os
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import native
from ...autograd import no_grad, wrap
from ...cuda_arrays import device_of, move_array
from ...device import META
from ...dtypes import HALVES, float32
from ...profiler import profiling
from ...tensor import Tensor
from ...tensor.share_memory import followers
from .. import reference_updates
from ..arguments import as_numbers, check_implementations
from ..optimizer import Group, Optimizer, name_of
from .device_step import NO_SCALING, Scaling, device_rules, update_on_device
from .differentiable import step_in_graph
from .flat_parameters import Array, Flat
from .parameters_to_move import lay_out
from .state_entry import Changes, Entry, State, is_outside

if TYPE_CHECKING:
    from ...sparse import SparseTensor

# (first element, end, number of the step, scalars) of each run of neighbours
Runs = list[tuple[int, int, int, dict[str, Any]]]


class FlatOptimizer(Optimizer):
    """Base of the optimizers whose rule is elementwise.

    A subclass names its `rule`, a function of reference_updates.py and of the native module, the
    `states` that this rule takes, and its further arguments in `_arguments`. If PyTorch's state has
    no "step", it sets `counts = False`; if it has other numbers per parameter, it names them in
    `scalars`. A subclass that supports sparse gradients defines `_update_sparse`. One whose rules
    on GPUs take `grad_scale` and `found_inf` sets `takes_found_inf`.

    Attributes:
        grad_scale: None, or a tensor of one number by which a step divides gradients.
        found_inf: None, or a tensor of one number; not 0: a step changes nothing. A GradScaler sets
            both during a step.
    """

    grad_scale: Any = None
    found_inf: Any = None
    takes_found_inf = False
    counts = True
    rule = ""
    states: tuple[str, ...] = ()
    scalars: tuple[str, ...] = ()
    _outside: Sequence[Flat] = ()  # the flats whose state is the program's

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        check_implementations(type(self).__name__, defaults)
        self._flats: list[Flat] = []
        self._changes = Changes()
        super().__init__(params, defaults)
        self._last_state, self._n_entries = self.state, len(self.state)
        instances.add(self)

    def _new_state(self) -> defaultdict[Any, Any]:
        return State(self._changes)

    # ---------------------------------------------------------------- to be defined
    def _names(self, group: Group) -> tuple[str, ...]:
        """The names of the state arrays that a group needs."""
        return self.states

    def _initial(self, group: Group) -> dict[str, float]:
        """Initial values of state, where they are not zeros."""
        return {}

    def _arguments(self, group: Group, step: int, scalars: dict[str, Any]) -> tuple[Any, ...]:
        """The rule's arguments after the parameter, its gradient and its state.

        Args:
            group: its hyperparameters may be tensors if the step is differentiable.
            step: the number of this update, from 1.
            scalars: their values before this update, NumPy scalars of the state's dtype.
        """
        raise NotImplementedError(f"{type(self).__name__}._arguments: not defined")

    def _next_scalars(self, group: Group, step: int, scalars: dict[str, Any]) -> dict[str, Any]:
        """The values of `scalars` after update number `step`."""
        return scalars

    def _update(
        self,
        group: Group,
        p: Array,
        g: Array,
        state: dict[str, Array],
        step: int,
        scalars: dict[str, Any],
    ) -> None:
        """Applies the rule to equally long arrays, in place."""
        rule = getattr(rules_for(p), self.rule)
        names = self._names(group)
        arrays = [state[name] if name in names else None for name in self.states]
        rule(p, g, *arrays, *self._arguments(group, step, scalars))

    def _update_sparse(
        self, group: Group, p: Array, g: SparseTensor, state: dict[str, Array], step: int
    ) -> None:
        """Applies the rule at the stored values of a sparse gradient, in place."""
        raise NotImplementedError(f"{type(self).__name__}._update_sparse: not defined")

    def takes_sparse(self, group: Group) -> bool:
        """Whether there is a rule for sparse gradients.

        Raises: RuntimeError if there is one that excludes this group's arguments.
        """
        return False

    # ---------------------------------------------------------------- stepping
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters that have a gradient.

        Copies: none.

        Args:
            closure: computes the loss anew, and its gradients.

        Returns: what closure returned.
        """
        loss = None if closure is None else self._evaluate(closure)
        scaling = None
        if self.found_inf is not None or self.grad_scale is not None:
            if self._step_supports_amp_scaling:
                scaling = Scaling(self.grad_scale, self.found_inf)
            elif not self._unscale_on_host():
                return loss
        if (
            self._changes.any
            or self._outside
            or self.state is not self._last_state
            or len(self.state) != self._n_entries
        ):
            self._reload_state()
        try:
            indices = [flat.gather() for flat in self._flats]
        except LookupError:  # Note [A parameter that moved away]
            self._rebuild_flats()
            indices = [flat.gather() for flat in self._flats]
        for group in self.param_groups:
            if group["differentiable"]:
                step_in_graph(self, group)
        for flat, updated in zip(self._flats, indices, strict=True):
            with flat.device:
                if updated != []:
                    if scaling is None and not flat.counts_on_device:
                        self._advance(flat, updated)
                    else:
                        self._advance_on_device(flat, updated, scaling or NO_SCALING)
                for i in flat.sparse:
                    self._advance_sparse(flat, i)
            flat.end_step()
        return loss

    def _is_state_replaced(self) -> bool:
        """Whether the program has replaced or removed some since the last step."""
        return (
            self._changes.any
            or self.state is not self._last_state
            or len(self.state) != self._n_entries
            or any(is_replaced(flat, self.state) for flat in self._outside)
        )

    def _reload_state(self) -> None:
        if self._is_state_replaced():
            self._load_state()

    def _advance(self, flat: Flat, indices: list[int] | None) -> None:
        for run in self._count(flat, indices):
            self._update_range(flat, *run)

    def _count(self, flat: Flat, indices: list[int] | None) -> Runs:
        """Counts a step, and advances the scalars."""
        group = flat.group
        names = self._names(group)
        if names != flat.names or len(flat.has_entry) != len(flat.tensors):
            self._begin(flat, names, range(len(flat.tensors)) if indices is None else indices)
        runs: Runs = []
        for run, start, stop, step in flat.runs(indices):
            scalars = {name: row[run.start] for name, row in flat.scalars.items()}
            runs.append((start, stop, step, scalars))
            if scalars:
                after = self._next_scalars(as_numbers(group), step, scalars)
                for name, value in after.items():
                    flat.scalars[name][run] = value
        return runs

    def _advance_sparse(self, flat: Flat, i: int) -> None:
        group, p = flat.group, flat.tensors[i]
        self._count_on_host(flat)
        if not self.takes_sparse(group):
            raise RuntimeError(
                f"{type(self).__name__} does not support sparse gradients, please consider "
                f"SparseAdam instead: that of a parameter of shape {p.array.shape} is one"
            )
        names = self._names(group)
        step = int(flat.steps[i]) + 1
        self._begin(flat, names, [i])
        state = {name: flat.part(flat.state[name], i).reshape(p.array.shape) for name in names}
        self._update_sparse(group, p.array, p.grad, state, step)
        flat.steps[i] = step
        native.wrote(p)

    def _update_range(
        self, flat: Flat, start: int, stop: int, step: int, scalars: dict[str, Any]
    ) -> None:
        p, g, state = flat.parameter, flat.gradient, flat.state
        if flat.device is META:  # there is nothing to write
            return
        group = as_numbers(flat.group)
        if flat.entry_outside is not None and any(x.dtype != p.dtype for x in state.values()):
            self._update_mixed(group, (p, g), state, step, scalars)
            return
        if p.ndim == 1 and stop - start != p.shape[0]:
            p, g = p[start:stop], g[start:stop]
            state = {name: array[start:stop] for name, array in state.items()}
        if p.dtype.kind == "c":  # real and imaginary part are updated as two numbers
            for part in real_views(p):
                parts = {name: part(array) for name, array in state.items()}
                self._update(group, part(p), part(g), parts, step, scalars)
            return
        if p.dtype not in HALVES:
            self._update(group, p, g, state, step, scalars)
            return
        # Computed in float32 and rounded once, as PyTorch's fused steps do.
        recast = native.recast if isinstance(p, np.ndarray) else recast_on_device
        float_state = {name: recast(array, float32) for name, array in state.items()}
        float_p = recast(p, float32)
        self._update(group, float_p, recast(g, float32), float_state, step, scalars)
        recast(float_p, p)
        for name, array in state.items():
            recast(float_state[name], array)

    def _update_mixed(
        self,
        group: Group,
        arrays: tuple[Array, Array],
        state: dict[str, Array],
        step: int,
        scalars: dict[str, Any],
    ) -> None:
        """The update with state of another dtype than the parameter's, which the program made."""
        p, g = arrays
        dtype = float32 if p.dtype in HALVES else p.dtype
        new = p.astype(dtype)
        parts = {name: array.astype(dtype) for name, array in state.items()}
        self._update(group, new, g.astype(dtype), parts, step, scalars)
        p[...] = new
        for name, array in state.items():
            array[...] = parts[name]

    # ------------------------------------------------- Note [Steps that may be skipped]
    @property
    def _step_supports_amp_scaling(self) -> bool:
        """Whether a step takes `grad_scale` and `found_inf` without reading them, PyTorch's name:
        all parameters are on GPUs, and no gradient is sparse. A subclass with a `step` of its own
        may update more than `FlatOptimizer.step` does: it is not called where a step is skipped.
        """
        if not self.takes_found_inf or type(self).step is not FlatOptimizer.step:
            return False
        for group in self.param_groups:
            if group["differentiable"] or group["fused"] is False:
                return False
            for p in group["params"]:
                if not p.is_cuda or (p.grad is not None and p.grad.is_sparse):
                    return False
        return True

    def _unscale_on_host(self) -> bool:
        """Reads `found_inf`, and divides the gradients by `grad_scale`; whether to step."""
        if self.found_inf is not None and bool(self.found_inf):
            return False
        if self.grad_scale is not None:
            with no_grad():
                for p in self._parameters():
                    if p.grad is not None:
                        p.grad.div_(self.grad_scale.to(p.grad.device))
        return True

    def _advance_on_device(self, flat: Any, indices: list[int] | None, scaling: Scaling) -> None:
        """`_advance` of a flat on a GPU, with its step counts there."""
        group, names = flat.group, self._names(flat.group)
        if names != flat.names or len(flat.has_entry) != len(flat.tensors):
            self._begin(flat, names, range(len(flat.tensors)) if indices is None else indices)
        if not flat.counts_on_device:
            flat.count_on_device()
            self._renew_steps(flat)
        device = device_of(flat.parameter)
        scale, found = scaling.scale_on(device), scaling.found_on(device)
        state = [flat.state[name] if name in names else None for name in self.states]
        for start, stop, step in flat.runs_on_device(indices, found):
            arguments = self._arguments(as_numbers(group), step, {})
            update_on_device(
                self.rule,
                (flat.parameter, flat.gradient, state),
                (start, stop),
                arguments,
                {"grad_scale": scale, "found_inf": found},
            )

    def _count_on_host(self, flat: Flat) -> None:
        """Makes `flat.steps` valid."""
        if flat.counts_on_device:
            flat.count_on_host()
            self._renew_steps(flat)

    def _renew_steps(self, flat: Flat) -> None:
        """Makes `self.state` refer to the counts where they are now."""
        if self.counts and flat.entry_outside is None:
            for i in flat.has_entry:
                self.state[flat.tensors[i]].put("step", wrap(flat.step_of(i)))

    # ---------------------------------------------------------------- state
    def state_dict(self) -> dict[str, Any]:
        self._drop_new_entries()
        return super().state_dict()

    def __getstate__(self) -> dict[str, Any]:
        self._drop_new_entries()
        saved = super().__getstate__()
        counts = {"step", *self.scalars}  # views of arrays that are not sent
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, entry in self.state.items():
            state[key] = entry
            if type(entry) is Entry and entry.is_intact:
                state[key] = {k: v.clone() if k in counts else v for k, v in entry.items()}
        names = {"step", *self.scalars, *self.states}  # the program's may not have met a step yet
        outside = [is_outside(self.state.get(p), names) for p in self._parameters()]
        return {**saved, "state": state, **({"_is_outside": outside} if any(outside) else {})}

    def _drop_new_entries(self) -> None:
        """Removes the entries of parameters whose steps were all skipped, if they have no "step"
        that says so. Waits for the GPU.
        """
        if self.counts or not self.takes_found_inf or self.state is not self._last_state:
            return
        for flat in self._flats:
            if not flat.names:
                continue
            flat.count_on_host()
            is_own = flat.entry_outside is None
            for i in [i for i in flat.has_entry if is_own and not flat.steps[i]]:
                entry = self.state.get(flat.tensors[i])
                if entry and entry.keys() <= set(flat.names):
                    del self.state[flat.tensors[i]]
                    flat.has_entry.discard(i)
                    self._n_entries -= 1

    def _begin(self, flat: Flat, names: tuple[str, ...], indices: Iterable[int]) -> None:
        """Makes missing state, and its entries in `self.state`."""
        if flat.entry_outside is not None:
            self._load_outside(flat, names)
            return
        if names != flat.names:
            if not self.counts and set(names) - set(flat.names):
                flat.count_on_host()
                flat.steps[:] = 0  # the buffer is new
            flat.add_state(names)
            flat.add_scalars(self.scalars)
            flat.names = names
            flat.has_entry.clear()
        initial = self._initial(as_numbers(flat.group))
        for i in indices:
            if i not in flat.has_entry:
                flat.has_entry.add(i)
                if initial and not self.state.get(flat.tensors[i]):
                    flat.fill(i, initial)
                tensors = flat.entry(i, names, self.counts)
                if tensors:
                    self.state[flat.tensors[i]] = Entry(self._changes, flat, tensors)
        self._n_entries = len(self.state)
        self._changes.any = False

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Sets the gradients to None, or with set_to_none=False to zeros."""
        if not set_to_none:
            return super().zero_grad(False)
        began = profiling.begin() if profiling.on else 0
        for flat in self._flats:
            for p in flat.tensors:
                if p.accumulate_grad is not None:
                    p.accumulate_grad.grad = None
        if began:
            profiling.end(began, name_of(self, "zero_grad"), profiling.OPTIMIZER)
        return None

    # ---------------------------------------------------------------- shards
    @property
    def flats(self) -> list[Flat]:
        """The blocks of parameters, gradients and state, all allocated: for `step_part`."""
        self._reload_state()
        if any(p.array is not array for flat in self._flats for p, array, _ in flat.slots):
            self._rebuild_flats()
        for flat in self._flats:
            self._count_on_host(flat)
            flat.add_state(self._names(flat.group))
            if self._initial(flat.group):  # before ranks share it
                with flat.device:
                    self._begin(flat, self._names(flat.group), range(len(flat.tensors)))
            if flat.gradient is None:
                flat.make_gradients()
        return self._flats

    def count_step(self, index: int, indices: list[int] | None = None) -> Runs:
        """Counts a step of flat `index`, of which `step_part` then updates parts, in this process
        or others.

        Args:
            indices: the parameters that have a gradient; None: all.

        Returns: (first element, end, number of the step, scalars) of each run of neighbours that
            are updated together.
        """
        flat = self._flats[index]
        self._count_on_host(flat)
        with flat.device:
            return self._count(flat, indices)

    def step_part(self, index: int, runs: Runs, start: int, stop: int) -> None:
        """Updates the elements start to stop of flat `index`, from its `gradient`.

        Args:
            runs: what `count_step` returned.
        """
        flat = self._flats[index]
        with flat.device:
            for first, end, step, scalars in runs:
                first, end = max(first, start), min(end, stop)
                if first < end:
                    self._update_range(flat, first, end, step, scalars)

    # ---------------------------------------------------------------- layout and state
    def add_param_group(self, param_group: Group) -> None:
        super().add_param_group(param_group)
        self._flats += self._flats_of(self.param_groups[-1])

    def _flats_of(self, group: Group) -> list[Flat]:
        return [] if group["differentiable"] else lay_out(group, group["params"], {})

    def _rebuild_flats(self) -> None:
        """Makes all flats anew, with the state of their parameters."""
        self._drop_new_entries()
        self._flats, self._outside = [], []
        for group in self.param_groups:
            self._flats += self._flats_of(group)
        self._load_state()

    def _load_state(self) -> None:
        """Makes the flats use `self.state`: they use tensors of the program's, and copy what was
        loaded or cleared, or is of another layout. Note [State from outside].
        """
        if type(self.state) is not State:
            self.state = State(self._changes, self.state)
        self._set_apart()
        for flat in self._flats:
            names = self._names(flat.group)
            if flat.entry_outside is not None:
                self._load_outside(flat, names)
                continue
            flat.add_state(names)
            flat.add_scalars(self.scalars)
            flat.names = names
            flat.has_entry.clear()
            flat.count_on_host()
            for i, p in enumerate(flat.tensors):
                entry = self.state.get(p) or {}
                if type(entry) is Entry and entry.is_of(flat, names):
                    flat.has_entry.add(i)
                    continue
                step = entry.get("step", 1 if any(v is not None for v in entry.values()) else 0)
                flat.steps[i] = float(step)
                with flat.device:
                    for name in names:
                        self._load_array(flat, i, name, entry.get(name))
                for name in self.scalars:
                    flat.load_scalar(i, name, entry.get(name, 0.0))
                if entry:
                    standard = {"step", *names, *self.scalars}
                    extra = {k: v for k, v in entry.items() if k not in standard}
                    flat.has_entry.add(i)
                    tensors = flat.entry(i, names, self.counts)
                    self.state[p] = Entry(self._changes, flat, tensors, extra)
        self._last_state, self._n_entries = self.state, len(self.state)
        self._changes.any = False

    def _set_apart(self) -> None:
        """Gives parameters whose state is the program's flats of their own, and the others none."""
        flats: list[Flat] = []
        standard = {"step", *self.scalars, *self.states}
        for flat in self._flats:
            entries: dict[int, Any] = {id(p): self.state.get(p) for p in flat.tensors}
            outside = {key: entry for key, entry in entries.items() if is_outside(entry, standard)}
            former = flat.entry_outside
            if former is None:
                is_kept = not outside
            else:
                is_kept = any(e is former for e in outside.values()) and not is_replaced(
                    flat, self.state
                )
            flats += [flat] if is_kept else lay_out(flat.group, flat.tensors, outside)
        self._flats = flats
        self._outside = [flat for flat in flats if flat.entry_outside is not None]

    def _load_outside(self, flat: Flat, names: tuple[str, ...]) -> None:
        """Makes a flat of one parameter use the program's tensors in its entry, and makes what the
        entry lacks.
        """
        entry = flat.entry_outside
        initial = self._initial(as_numbers(flat.group))
        given = [name for name in names if entry.get(name) is not None]
        flat.count_on_host()
        flat.state = {name: self._array_outside(flat, name, entry[name]) for name in given}
        flat.scalars = {}
        flat.add_scalars(self.scalars)
        with flat.device:
            flat.add_state(names)
            flat.fill(0, {name: x for name, x in initial.items() if name not in given})
        counts = dict.fromkeys(("step",) if self.counts else ())
        for name in (*counts, *self.scalars):
            self._load_count(flat, name, entry.get(name))
        if not self.counts:
            flat.steps[0] = bool(given)
        made = flat.entry(0, names, self.counts)
        for name, tensor in made.items():
            if not isinstance(entry.get(name), Tensor):
                entry[name] = tensor
        flat.outside = {name: (entry[name], entry[name].array) for name in made}
        flat.names = names
        flat.has_entry = {0}
        self._n_entries = len(self.state)
        self._changes.any = False

    def _array_outside(self, flat: Flat, name: str, value: Any) -> Array:
        """The memory of the program's tensor, in the shape of the flat's parameter."""
        p = flat.tensors[0].array
        where = f"{type(self).__name__}.step: the state {name!r} of a parameter of shape {p.shape}"
        if tuple(value.shape) != p.shape:
            raise RuntimeError(
                f"{where} has another shape: {tuple(value.shape)}, hint: del optimizer.state[p] "
                "starts anew"
            )
        if device_of(value.array) != device_of(p):
            raise RuntimeError(
                f"{where} is on another device: {value.device} is not {device_of(p)}"
            )
        array: Array = value.array
        if isinstance(array, np.ndarray) and not array.flags.writeable:
            raise RuntimeError(f"{where} cannot be written: hint: put a clone() there")
        return array.reshape(-1) if flat.parameter.ndim == 1 else array

    def _load_count(self, flat: Flat, name: str, value: Any) -> None:
        """Makes a flat of one parameter use the program's tensor of one number, or the number."""
        if value is None:
            return
        row = flat.steps if name == "step" else flat.scalars[name]
        if not isinstance(value, Tensor):
            row[0] = value
            return
        array = value.array
        if array.size != 1:
            raise RuntimeError(
                f"{type(self).__name__}.step: the state {name!r} has one number: it has the shape "
                f"{array.shape}"
            )
        if not isinstance(array, np.ndarray) or not array.flags.writeable:
            row[0] = float(value)
        elif name == "step":
            flat.steps = array.reshape(1)
        else:
            flat.scalars[name] = array.reshape(1)

    def _load_array(self, flat: Flat, i: int, name: str, value: Any) -> None:
        shape = flat.tensors[i].array.shape
        target = flat.part(flat.state[name], i).reshape(shape)
        if value is None:
            target[...] = 0
            return
        if tuple(value.shape) != shape:
            raise RuntimeError(
                f"{type(self).__name__}.step: the state's shape is not its parameter's: {name} "
                f"{tuple(value.shape)} for {shape}, hint: del optimizer.state[p] starts anew"
            )
        target[...] = move_array(value.array, device_of(target))

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        outside = state.pop("_is_outside", None)
        super().__setstate__(state)
        self._changes = Changes()
        items = dict(self.state)
        for i, p in enumerate(self._parameters()):
            entry = items.get(p)
            if isinstance(entry, dict) and not (outside and outside[i]):  # a copy: it may move
                own = {name: x for name, x in entry.items() if isinstance(x, Tensor)}
                extra = {name: x for name, x in entry.items() if name not in own}
                items[p] = Entry(self._changes, None, own, extra)
        self.state = self._last_state = State(self._changes, items)
        self._flats = []
        self._rebuild_flats()
        instances.add(self)


def is_replaced(flat: Flat, state: Any) -> bool:
    """Whether the program has replaced one of its tensors that the flat uses."""
    entry = flat.entry_outside
    return state.get(flat.tensors[0]) is not entry or any(
        entry.get(name) is not tensor or tensor.array is not array
        for name, (tensor, array) in flat.outside.items()
    )


def rules_for(p: Any) -> Any:
    """The module with the rules for parameters in an array like this."""
    if p.ndim != 1 or p.dtype.char not in "fd":
        return reference_updates
    if isinstance(p, np.ndarray):
        return native
    return device_rules()


def recast_on_device(x: Array, to: Any) -> Any:
    """x in another dtype; or written to another array. As native.recast, on a GPU."""
    if isinstance(to, np.dtype):
        return x.astype(to)
    to[...] = x
    return to


def real_views(p: Array) -> list[Callable[[Array], Array]]:
    """Functions that view complex arrays like p as real: one for both parts if p is contiguous in
    one dimension, else one for each part.
    """
    if p.ndim == 1 and p.flags.c_contiguous:
        real = p.real.dtype
        return [lambda array: array.view(real)]
    return [lambda array: array.real, lambda array: array.imag]


instances: weakref.WeakSet[FlatOptimizer] = weakref.WeakSet()


def _is_followed(array: Array) -> bool:
    """Whether an array has the counts of an optimizer. `share_memory_` moves tensors over it: the
    next step uses them.
    """
    for optimizer in list(instances):
        for flat in optimizer._flats:
            if array is flat.steps or any(array is row for row in flat.scalars.values()):
                optimizer._changes.any = True
                return True
    return False


followers.append(_is_followed)


def _forget_gradients() -> None:
    for optimizer in list(instances):
        for flat in optimizer._flats:
            flat.forget_gradients()


os.register_at_fork(after_in_child=_forget_gradients)
