"""Recurrent networks and cells by PyTorch's names. They are implemented in `rnn.py`, which is
declared on first use (ops/__init__.py).
"""

from __future__ import annotations

from ..table.op_table import composite


def declare_rnn(name: str, kind: str, result: str) -> None:
    """Declares lstm, gru, rnn_tanh or rnn_relu."""

    def compute(ops, *args, **kwargs):
        return ops._rnn(kind, args, kwargs)

    compute.__doc__ = f"""Layers of {kind} cells: {result}.

    Forms: (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
    with input (steps, batch, n); (data, batch_sizes, hx, params, has_biases, num_layers, dropout,
    train, bidirectional) with packed data. params: per layer and direction the weights of the
    input and of the state, and two biases if has_biases.
    """
    composite(compute, name=name, method=False)


declare_rnn("lstm", "lstm", "(output, h, c), hx is (h, c)")
declare_rnn("gru", "gru", "(output, h)")
declare_rnn("rnn_tanh", "tanh", "(output, h)")
declare_rnn("rnn_relu", "relu", "(output, h)")


@composite(autocast_cuda="lower", method=False)
def lstm_cell(ops, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """(h, c) after one step of a cell with input, forget, cell and output gates; hx is (h, c)."""
    return ops._rnn_cell("lstm", input, tuple(hx), (w_ih, w_hh, b_ih, b_hh))


def declare_cell(name: str, kind: str, doc: str) -> None:
    """Declares a cell with one state."""

    def compute(ops, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
        return ops._rnn_cell(kind, input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]

    compute.__doc__ = doc
    composite(name=name, method=False, autocast_cuda="lower")(compute)


declare_cell("gru_cell", "gru", "The state after one step of a cell with reset and update gates.")
declare_cell("rnn_tanh_cell", "tanh", "tanh(w_ih @ input + b_ih + w_hh @ hx + b_hh).")
declare_cell("rnn_relu_cell", "relu", "relu(w_ih @ input + b_ih + w_hh @ hx + b_hh).")
