"""Hooks on what backward saves: pack when it is saved, unpack when backward needs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from ... import native
from .node_hooks import Hook, HookPair, hook_pairs, observer_count


class saved_tensors_hooks:
    """In this block, every tensor that an op or a Function saves for backward goes through a hook.

    The innermost of nested blocks counts. Hooks run without recording history. Each thread and task
    has its own blocks.

    Parameters
    ----------
    pack_hook : callable
        Called with a tensor when it is saved; may return anything.
    unpack_hook : callable
        Called with that when backward needs the tensor; returns a tensor with the same values.

    Raises
    ------
    RuntimeError
        The pack hook writes its tensor; hooks are disabled here.
    TypeError
        The unpack hook returned no tensor.

    See Also
    --------
    save_on_cpu, graph.disable_saved_tensors_hooks

    Examples
    --------
    >>> def to_half(x):
    ...     return x.half()
    >>> x = st.tensor([2.0], requires_grad=True)
    >>> with st.autograd.saved_tensors_hooks(to_half, lambda half: half.float()):
    ...     y = x * x
    >>> y.backward()
    >>> x.grad
    tensor([4.])
    """

    def __init__(self, pack_hook: Hook, unpack_hook: Hook) -> None:
        self.pair = HookPair(pack_hook, unpack_hook)

    def __enter__(self) -> None:
        outer = hook_pairs.get()
        if outer and outer[0].error_message is not None and self.pair.error_message is None:
            raise RuntimeError(f"saved_tensors_hooks: {outer[0].error_message}")
        observer_count.add(1)
        hook_pairs.set((*outer, self.pair))

    def __exit__(self, *_: object) -> None:
        observer_count.add(-1)
        hook_pairs.set(hook_pairs.get()[:-1])


class save_on_cpu(saved_tensors_hooks):
    """Saves tensors for backward in the CPU's memory; those on the CPU stay where they are.

    Parameters
    ----------
    pin_memory : bool, optional
        Whether copies lie in page-locked memory.
    device_type : str, optional
        Accepted; has no effect.

    See Also
    --------
    saved_tensors_hooks

    Notes
    -----
    Copies: none for a tensor that is on the CPU already.

    Examples
    --------
    >>> x = st.ones(2, requires_grad=True)
    >>> with st.autograd.save_on_cpu():
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 2.])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Any) -> Any:
            on_cpu = tensor.cpu()
            return tensor.device, on_cpu.pin_memory() if pin_memory else on_cpu

        def unpack(value: Any) -> Any:
            device, tensor = value
            return tensor.to(device, non_blocking=pin_memory)

        super().__init__(pack, unpack)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """In this block, `saved_tensors_hooks` is an error with a message.

    Parameters
    ----------
    error_message : str
        The message.

    Returns
    -------
    context manager

    Examples
    --------
    >>> with st.autograd.graph.disable_saved_tensors_hooks("not here"):
    ...     (st.ones(1, requires_grad=True) * 2).backward()
    """
    outer = hook_pairs.get()
    if outer and outer[0].error_message is None:
        raise RuntimeError(f"saved_tensors_hooks: {error_message}")
    hook_pairs.set((*outer, HookPair(_identity, _identity, error_message)))
    try:
        yield
    finally:
        hook_pairs.set(outer)


def _identity(value: Any) -> Any:
    return value


class _Handle:
    """The saved value that a graph holds in place of a copy."""


class _Clones(saved_tensors_hooks):
    """Saves copies, which are freed at the end of the block, or with their graph."""

    def __init__(self) -> None:
        super().__init__(self.save_clone, self.get_clone)
        self.clones: WeakKeyDictionary[_Handle, Any] = WeakKeyDictionary()

    def save_clone(self, tensor: Any) -> _Handle:
        handle = _Handle()
        self.clones[handle] = native.wrap(tensor.array.copy())
        return handle

    def get_clone(self, handle: _Handle) -> Any:
        if handle not in self.clones:
            raise AssertionError(
                "allow_mutation_on_saved_tensors: Trying to backward outside of the "
                "'allow_mutation_on_saved_tensors' context in which the graph was originally "
                "recorded"
            )
        return self.clones[handle]

    def clear(self) -> None:
        """Drops all copies."""
        self.clones.clear()


_open_blocks: list[_Clones] = []  # of all threads; at most one


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[Any]:
    """In this block, tensors that were saved for backward may be written in place; backward runs
    in the same block.

    Returns
    -------
    context manager

    Raises
    ------
    RuntimeError
        Such a block is open already.
    AssertionError
        In a backward after the block.

    Notes
    -----
    Copies: one of every tensor that is saved in the block.

    Examples
    --------
    >>> x = st.tensor([2.0], requires_grad=True)
    >>> with st.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x * 1
    ...     z = y * y
    ...     _ = y.zero_()
    ...     z.backward()
    >>> x.grad
    tensor([4.])
    """
    if _open_blocks:
        raise RuntimeError(
            "allow_mutation_on_saved_tensors: contexts cannot be nested: one is open already"
        )
    clones = _Clones()
    _open_blocks.append(clones)
    try:
        with clones:
            yield clones
    finally:
        clones.clear()
        _open_blocks.clear()
