"""`torch.utils.hooks`: handles of hooks, and marks of hooks that no message takes along."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..nn.modules.module_hooks import BackwardHook as BackwardHook
from ..nn.modules.module_hooks import RemovableHandle as RemovableHandle

__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]

F = TypeVar("F", bound=Callable[..., Any])


def unserializable_hook(f: F) -> F:
    """Marks a hook whose tensor may be sent or saved without it; as a decorator.

    Parameters
    ----------
    f : callable
        The hook.

    Returns
    -------
    callable
        `f`, with the attribute `__torch_unserializable__`.

    Examples
    --------
    >>> @st.utils.hooks.unserializable_hook
    ... def double(grad):
    ...     return grad * 2
    >>> x = st.ones(2, requires_grad=True)
    >>> handle = x.register_hook(double)
    >>> x.sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]
    return f


def warn_if_has_hooks(tensor: Any) -> None:
    """Does nothing: hooks are not sent with a tensor, which its documentation says.

    Parameters
    ----------
    tensor : Tensor
        Accepted; has no effect.

    Examples
    --------
    >>> st.utils.hooks.warn_if_has_hooks(st.ones(2))
    """
