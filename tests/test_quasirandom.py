"""Sobol sequences: PyTorch's and SciPy's numbers, and the evenness of scrambled ones."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st
from shmtensor.quasirandom import SobolEngine


def test_first_points() -> None:
    points = SobolEngine(3).draw(8)
    assert points.dtype == st.float32
    assert points.tolist()[:4] == [
        [0, 0, 0],
        [0.5, 0.5, 0.5],
        [0.75, 0.25, 0.25],
        [0.25, 0.75, 0.75],
    ]


def test_all_dimensions_are_scipys() -> None:
    qmc = pytest.importorskip("scipy.stats").qmc
    d = SobolEngine.MAXDIM
    theirs = qmc.Sobol(d, scramble=False, bits=30).random(256)
    np.testing.assert_array_equal(SobolEngine(d).draw(256, dtype=st.float64), theirs)


@pytest.mark.torch
def test_numbers_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = SobolEngine(17), torch.quasirandom.SobolEngine(17)
    for n in (1, 1, 3, 10, 5):
        np.testing.assert_array_equal(ours.draw(n), theirs.draw(n))
    ours.fast_forward(1000)
    theirs.fast_forward(1000)
    np.testing.assert_array_equal(ours.draw(40), theirs.draw(40))
    assert ours.num_generated == theirs.num_generated
    assert repr(ours) == repr(theirs)
    assert repr(SobolEngine(2, True, 3)) == repr(torch.quasirandom.SobolEngine(2, True, 3))


@pytest.mark.parametrize("scramble", [False, True])
def test_the_order_does_not_depend_on_how_points_are_drawn(scramble: bool) -> None:
    expected = SobolEngine(4, scramble, seed=7).draw(64)
    engine = SobolEngine(4, scramble, seed=7)
    parts = [engine.draw(n) for n in (0, 1, 2, 30, 31)]
    assert st.equal(st.cat(parts), expected)
    for skipped in (0, 1, 5, 33):
        assert engine.reset() is engine
        assert engine.fast_forward(skipped) is engine
        assert engine.num_generated == skipped
        assert st.equal(engine.draw(4), expected[skipped : skipped + 4])


def test_scrambled_points_are_even() -> None:
    points = SobolEngine(5, scramble=True, seed=2).draw_base2(8, dtype=st.float64).numpy()
    for d in range(5):  # one point in each interval of length 1/256, and in each square of 1/16
        assert sorted((points[:, d] * 256).astype(int)) == list(range(256))
    first = (points[:, :2] * 16).astype(int)
    assert len({tuple(p) for p in first.tolist()}) == 256
    assert not np.array_equal(points, SobolEngine(5, True, seed=3).draw(256, dtype=st.float64))
    assert 0 < points.min() < points.max() < 1


def test_the_scrambling_follows_the_generator() -> None:
    st.manual_seed(9)
    first = SobolEngine(2, scramble=True).draw(3)
    second = SobolEngine(2, scramble=True).draw(3)
    st.manual_seed(9)
    assert st.equal(SobolEngine(2, scramble=True).draw(3), first)
    assert not st.equal(first, second)


def test_out_and_dtype() -> None:
    out = st.empty(0)
    assert SobolEngine(2).draw(3, out=out) is out
    assert out.shape == (3, 2)
    half = SobolEngine(2).draw(4, dtype=st.float16)
    assert half.tolist() == SobolEngine(2).draw(4).tolist()


def test_wrong_arguments() -> None:
    for dimension in (0, 1112):
        with pytest.raises(ValueError, match=rf"\[1, 1111\]: {dimension}"):
            SobolEngine(dimension)
    engine = SobolEngine(1)
    engine.draw(3)
    with pytest.raises(ValueError, match=r"n=3\+2\*\*1=5, hint: draw"):
        engine.draw_base2(1)
    assert engine.draw_base2(0).item() == 0.25
    engine.fast_forward(2**30 - 5)
    assert engine.draw(1).shape == (1, 1)
    with pytest.raises(ValueError, match=r"1 points after 1073741824: the sequence has 2\^30"):
        engine.draw(1)
