"""Forward mode: tensors that carry a tangent.

It is a double pullback: a dual tensor is an input of the graph, and `unpack_dual` differentiates
the pullback by its cotangent, which gives the tangent of the result. So every op whose pullback is
differentiable has forward mode. Results of duals have history, so forward mode costs a graph and
needs grad mode: a level turns it on, and a `no_grad` inside the level drops the tangents.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from .. import native
from .dispatch.op_function import table
from .engine.accumulate_grad import AccumulateGrad, node_of_edge
from .engine.backward import count_dependencies
from .engine.views_and_inplace import node_of
from .functional import jvp_by_double_backward
from .grad_mode import enable_grad, recording

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


class UnpackedDualTensor(NamedTuple):
    """A tensor's value and its tangent, None if it has none."""

    primal: Any
    tangent: Any


class Level:
    """The dual tensors made in one block."""

    def __init__(self) -> None:
        self.former = recording.get()
        self.duals: list[tuple[Any, Any]] = []  # (dual, tangent)
        self.own_leaves: set[Any] = set()  # leaves that make_dual created

    def without_own_history(self, tensor: Any) -> Any:
        """The tensor, without history unless that leads to a leaf of the user."""
        edge = node_of(tensor)
        if edge is None:
            return tensor
        reachable = count_dependencies([node_of_edge(edge)[0]])
        if any(
            node.__class__ is AccumulateGrad and node not in self.own_leaves for node in reachable
        ):
            return tensor
        return native.wrap(tensor.array)


class Levels(threading.local):
    """The open level of this thread, if any."""

    def __init__(self) -> None:
        self.open: list[Level] = []


levels = Levels()


def enter_dual_level() -> int:
    """Begins a block in which tensors may have tangents; `dual_level` is its `with`.

    Returns
    -------
    int
        The level, 0.

    Raises
    ------
    RuntimeError
        A level is open.

    Examples
    --------
    >>> from shmtensor.autograd import forward_ad
    >>> level = forward_ad.enter_dual_level()
    >>> forward_ad.exit_dual_level(level=level)
    """
    if levels.open:
        raise RuntimeError(
            "enter_dual_level: Nested forward mode AD is not supported at the moment: a level is "
            "open"
        )
    levels.open.append(Level())
    recording.set(True)
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Ends the block that `enter_dual_level` began, and drops all tangents.

    Parameters
    ----------
    level : int, optional
        What `enter_dual_level` returned; the one that is open if None.

    Raises
    ------
    RuntimeError
        No level is open, or another one.

    Examples
    --------
    >>> from shmtensor.autograd import forward_ad
    >>> level = forward_ad.enter_dual_level()
    >>> forward_ad.exit_dual_level()
    """
    if not levels.open or level not in (None, len(levels.open) - 1):
        raise RuntimeError(f"exit_dual_level: no such level is open: {level}")
    recording.set(levels.open.pop().former)


class dual_level:
    """A block in which tensors may have tangents: forward-mode differentiation.

    Raises
    ------
    RuntimeError
        A level is open.

    See Also
    --------
    make_dual, func.jvp

    Examples
    --------
    >>> from shmtensor.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(st.tensor([3.0]), st.tensor([1.0]))
    ...     value, slope = forward_ad.unpack_dual(x * x)
    >>> value, slope
    (tensor([9.]), tensor([6.]))
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *_: object) -> None:
        exit_dual_level()


def current_level(where: str, level: int | None) -> Level:
    if not levels.open or level not in (None, len(levels.open) - 1):
        raise RuntimeError(
            f"{where}: Trying to use a dual tensor outside of a dual_level: level {level}"
        )
    return levels.open[-1]


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """A tensor of the same values and memory that carries a tangent.

    Parameters
    ----------
    tensor, tangent : Tensor
        Of one shape and dtype, floating point or complex.
    level : int, optional
        The level that is open.

    Returns
    -------
    Tensor
        Copies: none.

    Raises
    ------
    ValueError
        A dtype of whole numbers.
    RuntimeError
        Shape or dtype differ; no level is open.

    See Also
    --------
    unpack_dual, dual_level

    Examples
    --------
    >>> from shmtensor.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(st.tensor([3.0]), st.tensor([1.0]))
    ...     forward_ad.unpack_dual(x.exp().log()).tangent.round()
    tensor([1.])
    """
    current = current_level("make_dual", level)
    for t, name in ((tensor, "tensor"), (tangent, "tangent")):
        if t.array.dtype.kind not in "fc":
            raise ValueError(
                f"make_dual: Expected {name} to be floating point or complex: {t.array.dtype}"
            )
    if tensor.array.shape != tangent.array.shape or tensor.array.dtype != tangent.array.dtype:
        raise RuntimeError(
            "make_dual: Expected primal and tangent to have the same shape and dtype: "
            f"{tensor.array.shape} {tensor.array.dtype}, {tangent.array.shape} "
            f"{tangent.array.dtype}"
        )
    with enable_grad():
        primal = tensor
        if not tensor.requires_grad:
            primal = tensor.detach().requires_grad_()
            current.own_leaves.add(primal.node)
        dual = table.view_as(primal, primal)
    current.duals.append((dual, tangent))
    return dual


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """The value, and the tangent if the tensor was computed from duals.

    Parameters
    ----------
    tensor : Tensor
        Any.
    level : int, optional
        The level that is open.

    Returns
    -------
    (primal, tangent) : Tensor, Tensor or None
        Copies: none.

    See Also
    --------
    make_dual

    Examples
    --------
    >>> from shmtensor.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     forward_ad.unpack_dual(st.ones(2)).tangent is None
    True
    """
    current = current_level("unpack_dual", level)
    for dual, tangent in current.duals:
        if dual is tensor:
            return UnpackedDualTensor(tensor.detach(), tangent)
    edge = node_of(tensor)
    if edge is None:
        return UnpackedDualTensor(tensor, None)
    reachable = count_dependencies([node_of_edge(edge)[0]])
    if not any(node_of_edge(node_of(dual))[0] in reachable for dual, _ in current.duals):
        return UnpackedDualTensor(tensor, None)
    with enable_grad():
        tangents = [t for _, t in current.duals]
        duals = [dual for dual, _ in current.duals]
        (result_tangent,) = jvp_by_double_backward(
            "unpack_dual", (tensor,), duals, tangents, True, False
        )
    return UnpackedDualTensor(
        current.without_own_history(tensor), current.without_own_history(result_tangent)
    )
