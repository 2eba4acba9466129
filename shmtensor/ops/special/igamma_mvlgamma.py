"""Gamma functions under the names that `shmtensor` itself and Tensor have for them: those of
`special`, which are declared later (ops/__init__.py).
"""

from __future__ import annotations

from ..table.check_dtypes import fractions
from ..table.op_definition import composite, insist_on_tensors


@composite(inplace=True)
def igamma(ops, input, other):
    """The regularised lower incomplete gamma function: `special.gammainc`."""
    insist_on_tensors("igamma", input, other)
    fractions("igamma", input, other)
    return ops.special_gammainc(input, other)


@composite(inplace=True)
def igammac(ops, input, other):
    """The regularised upper incomplete gamma function: `special.gammaincc`."""
    insist_on_tensors("igammac", input, other)
    fractions("igammac", input, other)
    return ops.special_gammaincc(input, other)


@composite(inplace=True)
def mvlgamma(ops, input, p):
    """The logarithm of the multivariate gamma function of dimension p: `special.multigammaln`."""
    return ops.special_multigammaln(input, p)
