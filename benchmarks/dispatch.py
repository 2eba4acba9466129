"""Ops on tiny tensors, whose time is nearly all dispatch."""

from __future__ import annotations

from typing import Any

from .harness.case import Build, Case, compare

WITHOUT, WITH = 0.8, 0.9  # targets without and with a graph


def tiny(make: Any, with_graph: bool) -> Build:
    """`make(st)` is (function, arguments); floating-point ones are leaves if there is a graph."""

    def build(st: Any) -> Any:
        function, *arguments = make(st)
        if with_graph:
            for x in arguments:
                if x.dtype == st.float32:
                    x.requires_grad_(True)
        return lambda: function(*arguments)

    return build


def add_numpy(np: Any) -> Any:
    x, y = np.ones(4, np.float32), np.ones(4, np.float32)
    return lambda: x + y


def vector(st: Any) -> Any:
    return st.ones(4)


def square(st: Any) -> Any:
    """(4, 4), with distinct elements."""
    return st.arange(16, dtype=st.float32).reshape(4, 4)


def mask(st: Any) -> Any:
    return square(st) > 5


def places(st: Any) -> Any:
    return st.tensor([[0, 1], [1, 0], [2, 3], [3, 2]])


def norm(st: Any) -> Any:
    f = st.nn.functional.layer_norm
    return lambda x, w, b: f(x, (4,), w, b), square(st), vector(st), vector(st)


def subclass(st: Any) -> Any:
    """A tensor of a subclass that overrides nothing."""
    return square(st).as_subclass(type("Sub", (st.Tensor,), {}))


def refused(x: Any, y: Any) -> Any:
    try:
        return x + y
    except RuntimeError as error:
        return error


def in_autocast(st: Any, x: Any) -> Any:
    with st.autocast("cpu"):
        return x @ x


# Families: name, and a function that returns (function, arguments).
FAMILIES = [
    ("add", lambda st: (lambda x, y: x + y, vector(st), vector(st))),
    ("mul", lambda st: (lambda x, y: x * y, vector(st), vector(st))),
    ("times a number", lambda st: (lambda x: x * 2.0, square(st))),
    ("add, stretched", lambda st: (lambda x, y: x + y, square(st), vector(st))),
    ("div", lambda st: (lambda x, y: x / y, vector(st), vector(st))),
    ("pow", lambda st: (lambda x: x**2, vector(st))),
    ("exp", lambda st: (lambda x: x.exp(), square(st))),
    ("tanh", lambda st: (lambda x: x.tanh(), square(st))),
    ("relu", lambda st: (lambda x: x.relu(), square(st))),
    ("abs", lambda st: (lambda x: x.abs(), square(st))),
    ("clamp", lambda st: (lambda x: x.clamp(1.0, 5.0), square(st))),
    ("maximum", lambda st: (lambda x, y: st.maximum(x, y), vector(st), vector(st))),
    ("compare", lambda st: (lambda x: x > 2.0, square(st))),
    ("where", lambda st: (lambda c, x, y: st.where(c, x, y), mask(st), square(st), square(st))),
    ("masked_fill", lambda st: (lambda x, c: x.masked_fill(c, 0.0), square(st), mask(st))),
    ("addcmul", lambda st: (lambda x, y: st.addcmul(x, x, y), vector(st), vector(st))),
    ("lerp", lambda st: (lambda x, y: st.lerp(x, y, 0.5), vector(st), vector(st))),
    ("x[1:3]", lambda st: (lambda x: x[1:3], square(st))),
    ("x[1]", lambda st: (lambda x: x[1], square(st))),
    ("x[:, 1]", lambda st: (lambda x: x[:, 1], square(st))),
    ("x[index]", lambda st: (lambda x, i: x[i], square(st), st.tensor([0, 2]))),
    ("x[mask]", lambda st: (lambda x, c: x[c], square(st), mask(st))),
    ("reshape", lambda st: (lambda x: x.reshape(16), square(st))),
    ("view", lambda st: (lambda x: x.view(2, 8), square(st))),
    ("transpose", lambda st: (lambda x: x.transpose(0, 1), square(st))),
    ("permute", lambda st: (lambda x: x.permute(1, 0), square(st))),
    ("unsqueeze", lambda st: (lambda x: x.unsqueeze(0), square(st))),
    ("squeeze", lambda st: (lambda x: x.squeeze(0), square(st).unsqueeze(0))),
    ("expand", lambda st: (lambda x: x.expand(3, 4), vector(st))),
    ("flatten", lambda st: (lambda x: x.flatten(), square(st))),
    ("contiguous", lambda st: (lambda x: x.t().contiguous(), square(st))),
    ("clone", lambda st: (lambda x: x.clone(), square(st))),
    ("cast", lambda st: (lambda x: x.to(st.float64), square(st))),
    ("flip", lambda st: (lambda x: x.flip(0), square(st))),
    ("roll", lambda st: (lambda x: x.roll(1, 0), square(st))),
    ("tril", lambda st: (lambda x: x.tril(), square(st))),
    ("diagonal", lambda st: (lambda x: x.diagonal(), square(st))),
    ("sum", lambda st: (lambda x: x.sum(), square(st))),
    ("sum(1)", lambda st: (lambda x: x.sum(1), square(st))),
    ("mean", lambda st: (lambda x: x.mean(), square(st))),
    ("mean(1)", lambda st: (lambda x: x.mean(1), square(st))),
    ("var", lambda st: (lambda x: x.var(), square(st))),
    ("std(1)", lambda st: (lambda x: x.std(1), square(st))),
    ("prod", lambda st: (lambda x: x.prod(), square(st))),
    ("norm", lambda st: (lambda x: x.norm(), square(st))),
    ("amax(1)", lambda st: (lambda x: x.amax(1), square(st))),
    ("max", lambda st: (lambda x: x.max(), square(st))),
    ("max(1)", lambda st: (lambda x: x.max(1), square(st))),
    ("logsumexp", lambda st: (lambda x: x.logsumexp(1), square(st))),
    ("cumsum", lambda st: (lambda x: x.cumsum(1), square(st))),
    ("sort", lambda st: (lambda x: x.sort(1), square(st))),
    ("topk", lambda st: (lambda x: x.topk(2, 1), square(st))),
    ("matmul", lambda st: (lambda x, y: x @ y, square(st), square(st))),
    ("matmul, vector", lambda st: (lambda x, y: x @ y, square(st), vector(st))),
    ("dot", lambda st: (lambda x, y: st.dot(x, y), vector(st), vector(st))),
    ("bmm", lambda st: (lambda x: st.bmm(x, x), st.ones(2, 4, 4))),
    ("einsum", lambda st: (lambda x, y: st.einsum("ij,jk->ik", x, y), square(st), square(st))),
    ("linear", lambda st: (st.nn.functional.linear, square(st), square(st), vector(st))),
    ("cat", lambda st: (lambda x, y: st.cat([x, y]), vector(st), vector(st))),
    ("stack", lambda st: (lambda x, y: st.stack([x, y]), vector(st), vector(st))),
    ("split", lambda st: (lambda x: x.split(2), square(st))),
    ("unbind", lambda st: (lambda x: x.unbind(0), square(st))),
    ("gather", lambda st: (lambda x, i: x.gather(1, i), square(st), places(st))),
    (
        "scatter_add",
        lambda st: (lambda x, i, y: x.scatter_add(1, i, y), square(st), places(st), st.ones(4, 2)),
    ),
    ("index_select", lambda st: (lambda x, i: x.index_select(0, i), square(st), st.tensor([0, 2]))),
    ("softmax", lambda st: (lambda x: x.softmax(1), square(st))),
    ("layer_norm", norm),
    ("gelu", lambda st: (st.nn.functional.gelu, square(st))),
]

# Families whose results are not floating point, or that create tensors.
PLAIN = [
    ("argmax", lambda st: (lambda x: x.argmax(1), square(st))),
    ("all", lambda st: (lambda x: x.all(), mask(st))),
    ("any(1)", lambda st: (lambda x: x.any(1), mask(st))),
    ("nonzero", lambda st: (lambda x: x.nonzero(), mask(st))),
    ("unique", lambda st: (lambda x: x.unique(), st.tensor([3, 1, 3, 2]))),
    ("logical_and", lambda st: (lambda x: st.logical_and(x, x), mask(st))),
    ("sum of integers", lambda st: (lambda x: x.sum(), st.tensor([3, 1, 3, 2]))),
    ("zeros", lambda st: (lambda: st.zeros(4),)),
    ("arange", lambda st: (lambda: st.arange(4),)),
    ("rand", lambda st: (lambda: st.rand(4),)),
    ("tensor", lambda st: (lambda: st.tensor([1.0, 2.0]),)),
    ("item", lambda st: (lambda x: (x.item(),), st.ones(1))),
    ("add_", lambda st: (lambda x: x.add_(1.0), vector(st))),
]

# Unusual calls: two dtypes, rare arguments, other classes, errors.
ODD = [
    ("integers + 1.5", lambda st: (lambda x: x + 1.5, st.arange(4))),
    ("integers + floats", lambda st: (lambda x, y: x + y, st.arange(4), vector(st))),
    ("add, out", lambda st: (lambda x, y, z: st.add(x, y, out=z), *[vector(st)] * 2, st.ones(4))),
    ("add, alpha", lambda st: (lambda x, y: st.add(x, y, alpha=2), vector(st), vector(st))),
    ("add, by name", lambda st: (lambda x, y: st.add(input=x, other=y), vector(st), vector(st))),
    ("sum, by NumPy's names", lambda st: (lambda x: x.sum(axis=1, keepdims=True), square(st))),
    ("subclass", lambda st: (lambda x, y: x + y, subclass(st), square(st))),
    ("wrong shapes", lambda st: (refused, square(st), st.ones(3))),
    ("matmul in autocast", lambda st: (lambda x: in_autocast(st, x), square(st))),
]

# Cases of the short run.
QUICK = (
    "add",
    "mul",
    "times a number",
    "exp",
    "where",
    "x[1:3]",
    "reshape",
    "sum",
    "sum(1)",
    "var",
)
QUICK += (
    "integers + floats",
    "subclass",
    "max(1)",
    "matmul",
    "cat",
    "stack",
    "gather",
    "masked_fill",
    "einsum",
    "sort",
    "argmax",
)


def case(name: str, make: Any, with_graph: bool, target: float | None) -> Case:
    """One row of the table."""
    rival = add_numpy if name == "add" and not with_graph else None
    return Case(
        f"dispatch/{name}{', graph' * with_graph}",
        compare(tiny(make, with_graph), numpy=rival),
        target,
        wide=name not in QUICK,
    )


CASES = [
    *[case(name, make, False, WITHOUT) for name, make in FAMILIES + PLAIN],
    *[case(name, make, False, None) for name, make in ODD],
    *[case(name, make, True, WITH) for name, make in FAMILIES],
]
