"""One optimizer step over parameters with gradients."""

from __future__ import annotations

from typing import Any

from .harness.case import Case, compare

SMALL = [(16, 8), (16,), (4, 16), (4,)]
MLP = [(256, 784), (256,), (128, 256), (128,), (10, 128), (10,)]
LARGE = [(1024, 1024)] * 10
MANY = [(16, 16)] * 1000


def step(st: Any, kind: str, shapes: list[tuple[int, ...]], **arguments: Any) -> Any:
    """`optimizer.step()` alone."""
    parameters = [st.nn.Parameter(st.ones(*shape)) for shape in shapes]
    optimizer = getattr(st.optim, kind)(parameters, lr=1e-4, **arguments)
    sum((p * p).sum() for p in parameters).backward()
    return optimizer.step


def adam(st: Any, shapes: list[tuple[int, ...]]) -> Any:
    return step(st, "Adam", shapes)


def momentum(st: Any, shapes: list[tuple[int, ...]]) -> Any:
    return step(st, "SGD", shapes, momentum=0.9)


def lookup(st: Any, kind: str) -> Any:
    """Forward, backward and step of a table of 1 M rows of 64, of which 1,000 are looked up."""
    table = st.nn.Embedding(1_000_000, 64, sparse=True)
    optimizer = getattr(st.optim, kind)(table.parameters(), lr=0.1)
    words = st.arange(0, 1_000_000, 1000)

    def run() -> None:
        optimizer.zero_grad()
        table(words).sum().backward()
        optimizer.step()

    return run


def rmsprop(st: Any, shapes: list[tuple[int, ...]]) -> Any:
    return step(st, "RMSprop", shapes, momentum=0.9, centered=True)


def many(st: Any, kind: str, shapes: list[tuple[int, ...]] = MANY) -> Any:
    return step(st, kind, shapes)


def lbfgs(st: Any) -> Any:
    """Iterations with precomputed gradients: the optimizer's own time."""
    parameters = [st.nn.Parameter(st.ones(*shape)) for shape in MANY]
    optimizer = st.optim.LBFGS(parameters, lr=1e-6, max_iter=5, history_size=10)
    noise = [st.rand(*shape) for shape in MANY]
    count = 0

    def closure() -> Any:
        nonlocal count
        count += 1
        for p, g in zip(parameters, noise, strict=True):
            p.grad = g + p.detach() * count
        return st.tensor(1.0 / count)

    return lambda: optimizer.step(closure)


def averaged(st: Any, shapes: list[tuple[int, ...]]) -> Any:
    """`AveragedModel.update_parameters`."""
    model = st.nn.ParameterList([st.nn.Parameter(st.ones(*shape)) for shape in shapes])
    average = st.optim.swa_utils.AveragedModel(model)
    return lambda: average.update_parameters(model)


# One kernel call per step; optimizers of matrices or full vectors take about PyTorch's time.
ELEMENTWISE = ["Adadelta", "Adagrad", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop"]

CASES = [
    Case("optimizer/SGD, momentum, 4 tiny", compare(momentum, SMALL), 0.5),
    Case("optimizer/SGD, momentum, MLP", compare(momentum, MLP), 0.5),
    Case("optimizer/SGD, momentum, 10 M", compare(momentum, LARGE), 0.5, slow=True),
    Case("optimizer/Adam, 4 tiny", compare(adam, SMALL), 0.5),
    Case("optimizer/Adam, MLP", compare(adam, MLP), 0.5),
    Case("optimizer/Adam, 10 M", compare(adam, LARGE), 0.5, slow=True),
    Case("optimizer/RMSprop, centered, 1,000 small", compare(rmsprop, MANY), 0.5, slow=True),
    Case("optimizer/RMSprop, centered, 10 M", compare(rmsprop, LARGE), 0.5, slow=True, wide=True),
    *(
        Case(f"optimizer/{kind}, 1,000 small", compare(many, kind), 0.5, slow=True, wide=True)
        for kind in ("SGD", "Adam", "AdamW", *ELEMENTWISE)
    ),
    *(
        Case(f"optimizer/{kind}, 10 M", compare(many, kind, LARGE), 0.5, slow=True, wide=True)
        for kind in ELEMENTWISE
    ),
    Case("optimizer/Muon, 1,000 small", compare(many, "Muon"), 1.1, slow=True, wide=True),
    Case("optimizer/Adafactor, 1,000 small", compare(many, "Adafactor"), 1.1, slow=True, wide=True),
    Case("optimizer/LBFGS, 1,000 small", compare(lbfgs), 1.1, slow=True, wide=True),
    Case(
        "optimizer/AveragedModel, 1,000 small", compare(averaged, MANY), 1.1, slow=True, wide=True
    ),
    Case("optimizer/SGD, 1,000 of 1 M rows", compare(lookup, "SGD"), 0.8, slow=True),
    Case("optimizer/SparseAdam, 1,000 of 1 M rows", compare(lookup, "SparseAdam"), 0.8, slow=True),
]
