"""The UCI digits: a fixed, stratified split of real images."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from shmtensor.dataloaders import digits
from shmtensor.dataloaders.datasets import uci_digits as uci


def test_both_parts_together_are_the_whole_set() -> None:
    train, held_out = digits(train=True), digits(train=False)
    assert (len(train), len(held_out)) == (1438, 359)
    x, y = train.tensors
    assert x.shape == (1438, 64)
    assert x.dtype == np.float32
    assert y.dtype == np.int64
    assert (float(x.numpy().min()), float(x.numpy().max())) == (0.0, 1.0)
    pixels, labels = uci.read()
    assert int(y.numpy().sum() + held_out.tensors[1].numpy().sum()) == int(labels.sum())
    total = x.numpy().sum(dtype=float) + held_out.tensors[0].numpy().sum(dtype=float)
    assert total == pytest.approx(pixels.sum(dtype=float) / 16)


def test_the_split_is_stratified_and_fixed() -> None:
    labels = uci.read()[1]
    held_out = uci.split(labels, False, 0)
    share = np.bincount(labels[held_out]) / np.bincount(labels)
    assert np.abs(share - 0.2).max() < 0.006
    assert not set(held_out) & set(uci.split(labels, True, 0))
    assert held_out.tolist() == uci.split(labels, False, 0).tolist()
    assert held_out.tolist() != uci.split(labels, False, 1).tolist()


def test_images_have_a_channel() -> None:
    flat, image = digits(train=False), digits(train=False, image=True)
    assert image.tensors[0].shape == (359, 1, 8, 8)
    assert (image.tensors[0].numpy().reshape(359, 64) == flat.tensors[0].numpy()).all()


def test_without_scikit_learn_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uci.read.cache_clear()
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ModuleNotFoundError, match="pip install scikit-learn"):
        digits()
