"""A convolutional network on MNIST's files, with a schedule and a test after each epoch."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.optim.lr_scheduler import StepLR
from torchvision import datasets, transforms


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, stride=2)
        self.fc = nn.Linear(8 * 13 * 13, 10)

    def forward(self, x):
        return F.log_softmax(self.fc(torch.flatten(F.relu(self.conv(x)), 1)), dim=1)


def main():
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    change = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,), (0.3,))])
    train = datasets.MNIST("data", train=True, download=True, transform=change)
    test = datasets.MNIST("data", train=False, transform=change)
    loader = torch.utils.data.DataLoader(train, batch_size=32, shuffle=True, num_workers=2)
    model = Net().to(device)
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    for _ in range(2):
        model.train()
        for data, target in loader:
            optimizer.zero_grad()
            F.nll_loss(model(data.to(device)), target.to(device)).backward()
            optimizer.step()
        scheduler.step()
    model.eval()
    correct = 0
    with torch.no_grad():
        for data, target in torch.utils.data.DataLoader(test, batch_size=64):
            pred = model(data).argmax(dim=1, keepdim=True)
            correct += pred.eq(target.view_as(pred)).sum().item()
    torch.save(model.state_dict(), "mnist.pt")
    print(f"accuracy {correct / len(test):.2f} lr {scheduler.get_last_lr()[0]:.2f}")


if __name__ == "__main__":
    main()
