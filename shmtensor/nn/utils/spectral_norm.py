"""spectral_norm by a forward pre-hook, the older form of `parametrizations.spectral_norm`.

Source: Miyato et al. 2018.
"""

from __future__ import annotations

from typing import Any, TypeVar

from ... import linalg
from ...autograd import no_grad, table
from ...tensor import Tensor
from .. import functional as F
from ..modules.module import Module
from ..parameter import Parameter
from .parametrizations import as_matrix, check_power_iterations, output_dim, power_iteration

__all__ = [
    "SpectralNorm",
    "SpectralNormLoadStateDictPreHook",
    "SpectralNormStateDictHook",
    "remove_spectral_norm",
    "spectral_norm",
]

M = TypeVar("M", bound=Module)


class SpectralNorm:
    """The hook: sets `module.<name>` to `<name>_orig / sigma` before forward.

    `sigma = u @ W @ v` is the largest singular value of `<name>_orig`, with the buffers `<name>_u`
    and `<name>_v`, which one forward in training mode improves by power iteration.

    Parameters
    ----------
    name : str, optional
        Of the weight.
    n_power_iterations : int, optional
        Steps for each forward in training mode, positive.
    dim : int, optional
        The dimension that counts outputs.
    eps : float, optional
        Lower bound of the norms divided by.

    Raises
    ------
    RuntimeError
        `apply`: the parameter has such a hook.
    ValueError
        `apply`: the parameter is None.

    Examples
    --------
    >>> from shmtensor.nn.utils.spectral_norm import SpectralNorm
    >>> hook = SpectralNorm.apply(nn.Linear(3, 2), "weight", 1, 0, 1e-12)
    >>> hook.name
    'weight'
    """

    # 0: state_dict has <name>_orig, <name>, <name>_u; 1: <name>_orig, <name>_u, <name>_v.
    _version = 1

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        check_power_iterations(n_power_iterations)
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """The weight with dimension `dim` first and all others flattened, (n, m)."""
        return as_matrix(weight, self.dim)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The weight divided by sigma, after power iteration if `do_power_iteration`."""
        weight = getattr(module, f"{self.name}_orig")
        u, v = (getattr(module, f"{self.name}_{part}") for part in "uv")
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            # v from u, then u from v: the reverse of parametrizations.spectral_norm
            power_iteration(matrix.mH, v, u, self.n_power_iterations, self.eps)
            u, v = u.clone(), v.clone()  # the next forward changes the buffers in place
        computed: Tensor = weight / table.vdot(u, matrix.mv(v))
        return computed

    def remove(self, module: Module) -> None:
        """Makes the weight a parameter again."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for suffix in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        weight = self.compute_weight(module, do_power_iteration=module.training)
        setattr(module, self.name, weight)

    @staticmethod
    def apply(
        module: Module, name: str, n_power_iterations: int, dim: int, eps: float
    ) -> SpectralNorm:
        """Replaces the parameter by `<name>_orig`, and registers the hooks.

        Raises: RuntimeError if the parameter has such a hook, ValueError if it is None.
        """
        if _find(module._forward_pre_hooks, SpectralNorm, name) is not None:
            raise RuntimeError(
                f"Cannot register two spectral_norm hooks on the same parameter {name}"
            )
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        with no_grad():
            matrix = as_matrix(weight, dim)
            u, v = (
                F.normalize(matrix.new_empty(size).normal_(0, 1), dim=0, eps=eps)
                for size in matrix.shape
            )
        delattr(module, name)
        module.register_parameter(f"{name}_orig", weight)
        # A plain attribute: forward recomputes it, and code may read its size before.
        setattr(module, name, weight.data)
        module.register_buffer(f"{name}_u", u)
        module.register_buffer(f"{name}_v", v)
        module.register_forward_pre_hook(hook)
        module._register_state_dict_hook(SpectralNormStateDictHook(hook))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(hook))
        return hook


class SpectralNormStateDictHook:
    """Writes the version to the metadata of a state_dict.

    Parameters
    ----------
    fn : SpectralNorm
        The hook that it belongs to.

    Raises
    ------
    RuntimeError
        In the call: the metadata has the key already.

    Examples
    --------
    >>> from shmtensor.nn.utils.spectral_norm import SpectralNorm
    >>> from shmtensor.nn.utils.spectral_norm import SpectralNormStateDictHook
    >>> SpectralNormStateDictHook(SpectralNorm()).fn.name
    'weight'
    """

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(self, module: Module, state_dict: Any, prefix: str, local_metadata: Any) -> None:
        versions = local_metadata.setdefault("spectral_norm", {})
        key = f"{self.fn.name}.version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.fn._version


class SpectralNormLoadStateDictPreHook:
    """Makes `<name>_v` from a state_dict of version 0, which has `<name>` instead.

    Parameters
    ----------
    fn : SpectralNorm
        The hook that it belongs to.

    Examples
    --------
    >>> from shmtensor.nn.utils.spectral_norm import SpectralNorm
    >>> from shmtensor.nn.utils.spectral_norm import SpectralNormLoadStateDictPreHook
    >>> SpectralNormLoadStateDictPreHook(SpectralNorm()).fn.name
    'weight'
    """

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        version = local_metadata.get("spectral_norm", {}).get(f"{self.fn.name}.version", 0)
        if version >= 1:
            return
        key = prefix + self.fn.name
        if key not in state_dict and all(f"{key}_{s}" in state_dict for s in ("orig", "u", "v")):
            return  # version 1, whose metadata was lost
        missing = [key + s for s in ("_orig", "", "_u") if key + s not in state_dict]
        if missing:
            missing_keys.extend(missing if strict else [])
            return
        with no_grad():
            original, u = state_dict[f"{key}_orig"], state_dict[f"{key}_u"]
            sigma = (original / state_dict.pop(key)).mean()
            matrix = as_matrix(original, self.fn.dim)
            # v such that u is the direction of W v, and u W v = sigma
            v = linalg.pinv(matrix).mv(u)
            state_dict[f"{key}_v"] = v * (sigma / table.vdot(u, matrix.mv(v)))


def _find(hooks: Any, cls: type, name: str) -> int | None:
    """The id of that parameter's hook of a class."""
    for hook_id, hook in hooks.items():
        norm: Any = getattr(hook, "fn", hook)
        if isinstance(hook, cls) and norm.name == name:
            return int(hook_id)
    return None


def spectral_norm(
    module: M,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> M:
    """Divides a weight by its largest singular value before each forward (Miyato et al. 2018).

    `nn.utils.parametrizations.spectral_norm` does the same with a parametrization.

    Parameters
    ----------
    module : Module
        The module, which is changed.
    name : str, optional
        Its parameter.
    n_power_iterations : int, optional
        Steps of power iteration for each forward in training mode.
    eps : float, optional
        Lower bound of the norms divided by.
    dim : int, optional
        The dimension that counts outputs; 0 by default, or 1 for transposed convolutions.

    Returns
    -------
    Module
        The module.

    See Also
    --------
    remove_spectral_norm

    Examples
    --------
    >>> layer = nn.utils.spectral_norm(nn.Linear(3, 2))
    >>> sorted(name for name, p in layer.named_parameters())
    ['bias', 'weight_orig']
    """
    dim = output_dim(module) if dim is None else dim
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Undoes `spectral_norm`; the parameter keeps the weight's value.

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
    >>> layer = nn.utils.spectral_norm(nn.Linear(3, 2))
    >>> layer = nn.utils.remove_spectral_norm(layer)
    >>> sorted(name for name, p in layer.named_parameters())
    ['bias', 'weight']
    """
    hook_id = _find(module._forward_pre_hooks, SpectralNorm, name)
    if hook_id is None:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    module._forward_pre_hooks.pop(hook_id).remove(module)
    for hooks, cls in (
        (module._state_dict_hooks, SpectralNormStateDictHook),
        (module._load_state_dict_pre_hooks, SpectralNormLoadStateDictPreHook),
    ):
        hook_id = _find(hooks, cls, name)
        if hook_id is not None:
            del hooks[hook_id]
    return module
