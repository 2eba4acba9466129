"""Parameters and buffers that a module computes from others: register_parametrization.

A parametrised module gets its own class, `Parametrized<class>`, in which the tensor's name is a
property that runs the parametrizations on the original tensors.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from ...autograd import no_grad
from ...tensor import Tensor
from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..modules.traversal import kind_of
from ..parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

M = TypeVar("M", bound=Module)

_cache_enabled = 0  # how many `cached` blocks are open
_cache: dict[tuple[int, str], Tensor] = {}


@contextmanager
def cached() -> Iterator[None]:
    """In this block each parametrised tensor is computed once, at its first use.

    Returns
    -------
    context manager

    Examples
    --------
    >>> from shmtensor.nn.utils import parametrize
    >>> layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", nn.ReLU())
    >>> with parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """
    global _cache_enabled
    _cache_enabled += 1
    try:
        yield
    finally:
        _cache_enabled -= 1
        if not _cache_enabled:
            _cache.clear()


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, first to last, and the original tensors they start from.

    The original is `original`, or `original0`, `original1`, ... if the first parametrization's
    `right_inverse` returns a sequence.

    Parameters
    ----------
    modules : sequence of Module
        The parametrizations, at least one.
    original : Tensor
        The tensor's value before; a Parameter or a buffer.
    unsafe : bool, optional
        Whether shape and dtype may change; nothing is checked then.

    Raises
    ------
    ValueError
        No modules, or their result is not a tensor or does not fit `original`.

    See Also
    --------
    register_parametrization

    Examples
    --------
    >>> from shmtensor.nn.utils.parametrize import ParametrizationList
    >>> parametrized = ParametrizationList([nn.ReLU()], nn.Parameter(st.tensor([-1., 2.])))
    >>> parametrized()
    tensor([0., 2.], grad_fn=<ReluBackward0>)
    """

    original: Tensor
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        value: Any = original
        with no_grad():
            for module in reversed(list(self)):
                value = _inverse_if_defined(module, value)
        if not isinstance(value, (Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(value).__name__}"
            )
        self.is_tensor = isinstance(value, Tensor)
        self.ntensors = 1 if isinstance(value, Tensor) else len(value)
        if isinstance(value, Tensor):
            if value.dtype != original.dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {original.dtype.name}\n"
                    f"right_inverse(original).dtype: {value.dtype.name}"
                )
            _register(self, "original", original)
        else:
            for i, part in enumerate(value):
                if not isinstance(part, Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, "
                        f"tuple...). Got element {i} of the sequence with type "
                        f"{type(part).__name__}."
                    )
                if isinstance(original, Parameter):
                    part = Parameter(part, original.requires_grad)
                _register(self, f"original{i}", part)
        before = original.data
        if isinstance(value, Tensor):
            _assign(original, value)
        if not unsafe:
            try:
                self._check_result(before)
            except BaseException:
                original.data = before
                raise

    def _check_result(self, original: Tensor) -> None:
        result = self()
        if not isinstance(result, Tensor):
            raise ValueError(
                f"A parametrization must return a tensor. Got {type(result).__name__}."
            )
        _check_same_shape(
            original,
            result,
            "Registering a parametrization may not change the {what} of the tensor, unless "
            "`unsafe` flag is enabled.\nunparametrized {what}: {before}\n"
            "parametrized {what}: {after}",
        )

    def _originals(self) -> list[Tensor]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Sets the originals such that the parametrizations map them to `value`.

        Raises:
            RuntimeError: a parametrization has no `right_inverse`.
            ValueError: what it returns does not fit the originals.
        """
        result: Any = value
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                result = module.right_inverse(result)
            parts = [result] if self.is_tensor else result
            if not isinstance(parts, Sequence) or len(parts) != self.ntensors:
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors of length "
                    f"{self.ntensors}. Got {kind_of(parts)}"
                    + (f" of length {len(parts)}." if isinstance(parts, Sequence) else ".")
                )
            for i, (part, original) in enumerate(zip(parts, self._originals(), strict=True)):
                if not isinstance(part, Tensor):
                    raise ValueError(
                        f"`right_inverse` must return tensors. Got element {i} of type "
                        f"{kind_of(part)}"
                    )
                if part.dtype != original.dtype:
                    returned, name = "The tensor", "original"
                    if not self.is_tensor:
                        returned, name = f"Tensor {i}", f"original{i}"
                    raise ValueError(
                        f"{returned} returned by `right_inverse` has dtype {part.dtype.name} while "
                        f"`{name}` has dtype {original.dtype.name}"
                    )
                _assign(original, part)

    def forward(self) -> Tensor:
        """The parametrised tensor."""
        first, *later = list(self)
        x: Tensor = first(*self._originals())
        for module in later:
            x = module(x)
        return x


def _inverse_if_defined(module: Module, value: Any) -> Any:
    """`module.right_inverse(value)`, or `value` if that is not defined or not implemented."""
    if not hasattr(module, "right_inverse"):
        return value
    try:
        return module.right_inverse(value)
    except NotImplementedError:
        return value


def _assign(original: Tensor, value: Tensor) -> None:
    """Makes `value` the data of `original`, which stays the same object."""
    if value is not original:
        original.data = value.detach()


def _register(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


# ---------------------------------------------------------------- classes
def _getstate(module: Module) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(). See:\n"
        "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
        "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
    )


def _deepcopy(module: Module, memo: dict[int, Any]) -> Any:
    if id(module) not in memo:
        replica = memo[id(module)] = object.__new__(type(module))
        replica.__dict__.update(copy.deepcopy(module.__dict__, memo))
    return memo[id(module)]


def _property(name: str) -> property:
    def get(module: Any) -> Any:
        parametrization = module.parametrizations[name]
        if not _cache_enabled:
            return parametrization()
        key = (id(module), name)
        if key not in _cache:
            _cache[key] = parametrization()
        return _cache[key]

    def set(module: Any, value: Tensor) -> None:
        module.parametrizations[name].right_inverse(value)

    return property(get, set)


def _set_class(module: Module, names: list[str]) -> None:
    """Gives a module a class with properties of these names; without names, its former class.

    Each change makes a new class, so that copies of the module, which share one, do not change.
    """
    before = type_before_parametrizations(module)
    if not names:
        module.__class__ = before
        return
    members: dict[str, Any] = {name: _property(name) for name in names}
    members["_class_before"] = before
    members["__module__"] = __name__
    members["__getstate__"] = _getstate
    if not hasattr(before, "__deepcopy__"):
        members["__deepcopy__"] = _deepcopy
    module.__class__ = type(f"Parametrized{before.__name__}", (before,), members)


# ---------------------------------------------------------------- registering
def register_parametrization(
    module: M, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> M:
    """Makes `module.<tensor_name>` the result of `parametrization` of its former tensor.

    A further parametrization of the same tensor is applied to the result of those before. If
    `parametrization.right_inverse` is defined, the tensor can be assigned to.

    Parameters
    ----------
    module : Module
        The module; its class becomes `Parametrized<class>`.
    tensor_name : str
        One of its parameters or buffers.
    parametrization : Module
        From tensor to tensor, or from several tensors if its right_inverse returns a sequence.
    unsafe : bool, optional
        Whether it may change shape and dtype; nothing is checked then.

    Returns
    -------
    Module
        The module.

    Raises
    ------
    ValueError
        No such tensor, or the parametrization changes its shape or dtype.

    See Also
    --------
    remove_parametrizations, ParametrizationList

    Examples
    --------
    >>> from shmtensor.nn.utils import parametrize
    >>> class Symmetric(nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all())
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        parametrizations: Any = module.parametrizations[tensor_name]
        if not unsafe:
            _check_further(parametrization, getattr(module, tensor_name))
        parametrizations.append(parametrization)
        parametrizations.unsafe |= unsafe
    elif tensor_name in module._parameters or tensor_name in module._buffers:
        original = getattr(module, tensor_name)
        parametrizations = ParametrizationList([parametrization], original, unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            module.parametrizations = ModuleDict()
        module.parametrizations[tensor_name] = parametrizations
        _set_class(module, list(module.parametrizations))
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    return module


def _check_further(parametrization: Module, before: Tensor) -> None:
    """Raises ValueError if a parametrization or its inverse changes shape or dtype."""
    after = parametrization(before)
    if not isinstance(after, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(after).__name__}.")
    _check_same_shape(
        before,
        after,
        "Registering a parametrization may not change the {what} of the tensor, unless the "
        "`unsafe` flag is enabled.\nmodule.weight.{what}: {before}\n"
        "parametrization(module.weight).{what}: {after}",
    )
    with no_grad():
        back = _inverse_if_defined(parametrization, after)
    if not isinstance(back, Tensor):
        raise ValueError(
            f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}"
        )
    _check_same_shape(
        before,
        back,
        "The tensor returned by parametrization.right_inverse must have the same {what} as "
        "module.weight, unless the `unsafe` flag is enabled.\nmodule.weight.{what}: {before}\n"
        "returned {what}: {after}",
    )


def _check_same_shape(before: Tensor, after: Tensor, message: str) -> None:
    """Raises ValueError(message), formatted with both, if dtype or shape differ."""
    for what in ("dtype", "shape"):
        a, b = getattr(before, what), getattr(after, what)
        if a != b:
            raise ValueError(message.format(what=what, before=a, after=b))


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has parametrizations, or one of a certain tensor.

    Parameters
    ----------
    module : Module
        The module.
    tensor_name : str, optional
        The tensor; any if None.

    Returns
    -------
    bool

    Examples
    --------
    >>> from shmtensor.nn.utils import parametrize
    >>> parametrize.is_parametrized(nn.Linear(2, 2))
    False
    """
    parametrizations = module.__dict__.get("_modules", {}).get("parametrizations")
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module: M, tensor_name: str, leave_parametrized: bool = True) -> M:
    """Makes a parametrised tensor an ordinary parameter or buffer again.

    Parameters
    ----------
    module : Module
        The module; without further parametrizations its class is the former one.
    tensor_name : str
        The tensor.
    leave_parametrized : bool, optional
        Whether it keeps the parametrised value; otherwise it gets the original's, which must be a
        single tensor.

    Returns
    -------
    Module
        The module.

    Raises
    ------
    ValueError
        Not parametrised, or several originals and not leave_parametrized.

    See Also
    --------
    register_parametrization

    Examples
    --------
    >>> from shmtensor.nn.utils import parametrize
    >>> layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", nn.ReLU())
    >>> layer = parametrize.remove_parametrizations(layer, "weight")
    >>> parametrize.is_parametrized(layer), bool((layer.weight >= 0).all())
    (False, True)
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    everything: Any = module.parametrizations
    parametrizations = everything[tensor_name]
    if not (parametrizations.is_tensor or leave_parametrized):
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    if parametrizations.is_tensor:
        tensor = parametrizations.original
        if leave_parametrized:
            with no_grad():
                _assign(tensor, parametrizations())
    else:
        tensor = parametrizations()
        tensor = Parameter(tensor) if tensor.requires_grad else tensor
    del everything[tensor_name]
    _set_class(module, list(everything))
    _register(module, tensor_name, tensor)
    if not len(everything):
        del module.parametrizations
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class of a module before its tensors were parametrised; otherwise its class.

    Parameters
    ----------
    module : Module
        The module.

    Returns
    -------
    type

    Examples
    --------
    >>> from shmtensor.nn.utils import parametrize
    >>> layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", nn.ReLU())
    >>> type(layer).__name__, parametrize.type_before_parametrizations(layer).__name__
    ('ParametrizedLinear', 'Linear')
    """
    cls = type(module)
    before: type = vars(cls).get("_class_before", cls)
    return before


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Gives a module the parametrizations of another one, and the tensors they start from.

    Parameters
    ----------
    from_module : Module
        Whose they are.
    to_module : Module
        Which gets them.
    tensor_name : str, optional
        The tensor; all if None.

    Returns
    -------
    Module
        `to_module`.

    See Also
    --------
    register_parametrization

    Examples
    --------
    >>> from shmtensor.nn.utils import parametrize
    >>> layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", nn.ReLU())
    >>> other = parametrize.transfer_parametrizations_and_params(layer, nn.Linear(2, 2))
    >>> bool((other.weight == layer.weight).all())
    True
    """
    if not is_parametrized(from_module):
        return to_module
    source: Any = from_module.parametrizations
    for name in source if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        for parametrization in source[name]:
            register_parametrization(to_module, name, parametrization)
        target: Any = to_module.parametrizations[name]
        for key, original in [*source[name]._parameters.items(), *source[name]._buffers.items()]:
            setattr(target, key, original)
    return to_module
