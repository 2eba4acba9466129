"""Views, made under `no_grad` or in inference mode, of tensors that require grad. They require grad
as long as their root does, and gradients end there: Note [Unrecorded views] in
native/dispatch/op_result.cc.
"""

from __future__ import annotations

from typing import Any

from ... import native


class Unrecorded:
    """The rule of the node of such a view."""

    name = "view"

    @staticmethod
    def arrays(node: Any, g: Any) -> tuple[()]:
        return ()

    tensors = arrays


ANY = native.Node(Unrecorded, (), ())  # the node of all of them while nothing is recorded


def node_of_unrecorded(view: Any, root: Any, is_current: bool) -> Any:
    """The node of such a view while history is recorded; None if its root no longer requires grad.

    Args:
        is_current: nothing has written the memory since the view was made.
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
    """Whether it is the node of such a view."""
    return node.__class__ is native.Node and node.row is Unrecorded
