"""Predicts a chaotic time series with an LSTM.

    python examples/time_series.py [--steps 600] [--quick]

The series is Mackey and Glass's (1977), with delay 17. The network reads 100 values, then continues
from its own predictions. The full run's error (root mean square; the series' standard deviation is
1) is 0.001 for the next value, and 0.11 after 50 predicted values.
"""

from __future__ import annotations

import numpy as np
import training
from pictures import panels

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.nn import functional as F

READ, AHEAD = 100, 100


def mackey_glass(n: int, delay: int = 17, step: float = 0.1) -> np.ndarray:
    """Values one time unit apart, normalized to mean 0 and standard deviation 1."""
    per_unit = round(1 / step)
    x = np.full(per_unit * (n + 100 + delay), 1.2)
    for i in range(per_unit * delay, len(x) - 1):
        delayed = x[i - per_unit * delay]
        x[i + 1] = x[i] + step * (0.2 * delayed / (1 + delayed**10) - 0.1 * x[i])
    series = x[-per_unit * n :: per_unit]
    return ((series - series.mean()) / series.std()).astype(np.float32)


class Forecaster(nn.Module):
    """The next value after each of (N, T), as the sum of that one and a predicted change."""

    def __init__(self, width: int = 48, layers: int = 2) -> None:
        super().__init__()
        self.lstm = nn.LSTM(1, width, layers, batch_first=True)
        self.output = nn.Linear(width, 1)

    def forward(self, x, state=None):
        out, state = self.lstm(x.unsqueeze(-1), state)
        return x + self.output(out).squeeze(-1), state

    @st.no_grad()
    def extrapolate(self, x, steps: int):
        """`steps` values (N, steps) after x (N, T), each predicted from the previous ones."""
        out, state = self(x)
        predicted = [out[:, -1:]]
        while len(predicted) < steps:
            out, state = self(predicted[-1], state)
            predicted.append(out)
        return st.cat(predicted, 1)


make_model = Forecaster


def make_optimizer(model: nn.Module) -> optim.Optimizer:
    return optim.RMSprop(model.parameters(), lr=1e-3)


def train_step(model, optimizer, series):
    """One update from pieces (N, T + 1). Returns the loss."""
    optimizer.zero_grad()
    loss = F.mse_loss(model(series[:, :-1])[0], series[:, 1:])
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


def main() -> None:
    options = training.options(__doc__, 600, 10, "time_series.png")
    st.manual_seed(0)
    series, rng = mackey_glass(4000), np.random.default_rng(0)
    train, held_out = series[:3000], series[3000:]
    model = make_model().to(options.device)
    optimizer = make_optimizer(model)
    scheduler = optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=options.steps)

    def step(_: int):
        starts = rng.integers(0, len(train) - READ, 32)
        values = train[starts[:, None] + np.arange(READ + 1)]
        loss = train_step(model, optimizer, st.tensor(values, device=options.device))
        scheduler.step()
        return loss

    training.run(options.steps, step)
    starts = np.arange(0, len(held_out) - READ - AHEAD, 40)
    pieces = st.tensor(held_out[starts[:, None] + np.arange(READ + AHEAD)])
    predicted = model.extrapolate(pieces[:, :READ].to(options.device), AHEAD).cpu()
    errors = (predicted - pieces[:, READ:]).square().mean(0).sqrt()
    print(f"error of the next value    {errors[0].item():.4f}")
    print(f"error after 50 values      {errors[49].item():.4f}")
    with panels(options.out, 2, 1, 4) as axes:
        for panel, real, prediction in zip(axes, pieces, predicted, strict=False):
            panel.plot(real.numpy(), label="series")
            panel.plot(np.arange(READ, READ + AHEAD), prediction.numpy(), label="prediction")
            panel.legend()
    print(f"picture                    {options.out}")


if __name__ == "__main__":
    main()
