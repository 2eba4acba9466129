"""Views made under `no_grad`, or in inference mode, of what requires grad: they require grad as
long as their root does, and gradients end there: Note [Unrecorded views] in
native/dispatch/op_result.cc.
"""

from __future__ import annotations

from typing import Any

from ... import native

__all__ = ["ANY", "is_unrecorded", "node_of_unrecorded"]


class Unrecorded:
    """The rule of the node of such a view."""

    name = "view"

    @staticmethod
    def arrays(node: Any, g: Any) -> tuple[()]:
        return ()

    tensors = arrays


ANY = native.Node(Unrecorded, (), ())  # stands for all of them where nothing is recorded


def node_of_unrecorded(view: Any, root: Any, is_current: bool) -> Any:
    """The node of such a view where history is recorded; None: its root requires no grad any more.

    Args:
        is_current: nothing was written to the memory since the view was made.

    Raises:
        RuntimeError: something was.
    """
    if view.node is not None or root.node is None:
        return view.node
    if not is_current:
        raise RuntimeError(
            "view: A view was created in no_grad or inference mode and its base or another view of "
            f"its base has been modified inplace since: shape {view.array.shape}, take the view "
            "after the write, or with grad mode enabled, or of detach()"
        )
    return native.Node(Unrecorded, (), (), view.array)


def is_unrecorded(node: Any) -> bool:
    """Is it the node of such a view?"""
    return node.__class__ is native.Node and node.row is Unrecorded
