"""MultiheadAttention: attention of the positions of one sequence to those of another."""

from __future__ import annotations

from typing import Any

from ...functions import empty
from ...tensor import Tensor
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .linear import NonDynamicallyQuantizableLinear
from .module import Module

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Attention of several heads, with projections before and after it (Vaswani et al. 2017).

    Parameters
    ----------
    embed_dim : int
        Size E of queries and results, a multiple of num_heads.
    num_heads : int
        Number of heads; each works on E / num_heads features.
    dropout : float, optional
        Probability with which an attention weight is 0 in training.
    bias : bool, optional
        Whether the projections have a bias.
    add_bias_kv : bool, optional
        Whether one more key and value are learned, at the end of each sequence.
    add_zero_attn : bool, optional
        Whether a key and a value of zeros are added at the end of each sequence.
    kdim, vdim : int, optional
        Sizes of keys and values; E if None.
    batch_first : bool, optional
        Whether tensors are `(N, L, E)` instead of `(L, N, E)`.
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    Attributes
    ----------
    in_proj_weight, in_proj_bias : Parameter or None
        `(3 * E, E)` and `(3 * E,)`: the projections of query, key and value. With other sizes of
        keys or values the weights are q_proj_weight, k_proj_weight and v_proj_weight.
    out_proj : Linear
        The projection of the result.

    Raises
    ------
    ValueError
        A size is not positive.
    AssertionError
        embed_dim is not a multiple of num_heads.

    See Also
    --------
    TransformerEncoderLayer, functional.scaled_dot_product_attention

    Notes
    -----
    The call takes query `(L, N, E)`, key `(S, N, kdim)` and value `(S, N, vdim)`, all also without
    N, and returns the result `(L, N, E)` and the weights `(N, L, S)`, the mean over the heads.
    need_weights=False returns None for them and is faster. key_padding_mask `(N, S)` is true where
    a key is ignored, attn_mask `(L, S)` or `(N * num_heads, L, S)` where a query may not look; both
    may be numbers to add instead.

    Examples
    --------
    >>> attention = nn.MultiheadAttention(embed_dim=8, num_heads=2, batch_first=True)
    >>> x = st.ones(3, 5, 8)
    >>> out, weights = attention(x, x, x)
    >>> out.shape, weights.shape
    (Size([3, 5, 8]), Size([3, 5, 5]))
    >>> mask = nn.Transformer.generate_square_subsequent_mask(5)
    >>> out, weights = attention(x, x, x, attn_mask=mask, is_causal=True, need_weights=False)
    >>> weights is None
    True
    """

    in_proj_weight: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None
    out_proj: NonDynamicallyQuantizableLinear

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "MultiheadAttention: embed_dim and num_heads must be greater than 0: "
                f"{embed_dim}, {num_heads}"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError(
                "MultiheadAttention: embed_dim must be divisible by num_heads: "
                f"{embed_dim}, {num_heads}"
            )
        same = self._qkv_same_embed_dim
        shapes: dict[str, tuple[int, ...] | None] = {
            "q_proj_weight": None if same else (embed_dim, embed_dim),
            "k_proj_weight": None if same else (embed_dim, self.kdim),
            "v_proj_weight": None if same else (embed_dim, self.vdim),
            "in_proj_weight": (3 * embed_dim, embed_dim) if same else None,
            "in_proj_bias": (3 * embed_dim,) if bias else None,
        }
        for name, shape in shapes.items():
            p = None if shape is None else Parameter(empty(*shape, device=device, dtype=dtype))
            self.register_parameter(name, p)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device, dtype)
        self.bias_k = self.bias_v = None
        if add_bias_kv:
            self.bias_k = Parameter(empty(1, 1, embed_dim, device=device, dtype=dtype))
            self.bias_v = Parameter(empty(1, 1, embed_dim, device=device, dtype=dtype))
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        """Xavier's uniform weights, zeros as biases; bias_k and bias_v are Xavier's normal ones."""
        for p in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if p is not None:
                init.xavier_uniform_(p)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            if self.out_proj.bias is not None:
                init.zeros_(self.out_proj.bias)
        for p in (self.bias_k, self.bias_v):
            if p is not None:
                init.xavier_normal_(p)

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("_qkv_same_embed_dim", True)  # states of PyTorch 1.1 do not have it
        super().__setstate__(state)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The result of the attention, and the weights or None.

        Parameters
        ----------
        query : Tensor
            `(L, N, E)`, with batch_first `(N, L, E)`, or one sequence `(L, E)`.
        key : Tensor
            `(S, N, kdim)`, `(N, S, kdim)` or `(S, kdim)`.
        value : Tensor
            `(S, N, vdim)`, `(N, S, vdim)` or `(S, vdim)`.
        key_padding_mask : Tensor, optional
            `(N, S)` or `(S)`: bool, true where a key is ignored, or numbers to add.
        need_weights : bool, optional
            Whether the weights are returned; False is faster.
        attn_mask : Tensor, optional
            `(L, S)` or `(N * num_heads, L, S)`: bool, true where a query may not look, or numbers
            to add.
        average_attn_weights : bool, optional
            Whether the weights are the mean over the heads.
        is_causal : bool, optional
            Whether attn_mask is the causal one.

        Returns
        -------
        (out, weights) : Tensor, Tensor or None
            Of query's shape; `(N, L, S)` or `(L, S)`, without the mean `(N, num_heads, L, S)` or
            `(num_heads, L, S)`.

        Raises
        ------
        AssertionError
            Shapes or dtypes do not go together.
        RuntimeError
            attn_mask has another shape; is_causal without it.
        """
        swap = self.batch_first and query.dim() == 3
        if swap:
            if query is key is value:
                query = key = value = query.transpose(0, 1)
            else:
                same = key is value
                query, key = query.transpose(0, 1), key.transpose(0, 1)
                value = key if same else value.transpose(0, 1)
        out, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return out.transpose(0, 1) if swap else out, weights

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Both masks as one, and its type: 1 for key_padding_mask alone, 2 for one of shape
        (N, num_heads, L, L), None where there is no mask.

        Args:
            attn_mask: (L, L) or (N * num_heads, L, L), numbers to add.
            key_padding_mask: (N, L), numbers to add.
            query: (N, L, E).
        """
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        n, length = query.shape[:2]
        if attn_mask.dim() == 3:
            merged = attn_mask.view(n, -1, length, length)
        else:
            merged = attn_mask.view(1, 1, length, length).expand(n, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            padding = key_padding_mask.view(n, 1, 1, length)
            merged = merged + padding.expand(-1, self.num_heads, -1, -1)
        return merged, 2
