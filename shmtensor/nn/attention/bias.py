"""Causal masks for `scaled_dot_product_attention`, also for fewer queries than keys."""

from __future__ import annotations

import warnings
from enum import IntEnum
from typing import Any

from ...functions import ones
from ...tensor import Tensor

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """The corner of a causal mask that the diagonal goes through.

    UPPER_LEFT: query i sees the keys up to i. LOWER_RIGHT: the last query sees all keys, the one
    before it all but the last, and so on.

    Examples
    --------
    >>> from shmtensor.nn.attention.bias import CausalVariant
    >>> [variant.name for variant in CausalVariant]
    ['UPPER_LEFT', 'LOWER_RIGHT']
    """

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """A causal mask, bool `(L, S)`: an `attn_mask` of `scaled_dot_product_attention`.

    Parameters
    ----------
    variant : CausalVariant
        Which corner the diagonal goes through.
    seq_len_q, seq_len_kv : int
        Number of queries L and keys S.

    Raises
    ------
    AssertionError
        variant is not a CausalVariant.

    See Also
    --------
    causal_upper_left, causal_lower_right

    Examples
    --------
    >>> from shmtensor.nn.attention.bias import CausalBias, CausalVariant
    >>> CausalBias(CausalVariant.UPPER_LEFT, 2, 3)
    tensor([[ True, False, False],
            [ True,  True, False]])
    """

    keeps_class = False  # results computed from it are plain tensors
    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> CausalBias:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(
                f"CausalBias: variant must be a CausalVariant: {type(variant).__name__}"
            )
        lower_right = variant == CausalVariant.LOWER_RIGHT
        if lower_right and seq_len_q > seq_len_kv:
            warnings.warn(
                "CausalBias: with more queries than keys the first queries see no key: "
                f"{seq_len_q}, {seq_len_kv}",
                stacklevel=2,
            )
        diagonal = seq_len_kv - seq_len_q if lower_right else 0
        mask = ones(seq_len_q, seq_len_kv, dtype=bool).tril(diagonal)
        self: CausalBias = Tensor.__new__(cls, mask)
        self.variant = variant
        self.seq_len_q = seq_len_q
        self.seq_len_kv = seq_len_kv
        return self

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        pass

    def __reduce_ex__(self, protocol: Any) -> Any:
        return CausalBias, (self.variant, self.seq_len_q, self.seq_len_kv)


def causal_upper_left(*size: int) -> CausalBias:
    """The mask of is_causal=True.

    Parameters
    ----------
    *size : int
        The numbers of queries L and keys S.

    Returns
    -------
    CausalBias
        bool `(L, S)`.

    Raises
    ------
    AssertionError
        size has not two numbers.

    Examples
    --------
    >>> from shmtensor.nn.attention.bias import causal_upper_left
    >>> causal_upper_left(2, 3)
    tensor([[ True, False, False],
            [ True,  True, False]])
    """
    return _of_size("causal_upper_left", CausalVariant.UPPER_LEFT, size)


def causal_lower_right(*size: int) -> CausalBias:
    """The mask in which the last query sees all keys.

    Parameters
    ----------
    *size : int
        The numbers of queries L and keys S.

    Returns
    -------
    CausalBias
        bool `(L, S)`.

    Raises
    ------
    AssertionError
        size has not two numbers.

    Notes
    -----
    It is the mask of a step that continues a sequence whose earlier keys are cached.

    Examples
    --------
    >>> from shmtensor.nn.attention.bias import causal_lower_right
    >>> causal_lower_right(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    return _of_size("causal_lower_right", CausalVariant.LOWER_RIGHT, size)


def _of_size(name: str, variant: CausalVariant, size: tuple[int, ...]) -> CausalBias:
    if len(size) != 2:
        raise AssertionError(f"{name}: only 2D sizes are supported: {size}")
    return CausalBias(variant, *size)
