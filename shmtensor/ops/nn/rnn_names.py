"""Recurrent networks and cells by PyTorch's names. They are implemented in `rnn.py`, which is
declared on first use (ops/__init__.py).
"""

from __future__ import annotations

from ..table.op_table import composite


def declare_rnn(name: str, kind: str, module: str, result: str) -> None:
    """Declares lstm, gru, rnn_tanh or rnn_relu."""

    def compute(ops, *args, **kwargs):
        return ops._rnn(kind, args, kwargs)

    hx = "(st.zeros(1, 2, 4), st.zeros(1, 2, 4))" if name == "lstm" else "st.zeros(1, 2, 4)"
    compute.__doc__ = f"""Layers of {kind} cells along a sequence: the function of nn.{module}.

    Parameters
    ----------
    *args, **kwargs
        input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first,
        with an input `(steps, batch, n)`; or data, batch_sizes, hx, params, has_biases,
        num_layers, dropout, train, bidirectional, with packed data. params has for each layer and
        direction the weights of the input and of the state, and two biases if has_biases. hx is
        the first state.

    Returns
    -------
    {result}
        The output of the last layer, and the last state of all layers.

    See Also
    --------
    nn.{module}

    Examples
    --------
    >>> layer = nn.{module}(3, 4)
    >>> hx = {hx}
    >>> result = st.{name}(st.ones(5, 2, 3), hx, list(layer.parameters()), True, 1, 0.0, False,
    ...     False, False)
    >>> [tuple(x.shape) for x in result]
    [(5, 2, 4), (1, 2, 4){", (1, 2, 4)" * (name == "lstm")}]
    """
    composite(compute, name=name, method=False)


declare_rnn("lstm", "lstm", "LSTM", "(output, h, c)")
declare_rnn("gru", "gru", "GRU", "(output, h)")
declare_rnn("rnn_tanh", "tanh", "RNN", "(output, h)")
declare_rnn("rnn_relu", "relu", "RNN", "(output, h)")


@composite(autocast_cuda="lower", method=False)
def lstm_cell(ops, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of an LSTM: the state (h, c) after an input.

    Parameters
    ----------
    input : Tensor
        `(N, n)` or `(n,)`.
    hx : (Tensor, Tensor)
        The state (h, c) before, each `(N, m)` or `(m,)`.
    w_ih, w_hh : Tensor
        `(4 * m, n)` and `(4 * m, m)`, for the input, forget, cell and output gates.
    b_ih, b_hh : Tensor, optional
        `(4 * m,)`.

    Returns
    -------
    (h, c) : Tensor, Tensor
        The state after.

    See Also
    --------
    nn.LSTMCell

    Examples
    --------
    >>> hx = (st.zeros(2, 1), st.ones(2, 1))
    >>> h, c = st.lstm_cell(st.ones(2, 3), hx, st.zeros(4, 3), st.zeros(4, 1))
    >>> c
    tensor([[0.5000],
            [0.5000]])
    """
    return ops._rnn_cell("lstm", input, tuple(hx), (w_ih, w_hh, b_ih, b_hh))


def declare_cell(name: str, kind: str, doc: str) -> None:
    """Declares a cell with one state."""

    def compute(ops, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
        return ops._rnn_cell(kind, input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]

    chunks = 3 if kind == "gru" else 1
    compute.__doc__ = f"""{doc}

    Parameters
    ----------
    input : Tensor
        `(N, n)` or `(n,)`.
    hx : Tensor
        The state before: `(N, m)` or `(m,)`.
    w_ih, w_hh : Tensor
        `({chunks} * m, n)` and `({chunks} * m, m)`.
    b_ih, b_hh : Tensor, optional
        `({chunks} * m,)`.

    Returns
    -------
    Tensor
        The state after, of the shape of hx.

    Examples
    --------
    >>> w_ih, w_hh = st.zeros({chunks}, 3), st.zeros({chunks}, 1)
    >>> st.{name}(st.ones(2, 3), st.zeros(2, 1), w_ih, w_hh)
    tensor([[0.],
            [0.]])
    """
    composite(name=name, method=False, autocast_cuda="lower")(compute)


declare_cell("gru_cell", "gru", "The state after one step of a cell with reset and update gates.")
declare_cell("rnn_tanh_cell", "tanh", "tanh(w_ih @ input + b_ih + w_hh @ hx + b_hh).")
declare_cell("rnn_relu_cell", "relu", "relu(w_ih @ input + b_ih + w_hh @ hx + b_hh).")
