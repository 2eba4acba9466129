"""Single steps of recurrent layers: RNNCell, LSTMCell, GRUCell."""

from __future__ import annotations

import math
from typing import Any

from ...autograd import table as ops
from ...functions import empty, zeros
from ...tensor import Tensor
from .. import init
from ..parameter import Parameter
from .module import Module

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]


class RNNCellBase(Module):
    """Base of the cells: weight_ih (chunks * hidden_size, input_size), weight_hh (chunks *
    hidden_size, hidden_size), bias_ih and bias_hh (chunks * hidden_size,).

    Args:
        input_size: size of the input.
        hidden_size: size of the state.
        bias: whether there are biases.
        num_chunks: number of gates.
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
    """One step of an RNN.

    Args: those of RNNCellBase without num_chunks, and
        nonlinearity: "tanh" or "relu".
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


class LSTMCell(RNNCellBase):
    """One step of an LSTM.

    Args: those of RNNCellBase without num_chunks.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Tensor]:
        """(h, c) after (N, input_size) or (input_size,), from hx = (h, c), each (N, hidden_size) or
        (hidden_size,), zeros by default.
        """
        h, c = self._step(ops.lstm_cell, input, None if hx is None else tuple(hx))
        return h, c


class GRUCell(RNNCellBase):
    """One step of a GRU.

    Args: those of RNNCellBase without num_chunks.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The state after (N, input_size) or (input_size,), from hx (N, hidden_size) or
        (hidden_size,), zeros by default.
        """
        out: Tensor = self._step(ops.gru_cell, input, None if hx is None else (hx,))[0]
        return out
