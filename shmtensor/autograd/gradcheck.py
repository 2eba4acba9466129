"""Gradients compared with finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import native
from .backward import grad
from .functional import pushed
from .mode import no_grad

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """A gradient disagrees with finite differences, or an input cannot be checked."""


def outputs_of(function: Callable[..., Any], inputs: Sequence[Any]) -> list[Any]:
    made = function(*inputs)
    outputs = list(made) if isinstance(made, (tuple, list)) else [made]
    return [o for o in outputs if isinstance(o, native.TensorBase) and o.array.dtype.kind in "fc"]


def directions(array: Any) -> list[tuple[int, complex]]:
    """Each real direction of an array: (element, unit)."""
    units: list[complex] = [1.0, 1j] if array.dtype.kind == "c" else [1.0]
    return [(i, unit) for i in range(array.size) for unit in units]


def numeric(
    function: Callable[..., Any], inputs: Sequence[Any], x: Any, eps: float
) -> list[list[Any]]:
    """For each output, the derivative along each real direction of x, by central differences."""
    flat = x.array.reshape(-1)
    if not np.shares_memory(flat, x.array) and x.array.size:
        raise GradcheckError("gradcheck: an input must be contiguous")
    columns: list[list[Any]] = []
    for i, unit in directions(x.array):
        before = flat[i].copy()
        flat[i] = before + eps * unit
        high = [o.array.copy() for o in outputs_of(function, inputs)]
        flat[i] = before - eps * unit
        low = [o.array.copy() for o in outputs_of(function, inputs)]
        flat[i] = before
        columns.append([(a - b) / (2 * eps) for a, b in zip(high, low)])
    return [list(c) for c in zip(*columns)] if columns else []


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compares the gradients of a function with central differences, element by element.

    Args:
        func: takes the inputs, returns a tensor or several.
        inputs: a tensor or a tuple; those that require grad are checked and should be float64 or
            complex128.
        eps: step of the differences.
        atol, rtol: allowed absolute and relative difference.
        raise_exception: raise, or return False.
        nondet_tol: how far a second backward may differ.
        check_undefined_grad: accepted: each output's gradient is taken alone in any case.
        check_grad_dtypes: a gradient must have its input's dtype.
        check_batched_grad, check_batched_forward_grad: batches are loops here, and need no check.
        check_forward_ad: tangents are compared, too, in a random direction.
        check_backward_ad: False leaves the gradients out.
        fast_mode: one random direction instead of every element.
        masked: accepted: of sparse inputs the kept elements are checked.

    Raises:
        GradcheckError: they differ; the message shows both.
    """
    xs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    try:
        checked = checkable(xs)
        if check_backward_ad and fast_mode:
            check_along(func, xs, checked, (eps, atol, rtol), False)
        elif check_backward_ad:
            check(func, xs, checked, eps, atol, rtol, nondet_tol)
        if check_forward_ad:
            check_along(func, xs, checked, (eps, atol, rtol), True)
        if check_grad_dtypes:
            check_dtypes(func, xs, checked)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def checkable(xs: tuple[Any, ...]) -> list[tuple[int, Any]]:
    """(position, tensor) of the inputs that require grad."""
    checked = [
        (i, x) for i, x in enumerate(xs) if isinstance(x, native.TensorBase) and x.node is not None
    ]
    if not checked:
        raise ValueError("gradcheck: at least one input must require grad")
    for i, x in checked:
        if x.array.dtype not in (np.float64, np.complex128):
            raise GradcheckError(
                f"gradcheck: differences need double precision: input {i} is {x.array.dtype}"
            )
    return checked


def noise(rng: Any, array: Any) -> Any:
    made = rng.standard_normal(array.shape)
    if array.dtype.kind == "c":
        made = made + 1j * rng.standard_normal(array.shape)
    return np.asarray(made, array.dtype)


def inner(a: Any, b: Any) -> float:
    return float(np.real(np.sum(np.conj(a) * b)))


def check_along(
    function: Callable[..., Any],
    xs: tuple[Any, ...],
    checked: list[tuple[int, Any]],
    tolerances: tuple[float, float, float],
    forward: bool,
) -> None:
    """Compares with a central difference along one random direction, by gradients or tangents."""
    eps, atol, rtol = tolerances
    rng = np.random.default_rng(0)
    ways = [noise(rng, x.array) for _, x in checked]

    def at(t: float) -> list[Any]:
        moved = list(xs)
        for (i, x), way in zip(checked, ways):
            moved[i] = native.wrap(x.array + t * way)
        with no_grad():
            return [o.array.copy() for o in outputs_of(function, moved)]

    slopes = [(a - b) / (2 * eps) for a, b in zip(at(eps), at(-eps))]
    outputs = outputs_of(function, xs)
    tensors = [x for _, x in checked]
    for number, (output, slope) in enumerate(zip(outputs, slopes)):
        if output.node is None:
            continue
        if forward:
            tangents = [native.wrap(way) for way in ways]
            (made,) = pushed("gradcheck", (output,), tensors, tangents, False, False)
            pairs = [(made.array.ravel()[k], slope.ravel()[k]) for k in range(slope.size)]
            wrong = [(a, b) for a, b in pairs if not abs(a - b) <= atol + rtol * abs(b)]
        else:
            weight = noise(rng, output.array)
            gs = grad(output, tensors, native.wrap(weight), True, allow_unused=True)
            a = sum(inner(g.array, way) for g, way in zip(gs, ways) if g is not None)
            b = inner(weight, slope)
            wrong = [] if abs(a - b) <= atol + rtol * abs(b) else [(a, b)]
        if wrong:
            kind = "forward" if forward else "backward"
            raise GradcheckError(
                f"gradcheck: Jacobian mismatch in {kind} mode for output {number}, along a random "
                f"direction: numerical {wrong[0][1]:.8g}, analytical {wrong[0][0]:.8g}"
            )


def check_dtypes(
    function: Callable[..., Any], xs: tuple[Any, ...], checked: list[tuple[int, Any]]
) -> None:
    """Whether gradients have their inputs' dtypes."""
    for output in outputs_of(function, xs):
        if output.node is None:
            continue
        ones = native.wrap(np.ones_like(output.array))
        gs = grad(output, [x for _, x in checked], ones, True, allow_unused=True)
        for (i, x), g in zip(checked, gs):
            if g is not None and g.array.dtype != x.array.dtype:
                raise GradcheckError(
                    f"gradcheck: the gradient of input {i} is {g.array.dtype}, not {x.array.dtype}"
                )


def check(
    function: Callable[..., Any],
    xs: tuple[Any, ...],
    checked: list[tuple[int, Any]],
    eps: float,
    atol: float,
    rtol: float,
    nondet_tol: float,
) -> None:
    tensors = [x for _, x in checked]
    for number, output in enumerate(outputs_of(function, xs)):
        if output.node is None:
            continue
        for j, (i, x) in enumerate(checked):
            with no_grad():
                columns = numeric(function, xs, x, eps)
            expected = columns[number] if columns else []
            for place, unit in directions(output.array):
                cotangent = np.zeros(output.array.shape, output.array.dtype)
                cotangent.reshape(-1)[place] = unit
                gs = []
                for _ in range(1 + (nondet_tol > 0)):
                    made = grad(output, tensors, native.wrap(cotangent), True, allow_unused=True)[j]
                    gs.append(np.zeros_like(x.array) if made is None else made.array)
                if len(gs) > 1 and gs[0].size and np.abs(gs[0] - gs[1]).max() > nondet_tol:
                    raise GradcheckError(f"gradcheck: backward of input {i} is not reproducible")
                for k, (element, way) in enumerate(directions(x.array)):
                    # d<output, cotangent> along `way` is Re(conj(g) * way)
                    mine = float(np.real(np.conj(gs[0].reshape(-1)[element]) * way))
                    want = float(np.real(np.conj(unit) * expected[k].reshape(-1)[place]))
                    if not abs(mine - want) <= atol + rtol * abs(want):
                        raise GradcheckError(
                            f"gradcheck: Jacobian mismatch for output {number} with respect to "
                            f"input {i}: "
                            f"numerical {want:.8g}, analytical {mine:.8g} at output element "
                            f"{place} and input "
                            f"element {element}"
                        )


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    gen_non_contig_grad_outputs: bool = False,
    **options: Any,
) -> bool:
    """Checks second-order gradients: `gradcheck` of the gradient, by the inputs and the outputs'
    gradients.
    """
    xs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    outputs = outputs_of(func, xs)
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        given = []
        for o in outputs:
            values = rng.standard_normal(o.array.shape)
            if o.array.dtype.kind == "c":
                values = values + 1j * rng.standard_normal(o.array.shape)
            g = native.wrap(np.asarray(values, o.array.dtype))
            given.append(g.requires_grad_())
    else:
        given = list(grad_outputs) if isinstance(grad_outputs, (tuple, list)) else [grad_outputs]
    count = len(xs)

    def gradient(*both: Any) -> tuple[Any, ...]:
        inner, gs = both[:count], both[count:]
        made = outputs_of(func, inner)
        differentiated = [
            x for x in inner if isinstance(x, native.TensorBase) and x.node is not None
        ]
        pairs = [(o, g) for o, g in zip(made, gs) if o.node is not None]
        from .mode import enable_grad

        with enable_grad():
            found = grad(
                [o for o, _ in pairs], differentiated, [g for _, g in pairs], create_graph=True,
                allow_unused=True,
            )  # fmt: skip
        return tuple(g for g in found if g is not None)

    return gradcheck(
        enabled(gradient), (*xs, *given), eps=eps, atol=atol, rtol=rtol,
        raise_exception=raise_exception, nondet_tol=nondet_tol, **options,
    )  # fmt: skip


def enabled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A gradient needs history even while differences are taken under `no_grad`."""
    from .mode import enable_grad

    return enable_grad()(function)  # type: ignore[no-any-return]
