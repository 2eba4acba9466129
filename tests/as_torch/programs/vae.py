"""A variational autoencoder on MNIST's files, which writes a picture of its samples."""

import torch
from torch import nn, optim
from torch.nn import functional as F
from torchvision import datasets, transforms
from torchvision.utils import save_image


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.mu, self.logvar = nn.Linear(784, 64), nn.Linear(64, 8), nn.Linear(64, 8)
        self.dec = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 784), nn.Sigmoid())

    def forward(self, x):
        h = F.relu(self.enc(x.view(-1, 784)))
        mu, logvar = self.mu(h), self.logvar(h)
        return self.dec(mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)), mu, logvar


torch.manual_seed(1)
data = datasets.MNIST("data", train=True, download=True, transform=transforms.ToTensor())
loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True)
model = VAE()
optimizer = optim.Adam(model.parameters(), lr=1e-2)
losses = []
for _ in range(3):
    for x, _ in loader:
        optimizer.zero_grad()
        y, mu, logvar = model(x)
        bce = F.binary_cross_entropy(y, x.view(-1, 784), reduction="sum")
        loss = bce - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        loss.backward()
        optimizer.step()
        losses.append(loss.item() / len(x))
with torch.no_grad():
    save_image(model.dec(torch.randn(16, 8)).view(16, 1, 28, 28), "sample.png", nrow=4)
assert losses[-1] < losses[0], losses
print("loss fell")
