"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from ...functions import cat
from ...tensor import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters, one after the other, as a vector.

    Parameters
    ----------
    parameters : iterable of Tensor
        The parameters.

    Returns
    -------
    Tensor
        `(n,)`. Copies: one.

    See Also
    --------
    vector_to_parameters

    Examples
    --------
    >>> nn.utils.parameters_to_vector([st.tensor([[1., 2.]]), st.tensor([3.])])
    tensor([1., 2., 3.])
    """
    return cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Sets the parameters to the parts of a vector.

    Parameters
    ----------
    vec : Tensor
        `(n,)`.
    parameters : iterable of Tensor
        The parameters, n elements together.

    Raises
    ------
    TypeError
        vec is not a tensor.

    See Also
    --------
    parameters_to_vector

    Notes
    -----
    Copies: none (they share the vector's memory).

    Examples
    --------
    >>> layer = nn.Linear(2, 1)
    >>> nn.utils.vector_to_parameters(st.tensor([1., 2., 3.]), layer.parameters())
    >>> layer.weight.detach(), layer.bias.detach()
    (tensor([[1., 2.]]), tensor([3.]))
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"vector_to_parameters: expected a Tensor: got {type(vec).__name__}")
    start = 0
    for p in parameters:
        stop = start + p.numel()
        p.data = vec[start:stop].reshape(p.shape).data
        start = stop
