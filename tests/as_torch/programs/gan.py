"""A generator against a discriminator, on random pictures loaded by worker processes."""

import torch
import torch.backends.cudnn as cudnn
import torchvision.datasets as dset
import torchvision.utils as vutils
from torch import nn, optim
from torchvision import transforms


def weights_init(m):
    if m.__class__.__name__.find("Conv") != -1:
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif m.__class__.__name__.find("BatchNorm") != -1:
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


if __name__ == "__main__":
    torch.manual_seed(0)
    cudnn.benchmark = True
    change = transforms.Compose(
        [transforms.Resize(16), transforms.ToTensor(), transforms.Normalize((0.5,) * 3, (0.5,) * 3)]
    )
    data = dset.FakeData(16, (3, 20, 20), transform=change)
    loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True, num_workers=1)
    up, down = nn.ConvTranspose2d, nn.Conv2d
    g = nn.Sequential(up(4, 8, 4), nn.BatchNorm2d(8), nn.ReLU(True), up(8, 3, 4, 4), nn.Tanh())
    d = nn.Sequential(down(3, 8, 4, 4), nn.LeakyReLU(0.2, True), down(8, 1, 4), nn.Sigmoid())
    g.apply(weights_init)
    d.apply(weights_init)
    criterion = nn.BCELoss()
    optimizers = [optim.Adam(m.parameters(), lr=2e-3, betas=(0.5, 0.999)) for m in (d, g)]
    for real, _ in loader:
        fake = g(torch.randn(len(real), 4, 1, 1))
        for net, scores, values in ((d, (real, fake.detach()), (1, 0)), (g, (fake,), (1,))):
            net.zero_grad()
            for x, value in zip(scores, values):
                output = d(x).view(-1)
                criterion(output, torch.full((len(x),), value, dtype=x.dtype)).backward()
            optimizers[0 if net is d else 1].step()
    vutils.save_image(fake.detach(), "fake.png", normalize=True)
    print("fake", tuple(fake.shape))
