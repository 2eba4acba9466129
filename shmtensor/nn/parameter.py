"""Parameter and Buffer, and their uninitialized forms, whose shape is not yet known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ..autograd.dispatch import torch_function
from ..autograd.dispatch.foreign_operands import refuse_foreign
from ..functions import empty
from ..tensor import Tensor
from ..tensor.register_pickling import reduce_tensor, register_class

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]


class Parameter(Tensor):
    """A tensor that becomes a parameter of the Module to which it is assigned.

    Parameters
    ----------
    data : Tensor, optional
        Of any shape; an empty one if None.
    requires_grad : bool, optional
        Whether gradients are computed for it.

    Raises
    ------
    TypeError
        data is not a Tensor.
    RuntimeError
        A gradient is asked for of whole numbers or bool.

    See Also
    --------
    Buffer, Module

    Notes
    -----
    Copies: none (the parameter is the memory of `data`).

    Examples
    --------
    >>> layer = nn.Module()
    >>> layer.scale = nn.Parameter(st.ones(2))
    >>> layer.scale
    Parameter containing:
    tensor([1., 1.], requires_grad=True)
    >>> list(layer.state_dict())
    ['scale']
    """

    keeps_class = False  # results computed from parameters are plain tensors

    # No __slots__: users set attributes on their parameters (weight.is_shared_expert = True).

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = Tensor([])
        if not isinstance(data, Tensor):
            refuse_foreign("Parameter", (data,))
            raise TypeError(
                f"Parameter: data must be a Tensor: got {type(data).__name__}, "
                "hint: tensor(data) makes one"
            )
        if requires_grad and data.dtype.kind not in "fc":
            raise RuntimeError(
                "Parameter: only floating-point and complex tensors can require gradients: "
                f"got dtype {data.dtype.name}, hint: pass requires_grad=False"
            )
        self = Tensor.__new__(cls)
        self.array = data.array
        self.node = self.version = self.base = self.accumulate_grad = None
        if requires_grad:
            self.requires_grad_(True)
        return self

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        pass

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
        copied: Parameter = memo[id(self)]
        return copied

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


class Buffer(Tensor):
    """A tensor that becomes a buffer of the Module to which it is assigned: state without
    gradients.

    Parameters
    ----------
    data : Tensor, optional
        The tensor; an empty one if None.
    persistent : bool, optional
        Whether it is part of `state_dict`.

    See Also
    --------
    Parameter, Module

    Examples
    --------
    >>> layer = nn.Module()
    >>> layer.mean = nn.Buffer(st.zeros(2))
    >>> layer.cache = nn.Buffer(st.zeros(2), persistent=False)
    >>> list(layer.state_dict()), len(list(layer.buffers()))
    (['mean'], 2)
    """

    keeps_class = False
    persistent: bool

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Buffer:
        self = Tensor.__new__(cls)
        self.array = (Tensor([]) if data is None else data).array
        self.node = self.version = self.base = self.accumulate_grad = None
        self.persistent = persistent
        return self

    def __init__(self, data: Any = None, *, persistent: bool = True) -> None:
        pass


# The methods of a tensor without a shape: conversion of dtype and device, and queries of these.
_ALLOWED = {
    "_to_copy", "bfloat16", "char", "copy_", "cpu", "cuda", "double", "float", "get_device", "half",
    "int", "is_complex", "is_floating_point", "long", "requires_grad_", "share_memory_", "short",
    "size", "to",
}  # fmt: skip
_REFUSED = {
    name for name in dir(Tensor) if not name.startswith("_") and callable(getattr(Tensor, name))
} - _ALLOWED


class UninitializedTensorMixin:
    """Base of UninitializedParameter and UninitializedBuffer, which have no shape and no data."""

    __slots__ = ()

    cls_to_become: type[Tensor]
    data: Tensor
    dtype: Any
    device: Any
    requires_grad: bool

    def materialize(
        self, shape: int | Sequence[int], device: Any = None, dtype: Any = None
    ) -> None:
        """Allocates uninitialised memory, and changes the class to `cls_to_become`.

        Parameters
        ----------
        shape : int or sequence of int
            The sizes.
        device, dtype : optional
            Those of the constructor if None.
        """
        tensor: Any = self
        tensor.data = empty(shape, device=device or self.device, dtype=dtype or self.dtype)
        tensor.__class__ = self.cls_to_become

    @property
    def shape(self) -> NoReturn:
        raise RuntimeError(
            f"{type(self).__name__}.shape: an uninitialized parameter or buffer has no shape: "
            f"{self!r}, hint: call the lazy module's forward once; its state can be loaded only "
            "into a module that is uninitialized, too"
        )

    def size(self, dim: int | None = None) -> Any:
        """Size([0])."""
        return self.data.size(dim)

    def share_memory_(self) -> NoReturn:
        """Raises RuntimeError: there is no memory yet."""
        raise RuntimeError(
            f"share_memory_: an uninitialized parameter or buffer has no memory: {self!r}, "
            "hint: call the lazy module's forward once before"
        )

    def __getattribute__(self, name: str) -> Any:
        if name in _REFUSED:
            _refuse(name, type(self))
        return super().__getattribute__(name)

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func.__name__ not in _ALLOWED:
            _refuse(func.__name__, cls)
        with torch_function.disabled():
            return func(*args, **(kwargs or {}))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            remake, parts = self.__reduce_ex__(2)
            memo[id(self)] = remake(*parts)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, tuple[Any, ...]]:
        return type(self), (self.requires_grad, self.device, self.dtype)


def _refuse(name: str, cls: type) -> NoReturn:
    raise ValueError(
        f"{name}: attempted to use an uninitialized parameter: {cls.__name__}, hint: call the "
        "lazy module's forward once with a batch, which gives its parameters their shapes"
    )


def _refusing(name: str) -> Callable[..., NoReturn]:
    def method(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        _refuse(name, type(self))

    method.__name__ = name
    return method


for _name in (
    "__array__", "__bool__", "__complex__", "__contains__", "__dlpack__", "__float__",
    "__format__", "__index__", "__int__", "__iter__", "__len__", "__reversed__",
):  # fmt: skip  # Python looks these up in the class, without __getattribute__
    setattr(UninitializedTensorMixin, _name, _refusing(_name))


def is_lazy(param: Any) -> bool:
    """Whether it is an UninitializedParameter or UninitializedBuffer."""
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is not yet known; `materialize` makes it a Parameter.

    Parameters
    ----------
    requires_grad : bool, optional
        Whether gradients are computed for it.
    device : device, optional
        Where its memory will be.
    dtype : dtype, optional
        Of its elements; the default dtype if None.

    Examples
    --------
    >>> weight = nn.UninitializedParameter()
    >>> weight.materialize((2, 3))
    >>> type(weight).__name__, weight.shape
    ('Parameter', Size([2, 3]))
    """

    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: Any = None, dtype: Any = None
    ) -> UninitializedParameter:
        data = empty(0, device=device, dtype=dtype)
        self: Any = super().__new__(cls, data, requires_grad)
        return self

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        pass


class UninitializedBuffer(UninitializedTensorMixin, Buffer):
    """A buffer whose shape is not yet known; `materialize` makes it a Buffer.

    Parameters
    ----------
    requires_grad : bool, optional
        Whether gradients are computed for it.
    device : device, optional
        Where its memory will be.
    dtype : dtype, optional
        Of its elements; the default dtype if None.
    persistent : bool, optional
        Whether it is part of `state_dict`.

    Examples
    --------
    >>> mean = nn.UninitializedBuffer()
    >>> mean.materialize((2, 3))
    >>> mean.shape
    Size([2, 3])
    """

    cls_to_become = Buffer

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: Any = None,
        persistent: bool = True,
    ) -> UninitializedBuffer:
        data = empty(0, device=device, dtype=dtype)
        self: Any = super().__new__(cls, data, persistent=persistent)
        return self.requires_grad_(requires_grad)

    def __init__(
        self,
        requires_grad: bool = False,
        device: Any = None,
        dtype: Any = None,
        persistent: bool = True,
    ) -> None:
        pass

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, tuple[Any, ...]]:
        remake, parts = super().__reduce_ex__(protocol)
        return remake, (*parts, self.persistent)


register_class(Parameter, reduce_tensor)
