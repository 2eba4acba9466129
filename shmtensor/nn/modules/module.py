"""Module: a callable with parameters, buffers and further modules inside.

Its state as a dictionary is in state.py, its hooks in hook.py, how to walk it in tree.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ...dtypes import as_dtype
from ...tensor import Tensor
from ..parameter import Buffer, Parameter
from . import module_hooks as _hook
from .module_hooks import Hooked
from .state_dict import Stateful
from .traversal import Tree, kind_of

__all__ = ["Module"]

Self = TypeVar("Self", bound="Module")


class Module(Tree, Stateful):
    """Base of all layers and models.

    Assigning a Parameter, a Module or a Buffer to an attribute registers it.

    >>> class Model(Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layer = Linear(4, 2)
    ...     def forward(self, x):
    ...         return self.layer(x).relu()
    """

    training: bool
    forward: Callable[..., Any]
    dump_patches = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args or kwargs:
            raise TypeError(
                f"{type(self).__name__}.__init__: unexpected arguments: {args} {kwargs}"
            )
        own = self.__dict__
        own["training"] = True
        own["_parameters"] = {}
        own["_buffers"] = {}
        own["_non_persistent_buffers_set"] = set()
        own["_modules"] = {}
        self._make_tables()

    # ---------------------------------------------------------------- calling
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        own = self.__dict__  # one slow attribute: __getattr__ below makes each of them slow
        if (
            own["_forward_hooks"]
            or own["_forward_pre_hooks"]
            or own["_backward_hooks"]
            or own["_backward_pre_hooks"]
            or _hook.everywhere
        ):
            return _hook.call(self, args, kwargs)
        return self.forward(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[no-redef]
        """The computation; every subclass defines it. Call the module, not this."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    # ---------------------------------------------------------------- attributes
    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        for table in ("_parameters", "_buffers", "_modules"):
            entries = own.get(table)
            if entries is not None and name in entries:
                return entries[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, Parameter):
            self._initialised("parameters")
            self._forget(name, own, own["_buffers"], own["_modules"])
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self._initialised("module")
            self._forget(name, own, own["_parameters"], own["_buffers"])
            own["_modules"][name] = value
        elif isinstance(value, Buffer):
            self._initialised("buffer")
            self._forget(name, own, own["_parameters"], own["_modules"], own["_buffers"])
            self.register_buffer(name, value, value.persistent)
        elif name in own.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{kind_of(value)}' as parameter '{name}' "
                    "(nn.Parameter or None expected)"
                )
            own["_parameters"][name] = None
        elif name in own.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{kind_of(value)}' as child module '{name}' "
                    "(nn.Module or None expected)"
                )
            own["_modules"][name] = None
        elif name in own.get("_buffers", ()):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{kind_of(value)}' as buffer '{name}' (Tensor or None expected)"
                )
            own["_buffers"][name] = value
        else:
            object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        own = self.__dict__
        for table in ("_parameters", "_buffers", "_modules"):
            if name in own.get(table, ()):
                del own[table][name]
                own["_non_persistent_buffers_set"].discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = set(super().__dir__())
        names.update(self._parameters, self._buffers, self._modules)
        return sorted(name for name in names if not name[0].isdigit())

    def _initialised(self, what: str) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")

    def _forget(self, name: str, *tables: dict[str, Any]) -> None:
        for table in tables:
            table.pop(name, None)
        self.__dict__["_non_persistent_buffers_set"].discard(name)

    # ---------------------------------------------------------------- registering
    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Makes `param` (or nothing: None) a parameter of this module."""
        self._initialised("parameter")
        self._checked_name(name, "parameter", self._parameters)
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
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Makes `tensor` a part of the state that is no parameter.

        Args:
            persistent: whether it is part of `state_dict`.
        """
        self._initialised("buffer")
        self._checked_name(name, "buffer", self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{kind_of(tensor)}' object to buffer '{name}' "
                "(Tensor or None required)"
            )
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Makes `module` a child; it is reached as an attribute."""
        self._checked_name(name, "module", self._modules)
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{kind_of(module)} is not a Module subclass")
        self._modules[name] = module

    register_module = add_module

    def _checked_name(self, name: str, what: str, table: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {kind_of(name)}")
        if not name or "." in name:
            raise KeyError(f'{what} name can\'t be empty or contain ".", got: {name!r}')
        if name not in table and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    # ---------------------------------------------------------------- all at once
    def apply(self: Self, fn: Callable[[Module], None]) -> Self:
        """Calls `fn` with every module below, then with this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self: Self, mode: bool = True) -> Self:
        """Training mode (dropout and the like work), here and below."""
        if not isinstance(mode, bool):
            raise ValueError(f"train: training mode is expected to be boolean: got {mode!r}")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: Self) -> Self:
        """Evaluation mode, here and below."""
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Whether gradients are computed for the parameters."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients, or with set_to_none=False fills them with zeros."""
        for p in self.parameters():
            if p.grad is None:
                continue
            if set_to_none:
                p.grad = None
            else:
                p.grad = p.grad.detach()
                p.grad.zero_()

    def _apply(self: Self, fn: Callable[[Any], Any], recurse: bool = True) -> Self:
        if recurse:
            for module in self.children():
                module._apply(fn)
        for p in self._parameters.values():
            if p is None:
                continue
            former, gradient = p.data, p.grad
            changed = fn(former)
            if changed is not former:
                if gradient is not None and changed.dtype != former.dtype:
                    p.grad = None  # a gradient has its parameter's dtype: put back below
                p.data = changed
            if gradient is not None:
                p.grad = fn(gradient.detach())
        for name, b in self._buffers.items():
            if b is not None:
                self._buffers[name] = fn(b)
        return self

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Parameters and buffers on a device, in a floating-point dtype, or like a tensor.

        Args:
            memory_format: of the parameters and buffers with 4 or 5 dimensions.

        Copies: none where nothing changes, else one.
        """
        for x in (*args, kwargs.get("dtype")):
            kind = getattr(x, "kind", None)
            if kind is not None and kind not in "fc":
                raise TypeError(
                    "nn.Module.to only accepts floating point or complex dtypes: got "
                    f"desired dtype={x}"
                )
        if args and isinstance(args[0], Tensor):
            args = (args[0].device, args[0].dtype, *args[1:])
        form = kwargs.pop("memory_format", None)
        where = tuple(x for x in args if getattr(x, "kind", None) is None)
        elsewhere = {k: v for k, v in kwargs.items() if k != "dtype"}

        def moved(t: Any) -> Any:
            if t.dtype.kind in "fc":
                t = t.to(*args, **kwargs)
            elif where or elsewhere:
                t = t.to(*where, **elsewhere)
            return t if form is None or t.ndim not in (4, 5) else t.to(memory_format=form)

        return self._apply(moved)

    def type(self: Self, dst_type: Any) -> Self:
        """All parameters and buffers in another dtype."""
        return self._apply(lambda t: t.to(dst_type))

    def float(self: Self) -> Self:
        """All floating-point parameters and buffers in float32."""
        return self._cast("float32")

    def double(self: Self) -> Self:
        """All floating-point parameters and buffers in float64."""
        return self._cast("float64")

    def half(self: Self) -> Self:
        """All floating-point parameters and buffers in float16."""
        return self._cast("float16")

    def bfloat16(self: Self) -> Self:
        """All floating-point parameters and buffers in bfloat16."""
        return self._cast("bfloat16")

    def _cast(self: Self, name: str) -> Self:
        dtype = as_dtype(name)
        return self._apply(lambda t: t.to(dtype) if t.dtype.kind == "f" else t)

    def cpu(self: Self) -> Self:
        """All parameters and buffers in main memory."""
        return self._apply(lambda t: t.cpu())

    def cuda(self: Self, device: Any = None) -> Self:
        """All parameters and buffers on a GPU."""
        return self._apply(lambda t: t.cuda(device))

    def share_memory(self: Self) -> Self:
        """All parameters and buffers in shared memory (what was born here already is)."""
        return self._apply(lambda t: t.share_memory_())

    # ---------------------------------------------------------------- text, pickling
    def extra_repr(self) -> str:
        """What stands between the brackets of `repr`; to be defined by subclasses."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [
            f"({name}): " + repr(module).replace("\n", "\n  ")
            for name, module in self._modules.items()
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
