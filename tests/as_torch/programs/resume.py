"""A run that is interrupted and continued from its checkpoint ends as one that was not."""

import sys

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR

EPOCHS = 6


def objects():
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.1), nn.Linear(8, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    return model, optimizer, CosineAnnealingLR(optimizer, T_max=EPOCHS)


def train(model, optimizer, scheduler, start, end):
    for epoch in range(start, end):
        torch.manual_seed(epoch)
        x, y = torch.randn(16, 4), torch.randint(0, 2, (16,))
        optimizer.zero_grad()
        nn.CrossEntropyLoss(label_smoothing=0.1)(model(x), y).backward()
        optimizer.step()
        scheduler.step()


model, optimizer, scheduler = objects()
if sys.argv[1] == "first":
    train(model, optimizer, scheduler, 0, 3)
    state = [part.state_dict() for part in (model, optimizer, scheduler)]
    torch.save({"epoch": 3, "state": state, "rng": torch.get_rng_state()}, "checkpoint.pt")
else:
    checkpoint = torch.load("checkpoint.pt", map_location="cpu")
    for part, state in zip((model, optimizer, scheduler), checkpoint["state"]):
        part.load_state_dict(state)
    torch.set_rng_state(checkpoint["rng"])
    train(model, optimizer, scheduler, checkpoint["epoch"], EPOCHS)
    whole = objects()
    train(*whole, 0, EPOCHS)
    for name, value in whole[0].state_dict().items():
        assert torch.equal(value, model.state_dict()[name]), name
    assert whole[2].get_last_lr() == scheduler.get_last_lr()
    print("the same")
