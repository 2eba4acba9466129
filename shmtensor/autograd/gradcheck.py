"""Compares gradients with finite differences."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .. import native
from ..cuda_arrays import device_of, move_array
from ..device import CPU
from .engine.grad import grad
from .functional import jvp_by_double_backward

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """A gradient disagrees with finite differences, or an input cannot be checked."""


def outputs_of(function: Callable[..., Any], inputs: Sequence[Any]) -> list[Any]:
    result = function(*inputs)
    outputs = list(result) if isinstance(result, (tuple, list)) else [result]
    return [o for o in outputs if isinstance(o, native.TensorBase) and o.array.dtype.kind in "fc"]


def directions(array: Any) -> list[tuple[int, complex]]:
    """Each real direction of an array: (element, unit)."""
    units: list[complex] = [1.0, 1j] if array.dtype.kind == "c" else [1.0]
    return [(i, unit) for i in range(array.size) for unit in units]


def along_directions(gradient: Any) -> Any:
    """Re(conj(gradient) * unit) along each direction of the input: its real and imaginary parts."""
    flat = np.ascontiguousarray(gradient).reshape(-1)
    return flat.view(flat.real.dtype)


@contextmanager
def perturbed(arrays: Sequence[Any], steps: Sequence[Any]) -> Iterator[None]:
    """In this block, a step is added to each array in place."""
    before = [on_host(array).copy() for array in arrays]
    for array, values, step in zip(arrays, before, steps):
        overwrite(array, values + step)
    try:
        yield
    finally:
        for array, values in zip(arrays, before):
            overwrite(array, values)


def on_host(array: Any) -> Any:
    """The array, or a copy of one on a GPU: the comparisons are made on the host."""
    return move_array(array, CPU)


def like(values: Any, array: Any) -> Any:
    """Values of the host as a tensor on the device of an array."""
    return native.wrap(move_array(values, device_of(array)))


def overwrite(array: Any, values: Any) -> None:
    """Writes values of the host to all elements of an array."""
    if isinstance(array, np.ndarray):
        array[...] = values
        return
    with array.device:
        array[...] = move_array(values, device_of(array))


def finite_differences(
    function: Callable[..., Any],
    xs: Sequence[Any],
    arrays: Sequence[Any],
    steps: Sequence[Any],
    eps: float,
) -> list[Any]:
    """For each output, the central difference along steps of the inputs' arrays.

    Raises:
        AssertionError: the perturbation changes the outputs' shapes.
    """
    sides = []
    for sign in (1, -1):
        with perturbed(arrays, [sign * eps * step for step in steps]):
            sides.append([on_host(o.array).copy() for o in outputs_of(function, xs)])
    high, low = sides
    shapes = [[a.shape for a in side] for side in sides]
    if shapes[0] != shapes[1]:
        raise AssertionError(
            "gradcheck: Expected `func` to return outputs with the same shape when inputs are "
            f"perturbed by {eps}, but got: shapes {shapes[0]} and {shapes[1]}"
        )
    return [(a - b) / (2 * eps) for a, b in zip(high, low)]


def numeric(function: Callable[..., Any], xs: Sequence[Any], x: Any, eps: float) -> list[Any]:
    """For each output, its derivatives along each real direction of x: an array of shape
    (directions, elements of the output).
    """
    columns = []
    for i, unit in directions(x.array):
        step = np.zeros(x.array.shape, x.array.dtype)
        step.reshape(-1)[i] = unit
        columns.append(
            [s.reshape(-1) for s in finite_differences(function, xs, [x.array], [step], eps)]
        )
    return [np.array(column) for column in zip(*columns)]


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

    Parameters
    ----------
    func : callable
        Takes the inputs, returns a tensor or several.
    inputs : Tensor or tuple
        Those that require grad are checked. Dtypes other than float64 and complex128 give a
        warning. The differences write the inputs and restore them.
    eps : float, optional
        Step of the differences.
    atol, rtol : float, optional
        Allowed absolute and relative difference.
    raise_exception : bool, optional
        Whether to raise, or to return False.
    nondet_tol : float, optional
        How much a second backward, which always runs, may differ.
    check_undefined_grad : bool, optional
        Ignored: the gradient of each output is computed alone in any case.
    check_grad_dtypes : bool, optional
        Whether a gradient must have its input's dtype.
    check_batched_grad, check_batched_forward_grad : bool, optional
        Accepted; gradients of batches are not checked.
    check_forward_ad : bool, optional
        Whether to compare tangents, too, in a random direction.
    check_backward_ad : bool, optional
        False skips the gradients.
    fast_mode : bool, optional
        Whether to take one random direction instead of every element.
    masked : bool, optional
        Ignored: of sparse inputs the stored elements are checked.

    Returns
    -------
    bool
        True if they agree.

    Raises
    ------
    GradcheckError
        They differ; the message shows both.
    ValueError
        No input requires grad.
    RuntimeError
        An input has a stride of 0 (`expand`).
    AssertionError
        The outputs' shapes change with the inputs' values.

    See Also
    --------
    gradgradcheck, Function

    Examples
    --------
    >>> x = st.tensor([0.5, 2.0], dtype=st.float64, requires_grad=True)
    >>> st.autograd.gradcheck(st.sin, (x,))
    True
    """
    xs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    try:
        checked = checkable(xs)
        if check_backward_ad and fast_mode:
            check_directional(func, xs, checked, (eps, atol, rtol), False, nondet_tol)
        elif check_backward_ad:
            check(func, xs, checked, eps, atol, rtol, nondet_tol)
        if check_forward_ad:
            check_directional(func, xs, checked, (eps, atol, rtol), True, nondet_tol)
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
        raise ValueError(
            "gradcheck: expects at least one input tensor to require gradient, but none of them "
            f"have requires_grad=True: {[type(x).__name__ for x in xs]}"
        )
    for i, x in checked:
        if x.array.dtype not in (np.float64, np.complex128):
            warnings.warn(
                f"gradcheck: Input #{i} requires gradient and is not a double precision floating "
                f"point or complex: {x.array.dtype}. The check will likely fail",
                stacklevel=3,
            )
        if any(not step and n > 1 for step, n in zip(x.array.strides, x.array.shape)):
            raise RuntimeError(
                f"gradcheck: The {i}th input has a dimension with stride 0: strides "
                f"{x.array.strides}, its elements cannot be changed alone; call contiguous() on it"
            )
    return checked


def random_like(rng: Any, array: Any) -> Any:
    values = rng.standard_normal(array.shape)
    if array.dtype.kind == "c":
        values = values + 1j * rng.standard_normal(array.shape)
    return np.asarray(values, array.dtype)


def inner(a: Any, b: Any) -> float:
    return float(np.real(np.sum(np.conj(a) * b)))


def repeated_grad(output: Any, tensors: list[Any], cotangent: Any, nondet_tol: float) -> list[Any]:
    """The gradients as arrays; zeros for a missing one.

    Raises:
        GradcheckError: a second backward gives other gradients.
    """
    g = like(cotangent, output.array)
    runs = [grad(output, tensors, g, True, allow_unused=True) for _ in "ab"]
    first, second = (
        [
            np.zeros(x.array.shape, x.array.dtype) if g is None else on_host(g.array)
            for g, x in zip(run, tensors)
        ]
        for run in runs
    )
    for a, b in zip(first, second):
        if a.size and np.abs(a - b).max() > nondet_tol:
            raise GradcheckError(
                "gradcheck: Backward is not reentrant: running it twice with the same grad_output "
                f"gives values that differ by {np.abs(a - b).max():.3g}, nondet_tol is {nondet_tol}"
            )
    return first


def check_directional(
    function: Callable[..., Any],
    xs: tuple[Any, ...],
    checked: list[tuple[int, Any]],
    tolerances: tuple[float, float, float],
    forward: bool,
    nondet_tol: float,
) -> None:
    """Compares with a central difference along one random direction, by gradients or tangents."""
    eps, atol, rtol = tolerances
    rng = np.random.default_rng(0)
    tensors = [x for _, x in checked]
    vs = [random_like(rng, x.array) for x in tensors]
    expected = finite_differences(function, xs, [x.array for x in tensors], vs, eps)
    for number, (output, derivative) in enumerate(zip(outputs_of(function, xs), expected)):
        if output.node is None:
            continue
        if forward:
            tangents = [like(v, x.array) for v, x in zip(vs, tensors)]
            (tangent,) = jvp_by_double_backward(
                "gradcheck", (output,), tensors, tangents, False, False
            )
            analytical = on_host(tangent.array).ravel()
            pairs = [(analytical[k], derivative.ravel()[k]) for k in range(derivative.size)]
        else:
            cotangent = random_like(rng, output.array)
            gs = repeated_grad(output, tensors, cotangent, nondet_tol)
            pairs = [(sum(map(inner, gs, vs)), inner(cotangent, derivative))]
        wrong = [(a, b) for a, b in pairs if not abs(a - b) <= atol + rtol * abs(b)]
        if wrong:
            kind = "forward" if forward else "backward"
            raise GradcheckError(
                f"gradcheck: Jacobian mismatch in {kind} mode for output {number}, along a random "
                f"direction: numerical {wrong[0][1]:.8g}, analytical {wrong[0][0]:.8g}"
            )


def check_dtypes(
    function: Callable[..., Any], xs: tuple[Any, ...], checked: list[tuple[int, Any]]
) -> None:
    """Checks that gradients have their inputs' dtypes."""
    for output in outputs_of(function, xs):
        if output.node is None:
            continue
        ones = like(np.ones(output.array.shape, output.array.dtype), output.array)
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
    """Compares all elements of all Jacobians."""
    tensors = [x for _, x in checked]
    expected = [numeric(function, xs, x, eps) for x in tensors]
    outputs = outputs_of(function, xs)
    if all(o.node is None for o in outputs) and any(j.any() for js in expected for j in js):
        raise GradcheckError(
            "gradcheck: Numerical gradient for function expected to be zero: no output requires "
            "grad, and they change with the inputs"
        )
    for number, output in enumerate(outputs):
        if output.node is None:
            continue
        for index, unit in directions(output.array):
            cotangent = np.zeros(output.array.shape, output.array.dtype)
            cotangent.reshape(-1)[index] = unit
            gradients = repeated_grad(output, tensors, cotangent, nondet_tol)
            for (i, x), g, jacobians in zip(checked, gradients, expected):
                if not x.array.size:
                    continue
                analytical = along_directions(g)
                numerical = np.real(np.conj(unit) * jacobians[number][:, index])
                wrong = np.flatnonzero(
                    ~(np.abs(analytical - numerical) <= atol + rtol * np.abs(numerical))
                )
                if wrong.size:
                    k = wrong[0]
                    element, _ = directions(x.array)[k]
                    raise GradcheckError(
                        f"gradcheck: Jacobian mismatch for output {number} with respect to input "
                        f"{i}: numerical {numerical[k]:.8g}, analytical {analytical[k]:.8g} at "
                        f"output element {index} and input element {element}"
                    )
        zeros = np.zeros(output.array.shape, output.array.dtype)
        if any(g.any() for g in repeated_grad(output, tensors, zeros, nondet_tol)):
            raise GradcheckError(
                f"gradcheck: backward not multiplied by grad_output: output {number} has gradients "
                "for a grad_output of zeros"
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

    Parameters
    ----------
    func : callable
        Takes the inputs, returns a tensor or several.
    inputs : Tensor or tuple
        Those that require grad are checked.
    grad_outputs : Tensor or tuple, optional
        The gradients of the outputs; random ones if None.
    eps : float, optional
        Step of the differences.
    atol, rtol : float, optional
        Allowed absolute and relative difference.
    raise_exception : bool, optional
        Whether to raise, or to return False.
    nondet_tol : float, optional
        How much a second backward may differ.
    gen_non_contig_grad_outputs : bool, optional
        Accepted; has no effect.
    **options
        Further arguments of `gradcheck`.

    Returns
    -------
    bool
        True if they agree.

    See Also
    --------
    gradcheck

    Examples
    --------
    >>> x = st.tensor([0.5, 2.0], dtype=st.float64, requires_grad=True)
    >>> st.autograd.gradgradcheck(st.sin, (x,))
    True
    """
    xs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    outputs = outputs_of(func, xs)
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        grads = []
        for o in outputs:
            values = rng.standard_normal(o.array.shape)
            if o.array.dtype.kind == "c":
                values = values + 1j * rng.standard_normal(o.array.shape)
            g = like(np.asarray(values, o.array.dtype), o.array)
            grads.append(g.requires_grad_())
    else:
        grads = list(grad_outputs) if isinstance(grad_outputs, (tuple, list)) else [grad_outputs]
    count = len(xs)

    def gradient(*both: Any) -> tuple[Any, ...]:
        inner_xs, gs = both[:count], both[count:]
        ys = outputs_of(func, inner_xs)
        differentiated = [
            x for x in inner_xs if isinstance(x, native.TensorBase) and x.node is not None
        ]
        pairs = [(o, g) for o, g in zip(ys, gs) if o.node is not None]
        results = grad(
            [o for o, _ in pairs], differentiated, [g for _, g in pairs], create_graph=True,
            allow_unused=True,
        )  # fmt: skip
        return tuple(g for g in results if g is not None)

    return gradcheck(
        gradient, (*xs, *grads), eps=eps, atol=atol, rtol=rtol,
        raise_exception=raise_exception, nondet_tol=nondet_tol, **options,
    )  # fmt: skip
