"""A million elements: what threads and kernels of our own are for."""

from __future__ import annotations

from typing import Any

from .harness.case import Build, Case, beside

__all__ = ["CASES"]

N = 1000  # N x N elements
AT_MOST = 1.0


def call(make: Any) -> Build:
    """`make(st)` is (function, arguments)."""

    def build(st: Any) -> Any:
        function, *arguments = make(st)
        return lambda: function(*arguments)

    return build


def square(st: Any) -> Any:
    st.manual_seed(0)
    return st.rand(N, N)


def signed(st: Any) -> Any:
    """Normal numbers: activations take other ways on either side of 0."""
    st.manual_seed(0)
    return st.randn(N, N)


def leaf(st: Any) -> Any:
    return signed(st).requires_grad_(True)


def backward(st: Any, function: Any) -> Any:
    """Forward and backward by a gradient of ones."""
    g = st.ones(N, N)

    def both(x: Any) -> None:
        function(x).backward(g)
        x.grad = None

    return both


def summed(function: Any) -> Any:
    """Forward, the sum of the results, and backward."""

    def both(x: Any) -> None:
        function(x).sum().backward()
        x.grad = None

    return both


def loss(st: Any, name: str, target: Any) -> Any:
    """A loss of normal numbers, forward and backward."""
    function, x = getattr(st.nn.functional, name), leaf(st)

    def both(x: Any, target: Any) -> None:
        function(x, target).backward()
        x.grad = None

    return both, x, target


def short(st: Any) -> Any:
    """Rows of ten."""
    st.manual_seed(0)
    return st.rand(N * N // 10, 10)


def flat(st: Any) -> Any:
    return square(st).reshape(-1)


def turned(st: Any) -> Any:
    return square(st).t()


def cube(st: Any) -> Any:
    return square(st).reshape(100, 100, 100)


def places(st: Any) -> Any:
    """N x N indices below N."""
    st.manual_seed(1)
    return st.randint(0, N, (N, N))


def rows(st: Any) -> Any:
    """N indices below N."""
    st.manual_seed(2)
    return st.randint(0, N, (N,))


def mask(st: Any) -> Any:
    return square(st) > 0.5


def whole(st: Any) -> Any:
    """Integers."""
    return places(st).reshape(-1)


def batch(st: Any) -> Any:
    return st.rand(256, 32, 32)


LARGE = [
    # pointwise
    ("add", lambda st: (lambda x: x + x, square(st))),
    ("chain of 4", lambda st: (lambda x: (x * x + x) * x - x, square(st))),
    ("add, stretched row", lambda st: (lambda x, y: x + y, square(st), st.rand(N))),
    ("add, stretched column", lambda st: (lambda x, y: x + y, square(st), st.rand(N, 1))),
    ("add, transposed", lambda st: (lambda x, y: x + y, square(st), turned(st))),
    ("add, bfloat16", lambda st: (lambda x: x + x, square(st).bfloat16())),
    ("mul_, bfloat16", lambda st: (lambda x: x.mul_(1.0), square(st).bfloat16())),
    ("add, integers", lambda st: (lambda x: x + x, places(st))),
    ("exp", lambda st: (st.exp, square(st))),
    ("log", lambda st: (st.log, square(st))),
    ("tanh", lambda st: (st.tanh, square(st))),
    ("sigmoid", lambda st: (st.sigmoid, square(st))),
    ("sin", lambda st: (st.sin, square(st))),
    ("sqrt", lambda st: (st.sqrt, square(st))),
    ("rsqrt", lambda st: (st.rsqrt, square(st))),
    ("pow 2", lambda st: (lambda x: x**2, square(st))),
    ("pow 1.5", lambda st: (lambda x: x**1.5, square(st))),
    ("clamp", lambda st: (lambda x: x.clamp(0.2, 0.8), square(st))),
    ("where", lambda st: (st.where, mask(st), square(st), square(st))),
    ("masked_fill", lambda st: (lambda x, c: x.masked_fill(c, 0.0), square(st), mask(st))),
    ("compare", lambda st: (lambda x: x > 0.5, square(st))),
    ("addcmul", lambda st: (lambda x: st.addcmul(x, x, x), square(st))),
    ("lerp", lambda st: (lambda x, y: st.lerp(x, y, 0.3), square(st), turned(st).contiguous())),
    ("lerp, weights", lambda st: (st.lerp, square(st), signed(st), square(st))),
    ("clamp, in place", lambda st: (lambda x: x.clamp_(0.2, 0.8), square(st))),
    ("nan_to_num", lambda st: (st.nan_to_num, signed(st))),
    ("prelu", lambda st: (st.nn.functional.prelu, signed(st), st.full((1,), 0.25))),
    ("cube", lambda st: (lambda x: x**3, signed(st))),
    ("//, integers", lambda st: (lambda x, y: x // y, whole(st), whole(st) + 1)),
    ("%, integers by a number", lambda st: (lambda x: x % 7, whole(st))),
    (
        "quotient cut off, integers",
        lambda st: (lambda x, y: st.div(x, y, rounding_mode="trunc"), whole(st), whole(st) + 1),
    ),
    ("linspace", lambda st: (st.linspace, 0.0, 1.0, N * N)),
    ("logspace", lambda st: (st.logspace, 0.0, 1.0, N * N)),
    ("gelu", lambda st: (st.nn.functional.gelu, square(st))),
    ("silu", lambda st: (st.nn.functional.silu, signed(st))),
    ("softplus", lambda st: (st.nn.functional.softplus, signed(st))),
    ("leaky_relu", lambda st: (st.nn.functional.leaky_relu, signed(st))),
    ("elu", lambda st: (st.nn.functional.elu, signed(st))),
    ("mish", lambda st: (st.nn.functional.mish, signed(st))),
    ("hardswish", lambda st: (st.nn.functional.hardswish, signed(st))),
    ("glu", lambda st: (st.nn.functional.glu, signed(st))),
    ("erf", lambda st: (st.erf, signed(st))),
    ("erfc", lambda st: (st.erfc, signed(st))),
    ("erfinv", lambda st: (st.erfinv, square(st))),
    ("lgamma", lambda st: (st.lgamma, square(st))),
    ("digamma", lambda st: (st.digamma, square(st))),
    ("i0", lambda st: (st.i0, signed(st))),
    ("erf, float64", lambda st: (st.erf, signed(st).double())),
    ("erfinv, float64", lambda st: (st.erfinv, square(st).double())),
    ("sin, float64", lambda st: (st.sin, signed(st).double())),
    ("fmod", lambda st: (st.fmod, signed(st), square(st) + 0.1)),
    ("floor_divide", lambda st: (st.floor_divide, signed(st), square(st) + 0.1)),
    ("logaddexp", lambda st: (st.logaddexp, signed(st), square(st))),
    ("hypot", lambda st: (st.hypot, signed(st), square(st))),
    ("sign", lambda st: (st.sign, signed(st))),
    ("relu_", lambda st: (lambda x: x.relu_(), signed(st))),
    ("floor", lambda st: (st.floor, square(st))),
    ("addcdiv", lambda st: (lambda x: st.addcdiv(x, x, x + 1, value=0.5), square(st))),
    ("add, row of 64", lambda st: (lambda x, y: x + y, st.rand(16000, 64), st.rand(64))),
    ("add, row of 10", lambda st: (lambda x, y: x + y, st.rand(100_000, 10), st.rand(10))),
    ("mse_loss", lambda st: (st.nn.functional.mse_loss, square(st), signed(st))),
    ("silu, backward", lambda st: (backward(st, st.nn.functional.silu), leaf(st))),
    ("gelu, backward", lambda st: (backward(st, st.nn.functional.gelu), leaf(st))),
    ("leaky_relu, backward", lambda st: (backward(st, st.nn.functional.leaky_relu), leaf(st))),
    ("mish, backward", lambda st: (backward(st, st.nn.functional.mish), leaf(st))),
    ("mse_loss, backward", lambda st: loss(st, "mse_loss", square(st))),
    ("huber_loss, backward", lambda st: loss(st, "huber_loss", square(st))),
    (
        "cross entropy of logits, backward",
        lambda st: loss(st, "binary_cross_entropy_with_logits", square(st)),
    ),
    ("soft_margin_loss, backward", lambda st: loss(st, "soft_margin_loss", signed(st).sign())),
    ("norm, backward", lambda st: (summed(lambda x: x.norm()), leaf(st))),
    ("norm(1), backward", lambda st: (summed(lambda x: x.norm(2, 1)), leaf(st))),
    ("nll_loss, backward", lambda st: loss(st, "nll_loss", rows(st))),
    ("cast to float64", lambda st: (lambda x: x.double(), square(st))),
    ("cast to int64", lambda st: (lambda x: x.long(), square(st))),
    # reductions
    ("sum", lambda st: (lambda x: x.sum(), square(st))),
    ("sum(0)", lambda st: (lambda x: x.sum(0), square(st))),
    ("sum(1)", lambda st: (lambda x: x.sum(1), square(st))),
    ("sum(1), cube", lambda st: (lambda x: x.sum(1), cube(st))),
    ("sum((0, 2)), cube", lambda st: (lambda x: x.sum((0, 2)), cube(st))),
    ("sum, transposed", lambda st: (lambda x: x.sum(), turned(st))),
    ("sum(1), transposed", lambda st: (lambda x: x.sum(1), turned(st))),
    ("sum of every second", lambda st: (lambda x: x[:, ::2].sum(1), square(st))),
    ("sum(0) of a part", lambda st: (lambda x: x[:, :700].sum(0), square(st))),
    ("sum(1) of a part", lambda st: (lambda x: x[:, :700].sum(1), square(st))),
    ("amax(0), every second row", lambda st: (lambda x: x[::2].amax(0), square(st))),
    ("prod(1) of a part", lambda st: (lambda x: x[:, :700].prod(1), square(st))),
    ("sum of integers", lambda st: (lambda x: x.sum(), places(st))),
    ("sum(0) of integers", lambda st: (lambda x: x.sum(0), places(st))),
    ("mean(0)", lambda st: (lambda x: x.mean(0), square(st))),
    ("var", lambda st: (lambda x: x.var(), square(st))),
    ("var(0)", lambda st: (lambda x: x.var(0), square(st))),
    ("std(1)", lambda st: (lambda x: x.std(1), square(st))),
    ("prod", lambda st: (lambda x: x.prod(), square(st))),
    ("prod(1)", lambda st: (lambda x: x.prod(1), square(st))),
    ("prod(1), rows of 10", lambda st: (lambda x: x.prod(1), short(st))),
    ("sum, bfloat16", lambda st: (lambda x: x.sum(), square(st).bfloat16())),
    ("sum(0), bfloat16", lambda st: (lambda x: x.sum(0), square(st).bfloat16())),
    ("sum(1), bfloat16", lambda st: (lambda x: x.sum(1), square(st).bfloat16())),
    ("norm", lambda st: (lambda x: x.norm(), square(st))),
    ("norm 1 (1)", lambda st: (lambda x: x.norm(1, 1), square(st))),
    ("norm inf (0)", lambda st: (lambda x: x.norm(float("inf"), 0), square(st))),
    ("norm(1), rows of 10", lambda st: (lambda x: x.norm(2, 1), short(st))),
    ("amax(1), rows of 10", lambda st: (lambda x: x.amax(1), short(st))),
    ("amax((0, 2)), cube", lambda st: (lambda x: x.amax((0, 2)), cube(st))),
    ("max", lambda st: (lambda x: x.max(), square(st))),
    ("amax(0)", lambda st: (lambda x: x.amax(0), square(st))),
    ("amax(1)", lambda st: (lambda x: x.amax(1), square(st))),
    ("amax(1), transposed", lambda st: (lambda x: x.amax(1), turned(st))),
    ("max(0)", lambda st: (lambda x: x.max(0), square(st))),
    ("max(1)", lambda st: (lambda x: x.max(1), square(st))),
    ("argmax", lambda st: (lambda x: x.argmax(), square(st))),
    ("argmax(1)", lambda st: (lambda x: x.argmax(1), square(st))),
    ("max of integers", lambda st: (lambda x: x.max(), places(st))),
    ("all", lambda st: (lambda x: x.all(), square(st) > -1)),
    ("any(1)", lambda st: (lambda x: x.any(1), square(st) > 2)),
    ("count_nonzero", lambda st: (lambda x: x.count_nonzero(), mask(st))),
    ("nansum(1)", lambda st: (lambda x: x.nansum(1), square(st))),
    ("logsumexp", lambda st: (lambda x: x.logsumexp(1), square(st))),
    ("logsumexp(0)", lambda st: (lambda x: x.logsumexp(0), square(st))),
    ("logsumexp, rows of 10", lambda st: (lambda x: x.logsumexp(1), short(st))),
    ("softmax", lambda st: (lambda x: x.softmax(1), square(st))),
    ("softmax(0)", lambda st: (lambda x: x.softmax(0), square(st))),
    # copies
    ("clone", lambda st: (lambda x: x.clone(), square(st))),
    ("transposed copy", lambda st: (lambda x: x.contiguous(), turned(st))),
    ("permuted copy", lambda st: (lambda x: x.permute(2, 0, 1).contiguous(), cube(st))),
    ("strided copy", lambda st: (lambda x: x[:, ::2].contiguous(), square(st))),
    ("flip", lambda st: (lambda x: x.flip(1), square(st))),
    ("roll", lambda st: (lambda x: x.roll(7, 1), square(st))),
    ("repeat", lambda st: (lambda x: x.repeat(2, 1), square(st)[:500])),
    ("cat(1)", lambda st: (lambda x, y: st.cat([x, y], 1), square(st), square(st))),
    ("stack(-1)", lambda st: (lambda x, y: st.stack([x, y], -1), square(st), square(st))),
    ("tril", lambda st: (lambda x: x.tril(), square(st))),
    ("fill_", lambda st: (lambda x: x.fill_(2.0), square(st))),
    # order
    ("sort", lambda st: (lambda x: x.sort(), flat(st))),
    ("sort(1)", lambda st: (lambda x: x.sort(1), square(st))),
    ("sort(0)", lambda st: (lambda x: x.sort(0), square(st))),
    ("sort of integers", lambda st: (lambda x: x.sort(), whole(st))),
    ("argsort", lambda st: (lambda x: x.argsort(), flat(st))),
    ("topk", lambda st: (lambda x: x.topk(10), flat(st))),
    ("topk(1)", lambda st: (lambda x: x.topk(10, 1), square(st))),
    ("kthvalue", lambda st: (lambda x: x.kthvalue(500_000), flat(st))),
    ("median", lambda st: (lambda x: x.median(), square(st))),
    ("cumsum", lambda st: (lambda x: x.cumsum(0), flat(st))),
    ("cumsum(0)", lambda st: (lambda x: x.cumsum(0), square(st))),
    ("cumsum(1)", lambda st: (lambda x: x.cumsum(1), square(st))),
    ("cumprod(1)", lambda st: (lambda x: x.cumprod(1), square(st))),
    ("cummax(1)", lambda st: (lambda x: x.cummax(1), square(st))),
    ("logcumsumexp(1)", lambda st: (lambda x: x.logcumsumexp(1), square(st))),
    ("unique", lambda st: (lambda x: x.unique(), whole(st))),
    ("unique, inverse", lambda st: (lambda x: x.unique(return_inverse=True), whole(st))),
    ("searchsorted", lambda st: (st.searchsorted, st.rand(N).sort()[0], square(st))),
    ("bincount", lambda st: (lambda x: x.bincount(), whole(st))),
    # places
    ("gather(0)", lambda st: (lambda x, i: x.gather(0, i), square(st), places(st))),
    ("gather(1)", lambda st: (lambda x, i: x.gather(1, i), square(st), places(st))),
    ("scatter(1)", lambda st: (lambda x, i: x.scatter(1, i, x), square(st), places(st))),
    ("scatter_add(0)", lambda st: (lambda x, i: x.scatter_add(0, i, x), square(st), places(st))),
    ("scatter_add(1)", lambda st: (lambda x, i: x.scatter_add(1, i, x), square(st), places(st))),
    *(
        (
            f"scatter_reduce({dim}), {how}",
            lambda st, dim=dim, how=how: (
                lambda x, i: x.scatter_reduce(dim, i, x, how),
                square(st),
                places(st),
            ),
        )
        for dim, how in ((0, "sum"), (0, "amax"), (1, "amax"), (1, "mean"))
    ),
    (
        "index_reduce(0), amax",
        lambda st: (lambda x, i: x.index_reduce(0, i, x, "amax"), square(st), rows(st)),
    ),
    ("index_select(0)", lambda st: (lambda x, i: x.index_select(0, i), square(st), rows(st))),
    ("index_select(1)", lambda st: (lambda x, i: x.index_select(1, i), square(st), rows(st))),
    ("index_add(0)", lambda st: (lambda x, i: x.index_add(0, i, x), square(st), rows(st))),
    ("index_add(1)", lambda st: (lambda x, i: x.index_add(1, i, x), square(st), rows(st))),
    ("take", lambda st: (lambda x, i: x.take(i), square(st), places(st))),
    ("x[rows]", lambda st: (lambda x, i: x[i], square(st), rows(st))),
    ("x[rows, rows]", lambda st: (lambda x, i: x[i, i], square(st), places(st))),
    ("x[mask]", lambda st: (lambda x, c: x[c], square(st), mask(st))),
    ("nonzero", lambda st: (lambda c: c.nonzero(), mask(st))),
    ("masked_select", lambda st: (lambda x, c: x.masked_select(c), square(st), mask(st))),
    # products
    ("bmm 256 x 32", lambda st: (lambda x: st.bmm(x, x), batch(st))),
    ("matmul, vector", lambda st: (lambda x, y: x @ y, square(st), st.rand(N))),
    (
        "einsum ij,jk",
        lambda st: (lambda x, y: st.einsum("ij,jk->ik", x, y), square(st), square(st)),
    ),
    ("einsum bij,bjk", lambda st: (lambda x: st.einsum("bij,bjk->bik", x, x), batch(st))),
    ("einsum bij,bij", lambda st: (lambda x: st.einsum("bij,bij->b", x, x), batch(st))),
    ("outer", lambda st: (lambda x: st.outer(x, x), st.rand(N))),
    ("cdist", lambda st: (lambda x: st.cdist(x, x), st.rand(N, 16))),
    ("cdist, p=1", lambda st: (lambda x: st.cdist(x, x, 1.0), st.rand(N, 16))),
    ("cdist, batches", lambda st: (lambda x: st.cdist(x, x), st.rand(16, 250, 16))),
    ("pdist", lambda st: (st.nn.functional.pdist, st.rand(N, 16))),
    ("pdist, p=1", lambda st: (lambda x: st.nn.functional.pdist(x, 1.0), st.rand(N, 16))),
    # from nothing
    ("rand", lambda st: (lambda: st.rand(N, N),)),
    ("randn", lambda st: (lambda: st.randn(N, N),)),
    ("randint", lambda st: (lambda: st.randint(0, 10, (N, N)),)),
    ("randperm", lambda st: (lambda: st.randperm(N * N),)),
    ("bernoulli", lambda st: (lambda x: st.bernoulli(x), square(st))),
    ("ones", lambda st: (lambda: st.ones(N, N),)),
    ("arange", lambda st: (lambda: st.arange(N * N),)),
    ("zeros", lambda st: (lambda: st.zeros(N, N),)),
]

# What the short run shows.
QUICK = ("chain of 4", "where", "sum(0)", "var", "max(1)", "transposed copy", "sort", "topk")
QUICK += ("cumsum(1)", "gather(1)", "scatter_add(1)", "bmm 256 x 32", "rand", "randn")

CASES = [
    Case(f"large/{name}", beside(call(make)), AT_MOST, wide=name not in QUICK)
    for name, make in LARGE
]
