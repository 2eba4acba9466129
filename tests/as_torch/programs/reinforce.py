"""REINFORCE on a bandit of three arms, by the distributions of PyTorch."""

import torch
from torch import nn, optim
from torch.distributions import Categorical

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 3), nn.Softmax(dim=-1))
optimizer = optim.Adam(policy.parameters(), lr=0.05)
rewards = torch.tensor([0.0, 1.0, 0.2])
for _ in range(60):
    m = Categorical(policy(torch.ones(16, 1)))
    action = m.sample()
    reward = rewards[action]
    loss = -(m.log_prob(action) * (reward - reward.mean())).sum() - 0.01 * m.entropy().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
probs = policy(torch.ones(1))
assert probs[1] > 0.6, probs
print("best arm", probs.argmax().item())
