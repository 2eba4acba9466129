"""The layers and stacks of "Attention Is All You Need" (Vaswani et al. 2017)."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

from ...autograd import is_grad_enabled
from ...backends import mha
from ...functions import arange, full, ones
from ...tensor import Tensor
from .. import functional as F
from .. import init
from .activation import GELU, ReLU
from .attention import MultiheadAttention
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .normalization import LayerNorm

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

Activation = str | Callable[[Tensor], Tensor]


def _get_activation_fn(activation: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu: {activation!r}")
    function: Callable[[Tensor], Tensor] = getattr(F, activation)
    return function


def _attend(
    attention: MultiheadAttention,
    x: Tensor,
    memory: Tensor,
    attn_mask: Tensor | None,
    key_padding_mask: Tensor | None,
    is_causal: bool,
) -> Tensor:
    out: Tensor = attention(
        x,
        memory,
        memory,
        attn_mask=attn_mask,
        key_padding_mask=key_padding_mask,
        need_weights=False,
        is_causal=is_causal,
    )[0]
    return out


class _TransformerLayer(Module):
    """What both layers have. Saved, relu and gelu are words, so that a layer names no function."""

    _attentions: ClassVar[tuple[str, ...]] = ("self_attn",)
    self_attn: MultiheadAttention
    norm1: LayerNorm
    norm2: LayerNorm
    dropout1: Dropout
    dropout2: Dropout
    activation: Any  # a function; the word only while it is loaded

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        options: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        for name in self._attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout, batch_first=batch_first, **options
            )
            self.add_module(name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **options)
        self.norm_first = norm_first
        numbers = range(1, len(self._attentions) + 2)
        for i in numbers:
            self.add_module(f"norm{i}", LayerNorm(d_model, layer_norm_eps, **options))
        for i in numbers:
            self.add_module(f"dropout{i}", Dropout(dropout))
        activation = _get_activation_fn(activation)
        self.activation_relu_or_gelu = 0
        if activation is F.relu or isinstance(activation, ReLU):
            self.activation_relu_or_gelu = 1
        elif activation is F.gelu or isinstance(activation, GELU):
            self.activation_relu_or_gelu = 2
        self.activation = activation

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__
        for name in ("relu", "gelu"):
            if state.get("activation") is getattr(F, name):
                return {**state, "activation": name}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "activation") or isinstance(self.activation, str):
            self.activation = _get_activation_fn(self.__dict__.get("activation", "relu"))

    def _sa_block(
        self,
        x: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        out: Tensor = self.dropout1(
            _attend(self.self_attn, x, x, attn_mask, key_padding_mask, is_causal)
        )
        return out


class TransformerEncoderLayer(_TransformerLayer):
    """Self-attention, then two linear layers, each added to its input and normalised.

    Parameters
    ----------
    d_model : int
        Number of features E.
    nhead : int
        Number of heads; E is a multiple of it.
    dim_feedforward : int, optional
        Number of features between the two linear layers.
    dropout : float, optional
        Probability with which an element is 0 in training.
    activation : str or callable, optional
        Between the two linear layers: "relu", "gelu" or a function.
    layer_norm_eps : float, optional
        eps of the LayerNorms.
    batch_first : bool, optional
        Whether tensors are `(N, S, E)` instead of `(S, N, E)`.
    norm_first : bool, optional
        Whether the input of each part is normalised instead of its result.
    bias : bool, optional
        Whether linear layers and LayerNorms have a bias.
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    See Also
    --------
    TransformerEncoder, TransformerDecoderLayer, MultiheadAttention

    Notes
    -----
    Vaswani et al. 2017. Shape: `(S, N, E)`, with batch_first `(N, S, E)`, or `(S, E)`, and the
    result has the same. The call takes src_mask `(S, S)`, true where a position may not attend, and
    src_key_padding_mask `(N, S)`, true for ignored positions; both may be numbers to add instead.

    Examples
    --------
    >>> layer = nn.TransformerEncoderLayer(d_model=8, nhead=2, batch_first=True)
    >>> layer(st.ones(3, 5, 8)).shape
    Size([3, 5, 8])
    >>> padding = st.tensor([[False, False, True]])
    >>> layer(st.ones(1, 3, 8), src_key_padding_mask=padding).shape
    Size([1, 3, 8])
    """

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """The layer's result for sequences.

        Parameters
        ----------
        src : Tensor
            `(S, N, E)`, with batch_first `(N, S, E)`, or `(S, E)`.
        src_mask : Tensor, optional
            `(S, S)` or `(N * nhead, S, S)`: bool, true where a position may not attend, or numbers
            to add.
        src_key_padding_mask : Tensor, optional
            `(N, S)` or `(S)`: bool, true for ignored positions, or numbers to add.
        is_causal : bool, optional
            Whether src_mask is the causal one.

        Returns
        -------
        Tensor
            Of src's shape.
        """
        padding = F._canonical_mask(
            src_key_padding_mask,
            "src_key_padding_mask",
            None if src_mask is None else src_mask.dtype,
            "src_mask",
            src.dtype,
        )
        mask = F._canonical_mask(src_mask, "src_mask", None, "", src.dtype, check_other=False)
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), mask, padding, is_causal=is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, mask, padding, is_causal=is_causal))
        out: Tensor = self.norm2(x + self._ff_block(x))
        return out

    def _ff_block(self, x: Tensor) -> Tensor:
        out: Tensor = self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))
        return out


class TransformerDecoderLayer(_TransformerLayer):
    """Self-attention, attention to the encoder's result, then two linear layers; each added to its
    input and normalised.

    Parameters
    ----------
    d_model : int
        Number of features E.
    nhead : int
        Number of heads; E is a multiple of it.
    dim_feedforward : int, optional
        Number of features between the two linear layers.
    dropout : float, optional
        Probability with which an element is 0 in training.
    activation : str or callable, optional
        Between the two linear layers: "relu", "gelu" or a function.
    layer_norm_eps : float, optional
        eps of the LayerNorms.
    batch_first : bool, optional
        Whether tensors are `(N, S, E)` instead of `(S, N, E)`.
    norm_first : bool, optional
        Whether the input of each part is normalised instead of its result.
    bias : bool, optional
        Whether linear layers and LayerNorms have a bias.
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    See Also
    --------
    TransformerDecoder, TransformerEncoderLayer

    Notes
    -----
    Shape: tgt `(T, N, E)` and memory `(S, N, E)`, with batch_first `(N, T, E)` and `(N, S, E)`, to
    tgt's shape. Masks are as in `TransformerEncoderLayer`: tgt_mask `(T, T)`, memory_mask `(T, S)`,
    tgt_key_padding_mask `(N, T)`, memory_key_padding_mask `(N, S)`.

    Examples
    --------
    >>> layer = nn.TransformerDecoderLayer(d_model=8, nhead=2, batch_first=True)
    >>> layer(st.ones(3, 4, 8), st.ones(3, 5, 8)).shape
    Size([3, 4, 8])
    """

    _attentions = ("self_attn", "multihead_attn")
    multihead_attn: MultiheadAttention
    norm3: LayerNorm
    dropout3: Dropout

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The layer's result for sequences and the encoder's result.

        Parameters
        ----------
        tgt : Tensor
            `(T, N, E)`, with batch_first `(N, T, E)`, or `(T, E)`.
        memory : Tensor
            The encoder's result, `(S, N, E)`, `(N, S, E)` or `(S, E)`.
        tgt_mask : Tensor, optional
            `(T, T)` or `(N * nhead, T, T)`: bool, true where a position may not attend, or numbers
            to add.
        memory_mask : Tensor, optional
            `(T, S)` or `(N * nhead, T, S)`, likewise.
        tgt_key_padding_mask : Tensor, optional
            `(N, T)` or `(T)`: bool, true for ignored positions, or numbers to add.
        memory_key_padding_mask : Tensor, optional
            `(N, S)` or `(S)`, likewise.
        tgt_is_causal, memory_is_causal : bool, optional
            Whether the mask is the causal one.

        Returns
        -------
        Tensor
            Of tgt's shape.
        """
        self_args = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        memory_args = (memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        x = tgt
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *self_args)
            x = x + self._mha_block(self.norm2(x), *memory_args)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *self_args))
        x = self.norm2(x + self._mha_block(x, *memory_args))
        out: Tensor = self.norm3(x + self._ff_block(x))
        return out

    def _mha_block(
        self,
        x: Tensor,
        mem: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        out: Tensor = self.dropout2(
            _attend(self.multihead_attn, x, mem, attn_mask, key_padding_mask, is_causal)
        )
        return out

    def _ff_block(self, x: Tensor) -> Tensor:
        out: Tensor = self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))
        return out


def _get_clones(module: Module, n: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(n)])


def _generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
    if dtype is not None and dtype.kind == "b":
        return ones(sz, sz, device=device, dtype=dtype).triu(1)
    return full((sz, sz), -math.inf, device=device, dtype=dtype).triu(1)


def _get_seq_len(src: Tensor, batch_first: bool) -> int:
    return int(src.shape[1 if src.dim() == 3 and batch_first else 0])


def _detect_is_causal_mask(mask: Tensor | None, is_causal: bool | None, size: int) -> bool:
    """is_causal; where that is None, whether mask is the causal one of shape (size, size)."""
    if is_causal is not None or mask is None:
        return is_causal is True
    if tuple(mask.shape) != (size, size):
        return False
    return bool((mask == _generate_square_subsequent_mask(size, mask.device, mask.dtype)).all())


class TransformerEncoder(Module):
    """Several encoder layers, one after the other.

    PyTorch computes padded batches with nested tensors in evaluation where no gradient is needed,
    if the layers are `TransformerEncoderLayer`s with batch_first=True. Then padded positions give
    0, before `norm`, and there must be no mask but the padding mask. Both hold here, too; the
    layers work on the length of the longest sequence.

    Parameters
    ----------
    encoder_layer : Module
        The layer; each of the encoder's is a copy of it, with equal parameters.
    num_layers : int
        Number of layers.
    norm : Module, optional
        Applied at the end.
    enable_nested_tensor : bool, optional
        False computes padded positions as others.
    mask_check : bool, optional
        Whether that path is taken only if the padding is at the sequences' ends. False does not
        check, and uses the number of padded positions only.

    See Also
    --------
    TransformerEncoderLayer, Transformer

    Notes
    -----
    Shape: as of its layers. Initialise the parameters anew if the layers should not begin equal.

    Examples
    --------
    >>> layer = nn.TransformerEncoderLayer(d_model=8, nhead=2, batch_first=True)
    >>> encoder = nn.TransformerEncoder(layer, num_layers=2)
    >>> encoder(st.ones(3, 5, 8)).shape
    Size([3, 5, 8])
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check
        reason = self._why_not_nested(encoder_layer)
        if enable_nested_tensor and reason:
            warnings.warn(
                "enable_nested_tensor is True, but self.use_nested_tensor is False because "
                f"encoder_layer{reason}",
                stacklevel=2,
            )
            self.use_nested_tensor = False

    @staticmethod
    def _why_not_nested(layer: Module) -> str:
        """The property of the layer that PyTorch's nested tensors do not support, or ""."""
        if not isinstance(layer, TransformerEncoderLayer):
            return " was not TransformerEncoderLayer"
        attention = layer.self_attn
        reasons = {
            ".norm_first was True": layer.norm_first,
            ".self_attn.batch_first was not True(use batch_first for better inference performance)":
                not attention.batch_first,
            ".self_attn._qkv_same_embed_dim was not True": not attention._qkv_same_embed_dim,
            ".self_attn was passed bias=False": attention.in_proj_bias is None,
            ".activation_relu_or_gelu was not True": not layer.activation_relu_or_gelu,
            ".norm1.eps was not equal to encoder_layer.norm2.eps":
                layer.norm1.eps != layer.norm2.eps,
            ".self_attn.num_heads is odd": attention.num_heads % 2 == 1,
        }  # fmt: skip
        return next((reason for reason, holds in reasons.items() if holds), "")

    def _lengths(self, src: Tensor, padding: Tensor | None) -> Tensor | None:
        """The length of each sequence, (N,), if padded positions give 0; else None."""
        first = self.layers[0]
        if (
            not mha.get_fastpath_enabled()
            or not self.use_nested_tensor
            or first.training
            or src.dim() != 3
            or padding is None
            or (is_grad_enabled() and any(x.requires_grad for x in (src, *first.parameters())))
        ):
            return None
        hidden = padding == -math.inf
        if hidden.shape != src.shape[:2] or not bool((hidden | (padding == 0)).all()):
            return None
        lengths = (~hidden).sum(1)
        if self.mask_check:
            expected = arange(hidden.shape[1], device=hidden.device) >= lengths.unsqueeze(1)
            if not bool((hidden == expected).all()):
                return None
        return lengths

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """The last layer's result for sequences.

        Parameters
        ----------
        src : Tensor
            `(S, N, E)`, with batch_first layers `(N, S, E)`, or `(S, E)`.
        mask, src_key_padding_mask : Tensor, optional
            As of `TransformerEncoderLayer`.
        is_causal : bool, optional
            Whether mask is the causal one; detected if None.

        Returns
        -------
        Tensor
            Of src's shape.
        """
        padding = F._canonical_mask(
            src_key_padding_mask,
            "src_key_padding_mask",
            None if mask is None else mask.dtype,
            "mask",
            src.dtype,
        )
        mask = F._canonical_mask(mask, "mask", None, "", src.dtype, check_other=False)
        length = _get_seq_len(src, self.layers[0].self_attn.batch_first)
        is_causal = _detect_is_causal_mask(mask, is_causal, length)
        lengths = None if mask is not None else self._lengths(src, padding)
        out, hidden = src, None
        if lengths is not None:
            longest = int(lengths.max()) if lengths.numel() else 0
            hidden = arange(longest, device=lengths.device) >= lengths.unsqueeze(1)
            out, padding = src[:, :longest], hidden
        for layer in self.layers:
            out = layer(out, src_mask=mask, is_causal=is_causal, src_key_padding_mask=padding)
        if hidden is not None:
            out = out.masked_fill(hidden.unsqueeze(2), 0.0)
            out = F.pad(out, (0, 0, 0, length - out.shape[1]))
        return out if self.norm is None else self.norm(out)


class TransformerDecoder(Module):
    """Several decoder layers, one after the other.

    Parameters
    ----------
    decoder_layer : Module
        The layer; each of the decoder's is a copy of it, with equal parameters.
    num_layers : int
        Number of layers.
    norm : Module, optional
        Applied at the end.

    See Also
    --------
    TransformerDecoderLayer, Transformer

    Notes
    -----
    Shape: as of its layers.

    Examples
    --------
    >>> layer = nn.TransformerDecoderLayer(d_model=8, nhead=2, batch_first=True)
    >>> decoder = nn.TransformerDecoder(layer, num_layers=2)
    >>> decoder(st.ones(3, 4, 8), st.ones(3, 5, 8)).shape
    Size([3, 4, 8])
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """As of `TransformerDecoderLayer`; tgt_is_causal None: detect it from tgt_mask."""
        length = _get_seq_len(tgt, self.layers[0].self_attn.batch_first)
        tgt_is_causal = _detect_is_causal_mask(tgt_mask, tgt_is_causal, length)
        out = tgt
        for layer in self.layers:
            out = layer(
                out,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=tgt_is_causal,
                memory_is_causal=memory_is_causal,
            )
        return out if self.norm is None else self.norm(out)


class Transformer(Module):
    """An encoder, and a decoder that attends to its result (Vaswani et al. 2017).

    Parameters
    ----------
    d_model : int, optional
        Number of features E.
    nhead : int, optional
        Number of heads; E is a multiple of it.
    num_encoder_layers, num_decoder_layers : int, optional
        Numbers of layers.
    dim_feedforward : int, optional
        Number of features between the two linear layers of a layer.
    dropout : float, optional
        Probability with which an element is 0 in training.
    activation : str or callable, optional
        Between the two linear layers: "relu", "gelu" or a function.
    custom_encoder, custom_decoder : Module, optional
        What replaces the default encoder and decoder.
    layer_norm_eps : float, optional
        eps of the LayerNorms.
    batch_first : bool, optional
        Whether tensors are `(N, S, E)` instead of `(S, N, E)`.
    norm_first : bool, optional
        Whether the input of each part is normalised instead of its result.
    bias : bool, optional
        Whether linear layers and LayerNorms have a bias.
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    Raises
    ------
    RuntimeError
        In the call: src and tgt have other features, or different batch sizes.

    See Also
    --------
    TransformerEncoder, TransformerDecoder

    Notes
    -----
    Shape: src `(S, N, E)` and tgt `(T, N, E)` to `(T, N, E)`. `generate_square_subsequent_mask(T)`
    makes the mask with which no position of tgt sees a later one.

    Examples
    --------
    >>> model = nn.Transformer(
    ...     8, 2, num_encoder_layers=1, num_decoder_layers=1, batch_first=True
    ... )
    >>> mask = nn.Transformer.generate_square_subsequent_mask(4)
    >>> model(st.ones(3, 5, 8), st.ones(3, 4, 8), tgt_mask=mask).shape
    Size([3, 4, 8])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        flags = (batch_first, norm_first, bias, device, dtype)
        options: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        if custom_encoder is None:
            custom_encoder = TransformerEncoder(
                TransformerEncoderLayer(*layer, *flags),
                num_encoder_layers,
                LayerNorm(d_model, layer_norm_eps, **options),
            )
        if custom_decoder is None:
            custom_decoder = TransformerDecoder(
                TransformerDecoderLayer(*layer, *flags),
                num_decoder_layers,
                LayerNorm(d_model, layer_norm_eps, **options),
            )
        self.encoder = custom_encoder
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        """Xavier's uniform values for all that have more than one dimension."""
        for p in self.parameters():
            if p.dim() > 1:
                init.xavier_uniform_(p)

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """The causal mask, (sz, sz): -infinity above the diagonal, else 0."""
        return _generate_square_subsequent_mask(sz, device, dtype)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The decoder's result for two batches of sequences.

        Parameters
        ----------
        src : Tensor
            `(S, N, E)`, with batch_first `(N, S, E)`, or `(S, E)`.
        tgt : Tensor
            `(T, N, E)`, with batch_first `(N, T, E)`, or `(T, E)`.
        src_mask, src_key_padding_mask, src_is_causal : optional
            As of `TransformerEncoder`.
        tgt_mask, tgt_key_padding_mask, tgt_is_causal : optional
            As of `TransformerDecoder`.
        memory_mask, memory_key_padding_mask, memory_is_causal : optional
            As of `TransformerDecoder`.

        Returns
        -------
        Tensor
            Of tgt's shape.

        Raises
        ------
        RuntimeError
            src and tgt differ in the number of sequences, or do not have d_model features.
        """
        shapes = (tuple(src.shape), tuple(tgt.shape))
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.shape[batch] != tgt.shape[batch]:
            raise RuntimeError(
                "Transformer: the batch number of src and tgt must be equal: "
                f"{shapes[0]}, {shapes[1]}"
            )
        if any(shape[-1] != self.d_model for shape in shapes):
            raise RuntimeError(
                "Transformer: the feature number of src and tgt must be equal to d_model: "
                f"{shapes[0]}, {shapes[1]}, {self.d_model}"
            )
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        out: Tensor = self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )
        return out
