"""Views and in-place writes: history follows memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st


def leaf(*values: float) -> Any:
    return st.tensor(list(values), dtype=st.float64, requires_grad=True)


def test_a_write_to_a_view_is_part_of_its_root_s_history() -> None:
    x, w = leaf(1, 2, 3), leaf(5)
    y = x * 1
    y[1:2].mul_(w)
    assert y.tolist() == [1, 10, 3]
    y.sum().backward()
    assert x.grad.tolist() == [1, 5, 1]
    assert w.grad.tolist() == [2]


def test_a_write_to_the_root_is_seen_by_a_view_s_history() -> None:
    x = leaf(1, 2)
    y = x * 1
    v = y[0]
    y.mul_(3)
    v.backward()
    assert x.grad.tolist() == [3, 0]


def test_a_view_of_a_view_of_a_plain_tensor() -> None:
    base, w = st.zeros(4, dtype=st.float64), leaf(2)
    base.reshape(2, 2)[1].t().copy_(w)
    assert base.requires_grad
    (base * base).sum().backward()
    assert w.grad.tolist() == [8]


def test_item_assignment() -> None:
    x, v = leaf(1, 2, 3), leaf(7)
    y = x * 2
    y[st.tensor([0, 2])] = v
    y.sum().backward()
    assert x.grad.tolist() == [0, 2, 0]
    assert v.grad.tolist() == [2]


def test_item_assignment_of_a_transposed_root() -> None:
    x = st.zeros(3, 2, dtype=st.float64).t()
    w = leaf(1, 2, 3)
    x[1] = w
    (x * st.arange(6).reshape(2, 3)).sum().backward()
    assert w.grad.tolist() == [3, 4, 5]


def test_saved_value_written_in_place() -> None:
    x = leaf(1, 2)
    y = x.exp()
    y.add_(1)
    with pytest.raises(
        RuntimeError, match="modified by an inplace operation: exp saved it at version 0, it is at"
    ):
        y.sum().backward()


def test_saved_input_written_through_a_view() -> None:
    x = leaf(1, 2)
    z = st.ones(2, dtype=st.float64)
    y = x * z
    z[0].fill_(3)
    with pytest.raises(RuntimeError, match="clone"):
        y.sum().backward()


def test_writing_twice_is_fine_where_nothing_was_saved() -> None:
    x = leaf(1, 2)
    y = x * 2
    y.add_(1).mul_(3)
    y += x
    y.sum().backward()
    assert x.grad.tolist() == [7, 7]


def test_in_place_product_saves_its_operand() -> None:
    x, w = leaf(3), leaf(4)
    y = x * 1
    y *= w
    y.sum().backward()
    assert (x.grad.item(), w.grad.item()) == (4, 3)


def test_multiplying_by_itself_in_place_is_refused_at_backward() -> None:
    y = leaf(3) * 1
    y.mul_(y)
    with pytest.raises(RuntimeError, match="inplace"):
        y.sum().backward()


@pytest.mark.parametrize(
    "write", ["x.add_(1)", "x[0] = 1", "x[0].mul_(2)", "x.zero_()", "x.view(-1).fill_(2)"]
)
def test_a_leaf_that_requires_grad_is_not_written(write: str) -> None:
    x = leaf(1, 2)
    with pytest.raises(RuntimeError, match=r"leaf Variable that requires grad.*no_grad\(\)"):
        exec(write, {"x": x})
    with st.no_grad():
        exec(write, {"x": x})


def test_a_view_made_without_grad_is_not_written_with_it() -> None:
    y = leaf(1, 2) * 1
    with st.no_grad():
        v = y[0]
    with pytest.raises(RuntimeError, match="made under no_grad"):
        v.mul_(2)


def test_one_of_several_views_is_not_written() -> None:
    y = leaf(1, 2) * 1
    first, _ = y.unbind()
    with pytest.raises(RuntimeError, match="several outputs"):
        first.mul_(2)


def test_expanded_memory_is_not_written() -> None:
    with pytest.raises(RuntimeError, match="it is expanded"):
        st.ones(1).expand(3).add_(1)


def test_detached_tensors_share_memory_and_version() -> None:
    x = leaf(1, 2)
    y = x * x
    d = y.detach()
    d.zero_()
    assert y.tolist() == [0, 0]
    assert y._version == 1
    assert not d.requires_grad


def test_data_is_written_uncounted() -> None:
    x = leaf(1, 2)
    y = x * x
    x.data.zero_()
    y.sum().backward()
    assert x.grad.tolist() == [0, 0]


def test_copy_replaces_the_history() -> None:
    x, w = leaf(1, 2), leaf(5, 6)
    y = x * 2
    y.copy_(w)
    y.sum().backward()
    assert x.grad is None or x.grad.tolist() == [0, 0]
    assert w.grad.tolist() == [1, 1]


def test_in_place_result_must_fit() -> None:
    with pytest.raises(
        RuntimeError, match="result type float32 can't be cast to the desired output type int64"
    ):
        st.tensor([1, 2]).mul_(1.5)
    with pytest.raises(RuntimeError, match=r"doesn't match the broadcast shape \[2, 3\]"):
        st.ones(3).add_(st.ones(2, 3))


def test_retained_grad_follows_an_in_place_write() -> None:
    x = leaf(1)
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    (y * 5).sum().backward()
    assert y.grad.tolist() == [5]
    assert x.grad.tolist() == [30]


def test_a_write_to_an_integer_tensor_has_no_history() -> None:
    x = st.zeros(2, dtype=st.int64)
    x.copy_(leaf(1, 2))
    x[0] = leaf(5)[0]
    assert x.tolist() == [5, 2]
    assert not x.requires_grad


def test_an_untracked_view_of_tracked_memory_is_not_written() -> None:
    y = leaf(1, 2) * 1
    with st.no_grad():
        v = y[0]
        v.mul_(3)
    assert y.tolist() == [3, 2]
    with pytest.raises(RuntimeError, match="grad mode enabled"):
        v.add_(1)


@pytest.mark.parametrize("dtype", [st.float16, st.float32, st.float64])
def test_fill_writes_the_number_nearest_to_its_own(dtype: Any) -> None:
    wide = (1e30, 2.0**-300) if dtype is st.float64 else ()
    for number in (0.1, 7, -3.5, 1e-3, float("inf"), *wide):
        x = st.empty((5, 3), dtype=dtype).fill_(number)
        np.testing.assert_array_equal(x.numpy(), np.full((5, 3), number, x.numpy().dtype))


# ---------------------------------------------------------------- views made under no_grad


@pytest.mark.parametrize("mode", [st.no_grad, st.inference_mode])
def test_a_view_made_without_recording_requires_grad_as_its_base(mode: Any) -> None:
    x = leaf(1, 2)
    with mode():
        v = x.view(2, 1)
        assert v.requires_grad
        assert not (v * 2).requires_grad
        part, _ = x.unbind()
        row = v[0]
    assert v.requires_grad
    assert part.requires_grad
    assert row.requires_grad
    assert v.is_leaf
    assert v.grad_fn is None
    assert not v.is_inference()
    assert repr(v).endswith("requires_grad=True)")
    y = (v * 2).sum()
    assert y.requires_grad
    y.backward()  # gradients end there
    assert v.grad is None
    assert x.grad is None
    x.requires_grad_(False)
    assert not v.requires_grad


@pytest.mark.parametrize("mode", [st.no_grad, st.inference_mode])
def test_a_view_made_without_recording_is_not_written_with_recording(mode: Any) -> None:
    x = leaf(1, 2) * 1
    with mode():
        v = x.view(2, 1)
        v.add_(1)
    with pytest.raises(RuntimeError, match="modified inplace"):
        v.add_(1)
    assert v.requires_grad
    with pytest.raises(RuntimeError, match="no_grad or inference mode and its base"):
        _ = v.grad_fn
    with pytest.raises(RuntimeError, match="no_grad or inference mode and its base"):
        _ = v * 2
    assert repr(v).endswith("grad_fn=<Invalid>)")
    with mode():
        assert (v * 2).tolist() == [[4], [6]]
    assert v.detach().tolist() == [[2], [3]]


def test_a_view_under_no_grad_of_a_tensor_without_grad_is_ordinary() -> None:
    x, w = st.ones(2), st.ones(2, requires_grad=True)
    with st.no_grad():
        v = x.view(2, 1)
    v.add_(1)
    assert not (v * 2).requires_grad
    assert (v[:, 0] * w).requires_grad


def test_a_view_of_an_inference_tensor_is_one() -> None:
    with st.inference_mode():
        x = st.ones(2, 2)
        y = st.ones(2, 2).requires_grad_()
        assert x[0]._base is None
    for outside in (x.view(4), x[0], y.view(4)):
        assert outside.is_inference()
        assert outside._base is None
        assert not outside.requires_grad
    with pytest.raises(RuntimeError, match="outside InferenceMode"):
        x.view(4).add_(1)
