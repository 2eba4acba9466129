"""Balances a pole on a cart: REINFORCE, or actor and critic.

    python examples/cart_pole.py [--method reinforce|actor_critic] [--episodes 400] [--quick]

The cart (Barto, Sutton, Anderson 1983) is pushed left or right 50 times a second; an episode ends
when the pole leans 12 degrees, the cart leaves the track, or after 500 steps. REINFORCE (Williams
1992) uses the returns; with a critic, their difference to its predictions. The mean of
the last 50 episodes of a full run: 420 steps with REINFORCE, 490 with a critic.
"""

from __future__ import annotations

import math

import numpy as np
import training
from pictures import panels

import shmtensor as st
from shmtensor import nn, optim
from shmtensor.nn import functional as F

DISCOUNT, LONGEST = 0.99, 500


class CartPole:
    """Position, speed, angle, angular speed; a pole of 1 m and 0.1 kg on a cart of 1 kg."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.state = rng.uniform(-0.05, 0.05, 4)

    def push(self, right: int) -> bool:
        """20 ms with a force of 10 N. Returns whether the pole still stands."""
        _, v, angle, spin = self.state
        sine, cosine = math.sin(angle), math.cos(angle)
        force = ((10.0 if right else -10.0) + 0.05 * spin**2 * sine) / 1.1
        turn = (9.8 * sine - cosine * force) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
        push = force - 0.05 * turn * cosine / 1.1
        self.state += 0.02 * np.array([v, push, spin, turn])
        return abs(self.state[0]) < 2.4 and abs(self.state[2]) < math.radians(12)


class Policy(nn.Module):
    """Logits (N, 2) of the two pushes, and the expected return (N,), of states (N, 4)."""

    def __init__(self, method: str = "reinforce", width: int = 64) -> None:
        super().__init__()
        self.has_critic = method == "actor_critic"
        self.body = nn.Sequential(nn.Linear(4, width), nn.Tanh())
        self.actor, self.critic = nn.Linear(width, 2), nn.Linear(width, 1)

    def forward(self, states):
        hidden = self.body(states)
        return self.actor(hidden), self.critic(hidden).squeeze(-1)


make_model = Policy


def make_optimizer(model: nn.Module) -> optim.Optimizer:
    return optim.RAdam(model.parameters(), lr=1e-2)


def train_step(model, optimizer, states, pushes, returns):
    """One update from an episode's states (T, 4), pushes (T,), returns (T,). Returns the loss."""
    optimizer.zero_grad()
    logits, expected = model(states)
    if model.has_critic:
        advantage = returns / 100 - expected
        loss = 0.5 * F.smooth_l1_loss(expected, returns / 100)
    else:
        advantage = (returns - returns.mean()) / (returns.std() + 1e-6)
        loss = 0 * expected.sum()
    taken = F.log_softmax(logits, 1).gather(1, pushes.unsqueeze(1)).squeeze(1)
    loss = loss - (taken * advantage.detach()).mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


def play(model, rng: np.random.Generator, device: st.device) -> tuple:
    """An episode: states, pushes, and the discounted sum of the rewards after each."""
    cart, states, pushes, stands = CartPole(rng), [], [], True
    with st.no_grad():
        while stands and len(states) < LONGEST:
            states.append(cart.state.astype(np.float32))
            logits, _ = model(st.tensor(states[-1], device=device))
            probability = F.softmax(logits, -1)[1].item()
            pushes.append(int(rng.random() < probability))
            stands = cart.push(pushes[-1])
    returns = np.ones(len(states), np.float32)
    for i in reversed(range(len(returns) - 1)):
        returns[i] += DISCOUNT * returns[i + 1]
    return tuple(st.tensor(x, device=device) for x in (np.array(states), pushes, returns))


def main() -> None:
    methods = ["reinforce", "actor_critic"]
    options = training.options(__doc__, 400, 5, "cart_pole.png", "episode", method=methods)
    st.manual_seed(0)
    rng = np.random.default_rng(0)
    model = make_model(options.method).to(options.device)
    optimizer, lengths = make_optimizer(model), []

    def episode(_: int):
        played = play(model, rng, options.device)
        lengths.append(len(played[0]))
        return train_step(model, optimizer, *played)

    training.run(options.steps, episode, "episode")
    print(f"steps in the last 50 episodes   {np.mean(lengths[-50:]):.0f} of {LONGEST}")
    with panels(options.out, size=4) as (panel,):
        panel.plot(lengths)
        panel.set(title=f"Steps until the pole falls, {options.method}", xlabel="episode")
    print(f"the curve                       {options.out}")


if __name__ == "__main__":
    main()
