"""Recurrent layers: RNN, LSTM and GRU over whole sequences, and single steps of each."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ...autograd import table as ops
from ...autograd.dispatch.autocast import state as autocast
from ...functions import empty, zeros
from ...tensor import Tensor
from .. import init
from ..parameter import Parameter
from ..utils.rnn import PackedSequence
from .module import Module

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

# By mode: the number of gates, and the function of all layers.
MODES: dict[str, tuple[int, Any]] = {
    "LSTM": (4, ops.lstm),
    "GRU": (3, ops.gru),
    "RNN_TANH": (1, ops.rnn_tanh),
    "RNN_RELU": (1, ops.rnn_relu),
}

SIZES = ("input_size", "hidden_size", "num_layers")  # arguments that must be positive

Batch = TypeVar("Batch", Tensor, PackedSequence)


class RNNBase(Module):
    """The base of RNN, LSTM and GRU: arguments, weights, checks.

    Parameters
    ----------
    mode : str
        "LSTM", "GRU", "RNN_TANH" or "RNN_RELU".
    input_size : int
        Size of one element of a sequence.
    hidden_size : int
        Size of the hidden state.
    num_layers : int, optional
        How many layers are stacked.
    bias : bool, optional
        Whether there are biases.
    batch_first : bool, optional
        Whether batches are `(N, L, ...)` rather than `(L, N, ...)`. The states are not affected.
    dropout : float, optional
        Probability of zeroing an output of any layer but the last one, in training.
    bidirectional : bool, optional
        Whether a second direction goes from the end to the beginning.
    proj_size : int, optional
        Size of the output of an LSTM, 0 for hidden_size.
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    Attributes
    ----------
    weight_ih_l[k], weight_hh_l[k] : Parameter
        Of layer k, forwards (and with the ending `_reverse` backwards): `(gates * hidden_size,
        input size of the layer)` and `(gates * hidden_size, hidden_size or proj_size)`.
    bias_ih_l[k], bias_hh_l[k] : Parameter
        `(gates * hidden_size,)` each.
    weight_hr_l[k] : Parameter
        `(proj_size, hidden_size)`, of an LSTM with projections.

    Raises
    ------
    ValueError
        A size is not positive, a probability not in [0, 1], the mode unknown.
    TypeError
        An argument is of another type.

    Examples
    --------
    >>> isinstance(nn.GRU(2, 3), nn.RNNBase)
    True
    >>> [name for name, p in nn.RNNBase("LSTM", 2, 3).named_parameters()]
    ['weight_ih_l0', 'weight_hh_l0', 'bias_ih_l0', 'bias_hh_l0']
    """

    mode: str
    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    proj_size: int

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check_arguments(dropout)
        gates = MODES[mode][0] * hidden_size
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            size = input_size if layer == 0 else self._output_size * self._directions
            shapes: dict[str, tuple[int, ...]] = {
                "weight_ih": (gates, size),
                "weight_hh": (gates, self._output_size),
            }
            if bias:
                shapes.update(bias_ih=(gates,), bias_hh=(gates,))
            if proj_size:
                shapes["weight_hr"] = (proj_size, hidden_size)
            for ending in ("", "_reverse")[: self._directions]:
                names = {f"{name}_l{layer}{ending}": shape for name, shape in shapes.items()}
                for name, shape in names.items():
                    setattr(self, name, Parameter(empty(*shape, device=device, dtype=dtype)))
                self._all_weights.append(list(names))
        self.reset_parameters()

    def _check_arguments(self, dropout: Any) -> None:
        where = type(self).__name__
        no_number = isinstance(dropout, bool) or not isinstance(dropout, numbers.Number)
        if no_number or not 0 <= self.dropout <= 1:
            raise ValueError(
                f"{where}: dropout should be a number in range [0, 1], the probability of an "
                f"element being zeroed: {dropout!r}"
            )
        for name in ("bias", "batch_first", *SIZES, "proj_size"):
            value, kind = getattr(self, name), bool if name.startswith("b") else int
            if not isinstance(value, kind):
                raise TypeError(
                    f"{where}: {name} should be of type {kind.__name__}: got "
                    f"{type(value).__name__}, {value!r}"
                )
            if name in SIZES and value <= 0:
                raise ValueError(f"{where}: {name} must be greater than zero: {value}")
        if not 0 <= self.proj_size < self.hidden_size:
            raise ValueError(
                f"{where}: proj_size has to be smaller than hidden_size, and zero to disable "
                f"projections: {self.proj_size}, hidden_size is {self.hidden_size}"
            )
        if self.proj_size and self.mode != "LSTM":
            raise ValueError(
                f"{where}: proj_size argument is only supported for LSTM, not RNN or GRU: "
                f"{self.proj_size}"
            )
        if self.mode not in MODES:
            raise ValueError(f"{where}: Unrecognized RNN mode: {self.mode!r}, not in {list(MODES)}")
        if self.dropout > 0 and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
                f"num_layers={self.num_layers}",
                stacklevel=4,
            )

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def _output_size(self) -> int:
        return self.proj_size or self.hidden_size

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Any]:
        return [getattr(self, name) for name in self._flat_weights_names]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters, a list for each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Does nothing; in PyTorch it makes the weights contiguous on a GPU."""

    def reset_parameters(self) -> None:
        """Draws all uniformly from +-1 / sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    # ---------------------------------------------------------------- checks
    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raises unless dtype, number of dimensions and size of elements are right.

        Raises:
            ValueError: the weights have another dtype.
            RuntimeError: the shape is wrong.
        """
        where, dtype = type(self).__name__, self._flat_weights[0].dtype
        if input.dtype != dtype and not autocast.on:
            raise ValueError(
                f"{where}: RNN input dtype ({input.dtype.name}) does not match weight dtype "
                f"({dtype.name}), "
                f"hint: input.to({dtype.name}), or model.to({input.dtype.name})"
            )
        dims = 3 if batch_sizes is None else 2
        if input.ndim != dims:
            raise RuntimeError(
                f"{where}: input must have {dims} dimensions, got {input.ndim}: "
                f"{tuple(input.shape)}"
            )
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"{where}: input.size(-1) must be equal to input_size: Expected "
                f"{self.input_size}, got {input.shape[-1]}"
            )

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """(layers * directions, N, size of the output)."""
        if batch_sizes is None:
            batch = input.shape[0 if self.batch_first else 1]
        else:
            batch = int(batch_sizes[0])
        return self.num_layers * self._directions, batch, self._output_size

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """Raises RuntimeError with the message unless the state has this shape."""
        if tuple(hx.shape) != tuple(expected_hidden_size):
            message = msg.format(tuple(expected_hidden_size), list(hx.shape))
            raise RuntimeError(f"{type(self).__name__}: {message}")

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """`check_input` and `check_hidden_size` of forward's arguments."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """The state with the sequences of the batch in another order."""
        return hx if permutation is None else ops.index_select(hx, 1, permutation)

    # ---------------------------------------------------------------- calling
    def _run(self, input: Any, hx: Any) -> tuple[Any, Any]:
        """(output, last state); subclasses define the state."""
        is_packed = isinstance(input, PackedSequence)
        data, sizes, sorted_indices, unsorted = input if is_packed else (input, None, None, None)
        is_batched = is_packed or data.ndim == 3
        if not is_packed and data.ndim not in (2, 3):
            raise ValueError(
                f"{type(self).__name__}: Expected input to be 2D or 3D, got {data.ndim}D: "
                f"{tuple(data.shape)}"
            )
        if hx is not None:
            self._check_state(hx)
            if not is_packed:
                self._check_dimensions(data, hx)
        if not is_batched:
            data = ops.unsqueeze(data, 0 if self.batch_first else 1)
            hx = None if hx is None else self._each(hx, lambda h: ops.unsqueeze(h, 1))
        hx = self._zeros(data, sizes) if hx is None else hx
        self.check_forward_args(data, hx, sizes)
        hx = self.permute_hidden(hx, sorted_indices)
        function, weights = MODES[self.mode][1], self._flat_weights
        options = (self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        if is_packed:
            output, *last = function(data, sizes, hx, weights, *options)
            output = PackedSequence(output, sizes, sorted_indices, unsorted)
        else:
            output, *last = function(data, hx, weights, *options, self.batch_first)
        hx = tuple(last) if len(last) > 1 else last[0]
        if not is_batched:
            output = ops.squeeze(output, 0 if self.batch_first else 1)
            hx = self._each(hx, lambda h: ops.squeeze(h, 1))
        return output, self.permute_hidden(hx, unsorted)

    def _each(self, hx: Any, function: Any) -> Any:
        """A function of each tensor of a state."""
        return function(hx)

    def _zeros(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        """The state before the first step."""
        shape = self.get_expected_hidden_size(input, batch_sizes)
        return zeros(shape, dtype=input.dtype, device=input.device)

    def _check_state(self, hx: Any) -> None:
        """Raises TypeError unless a state has the number of tensors that the layer needs."""
        if not isinstance(hx, Tensor):
            raise TypeError(
                f"{type(self).__name__}: the state has to be a tensor: got {type(hx).__name__}"
            )

    def _check_dimensions(self, input: Tensor, hx: Any) -> None:
        """Raises RuntimeError unless a state has as many dimensions as the input."""
        tensors = hx if isinstance(hx, (tuple, list)) else (hx,)
        if any(h.ndim != input.ndim for h in tensors):
            kind = "batched" if input.ndim == 3 else "unbatched"
            raise RuntimeError(
                f"{type(self).__name__}: For {kind} {input.ndim}-D input, the hidden state should "
                f"also be {input.ndim}-D but got {', '.join(f'{h.ndim}-D' for h in tensors)}"
            )

    def extra_repr(self) -> str:
        parts = [f"{self.input_size}, {self.hidden_size}"]
        usual = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False,
                 "dropout": 0, "bidirectional": False}  # fmt: skip
        for name, value in usual.items():
            if getattr(self, name) != value:
                parts.append(f"{name}={getattr(self, name)}")
        return ", ".join(parts)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("proj_size", 0)


class RNN(RNNBase):
    """A recurrent network: h = tanh(W_ih x + b_ih + W_hh h + b_hh) along a sequence (Elman 1990).

    Parameters
    ----------
    input_size : int
        Size of one element of a sequence.
    hidden_size : int
        Size of the hidden state.
    num_layers : int, optional
        How many layers are stacked.
    nonlinearity : str, optional
        "tanh" or "relu".
    bias : bool, optional
        Whether there are biases.
    batch_first : bool, optional
        Whether batches are `(N, L, ...)` rather than `(L, N, ...)`. The states are not affected.
    dropout : float, optional
        Probability of zeroing an output of any layer but the last one, in training.
    bidirectional : bool, optional
        Whether a second direction goes from the end to the beginning.
    proj_size : int, optional
        Only 0.
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    Attributes
    ----------
    weight_ih_l[k], weight_hh_l[k] : Parameter
        Of layer k: `(hidden_size, input size of the layer)` and `(hidden_size, hidden_size)`; the
        backward direction's names end in `_reverse`. All are drawn uniformly from -1 /
        sqrt(hidden_size) to 1 / sqrt(hidden_size).
    bias_ih_l[k], bias_hh_l[k] : Parameter
        `(hidden_size,)` each.

    Raises
    ------
    ValueError
        The nonlinearity is unknown, a size is not positive, or dropout is not within 0 and 1.

    See Also
    --------
    LSTM, GRU, RNNCell

    Notes
    -----
    Shape: input `(L, N, input_size)`, one sequence `(L, input_size)`, or a PackedSequence, and an
    optional first state `(num_layers * directions, N, hidden_size)`, zeros by default, to the
    output of the last layer `(L, N, directions * hidden_size)` and the last state of all layers.

    Examples
    --------
    >>> rnn = nn.RNN(input_size=4, hidden_size=8, batch_first=True)
    >>> output, last = rnn(st.ones(2, 5, 4))
    >>> output.shape, last.shape
    (Size([2, 5, 8]), Size([1, 2, 8]))
    """

    nonlinearity: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"RNN: Unknown nonlinearity {nonlinearity!r}, hint: select from 'tanh' or 'relu'"
            )
        super().__init__(
            f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, bias, batch_first,
            dropout, bidirectional, proj_size, device, dtype,
        )  # fmt: skip
        self.nonlinearity = nonlinearity

    if TYPE_CHECKING:  # mypy does not find the type of a generic forward by that of Module.__call__

        def __call__(  # type: ignore[override]
            self, input: Batch, hx: Tensor | None = None
        ) -> tuple[Batch, Tensor]: ...

    def forward(self, input: Batch, hx: Tensor | None = None) -> tuple[Batch, Tensor]:
        """The output of the last layer, and the last state of all layers.

        Parameters
        ----------
        input : Tensor or PackedSequence
            `(L, N, input_size)`, `(N, L, input_size)` if `batch_first`, or one sequence `(L,
            input_size)`.
        hx : Tensor, optional
            The first state, `(layers * directions, N, hidden_size)`, without N for one sequence;
            zeros by default.

        Returns
        -------
        (output, h)
            `(L, N, directions * hidden_size)` or as the input is; the last state, as hx is.
        """
        return self._run(input, hx)


class _GatedRNN(RNNBase):
    """GRU and LSTM, by their `_mode`."""

    _mode: ClassVar[str]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            self._mode, input_size, hidden_size, num_layers, bias, batch_first, dropout,
            bidirectional, proj_size, device, dtype,
        )  # fmt: skip


class GRU(_GatedRNN):
    """Gated recurrent units along a sequence (Cho et al. 2014).

    Parameters
    ----------
    input_size : int
        Size of one element of a sequence.
    hidden_size : int
        Size of the hidden state.
    num_layers : int, optional
        How many layers are stacked.
    bias : bool, optional
        Whether there are biases.
    batch_first : bool, optional
        Whether batches are `(N, L, ...)` rather than `(L, N, ...)`. The states are not affected.
    dropout : float, optional
        Probability of zeroing an output of any layer but the last one, in training.
    bidirectional : bool, optional
        Whether a second direction goes from the end to the beginning.
    proj_size : int, optional
        Only 0.
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    Attributes
    ----------
    weight_ih_l[k], weight_hh_l[k] : Parameter
        Of layer k: `(3 * hidden_size, input size of the layer)` and `(3 * hidden_size,
        hidden_size)`, for r, z and n; the backward direction's names end in `_reverse`. All are
        drawn uniformly from -1 / sqrt(hidden_size) to 1 / sqrt(hidden_size).
    bias_ih_l[k], bias_hh_l[k] : Parameter
        `(3 * hidden_size,)` each.

    Raises
    ------
    ValueError
        A size is not positive, or dropout is not within 0 and 1.

    See Also
    --------
    LSTM, RNN, GRUCell

    Notes
    -----
    r, z = sigmoid(W_i x + b_i + W_h h + b_h), n = tanh(W_in x + b_in + r (W_hn h + b_hn)), h = (1 -
    z) n + z h.

    Shape: input `(L, N, input_size)`, one sequence `(L, input_size)`, or a PackedSequence, and an
    optional first state `(num_layers * directions, N, hidden_size)`, zeros by default, to the
    output of the last layer `(L, N, directions * hidden_size)` and the last state of all layers.

    Examples
    --------
    >>> gru = nn.GRU(input_size=4, hidden_size=8, num_layers=2, bidirectional=True)
    >>> output, last = gru(st.ones(5, 2, 4))
    >>> output.shape, last.shape
    (Size([5, 2, 16]), Size([4, 2, 8]))
    """

    _mode = "GRU"

    if TYPE_CHECKING:

        def __call__(  # type: ignore[override]
            self, input: Batch, hx: Tensor | None = None
        ) -> tuple[Batch, Tensor]: ...

    def forward(self, input: Batch, hx: Tensor | None = None) -> tuple[Batch, Tensor]:
        """Output and last state of all layers; shapes as in RNN."""
        return self._run(input, hx)


class LSTM(_GatedRNN):
    """Long short-term memory along a sequence (Hochreiter and Schmidhuber 1997).

    Parameters
    ----------
    input_size : int
        Size of one element of a sequence.
    hidden_size : int
        Size of the hidden state.
    num_layers : int, optional
        How many layers are stacked.
    bias : bool, optional
        Whether there are biases.
    batch_first : bool, optional
        Whether batches are `(N, L, ...)` rather than `(L, N, ...)`. The states are not affected.
    dropout : float, optional
        Probability of zeroing an output of any layer but the last one, in training.
    bidirectional : bool, optional
        Whether a second direction goes from the end to the beginning.
    proj_size : int, optional
        Size of the projected state h; 0 for none (Sak et al. 2014).
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    Attributes
    ----------
    weight_ih_l[k], weight_hh_l[k] : Parameter
        Of layer k: `(4 * hidden_size, input size of the layer)` and `(4 * hidden_size, hidden_size
        or proj_size)`, for i, f, g and o; the backward direction's names end in `_reverse`. All are
        drawn uniformly from -1 / sqrt(hidden_size) to 1 / sqrt(hidden_size).
    bias_ih_l[k], bias_hh_l[k] : Parameter
        `(4 * hidden_size,)` each.
    weight_hr_l[k] : Parameter
        `(proj_size, hidden_size)`, with projections.

    Raises
    ------
    ValueError
        A size is not positive, dropout is not within 0 and 1, or proj_size is not less than
        hidden_size.
    TypeError
        In the call: the state is not a pair of tensors.

    See Also
    --------
    GRU, RNN, LSTMCell, utils.rnn.pack_padded_sequence

    Notes
    -----
    i, f, o = sigmoid(W_i x + b_i + W_h h + b_h), g = tanh(...), c = f c + i g, h = o tanh(c); with
    projections h = W_hr o tanh(c).

    Shape: input `(L, N, input_size)`, one sequence `(L, input_size)`, or a PackedSequence, and an
    optional first state (h, c), each `(num_layers * directions, N, hidden_size)`, zeros by default,
    to the output of the last layer `(L, N, directions * hidden_size)` and the last state (h, c) of
    all layers. With projections h and the output have proj_size instead of hidden_size.

    Examples
    --------
    >>> lstm = nn.LSTM(input_size=4, hidden_size=8, num_layers=2)
    >>> output, (h, c) = lstm(st.ones(5, 3, 4))
    >>> output.shape, h.shape, c.shape
    (Size([5, 3, 8]), Size([2, 3, 8]), Size([2, 3, 8]))
    >>> nn.LSTM(4, 8, batch_first=True, bidirectional=True)(st.ones(3, 5, 4))[0].shape
    Size([3, 5, 16])
    """

    _mode = "LSTM"

    def get_expected_cell_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """(layers * directions, N, hidden_size)."""
        return (*self.get_expected_hidden_size(input, batch_sizes)[:2], self.hidden_size)

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        self.check_input(input, batch_sizes)
        sizes = (
            self.get_expected_hidden_size(input, batch_sizes),
            self.get_expected_cell_size(input, batch_sizes),
        )
        for i, (h, size) in enumerate(zip(hidden, sizes)):
            self.check_hidden_size(h, size, f"Expected hidden[{i}] size {{}}, got {{}}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        permute = super().permute_hidden
        return self._each(hx, lambda h: permute(h, permutation))

    def _check_state(self, hx: Any) -> None:
        if not isinstance(hx, (tuple, list)) or [isinstance(h, Tensor) for h in hx] != [True] * 2:
            kinds = [type(h).__name__ for h in hx] if isinstance(hx, (tuple, list)) else type(hx)
            raise TypeError(f"LSTM: the state has to be two tensors, (h, c): got {kinds}")

    def _each(self, hx: Any, function: Any) -> Any:
        h, c = hx
        return function(h), function(c)

    def _zeros(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        shape = self.get_expected_cell_size(input, batch_sizes)
        cell = zeros(shape, dtype=input.dtype, device=input.device)
        return super()._zeros(input, batch_sizes), cell

    if TYPE_CHECKING:

        def __call__(  # type: ignore[override]
            self, input: Batch, hx: tuple[Tensor, Tensor] | None = None
        ) -> tuple[Batch, tuple[Tensor, Tensor]]: ...

    def forward(
        self, input: Batch, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Batch, tuple[Tensor, Tensor]]:
        """Output and last state (h, c) of all layers; shapes as in RNN, with h of proj_size if
        there are projections, and c of hidden_size.
        """
        return self._run(input, hx)


class RNNCellBase(Module):
    """The base of RNNCell, LSTMCell and GRUCell.

    Parameters
    ----------
    input_size : int
        Size of the input.
    hidden_size : int
        Size of the state.
    bias : bool
        Whether there are biases.
    num_chunks : int
        Number of gates.
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    Attributes
    ----------
    weight_ih, weight_hh : Parameter
        `(chunks * hidden_size, input_size)` and `(chunks * hidden_size, hidden_size)`.
    bias_ih, bias_hh : Parameter or None
        `(chunks * hidden_size,)` each.

    Examples
    --------
    >>> nn.RNNCellBase(2, 3, bias=True, num_chunks=4).weight_ih.shape
    Size([12, 2])
    """

    input_size: int
    hidden_size: int
    bias: bool
    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        gates = num_chunks * hidden_size
        self.weight_ih = Parameter(empty(gates, input_size, device=device, dtype=dtype))
        self.weight_hh = Parameter(empty(gates, hidden_size, device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            bias_parameter = Parameter(empty(gates, device=device, dtype=dtype)) if bias else None
            self.register_parameter(name, bias_parameter)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all uniformly from +-1 / sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        parts = [f"{self.input_size}, {self.hidden_size}"]
        if self.bias is not True:
            parts.append(f"bias={self.bias}")
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            parts.append(f"nonlinearity={self.nonlinearity}")
        return ", ".join(parts)

    def _step(self, function: Any, input: Tensor, states: Any) -> tuple[Any, ...]:
        """The states after one step; None: zeros; one sequence (n,) counts as a batch of one."""
        where = type(self).__name__
        if input.ndim not in (1, 2):
            raise ValueError(
                f"{where}: Expected input to be 1D or 2D, got {input.ndim}D: {tuple(input.shape)}"
            )
        single = input.ndim == 1
        x = ops.unsqueeze(input, 0) if single else input
        if x.shape[1] != self.input_size:
            raise RuntimeError(
                f"{where}: input has inconsistent input_size: got {x.shape[1]}, expected "
                f"{self.input_size}"
            )
        size = (x.shape[0], self.hidden_size)
        if states is None:
            zero = zeros(size, dtype=x.dtype, device=x.device)
            states = (zero, zero) if function is ops.lstm_cell else (zero,)
        else:
            n_states = 2 if function is ops.lstm_cell else 1
            if len(states) != n_states:
                raise RuntimeError(
                    f"{where}: the state has {n_states} tensors, (h, c): got {len(states)}"
                )
            for i, h in enumerate(states):
                if h.ndim not in (1, 2):
                    raise ValueError(
                        f"{where}: Expected hx[{i}] to be 1D or 2D, got {h.ndim}D: {tuple(h.shape)}"
                    )
            states = tuple(ops.unsqueeze(h, 0) if single else h for h in states)
            for i, h in enumerate(states):
                if tuple(h.shape) != size:
                    raise RuntimeError(
                        f"{where}: hidden{i} has inconsistent size: got {tuple(h.shape)}, expected "
                        f"{size}"
                    )
        hx = states if len(states) > 1 else states[0]
        out = function(x, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        out = out if isinstance(out, tuple) else (out,)
        return tuple(ops.squeeze(h, 0) for h in out) if single else out


class RNNCell(RNNCellBase):
    """One step of an `RNN`.

    Parameters
    ----------
    input_size : int
        Size of the input.
    hidden_size : int
        Size of the state.
    bias : bool, optional
        Whether there are biases.
    nonlinearity : str, optional
        "tanh" or "relu".
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    Attributes
    ----------
    weight_ih, weight_hh : Parameter
        `(hidden_size, input_size)` and `(hidden_size, hidden_size)`.
    bias_ih, bias_hh : Parameter or None
        `(hidden_size,)` each.

    Raises
    ------
    RuntimeError
        In the call: sizes differ, or the nonlinearity is unknown.

    Notes
    -----
    Shape: `(N, input_size)` or `(input_size,)`, and a state `(N, hidden_size)` or `(hidden_size,)`,
    zeros by default, to the next state.

    Examples
    --------
    >>> cell = nn.RNNCell(4, 8)
    >>> h = st.zeros(2, 8)
    >>> for x in st.ones(5, 2, 4):
    ...     h = cell(x, h)
    >>> h.shape
    Size([2, 8])
    """

    nonlinearity: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The state after (N, input_size) or (input_size,), from hx (N, hidden_size) or
        (hidden_size,), zeros by default.

        Raises:
            RuntimeError: sizes differ, or the nonlinearity is unknown.
        """
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(
                f"RNNCell: Unknown nonlinearity: {self.nonlinearity!r}, hint: 'tanh' or 'relu'"
            )
        function = ops.rnn_tanh_cell if self.nonlinearity == "tanh" else ops.rnn_relu_cell
        out: Tensor = self._step(function, input, None if hx is None else (hx,))[0]
        return out


class _GatedCell(RNNCellBase):
    """LSTMCell and GRUCell, by their number of gates."""

    _chunks: ClassVar[int]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, self._chunks, device, dtype)


class LSTMCell(_GatedCell):
    """One step of an `LSTM`.

    Parameters
    ----------
    input_size : int
        Size of the input.
    hidden_size : int
        Size of the state.
    bias : bool, optional
        Whether there are biases.
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    Attributes
    ----------
    weight_ih, weight_hh : Parameter
        `(4 * hidden_size, input_size)` and `(4 * hidden_size, hidden_size)`.
    bias_ih, bias_hh : Parameter or None
        `(4 * hidden_size,)` each.

    Notes
    -----
    Shape: `(N, input_size)` or `(input_size,)`, and a state (h, c), each `(N, hidden_size)` or
    `(hidden_size,)`, zeros by default, to the next state (h, c).

    Examples
    --------
    >>> h, c = nn.LSTMCell(4, 8)(st.ones(2, 4))
    >>> h.shape, c.shape
    (Size([2, 8]), Size([2, 8]))
    """

    _chunks = 4

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Tensor]:
        """(h, c) after (N, input_size) or (input_size,), from hx = (h, c), each (N, hidden_size) or
        (hidden_size,), zeros by default.
        """
        h, c = self._step(ops.lstm_cell, input, None if hx is None else tuple(hx))
        return h, c


class GRUCell(_GatedCell):
    """One step of a `GRU`.

    Parameters
    ----------
    input_size : int
        Size of the input.
    hidden_size : int
        Size of the state.
    bias : bool, optional
        Whether there are biases.
    device : device, optional
        Where the parameters lie; the default device if None.
    dtype : dtype, optional
        Of the parameters; the default dtype if None.

    Attributes
    ----------
    weight_ih, weight_hh : Parameter
        `(3 * hidden_size, input_size)` and `(3 * hidden_size, hidden_size)`.
    bias_ih, bias_hh : Parameter or None
        `(3 * hidden_size,)` each.

    Notes
    -----
    Shape: `(N, input_size)` or `(input_size,)`, and a state `(N, hidden_size)` or `(hidden_size,)`,
    zeros by default, to the next state.

    Examples
    --------
    >>> cell = nn.GRUCell(4, 8)
    >>> cell(st.ones(2, 4)).shape
    Size([2, 8])
    """

    _chunks = 3

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The state after (N, input_size) or (input_size,), from hx (N, hidden_size) or
        (hidden_size,), zeros by default.
        """
        out: Tensor = self._step(ops.gru_cell, input, None if hx is None else (hx,))[0]
        return out
