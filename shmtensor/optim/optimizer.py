"""Optimizer: parameter groups, state by parameter, and both as a dictionary in PyTorch's format."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

from ..autograd import enable_grad
from ..autograd.dispatch.foreign_operands import refuse_foreign
from ..nn.modules.module_hooks import RemovableHandle, Table, insert
from ..profiler import profiling
from ..tensor import Tensor
from .flat.state_entry import Entry

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

Params = Iterable[Any]
Group = dict[str, Any]

_global_pre_hooks, _global_post_hooks = Table(), Table()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(optimizer, args, kwargs)` before the step of every optimizer."""
    return insert(hook, _global_pre_hooks)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(optimizer, args, kwargs)` after the step of every optimizer."""
    return insert(hook, _global_post_hooks)


class _Required:
    """Stands for a hyperparameter without default."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


class Optimizer:
    """The base of all optimizers.

    A subclass gives its hyperparameters' defaults to `__init__` and defines `step`.

    Parameters
    ----------
    params : iterable
        Parameters, (name, parameter) pairs, or dictionaries, each a group: "params", and
        hyperparameters of its own.
    defaults : dict
        Hyperparameters of groups that do not set them.

    Attributes
    ----------
    param_groups : list of dict
        The groups: "params", and their hyperparameters, which may be changed between steps.
    state : dict
        What is kept for each parameter.

    Raises
    ------
    TypeError
        params is a tensor or a set, or holds something else than tensors.
    ValueError
        There are no parameters, one appears twice, or one is not a leaf.

    Examples
    --------
    >>> class SignDescent(st.optim.Optimizer):
    ...     def __init__(self, params, lr):
    ...         super().__init__(params, {"lr": lr})
    ...
    ...     @st.no_grad()
    ...     def step(self, closure=None):
    ...         for group in self.param_groups:
    ...             for p in group["params"]:
    ...                 p -= group["lr"] * p.grad.sign()
    >>> p = st.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = SignDescent([p], lr=0.5)
    >>> (p * st.tensor([3.0, -4.0])).sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([0.5000, 2.5000])
    """

    param_groups: list[Group]
    state: defaultdict[Any, Any]

    HOOKS = (
        "_optimizer_step_pre_hooks",
        "_optimizer_step_post_hooks",
        "_optimizer_state_dict_pre_hooks",
        "_optimizer_state_dict_post_hooks",
        "_optimizer_load_state_dict_pre_hooks",
        "_optimizer_load_state_dict_post_hooks",
    )

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        where = type(self).__name__
        if isinstance(params, Tensor) or not isinstance(params, Iterable):
            raise TypeError(
                f"{where}: params argument given to the optimizer should be an iterable of Tensors "
                f"or dicts, but got {type(params).__name__}, hint: model.parameters(), or [x]"
            )
        self.defaults = defaults
        self.state = self._new_state()
        self.param_groups = []
        self._make_hooks()
        groups = list(params)
        if not groups:
            raise ValueError(
                f"{where}: optimizer got an empty parameter list: {params!r:.80}, hint: "
                "a module has the parameters that its __init__ assigns (layers in a plain list are "
                "not found: use ModuleList), and a generator can be used once"
            )
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(dict(group))

    def _new_state(self) -> defaultdict[Any, Any]:
        return defaultdict(dict)

    def _make_hooks(self) -> None:
        for name in Optimizer.HOOKS:
            self.__dict__.setdefault(name, Table())
        self._opt_called = False  # whether there has been a step; schedulers read it

    # ---------------------------------------------------------------- groups
    def add_param_group(self, param_group: Group) -> None:
        """Adds parameters with their own hyperparameters.

        Parameters
        ----------
        param_group : dict
            "params", and hyperparameters that differ from the defaults.

        Raises
        ------
        ValueError
            A parameter is already in another group.

        Examples
        --------
        >>> layers = nn.Linear(2, 2), nn.Linear(2, 1)
        >>> optimizer = st.optim.SGD(layers[0].parameters(), lr=0.1)
        >>> optimizer.add_param_group({"params": layers[1].parameters(), "lr": 0.01})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.1, 0.01]
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group).__name__}")
        if "params" not in param_group:
            raise ValueError(
                f"{type(self).__name__}: a parameter group needs 'params': it has "
                f"{sorted(map(str, param_group))}"
            )
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        params = [params] if isinstance(params, Tensor) else list(params)
        if params and isinstance(params[0], tuple):
            param_group["param_names"] = [name for name, _ in params]
            params = [p for _, p in params]
        for p in params:
            if not isinstance(p, Tensor):
                refuse_foreign(type(self).__name__, (p,))
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is "
                    f"{type(p).__name__}"
                )
            if not (self.defaults.get("differentiable") or p.is_leaf or p.retains_grad):
                raise ValueError(
                    f"can't optimize a non-leaf Tensor: shape {tuple(p.shape)}, hint: detach() it"
                )
        if len({id(p) for p in params}) != len(params):
            raise ValueError(
                f"some parameters appear more than once in one parameter group: {len(params)} "
                f"given, {len({id(p) for p in params})} distinct"
            )
        param_group["params"] = params
        for name, value in self.defaults.items():
            if value is required and name not in param_group:
                raise ValueError(
                    f"parameter group didn't specify a value of required parameter {name}"
                )
            param_group.setdefault(name, value)
        ids = {id(p) for group in self.param_groups for p in group["params"]}
        if any(id(p) in ids for p in params):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    def _parameters(self) -> list[Any]:
        return [p for group in self.param_groups for p in group["params"]]

    # ---------------------------------------------------------------- stepping
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Sets the gradients of all parameters to None, or to zeros: backward adds to them.

        Parameters
        ----------
        set_to_none : bool, optional
            False writes zeros into the gradients that are there.

        Examples
        --------
        >>> p = st.ones(2, requires_grad=True)
        >>> optimizer = st.optim.SGD([p], lr=0.1)
        >>> p.sum().backward()
        >>> optimizer.zero_grad()
        >>> p.grad is None
        True
        """
        began = profiling.begin() if profiling.on else 0
        for p in self._parameters():
            if p.grad is None:
                continue
            if set_to_none:
                p.grad = None
            else:
                p.grad = p.grad.detach()
                p.grad.zero_()
        if began:
            profiling.end(began, name_of(self, "zero_grad"), profiling.OPTIMIZER)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters once.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss anew, and its gradients.

        Returns
        -------
        any
            What closure returned.

        Examples
        --------
        >>> p = st.ones(2, requires_grad=True)
        >>> optimizer = st.optim.SGD([p], lr=0.5)
        >>> p.sum().backward()
        >>> optimizer.step()
        >>> p.detach()
        tensor([0.5000, 0.5000])
        """
        raise NotImplementedError(f"{type(self).__name__}.step: not defined")

    def _evaluate(self, closure: Callable[[], Any] | None) -> Any:
        if closure is None:
            return None
        with enable_grad():
            return closure()

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(optimizer, args, kwargs)` before each step; may return a new (args, kwargs)."""
        return insert(hook, self._table("_optimizer_step_pre_hooks"))

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(optimizer, args, kwargs)` after each step."""
        return insert(hook, self._table("_optimizer_step_post_hooks"))

    def _table(self, name: str) -> Table:
        table: Table = self.__dict__[name]
        return table

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Wraps the `step` of a subclass to call the hooks."""
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _with_hooks(cls.__dict__["step"])  # type: ignore[method-assign]

    # ---------------------------------------------------------------- state
    def state_dict(self) -> dict[str, Any]:
        """State and hyperparameters, with numbers instead of parameters.

        Returns
        -------
        dict
            "state" and "param_groups".

        See Also
        --------
        load_state_dict, save

        Notes
        -----
        Copies: none (the state's tensors are the optimizer's own).

        Examples
        --------
        >>> optimizer = st.optim.Adam([st.ones(2, requires_grad=True)])
        >>> sorted(optimizer.state_dict())
        ['param_groups', 'state']
        """
        for hook in self._table("_optimizer_state_dict_pre_hooks").values():
            hook(self)
        numbers = {id(p): i for i, p in enumerate(self._parameters())}
        groups = [
            {
                **{k: v for k, v in group.items() if k != "params"},
                "params": [numbers[id(p)] for p in group["params"]],
            }
            for group in self.param_groups
        ]
        state = {
            (numbers[id(key)] if isinstance(key, Tensor) else key): plain(value)
            for key, value in self.state.items()
        }
        saved: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in self._table("_optimizer_state_dict_post_hooks").values():
            result = hook(self, saved)
            if result is not None:
                saved = result
        return saved

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads the `state_dict` of an optimizer with the same parameter shapes.

        Parameters
        ----------
        state_dict : dict
            What `state_dict` returned.

        Raises
        ------
        ValueError
            Groups or parameters differ in number.

        See Also
        --------
        state_dict

        Notes
        -----
        Copies: one.

        Examples
        --------
        >>> parameters = [st.ones(2, requires_grad=True)]
        >>> saved = st.optim.SGD(parameters, lr=0.5).state_dict()
        >>> optimizer = st.optim.SGD(parameters, lr=0.1)
        >>> optimizer.load_state_dict(saved)
        >>> optimizer.param_groups[0]["lr"]
        0.5
        """
        state_dict = dict(state_dict)
        for hook in self._table("_optimizer_load_state_dict_pre_hooks").values():
            result = hook(self, state_dict)
            if result is not None:
                state_dict = result
        saved = state_dict["param_groups"]
        if len(saved) != len(self.param_groups):
            raise ValueError(
                "loaded state dict has a different number of parameter groups: "
                f"{len(saved)} for {len(self.param_groups)}"
            )
        pairs = zip(self.param_groups, saved, strict=True)
        sizes = [(len(current["params"]), len(loaded["params"])) for current, loaded in pairs]
        if any(current != loaded for current, loaded in sizes):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                f"optimizer's group: (own, loaded) sizes {sizes}"
            )
        numbers = itertools.chain.from_iterable(group["params"] for group in saved)
        by_number = dict(zip(numbers, self._parameters(), strict=True))
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            p = by_number.get(key)
            state[key if p is None else p] = deepcopy(value) if p is None else _cast(p, value)
        groups = [
            {**deepcopy({k: v for k, v in s.items() if k != "params"}), "params": g["params"]}
            for g, s in zip(self.param_groups, saved, strict=True)
        ]
        for group, current in zip(groups, self.param_groups, strict=True):
            if "param_names" in current and "param_names" not in group:
                group["param_names"] = current["param_names"]
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in self._table("_optimizer_load_state_dict_post_hooks").values():
            hook(self)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(optimizer)` before it is saved."""
        return insert(hook, self._table("_optimizer_state_dict_pre_hooks"), prepend=prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(optimizer, state_dict)` after it is saved; may return another dictionary."""
        return insert(hook, self._table("_optimizer_state_dict_post_hooks"), prepend=prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(optimizer, state_dict)` before loading; may return another dictionary."""
        return insert(hook, self._table("_optimizer_load_state_dict_pre_hooks"), prepend=prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(optimizer)` after loading."""
        return insert(hook, self._table("_optimizer_load_state_dict_post_hooks"), prepend=prepend)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_hooks()
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            for key in sorted(group):
                if key != "params":
                    text += f"    {key}: {group[key]}\n"
        return text + ")"


def _cast(p: Any, value: Any, key: str | None = None) -> Any:
    """A copy of loaded state; tensors other than "step" in the parameter's dtype, on its device."""
    if isinstance(value, Tensor):
        value = value.detach().clone()
        if key == "step":
            return value
        return value.to(p.device, p.dtype if p.dtype.kind == "f" else None)
    if isinstance(value, dict):
        return {k: _cast(p, v, k) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(p, v, key) for v in value)
    return deepcopy(value)


def plain(entry: Any) -> Any:
    """An entry of the state as a plain dictionary. Copies: none of its tensors."""
    return entry.copy() if type(entry) is Entry else entry


def name_of(optimizer: Optimizer, function: str) -> str:
    """The name of a function in a profile, as PyTorch has it."""
    return f"Optimizer.{function}#{type(optimizer).__name__}.{function}"


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A subclass's `step` that calls the hooks, if there are any."""

    def step_with_hooks(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        attributes = self.__dict__
        began = profiling.begin() if profiling.on else 0
        if not (
            attributes["_optimizer_step_pre_hooks"]
            or attributes["_optimizer_step_post_hooks"]
            or _global_pre_hooks
            or _global_post_hooks
        ):
            attributes["_opt_called"] = True
            out = step(self, *args, **kwargs)
            if began:
                profiling.end(began, name_of(self, "step"), profiling.OPTIMIZER)
            return out
        for hook in [
            *_global_pre_hooks.values(),
            *attributes["_optimizer_step_pre_hooks"].values(),
        ]:
            result = hook(self, args, kwargs)
            if result is not None:
                if not (isinstance(result, tuple) and len(result) == 2):
                    raise RuntimeError(
                        "register_step_pre_hook: a hook must return None or (args, kwargs): got "
                        f"{result!r}"
                    )
                args, kwargs = result
        attributes["_opt_called"] = True
        out = step(self, *args, **kwargs)
        for hook in [
            *attributes["_optimizer_step_post_hooks"].values(),
            *_global_post_hooks.values(),
        ]:
            hook(self, args, kwargs)
        if began:
            profiling.end(began, name_of(self, "step"), profiling.OPTIMIZER)
        return out

    step_with_hooks.__doc__ = step.__doc__
    step_with_hooks.__name__ = "step"
    return step_with_hooks
