"""Einstein's notation: products of several tensors, summed over the letters that the result does
not have.
"""

from __future__ import annotations

import math
import string
from functools import lru_cache
from typing import Any

from ..table.op_table import composite

Labels = list[str]


@composite(autocast_cuda="lower", method=False)
def einsum(ops, equation, *operands):
    """Sums of products of tensors, written with letters for their dimensions.

    Parameters
    ----------
    equation : str
        The letters of each operand, separated by commas, and after "->" those of the result.
        Letters that the result lacks are summed over. "..." stands for dimensions that are
        broadcast. Without "->" the result has the letters that occur once, in alphabetical order.
    *operands : Tensor
        The tensors. Another form gives numbers instead of letters: `einsum(x, [0, 1], y, [1, 2],
        [0, 2])`.

    Returns
    -------
    Tensor
        With the dimensions of the result's letters.

    Raises
    ------
    RuntimeError
        Letters and dimensions do not match, or sizes of one letter differ.

    See Also
    --------
    matmul, tensordot

    Notes
    -----
    Operands are contracted from the left, each pair by one (batched) matrix product.

    Examples
    --------
    >>> x = st.tensor([[1., 2.], [3., 4.]])
    >>> st.einsum("ij,jk->ik", x, x)
    tensor([[ 7., 10.],
            [15., 22.]])
    >>> st.einsum("ii", x)
    tensor(5.)
    >>> st.einsum("bij,bkj->bik", st.ones(8, 3, 4), st.ones(8, 5, 4)).shape
    Size([8, 3, 5])
    """
    if not isinstance(equation, str):
        equation, operands = equation_of(equation, *operands)
    elif len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    if len(operands) == 2 and is_product(equation, operands[0].ndim, operands[1].ndim):
        x, y = operands
        if tuple(x.shape[:-2]) == tuple(y.shape[:-2]) and x.shape[-1] == y.shape[-2]:
            return ops.matmul(x, y)
    ranks = tuple([x.ndim for x in operands])
    plan = plan_product(equation, ranks) if len(ranks) == 2 else None
    if plan is not None:
        x, y = operands
        out = run_plan(ops, x, y, plan)
        if out is not None:
            return out
    terms, result = parse_equation(equation, ranks)
    pairs = [take_diagonals(ops, x, labels) for x, labels in zip(operands, terms, strict=True)]
    sizes: dict[str, int] = {}
    for x, labels in pairs:
        for label, n in zip(labels, x.shape, strict=True):
            if sizes.setdefault(label, n) != n and 1 not in (n, sizes[label]):
                raise RuntimeError(
                    f"einsum: sizes of {label!r} differ: {n} and {sizes[label]} in {equation!r}"
                )
            sizes[label] = max(sizes[label], n) if 1 in (n, sizes[label]) else n
    x, labels = pairs[0]
    if len(pairs) == 1:
        x, labels = sum_out(ops, x, labels, set(result))
    for i, (y, y_labels) in enumerate(pairs[1:], 1):
        later = set(result).union(*(set(names) for _, names in pairs[i + 1 :]))
        x, labels = contract(ops, x, labels, y, y_labels, later)
    return ops.permute(x, tuple(labels.index(label) for label in result)) if result else x


@lru_cache(1000)
def is_product(equation: str, rank_x: int, rank_y: int) -> bool:
    """Is it a (batched) matrix product without permutations: "bij,bjk->bik"?"""
    operands, _, result = equation.replace(" ", "").partition("->")
    x, _, y = operands.partition(",")
    if not operands.replace(",", "").isalpha() or not (len(x) == rank_x == rank_y == len(y) >= 2):
        return False
    batch, row, column = x[:-2], x[-2], y[-1]
    if x[-1] != y[-2] or batch != y[:-2] or result != batch + row + column:
        return False
    return len(set(x + column)) == len(x) + 1


def equation_of(*arguments: Any) -> tuple[str, tuple[Any, ...]]:
    """The equation and the operands of the form with lists of numbers."""

    def word(labels: Any) -> str:
        return "".join("..." if i is Ellipsis else string.ascii_letters[i] for i in labels)

    operands, labels = arguments[: len(arguments) // 2 * 2 : 2], arguments[1::2]
    equation = ",".join(word(item) for item in labels)
    if len(arguments) % 2:
        equation += "->" + word(arguments[-1])
    return equation, operands


Plan = tuple[Any, Any, int, int, int, Any]


@lru_cache(1000)
def plan_product(equation: str, ranks: tuple[int, int]) -> Plan | None:
    """How two operands become one product: the order of the dimensions of each (batch, rows, inner;
    batch, inner, columns; None: unchanged), the numbers of batch, row and inner dimensions, and the
    order of the result. None: one operand has a letter twice, or is summed alone over a letter.
    """
    (left, right), result = parse_equation(equation, ranks)
    if len(set(left)) != len(left) or len(set(right)) != len(right):
        return None
    batch = [k for k in left if k in right and k in result]
    inner = [k for k in left if k in right and k not in result]
    rows = [k for k in left if k not in right]
    columns = [k for k in right if k not in left]
    if not set(result).issuperset(rows + columns):
        return None

    def order(labels: Labels, target: Labels) -> Any:
        return None if labels == target else tuple(labels.index(k) for k in target)

    return (
        order(left, batch + rows + inner),
        order(right, batch + inner + columns),
        len(batch),
        len(rows),
        len(inner),
        order(batch + rows + columns, result),
    )


def run_plan(ops: Any, x: Any, y: Any, plan: Plan) -> Any:
    """The product of a plan; None if sizes differ (one may be 1) or an operand is empty."""
    first, second, batch, rows, inner, last = plan
    x = x if first is None else ops.permute(x, first)
    y = y if second is None else ops.permute(y, second)
    a, b = tuple(x.shape), tuple(y.shape)
    lead, common, m = a[:batch], a[batch + rows :], batch + inner
    if lead != b[:batch] or common != b[batch:m] or 0 in a or 0 in b:
        return None
    shape = lead + a[batch : batch + rows] + b[m:]
    if not inner:
        x = ops.reshape(x, a + (1,) * (len(b) - m))
        y = ops.reshape(y, lead + (1,) * rows + b[m:]) if rows else y
        out = ops.mul(x, y)
    elif rows == inner == len(b) - m == 1:
        out = ops.matmul(x, y)
    else:
        n = math.prod(common)
        x, y = ops.reshape(x, (*lead, -1, n)), ops.reshape(y, (*lead, n, -1))
        out = ops.reshape(ops.matmul(x, y), shape)
    return out if last is None else ops.permute(out, last)


@lru_cache(1000)
def parse_equation(equation: str, ranks: tuple[int, ...]) -> tuple[list[Labels], Labels]:
    """The labels of each operand and of the result; each dimension of "..." gets its own label."""
    operands_part, arrow, result_part = equation.replace(" ", "").partition("->")
    input_terms = operands_part.split(",")
    if len(input_terms) != len(ranks):
        raise RuntimeError(
            f"einsum: {len(ranks)} operands for {len(input_terms)} terms: {equation!r}"
        )
    terms = []
    for term_text, n in zip(input_terms, ranks, strict=True):
        head, dots, tail = term_text.partition("...")
        extra = n - len(head) - len(tail)
        if extra < 0 or (extra and not dots) or (not (head + tail).isalpha() and head + tail):
            raise RuntimeError(f"einsum: the term does not fit {n} dimensions: {term_text!r}")
        terms.append([*head, *(f".{i}" for i in range(extra - 1, -1, -1)), *tail])
    ellipsis = sorted({label for term in terms for label in term if label[0] == "."}, reverse=True)
    if not arrow:
        letters = "".join(input_terms).replace(".", "")
        return terms, [*ellipsis, *sorted(c for c in set(letters) if letters.count(c) == 1)]
    head, dots, tail = result_part.partition("...")
    result = [*head, *(ellipsis if dots else []), *tail]
    labels = {label for term in terms for label in term}
    if len(set(result)) != len(result) or not labels.issuperset(result):
        raise RuntimeError(
            f"einsum: a letter of the result is unknown or comes twice: {equation!r}"
        )
    return terms, result


def take_diagonals(ops: Any, x: Any, labels: Labels) -> tuple[Any, Labels]:
    """Takes the diagonal for letters that one operand has twice."""
    labels = list(labels)
    for label in [k for k in dict.fromkeys(labels) if labels.count(k) > 1]:
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            if x.shape[i] != x.shape[j]:
                raise RuntimeError(f"einsum: sizes of {label!r} differ: {x.shape[i]}, {x.shape[j]}")
            x = ops.diagonal(x, 0, i, j)
            labels = [k for d, k in enumerate(labels) if d not in (i, j)] + [label]
    return x, labels


def sum_out(ops: Any, x: Any, labels: Labels, needed: set[str]) -> tuple[Any, Labels]:
    """Sums over the letters that are not needed."""
    dims = tuple(d for d, label in enumerate(labels) if label not in needed)
    if not dims:
        return x, labels
    return ops.sum(x, dims), [label for label in labels if label in needed]


def contract(
    ops: Any, x: Any, x_labels: Labels, y: Any, y_labels: Labels, later: set[str]
) -> tuple[Any, Labels]:
    """Contracts two operands: common letters are a batch if they are needed later, else summed."""
    x, x_labels = sum_out(ops, x, x_labels, later | set(y_labels))
    y, y_labels = sum_out(ops, y, y_labels, later | set(x_labels))
    both = [label for label in x_labels if label in y_labels]
    for label in both:  # a size of 1 is expanded
        i, j = x_labels.index(label), y_labels.index(label)
        if x.shape[i] != y.shape[j]:
            n = max(x.shape[i], y.shape[j])
            x = ops.expand(x, (*x.shape[:i], n, *x.shape[i + 1 :]))
            y = ops.expand(y, (*y.shape[:j], n, *y.shape[j + 1 :]))
    batch, inner = ([k for k in both if (k in later) is is_batch] for is_batch in (True, False))
    rows, columns = ([k for k in labels if k not in both] for labels in (x_labels, y_labels))
    size = dict(zip(x_labels, x.shape, strict=True)) | dict(zip(y_labels, y.shape, strict=True))

    def arrange(z: Any, labels: Labels, *groups: Labels) -> Any:
        order = tuple(labels.index(label) for group in groups for label in group)
        shape = tuple(math.prod(size[k] for k in group) for group in groups)
        return ops.reshape(ops.permute(z, order), shape)

    labels = batch + rows + columns
    if not inner:
        shape = [size[k] for k in batch]
        high, wide = (math.prod(size[k] for k in group) for group in (rows, columns))
        x = ops.reshape(arrange(x, x_labels, batch, rows), (*shape, high, 1))
        y = ops.reshape(arrange(y, y_labels, batch, columns), (*shape, 1, wide))
        out = ops.mul(x, y)
    else:
        out = ops.matmul(
            arrange(x, x_labels, batch, rows, inner), arrange(y, y_labels, batch, inner, columns)
        )
    return ops.reshape(out, tuple(size[k] for k in labels)), labels
