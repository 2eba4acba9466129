"""Flat: parameters, gradients and optimizer state in one block each, for one kernel call a step.

```
parameter  | W1 ........ | b1 .. | W2 ........ | b2 |      p.array of each is a view of it
gradient   | W1 ........ | b1 .. | W2 ........ | b2 |      backward writes its first gradient here
exp_avg    | ........... | ..... | ........... | .. |      state[p]["exp_avg"] is a Tensor over it
             starts[0]     [1]     [2]           [3]       multiples of 64 bytes; gaps stay zero
```

Note [Which parameters are updated]
A parameter without a gradient does not change, nor do its state and step count. The others are
updated in runs of neighbours with the same step count: nearly always a single run.

Note [A parameter that moved away]
`p.data = x` and `module.to(dtype)` give a parameter other memory. Then `step` detects that its
array is not the flat's view, and makes all flats anew with the parameters' state.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from ... import cupy_runtime, native
from ...autograd import wrap
from ...autograd.engine.grad_buffer import in_grad_buffer
from ...cuda_arrays import device_of, move_array, new_array
from ...device import CPU
from ...dtypes import float32, float64, get_default_dtype
from ...memory.layout import zeros_shared
from ...tensor import Tensor

Array = np.ndarray[Any, Any]

NO_CONTEXT: AbstractContextManager[None] = nullcontext()


class Flat:
    """Neighbouring parameters of one group and dtype.

    Attributes:
        device: a context in which array operations run on the flat's device.
        group: the parameter group, for its hyperparameters.
        tensors: the parameters, in order; starts, stops: their elements in the arrays below.
        parameter, gradient: 1-D arrays over all of them.
        state: 1-D arrays by the names of PyTorch's state dictionary ("exp_avg", ...).
        steps: how many updates each parameter has had, in the dtype of PyTorch's "step".
        scalars: further numbers of each parameter, as `steps` ("mu_product", ...).
        entry_outside: the entry in `optimizer.state` of the one parameter, if it has tensors of the
            program's; outside: name -> (tensor, its array) of what the step uses of it.
        sparse: indices of the parameters whose gradient is a sparse tensor. It is not copied, and
            memory for a dense gradient is allocated only when there is one.
    """

    __slots__ = (
        "device",
        "entry_outside",
        "gradient",
        "group",
        "has_entry",
        "names",
        "outside",
        "parameter",
        "scalars",
        "slots",
        "sparse",
        "starts",
        "state",
        "steps",
        "stops",
        "tensors",
    )

    def __init__(
        self, group: dict[str, Any], tensors: list[Any], parameter: Array, starts: list[int]
    ) -> None:
        self.device: AbstractContextManager[Any] = on_device(parameter)
        self.group = group
        self.tensors = tensors
        self.parameter = parameter
        self.starts = starts
        self.stops = [start + p.array.size for start, p in zip(starts, tensors, strict=True)]
        self.state: dict[str, Array] = {}
        self.names: tuple[str, ...] = ()  # the state that the last step used
        self.has_entry: set[int] = set()  # indices of parameters in optimizer.state
        # In private memory: each rank that shares parameters and state counts its own steps.
        self.steps = np.zeros(len(tensors), scalar_dtype())
        self.scalars: dict[str, Array] = {}
        self.sparse: list[int] = []
        self.entry_outside: Any = None
        self.outside: dict[str, Any] = {}
        self.gradient: Any = None
        self.slots: list[tuple[Any, Array, Any]] = [
            (p, p.array, p.accumulate_grad) for p in tensors
        ]
        self.prepare_gradients()

    def __repr__(self) -> str:
        return (
            f"Flat({len(self.tensors)} parameters, {self.parameter.size} elements of "
            f"{self.parameter.dtype.name}, state {sorted(self.state)})"
        )

    # ---------------------------------------------------------------- gradients
    def prepare_gradients(self) -> None:
        """Allocates the gradients' block, unless all gradients will be sparse."""
        if not all(map(expects_sparse, self.tensors)):
            self.make_gradients()

    def make_gradients(self) -> None:
        """Allocates a block for the gradients, which backward writes into."""
        self.take_gradients(zeros_shared(self.parameter.shape, self.parameter.dtype))

    def take_gradients(self, gradient: Array) -> None:
        """Makes parts of `gradient`, an array like `parameter`, the gradient buffers."""
        self.gradient = gradient
        self.slots = []
        for i, p in enumerate(self.tensors):
            self.slots.append((p, p.array, p.accumulate_grad))
            self._attach_grad_buffer(p.accumulate_grad, i)

    def forget_gradients(self) -> None:
        """For a forked child: the block belongs to its parent, which alone may write there."""
        self.gradient = None
        for _, _, accumulate_grad in self.slots:
            if accumulate_grad is not None:
                accumulate_grad.grad_buffer = None

    def gather(self) -> list[int] | None:
        """Copies every dense gradient that is not in the block into it.

        Returns: None if each parameter has a dense gradient, else the indices of those that do.
        Raises: LookupError if a parameter's memory is not in this flat.
        """
        if self.gradient is None and any(map(has_dense, self.tensors)):
            self.make_gradients()
        if self.sparse:
            self.sparse = []
        missing = False
        for p, array, accumulate_grad in self.slots:
            if p.array is not array:
                raise LookupError
            g = p.grad if accumulate_grad is None else accumulate_grad.grad
            if g is None:
                missing = True
                continue
            if accumulate_grad is None or not in_grad_buffer(accumulate_grad, g.array):
                if g.is_sparse:
                    missing = True
                    continue
                if (
                    accumulate_grad is not None
                    and accumulate_grad.grad_buffer is not None
                    and accumulate_grad.grad_buffer.lent
                ):
                    # the program holds the gradient of an earlier step, which is in this buffer
                    self.make_gradients()
                    return self.gather()
                self._copy_in(p, g)
            version = p.version
            if version is not None:
                version.count += 1
        if not missing:
            return None
        pairs = [(i, p.grad) for i, p in enumerate(self.tensors) if p.grad is not None]
        self.sparse = [i for i, g in pairs if g.is_sparse]
        return [i for i, g in pairs if not g.is_sparse]

    def end_step(self) -> None:
        """Called after the update."""

    counts_on_device = False  # `steps` is older than counts in a GPU's memory

    def count_on_host(self) -> None:
        """Makes `steps` valid."""

    def step_of(self, i: int) -> Array:
        """The step count of parameter i, an array of no dimensions."""
        return self.steps[i : i + 1].reshape(())

    def _copy_in(self, p: Any, g: Any) -> None:
        """Copies a gradient that was assigned, or is older than its buffer."""
        i = next(i for i, q in enumerate(self.tensors) if q is p)
        self.part(self.gradient, i).reshape(p.array.shape)[...] = g.array
        accumulate_grad = p.accumulate_grad
        if accumulate_grad is not self.slots[i][2]:  # requires_grad was switched on meanwhile
            self.slots[i] = (p, p.array, accumulate_grad)
            self._attach_grad_buffer(accumulate_grad, i)

    def _attach_grad_buffer(self, accumulate_grad: Any, i: int) -> None:
        if accumulate_grad is not None:
            buffer = self.part(self.gradient, i).reshape(self.tensors[i].array.shape)
            accumulate_grad.grad_buffer = native.GradientBuffer(buffer)

    # ---------------------------------------------------------------- state
    def add_state(self, names: tuple[str, ...]) -> None:
        """Adds zeros for each missing name."""
        for name in names:
            if name not in self.state:
                self.state[name] = zeros_beside(self.parameter, self.parameter.shape)

    def add_scalars(self, names: tuple[str, ...]) -> None:
        """Adds zeros for each missing name, one per parameter."""
        for name in names:
            if name not in self.scalars:
                self.scalars[name] = np.zeros(len(self.tensors), self.steps.dtype)

    def load_scalar(self, i: int, name: str, value: Any) -> None:
        """Loads a number of parameter i; a tensor of a wider dtype widens them all."""
        row, new = (
            self.scalars[name],
            np.asarray(move_array(value.array, CPU) if isinstance(value, Tensor) else value),
        )
        if new.dtype.itemsize > row.itemsize and isinstance(value, Tensor):
            row = self.scalars[name] = row.astype(new.dtype)
        row[i] = new

    def fill(self, i: int, values: dict[str, float]) -> None:
        """Sets the initial state of parameter i."""
        for name, value in values.items():
            if name in self.scalars:
                self.scalars[name][i] = value
            else:
                part = self.part(self.state[name], i)
                part[...] = complex(value, value) if part.dtype.kind == "c" else value

    def entry(self, i: int, names: tuple[str, ...], counts: bool) -> dict[str, Any]:
        """`optimizer.state[p]` of parameter i: tensors over this flat's memory."""
        shape = self.tensors[i].array.shape
        tensors: dict[str, Any] = {}
        if counts:
            tensors["step"] = wrap(self.step_of(i))
        for name, array in self.scalars.items():
            tensors[name] = wrap(array[i : i + 1].reshape(()))
        for name in names:
            tensors[name] = wrap(self.part(self.state[name], i).reshape(shape))
        return tensors

    def part(self, array: Array, i: int) -> Array:
        """The elements of parameter i."""
        part: Array = array[self.starts[i] : self.stops[i]] if array.ndim == 1 else array
        return part

    def runs(self, indices: list[int] | None) -> list[tuple[slice, int, int, int]]:
        """Counts the update, and returns runs of neighbours with equal steps and scalars.

        Returns: (indices, first element, end, number of this step) of each.
        """
        counts = self.steps.tolist()
        rows = [counts]
        for row in self.scalars.values():
            rows.append(row.tolist())
        if indices is None and not [row for row in rows if row.count(row[0]) != len(row)]:
            self.steps += 1
            end = self.parameter.shape[0] if self.parameter.ndim else 1
            return [(slice(0, len(counts)), 0, end, int(counts[0]) + 1)]
        numbers = list(zip(*rows, strict=True))
        runs: list[tuple[slice, int, int, int]] = []
        for i in range(len(counts)) if indices is None else indices:
            self.steps[i] += 1
            if runs and runs[-1][0].stop == i and numbers[i] == numbers[i - 1]:
                first, start, _, step = runs[-1]
                runs[-1] = (slice(first.start, i + 1), start, self.stops[i], step)
            else:
                step = int(counts[i]) + 1
                runs.append((slice(i, i + 1), self.starts[i], self.stops[i], step))
        return runs


def on_device(array: Any) -> AbstractContextManager[Any]:
    """A context in which array operations run on an array's device. It may be entered again."""
    if isinstance(array, np.ndarray) or cupy_runtime.device_count() == 1:
        return NO_CONTEXT
    context: AbstractContextManager[Any] = array.device
    return context


def zeros_beside(array: Array, shape: tuple[int, ...]) -> Array:
    """Zeros of an array's dtype on its device, on the CPU in shared memory."""
    device = device_of(array)
    if device is CPU:
        return zeros_shared(shape, array.dtype)
    zeros: Array = new_array("zeros", shape, array.dtype, device)
    return zeros


def scalar_dtype() -> Any:
    """The dtype of step counts and scalars: float64 if that is the default dtype."""
    return float64 if get_default_dtype() is float64 else float32


def expects_sparse(p: Any) -> bool:
    """Whether the module of a parameter has declared its gradients to be sparse tensors."""
    return bool(getattr(p, "expects_sparse", False))


def has_dense(p: Any) -> bool:
    """Whether a parameter has a gradient that is not sparse."""
    return p.grad is not None and not p.grad.is_sparse
