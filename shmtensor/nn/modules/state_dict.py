"""A module's state as a dictionary of tensors, and back: `state_dict`, `load_state_dict`."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ... import __future__ as _switches
from ...autograd import no_grad
from ...errors import printable
from ...tensor import Tensor
from ...tensor.from_data import as_tensor
from ..parameter import Parameter, is_lazy
from .module_hooks import Hooked, RemovableHandle, Table, insert

if TYPE_CHECKING:
    from .module import Module

_EXTRA = "_extra_state"


class IncompatibleKeys(
    NamedTuple("IncompatibleKeys", [("missing_keys", list[str]), ("unexpected_keys", list[str])])
):
    """The missing and unexpected keys of `load_state_dict(strict=False)`."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return "_" + super().__repr__()

    __str__ = __repr__


class StateDict(OrderedDict[str, Any]):
    """Tensors by name; `_metadata` carries the version of each module's layout."""

    _metadata: OrderedDict[str, dict[str, Any]]


class Stateful(Hooked):
    """Saving and loading of parameters and buffers by name."""

    _version = 1
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: Table
    _state_dict_pre_hooks: Table
    _load_state_dict_pre_hooks: Table
    _load_state_dict_post_hooks: Table

    # ---------------------------------------------------------------- saving
    def get_extra_state(self) -> Any:
        """Modules that save more than tensors define it, with `set_extra_state`."""
        raise RuntimeError(
            f"{type(self).__name__}.get_extra_state: not defined, hint: define it together with "
            "set_extra_state"
        )

    def set_extra_state(self, state: Any) -> None:
        """Called by `load_state_dict` with the result of `get_extra_state`."""
        raise RuntimeError(
            f"{type(self).__name__}.set_extra_state: not defined, hint: define it together with "
            "get_extra_state"
        )

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """Parameters and persistent buffers of this module and all submodules, by dotted name.

        Parameters
        ----------
        *args
            The following arguments by position, as older PyTorch took them.
        destination : dict, optional
            A dictionary to fill instead of a new one.
        prefix : str, optional
            What precedes each name.
        keep_vars : bool, optional
            Whether to give the Parameters themselves instead of detached tensors.

        Returns
        -------
        StateDict
            An ordered dictionary of tensors.

        See Also
        --------
        load_state_dict, save

        Notes
        -----
        Copies: none (the tensors are the parameters' own memory, detached).

        Examples
        --------
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        >>> list(model.state_dict())
        ['0.weight', '0.bias']
        """
        if args:  # the older positional form
            destination = args[0]
            prefix = args[1] if len(args) > 1 else prefix
            keep_vars = args[2] if len(args) > 2 else keep_vars
        if destination is None:
            destination = StateDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for hook in self._state_dict_hooks.values():
            if is_public := hook.__class__ is tuple:
                (hook,) = hook
            result = hook(self, destination, prefix, local_metadata)
            if result is not None:
                if is_public:
                    raise RuntimeError(f"state_dict: a post hook must return None: {hook!r}")
                destination = result
        return destination

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, tensor in self._persistent_tensors():
            keep = keep_vars or is_lazy(tensor)
            destination[prefix + name] = tensor if keep else tensor.detach()
        if type(self).get_extra_state is not Stateful.get_extra_state:
            destination[prefix + _EXTRA] = self.get_extra_state()

    def _persistent_tensors(self) -> list[tuple[str, Any]]:
        tensors = [(n, p) for n, p in self._parameters.items() if p is not None]
        tensors += [
            (n, b)
            for n, b in self._buffers.items()
            if b is not None and n not in self._non_persistent_buffers_set
        ]
        return tensors

    # ---------------------------------------------------------------- loading
    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Writes saved values into the parameters and buffers of this module and all submodules.

        Parameters
        ----------
        state_dict : mapping
            Tensors (or NumPy arrays) by dotted name.
        strict : bool, optional
            Whether names must match exactly.
        assign : bool, optional
            Whether the tensors become the parameters, instead of being copied.

        Returns
        -------
        IncompatibleKeys
            The missing and the unexpected names.

        Raises
        ------
        RuntimeError
            With every name and shape that does not match.

        See Also
        --------
        state_dict, load

        Notes
        -----
        Copies: one (into the parameters' memory), none with `assign`.

        Examples
        --------
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        >>> model.load_state_dict(nn.Sequential(nn.Linear(2, 3)).state_dict())
        <All keys matched successfully>
        >>> model.load_state_dict({"0.bias": st.zeros(3)}, strict=False).missing_keys
        ['0.weight']
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(
                f"load_state_dict: expected a dictionary: got {type(state_dict).__name__}"
            )
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        state = OrderedDict(state_dict)

        def load(module: Module, local_state: Any, prefix: str = "") -> None:
            local_metadata: dict[str, Any] = (
                {} if metadata is None else metadata.get(prefix[:-1], {})
            )
            if assign:
                local_metadata["assign_to_params_buffers"] = assign
            module._load_from_state_dict(
                local_state, prefix, local_metadata, True, missing, unexpected, errors
            )
            for name, child in module._modules.items():
                if child is not None:
                    child_prefix = f"{prefix}{name}."
                    load(
                        child,
                        {k: v for k, v in local_state.items() if k.startswith(child_prefix)},
                        child_prefix,
                    )
            incompatible = IncompatibleKeys(missing, unexpected)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, incompatible) is not None:
                    raise AssertionError(
                        "load_state_dict: a post hook must change the keys in place and return "
                        f"nothing: {hook!r}"
                    )

        load(self, state)  # type: ignore[arg-type]
        if strict:
            for title, names in (("Unexpected", unexpected), ("Missing", missing)):
                if names:
                    listed = ", ".join(f'"{printable(name)}"' for name in names)
                    errors.insert(0, f"{title} key(s) in state_dict: {listed}.")
        if errors:
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t"
                + "\n\t".join(errors)
            )
        return IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        for hook in self._load_state_dict_pre_hooks.values():
            if hook.__class__ is tuple:
                hook = partial(hook[0], self)
            hook(
                state_dict,
                prefix,
                local_metadata,
                strict,
                missing_keys,
                unexpected_keys,
                error_msgs,
            )
        assign = local_metadata.get("assign_to_params_buffers", False)
        tensors = dict(self._persistent_tensors())
        for name, tensor in tensors.items():
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
            else:
                self._load_one(name, tensor, key, state_dict[key], assign, error_msgs)
        extra = prefix + _EXTRA
        if type(self).set_extra_state is not Stateful.set_extra_state:
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra:
                    head, *tail = key[len(prefix) :].split(".", 1)
                    is_expected = (head in self._modules) if tail else (head in tensors)
                    if not is_expected:
                        unexpected_keys.append(key)

    def _load_one(
        self, name: str, tensor: Any, key: str, value: Any, assign: bool, errors: list[str]
    ) -> None:
        if is_lazy(tensor) and is_lazy(value) and not assign:
            return
        if not hasattr(value, "shape"):
            errors.append(
                f'While copying the parameter named "{key}": expected a tensor or an array, '
                f"got {type(value).__name__}."
            )
            return
        if tuple(value.shape) != tuple(tensor.shape):
            errors.append(
                f"size mismatch for {key}: copying a param with shape {tuple(value.shape)} from "
                f"checkpoint, the shape in current model is {tuple(tensor.shape)}."
            )
            return
        try:
            with no_grad():
                value = value if isinstance(value, Tensor) else as_tensor(value)
                if not assign:
                    if tensor.is_meta and not value.is_meta:
                        warnings.warn(
                            f"load_state_dict: for {key}: copying to a meta parameter, which has "
                            "no data, does nothing (did you mean assign=True, to assign items of "
                            "the state dictionary to their keys in the module?)",
                            stacklevel=2,
                        )
                    tensor.copy_(value)
                elif _switches.get_swap_module_params_on_conversion():
                    tensor.data = value.detach()
                elif isinstance(tensor, Parameter):
                    if isinstance(value, Parameter):
                        value.requires_grad_(tensor.requires_grad)
                    else:
                        value = Parameter(value, requires_grad=tensor.requires_grad)
                    setattr(self, name, value)
                else:
                    setattr(self, name, value)
        except Exception as error:
            errors.append(
                f'While copying the parameter named "{key}", whose dimensions in the model are '
                f"{tuple(tensor.shape)} and in the checkpoint are {tuple(value.shape)}: {error}."
            )

    # ---------------------------------------------------------------- hooks
    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, prefix, keep_vars)` before the module is saved."""
        return insert(hook, self._state_dict_pre_hooks)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata)` after it; changes it in place."""
        return insert((hook,), self._state_dict_hooks)  # Note [Hooks in tuples]

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        return insert(hook, self._state_dict_hooks)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, state_dict, prefix, metadata, strict, missing, unexpected, errors)`."""
        return insert((hook,), self._load_state_dict_pre_hooks)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        return insert((hook,) if with_module else hook, self._load_state_dict_pre_hooks)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, incompatible_keys)` after loading; may change the lists of names."""
        return insert(hook, self._load_state_dict_post_hooks)


# Note [Hooks in tuples]: (hook,) in a table is a hook of the public form: after state_dict it must
# return nothing, before load_state_dict it receives its module. A tuple, because a saved module
# names no class of ours, and a copy's hook receives the copy.
