"""Checkpointing: a part of the forward pass keeps nothing, and is run again in backward.

Two flavours. Without re-entering (`use_reentrant=False`): the part runs as always, but what its ops
save is replaced by a promise; the first one that backward asks for runs the part again, which
fulfils all of them. With re-entering: a Function whose backward runs the part again and calls
`backward` on it; then at least one input must require grad, and `grad` does not work through it.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from .. import native
from ..ops.random.philox import default_generator
from .dispatch import autocast
from .engine.backward import backward
from .engine.node_hooks import Pair, called_from, pairs, watching
from .function import Function
from .grad_mode import enable_grad, is_grad_enabled

__all__ = [
    "CheckpointError",
    "checkpoint",
    "checkpoint_sequential",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]


class CheckpointError(RuntimeError):
    """A checkpointed function did something else when it was run again."""


class _Stop(BaseException):
    """Ends a second run, once all that was promised is there."""


class _Overrides:
    """What counts instead of `checkpoint`'s own arguments; None: those count."""

    early_stop: bool | None = None
    debug: bool | None = None


_overrides = _Overrides()


@contextmanager
def _overriding(name: str, value: bool | None) -> Iterator[None]:
    former = getattr(_overrides, name)
    setattr(_overrides, name, value)
    try:
        yield
    finally:
        setattr(_overrides, name, former)


def set_checkpoint_early_stop(enable: bool) -> AbstractContextManager[None]:
    """Whether the second runs of the checkpoints made in this block end as soon as nothing more is
    needed, whatever their `early_stop` says.
    """
    return _overriding("early_stop", enable)


def set_checkpoint_debug_enabled(enabled: bool | None) -> AbstractContextManager[None]:
    """Whether the checkpoints made in this block are debugged, whatever their `debug` says; None:
    as it says.
    """
    return _overriding("debug", enabled)


@contextmanager
def _replayed(state: Any) -> Iterator[None]:
    """The random stream of that moment; afterwards as it was."""
    if state is None:
        yield
        return
    now = default_generator.read()
    default_generator.write(state)
    try:
        yield
    finally:
        default_generator.write(now)


def _detached(value: Any) -> Any:
    if isinstance(value, native.TensorBase):
        fresh: Any = value
        return fresh.detach().requires_grad_(fresh.requires_grad)
    return value


class _Reentrant(Function):
    """The flavour that re-enters."""

    @staticmethod
    def forward(ctx: Any, function: Any, preserve: bool, *args: Any) -> Any:
        ctx.function_, ctx.state = function, default_generator.read() if preserve else None
        ctx.autocast = autocast.kept()
        ctx.plain = [None if isinstance(a, native.TensorBase) else a for a in args]
        ctx.is_tensor = [isinstance(a, native.TensorBase) for a in args]
        ctx.save_for_backward(*(a for a in args if isinstance(a, native.TensorBase)))
        return function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        saved = iter(ctx.saved_tensors)
        args = [
            _detached(next(saved)) if is_tensor else plain
            for is_tensor, plain in zip(ctx.is_tensor, ctx.plain)
        ]
        with enable_grad(), _replayed(ctx.state), autocast.reentered(ctx.autocast):
            outputs = ctx.function_(*args)
        outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
        tracked = [
            (o, g)
            for o, g in zip(outputs, grads)
            if isinstance(o, native.TensorBase) and o.node is not None
        ]
        if not tracked:
            raise RuntimeError(
                "checkpoint: none of output has requires_grad=True, this checkpoint() is not "
                "necessary"
            )
        backward([o for o, _ in tracked], [g for _, g in tracked])
        found = (getattr(a, "grad", None) if t else None for a, t in zip(args, ctx.is_tensor))
        return (None, None, *found)


class Promise:
    """In place of a saved tensor: which one it is, and of what shape.

    Attributes:
        tensor: the tensor after all, where a policy says that it is kept.
    """

    __slots__ = ("dtype", "index", "part", "shape", "tensor")

    def __init__(self, part: _Part, index: int, array: Any) -> None:
        self.part, self.index, self.shape, self.dtype = part, index, array.shape, array.dtype
        self.tensor: Any = None

    def keep(self, tensor: Any) -> None:
        """Keeps the tensor: the second run does not give it. Of several the last comes first."""
        self.tensor = tensor
        self.part.promised -= 1


class Promised(threading.local):
    """What this thread has promised since somebody began to collect it, with the tensors."""

    now: list[tuple[Promise, Any]] | None = None


promised = Promised()


class _Part:
    """A checkpointed call: how to run it again, and what that gave.

    Attributes:
        notes: under `debug`, what was saved by the first run and by the second, and where.
    """

    def __init__(
        self, run: Callable[[], Any], state: Any, check: bool, early_stop: bool, debug: bool
    ) -> None:
        self.run, self.state, self.check, self.early_stop = run, state, check, early_stop
        self.autocast = autocast.kept()
        self.promised = 0
        self.made: dict[int, Any] = {}
        self.notes: tuple[list[str], list[str]] | None = ([], []) if debug else None

    def note(self, which: int, tensor: Any) -> None:
        if self.notes is not None:
            notes = self.notes[which]
            notes.append(
                f"tensor {len(notes)}: {tensor.array.shape} {tensor.array.dtype}, saved by\n"
                f"{called_from()}"
            )

    def pack(self, tensor: Any) -> Any:
        self.promised += 1
        self.note(0, tensor)
        promise = Promise(self, self.promised - 1, tensor.array)
        if promised.now is not None:
            promised.now.append((promise, tensor))
        return promise

    def unpack(self, promise: Any) -> Any:
        if promise.tensor is not None:
            return promise.tensor
        try:
            return self.kept(promise)
        except CheckpointError as error:
            if self.notes is None:
                raise
            first, second = ("\n".join(notes) for notes in self.notes)
            raise CheckpointError(
                f"{error}\n\nThe original forward saved\n{first}\n\nThe recomputation saved\n"
                f"{second}"
            ) from error

    def kept(self, promise: Any) -> Any:
        if promise.index not in self.made:
            self.run_again()
        if promise.index not in self.made:
            raise CheckpointError(
                "checkpoint: A different number of tensors was saved during the original forward "
                f"and recomputation: {self.promised} and {len(self.made)}"
            )
        tensor = self.made.pop(promise.index)
        found = tensor.array.shape, tensor.array.dtype
        if self.check and found != (promise.shape, promise.dtype):
            raise CheckpointError(
                "checkpoint: Recomputed values for the following tensors have different metadata "
                f"than during the forward pass: tensor {promise.index}: saved {promise.shape} "
                f"{promise.dtype}, recomputed {found[0]} {found[1]}"
            )
        return tensor

    def run_again(self) -> None:
        made: dict[int, Any] = {}

        def keep(tensor: Any) -> Any:
            made[len(made)] = tensor
            self.note(1, tensor)
            if self.early_stop and len(made) == self.promised:
                raise _Stop
            return tensor

        try:
            with (
                enable_grad(),
                _replayed(self.state),
                autocast.reentered(self.autocast),
                _hooked(Pair(keep, lambda t: t)),
            ):
                self.run()
        except _Stop:
            pass
        self.made = made


@contextmanager
def _hooked(pair: Pair) -> Iterator[None]:
    outer = pairs.get()
    watching.add(1)
    pairs.set((*outer, pair))
    try:
        yield
    finally:
        watching.add(-1)
        pairs.set(outer)


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] | None = None,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Runs a function without keeping what backward needs; backward runs it again.

    Args:
        function: takes the arguments; must do the same when it is run again.
        use_reentrant: False is the better one and the default: any tensors, keyword arguments,
            nested structures, `grad` too. True is the older flavour, without keyword arguments.
        context_fn: gives two context managers, for the first run and the second (not with
            re-entering).
        determinism_check: "default" compares shapes and dtypes of what is recomputed; "none".
        debug: an error of the second run tells what both runs saved, and where.
        early_stop: the second run ends as soon as nothing more is needed.
        preserve_rng_state: the second run draws the same random numbers.

    Raises:
        CheckpointError: in backward, if the second run differed.
        ValueError: arguments that the flavour does not take.
    """
    if use_reentrant:
        if kwargs or context_fn is not None or debug:
            raise ValueError(
                "checkpoint: Unexpected keyword arguments with use_reentrant=True: "
                f"{sorted(kwargs) or 'context_fn, debug'}"
            )
        if is_grad_enabled() and not any(
            isinstance(a, native.TensorBase) and a.node is not None for a in args
        ):
            warnings.warn(
                "checkpoint: None of the inputs have requires_grad=True. Gradients will be None",
                stacklevel=2,
            )
        return _Reentrant.apply(function, preserve_rng_state, *args)
    if _overrides.debug is not None:
        debug = _overrides.debug
    if debug and context_fn is not None:
        raise ValueError("checkpoint: debug=True is incompatible with non-default context_fn")
    if _overrides.early_stop is not None:
        early_stop = _overrides.early_stop
    first, second = context_fn() if context_fn is not None else (nullcontext(), nullcontext())
    state = default_generator.read() if preserve_rng_state else None

    def run() -> Any:
        with second:
            return function(*args, **kwargs)

    if not is_grad_enabled():
        with first:
            return function(*args, **kwargs)
    part = _Part(run, state, determinism_check == "default", early_stop, debug)
    with _hooked(Pair(part.pack, part.unpack)), first:
        return function(*args, **kwargs)


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
) -> Any:
    """Runs functions one after another, all segments but the last one checkpointed.

    Args:
        functions: modules or functions: an `nn.Sequential`, or a list.
        segments: into how many parts to cut them.
        input: what the first one takes.
    """
    steps = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(steps) // segments

    def part(chosen: Iterable[Any]) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            for step in chosen:
                x = step(x)
            return x

        return run

    for i in range(segments - 1):
        chosen = steps[i * size : (i + 1) * size]
        input = checkpoint(
            part(chosen), input, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state
        )
    return part(steps[(segments - 1) * size :])(input)
