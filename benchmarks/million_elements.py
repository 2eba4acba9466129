"""A million elements: where threads and our own kernels matter."""

from __future__ import annotations

from typing import Any

from .harness.case import Build, Case, compare

N = 1000  # N x N elements
AT_MOST = 1.0


def call(function: Any, makers: list[Any]) -> Build:
    """`function(st, *tensors)`, or a name: of a function of tensors. `maker(st)` makes a tensor."""

    def build(st: Any) -> Any:
        tensors = [maker(st) for maker in makers]
        if isinstance(function, str):
            f = getattr(st, function, None) or getattr(st.nn.functional, function)
            return lambda: f(*tensors)
        return lambda: function(st, *tensors)

    return build


def square(st: Any) -> Any:
    st.manual_seed(0)
    return st.rand(N, N)


def signed(st: Any) -> Any:
    """Normal numbers: activations branch on the sign."""
    st.manual_seed(0)
    return st.randn(N, N)


def leaf(st: Any) -> Any:
    return signed(st).requires_grad_(True)


def ones(st: Any) -> Any:
    return st.ones(N, N)


def backward(name: str) -> Any:
    """Forward and backward with the gradient g."""

    def run(st: Any, x: Any, g: Any) -> None:
        getattr(st.nn.functional, name)(x).backward(g)
        x.grad = None

    return run


def summed(function: Any) -> Any:
    """Forward, the sum of the results, and backward."""

    def run(st: Any, x: Any) -> None:
        function(x).sum().backward()
        x.grad = None

    return run


def loss(name: str) -> Any:
    """A loss, forward and backward."""

    def run(st: Any, x: Any, target: Any) -> None:
        getattr(st.nn.functional, name)(x, target).backward()
        x.grad = None

    return run


def rows_of_10(st: Any) -> Any:
    st.manual_seed(0)
    return st.rand(N * N // 10, 10)


def flat(st: Any) -> Any:
    return square(st).reshape(-1)


def transposed(st: Any) -> Any:
    return square(st).t()


def cube(st: Any) -> Any:
    return square(st).reshape(100, 100, 100)


def indices(st: Any) -> Any:
    """N x N indices below N."""
    st.manual_seed(1)
    return st.randint(0, N, (N, N))


def row_indices(st: Any) -> Any:
    """N indices below N."""
    st.manual_seed(2)
    return st.randint(0, N, (N,))


def mask(st: Any) -> Any:
    return square(st) > 0.5


def integers(st: Any) -> Any:
    return indices(st).reshape(-1)


def batch(st: Any) -> Any:
    return st.rand(256, 32, 32)


SQUARE_OPS = (
    "exp", "log", "tanh", "sigmoid", "sin", "sqrt", "rsqrt",
    "gelu", "erfinv", "lgamma", "digamma", "floor",
)  # fmt: skip
SIGNED_OPS = (
    "nan_to_num", "silu", "softplus", "leaky_relu", "elu", "mish", "hardswish",
    "glu", "erf", "erfc", "i0", "sign",
)  # fmt: skip

# Name, function, makers of its tensors: see `call`.
LARGE: list[tuple[Any, ...]] = [
    # pointwise
    ("add", lambda st, x: x + x, square),
    ("chain of 4", lambda st, x: (x * x + x) * x - x, square),
    ("add, stretched row", lambda st, x, y: x + y, square, lambda st: st.rand(N)),
    ("add, stretched column", lambda st, x, y: x + y, square, lambda st: st.rand(N, 1)),
    ("add, transposed", lambda st, x, y: x + y, square, transposed),
    ("add, bfloat16", lambda st, x: x + x, lambda st: square(st).bfloat16()),
    ("mul_, bfloat16", lambda st, x: x.mul_(1.0), lambda st: square(st).bfloat16()),
    ("add, integers", lambda st, x: x + x, indices),
    *((name, name, square) for name in SQUARE_OPS),
    ("pow 2", lambda st, x: x**2, square),
    ("pow 1.5", lambda st, x: x**1.5, square),
    ("clamp", lambda st, x: x.clamp(0.2, 0.8), square),
    ("where", "where", mask, square, square),
    ("masked_fill", lambda st, x, c: x.masked_fill(c, 0.0), square, mask),
    ("compare", lambda st, x: x > 0.5, square),
    ("addcmul", lambda st, x: st.addcmul(x, x, x), square),
    ("lerp", lambda st, x, y: st.lerp(x, y, 0.3), square, lambda st: transposed(st).contiguous()),
    ("lerp, weights", "lerp", square, signed, square),
    ("clamp, in place", lambda st, x: x.clamp_(0.2, 0.8), square),
    *((name, name, signed) for name in SIGNED_OPS),
    ("prelu", "prelu", signed, lambda st: st.full((1,), 0.25)),
    ("cube", lambda st, x: x**3, signed),
    ("//, integers", lambda st, x, y: x // y, integers, lambda st: integers(st) + 1),
    ("%, integers by a number", lambda st, x: x % 7, integers),
    (
        "quotient cut off, integers",
        lambda st, x, y: st.div(x, y, rounding_mode="trunc"),
        integers,
        lambda st: integers(st) + 1,
    ),
    ("linspace", lambda st: st.linspace(0.0, 1.0, N * N)),
    ("logspace", lambda st: st.logspace(0.0, 1.0, N * N)),
    ("erf, float64", "erf", lambda st: signed(st).double()),
    ("erfinv, float64", "erfinv", lambda st: square(st).double()),
    ("sin, float64", "sin", lambda st: signed(st).double()),
    ("fmod", "fmod", signed, lambda st: square(st) + 0.1),
    ("floor_divide", "floor_divide", signed, lambda st: square(st) + 0.1),
    ("logaddexp", "logaddexp", signed, square),
    ("hypot", "hypot", signed, square),
    ("relu_", lambda st, x: x.relu_(), signed),
    ("addcdiv", lambda st, x: st.addcdiv(x, x, x + 1, value=0.5), square),
    (
        "add, row of 64",
        lambda st, x, y: x + y,
        lambda st: st.rand(16000, 64),
        lambda st: st.rand(64),
    ),
    (
        "add, row of 10",
        lambda st, x, y: x + y,
        lambda st: st.rand(100_000, 10),
        lambda st: st.rand(10),
    ),
    ("mse_loss", "mse_loss", square, signed),
    ("silu, backward", backward("silu"), leaf, ones),
    ("gelu, backward", backward("gelu"), leaf, ones),
    ("leaky_relu, backward", backward("leaky_relu"), leaf, ones),
    ("mish, backward", backward("mish"), leaf, ones),
    ("mse_loss, backward", loss("mse_loss"), leaf, square),
    ("huber_loss, backward", loss("huber_loss"), leaf, square),
    ("cross entropy of logits, backward", loss("binary_cross_entropy_with_logits"), leaf, square),
    ("soft_margin_loss, backward", loss("soft_margin_loss"), leaf, lambda st: signed(st).sign()),
    ("norm, backward", summed(lambda x: x.norm()), leaf),
    ("norm(1), backward", summed(lambda x: x.norm(2, 1)), leaf),
    ("nll_loss, backward", loss("nll_loss"), leaf, row_indices),
    ("cast to float64", lambda st, x: x.double(), square),
    ("cast to int64", lambda st, x: x.long(), square),
    # reductions
    ("sum", lambda st, x: x.sum(), square),
    ("sum(0)", lambda st, x: x.sum(0), square),
    ("sum(1)", lambda st, x: x.sum(1), square),
    ("sum(1), cube", lambda st, x: x.sum(1), cube),
    ("sum((0, 2)), cube", lambda st, x: x.sum((0, 2)), cube),
    ("sum, transposed", lambda st, x: x.sum(), transposed),
    ("sum(1), transposed", lambda st, x: x.sum(1), transposed),
    ("sum of every second", lambda st, x: x[:, ::2].sum(1), square),
    ("sum(0) of a part", lambda st, x: x[:, :700].sum(0), square),
    ("sum(1) of a part", lambda st, x: x[:, :700].sum(1), square),
    ("amax(0), every second row", lambda st, x: x[::2].amax(0), square),
    ("prod(1) of a part", lambda st, x: x[:, :700].prod(1), square),
    ("sum of integers", lambda st, x: x.sum(), indices),
    ("sum(0) of integers", lambda st, x: x.sum(0), indices),
    ("mean(0)", lambda st, x: x.mean(0), square),
    ("var", lambda st, x: x.var(), square),
    ("var(0)", lambda st, x: x.var(0), square),
    ("std(1)", lambda st, x: x.std(1), square),
    ("prod", lambda st, x: x.prod(), square),
    ("prod(1)", lambda st, x: x.prod(1), square),
    ("prod(1), rows of 10", lambda st, x: x.prod(1), rows_of_10),
    ("sum, bfloat16", lambda st, x: x.sum(), lambda st: square(st).bfloat16()),
    ("sum(0), bfloat16", lambda st, x: x.sum(0), lambda st: square(st).bfloat16()),
    ("sum(1), bfloat16", lambda st, x: x.sum(1), lambda st: square(st).bfloat16()),
    ("norm", lambda st, x: x.norm(), square),
    ("norm 1 (1)", lambda st, x: x.norm(1, 1), square),
    ("norm inf (0)", lambda st, x: x.norm(float("inf"), 0), square),
    ("norm(1), rows of 10", lambda st, x: x.norm(2, 1), rows_of_10),
    ("amax(1), rows of 10", lambda st, x: x.amax(1), rows_of_10),
    ("amax((0, 2)), cube", lambda st, x: x.amax((0, 2)), cube),
    ("max", lambda st, x: x.max(), square),
    ("amax(0)", lambda st, x: x.amax(0), square),
    ("amax(1)", lambda st, x: x.amax(1), square),
    ("amax(1), transposed", lambda st, x: x.amax(1), transposed),
    ("max(0)", lambda st, x: x.max(0), square),
    ("max(1)", lambda st, x: x.max(1), square),
    ("argmax", lambda st, x: x.argmax(), square),
    ("argmax(1)", lambda st, x: x.argmax(1), square),
    ("max of integers", lambda st, x: x.max(), indices),
    ("all", lambda st, x: x.all(), lambda st: square(st) > -1),
    ("any(1)", lambda st, x: x.any(1), lambda st: square(st) > 2),
    ("count_nonzero", lambda st, x: x.count_nonzero(), mask),
    ("nansum(1)", lambda st, x: x.nansum(1), square),
    ("logsumexp", lambda st, x: x.logsumexp(1), square),
    ("logsumexp(0)", lambda st, x: x.logsumexp(0), square),
    ("logsumexp, rows of 10", lambda st, x: x.logsumexp(1), rows_of_10),
    ("softmax", lambda st, x: x.softmax(1), square),
    ("softmax(0)", lambda st, x: x.softmax(0), square),
    # copies
    ("clone", lambda st, x: x.clone(), square),
    ("transposed copy", lambda st, x: x.contiguous(), transposed),
    ("permuted copy", lambda st, x: x.permute(2, 0, 1).contiguous(), cube),
    ("strided copy", lambda st, x: x[:, ::2].contiguous(), square),
    ("flip", lambda st, x: x.flip(1), square),
    ("roll", lambda st, x: x.roll(7, 1), square),
    ("repeat", lambda st, x: x.repeat(2, 1), lambda st: square(st)[:500]),
    ("cat(1)", lambda st, x, y: st.cat([x, y], 1), square, square),
    ("stack(-1)", lambda st, x, y: st.stack([x, y], -1), square, square),
    ("tril", lambda st, x: x.tril(), square),
    ("fill_", lambda st, x: x.fill_(2.0), square),
    # sort and scan
    ("sort", lambda st, x: x.sort(), flat),
    ("sort(1)", lambda st, x: x.sort(1), square),
    ("sort(0)", lambda st, x: x.sort(0), square),
    ("sort of integers", lambda st, x: x.sort(), integers),
    ("argsort", lambda st, x: x.argsort(), flat),
    ("topk", lambda st, x: x.topk(10), flat),
    ("topk(1)", lambda st, x: x.topk(10, 1), square),
    ("kthvalue", lambda st, x: x.kthvalue(500_000), flat),
    ("median", lambda st, x: x.median(), square),
    ("cumsum", lambda st, x: x.cumsum(0), flat),
    ("cumsum(0)", lambda st, x: x.cumsum(0), square),
    ("cumsum(1)", lambda st, x: x.cumsum(1), square),
    ("cumprod(1)", lambda st, x: x.cumprod(1), square),
    ("cummax(1)", lambda st, x: x.cummax(1), square),
    ("logcumsumexp(1)", lambda st, x: x.logcumsumexp(1), square),
    ("unique", lambda st, x: x.unique(), integers),
    ("unique, inverse", lambda st, x: x.unique(return_inverse=True), integers),
    ("searchsorted", "searchsorted", lambda st: st.rand(N).sort()[0], square),
    ("bincount", lambda st, x: x.bincount(), integers),
    # indexing
    ("gather(0)", lambda st, x, i: x.gather(0, i), square, indices),
    ("gather(1)", lambda st, x, i: x.gather(1, i), square, indices),
    ("scatter(1)", lambda st, x, i: x.scatter(1, i, x), square, indices),
    ("scatter_add(0)", lambda st, x, i: x.scatter_add(0, i, x), square, indices),
    ("scatter_add(1)", lambda st, x, i: x.scatter_add(1, i, x), square, indices),
    *(
        (
            f"scatter_reduce({dim}), {how}",
            lambda st, x, i, dim=dim, how=how: x.scatter_reduce(dim, i, x, how),
            square,
            indices,
        )
        for dim, how in ((0, "sum"), (0, "amax"), (1, "amax"), (1, "mean"))
    ),
    (
        "index_reduce(0), amax",
        lambda st, x, i: x.index_reduce(0, i, x, "amax"),
        square,
        row_indices,
    ),
    ("index_select(0)", lambda st, x, i: x.index_select(0, i), square, row_indices),
    ("index_select(1)", lambda st, x, i: x.index_select(1, i), square, row_indices),
    ("index_add(0)", lambda st, x, i: x.index_add(0, i, x), square, row_indices),
    ("index_add(1)", lambda st, x, i: x.index_add(1, i, x), square, row_indices),
    ("take", lambda st, x, i: x.take(i), square, indices),
    ("x[rows]", lambda st, x, i: x[i], square, row_indices),
    ("x[rows, rows]", lambda st, x, i: x[i, i], square, indices),
    ("x[mask]", lambda st, x, c: x[c], square, mask),
    ("nonzero", lambda st, c: c.nonzero(), mask),
    ("masked_select", lambda st, x, c: x.masked_select(c), square, mask),
    # linalg
    ("bmm 256 x 32", lambda st, x: st.bmm(x, x), batch),
    ("matmul, vector", lambda st, x, y: x @ y, square, lambda st: st.rand(N)),
    ("einsum ij,jk", lambda st, x, y: st.einsum("ij,jk->ik", x, y), square, square),
    ("einsum bij,bjk", lambda st, x: st.einsum("bij,bjk->bik", x, x), batch),
    ("einsum bij,bij", lambda st, x: st.einsum("bij,bij->b", x, x), batch),
    ("outer", lambda st, x: st.outer(x, x), lambda st: st.rand(N)),
    ("cdist", lambda st, x: st.cdist(x, x), lambda st: st.rand(N, 16)),
    ("cdist, p=1", lambda st, x: st.cdist(x, x, 1.0), lambda st: st.rand(N, 16)),
    ("cdist, batches", lambda st, x: st.cdist(x, x), lambda st: st.rand(16, 250, 16)),
    ("pdist", "pdist", lambda st: st.rand(N, 16)),
    ("pdist, p=1", lambda st, x: st.nn.functional.pdist(x, 1.0), lambda st: st.rand(N, 16)),
    # creation
    ("rand", lambda st: st.rand(N, N)),
    ("randn", lambda st: st.randn(N, N)),
    ("randint", lambda st: st.randint(0, 10, (N, N))),
    ("randperm", lambda st: st.randperm(N * N)),
    ("bernoulli", lambda st, x: st.bernoulli(x), square),
    ("ones", lambda st: st.ones(N, N)),
    ("arange", lambda st: st.arange(N * N)),
    ("zeros", lambda st: st.zeros(N, N)),
]

# Cases of the short run.
QUICK = ("chain of 4", "where", "sum(0)", "var", "max(1)", "transposed copy", "sort", "topk")
QUICK += ("cumsum(1)", "gather(1)", "scatter_add(1)", "bmm 256 x 32", "rand", "randn")

CASES = [
    Case(f"large/{name}", compare(call(function, makers)), AT_MOST, wide=name not in QUICK)
    for name, function, *makers in LARGE
]
