"""Containers: Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict.

All five are in one long file, as in PyTorch.
"""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import groupby
from typing import Any, TypeVar

from ...tensor import Tensor
from ..parameter import Parameter
from .module import Module
from .traversal import kind_of

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]

Self = TypeVar("Self", bound="_Numbered")


class _Numbered(Module):
    """Children under the names "0", "1", ..."""

    def _name(self, index: Any) -> str:
        try:
            i = operator.index(index)
        except TypeError:
            raise TypeError(
                f"{type(self).__name__}: indices are integers or slices: {index!r}"
            ) from None
        n = len(self)
        if not -n <= i < n:
            raise IndexError(f"{type(self).__name__}: index {i} is out of range, it has {n} items")
        return list(self._modules)[i % n] if n else ""

    def _renumber(self, modules: Iterable[Any]) -> None:
        modules = list(modules)
        self._modules.clear()
        self._modules.update((str(i), module) for i, module in enumerate(modules))

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._part(list(self._modules.items())[index])
        return self._modules[self._name(index)]

    def _part(self, items: list[tuple[str, Any]]) -> Any:
        return type(self)([module for _, module in items])

    def __setitem__(self, index: Any, module: Module) -> None:
        setattr(self, self._name(index), module)

    def __delitem__(self, index: Any) -> None:
        names = list(self._modules)
        removed = names[index] if isinstance(index, slice) else [self._name(index)]
        for name in removed:
            del self._modules[name]
        self._renumber(self._modules.values())

    def append(self: Self, module: Any) -> Self:
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self: Self, modules: Iterable[Any]) -> Self:
        """Adds several modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"{type(self).__name__}.extend: expected an iterable: {type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def insert(self: Self, index: int, module: Module) -> Self:
        """Puts a module before the one at `index`."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}: got {type(module)}")
        n = len(self)
        if not -n <= index <= n:
            raise IndexError(f"insert: index {index} is out of range, there are {n} modules")
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def pop(self, key: int | slice) -> Any:
        """Removes the module at `key` and returns it."""
        value = self[key]
        del self[key]
        return value


class Sequential(_Numbered):
    """A chain of modules: each receives what the one before it returned.

    Parameters
    ----------
    *args : Module or OrderedDict
        The modules, in order, or one dictionary that also names them.

    Raises
    ------
    TypeError
        An argument is not a Module.

    See Also
    --------
    ModuleList

    Notes
    -----
    It is indexed, sliced, extended and joined by `+` like a list; `*` repeats the same modules.

    Examples
    --------
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> model(st.ones(3, 4)).shape
    Size([3, 2])
    >>> model[:2]
    Sequential(
      (0): Linear(in_features=4, out_features=8, bias=True)
      (1): ReLU()
    )
    >>> model.append(nn.Sigmoid())[-1]
    Sigmoid()
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], (OrderedDict, dict)):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def _part(self, items: list[tuple[str, Any]]) -> Any:
        return type(self)(OrderedDict(items))

    def __add__(self, other: Iterable[Any]) -> Sequential:
        return Sequential(*self, *other)

    def __iadd__(self, other: Iterable[Any]) -> Sequential:
        return self.extend(other)

    def __mul__(self, n: int) -> Sequential:
        return Sequential(*self._repeat(n))

    __rmul__ = __mul__

    def __imul__(self, n: int) -> Sequential:
        return self.extend(self._repeat(n)[len(self) :])

    def _repeat(self, n: int) -> list[Any]:
        """The modules n times over: the same modules, which share their parameters."""
        if not isinstance(n, int):
            raise TypeError(f"unsupported operand type(s) for *: Sequential and {kind_of(n)}")
        if n <= 0:
            raise ValueError(f"Sequential: multiplication factor must be positive: {n}")
        return [*self] * n

    def forward(self, input: Any) -> Any:
        """The result of the last module."""
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(_Numbered):
    """A list of modules that are registered.

    Parameters
    ----------
    modules : iterable of Module, optional
        The first modules.

    See Also
    --------
    Sequential, ModuleDict, ParameterList

    Notes
    -----
    It has no `forward`: the model that owns it says in which order they are called.

    Examples
    --------
    >>> layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
    >>> x = st.ones(1, 2)
    >>> for layer in layers:
    ...     x = layer(x)
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def __repr__(self) -> str:
        """Neighbours with equal text are one line: `(0-1): 2 x ReLU()`."""
        lines = []
        first = 0
        for text, group in groupby(repr(module) for module in self):
            n = len(list(group))
            indices = f"({first})" if n == 1 else f"({first}-{first + n - 1})"
            times = "" if n == 1 else f"{n} x "
            lines.append(f"{indices}: {times}{text}".replace("\n", "\n  "))
            first += n
        if not lines:
            return f"{self._get_name()}()"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """A dictionary of modules that are registered.

    Parameters
    ----------
    modules : mapping or iterable of (str, Module), optional
        The first modules.

    See Also
    --------
    ModuleList, ParameterDict

    Examples
    --------
    >>> heads = nn.ModuleDict({"class": nn.Linear(4, 10), "box": nn.Linear(4, 4)})
    >>> heads["box"](st.ones(1, 4)).shape
    Size([1, 4])
    >>> list(heads.keys())
    ['class', 'box']
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Removes all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Removes a module and returns it."""
        return self._modules.pop(key)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._modules.keys()

    def items(self) -> ItemsView[str, Any]:
        """Names and modules."""
        return self._modules.items()

    def values(self) -> ValuesView[Any]:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Adds modules from a mapping or from pairs."""
        pairs = modules.items() if hasattr(modules, "items") else modules
        for key, module in _pairs("ModuleDict", pairs):
            self[key] = module


class ParameterList(Module):
    """A list of parameters that are registered; tensors in it become Parameters.

    Parameters
    ----------
    values : iterable, optional
        The first values.

    See Also
    --------
    ModuleList, ParameterDict

    Examples
    --------
    >>> weights = nn.ParameterList([st.ones(2), st.zeros(3)])
    >>> [p.requires_grad for p in weights], len(weights)
    ([True, True], 2)
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _name(self, index: Any) -> str:
        i = operator.index(index)
        if not -self._size <= i < self._size:
            raise IndexError(f"ParameterList: index {i} is out of range, it has {self._size} items")
        return str(i % self._size)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(self._size)])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(self[i] for i in range(*index.indices(self._size)))
        return getattr(self, self._name(index))

    def __setitem__(self, index: int, value: Any) -> None:
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, self._name(index), value)

    def append(self, value: Any) -> ParameterList:
        """Adds a value at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Adds several values at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend: expected an iterable: {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    __iadd__ = extend

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"ParameterList should not be called: got {args} {kwargs}")

    def extra_repr(self) -> str:
        return "\n".join(_describe(str(i), value) for i, value in enumerate(self))


class ParameterDict(Module):
    """A dictionary of parameters that are registered; tensors in it become Parameters.

    Parameters
    ----------
    parameters : mapping or iterable of (str, value), optional
        The first values. The names of a plain dictionary are sorted; those of an OrderedDict, a
        ParameterDict or pairs keep their order, as in PyTorch.

    See Also
    --------
    ModuleDict, ParameterList

    Examples
    --------
    >>> weights = nn.ParameterDict({"left": st.ones(2), "right": st.zeros(3)})
    >>> weights["left"].requires_grad, list(weights.keys())
    (True, ['left', 'right'])
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._check_key(key))

    @staticmethod
    def _check_key(key: Any) -> str:
        if not isinstance(key, str):
            raise TypeError(f"ParameterDict: a key must be a string: {key!r} is {kind_of(key)}")
        return key

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[self._check_key(key)] = None
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, key, value)

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __or__(self, other: ParameterDict) -> ParameterDict:
        result = self.copy()
        result.update(other)
        return result

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other)
        return self

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._keys.keys()

    def values(self) -> list[Any]:
        """The values."""
        return [self[key] for key in self._keys]

    def items(self) -> list[tuple[str, Any]]:
        """Names and values."""
        return [(key, self[key]) for key in self._keys]

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a name, or `default`."""
        return self[key] if key in self._keys else default

    def pop(self, key: str) -> Any:
        """Removes a value and returns it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Removes the value that was added last; returns its name and value."""
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of a name; if there is none, `default` is added first."""
        if key not in self._keys:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Removes all values."""
        for key in list(self._keys):
            del self[key]

    def copy(self) -> ParameterDict:
        """A new ParameterDict of the same values."""
        return ParameterDict(self.items())

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new ParameterDict in which each key has the value `default`."""
        return ParameterDict((key, default) for key in keys)

    def update(self, parameters: Any) -> None:
        """Adds values from a mapping (a plain one in sorted order of its keys) or from pairs."""
        if isinstance(parameters, (OrderedDict, ParameterDict)):
            parameters = parameters.items()
        elif isinstance(parameters, Mapping):
            parameters = sorted(parameters.items())
        for key, value in _pairs("ParameterDict", parameters):
            self[key] = value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"ParameterDict should not be called: got {args} {kwargs}")

    def extra_repr(self) -> str:
        return "\n".join(_describe(key, value) for key, value in self.items())


def _pairs(where: str, pairs: Any) -> Iterator[tuple[str, Any]]:
    """The pairs, each checked to be one."""
    if not isinstance(pairs, Iterable):
        raise TypeError(f"{where}.update: expected a mapping or pairs: {kind_of(pairs)}")
    for i, pair in enumerate(pairs):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{where}.update: element #{i} is no pair: {kind_of(pair)}")
        key_and_value = tuple(pair)
        if len(key_and_value) != 2:
            raise ValueError(
                f"{where}.update: element #{i} has length {len(key_and_value)}; 2 is required"
            )
        yield key_and_value


def _describe(name: str, value: Any) -> str:
    """A line of `extra_repr`, indented more than modules are, as in PyTorch."""
    if isinstance(value, Tensor):
        kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
        size = "x".join(str(n) for n in value.shape)
        return f"  ({name}): {kind} containing: [{value.dtype.name} of size {size}]"
    return f"  ({name}): Object of type: {type(value).__name__}"
