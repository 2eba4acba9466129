"""Pruning: the elements that each method removes, several in a row, and undoing it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.nn.utils import prune

WEIGHT = np.array([[1, -6, 3, 2], [-5, 4, 9, -8], [7, 0.5, 10, 11]], np.float32)


def layer() -> Any:
    linear: Any = nn.Linear(4, 3)
    linear.weight.data = st.tensor(WEIGHT)
    return linear


def mask_of(module: Any) -> Any:
    return module.weight_mask.numpy()


def test_smallest_elements_go() -> None:
    pruned = prune.l1_unstructured(layer(), "weight", 3)
    np.testing.assert_array_equal(mask_of(pruned), abs(WEIGHT) > 2)
    assert list(pruned.state_dict()) == ["bias", "weight_orig", "weight_mask"]
    np.testing.assert_array_equal(pruned.weight.detach().numpy(), WEIGHT * (abs(WEIGHT) > 2))
    pruned(st.ones(1, 4)).sum().backward()
    np.testing.assert_array_equal(pruned.weight_orig.grad.numpy(), abs(WEIGHT) > 2)
    prune.l1_unstructured(
        pruned, "weight", 0.5
    )  # half of the nine remaining elements: round(4.5) is 4
    np.testing.assert_array_equal(mask_of(pruned), abs(WEIGHT) > 6)
    (container,) = pruned._forward_pre_hooks.values()
    assert isinstance(container, prune.PruningContainer)
    assert [type(method) for method in container] == [prune.L1Unstructured] * 2
    assert len(container) == 2
    assert isinstance(container[0], prune.BasePruningMethod)


def test_smallest_channels_go() -> None:
    norms = abs(WEIGHT).sum(0)
    pruned = prune.ln_structured(layer(), "weight", 1, 1, dim=1)
    np.testing.assert_array_equal(mask_of(pruned)[0], norms != norms.min())
    prune.ln_structured(pruned, "weight", 1, float("inf"), dim=0)
    assert mask_of(pruned).sum(1).tolist() == [0, 3, 3]
    assert prune.LnStructured(1, 2, 0).PRUNING_TYPE == "structured"


def test_random_methods_take_the_amount() -> None:
    st.manual_seed(0)
    assert mask_of(prune.random_unstructured(layer(), "weight", 5)).sum() == 7
    rows = mask_of(prune.random_structured(layer(), "weight", 0.3, dim=0)).sum(1)
    assert sorted(rows.tolist()) == [0, 4, 4]
    for method in (prune.RandomUnstructured(0.5), prune.RandomStructured(0.5, 1)):
        assert (method.prune(st.ones(4, 4)).numpy() == 0).sum() == 8


def test_given_masks_and_scores() -> None:
    pruned = prune.custom_from_mask(layer(), "weight", st.tensor(WEIGHT) > 0)
    np.testing.assert_array_equal(mask_of(pruned), WEIGHT > 0)
    scored = prune.l1_unstructured(layer(), "weight", 1, importance_scores=1 / st.tensor(WEIGHT))
    assert mask_of(scored)[2, 3] == 0
    with pytest.raises(AssertionError, match="same shape"):
        prune.l1_unstructured(layer(), "weight", 1, importance_scores=st.ones(2))
    with pytest.raises(AssertionError, match="must match"):
        prune.CustomFromMask(st.ones(2)).prune(st.ones(3))
    assert mask_of(prune.identity(layer(), "weight")).all()
    assert prune.Identity().prune(st.ones(2)).tolist() == [1, 1]


def test_global_pruning_compares_all_parameters() -> None:
    a, b = layer(), layer()
    with st.no_grad():
        b.weight.mul_(100)
    pairs = [(a, "weight"), (b, "weight")]
    prune.global_unstructured(pairs, prune.L1Unstructured, amount=0.5)
    assert not mask_of(a).any()
    assert mask_of(b).all()
    with pytest.raises(TypeError, match=r"LnStructured.* of type structured"):
        prune.global_unstructured(pairs, prune.LnStructured, amount=1, n=1, dim=0)
    with pytest.raises(TypeError, match="importance_scores"):
        prune.global_unstructured(pairs, prune.L1Unstructured, [1], amount=1)  # type: ignore[arg-type]


def test_removing_makes_it_permanent() -> None:
    module = layer()
    weight = module.weight
    assert not prune.is_pruned(module)
    prune.l1_unstructured(module, "weight", 3)
    assert prune.is_pruned(nn.Sequential(module))
    prune.remove(module, "weight")
    assert module.weight is weight
    np.testing.assert_array_equal(weight.detach().numpy(), WEIGHT * (abs(WEIGHT) > 2))
    assert list(module.state_dict()) == ["bias", "weight"]
    with pytest.raises(ValueError, match="has to be pruned"):
        prune.remove(module, "weight")


def test_wrong_amounts_change_nothing() -> None:
    module = layer()
    for amount, error in [(-1, ValueError), (1.5, ValueError), ("a", TypeError), (20, ValueError)]:
        with pytest.raises(error, match=f"{amount}"):
            prune.l1_unstructured(module, "weight", amount)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="multidimensional"):
        prune.ln_structured(module, "bias", 1, 2, 0)
    with pytest.raises(IndexError, match="Invalid index 5"):
        prune.random_structured(module, "weight", 1, 5)
    assert list(module.state_dict()) == ["weight", "bias"]
