"""Bitwise operations, gcd, lcm and hash_tensor."""

from __future__ import annotations

import functools

import numpy as np

from ...native import parallel
from ..table.dims import axes, check_ordered
from ..table.op_table import op
from ..table.samples import ints, reals

INTEGERS = [(ints((3, 4), 100), ints((3, 4), 100)), (ints((2, 1), 100), ints((3,), 100))]
SHIFT = [(ints((3, 4), 100), ints((3, 4), 7)), (ints((2, 1), 100), ints((3,), 7))]


of_integers = functools.partial(op, broadcast=True, promote="common", samples=INTEGERS)


@of_integers(operator="and", numpy=parallel(np.bitwise_and))
def bitwise_and(xp, x, y, /):
    """The bits that are set in both of two elements; of bools `and`.

    Parameters
    ----------
    input, other : Tensor or int
        Integers or bool, broadcast against each other.

    Returns
    -------
    Tensor
        input & other, of the broadcast shape.

    Raises
    ------
    NotImplementedError
        An operand is not of integers or bool.

    See Also
    --------
    bitwise_or, bitwise_xor, logical_and

    Examples
    --------
    >>> st.bitwise_and(st.tensor([12, 7]), 10)
    tensor([8, 2])
    """
    return x & y


@of_integers(operator="or", numpy=parallel(np.bitwise_or))
def bitwise_or(xp, x, y, /):
    """The bits that are set in at least one of two elements; of bools `or`.

    Parameters
    ----------
    input, other : Tensor or int
        Integers or bool, broadcast against each other.

    Returns
    -------
    Tensor
        input | other, of the broadcast shape.

    Raises
    ------
    NotImplementedError
        An operand is not of integers or bool.

    See Also
    --------
    bitwise_and, bitwise_xor, logical_or

    Examples
    --------
    >>> st.bitwise_or(st.tensor([12, 1]), 10)
    tensor([14, 11])
    """
    return x | y


@of_integers(operator="xor", numpy=parallel(np.bitwise_xor))
def bitwise_xor(xp, x, y, /):
    """The bits that are set in exactly one of two elements.

    Parameters
    ----------
    input, other : Tensor or int
        Integers or bool, broadcast against each other.

    Returns
    -------
    Tensor
        input ^ other, of the broadcast shape.

    Raises
    ------
    NotImplementedError
        An operand is not of integers or bool.

    See Also
    --------
    bitwise_and, bitwise_or, logical_xor

    Examples
    --------
    >>> st.bitwise_xor(st.tensor([12, 10]), 10)
    tensor([6, 0])
    """
    return x ^ y


@op(operator="invert", numpy=parallel(np.invert), inplace=True, samples=[(ints((3, 4), 100),)])
def bitwise_not(xp, x, /):
    """All bits of each element inverted; of bools `not`.

    Parameters
    ----------
    input : Tensor
        Integers or bool.

    Returns
    -------
    Tensor
        ~input: of signed integers -input - 1.

    Raises
    ------
    NotImplementedError
        The tensor is not of integers or bool.

    See Also
    --------
    logical_not

    Examples
    --------
    >>> st.bitwise_not(st.tensor([0, 5]))
    tensor([-1, -6])
    >>> st.bitwise_not(st.tensor([True, False]))
    tensor([False,  True])
    """
    if x.dtype.kind == "f":
        raise RuntimeError(
            f"bitwise_not: the tensor must hold whole numbers or bool: {x.dtype.name}"
        )
    return ~x


shift = functools.partial(op, broadcast=True, promote="common", samples=SHIFT)


@shift(operator="lshift", numpy=parallel(np.left_shift, "b"))
def bitwise_left_shift(xp, x, y, /):
    """The bits of each element moved up.

    Parameters
    ----------
    input, other : Tensor or int
        Integers, and by how many places; broadcast against each other.

    Returns
    -------
    Tensor
        input * 2 ** other; bits beyond the dtype are lost.

    See Also
    --------
    bitwise_right_shift

    Examples
    --------
    >>> st.bitwise_left_shift(st.tensor([1, 3]), st.tensor([4, 1]))
    tensor([16,  6])
    """
    return x << y


@shift(operator="rshift", numpy=parallel(np.right_shift, "b"))
def bitwise_right_shift(xp, x, y, /):
    """The bits of each element moved down; of negative numbers the sign stays.

    Parameters
    ----------
    input, other : Tensor or int
        Integers, and by how many places; broadcast against each other.

    Returns
    -------
    Tensor
        input / 2 ** other, rounded down.

    See Also
    --------
    bitwise_left_shift

    Examples
    --------
    >>> st.bitwise_right_shift(st.tensor([16, -5]), 1)
    tensor([ 8, -3])
    """
    return x >> y


@of_integers(numpy=parallel(np.gcd), tensors="x y")
def gcd(xp, x, y, /):
    """The greatest common divisor of two elements.

    Parameters
    ----------
    input, other : Tensor
        Integers, broadcast against each other.

    Returns
    -------
    Tensor
        Not negative; gcd(0, 0) is 0.

    See Also
    --------
    lcm

    Examples
    --------
    >>> st.gcd(st.tensor([12, 0, -9]), st.tensor([18, 5, 6]))
    tensor([6, 5, 3])
    """
    return xp.gcd(x, y)


@of_integers(numpy=parallel(np.lcm), tensors="x y")
def lcm(xp, x, y, /):
    """The least common multiple of two elements.

    Parameters
    ----------
    input, other : Tensor
        Integers, broadcast against each other.

    Returns
    -------
    Tensor
        Not negative; 0 if one of the two is.

    See Also
    --------
    gcd

    Examples
    --------
    >>> st.lcm(st.tensor([4, 3]), st.tensor([6, 0]))
    tensor([12,  0])
    """
    return xp.lcm(x, y)


@op(samples=[(reals((3, 4)),), (reals((3, 4)), 1, True), (ints((2, 3, 4), 9), (0, 2)), ((),)])
def hash_tensor(xp, x, /, dim=None, keepdim=False, *, mode=0):
    """A checksum of the elements that does not depend on their order or on the layout.

    Parameters
    ----------
    input : Tensor
        Of a real dtype.
    dim : int or sequence of int, optional
        The dimensions over which it is computed; by default all.
    keepdim : bool, optional
        Whether the reduced dimensions stay, with size 1.
    mode : int, optional
        0: the only one.

    Returns
    -------
    Tensor
        uint64: the exclusive or of the elements' bits, as int64 or float64; 0 for no elements.

    Raises
    ------
    RuntimeError
        Another mode, or an empty tensor without `dim`.

    Examples
    --------
    >>> x = st.tensor([1, 2, 4])
    >>> st.hash_tensor(x), st.hash_tensor(st.flip(x, (0,)))
    (tensor(7, dtype=shmtensor.uint64), tensor(7, dtype=shmtensor.uint64))
    """
    check_ordered("hash_tensor", x)
    if mode != 0:
        raise RuntimeError(f"hash_tensor: no such mode: {mode}, 0 is needed")
    if dim is None and not x.size:
        raise RuntimeError(f"hash_tensor: a dim is needed for an empty tensor: shape {x.shape}")
    wide = x.astype(xp.int64 if x.dtype.kind in "iub" else xp.float64)
    bits = wide.view(xp.uint64)
    return xp.bitwise_xor.reduce(bits, axes(x, dim), keepdims=keepdim)
