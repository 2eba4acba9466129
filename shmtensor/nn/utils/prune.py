"""Pruning: a mask, stored as a buffer, that sets part of a parameter to zero.

A pruned parameter `weight` becomes the parameter `weight_orig` and the buffer `weight_mask`; a
forward pre-hook sets `weight = weight_mask * weight_orig`. The hook, the methods and their
functions are in one long file, as in PyTorch.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from ... import functions
from ...autograd import no_grad, table
from ...tensor import Tensor
from ..modules.module import Module
from .convert_parameters import parameters_to_vector

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]

M = TypeVar("M", bound=Module)


# ---------------------------------------------------------------- amounts, dimensions, norms
def _check_amount(amount: Any) -> None:
    is_number = isinstance(amount, numbers.Real)
    if not is_number:
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    is_count = isinstance(amount, numbers.Integral)
    if amount < 0 or (not is_count and amount > 1.0):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
            "integer"
        )


def _number_to_prune(amount: Any, size: int) -> int:
    """The number of parameters or channels to prune of `size`; amount is a count or a fraction."""
    is_count = isinstance(amount, numbers.Integral)
    if not is_count:
        return round(amount * size)
    if amount > size:
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to prune={size}"
        )
    return int(amount)


def _check_structured(t: Tensor, dim: int) -> None:
    if t.ndim <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of "
            f"shape {t.shape} with {t.ndim} dims"
        )
    if not -t.ndim <= dim < t.ndim:
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


def _channel_norms(t: Tensor, n: Any, dim: int) -> Tensor:
    """The norm of order `n` over all dimensions but `dim`, shape (t.shape[dim],)."""
    dims = tuple(d for d in range(t.ndim) if d != dim % t.ndim)
    norms: Tensor = table.norm(t, n, dims)
    return norms


def _mask_of_channels(t: Tensor, pruned: Tensor, dim: int) -> Tensor:
    """Ones like `t`, with zeros in the channels `pruned` along `dim`."""
    mask = functions.ones_like(t)
    return mask.index_fill_(dim % t.ndim, pruned, 0)


# ---------------------------------------------------------------- the hook and its base
class BasePruningMethod(ABC):
    """The forward pre-hook that applies a mask; a subclass defines how the mask is computed.

    `PRUNING_TYPE` is the part of a pruned tensor on which a further method works: "unstructured":
    the remaining elements; "structured": the remaining channels; "global": all elements.

    Raises
    ------
    AssertionError
        importance_scores have another shape than the tensor.

    Examples
    --------
    >>> from shmtensor.nn.utils import prune
    >>> class EverySecond(prune.BasePruningMethod):
    ...     PRUNING_TYPE = "unstructured"
    ...
    ...     def compute_mask(self, t, default_mask):
    ...         mask = default_mask.clone()
    ...         mask.view(-1)[::2] = 0
    ...         return mask
    >>> method = EverySecond.apply(nn.Linear(4, 1), "weight")
    >>> layer = nn.Linear(4, 1)
    >>> _ = EverySecond.apply(layer, "weight")
    >>> layer.weight_mask
    tensor([[0., 1., 0., 1.]])
    """

    _tensor_name: str
    PRUNING_TYPE: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask for `t`.

        Args:
            t: importance scores, of any shape; the lowest are pruned.
            default_mask: the mask so far, same shape.

        Returns: the new mask, same shape.
        """

    def apply_mask(self, module: Module) -> Tensor:
        """The pruned tensor, mask times original."""
        mask = getattr(module, f"{self._tensor_name}_mask")
        original = getattr(module, f"{self._tensor_name}_orig")
        pruned: Tensor = mask.to(original.dtype) * original
        return pruned

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> Any:
        """Prunes `module.<name>` with the method `cls(*args, **kwargs)`, after earlier methods.

        Args:
            importance_scores: a tensor of the parameter's shape whose lowest elements are pruned;
                None: the parameter itself.

        Returns: the hook: the method, or a PruningContainer with the earlier ones.
        """
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        tensor = getattr(module, name)
        if importance_scores is None:
            importance_scores = tensor
        elif importance_scores.shape != tensor.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, "
                f"got {importance_scores.shape} vs {tensor.shape}"
            )
        hook_id = _find(module, name)
        with no_grad():
            if hook_id is None:
                mask = method.compute_mask(importance_scores, functions.ones_like(tensor))
                module.register_parameter(f"{name}_orig", tensor)
                delattr(module, name)
                module.register_buffer(f"{name}_mask", mask)
            else:
                container = PruningContainer(module._forward_pre_hooks[hook_id])
                container.add_pruning_method(method)
                method = container
                mask_before = getattr(module, f"{name}_mask")
                mask = method.compute_mask(importance_scores, mask_before)
                del module._forward_pre_hooks[hook_id]
                setattr(module, f"{name}_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Any = None
    ) -> Tensor:
        """`t` times the mask that this method computes; no module is needed.

        Args:
            t: the tensor.
            default_mask: the mask so far; None: ones.
            importance_scores: whose lowest elements are pruned; None: t.
        """
        if importance_scores is None:
            importance_scores = t
        elif importance_scores.shape != t.shape:
            raise AssertionError(
                "importance_scores should have the same shape as tensor t, got "
                f"{importance_scores.shape} vs {t.shape}"
            )
        mask = functions.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(importance_scores, default_mask=mask)

    def remove(self, module: Module) -> None:
        """Makes the pruned tensor a parameter again: the original, with zeros."""
        name = self._tensor_name
        original = module._parameters[f"{name}_orig"]
        pruned = self.apply_mask(module).detach()
        for key in (name, f"{name}_orig", f"{name}_mask"):
            delattr(module, key)
        original.data = pruned
        module.register_parameter(name, original)


def _find(module: Module, name: str) -> int | None:
    """The id of the pruning hook for that parameter."""
    for hook_id, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return int(hook_id)
    return None


class PruningContainer(BasePruningMethod):
    """Several pruning methods of one tensor; the last one computes the next mask.

    Parameters
    ----------
    *args : BasePruningMethod or iterable
        The first method, or an iterable of methods.

    Raises
    ------
    TypeError
        Another object is added.
    ValueError
        A method of another parameter is added.

    Examples
    --------
    >>> from shmtensor.nn.utils import prune
    >>> layer = nn.Linear(4, 2)
    >>> for _ in range(2):
    ...     layer = prune.l1_unstructured(layer, "weight", amount=1)
    >>> (hook,) = layer._forward_pre_hooks.values()
    >>> type(hook).__name__, len(hook)
    ('PruningContainer', 2)
    """

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        if len(args) == 1 and not isinstance(args[0], Iterable):
            self._tensor_name = args[0]._tensor_name
            self.add_pruning_method(args[0])
        else:
            methods = args[0] if len(args) == 1 else args
            for method in methods:
                if not self._pruning_methods:
                    self._tensor_name = method._tensor_name
                self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Adds a method of the same tensor.

        Raises: TypeError: not a pruning method; ValueError: a method of another tensor.
        """
        if method is not None:
            if not isinstance(method, BasePruningMethod):
                raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
            if self._tensor_name != method._tensor_name:
                raise ValueError(
                    "Can only add pruning methods acting on the parameter named "
                    f"'{self._tensor_name}' to PruningContainer {self}. Found "
                    f"'{method._tensor_name}'"
                )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask so far, with the remaining part pruned further by the last method."""
        method = self._pruning_methods[-1]
        mask = default_mask.clone().to(t.dtype)
        part: Any
        if method.PRUNING_TYPE == "unstructured":
            part = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = method.dim % t.ndim
            dims = tuple(d for d in range(t.ndim) if d != dim)
            channels = mask.sum(dims) != 0
            part = (slice(None),) * dim + (channels,)
        elif method.PRUNING_TYPE == "global":
            part = (slice(None),) * t.ndim
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        mask[part] = method.compute_mask(t[part], default_mask=mask[part]).to(mask.dtype)
        return mask


# ---------------------------------------------------------------- the methods
class Identity(BasePruningMethod):
    """Prunes nothing; the mask is all ones.

    See Also
    --------
    identity

    Examples
    --------
    >>> from shmtensor.nn.utils import prune
    >>> prune.Identity().prune(st.tensor([3., 4.]))
    tensor([3., 4.])
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask so far."""
        return default_mask


class RandomUnstructured(BasePruningMethod):
    """Prunes elements at random.

    Parameters
    ----------
    amount : int or float
        How many: a count, or a fraction between 0.0 and 1.0.

    See Also
    --------
    random_unstructured

    Examples
    --------
    >>> from shmtensor.nn.utils import prune
    >>> prune.RandomUnstructured(amount=0.5).prune(st.ones(4)).sum()
    tensor(2.)
    """

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask so far, less the elements drawn."""
        n = _number_to_prune(self.amount, t.numel())
        return _without(default_mask, functions.randperm(t.numel(), device=t.device)[:n])


class L1Unstructured(BasePruningMethod):
    """Prunes the elements of smallest absolute value.

    Parameters
    ----------
    amount : int or float
        How many: a count, or a fraction between 0.0 and 1.0.

    See Also
    --------
    l1_unstructured

    Examples
    --------
    >>> from shmtensor.nn.utils import prune
    >>> prune.L1Unstructured(amount=1).prune(st.tensor([-3., 1., 4.]))
    tensor([-3.,  0.,  4.])
    """

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask so far, less the smallest elements."""
        n = _number_to_prune(self.amount, t.numel())
        return _without(default_mask, t.abs().reshape(-1).topk(n, largest=False).indices)


def _without(mask: Tensor, indices: Tensor) -> Tensor:
    """A copy of a mask with zeros at indices into its elements."""
    flat: Tensor = mask.reshape(-1).clone()
    flat[indices] = 0
    return flat.reshape(mask.shape)


class RandomStructured(BasePruningMethod):
    """Prunes channels at random.

    Parameters
    ----------
    amount : int or float
        How many: a count, or a fraction between 0.0 and 1.0.
    dim : int, optional
        The dimension that counts channels.

    See Also
    --------
    random_structured

    Examples
    --------
    >>> from shmtensor.nn.utils import prune
    >>> prune.RandomStructured(amount=1, dim=0).prune(st.ones(3, 2)).sum()
    tensor(4.)
    """

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount = amount
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask so far, less the channels drawn."""
        _check_structured(t, self.dim)
        size = t.shape[self.dim]
        order = functions.randperm(size, device=t.device)
        pruned = order[: _number_to_prune(self.amount, size)]
        return _mask_of_channels(t, pruned, self.dim) * default_mask


class LnStructured(BasePruningMethod):
    """Prunes the channels of smallest norm.

    Parameters
    ----------
    amount : int or float
        How many: a count, or a fraction between 0.0 and 1.0.
    n : int, float or str
        Order of the norm: a number, inf, "fro" or "nuc".
    dim : int, optional
        The dimension that counts channels.

    See Also
    --------
    ln_structured

    Examples
    --------
    >>> from shmtensor.nn.utils import prune
    >>> prune.LnStructured(amount=1, n=2, dim=0).prune(st.tensor([[1., 2.], [3., 4.]]))
    tensor([[0., 0.],
            [3., 4.]])
    """

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount = amount
        self.n = n
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask so far, less the channels of smallest norm."""
        _check_structured(t, self.dim)
        n = _number_to_prune(self.amount, t.shape[self.dim])
        norms = _channel_norms(t, self.n, self.dim)
        pruned = norms.topk(n, largest=False).indices
        return _mask_of_channels(t, pruned, self.dim) * default_mask


class CustomFromMask(BasePruningMethod):
    """Prunes where a mask is zero.

    Parameters
    ----------
    mask : Tensor
        Of the parameter's shape.

    See Also
    --------
    custom_from_mask

    Examples
    --------
    >>> from shmtensor.nn.utils import prune
    >>> method = prune.CustomFromMask(st.tensor([1., 0.]))
    >>> method.prune(st.tensor([3., 4.]))
    tensor([3., 0.])
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask so far times this one."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape "
                f"{self.mask.shape}"
            )
        return default_mask * self.mask.to(default_mask.dtype)


# ---------------------------------------------------------------- functions
def identity(module: M, name: str) -> M:
    """Gives `module.<name>` a mask that prunes nothing.

    Parameters
    ----------
    module : Module
        The module, which is changed and returned.
    name : str
        Its parameter.

    Returns
    -------
    Module
        The module: the parameter is `<name>_orig`, the mask is the buffer `<name>_mask`, and
        `<name>` is their product.

    See Also
    --------
    Identity

    Examples
    --------
    >>> from shmtensor.nn.utils import prune
    >>> layer = nn.Linear(4, 2)
    >>> [name for name, buffer in prune.identity(layer, "weight").named_buffers()]
    ['weight_mask']
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: M, name: str, amount: float) -> M:
    """Prunes elements of `module.<name>` at random.

    Parameters
    ----------
    module : Module
        The module, which is changed and returned.
    name : str
        Its parameter.
    amount : int or float
        How many: a count, or a fraction between 0.0 and 1.0.

    Returns
    -------
    Module
        The module: the parameter is `<name>_orig`, the mask is the buffer `<name>_mask`, and
        `<name>` is their product.

    See Also
    --------
    RandomUnstructured

    Examples
    --------
    >>> from shmtensor.nn.utils import prune
    >>> layer = nn.Linear(4, 2)
    >>> layer = prune.random_unstructured(layer, "weight", amount=0.25)
    >>> (layer.weight == 0).sum()
    tensor(2)
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: M, name: str, amount: float, importance_scores: Any = None) -> M:
    """Prunes the elements of `module.<name>` of smallest absolute value.

    Parameters
    ----------
    module : Module
        The module, which is changed and returned.
    name : str
        Its parameter.
    amount : int or float
        How many: a count, or a fraction between 0.0 and 1.0.
    importance_scores : Tensor, optional
        Of the parameter's shape: the lowest are pruned, instead of the smallest elements.

    Returns
    -------
    Module
        The module: the parameter is `<name>_orig`, the mask is the buffer `<name>_mask`, and
        `<name>` is their product.

    See Also
    --------
    L1Unstructured, remove

    Examples
    --------
    >>> from shmtensor.nn.utils import prune
    >>> layer = nn.Linear(4, 2)
    >>> layer = prune.l1_unstructured(layer, "weight", amount=0.5)
    >>> (layer.weight == 0).sum()
    tensor(4)
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: M, name: str, amount: float, dim: int) -> M:
    """Prunes channels of `module.<name>` at random.

    Parameters
    ----------
    module : Module
        The module, which is changed and returned.
    name : str
        Its parameter.
    amount : int or float
        How many: a count, or a fraction between 0.0 and 1.0.
    dim : int
        The dimension that counts channels.

    Returns
    -------
    Module
        The module: the parameter is `<name>_orig`, the mask is the buffer `<name>_mask`, and
        `<name>` is their product.

    See Also
    --------
    RandomStructured

    Examples
    --------
    >>> from shmtensor.nn.utils import prune
    >>> layer = nn.Linear(4, 2)
    >>> layer = prune.random_structured(layer, "weight", amount=1, dim=0)
    >>> (layer.weight == 0).all(1).sum()
    tensor(1)
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: M, name: str, amount: float, n: Any, dim: int, importance_scores: Any = None
) -> M:
    """Prunes the channels of `module.<name>` of smallest norm.

    Parameters
    ----------
    module : Module
        The module, which is changed and returned.
    name : str
        Its parameter.
    amount : int or float
        How many: a count, or a fraction between 0.0 and 1.0.
    n : int, float or str
        Order of the norm: a number, inf, "fro" or "nuc".
    dim : int
        The dimension that counts channels.
    importance_scores : Tensor, optional
        Of the parameter's shape: their norm counts instead of the parameter's.

    Returns
    -------
    Module
        The module: the parameter is `<name>_orig`, the mask is the buffer `<name>_mask`, and
        `<name>` is their product.

    See Also
    --------
    LnStructured

    Examples
    --------
    >>> from shmtensor.nn.utils import prune
    >>> layer = nn.Linear(4, 2)
    >>> layer = prune.ln_structured(layer, "weight", amount=1, n=2, dim=0)
    >>> (layer.weight == 0).all(1).sum()
    tensor(1)
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: M, name: str, mask: Tensor) -> M:
    """Prunes `module.<name>` where a mask is zero.

    Parameters
    ----------
    module : Module
        The module, which is changed and returned.
    name : str
        Its parameter.
    mask : Tensor
        Of the parameter's shape.

    Returns
    -------
    Module
        The module: the parameter is `<name>_orig`, the mask is the buffer `<name>_mask`, and
        `<name>` is their product.

    See Also
    --------
    CustomFromMask

    Examples
    --------
    >>> from shmtensor.nn.utils import prune
    >>> layer = nn.Linear(4, 2)
    >>> layer = prune.custom_from_mask(layer, "bias", mask=st.tensor([1., 0.]))
    >>> layer.bias_mask
    tensor([1., 0.])
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prunes several parameters as if they were one vector.

    Parameters
    ----------
    parameters : iterable of (Module, str)
        Modules and the names of their parameters.
    pruning_method : type
        A method of PRUNING_TYPE "unstructured".
    importance_scores : dict, optional
        Tensors by pair whose lowest elements are pruned; for a pair without one, the parameter.
    **kwargs
        Arguments of the method.

    Raises
    ------
    TypeError
        Another type of an argument, or a structured method.

    Examples
    --------
    >>> from shmtensor.nn.utils import prune
    >>> model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    >>> parameters = [(model[0], "weight"), (model[1], "weight")]
    >>> prune.global_unstructured(parameters, prune.L1Unstructured, amount=8)
    >>> sum((layer.weight == 0).sum().item() for layer in model)
    8
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    pairs = list(parameters)
    with no_grad():
        vector = parameters_to_vector(
            [scores.get((module, name), getattr(module, name)) for module, name in pairs]
        )
        masks = [
            getattr(module, f"{name}_mask", functions.ones_like(getattr(module, name)))
            for module, name in pairs
        ]
        container = PruningContainer()
        container._tensor_name = "vector"
        method = pruning_method(**kwargs)
        method._tensor_name = "vector"
        if method.PRUNING_TYPE != "unstructured":
            raise TypeError(
                'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found '
                f"method {pruning_method} of type {method.PRUNING_TYPE}"
            )
        container.add_pruning_method(method)
        mask = container.compute_mask(vector, parameters_to_vector(masks))
        start = 0
        for module, name in pairs:
            tensor = getattr(module, name)
            stop = start + tensor.numel()
            custom_from_mask(module, name, mask[start:stop].reshape(tensor.shape))
            start = stop


def remove(module: M, name: str) -> M:
    """Makes pruning permanent: the parameter keeps its zeros, hook and mask are gone.

    Parameters
    ----------
    module : Module
        The module, which is changed and returned.
    name : str
        Its parameter.

    Returns
    -------
    Module
        The module.

    Raises
    ------
    ValueError
        The parameter is not pruned.

    Examples
    --------
    >>> from shmtensor.nn.utils import prune
    >>> layer = nn.Linear(4, 2)
    >>> layer = prune.l1_unstructured(layer, "weight", amount=0.5)
    >>> layer = prune.remove(layer, "weight")
    >>> prune.is_pruned(layer), (layer.weight == 0).sum()
    (False, tensor(4))
    """
    hook_id = _find(module, name)
    if hook_id is None:
        raise ValueError(
            f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
        )
    module._forward_pre_hooks.pop(hook_id).remove(module)
    return module


def is_pruned(module: Module) -> bool:
    """Whether a parameter of the module, or of a submodule, is pruned.

    Parameters
    ----------
    module : Module
        The module.

    Returns
    -------
    bool

    Examples
    --------
    >>> from shmtensor.nn.utils import prune
    >>> layer = nn.Linear(4, 2)
    >>> prune.is_pruned(layer), prune.is_pruned(prune.identity(layer, "weight"))
    (False, True)
    """
    return any(
        isinstance(hook, BasePruningMethod)
        for child in module.modules()
        for hook in child._forward_pre_hooks.values()
    )
