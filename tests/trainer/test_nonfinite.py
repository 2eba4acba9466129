"""A loss that is NaN or infinite ends the run, or its step is left out, or taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .test_trainer import make_data, make_trainer, weights

RANKS = (1, 2, 3)


def with_nan() -> Any:
    """The last sample of the second batch is NaN: of the last rank."""
    data = make_data()
    data[1][0][-1] = float("nan")
    return data


@pytest.mark.parametrize("nprocs", RANKS)
def test_the_step_and_rank_are_named(nprocs: int) -> None:
    trainer, reference = make_trainer(nprocs), make_trainer(nprocs)
    with pytest.raises(FloatingPointError, match=f"nan at step 2 on rank {nprocs - 1}: the weigh"):
        trainer.fit(with_nan(), 1)
    reference.fit(make_data()[:1], 1)
    assert trainer.step == 1
    for x, y in zip(weights(trainer), weights(reference), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("nprocs", RANKS)
def test_a_step_that_is_left_out_is_not_in_the_means(nprocs: int) -> None:
    trainer, reference = make_trainer(nprocs, on_nonfinite="skip"), make_trainer(nprocs)
    with pytest.warns(RuntimeWarning, match=f"step 2 on rank {nprocs - 1}: the step is left out"):
        trainer.fit(with_nan(), 1)
    data = make_data()
    reference.fit([data[0], *data[2:]], 1)
    assert (trainer.step, trainer.history["samples"]) == (4, [34])
    for name in ("loss", "accuracy"):
        assert trainer.history[name] == reference.history[name]
    for x, y in zip(weights(trainer), weights(reference), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("nprocs", RANKS)
def test_a_step_that_is_taken_is_warned_of(nprocs: int) -> None:
    trainer = make_trainer(nprocs, on_nonfinite="warn")
    with pytest.warns(RuntimeWarning, match=f"nan at step 2 on rank {nprocs - 1}"):
        trainer.fit(with_nan()[:2], 1)
    assert all(np.isnan(x).all() for x in weights(trainer)[2:])
