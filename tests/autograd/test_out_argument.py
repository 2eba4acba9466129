"""`out=`: results in existing tensors."""

from __future__ import annotations

import inspect
import re

import pytest

import shmtensor as st


def test_the_result_goes_into_out() -> None:
    x, y = st.arange(6.0).reshape(2, 3), st.ones(3)
    out = st.empty(2, 3)
    place = out.data_ptr()
    assert st.add(x, y, alpha=2, out=out) is out
    assert out.tolist() == (x + 2).tolist()
    assert out.data_ptr() == place
    assert st.sum(x, axis=1, out=st.empty(2)).tolist() == [3, 12]
    assert st.cat([y, y], out=st.empty(0)).shape == (6,)
    assert st.addmm(st.ones(2, 2), x, x.t(), out=st.empty(2, 2)).tolist() == [[6, 15], [15, 51]]
    assert st.narrow_copy(x, 1, 0, 2, out=st.empty(2, 2)).tolist() == [[0, 1], [3, 4]]
    assert st.special.i1(st.zeros(2), out=out[0, :2]).tolist() == [0, 0]
    assert st.exp(st.zeros(2), out=st.empty(2, dtype=st.float64)).dtype is st.float64


@pytest.mark.parametrize("dtype", [st.float32, st.float64, st.int32])
def test_out_of_the_operands_form_is_written_by_the_kernel(dtype: st.dtype) -> None:
    """The same values as without `out=`, for all kinds of operands."""
    x = (st.arange(60_000) % 97 - 48).to(dtype)
    y = (st.arange(60_000) % 31 + 1).to(dtype)
    matrix, column = x.reshape(300, 200), y[:200]
    for f, args in (
        (st.add, (x, y)),
        (st.add, (x, 3)),
        (st.mul, (x, 2.5)),
        (st.div, (x, y)),
        (st.floor, (x,)),
        (st.sqrt, (y,)),
        (st.isnan, (x,)),
        (st.maximum, (x, y.to(st.float64))),
        (st.sub, (matrix, column)),
        (st.add, (matrix.t(), matrix.t())),
        (st.add, (st.ones(()), st.ones(()))),
    ):
        expected = f(*args)
        out = st.full(expected.shape, 7, dtype=expected.dtype)
        count = out._version
        assert f(*args, out=out) is out
        assert out.tolist() == expected.tolist()
        assert out._version == count + 1
    out = st.full((60_000,), 7.0)
    assert st.isnan(out, out=out).tolist() == [0.0] * 60_000
    assert st.lerp(out, out + 2, 0.5, out=out).tolist() == [1.0] * 60_000
    both = st.arange(10.0)
    assert st.add(both[:8], 1, out=both[2:]).tolist() == list(range(1, 9))  # they overlap
    assert st.add(both[:2], both[:2], alpha=3, out=both[:2]).tolist() == [0, 4]


def test_nothing_is_copied_into_out_that_a_kernel_can_write() -> None:
    """A separate result would leave its memory in the heap's cache."""
    x, out = st.ones(1 << 16), st.empty(1 << 16)
    for f, args in (
        (st.add, (x, x)),
        (st.mul, (x, 2.0)),
        (st.floor, (x,)),
        (st.relu, (x,)),
        (st.exp, (x,)),
    ):
        f(*args, out=out)
        st.memory.trim()
        before = st.memory.statistics().cached_bytes
        f(*args, out=out)
        assert st.memory.statistics().cached_bytes - before < out.nbytes
        assert out.tolist() == f(*args).tolist()


def test_several_results() -> None:
    values, indices = st.empty(0), st.empty(0, dtype=st.int64)
    result = st.sort(st.tensor([3.0, 1.0]), out=(values, indices))
    assert result.values is values
    assert result[1] is indices
    assert values.tolist() == [1, 3]
    with pytest.raises(TypeError, match="must be a tuple of 2 Tensors"):
        st.sort(st.ones(2), out=values)


def test_out_may_be_an_operand() -> None:
    x = st.arange(3.0)
    st.mul(x, x, out=x)
    assert x.tolist() == [0, 1, 4]


def test_out_of_another_shape_is_resized_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="was resized"):
        out = st.add(st.ones(3), 1, out=st.empty(2))
    assert out.shape == (3,)


def test_out_is_resized_in_its_memory() -> None:
    x = st.zeros(6)
    out = x[:2]
    with pytest.warns(UserWarning, match="was resized"):
        assert st.mul(st.ones(4), 3, out=out) is out
    assert x.tolist() == [3, 3, 3, 3, 0, 0]
    values, indices = x[4:].resize_(0), st.empty(0, dtype=st.int64)
    st.sort(st.tensor([2.0, 1.0]), out=(values, indices))
    assert (x.tolist(), indices.tolist()) == ([3, 3, 3, 3, 1, 2], [1, 0])
    assert st.add(st.ones(2), 1, out=x[4:4]).tolist() == [2, 2]
    assert x.tolist() == [3, 3, 3, 3, 1, 2]  # an empty slice has no address


def test_mismatched_arguments_are_refused() -> None:
    x = st.ones(3)
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type int64"):
        st.add(x, x, out=st.empty(3, dtype=st.int64))
    with pytest.raises(TypeError, match="argument 'out' must be Tensor, not list"):
        st.add(x, x, out=[1])
    x.requires_grad_()
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        st.add(x, x, out=st.empty(3))
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        st.add(st.ones(3), 1, out=x)
    with st.no_grad():
        assert st.add(x, x, out=st.empty(3)).tolist() == [2, 2, 2]


def test_a_write_by_out_is_counted() -> None:
    x = st.ones(3, requires_grad=True)
    y = x.exp()
    with st.no_grad():
        st.add(y, 1, out=y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_in_place_forms_refuse_a_higher_category() -> None:
    integral = st.arange(3)
    for write in (
        lambda: integral.add_(1.5),
        lambda: integral.addcmul_(st.ones(3), st.ones(3)),
        lambda: integral.div_(2),
    ):
        with pytest.raises(RuntimeError, match="can't be cast to the desired output type int64"):
            write()
    assert integral.tolist() == [0, 1, 2]
    assert st.arange(3.0).eq_(st.ones(3)).tolist() == [0, 1, 0]


def test_some_insist_on_the_dtype() -> None:
    x = st.ones(2, 3)
    indices = st.zeros(2, 3, dtype=st.int64)
    wide = st.empty(2, 3, dtype=st.float64)
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        st.gather(x, 1, indices, out=wide)
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        st.aminmax(x, dim=0, out=(wide[0], wide[1]))
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        st.multinomial(x, 2, out=wide)
    narrow = st.empty(2, 3)
    assert st.gather(x, 1, indices, out=narrow) is narrow


@pytest.mark.torch
def test_out_is_taken_where_pytorch_takes_it() -> None:
    import torch

    missing = []
    for word in ("", "linalg.", "fft.", "special."):
        theirs, ours = (getattr(m, word[:-1]) if word else m for m in (torch, st))
        for name in set(dir(theirs)) & set(dir(ours)):
            summary = (getattr(theirs, name).__doc__ or "").partition("\n\n")[0]
            # Not "layout="; and the out= of from_file does not exist.
            if not re.search(r"\bout=", summary) or name == "from_file":
                continue
            if "out" not in inspect.signature(getattr(ours, name)).parameters:
                missing.append(word + name)
    assert not missing
