"""igamma, igammac and mvlgamma: other names for functions of `special`, which are declared on first
use (ops/__init__.py).
"""

from __future__ import annotations

from ..table.check_dtypes import check_any_floating
from ..table.op_table import check_tensors, composite


@composite(inplace=True)
def igamma(ops, input, other):
    """The regularised lower incomplete gamma function P(a, x): `special.gammainc`.

    Parameters
    ----------
    input : Tensor
        a, not negative.
    other : Tensor
        x, not negative; broadcast against `input`.

    Returns
    -------
    Tensor
        In [0, 1]; NaN for negative numbers.

    See Also
    --------
    igammac, special.gammainc

    Examples
    --------
    >>> st.igamma(st.tensor([1.]), st.tensor([0.]))
    tensor([0.])
    """
    check_tensors("igamma", input, other)
    check_any_floating("igamma", input, other)
    return ops.special_gammainc(input, other)


@composite(inplace=True)
def igammac(ops, input, other):
    """The regularised upper incomplete gamma function Q(a, x): `special.gammaincc`.

    Parameters
    ----------
    input : Tensor
        a, not negative.
    other : Tensor
        x, not negative; broadcast against `input`.

    Returns
    -------
    Tensor
        In [0, 1]; NaN for negative numbers.

    See Also
    --------
    igamma, special.gammaincc

    Examples
    --------
    >>> st.igammac(st.tensor([1.]), st.tensor([0.]))
    tensor([1.])
    """
    check_tensors("igammac", input, other)
    check_any_floating("igammac", input, other)
    return ops.special_gammaincc(input, other)


@composite(inplace=True)
def mvlgamma(ops, input, p):
    """The logarithm of the multivariate gamma function of dimension p: `special.multigammaln`.

    Parameters
    ----------
    input : Tensor
        Numbers above (p - 1) / 2; integers are converted to the default dtype.
    p : int
        The dimension.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Raises
    ------
    RuntimeError
        p is less than 1, or too large.

    See Also
    --------
    lgamma

    Examples
    --------
    >>> st.mvlgamma(st.tensor([1., 2.]), 1)
    tensor([0., 0.])
    """
    return ops.special_multigammaln(input, p)
