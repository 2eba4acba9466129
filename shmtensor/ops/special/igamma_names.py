"""igamma, igammac and mvlgamma: other names for functions of `special`, which are declared on first
use (ops/__init__.py).
"""

from __future__ import annotations

from ..table.check_dtypes import check_any_floating
from ..table.op_table import check_tensors, composite


@composite(inplace=True)
def igamma(ops, input, other):
    """The regularised lower incomplete gamma function: `special.gammainc`."""
    check_tensors("igamma", input, other)
    check_any_floating("igamma", input, other)
    return ops.special_gammainc(input, other)


@composite(inplace=True)
def igammac(ops, input, other):
    """The regularised upper incomplete gamma function: `special.gammaincc`."""
    check_tensors("igammac", input, other)
    check_any_floating("igammac", input, other)
    return ops.special_gammaincc(input, other)


@composite(inplace=True)
def mvlgamma(ops, input, p):
    """The logarithm of the multivariate gamma function of dimension p: `special.multigammaln`."""
    return ops.special_multigammaln(input, p)
