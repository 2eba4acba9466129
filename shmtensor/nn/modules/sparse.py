"""Embedding: a table of vectors, looked up by index; EmbeddingBag: sums of several of them."""

from __future__ import annotations

from typing import Any

from ...autograd import no_grad
from ...functions import empty
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module
from .utils import check_sizes

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """A weight, shape (num_embeddings, embedding_dim), of which one row may stay zero."""

    weight: Parameter
    max_norm: float | None
    norm_type: float
    scale_grad_by_freq: bool
    sparse: bool

    def _make(
        self,
        shape: tuple[int, int],
        padding_idx: int | None,
        weight: Tensor | None,
        requires_grad: bool,
        factory: dict[str, Any],
    ) -> None:
        where = type(self).__name__
        check_sizes(self, num_embeddings=shape[0], embedding_dim=shape[1])
        self.num_embeddings, self.embedding_dim = n, _ = shape
        if padding_idx is not None and not -n <= padding_idx < n:
            raise AssertionError(
                f"{where}: padding_idx must be within num_embeddings: {padding_idx} of {n}"
            )
        self.padding_idx = padding_idx if padding_idx is None else padding_idx % n
        if weight is None:
            self.weight = Parameter(empty(*shape, **factory), requires_grad=requires_grad)
            self.reset_parameters()
        elif tuple(weight.shape) != shape:
            raise AssertionError(
                f"{where}: shape of weight does not match num_embeddings and "
                f"embedding_dim: {tuple(weight.shape)} for {shape}"
            )
        else:
            self.weight = Parameter(weight, requires_grad=requires_grad)
        if self.sparse:
            self.weight.expects_sparse = True  # type: ignore[attr-defined]

    def reset_parameters(self) -> None:
        """Draws from the normal distribution; the padding row is zero."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def _scaling(self) -> str:
        text = "" if self.max_norm is None else f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        return text + (", scale_grad_by_freq=True" if self.scale_grad_by_freq else "")


class Embedding(_Table):
    """A learned table of vectors, looked up by their numbers.

    Parameters
    ----------
    num_embeddings : int
        How many rows the table has.
    embedding_dim : int
        The size of a row.
    padding_idx : int, optional
        A row that is zero at first and receives no gradient.
    max_norm : float, optional
        Rows that are looked up are first scaled down to this norm, in place.
    norm_type : float, optional
        The order of that norm.
    scale_grad_by_freq : bool, optional
        Whether each row's gradient is divided by how often the row was looked up.
    sparse : bool, optional
        Whether the gradient of `weight` is a sparse tensor of the rows that were looked up, for
        optim.SparseAdam, SGD and Adagrad.
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    Attributes
    ----------
    weight : Parameter
        `(num_embeddings, embedding_dim)`, drawn from the standard normal distribution.

    Raises
    ------
    IndexError
        In the call: a number is not one of a row.

    See Also
    --------
    EmbeddingBag, functional.embedding

    Notes
    -----
    Shape: whole numbers `(...)` to `(..., embedding_dim)`. `Embedding.from_pretrained` takes a
    table that exists.

    Examples
    --------
    >>> layer = nn.Embedding(10, 3, padding_idx=0)
    >>> layer(st.tensor([[1, 2, 0], [4, 0, 0]])).shape
    Size([2, 3, 3])
    >>> layer(st.tensor([0])).detach()
    tensor([[0., 0., 0.]])
    >>> nn.Embedding.from_pretrained(st.tensor([[1., 2.], [3., 4.]]))(st.tensor([1]))
    tensor([[3., 4.]])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        shape, factory = (num_embeddings, embedding_dim), {"device": device, "dtype": dtype}
        self._make(shape, padding_idx, _weight, not _freeze, factory)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """An embedding over a given table (n, dim), frozen by default."""
        n, dim = embeddings.shape
        return cls(
            n,
            dim,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight=embeddings,
            _freeze=freeze,
        )

    def forward(self, input: Tensor) -> Tensor:
        """Integers of shape (*) to (*, embedding_dim)."""
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        text += self._scaling()
        if self.sparse:
            text += ", sparse=True"
        return text


class EmbeddingBag(_Table):
    """The sum, mean or maximum of a learned table's rows in each bag of numbers.

    Parameters
    ----------
    num_embeddings : int
        How many rows the table has.
    embedding_dim : int
        The size of a row.
    max_norm : float, optional
        Rows that are looked up are first scaled down to this norm, in place.
    norm_type : float, optional
        The order of that norm.
    scale_grad_by_freq : bool, optional
        Whether each row's gradient is divided by how often the row was looked up.
    mode : str, optional
        "sum", "mean" or "max".
    sparse : bool, optional
        Whether the gradient of `weight` is a sparse tensor; not with mode "max".
    include_last_offset : bool, optional
        Whether the last offset is the end of the last bag.
    padding_idx : int, optional
        A row that is ignored and receives no gradient.
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    Attributes
    ----------
    weight : Parameter
        `(num_embeddings, embedding_dim)`, drawn from the standard normal distribution.

    See Also
    --------
    Embedding, functional.embedding_bag

    Notes
    -----
    Shape: bags of equal size `(bags, n)`, or a vector of all bags and the offsets `(bags,)` where
    they begin, to `(bags, embedding_dim)`. per_sample_weights in the call are factors, for mode
    "sum".

    Examples
    --------
    >>> layer = nn.EmbeddingBag(10, 3)
    >>> layer(st.tensor([[1, 2], [4, 5]])).shape
    Size([2, 3])
    >>> layer(st.tensor([1, 2, 4, 5, 6]), offsets=st.tensor([0, 3])).shape
    Size([2, 3])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset
        shape, factory = (num_embeddings, embedding_dim), {"device": device, "dtype": dtype}
        self._make(shape, padding_idx, _weight, True, factory)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """Bags over a given table (n, dim), frozen by default."""
        n, dim = embeddings.shape
        args = (max_norm, norm_type, scale_grad_by_freq, mode, sparse)
        bags = cls(n, dim, *args, embeddings, include_last_offset, padding_idx)
        bags.weight.requires_grad_(not freeze)
        return bags

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        """The sum, mean or maximum of each bag.

        Parameters
        ----------
        input : Tensor
            Whole numbers `(bags, n)`, or a vector of them.
        offsets : Tensor, optional
            `(bags,)`: where each bag begins in the vector.
        per_sample_weights : Tensor, optional
            Factors of the input's shape, for mode "sum".

        Returns
        -------
        Tensor
            `(bags, dim)`.
        """
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        text += self._scaling()
        text += f", mode={self.mode!r}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        return text
