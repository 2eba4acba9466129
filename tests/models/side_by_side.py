"""Trains an example in two libraries from the same weights, data order and noise.

An example defines

- `make_model(**sizes)`: a module, or a tuple of them;
- `make_optimizer(model)`: an optimizer, or a tuple of them; of what make_model returned;
- `train_step(model, optimizer, *batch)`: one update; returns the loss, or a tuple of losses.

Noise: inside the example `st.randn`, `st.randn_like`, `st.rand` and `st.rand_like` are replaced by
draws from one NumPy generator. Dropout has to be 0 by `sizes`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.load_example import load

Batch = tuple[np.ndarray | list[np.ndarray], ...]


@dataclass(frozen=True)
class Case:
    """An example at a reduced size.

    Attributes:
        example: the file's name in examples/, without ".py".
        batch: one batch of arrays, or lists of them; floating-point ones are brought to the dtype
            of the run.
        sizes: arguments of the example's make_model.
        name: what the test is called; the example's name if empty.
    """

    example: str
    batch: Callable[[np.random.Generator], Batch]
    sizes: dict[str, Any] = field(default_factory=dict)
    name: str = ""

    def __str__(self) -> str:
        return self.name or self.example


@dataclass
class Course:
    """The course of a training: losses per step, and the gradients of the first update."""

    losses: list[list[float]] = field(default_factory=list)
    gradients: dict[str, np.ndarray] = field(default_factory=dict)


class Noise:
    """A library whose random numbers come from NumPy."""

    def __init__(self, library: Any, dtype: str) -> None:
        self._library, self._dtype = library, dtype
        self._rng = np.random.default_rng(7)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)

    def _tensor(self, x: np.ndarray) -> Any:
        return self._library.tensor(np.asarray(x, self._dtype))

    def randn(self, *size: Any, **_: Any) -> Any:
        return self._tensor(self._rng.standard_normal(_flat(size)))

    def rand(self, *size: Any, **_: Any) -> Any:
        return self._tensor(self._rng.random(_flat(size)))

    def randn_like(self, x: Any, **_: Any) -> Any:
        return self.randn(*x.shape)

    def rand_like(self, x: Any, **_: Any) -> Any:
        return self.rand(*x.shape)


def _flat(size: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size


def tupled(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


@contextmanager
def default_dtype(library: Any, dtype: str) -> Iterator[None]:
    before = library.get_default_dtype()
    library.set_default_dtype(getattr(library, dtype))
    try:
        yield
    finally:
        library.set_default_dtype(before)


def weights(case: Case, library: str, dtype: str) -> list[dict[str, np.ndarray]]:
    """The state dictionaries of one fresh model of that library, as arrays."""
    torchlike = importlib.import_module(library)
    with default_dtype(torchlike, dtype):
        torchlike.manual_seed(3)
        models = tupled(load(case.example, library).make_model(**case.sizes))
    return [{k: v.numpy().copy() for k, v in m.state_dict().items()} for m in models]


def train(
    case: Case, library: str, dtype: str, steps: int, state: list[dict[str, np.ndarray]]
) -> Course:
    """Runs `steps` updates. Raises RuntimeError where the keys of `state` are not the model's."""
    torchlike = importlib.import_module(library)
    module = load(case.example, library)
    course = Course()
    rng = np.random.default_rng(5)
    before = module.__dict__["st"]
    module.__dict__["st"] = Noise(torchlike, dtype)
    try:
        with default_dtype(torchlike, dtype):
            model = module.make_model(**case.sizes)
            for part, arrays in zip(tupled(model), state, strict=True):
                part.load_state_dict({k: torchlike.tensor(v) for k, v in arrays.items()})
            optimizer = module.make_optimizer(model)
            _note_gradients(tupled(model), tupled(optimizer), course)
            for _ in range(steps):
                batch = [_cast(torchlike, x, dtype) for x in case.batch(rng)]
                losses = tupled(module.train_step(model, optimizer, *batch))
                course.losses.append([float(x) for x in losses])
    finally:
        module.__dict__["st"] = before
    return course


def _cast(library: Any, x: Any, dtype: str) -> Any:
    if isinstance(x, list):
        return [_cast(library, part, dtype) for part in x]
    return library.tensor(x.astype(dtype) if x.dtype.kind == "f" else x)


def _note_gradients(models: tuple[Any, ...], optimizers: tuple[Any, ...], course: Course) -> None:
    """Copies .grad at each optimizer's first step."""
    names = {id(p): f"{i}.{name}" for i, m in enumerate(models) for name, p in m.named_parameters()}
    for optimizer in optimizers:

        def note(optimizer: Any, *_: Any) -> None:
            for group in optimizer.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        grad = p.grad.detach().numpy().copy()
                        course.gradients.setdefault(names.get(id(p), "?"), grad)

        optimizer.register_step_pre_hook(note)
