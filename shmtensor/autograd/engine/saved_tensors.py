"""Hooks on what backward saves: pack when it is saved, unpack when backward needs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from ... import native
from .node_hooks import Hook, Pair, pairs, watching

__all__ = [
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class saved_tensors_hooks:
    """In this block, every tensor that an op or a Function saves for backward goes through a hook.

    `pack_hook(tensor)` is called when it is saved, and may return anything; `unpack_hook(that)` is
    called when backward needs it, and returns a tensor with the same values. Of nested blocks the
    innermost counts. Hooks run without recording history. Of each thread, and task, its own.

    ```python
    with saved_tensors_hooks(lambda x: save(x), lambda name: load(name)):
        y = model(x)
    y.sum().backward()
    ```

    Raises:
        RuntimeError: the pack hook writes its tensor; hooks are disabled here.
        TypeError: the unpack hook gave no tensor.
    """

    def __init__(self, pack_hook: Hook, unpack_hook: Hook) -> None:
        self.pair = Pair(pack_hook, unpack_hook)

    def __enter__(self) -> None:
        outer = pairs.get()
        if outer and outer[0].refused is not None and self.pair.refused is None:
            raise RuntimeError(f"saved_tensors_hooks: {outer[0].refused}")
        watching.add(1)
        pairs.set((*outer, self.pair))

    def __exit__(self, *_: object) -> None:
        watching.add(-1)
        pairs.set(pairs.get()[:-1])


class save_on_cpu(saved_tensors_hooks):
    """Keeps what is saved for backward in the CPU's memory. On the CPU it stays where it is.

    Copies: none for a tensor that is on the CPU already.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Any) -> Any:
            kept = tensor.cpu()
            return tensor.device, kept.pin_memory() if pin_memory else kept

        def unpack(packed: Any) -> Any:
            device, tensor = packed
            return tensor.to(device, non_blocking=pin_memory)

        super().__init__(pack, unpack)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """In this block, `saved_tensors_hooks` is an error with that message."""
    outer = pairs.get()
    if outer and outer[0].refused is None:
        raise RuntimeError(f"saved_tensors_hooks: {error_message}")
    pairs.set((*outer, Pair(_same, _same, error_message)))
    try:
        yield
    finally:
        pairs.set(outer)


def _same(value: Any) -> Any:
    return value


class _Handle:
    """Stands for a copy in the graph that saved it."""


class _Clones(saved_tensors_hooks):
    """Saves copies. They are gone when the block ends, or with their graph."""

    def __init__(self) -> None:
        super().__init__(self.keep, self.kept)
        self.clones: WeakKeyDictionary[_Handle, Any] = WeakKeyDictionary()

    def keep(self, tensor: Any) -> _Handle:
        handle = _Handle()
        self.clones[handle] = native.wrap(tensor.array.copy())
        return handle

    def kept(self, handle: _Handle) -> Any:
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


_allowing: list[_Clones] = []  # the open block, whose thread does not matter


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[Any]:
    """In this block, tensors that were saved for backward may be written in place. Backward runs in
    the same block.

    Copies: one of every tensor that is saved here, when it is saved.

    Raises:
        RuntimeError: such a block is open already.
        AssertionError: in a backward after the block.
    """
    if _allowing:
        raise RuntimeError(
            "allow_mutation_on_saved_tensors: contexts cannot be nested: one is open already"
        )
    clones = _Clones()
    _allowing.append(clones)
    try:
        with clones:
            yield clones
    finally:
        clones.clear()
        _allowing.clear()
