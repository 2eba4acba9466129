"""weight_norm by a forward pre-hook, the older form of `parametrizations.weight_norm`."""

from __future__ import annotations

import warnings
from typing import Any, TypeVar

from ...autograd import table
from ...tensor import Tensor
from ..modules.module import Module
from ..parameter import Parameter
from .parametrizations import weight_norm_of

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]

M = TypeVar("M", bound=Module)


class WeightNorm:
    """The hook: sets `module.<name>` to `<name>_g * <name>_v / norm(<name>_v)` before forward.

    Parameters
    ----------
    name : str
        Of the weight.
    dim : int or None
        The dimension with separate norms; None is one norm of the full weight.

    Raises
    ------
    RuntimeError
        `apply`: the parameter has such a hook.

    Examples
    --------
    >>> import warnings
    >>> from shmtensor.nn.utils.weight_norm import WeightNorm
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     hook = WeightNorm.apply(nn.Linear(3, 2), "weight", 0)
    >>> hook.name
    'weight'
    """

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """The weight from its norms and directions."""
        g, v = (getattr(module, f"{self.name}_{part}") for part in "gv")
        return weight_norm_of(v, g, self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Replaces the parameter by its norms and directions, and registers the hook.

        Raises: RuntimeError if the parameter has such a hook.
        """
        warnings.warn(
            "`nn.utils.weight_norm` is deprecated in favor of "
            "`nn.utils.parametrizations.weight_norm`.",
            FutureWarning,
            stacklevel=3,
        )
        if _find(module, name) is not None:
            raise RuntimeError(
                f"Cannot register two weight_norm hooks on the same parameter {name}"
            )
        hook = WeightNorm(name, dim)
        weight = getattr(module, name)
        norms = table.norm_except_dim(weight.detach(), 2, hook.dim)
        delattr(module, name)
        module.register_parameter(f"{name}_g", Parameter(norms))
        module.register_parameter(f"{name}_v", Parameter(weight.data))
        setattr(module, name, hook.compute_weight(module))
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module: Module) -> None:
        """Makes the weight a parameter again."""
        weight = self.compute_weight(module).detach()
        for name in (self.name, f"{self.name}_g", f"{self.name}_v"):
            delattr(module, name)
        module.register_parameter(self.name, Parameter(weight))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def _find(module: Module, name: str) -> int | None:
    """The id of the weight_norm hook for that parameter."""
    for hook_id, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            return hook_id
    return None


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Splits a weight into the parameters `<name>_g`, its norms, and `<name>_v`, its directions
    (Salimans and Kingma 2016).

    Deprecated: `nn.utils.parametrizations.weight_norm` does the same with a parametrization.

    Parameters
    ----------
    module : Module
        The module, which is changed.
    name : str, optional
        Its parameter.
    dim : int, optional
        The dimension with separate norms; None is one norm of the full weight.

    Returns
    -------
    Module
        The module.

    See Also
    --------
    remove_weight_norm

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     layer = nn.utils.weight_norm(nn.Linear(3, 2))
    >>> sorted((name, tuple(p.shape)) for name, p in layer.named_parameters())
    [('bias', (2,)), ('weight_g', (2, 1)), ('weight_v', (2, 3))]
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Undoes `weight_norm`; the parameter keeps the weight's value.

    Parameters
    ----------
    module : Module
        The module, which is changed.
    name : str, optional
        Its parameter.

    Returns
    -------
    Module
        The module.

    Raises
    ------
    ValueError
        The parameter has no such hook.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     layer = nn.utils.weight_norm(nn.Linear(3, 2))
    >>> layer = nn.utils.remove_weight_norm(layer)
    >>> sorted(name for name, p in layer.named_parameters())
    ['bias', 'weight']
    """
    hook_id = _find(module, name)
    if hook_id is None:
        raise ValueError(f"weight_norm of '{name}' not found in {module}")
    module._forward_pre_hooks.pop(hook_id).remove(module)
    return module
