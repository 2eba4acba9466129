"""A tensor's place in the graph: requires_grad, .grad, hooks, detaching."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import native
from ..autograd.engine import hooks
from ..autograd.engine import views_and_inplace as view
from ..autograd.engine.accumulate_grad import Leaf, RemovableHandle
from ..autograd.engine.backward import backward
from ..autograd.engine.grad_fn import shown
from ..autograd.engine.unrecorded_views import is_unrecorded
from ..autograd.grad_mode import FROZEN, inferring
from ..ops.table.sparse_gradient import Scattered
from .shape_strides import Geometry

if TYPE_CHECKING:
    from typing_extensions import Self

    from .tensor import Tensor

__all__ = ["History", "node_name"]


class History(Geometry):
    """Gradients and what computed the tensor."""

    __slots__ = ()

    @property
    def requires_grad(self) -> bool:
        return view.requires_grad(self)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise RuntimeError(f"requires_grad: must be a bool: {value!r}")
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Starts, or stops, recording what is computed from this leaf.

        Raises:
            RuntimeError: an integer tensor; stopping for a tensor that was computed.
        """
        node = view.node_of(self)
        if requires_grad:
            if node is None:
                if self.array.dtype.kind not in "fc":
                    raise RuntimeError(
                        "requires_grad_: only Tensors of floating point and complex dtype can "
                        "require gradients: "
                        f"{self.array.dtype}, convert it first: x.float()"
                    )
                if self.version is FROZEN and not inferring.get():
                    raise RuntimeError(
                        "requires_grad_: Setting requires_grad=True on inference tensor outside "
                        f"InferenceMode is not allowed: shape "
                        f"{tuple(self.shape)}, make a clone() first"
                    )
                if self.leaf is None:
                    self.leaf = Leaf(self)
                else:
                    self.leaf.describe(self.array)
                self.node = self.leaf
        elif node is not None:
            if is_unrecorded(node):  # as long as its base requires grad
                return self
            if node.__class__ is not Leaf:
                raise RuntimeError(
                    "requires_grad_: you can only change requires_grad flags of leaf variables: "
                    "this tensor was "
                    f"computed by {node_name(self)}, use detach() for one that does not require "
                    f"grad"
                )
            self.node = None
        return self

    @property
    def is_leaf(self) -> bool:
        node = view.node_of(self)
        return node is None or node.__class__ is Leaf or is_unrecorded(node)

    @property
    def grad_fn(self) -> Any:
        """What computed the tensor, a node of the graph; None for a leaf."""
        node = view.node_of(self)
        if node is None or node.__class__ is Leaf or is_unrecorded(node):
            return None
        return shown(node.node if node.__class__ is native.Port else node)

    @property
    def output_nr(self) -> int:
        node = view.node_of(self)
        return node.index if node.__class__ is native.Port else 0

    @property
    def grad(self) -> Any:
        """The gradient so far, or None."""
        return None if self.leaf is None else self.leaf.grad

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is None:
            if self.leaf is not None:
                self.leaf.grad = None
            return
        if not isinstance(value, (native.TensorBase, Scattered)):
            raise TypeError(
                f"grad: assigned grad expected to be a Tensor or None: {type(value).__name__}"
            )
        if value is self:
            raise RuntimeError("grad: can't assign a Tensor as its own grad")
        array: Any = value.numbers.array if isinstance(value, Scattered) else value.array
        shape = value.shape if isinstance(value, Scattered) else array.shape
        if shape != self.array.shape or array.dtype is not self.array.dtype:
            raise RuntimeError(
                "grad: assigned grad has data of a different shape or dtype: "
                f"{shape} {array.dtype} is not {self.array.shape} "
                f"{self.array.dtype}"
            )
        if self.leaf is None:
            self.leaf = Leaf(self)
        self.leaf.grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    @property
    def retains_grad(self) -> bool:
        return self.leaf is not None and self.node is not self.leaf

    def retain_grad(self) -> None:
        """Makes backward fill in `.grad` of this tensor although it is not a leaf."""
        hooks.retain(self)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Calls `hook(grad)` whenever the tensor's gradient is computed; what it returns, if not
        None, replaces it.
        """
        return hooks.register(self, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Calls `hook(tensor)` after backward has added to this leaf's `.grad`."""
        return hooks.post_accumulate(self, hook)

    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Adds to the `.grad` of the leaves that this tensor was computed from. As
        `autograd.backward`.
        """
        backward(self, gradient, retain_graph, create_graph, inputs)

    def detach(self) -> Tensor:
        """The same memory without history. Copies: none."""
        fresh: Tensor = native.wrap(self.array)
        fresh.version = self.version = self.version or native.Version()
        return fresh if self.__class__ is native.plain_class() else self.of_class(fresh)

    def of_class(self, fresh: Any) -> Any:
        """A fresh tensor in this one's class, if that is a subclass that keeps itself."""
        if not getattr(type(self), "keeps_class", False):
            return fresh
        made: Any = native.TensorBase.__new__(type(self))
        made.array, made.version = fresh.array, fresh.version
        return made

    def detach_(self) -> Self:
        """Forgets the history of this tensor."""
        if self.base is not None:
            raise RuntimeError(
                f"detach_: can't detach views in-place: shape "
                f"{tuple(self.shape)}, use detach() instead"
            )
        self.node = None
        return self

    @property
    def data(self) -> Tensor:
        """The same memory without history, and writes to it are not counted. Copies: none."""
        return native.wrap(self.array)  # type: ignore[no-any-return]

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, native.TensorBase):
            raise TypeError(f"data: must be a Tensor, not {type(value).__name__}")
        if self.requires_grad and value.array.dtype.kind not in "fc":
            raise RuntimeError(
                f"data: {value.array.dtype} cannot be set where gradients are required: "
                "it must be a floating point or complex dtype"
            )
        self.array = value.array
        leaf = self.leaf
        if leaf is not None:
            leaf.describe(self.array)
            home = leaf.home
            if home is not None and (home.dtype is not value.dtype or home.shape != value.shape):
                leaf.home = None

    @property
    def _version(self) -> int:
        if self.version is FROZEN:
            raise RuntimeError("_version: Inference tensors do not track version counter.")
        return 0 if self.version is None else self.version.count

    @property
    def _base(self) -> Any:
        return None if self.base is None else view.chain_to(self)[0]

    def is_inference(self) -> bool:
        """Whether the tensor was made in `inference_mode`."""
        return self.version is FROZEN


def node_name(tensor: History) -> str:
    fn = tensor.grad_fn
    return "a leaf" if fn is None else str(fn.name())
