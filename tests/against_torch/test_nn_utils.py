"""nn.utils beside PyTorch: state_dict keys, repr, and results from the same weights."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.utils.prune

import shmtensor as st

pytestmark = pytest.mark.torch


def both(make: Callable[[Any], Any]) -> tuple[Any, Any]:
    """A module of ours and one of PyTorch's, which gets the same state."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        ours, theirs = make(st.nn), make(torch.nn)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert repr(ours) == repr(theirs)
    theirs.load_state_dict(
        {k: torch.from_numpy(v.detach().numpy().copy()) for k, v in ours.state_dict().items()}
    )
    return ours, theirs


def train(ours: Any, theirs: Any, shape: tuple[int, ...]) -> None:
    """Three steps of both; then the same state."""
    rng = np.random.default_rng(0)
    optimizers = [
        st.optim.SGD(ours.parameters(), lr=0.05),
        torch.optim.SGD(theirs.parameters(), lr=0.05),
    ]
    for _ in range(3):
        x = rng.standard_normal(shape).astype(np.float32)
        losses = [(ours(st.tensor(x)) ** 2).mean(), (theirs(torch.tensor(x)) ** 2).mean()]
        for optimizer, loss in zip(optimizers, losses, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        np.testing.assert_allclose(losses[0].item(), losses[1].item(), rtol=1e-4)
    for key, value in ours.state_dict().items():
        expected = theirs.state_dict()[key].numpy()
        np.testing.assert_allclose(value.numpy(), expected, rtol=1e-3, atol=1e-5, err_msg=key)


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3)])
@pytest.mark.parametrize("orthogonal_map", ["matrix_exp", "cayley", "householder", None])
@pytest.mark.parametrize("trivial", [True, False])
def test_orthogonal(shape: tuple[int, int], orthogonal_map: str | None, trivial: bool) -> None:
    def make(nn: Any) -> Any:
        return nn.utils.parametrizations.orthogonal(
            nn.Linear(*shape), orthogonal_map=orthogonal_map, use_trivialization=trivial
        )

    train(*both(make), (6, shape[0]))


@pytest.mark.parametrize(
    "make",
    [
        lambda nn: nn.utils.parametrizations.weight_norm(nn.Linear(3, 5)),
        lambda nn: nn.utils.parametrizations.weight_norm(nn.Linear(3, 5), dim=None),
        lambda nn: nn.utils.parametrizations.weight_norm(nn.Linear(3, 5), dim=1),
        lambda nn: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 5)),
        lambda nn: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 5), dim=1),
        lambda nn: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 5), "bias"),
        lambda nn: nn.utils.weight_norm(nn.Linear(3, 5)),
        lambda nn: nn.utils.weight_norm(nn.Linear(3, 5), dim=None),
        lambda nn: nn.utils.spectral_norm(nn.Linear(3, 5), n_power_iterations=2),
        lambda nn: nn.utils.prune.l1_unstructured(nn.Linear(3, 5), "weight", 4),
    ],
)
def test_norms_of_linear(make: Callable[[Any], Any]) -> None:
    train(*both(make), (6, 3))


@pytest.mark.parametrize(
    "make",
    [
        lambda nn: nn.utils.parametrizations.weight_norm(nn.Conv2d(2, 4, 3)),
        lambda nn: nn.utils.parametrizations.spectral_norm(nn.ConvTranspose2d(2, 4, 3)),
        lambda nn: nn.utils.weight_norm(nn.Conv2d(2, 4, 3)),
        lambda nn: nn.utils.spectral_norm(nn.Conv2d(2, 4, 3)),
        lambda nn: nn.utils.spectral_norm(nn.ConvTranspose2d(2, 4, 3)),
    ],
)
def test_norms_of_convolutions(make: Callable[[Any], Any]) -> None:
    train(*both(make), (2, 2, 6, 6))


def pruned(nn: Any) -> list[Callable[[Any], Any]]:
    prune = nn.utils.prune
    return [
        lambda m: prune.l1_unstructured(m, "weight", 0.4),
        lambda m: prune.ln_structured(m, "weight", 1, 2, 0),
        lambda m: prune.ln_structured(m, "weight", 0.3, float("inf"), 1),
        lambda m: prune.l1_unstructured(m, "weight", 3),
        lambda m: prune.global_unstructured(
            [(m, "weight"), (m, "bias")], prune.L1Unstructured, amount=3
        ),
    ]


def test_masks_one_after_the_other() -> None:
    ours, theirs = both(lambda nn: nn.Linear(8, 6))
    for mine, other in zip(pruned(st.nn), pruned(torch.nn), strict=True):
        mine(ours)
        other(theirs)
        np.testing.assert_array_equal(ours.weight_mask.numpy(), theirs.weight_mask.numpy())
        np.testing.assert_array_equal(ours.weight.detach().numpy(), theirs.weight.detach().numpy())
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert len(next(iter(ours._forward_pre_hooks.values()))) == 5


def test_old_state_of_spectral_norm() -> None:
    ours, theirs = both(lambda nn: nn.utils.spectral_norm(nn.Linear(3, 2)))
    theirs(torch.ones(1, 3))
    assert ours.state_dict()._metadata == theirs.state_dict()._metadata
    old = {k: v.numpy() for k, v in theirs.state_dict().items() if k != "weight_v"}
    old["weight"] = theirs.weight.detach().numpy()
    ours.load_state_dict({k: st.tensor(v) for k, v in old.items()})
    x = np.ones((1, 3), np.float32)
    expected = theirs.eval()(torch.tensor(x)).detach().numpy()
    result = ours.eval()(st.tensor(x)).detach().numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("transpose", [False, True])
def test_fused_convolution(affine: bool, transpose: bool) -> None:
    def make(nn: Any) -> Any:
        conv = (nn.ConvTranspose2d if transpose else nn.Conv2d)(2, 3, 2, bias=affine)
        return nn.Sequential(conv, nn.BatchNorm2d(3, affine=affine)).eval()

    ours, theirs = both(make)
    mine = st.nn.utils.fuse_conv_bn_eval(ours[0], ours[1], transpose)
    other = torch.nn.utils.fuse_conv_bn_eval(theirs[0], theirs[1], transpose)
    for name in ("weight", "bias"):
        p, q = getattr(mine, name), getattr(other, name)
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-5, atol=1e-7)
        assert p.requires_grad == q.requires_grad


@pytest.mark.parametrize("norm_type", [0, 0.5, 1, 2.0, 3, float("inf"), -1])
def test_total_norm(norm_type: float) -> None:
    arrays = [np.arange(1, 4, dtype=np.float32), -np.ones((2, 2), np.float32)]
    results = []
    for module in (st, torch):
        ps = [module.nn.Parameter(module.tensor(a)) for a in arrays]
        for p, a in zip(ps, arrays, strict=True):
            p.grad = module.tensor(a)
        total = module.nn.utils.clip_grad_norm_(ps, 1.0, norm_type)
        results.append([total.item(), *(p.grad.numpy() for p in ps)])
    for mine, other in zip(*results, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6)


def test_every_name_exists() -> None:
    helpers = {"rnn"}
    for module, name in [(torch.nn.utils, "utils"), (torch.nn.init, "init")]:
        ours = getattr(st.nn, name)
        names = {n for n in dir(module) if n not in helpers and not n.startswith("_")}
        if name == "init":
            names = set(module.__all__)
        assert not [n for n in sorted(names) if not hasattr(ours, n)]
