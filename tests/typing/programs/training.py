"""A training script: model, optimizer, schedule, epochs, evaluation, checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typing_extensions import reveal_type

import shmtensor as st
import shmtensor.nn.functional as F
from shmtensor import nn, optim
from shmtensor.optim.lr_scheduler import CosineAnnealingLR, LRScheduler
from shmtensor.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 8, kernel_size=3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.features = nn.Sequential(self.conv, self.norm, nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Linear(8 * 14 * 14, classes)

    def forward(self, x: st.Tensor) -> st.Tensor:
        x = F.relu(self.norm(self.conv(x)))
        x = F.max_pool2d(x, 2).flatten(1)
        reveal_type(x)  # -> Tensor
        return self.head(F.dropout(x, 0.5, training=self.training))


def accuracy(model: nn.Module, loader: DataLoader[Any]) -> float:
    model.eval()
    correct, n = 0, 0
    with st.no_grad():
        for images, labels in loader:
            correct += int((model(images).argmax(1) == labels).sum())
            n += len(labels)
    return correct / n


def train(path: Path, epochs: int = 2) -> list[float]:
    model = Net().to("cpu")
    reveal_type(model)  # -> Net
    data = TensorDataset(st.randn(64, 1, 28, 28), st.randint(0, 10, (64,)))
    loader = DataLoader(data, batch_size=16, shuffle=True, num_workers=2)
    optimizer = optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    schedule: LRScheduler = CosineAnnealingLR(optimizer, T_max=epochs)
    loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1)
    losses: list[float] = []
    for _ in range(epochs):
        model.train()
        for images, labels in loader:
            reveal_type(images)  # -> Tensor
            optimizer.zero_grad(set_to_none=True)
            out = model(images)
            reveal_type(out)  # -> Tensor
            loss = loss_fn(out, labels)
            reveal_type(loss)  # -> Tensor
            loss.backward()
            reveal_type(nn.utils.clip_grad_norm_(model.parameters(), 1.0))  # -> Tensor
            optimizer.step()
            losses.append(loss.item())
        schedule.step()
        print(schedule.get_last_lr()[0])
    for name, parameter in model.named_parameters():
        reveal_type(parameter)  # -> Parameter
        if parameter.grad is not None:
            print(name, parameter.grad.norm().item(), parameter.numel())
    st.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    state = st.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    accuracy(model, loader)
    return losses


def losses(out: st.Tensor, target: st.Tensor) -> st.Tensor:
    reveal_type(F.cross_entropy(out, target))  # -> Tensor
    reveal_type(F.mse_loss(out, target, reduction="sum"))  # -> Tensor
    reveal_type(F.nll_loss(F.log_softmax(out, dim=1), target))  # -> Tensor
    reveal_type(F.binary_cross_entropy_with_logits(out, target))  # -> Tensor
    reveal_type(F.softmax(out, dim=-1))  # -> Tensor
    reveal_type(F.gelu(out))  # -> Tensor
    reveal_type(F.layer_norm(out, (10,)))  # -> Tensor
    reveal_type(F.interpolate(out, scale_factor=2))  # -> Tensor
    reveal_type(F.pad(out, (1, 1)))  # -> Tensor
    reveal_type(F.one_hot(target, 10))  # -> Tensor
    reveal_type(F.scaled_dot_product_attention(out, out, out))  # -> Tensor
    reveal_type(F.max_pool2d(out, 2, return_indices=True))  # -> tuple[Tensor, Tensor]
    reveal_type(nn.MSELoss()(out, target))  # -> Tensor
    return F.l1_loss(out, target)


scaler = st.amp.GradScaler("cpu")
with st.autocast("cpu", dtype=st.bfloat16):
    scaled = scaler.scale(losses(st.ones(3), st.ones(3)))
reveal_type(scaled)  # -> Tensor
