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
    """Bits that are set in both; of bools `and`."""
    return x & y


@of_integers(operator="or", numpy=parallel(np.bitwise_or))
def bitwise_or(xp, x, y, /):
    """Bits that are set in one of the two; of bools `or`."""
    return x | y


@of_integers(operator="xor", numpy=parallel(np.bitwise_xor))
def bitwise_xor(xp, x, y, /):
    """Bits that are set in exactly one of the two."""
    return x ^ y


@op(operator="invert", numpy=parallel(np.invert), inplace=True, samples=[(ints((3, 4), 100),)])
def bitwise_not(xp, x, /):
    """All bits inverted; of bools `not`."""
    if x.dtype.kind == "f":
        raise RuntimeError(
            f"bitwise_not: the tensor must hold whole numbers or bool: {x.dtype.name}"
        )
    return ~x


shift = functools.partial(op, broadcast=True, promote="common", samples=SHIFT)


@shift(operator="lshift", numpy=parallel(np.left_shift, "b"))
def bitwise_left_shift(xp, x, y, /):
    """Bits moved up by y places: x * 2 ** y."""
    return x << y


@shift(operator="rshift", numpy=parallel(np.right_shift, "b"))
def bitwise_right_shift(xp, x, y, /):
    """Bits moved down by y places, with the sign: x // 2 ** y."""
    return x >> y


@of_integers(numpy=parallel(np.gcd), tensors="x y")
def gcd(xp, x, y, /):
    """Greatest common divisor."""
    return xp.gcd(x, y)


@of_integers(numpy=parallel(np.lcm), tensors="x y")
def lcm(xp, x, y, /):
    """Least common multiple."""
    return xp.lcm(x, y)


@op(samples=[(reals((3, 4)),), (reals((3, 4)), 1, True), (ints((2, 3, 4), 9), (0, 2)), ((),)])
def hash_tensor(xp, x, /, dim=None, keepdim=False, *, mode=0):
    """The exclusive or of the elements' bits, as int64 or float64, in uint64: a checksum that is
    independent of order and layout. It is 0 for no elements.
    """
    check_ordered("hash_tensor", x)
    if mode != 0:
        raise RuntimeError(f"hash_tensor: no such mode: {mode}, 0 is needed")
    if dim is None and not x.size:
        raise RuntimeError(f"hash_tensor: a dim is needed for an empty tensor: shape {x.shape}")
    wide = x.astype(xp.int64 if x.dtype.kind in "iub" else xp.float64)
    bits = wide.view(xp.uint64)
    return xp.bitwise_xor.reduce(bits, axes(x, dim), keepdims=keepdim)
