"""Modules that learn the shapes of their parameters from their first input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from ..parameter import is_lazy

if TYPE_CHECKING:
    from .module import Module as _Base
    from .module_hooks import RemovableHandle
else:
    _Base = object

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin(_Base):
    """Mixin of layers whose first call makes their parameters; first among a layer's bases.

    A subclass holds UninitializedParameter and defines `initialize_parameters`. Its first call
    runs that before forward, and then the module becomes a `cls_to_become`. Loading a state whose
    parameters have shapes makes them as well; the module then stays lazy until its first call.

    >>> layer = LazyLinear(3)
    >>> layer(st.ones(5, 2)).shape
    Size([5, 3])
    >>> layer
    Linear(in_features=2, out_features=3, bias=True)
    """

    cls_to_become: type[Any] | None = None
    _load_hook: RemovableHandle
    _initialize_hook: RemovableHandle

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._register_lazy_hooks()

    def _register_lazy_hooks(self) -> None:
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(
            self._infer_parameters, prepend=True, with_kwargs=True
        )

    def __getstate__(self) -> dict[str, Any]:
        """Without the two hooks: a saved module names nothing but its class, and a copy has hooks
        of its own.
        """
        state = self.__dict__.copy()
        if "_initialize_hook" in state:
            ids = {state.pop(name).id for name in ("_initialize_hook", "_load_hook")}
            for name in (
                "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_load_state_dict_pre_hooks"
            ):  # fmt: skip
                table = state[name]
                state[name] = type(table)((k, v) for k, v in table.items() if k not in ids)
            state["_is_lazy"] = True
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if self.__dict__.pop("_is_lazy", False):
            self._register_lazy_hooks()

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Makes all parameters; receives forward's arguments. Every subclass defines it."""
        raise NotImplementedError(f"initialize_parameters: not defined: {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether one of this module's own parameters and buffers has no shape yet."""
        return any(is_lazy(tensor) for _, tensor in self._own_tensors())

    def _own_tensors(self) -> list[tuple[str, Any]]:
        return [*self._parameters.items(), *self._buffers.items()]

    def _materialize(self, **shapes: tuple[int, ...]) -> None:
        """Gives shapes to those of these parameters and buffers that are uninitialized."""
        for name, shape in shapes.items():
            tensor = getattr(self, name)
            if is_lazy(tensor):
                tensor.materialize(shape)

    def _lazy_load_hook(
        self, state_dict: Any, prefix: str, local_metadata: Any, *args: Any
    ) -> None:
        shapes = {}
        for name, _ in self._own_tensors():
            value = state_dict.get(prefix + name)
            if value is not None and not is_lazy(value):
                shapes[name] = tuple(value.shape)
        self._materialize(**shapes)

    def _infer_parameters(self, module: Any, args: Any, kwargs: Any = None) -> None:
        # `module` is this one, or a copy that also has the hook.
        module.initialize_parameters(*args, **(kwargs or {}))
        uninitialized = [name for name, tensor in module._own_tensors() if is_lazy(tensor)]
        if uninitialized:
            raise RuntimeError(
                f"{type(module).__name__}.initialize_parameters: left uninitialized: "
                f"{uninitialized}"
            )
        for name in ("_initialize_hook", "_load_hook"):
            getattr(module, name).remove()
            delattr(module, name)
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self) -> NoReturn:
        raise RuntimeError(
            f"DataParallel: a module with uninitialized parameters has no copies: {self!r}, "
            "hint: call its forward once before"
        )
