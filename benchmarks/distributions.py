"""Distributions: the constructor, `log_prob` and `sample`, of few and of many numbers."""

from __future__ import annotations

from typing import Any

from .harness.case import Case, compare

FEW, MANY = 0.7, 1.0  # targets


def parameters(st: Any, name: str, n: int) -> dict[str, Any]:
    """Those of n elements, for a categorical distribution of n / 10 rows."""
    if name == "Normal":
        return {"loc": st.zeros(n), "scale": st.ones(n)}
    if name == "Bernoulli":
        return {"probs": st.full((n,), 0.3)}
    return {"logits": st.randn(n // 10, 10)}


def construct(st: Any, name: str, n: int) -> Any:
    make, given = getattr(st.distributions, name), parameters(st, name, n)
    return lambda: make(**given)


def log_prob(st: Any, name: str, n: int) -> Any:
    p = construct(st, name, n)()
    x = p.sample()
    return lambda: p.log_prob(x)


def sample(st: Any, name: str, n: int) -> Any:
    p = construct(st, name, n)()
    return lambda: p.sample()


def all_three(st: Any, name: str, n: int) -> Any:
    make = construct(st, name, n)
    x = make().sample()

    def run() -> Any:
        p = make()
        return p.log_prob(x), p.sample()

    return run


M = 1_000_000
CASES = [
    Case(
        f"distributions/{name} {what}, {size}",
        compare(build, name, n),
        target,
        slow=n == M,
        wide=build is not all_three,
    )
    for name in ("Normal", "Bernoulli", "Categorical")
    for n, size, target in ((10, "10", FEW), (M, "1 M", MANY))
    for what, build in (
        ("constructor", construct),
        ("log_prob", log_prob),
        ("sample", sample),
        ("all three", all_three),
    )
]
