"""Checkpointing: part of the forward pass saves nothing for backward, which recomputes it.

There are two variants. Without re-entering (`use_reentrant=False`), the function runs as usual, but
each tensor that its ops save is replaced by a placeholder. The first placeholder that backward
unpacks recomputes the function, which fills them all. With re-entering, a Function's backward
recomputes the function and calls `backward` on it. Then at least one input must require grad, and
`grad` does not work.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from .. import native
from ..ops.random.generators import read_states, write_states
from .dispatch import autocast
from .engine.backward import backward
from .engine.current_backward import backward_state
from .engine.node_hooks import HookPair, forward_traceback, hook_pairs, observer_count
from .function import Function
from .grad_mode import enable_grad, is_grad_enabled


class CheckpointError(RuntimeError):
    """The recomputation of a checkpointed function differed from the first run."""


class _StopRecomputation(BaseException):
    """Ends a recomputation once all placeholders are filled."""


class _Overrides:
    """Values that replace `checkpoint`'s own arguments; None: no replacement."""

    early_stop: bool | None = None
    debug: bool | None = None


_overrides = _Overrides()


@contextmanager
def _override(name: str, value: bool | None) -> Iterator[None]:
    former = getattr(_overrides, name)
    setattr(_overrides, name, value)
    try:
        yield
    finally:
        setattr(_overrides, name, former)


def set_checkpoint_early_stop(enable: bool) -> AbstractContextManager[None]:
    """In this block, overrides `early_stop` of the checkpoints: whether a recomputation ends as
    soon as nothing more is needed.

    Parameters
    ----------
    enable : bool
        Whether.

    Returns
    -------
    context manager

    Examples
    --------
    >>> from shmtensor.utils import checkpoint
    >>> with checkpoint.set_checkpoint_early_stop(False):
    ...     y = checkpoint.checkpoint(st.exp, st.zeros(1, requires_grad=True))
    """
    return _override("early_stop", enable)


def set_checkpoint_debug_enabled(enabled: bool | None) -> AbstractContextManager[None]:
    """In this block, overrides `debug` of the checkpoints.

    Parameters
    ----------
    enabled : bool or None
        None is no override.

    Returns
    -------
    context manager

    Examples
    --------
    >>> from shmtensor.utils import checkpoint
    >>> with checkpoint.set_checkpoint_debug_enabled(True):
    ...     y = checkpoint.checkpoint(st.exp, st.zeros(1, requires_grad=True))
    """
    return _override("debug", enabled)


@contextmanager
def _restored_rng(state: Any) -> Iterator[None]:
    """In this block, random generators start from these states; afterwards they are restored."""
    if state is None:
        yield
        return
    former = read_states()
    write_states(state)
    try:
        yield
    finally:
        write_states(former)


def _detached(value: Any) -> Any:
    if isinstance(value, native.TensorBase):
        tensor: Any = value
        return tensor.detach().requires_grad_(tensor.requires_grad)
    return value


class _Reentrant(Function):
    """The variant that re-enters."""

    @staticmethod
    def forward(ctx: Any, function: Any, preserve: bool, *args: Any) -> Any:
        ctx.function_, ctx.state = function, read_states() if preserve else None
        ctx.autocast = autocast.snapshot()
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
        with enable_grad(), _restored_rng(ctx.state), autocast.restored(ctx.autocast):
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
        input_grads = (getattr(a, "grad", None) if t else None for a, t in zip(args, ctx.is_tensor))
        return (None, None, *input_grads)


def _refuse_inputs(grads: Any) -> None:
    """A hook before the backward of a checkpoint that re-enters: that reaches all leaves."""
    run = backward_state.current
    if run is not None and run.must_run is not None:
        raise RuntimeError(
            "checkpoint: When use_reentrant=True, checkpoint is incompatible with .grad() or "
            "passing an `inputs` parameter to .backward(): set use_reentrant=False, or call "
            ".backward() without `inputs`"
        )


class Placeholder:
    """Replaces a saved tensor: its index, shape and dtype.

    Attributes:
        tensor: the tensor itself, if a policy keeps it.
    """

    __slots__ = ("call", "dtype", "index", "shape", "tensor")

    def __init__(self, call: _CheckpointedCall, index: int, array: Any) -> None:
        self.call, self.index, self.shape, self.dtype = call, index, array.shape, array.dtype
        self.tensor: Any = None

    def keep(self, tensor: Any) -> None:
        """Keeps the tensor, so the recomputation does not save it. Call it for the last index
        first.
        """
        self.tensor = tensor
        self.call.n_placeholders -= 1


class PlaceholderLog(threading.local):
    """This thread's placeholders with their tensors, while a selective checkpoint logs them."""

    now: list[tuple[Placeholder, Any]] | None = None


placeholder_log = PlaceholderLog()


class _CheckpointedCall:
    """A checkpointed call: how to recompute it, and the recomputed tensors.

    Attributes:
        notes: under `debug`, descriptions of the tensors that the first run and the recomputation
            saved.
    """

    def __init__(
        self, run: Callable[[], Any], state: Any, check: bool, early_stop: bool, debug: bool
    ) -> None:
        self.run, self.state, self.check, self.early_stop = run, state, check, early_stop
        self.autocast = autocast.snapshot()
        self.n_placeholders = 0
        self.recomputed: dict[int, Any] = {}
        self.notes: tuple[list[str], list[str]] | None = ([], []) if debug else None

    def note(self, run: int, tensor: Any) -> None:
        if self.notes is not None:
            notes = self.notes[run]
            notes.append(
                f"tensor {len(notes)}: {tensor.array.shape} {tensor.array.dtype}, saved by\n"
                f"{forward_traceback()}"
            )

    def pack(self, tensor: Any) -> Any:
        self.n_placeholders += 1
        self.note(0, tensor)
        placeholder = Placeholder(self, self.n_placeholders - 1, tensor.array)
        if placeholder_log.now is not None:
            placeholder_log.now.append((placeholder, tensor))
        return placeholder

    def unpack(self, placeholder: Any) -> Any:
        if placeholder.tensor is not None:
            return placeholder.tensor
        try:
            return self.recomputed_tensor(placeholder)
        except CheckpointError as error:
            if self.notes is None:
                raise
            first, second = ("\n".join(notes) for notes in self.notes)
            raise CheckpointError(
                f"{error}\n\nThe original forward saved\n{first}\n\nThe recomputation saved\n"
                f"{second}"
            ) from error

    def recomputed_tensor(self, placeholder: Any) -> Any:
        if placeholder.index not in self.recomputed:
            self.recompute()
        if placeholder.index not in self.recomputed:
            raise CheckpointError(
                "checkpoint: A different number of tensors was saved during the original forward "
                f"and recomputation: {self.n_placeholders} and {len(self.recomputed)}"
            )
        tensor = self.recomputed.pop(placeholder.index)
        metadata = tensor.array.shape, tensor.array.dtype
        if self.check and metadata != (placeholder.shape, placeholder.dtype):
            raise CheckpointError(
                "checkpoint: Recomputed values for the following tensors have different metadata "
                f"than during the forward pass: tensor {placeholder.index}: saved "
                f"{placeholder.shape} {placeholder.dtype}, recomputed {metadata[0]} {metadata[1]}"
            )
        return tensor

    def recompute(self) -> None:
        tensors: dict[int, Any] = {}

        def collect(tensor: Any) -> Any:
            tensors[len(tensors)] = tensor
            self.note(1, tensor)
            if self.early_stop and len(tensors) == self.n_placeholders:
                raise _StopRecomputation
            return tensor

        try:
            with (
                enable_grad(),
                _restored_rng(self.state),
                autocast.restored(self.autocast),
                _with_hooks(HookPair(collect, lambda t: t)),
            ):
                self.run()
        except _StopRecomputation:
            pass
        self.recomputed = tensors


@contextmanager
def _with_hooks(pair: HookPair) -> Iterator[None]:
    outer = hook_pairs.get()
    observer_count.add(1)
    hook_pairs.set((*outer, pair))
    try:
        yield
    finally:
        observer_count.add(-1)
        hook_pairs.set(outer)


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
    """Runs a function without saving tensors for backward; backward recomputes it: memory for
    time.

    Parameters
    ----------
    function : callable
        Takes the arguments; must do the same when it is recomputed.
    *args, **kwargs
        Its arguments.
    use_reentrant : bool, optional
        False is the better variant and the default: any tensors, keyword arguments, nested
        structures, and `grad`. True is the older variant, without keyword arguments.
    context_fn : callable, optional
        Returns two context managers, for the first run and the recomputation (not with
        re-entering).
    determinism_check : str, optional
        "default" compares shapes and dtypes of the recomputed tensors; "none".
    debug : bool, optional
        Whether an error of the recomputation lists the tensors that both runs saved, and where.
    early_stop : bool, optional
        Whether the recomputation ends as soon as nothing more is needed.
    preserve_rng_state : bool, optional
        Whether the recomputation draws the same random numbers.

    Returns
    -------
    any
        What the function returns.

    Raises
    ------
    CheckpointError
        In backward, if the recomputation differed.
    ValueError
        Arguments that the variant does not take.
    RuntimeError
        In backward, if that is for some inputs only (`grad`) and re-enters.

    See Also
    --------
    checkpoint_sequential, create_selective_checkpoint_contexts

    Notes
    -----
    Chen et al. 2016.

    Examples
    --------
    >>> from shmtensor.utils.checkpoint import checkpoint
    >>> block = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 4))
    >>> x = st.ones(2, 4, requires_grad=True)
    >>> checkpoint(block, x, use_reentrant=False).sum().backward()
    >>> x.grad.shape
    Size([2, 4])
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
        outputs = _Reentrant.apply(function, preserve_rng_state, *args)
        for out in outputs if isinstance(outputs, (tuple, list)) else (outputs,):
            grad_fn = getattr(out, "grad_fn", None)
            if grad_fn is not None:
                grad_fn.register_prehook(_refuse_inputs)
                break
        return outputs
    if _overrides.debug is not None:
        debug = _overrides.debug
    if debug and context_fn is not None:
        raise ValueError("checkpoint: debug=True is incompatible with non-default context_fn")
    if _overrides.early_stop is not None:
        early_stop = _overrides.early_stop
    forward_context, recompute_context = (
        (nullcontext(), nullcontext()) if context_fn is None else context_fn()
    )
    state = read_states() if preserve_rng_state else None

    def run() -> Any:
        with recompute_context:
            return function(*args, **kwargs)

    if not is_grad_enabled():
        with forward_context:
            return function(*args, **kwargs)
    call = _CheckpointedCall(run, state, determinism_check == "default", early_stop, debug)
    with _with_hooks(HookPair(call.pack, call.unpack)), forward_context:
        return function(*args, **kwargs)


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
) -> Any:
    """Runs functions one after another, all segments but the last one checkpointed.

    Parameters
    ----------
    functions : Sequential or list
        Modules or functions.
    segments : int
        The number of parts to split them into.
    input : Tensor
        The argument of the first one.
    use_reentrant : bool, optional
        As in `checkpoint`.
    preserve_rng_state : bool, optional
        Whether the recomputation draws the same random numbers.

    Returns
    -------
    any
        What the last one returns.

    See Also
    --------
    checkpoint

    Examples
    --------
    >>> from shmtensor.utils.checkpoint import checkpoint_sequential
    >>> model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(6)))
    >>> x = st.ones(2, 4, requires_grad=True)
    >>> checkpoint_sequential(model, 3, x, use_reentrant=False).shape
    Size([2, 4])
    """
    steps = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(steps) // segments

    def compose(segment: Iterable[Any]) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            for step in segment:
                x = step(x)
            return x

        return run

    for i in range(segments - 1):
        segment = steps[i * size : (i + 1) * size]
        input = checkpoint(
            compose(segment),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve_rng_state,
        )
    return compose(steps[(segments - 1) * size :])(input)
