"""Bayesian regression by variational inference, beside the exact posterior.

    python examples/bayesian_regression.py [--steps 2000] [--quick]

A curve is a sum of bumps of unknown weights, seen with unknown noise. Independent normal
distributions of the weights and of the logarithm of the noise (mean field) are fitted through
samples (Kingma and Welling 2014). Given the noise, the exact posterior of the weights is normal,
too. Its standard deviations are larger, because it knows that neighbours are correlated; the best
of a mean field are 1 / sqrt(diag(its precision)). The full run is within 3 % of these, and the
means are within 0.02 standard deviations.
"""

from __future__ import annotations

import training
from pictures import panels

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.distributions import MultivariateNormal, Normal, kl_divergence

BUMPS, NOISE = 9, 0.2


def features_of(x):
    """The bumps (N, BUMPS) at places (N,) from -1 to 1."""
    centres = st.linspace(-1, 1, BUMPS, device=x.device)
    return (-((x[:, None] - centres) ** 2) / 0.05).exp()


def data_of(n: int):
    """Places and noisy values (n,) of a curve, none of them between 0.2 and 0.6."""
    x = st.linspace(-1, 0.6, n)
    x = st.where(x > 0.2, x + 0.4, x)
    return x, st.sin(4 * x) + 0.5 * x + NOISE * st.randn(n)


class Posterior(nn.Module):
    """Independent normal distributions of the weights, and of the logarithm of the noise."""

    def __init__(self, weights: int = BUMPS) -> None:
        super().__init__()
        self.mean = nn.Parameter(st.zeros(weights + 1))
        self.log_scale = nn.Parameter(st.full((weights + 1,), -2.0))

    def forward(self):
        return Normal(self.mean, self.log_scale.exp())


def loss_of(model, features, y, samples: int = 16):
    """The negative evidence lower bound, in nats per value; the prior is standard normal."""
    posterior = model()
    drawn = posterior.rsample((samples,))
    weights, noise = drawn[:, :-1], drawn[:, -1:].exp()
    likelihood = Normal(weights @ features.T, noise).log_prob(y).sum(1).mean()
    prior = Normal(st.zeros_like(posterior.mean), st.ones_like(posterior.mean))
    return (kl_divergence(posterior, prior).sum() - likelihood) / len(y)


def exact_posterior(posterior, features, y):
    """Of the weights, for a noise that has the mean of 1 / noise**2 under the approximation."""
    precision_of_noise = (2 * posterior.variance[-1] - 2 * posterior.mean[-1]).exp()
    precision = precision_of_noise * features.T @ features + st.eye(BUMPS, device=y.device)
    mean = st.linalg.solve(precision, precision_of_noise * features.T @ y)
    return MultivariateNormal(mean, precision_matrix=precision)


def main() -> None:
    options = training.options(__doc__, 2000, 50, "bayesian_regression.png")
    st.manual_seed(0)
    x, y = (part.to(options.device) for part in data_of(60))
    features = features_of(x)
    model = Posterior().to(options.device)
    optimizer = optim.Adam(model.parameters(), lr=0.02, betas=(0.9, 0.99))
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)

    def step(_: int):
        optimizer.zero_grad()
        loss = loss_of(model, features, y)
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss.detach()

    training.run(options.steps, step)
    with st.no_grad():
        q = model()
        exact = exact_posterior(q, features, y)
        mean, scale = q.mean[:-1], q.stddev[:-1]
        optimum = exact.precision_matrix.diagonal().rsqrt()
        print(f"noise               {q.mean[-1].exp().item():.3f} (true: {NOISE})")
        print("mean (exact), standard deviation (of a mean field, exact):")
        for a, b, c, d, e in st.stack([mean, exact.mean, scale, optimum, exact.stddev], 1).tolist():
            print(f"{a:6.2f} ({b:5.2f}), {c:.3f} ({d:.3f}, {e:.3f})")
        errors = ((mean - exact.mean) / exact.stddev).abs(), (scale / optimum - 1).abs()
        print(f"means differ        {errors[0].max().item():.3f} exact standard deviations at most")
        print(f"scales differ       {errors[1].max().item():.1%} from the mean field's at most")
        draw(options.out, x.cpu(), y.cpu(), q, exact)
    print(f"curves              {options.out}")


def draw(path: str, x, y, q, exact) -> None:
    """Two standard deviations of the curve, by both posteriors."""
    line = st.linspace(-1, 1, 200)
    bumps = features_of(line).to(exact.mean.device)
    scales = (bumps**2 @ q.variance[:-1]).sqrt(), (bumps @ exact.scale_tril).norm(dim=1)
    means = bumps @ q.mean[:-1], bumps @ exact.mean
    with panels(path, columns=2, size=4) as axes:
        for panel, mean, scale, title in zip(axes, means, scales, ("mean field", "exact")):
            low, mean, high = ((mean + n * scale).cpu() for n in (-2, 0, 2))
            panel.fill_between(line, low, high, alpha=0.3)
            panel.plot(line, mean)
            panel.plot(x, y, ".k", markersize=3)
            panel.set(title=f"{title}: mean and 2 standard deviations", ylim=(-2.5, 2.5))


if __name__ == "__main__":
    main()
