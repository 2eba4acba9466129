"""With `sync_batchnorm` several ranks train a model with BatchNorm as one process does: in float64
to 1e-12 over 50 steps; and the model's layers stay what they are.
"""

from __future__ import annotations

import copy
import os
import signal
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.dataloaders import DataLoader, TensorDataset
from shmtensor.trainer import Trainer

from .test_same_numbers import EPOCHS, STEPS, adam, check_same, fit, momentum

LOSS = nn.CrossEntropyLoss()


def flat_net(**options: Any) -> Any:
    st.manual_seed(1)
    norm = nn.BatchNorm1d(9, **options)
    return nn.Sequential(nn.Linear(6, 9), norm, nn.Tanh(), nn.Linear(9, 3)).double()


class Images(nn.Module):
    """Two BatchNorm2d, and a reshape that takes no empty batch."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.second, self.last = nn.Conv2d(4, 5, 3), nn.BatchNorm2d(5, momentum=None, bias=False)
        self.out = nn.Linear(20, 3)

    def forward(self, x: Any) -> Any:
        x = self.last(self.second(self.norm(self.first(x)).relu())).relu()
        return self.out(x.reshape(len(x), -1))


def image_net() -> Any:
    st.manual_seed(1)
    return Images().double()


def batches(sizes: tuple[int, ...], *shape: int) -> list[tuple[Any, Any]]:
    """STEPS batches of these sizes in turn; their channels have a mean."""
    rng = np.random.default_rng(3)
    return [
        (st.tensor(rng.standard_normal((n, *shape)) + 2), st.tensor(rng.integers(0, 3, n)))
        for n in (sizes * STEPS)[:STEPS]
    ]


# Batches of one and two samples: not every rank has one.
@pytest.mark.parametrize(
    ("make_net", "sizes", "shape"),
    [(flat_net, (7, 2, 8, 3), (6,)), (image_net, (7, 1, 4, 2), (2, 4, 4))],
)
def test_several_ranks_normalize_as_one_process(make_net: Any, sizes: Any, shape: Any) -> None:
    data = batches(sizes, *shape)
    check_same(LOSS, data, make_net, ranks=(2, 3), sync_batchnorm=True)
    alone = fit(2, LOSS, data, make_net)  # without it the numbers differ
    one = fit(1, LOSS, data, make_net, sync_batchnorm=True)
    assert not np.allclose(alone.history["loss"], one.history["loss"], rtol=1e-6)


@pytest.mark.parametrize("is_handed_over", [False, True])
def test_batches_of_a_loader(is_handed_over: bool) -> None:
    rng = np.random.default_rng(7)
    n = 9 * (STEPS - 1) + 1  # the last batch is one sample
    data = TensorDataset(
        st.tensor(rng.standard_normal((n, 2, 4, 4))), st.tensor(rng.integers(0, 3, n))
    )

    def collate(samples: Any) -> Any:
        return st.stack([x for x, _ in samples]), st.stack([y for _, y in samples])

    loader = DataLoader(data, 9, collate_fn=collate if is_handed_over else None)
    check_same(LOSS, loader, image_net, sync_batchnorm=True)


def test_accumulated_batches() -> None:
    data = batches((7, 1, 4, 2), 2, 4, 4)
    one, several = (
        fit(n, LOSS, data, image_net, sync_batchnorm=True, accumulate=3) for n in (1, 3)
    )
    for x, y in zip(one.model.parameters(), several.model.parameters(), strict=True):
        np.testing.assert_allclose(y.detach().numpy(), x.detach().numpy(), rtol=1e-12, atol=1e-12)


def test_no_running_statistics() -> None:
    data = batches((5, 4), 6)
    check_same(
        LOSS, data, lambda: flat_net(affine=False, track_running_stats=False), sync_batchnorm=True
    )


class Frozen(nn.Module):
    """Its first BatchNorm normalizes by its running statistics in training, too."""

    def __init__(self) -> None:
        super().__init__()
        self.net = flat_net()
        self.frozen = nn.BatchNorm1d(6)
        self.frozen.running_mean.fill_(1.5)

    def train(self, mode: bool = True) -> Any:
        super().train(mode)
        self.frozen.eval()
        return self

    def forward(self, x: Any) -> Any:
        return self.net(self.frozen(x))


def test_a_frozen_layer() -> None:
    # Not Adam: the next normalization makes the gradient of this layer's bias 0 but for rounding.
    several = check_same(
        LOSS, batches((7, 2, 8, 3), 6), lambda: Frozen().double(), momentum, sync_batchnorm=True
    )
    assert several.model.frozen.num_batches_tracked == 0


def test_ignored_targets() -> None:
    data = batches((6,), 6)
    for _, y in data:
        y[:3] = -100  # all of rank 0's
    check_same(LOSS, data, flat_net, ranks=(2,), sync_batchnorm=True)


def test_evaluation_after_each_epoch() -> None:
    data, held_out = batches((7, 2), 6), batches((5, 1), 6)
    fits = []
    for nprocs in (1, 2):
        model = flat_net()
        trainer = Trainer(
            model, adam(model), LOSS, nprocs=nprocs, progress=False, sync_batchnorm=True
        )
        fits.append(trainer.fit(data, EPOCHS, held_out))
    np.testing.assert_allclose(fits[1]["eval_loss"], fits[0]["eval_loss"], rtol=1e-11)


def test_the_layers_stay_what_they_are() -> None:
    model, seen, copies = flat_net(), [], []
    layer = model[1]
    before = (type(layer), set(layer.__dict__), list(model.state_dict()))
    layer.register_forward_hook(lambda module, args, out: seen.append(len(args[0])))
    trainer = Trainer(model, adam(model), LOSS, nprocs=2, progress=False, sync_batchnorm=True)
    trainer.fit(batches((4,), 6), 2, on_step=lambda step: copies.append(copy.deepcopy(model)))
    assert seen == [2] * 2 * STEPS
    assert (type(layer), set(layer.__dict__), list(model.state_dict())) == before
    assert copies[0](st.randn(2, 6, dtype=st.float64)).shape == (2, 3)  # without other ranks


def test_an_error_in_a_step_leaves_the_layers() -> None:
    model = flat_net()

    def fail(*_: Any) -> None:
        raise ArithmeticError("in a hook")

    model[2].register_forward_hook(fail)
    trainer = Trainer(model, adam(model), LOSS, nprocs=2, progress=False, sync_batchnorm=True)
    with pytest.raises(ArithmeticError, match="in a hook"):
        trainer.fit(batches((4,), 6), 1)
    assert "forward" not in model[1].__dict__


class Dies(nn.Module):
    """Ends rank 1 in its sixth forward; once, as the file says."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.pid, self.calls = path, os.getpid(), 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        if os.getpid() != self.pid and self.calls == 6 and not self.path.exists():
            self.path.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return x


def test_a_rank_that_dies_between_two_layers_is_replaced(tmp_path: Path) -> None:
    fits = []
    for path in (tmp_path, tmp_path / "once"):  # the first exists: no rank dies
        st.manual_seed(1)
        layers = [nn.Linear(6, 9), nn.BatchNorm1d(9), Dies(path), nn.BatchNorm1d(9)]
        model = nn.Sequential(*layers, nn.Linear(9, 3)).double()
        trainer = Trainer(
            model, adam(model), LOSS, nprocs=2, progress=False, sync_batchnorm=True,
            start_method="fork",
        )  # fmt: skip
        with nullcontext() if path is tmp_path else pytest.warns(RuntimeWarning, match="SIGKILL"):
            trainer.fit(batches((7,), 6), 2, max_restarts=1)
        fits.append(model.state_dict())
    for name, x in fits[0].items():
        np.testing.assert_array_equal(x.numpy(), fits[1][name].numpy(), err_msg=name)


def test_one_value_per_channel_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        fit(2, LOSS, batches((1,), 6), flat_net, sync_batchnorm=True)


class Scaled(nn.BatchNorm1d):
    """A layer with a forward of its own."""

    def forward(self, x: Any) -> Any:
        return super().forward(x) * 2


def test_a_layer_with_a_forward_of_its_own_is_refused() -> None:
    def make_net() -> Any:
        return nn.Sequential(Scaled(6), nn.Linear(6, 3)).double()

    with pytest.raises(TypeError, match=r"Scaled has one of its own"):
        fit(2, LOSS, batches((4,), 6), make_net, sync_batchnorm=True)
    fit(2, LOSS, batches((4,), 6), make_net)
