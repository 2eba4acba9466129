"""The loss of connectionist temporal classification: one launch for each step, with a thread for
each state of each sample.

The states of a sample are blank, label, blank, ..., label, blank. `alpha` is (T, N, 2 * S + 1): the
logarithms of the total probabilities of partial alignments that end in a state. The gradient adds
the states' shares of a class by atomics, so that its last bits may differ from run to run (as
PyTorch's).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cupy
import numpy as np

from .. import ROWS
from .sliding_window import kernel_of

__all__: list[str] = []

INPUTS = (
    "raw T x, raw int64 labels, raw int64 starts, raw int64 counts, raw int64 steps, raw T other, "
    "T low, int64 t, int64 batch, int64 classes, int64 states, int64 blank"
)
STATE = """
const long long n = i / states, s = i % states, m = counts[n];
const long long* label = &labels[0] + starts[n];
"""
# The logarithm of a sum of three exponentials.
SUM = """
const T top = max(a, max(b, c));
T sum = top > low ? top + log(exp(a - top) + exp(b - top) + exp(c - top)) : low;
"""

FORWARD = f"""
{STATE}
if (t >= steps[n] || s > 2 * m) {{ out = low; }} else {{
  const T* before = &other[0] + n * states;
  T a = low, b = low, c = low;
  if (t == 0) {{ if (s <= 1) a = T(0); }} else {{
    a = before[s];
    if (s >= 1) b = before[s - 1];
    if (s >= 3 && s % 2 && label[s / 2] != label[s / 2 - 1]) c = before[s - 2];
  }}
  {SUM}
  out = sum + x[(t * batch + n) * classes + (s % 2 ? label[s / 2] : blank)];
}}
"""

BACKWARD = f"""
{STATE}
if (t >= steps[n] || s > 2 * m) {{ out = low; }} else {{
  const T* after = &other[0] + n * states;
  T a = low, b = low, c = low;
  if (t == steps[n] - 1) {{ if (s >= 2 * m - 1) a = T(0); }} else {{
    a = after[s];
    if (s < 2 * m) b = after[s + 1];
    if (s + 2 < 2 * m && s % 2 && label[s / 2] != label[s / 2 + 1]) c = after[s + 2];
  }}
  {SUM}
  out = sum + x[(t * batch + n) * classes + (s % 2 ? label[s / 2] : blank)];
}}
"""

LOSS = """
const long long m = counts[i], last = steps[i] - 1;
T sum = low;
if (last < 0) { if (m == 0) sum = T(0); } else {
  const T* end = &alpha[0] + (last * batch + i) * states;
  const T a = end[2 * m], b = m > 0 ? end[2 * m - 1] : low, top = max(a, b);
  sum = top > low ? top + log(exp(a - top) + exp(b - top)) : low;
}
out = -sum;
"""

# Without an alignment the gradient is NaN, or 0 with zero_infinity.
PROBABILITIES = """
const long long n = i / classes % batch;
const bool none = loss[n] > -low || loss[n] == -low;
out = i / classes / batch >= steps[n] ? T(0)
    : none ? (zero_infinity ? T(0) : low - low) : exp(x[i]) * g[n];
"""

SHARES = """
const long long s = i % states, n = i / states % batch, t = i / states / batch;
const T product = alpha[i] + beta[i];
if (product > low && loss[n] < -low) {
  const long long kind = s % 2 ? labels[starts[n] + s / 2] : blank;
  const long long at = (t * batch + n) * classes + kind;
  atomicAdd(&out[at], -g[n] * exp(product - x[at] + loss[n]));
}
"""


class Samples(NamedTuple):
    """The labels of all samples, one after another, and where those of each sample begin; numbers
    of labels and steps; the number of states.
    """

    labels: Any
    starts: Any
    counts: Any
    steps: Any
    states: int


def samples_of(targets: Any, steps: Any, counts: Any) -> Samples:
    """The samples of targets (N, S), or of concatenated ones."""
    if targets.ndim == 2:
        starts = np.arange(len(counts)) * targets.shape[1]
    else:
        starts = np.cumsum(counts) - np.array(counts)
    lengths = cupy.asarray(np.stack([starts, np.array(counts), np.array(steps)]).astype(np.int64))
    labels = cupy.ascontiguousarray(targets.astype(np.int64, copy=False).reshape(-1))
    if not labels.size:
        labels = cupy.zeros(1, np.int64)
    return Samples(labels, lengths[0], lengths[1], lengths[2], 2 * max(counts) + 1)


def run_steps(name: str, code: str, x: Any, samples: Samples, blank: int, order: Any) -> Any:
    """All steps in an order, each from the one before: (T, N, states)."""
    _, batch, classes = x.shape
    out = cupy.empty((len(x), batch, samples.states), x.dtype)
    step = kernel_of(name, INPUTS, "T out", code)
    other = out[:1]
    for t in order:
        step(
            x, samples.labels, samples.starts, samples.counts, samples.steps, other, -np.inf, t,
            batch, classes, samples.states, blank, out[t],
        )  # fmt: skip
        other = out[t]
    return out


@ROWS["_ctc_loss"].on("cuda")
def ctc_loss(xp, x, targets, /, input_lengths, target_lengths, blank, zero_infinity):
    """Labels on the device are not checked."""
    x, samples = cupy.ascontiguousarray(x), samples_of(targets, input_lengths, target_lengths)
    alpha = run_steps("ctc_alpha", FORWARD, x, samples, blank, range(len(x)))
    losses = cupy.empty(x.shape[1], x.dtype)
    inputs = "raw T alpha, raw int64 counts, raw int64 steps, T low, int64 batch, int64 states"
    kernel_of("ctc_losses", inputs, "T out", LOSS)(
        alpha, samples.counts, samples.steps, -np.inf, x.shape[1], samples.states, losses
    )
    return losses, alpha


@ROWS["_ctc_loss_backward"].on("cuda")
def ctc_loss_backward(
    xp, x, logp, targets, loss, alpha, /, input_lengths, target_lengths, blank, zero_infinity
):
    """The probabilities minus each class's share of the alignments, times the sample's x."""
    logp, samples = cupy.ascontiguousarray(logp), samples_of(targets, input_lengths, target_lengths)
    (steps, batch, classes), x = logp.shape, cupy.ascontiguousarray(x)
    beta = run_steps("ctc_beta", BACKWARD, logp, samples, blank, range(steps - 1, -1, -1))
    out = cupy.empty(logp.shape, logp.dtype)
    inputs = (
        "raw T x, raw T g, raw T loss, raw int64 steps, T low, int64 batch, int64 classes, "
        "bool zero_infinity"
    )
    kernel_of("ctc_probabilities", inputs, "T out", PROBABILITIES)(
        logp, x, loss, samples.steps, -np.inf, batch, classes, zero_infinity, out
    )
    inputs = (
        "raw T x, raw T g, raw T loss, raw T alpha, raw T beta, raw int64 labels, "
        "raw int64 starts, T low, int64 batch, int64 classes, int64 states, int64 blank"
    )
    kernel_of("ctc_shares", inputs, "raw T out", SHARES)(
        logp, x, loss, alpha, beta, samples.labels, samples.starts, -np.inf, batch, classes,
        samples.states, blank, out, size=alpha.size,
    )  # fmt: skip
    return out
