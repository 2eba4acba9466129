"""`optimizer.state` and its entries: dictionaries that note when the program replaces something.

Note [State from outside]
A step makes the state of a parameter in its flat's blocks, and puts tensors over them into
`optimizer.state[p]`. The program may put tensors of its own there, before or after: in shared
memory, for example, so that several processes use one state. Then they are the state: the parameter
gets a flat of its own (parameters_to_move.py), whose state and step count are these tensors'
memory. So that a step need not compare all tensors, the dictionaries note each replacement in
`Changes`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from ...tensor import Tensor


class Changes:
    """Whether the program has replaced state since the last step."""

    __slots__ = ("any",)

    def __init__(self) -> None:
        self.any = False


class State(defaultdict[Any, Any]):
    """`optimizer.state`: an entry for each parameter. It is copied and pickled as a defaultdict."""

    __slots__ = ("changes",)

    def __init__(self, changes: Changes, items: Any = ()) -> None:
        super().__init__(dict, items)
        self.changes = changes

    def __setitem__(self, key: Any, value: Any) -> None:
        self.changes.any = True
        super().__setitem__(key, value)

    def update(self, *args: Any, **kwargs: Any) -> None:
        self.changes.any = True
        super().update(*args, **kwargs)

    def __ior__(self, other: Any) -> State:  # type: ignore[misc]
        self.update(other)
        return self

    def __reduce__(self) -> Any:
        return defaultdict, (dict,), None, None, iter(self.items())

    def copy(self) -> Any:
        return defaultdict(dict, self)

    def __copy__(self) -> Any:
        return self.copy()


class Entry(dict[str, Any]):
    """`optimizer.state[p]` as a step made it. It is copied and pickled as a dict.

    Attributes:
        own: the tensors over a flat's memory that the step reads and writes, with their arrays.
        flat: that flat.
    """

    __slots__ = ("changes", "flat", "own")

    def __init__(self, changes: Changes, flat: Any, own: dict[str, Any], extra: Any = ()) -> None:
        super().__init__(own)
        dict.update(self, extra)
        self.changes, self.flat = changes, flat
        self.own: dict[str, Any] = {name: (tensor, tensor.array) for name, tensor in own.items()}

    def put(self, name: str, tensor: Any) -> None:
        """Replaces a tensor by another one over the flat's memory."""
        super().__setitem__(name, tensor)
        self.own[name] = tensor, tensor.array

    @property
    def is_intact(self) -> bool:
        """Whether all tensors are the step's own."""
        get = self.get
        return all(t.array is a and get(name) is t for name, (t, a) in self.own.items())

    def is_of(self, flat: Any, names: tuple[str, ...]) -> bool:
        """Whether it has all tensors of these names, over the memory of that flat."""
        return self.flat is flat and self.is_intact and self.own.keys() >= set(names)

    def __setitem__(self, key: str, value: Any) -> None:
        if key in self.own:
            self.changes.any = True
        super().__setitem__(key, value)

    def __delitem__(self, key: str) -> None:
        self.changes.any = True
        super().__delitem__(key)

    def update(self, *args: Any, **kwargs: Any) -> None:
        self.changes.any = True
        super().update(*args, **kwargs)

    def __ior__(self, other: Any) -> Entry:  # type: ignore[override,misc]
        self.update(other)
        return self

    def pop(self, *args: Any) -> Any:
        self.changes.any = True
        return super().pop(*args)

    def popitem(self) -> tuple[str, Any]:
        self.changes.any = True
        return super().popitem()

    def clear(self) -> None:
        self.changes.any = True
        super().clear()

    def __reduce__(self) -> Any:
        return dict, (), None, None, iter(self.items())


def is_outside(entry: Any, names: set[str]) -> bool:
    """Whether an entry has a tensor of the program's under one of the names."""
    if type(entry) is not Entry:
        return isinstance(entry, dict) and any(isinstance(entry.get(n), Tensor) for n in names)
    own = entry.own
    return any(
        isinstance(value := entry.get(name), Tensor)
        and (name not in own or value is not own[name][0] or value.array is not own[name][1])
        for name in names
    )
