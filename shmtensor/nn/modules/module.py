"""Module: a callable with parameters, buffers and submodules.

Its state as a dictionary is in state_dict.py, its hooks in module_hooks.py, its traversal in
traversal.py, conversions of dtype and device in conversion.py.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar

from ...compiler import say_once
from ...tensor import Tensor
from ...tensor.torch_private_names import Unsupported
from ..parameter import Buffer, Parameter
from . import module_hooks as _hook
from .conversion import Convertible
from .module_hooks import (
    Hooked,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from .state_dict import IncompatibleKeys as _IncompatibleKeys
from .state_dict import Stateful
from .traversal import kind_of

__all__ = [
    "Module",
    "_IncompatibleKeys",
    "_addindent",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

Self = TypeVar("Self", bound="Module")

if TYPE_CHECKING:
    from typing import ParamSpec, Protocol

    P = ParamSpec("P")
    R = TypeVar("R", covariant=True)

    class HasForward(Protocol[P, R]):
        """A module as its call sees it: it takes and returns what its `forward` does."""

        def forward(self, *args: P.args, **kwargs: P.kwargs) -> R: ...


def _addindent(s_: str, numSpaces: int) -> str:
    """The lines of a text, all but the first one indented: for the `repr` of users' modules."""
    return s_.replace("\n", "\n" + " " * numSpaces)


def hint_of(value: Any) -> str:
    """How what somebody added as a module becomes one."""
    if isinstance(value, type):
        return f", hint: {value.__name__}() makes a module of the class"
    if isinstance(value, (list, tuple)):
        return ", hint: Sequential(*layers) or ModuleList(layers) makes a module of a list"
    return ", hint: a function is called in forward(), or has a module, as nn.ReLU()" * callable(
        value
    )


class Module(Stateful, Convertible):
    """The base of all layers and models: a callable with parameters, buffers and submodules.

    A Parameter, a Module or a Buffer that is assigned to an attribute is registered: `parameters`,
    `state_dict`, `to`, `train` and their kin find it. A subclass calls `super().__init__()` before
    it assigns any, and defines `forward`; call the module itself, which runs the hooks, too.

    Parameters
    ----------
    *args, **kwargs
        None are taken, unless the class sets `call_super_init`: then they go to the next class
        among its bases.

    Attributes
    ----------
    training : bool
        Whether the module trains, which dropout and batch normalisation ask; `train` and `eval` set
        it.

    Raises
    ------
    AttributeError
        A parameter or module is assigned before `Module.__init__` has run.
    NotImplementedError
        In the call: there is no `forward`.

    See Also
    --------
    Parameter, Buffer, Sequential

    Examples
    --------
    >>> class Model(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layer = nn.Linear(4, 2)
    ...
    ...     def forward(self, x):
    ...         return self.layer(x).relu()
    >>> model = Model()
    >>> model(st.ones(3, 4)).shape
    Size([3, 2])
    >>> [name for name, p in model.named_parameters()]
    ['layer.weight', 'layer.bias']
    >>> model.eval().training
    False
    >>> st.save(model.state_dict(), "model.pt")
    >>> Model().load_state_dict(st.load("model.pt"))
    <All keys matched successfully>
    """

    training: bool
    forward: Callable[..., Any]
    dump_patches = False
    call_super_init = False  # True: __init__ passes its arguments on to the next class

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if (args or kwargs) and not self.call_super_init:
            raise TypeError(
                f"{type(self).__name__}.__init__: unexpected arguments: {args} {kwargs}"
            )
        attributes = self.__dict__
        attributes["training"] = True
        attributes["_parameters"] = {}
        attributes["_buffers"] = {}
        attributes["_non_persistent_buffers_set"] = set()
        attributes["_modules"] = {}
        self._make_tables()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # ---------------------------------------------------------------- calling
    def __call__(self: HasForward[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        attributes = self.__dict__  # one slow attribute: __getattr__ below makes each of them slow
        try:
            has_hooks = (
                attributes["_forward_hooks"]
                or attributes["_forward_pre_hooks"]
                or attributes["_backward_hooks"]
                or attributes["_backward_pre_hooks"]
                or _hook.global_hook_ids
            )
        except KeyError:
            raise AttributeError(
                f"cannot call {type(self).__name__} before Module.__init__() call, hint: "
                "__init__ begins with super().__init__()"
            ) from None
        if has_hooks:
            return _hook.call_with_hooks(self, args, kwargs)  # type: ignore[arg-type]
        return self.forward(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[no-redef]
        """The computation; every subclass defines it. Call the module, not this."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    _call_impl = Unsupported("override __call__ or forward, or register a hook")
    _slow_forward = Unsupported("override forward, or register a hook")
    _compiled_call_impl = Unsupported("override __call__ or forward, or register a hook")

    # ---------------------------------------------------------------- attributes
    def __getattr__(self, name: str) -> Any:
        attributes = self.__dict__
        for table in ("_parameters", "_buffers", "_modules"):
            entries = attributes.get(table)
            if entries is not None and name in entries:
                # A file may fill the tables; an `__array_interface__` is an address to NumPy.
                if name[-2:] == "__" and name[:2] == "__":
                    break
                return entries[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _weight_and_bias(self) -> tuple[Any, Any]:
        """Both, for forward, without __getattr__, which takes a quarter of a small layer's time."""
        parameters = self._parameters
        try:
            return parameters["weight"], parameters["bias"]
        except KeyError:  # reparametrised: plain attributes now
            return self.weight, self.bias

    def __setattr__(self, name: str, value: Any) -> None:
        attributes = self.__dict__
        if isinstance(value, Parameter):
            self._check_initialised("parameters")
            self._discard_name(name, attributes, attributes["_buffers"], attributes["_modules"])
            self.register_parameter(name, value)
        elif name in attributes.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{kind_of(value)}' as parameter '{name}' "
                    "(nn.Parameter or None expected)"
                )
            self.register_parameter(name, None)
        elif isinstance(value, Module):
            self._check_initialised("module")
            self._discard_name(name, attributes, attributes["_parameters"], attributes["_buffers"])
            attributes["_modules"][name] = _hook.run_registration_hooks(
                _hook.module_registration_hooks, self, name, value
            )
        elif name in attributes.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{kind_of(value)}' as child module '{name}' "
                    "(nn.Module or None expected)"
                )
            attributes["_modules"][name] = _hook.run_registration_hooks(
                _hook.module_registration_hooks, self, name, None
            )
        elif isinstance(value, Buffer) or name in attributes.get("_buffers", ()):
            self._check_initialised("buffer")
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{kind_of(value)}' as buffer '{name}' (Tensor or None expected)"
                )
            self._set_buffer(name, value)
        else:
            object.__setattr__(self, name, value)

    def _set_buffer(self, name: str, value: Any) -> None:
        """Registers a buffer, also where a subclass defines register_buffer(name, tensor)."""
        hidden = name in self._non_persistent_buffers_set
        persistent = value.persistent if isinstance(value, Buffer) else not hidden
        register = type(self).register_buffer
        if register is Module.register_buffer or "persistent" in signature(register).parameters:
            self.register_buffer(name, value, persistent)
        elif persistent:
            self.register_buffer(name, value)
        else:
            raise RuntimeError(
                f"{type(self).__name__}: cannot register non-persistent buffer '{name}': its "
                "register_buffer has no argument persistent"
            )

    def __delattr__(self, name: str) -> None:
        attributes = self.__dict__
        for table in ("_parameters", "_buffers", "_modules"):
            if name in attributes.get(table, ()):
                del attributes[table][name]
                attributes["_non_persistent_buffers_set"].discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = set(super().__dir__())
        names.update(self._parameters, self._buffers, self._modules)
        return sorted(name for name in names if not name[0].isdigit())

    def _check_initialised(self, what: str) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(
                f"{type(self).__name__}: cannot assign {what} before Module.__init__() call, hint: "
                "__init__ begins with super().__init__()"
            )

    def _discard_name(self, name: str, *tables: dict[str, Any]) -> None:
        for table in tables:
            table.pop(name, None)
        self.__dict__["_non_persistent_buffers_set"].discard(name)

    # ---------------------------------------------------------------- registering
    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Makes `param` a parameter of this module.

        Parameters
        ----------
        name : str
            What the attribute is called.
        param : Parameter or None
            None reserves the name: the attribute is None.

        Raises
        ------
        KeyError
            The name is empty, has a dot, or belongs to another attribute.
        TypeError, ValueError
            `param` is no Parameter, or not a leaf.

        Examples
        --------
        >>> layer = nn.Module()
        >>> layer.register_parameter("scale", nn.Parameter(st.ones(2)))
        >>> [name for name, p in layer.named_parameters()]
        ['scale']
        """
        self._check_initialised("parameter")
        self._check_attribute_name(name, "parameter", self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{kind_of(param)}' object to parameter '{name}' "
                "(nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"cannot assign non-leaf Tensor to parameter '{name}', hint: model parameters "
                "must be created explicitly; compute the value in forward() instead"
            )
        self._parameters[name] = _hook.run_registration_hooks(
            _hook.parameter_registration_hooks, self, name, param
        )

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Makes `tensor` a part of the state that is not a parameter, such as running statistics.

        Parameters
        ----------
        name : str
            What the attribute is called.
        tensor : Tensor or None
            The buffer.
        persistent : bool, optional
            Whether it is part of `state_dict`.

        Raises
        ------
        KeyError
            The name is empty, has a dot, or belongs to another attribute.
        TypeError
            `tensor` is no tensor.

        Examples
        --------
        >>> layer = nn.Module()
        >>> layer.register_buffer("mean", st.zeros(2))
        >>> layer.state_dict()["mean"]
        tensor([0., 0.])
        """
        self._check_initialised("buffer")
        self._check_attribute_name(name, "buffer", self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{kind_of(tensor)}' object to buffer '{name}' "
                "(Tensor or None required)"
            )
        self._buffers[name] = _hook.run_registration_hooks(
            _hook.buffer_registration_hooks, self, name, tensor
        )
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Makes `module` a child, which is also an attribute.

        Parameters
        ----------
        name : str
            What the attribute is called.
        module : Module or None
            The child.

        Raises
        ------
        KeyError
            The name is empty, has a dot, or belongs to another attribute.
        TypeError
            `module` is no Module.

        Examples
        --------
        >>> model = nn.Module()
        >>> model.add_module("head", nn.Linear(2, 1))
        >>> model.head
        Linear(in_features=2, out_features=1, bias=True)
        """
        self._check_attribute_name(name, "module", self._modules)
        if module is not None and not isinstance(module, Module):
            raise TypeError(
                f"{kind_of(module)} is not a Module subclass: {module!r:.80}{hint_of(module)}"
            )
        self._modules[name] = _hook.run_registration_hooks(
            _hook.module_registration_hooks, self, name, module
        )

    register_module = add_module

    def _check_attribute_name(self, name: str, what: str, table: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {kind_of(name)}")
        if not name or "." in name:
            raise KeyError(f'{what} name can\'t be empty or contain ".", got: {name!r}')
        if name not in table and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    # ---------------------------------------------------------------- all at once
    def apply(self: Self, fn: Callable[[Module], None]) -> Self:
        """Calls `fn` with every submodule, then with this module.

        Parameters
        ----------
        fn : callable
            What is called.

        Returns
        -------
        Module
            This module.

        Examples
        --------
        >>> def init(module):
        ...     if isinstance(module, nn.Linear):
        ...         nn.init.ones_(module.weight)
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        >>> model.apply(init)[0].weight.sum().item()
        6.0
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self: Self, mode: bool = True) -> Self:
        """Sets training mode (in which dropout works), for this module and all submodules.

        Parameters
        ----------
        mode : bool, optional
            False is evaluation mode.

        Returns
        -------
        Module
            This module.

        Raises
        ------
        ValueError
            mode is not a bool.

        See Also
        --------
        eval

        Examples
        --------
        >>> model = nn.Sequential(nn.Dropout(0.5))
        >>> model.eval().training, model.train()[0].training
        (False, True)
        """
        if not isinstance(mode, bool):
            raise ValueError(f"train: training mode is expected to be boolean: got {mode!r}")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: Self) -> Self:
        """Sets evaluation mode, for this module and all submodules.

        Returns
        -------
        Module
            This module.

        See Also
        --------
        train, no_grad

        Examples
        --------
        >>> model = nn.Sequential(nn.Dropout(0.5)).eval()
        >>> model(st.ones(3))
        tensor([1., 1., 1.])
        """
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Says whether gradients are computed for the parameters: False freezes them.

        Parameters
        ----------
        requires_grad : bool, optional
            Whether.

        Returns
        -------
        Module
            This module.

        Examples
        --------
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        >>> model[0].requires_grad_(False).weight.requires_grad
        False
        """
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Sets the gradients of the parameters to None, or to zeros.

        Parameters
        ----------
        set_to_none : bool, optional
            False writes zeros into the gradients that are there.

        Examples
        --------
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        >>> model(st.ones(1, 2)).sum().backward()
        >>> model.zero_grad()
        >>> model[0].weight.grad is None
        True
        """
        for p in self.parameters():
            if p.grad is None:
                continue
            if set_to_none:
                p.grad = None
            else:
                p.grad = p.grad.detach()
                p.grad.zero_()

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Accepted as in PyTorch; forward runs as before, since there is no compiler. The first
        call of `compile` in a process warns.
        """
        if not kwargs.get("disable"):
            say_once("compile")

    # ---------------------------------------------------------------- text, pickling
    def extra_repr(self) -> str:
        """The text between the brackets of `repr`; subclasses define it."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [
            f"({name}): " + _addindent(repr(module), 2) for name, module in self._modules.items()
        ]
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({lines[0]})"
        if not lines and not children:
            return f"{self._get_name()}()"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        Hooked._make_tables(self)
