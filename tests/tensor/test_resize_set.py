"""A tensor becomes another view of memory in place: t_, squeeze_, resize_, set_."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

import shmtensor as st


def test_shapes_and_memory() -> None:
    x = st.arange(6.0).reshape(2, 1, 3).clone()
    place = x.data_ptr()
    assert x.squeeze_() is x
    assert x.shape == (2, 3)
    assert x.t_().stride() == (1, 3)
    assert x.unsqueeze_(0).shape == (1, 3, 2)
    assert x.transpose_(0, 2).shape == (2, 3, 1)
    assert x.swapaxes_(0, 1).swapdims_(0, 1).squeeze_(-1).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert x.as_strided_((2, 2), (1, 1), 1).tolist() == [[1, 2], [2, 3]]
    assert x.data_ptr() == place + 4
    with pytest.raises(RuntimeError, match="t"):
        st.zeros(2, 2, 2).t_()


def test_strides_over_a_view_reach_all_of_its_memory() -> None:
    x = st.arange(6.0, requires_grad=True)
    weights = st.tensor([1.0, 2.0])
    for part, offset, grad in (
        (lambda: x[2:], None, [0, 0, 1, 2, 0, 0]),
        (lambda: x[2:], 2, [0, 0, 1, 2, 0, 0]),
        (lambda: x[2:], 1, [0, 0, 2, 0, 0, 0]),  # x[1] is not an element of x[2:]
        (lambda: x.view(2, 3).t(), 1, [0, 1, 2, 0, 0, 0]),
        (lambda: x[:1].expand(2), 0, [1, 0, 0, 0, 0, 0]),
    ):
        strided = part().as_strided((2,), (1,), offset)
        start = 2 if offset is None else offset
        assert strided.tolist() == [start, start + 1]
        assert st.autograd.grad((strided * weights).sum(), x)[0].tolist() == grad
    bits = st.arange(6.0).view(st.int32)[1:]
    assert bits.as_strided((2,), (2,), 0).view(st.float32).tolist() == [0, 2]
    by_columns = st.zeros(2, 3).t().requires_grad_()
    (by_columns.as_strided((2,), (1,), 1) * weights).sum().backward()
    assert by_columns.grad.tolist() == [[0, 0], [1, 0], [2, 0]]


def test_history_continues() -> None:
    w = st.arange(6.0, dtype=st.float64).reshape(3, 2)
    x = st.ones(2, 3, dtype=st.float64, requires_grad=True)
    y = x * 3
    y.t_()
    y.mul_(w)
    assert y.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == (3 * w.T).tolist()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.t_()
    with st.no_grad():
        x.t_()
    assert x.shape == (3, 2)


def test_a_view_made_before_keeps_its_history() -> None:
    a = st.arange(6.0).view(2, 3).requires_grad_()
    x = a * 1
    row = x[0]
    x.t_()
    x.mul_(2)
    (row * st.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert a.grad.tolist() == [[2, 4, 6], [0, 0, 0]]
    y = a * 1
    tail = y[1:]
    y.unsqueeze_(0)
    tail.mul_(3)
    assert y.sum().item() == 3 + 36
    (g,) = st.autograd.grad(y.sum(), a)
    assert g.tolist() == [[1, 1, 1], [3, 3, 3]]


def test_an_earlier_view_of_the_same_shape_is_not_confused() -> None:
    a = st.arange(4.0).view(2, 2).requires_grad_()
    x = a * 1
    same = x.view_as(x)
    x.t_()
    x[0].mul_(2)
    (same * st.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert a.grad.tolist() == [[2, 2], [6, 4]]


def test_a_view_of_a_base_with_a_new_geometry_cannot_get_history() -> None:
    x = st.ones(2, 3)
    row = x[0]
    x.t_()
    with pytest.raises(RuntimeError, match="another geometry in place"):
        row.mul_(st.ones(3, requires_grad=True))


def test_a_change_of_geometry_counts_as_a_write() -> None:
    x = st.ones(4)
    changes = [
        lambda: x.resize_(2, 2),
        lambda: x.set_(st.ones(2, 2)),
        lambda: x.transpose_(0, 1),
        lambda: x.t_(),
        lambda: x.unsqueeze_(0),
        lambda: x.squeeze_(),
        lambda: x.as_strided_((2,), (1,)),
    ]
    for number, change in enumerate(changes, 1):
        change()
        assert x._version == number
    x.resize_(2)  # unchanged
    assert x._version == len(changes)
    a, b = st.ones(2, 2, requires_grad=True), st.ones(2, 2)
    product = a * b
    b.transpose_(0, 1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_inference_tensors_keep_their_geometry_outside() -> None:
    with st.inference_mode():
        x = st.ones(2, 2)
        x.t_()
    for change in (x.t_, x.squeeze_, lambda: x.resize_(4), lambda: x.set_(st.ones(3))):
        with pytest.raises(RuntimeError, match="outside InferenceMode"):
            change()


def test_retained_gradients_follow() -> None:
    x = st.ones(2, 3, requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.t_()
    (y * st.arange(6.0).reshape(3, 2)).sum().backward()
    assert y.grad.shape == (3, 2)
    assert y.grad.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_history_continues_under_no_grad() -> None:
    for mode in (st.no_grad, st.inference_mode):
        for call in (
            lambda x: x.t_(),
            lambda x: x.transpose_(0, 1),
            lambda x: x.squeeze_(),
            lambda x: x.unsqueeze_(0),
            lambda x: x.as_strided_((3, 2), (1, 3)),
        ):
            leaf = st.ones(2, 3, requires_grad=True)
            weight = st.nn.Parameter(st.ones(2, 3))
            computed = leaf * 2
            with mode():
                call(weight)
                call(computed)
            assert weight.is_leaf
            assert weight.requires_grad
            (weight * weight).sum().backward()
            assert weight.grad.shape == weight.shape
            (computed * computed).sum().backward()
            assert leaf.grad.tolist() == [[8.0] * 3] * 2


def test_a_view_restrided_under_no_grad_can_be_written() -> None:
    base = st.ones(2, 3, requires_grad=True).clone()
    part = base.view_as(base)
    with st.no_grad():
        part.unsqueeze_(0)
    part.mul_(3)
    assert part.grad_fn is not None
    assert base.tolist() == [[3.0] * 3] * 2
    with st.no_grad():
        hidden = base[0]
        hidden.unsqueeze_(0)
        assert hidden.shape[0] == 1
    assert hidden.requires_grad
    for call in (lambda x: x.mul_(3), lambda x: x.t_()):
        with pytest.raises(RuntimeError, match="no_grad"):
            call(hidden)


def test_resizing() -> None:
    x = st.arange(6.0)
    assert x.resize_(2, 2).tolist() == [[0, 1], [2, 3]]
    assert x.resize_((2, 4)).flatten()[:6].tolist() == [0, 1, 2, 3, 4, 5]
    assert x.resize_as_(st.zeros(3)).tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        st.zeros(2, requires_grad=True).resize_(3)
    for size in ((-1,), ([-1],), (2, -1), (st.tensor(-1),)):
        with pytest.raises(RuntimeError, match="sizes must not be negative"):
            x.resize_(*size)
    with pytest.raises(TypeError, match="size"):
        x.resize_()
    with pytest.raises(TypeError, match="integer"):
        x.resize_(2.0)


def test_resizing_follows_the_memory() -> None:
    assert st.arange(6.0).view(2, 3).t().resize_(6).tolist() == [0, 1, 2, 3, 4, 5]
    assert st.zeros(3, 2).t().resize_(2, 3).stride() == (1, 2)  # nothing changes
    x = st.arange(4.0)
    part = x[1:2].resize_(3)
    part[2] = 9
    assert (part.tolist(), x.tolist(), part.storage_offset()) == ([1, 2, 9], [0, 1, 2, 9], 1)
    larger = x[1:2].resize_(5)  # the memory is too small: a copy of it, from its start
    assert larger[:3].tolist() == [1, 2, 9]
    assert larger.storage_offset() == 1
    larger.zero_()
    assert x.tolist() == [0, 1, 2, 9]
    assert x.resize_(0).resize_(2, 2).tolist() == [[0, 1], [2, 9]]
    assert x.view(st.int16).resize_(2).view(st.float32).tolist() == [0]
    bits = x.view(st.int32)[0].resize_(4)
    assert bits.view(st.float32).tolist() == [0, 1, 2, 9]


def test_resizing_to_a_memory_format() -> None:
    x = st.arange(24.0).view(2, 3, 2, 2)
    assert x.resize_(2, 3, 2, 2, memory_format=st.channels_last).stride() == (12, 1, 6, 3)
    assert x[0, :, 0, 0].tolist() == [0, 1, 2]
    assert x.resize_as_(st.zeros(1, 2, 3, 4)).stride() == (24, 12, 4, 1)
    like = st.zeros(1, 2, 3, 4).to(memory_format=st.channels_last)
    assert x.resize_as_(like, memory_format=st.preserve_format).stride() == like.stride()
    assert x.resize_as_(st.zeros(2, 3), memory_format=st.preserve_format).stride() == (3, 1)
    with pytest.raises(RuntimeError, match="required rank 4"):
        x.resize_(2, 3, memory_format=st.channels_last)
    with pytest.raises(RuntimeError, match="unsupported memory format"):
        x.resize_(2, 3, memory_format=st.preserve_format)


def test_a_resized_view_is_written_with_history() -> None:
    x, w = st.zeros(2, 3), st.ones(2, 2, requires_grad=True)
    part = x[0].resize_(2, 2)
    part.add_(w)
    assert x.tolist() == [[1, 1, 1], [1, 0, 0]]
    (x * st.arange(6.0).view(2, 3)).sum().backward()
    assert w.grad.tolist() == [[0, 1], [2, 3]]


def test_a_view_of_the_former_memory_is_independent() -> None:
    x, w = st.zeros(2), st.ones(2, requires_grad=True)
    part = x[:]
    x.resize_(4)
    part.add_(w)
    assert part.requires_grad
    assert not x.requires_grad
    part.sum().backward()
    assert w.grad.tolist() == [1, 1]


def test_set() -> None:
    source = st.arange(6.0)
    x = st.zeros(1)
    assert x.set_(source).tolist() == source.tolist()
    assert np.shares_memory(x.numpy(), source.numpy())
    assert x.set_(source, 1, (2, 2)).tolist() == [[1, 2], [3, 4]]
    assert x.set_(source, 0, (3,), (2,)).tolist() == [0, 2, 4]
    assert x.set_().shape == (0,)
    with pytest.raises(RuntimeError, match="could not set"):
        x.set_(st.arange(3))


def test_a_leaf_over_other_memory_is_new_to_the_graph() -> None:
    p, calls = st.nn.Parameter(st.ones(4)), []
    p.register_hook(lambda g: calls.append(g.shape))
    loss = (p * 2).sum()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        p.set_(st.ones(6))
    with st.no_grad():
        p.set_(st.ones(6))
    assert p.grad is None
    with pytest.raises(RuntimeError, match="not have been used in the graph"):
        st.autograd.grad(loss, p, retain_graph=True)
    (p * 3).sum().backward()
    assert p.grad.tolist() == [3] * 6
    p.grad = None
    loss.backward()  # earlier graphs still accumulate into it
    assert p.grad.tolist() == [2] * 4
    assert calls == [(6,), (4,)]
    former = weakref.ref(loss.grad_fn.next_functions[0][0].next_functions[0][0])
    assert former() is not p.accumulate_grad
    del loss
    assert former() is None  # no cycle keeps it alive


def test_other_memory_has_no_history() -> None:
    p = st.ones(4, requires_grad=True)
    for x, source in ((p * 2, st.ones(4)), (st.ones(4), p * 2), (st.ones(4), p)):
        assert x.set_(source).requires_grad
        with pytest.raises(RuntimeError, match="the derivative for 'set_' is not implemented"):
            x.sum().backward()
    with st.no_grad():
        assert not st.ones(4).set_(p).requires_grad


def test_diagonals_and_maps() -> None:
    x = st.zeros(5, 2)
    assert x.fill_diagonal_(1, wrap=True).tolist() == [[1, 0], [0, 1], [0, 0], [1, 0], [0, 1]]
    assert st.zeros(3, 2).fill_diagonal_(1).tolist() == [[1, 0], [0, 1], [0, 0]]
    assert st.zeros(2, 3).fill_diagonal_(1, wrap=True).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert st.zeros(3, 2).t().fill_diagonal_(2).tolist() == [[2, 0, 0], [0, 2, 0]]
    assert st.zeros(2, 2, 2).fill_diagonal_(3)[1, 1, 1] == 3
    with pytest.raises(RuntimeError, match="fill_diagonal_"):
        st.zeros(2, 3, 4).fill_diagonal_(1)
    y = st.tensor([1.0, 2.0])
    assert y.map2_(st.tensor([10.0, 20.0]), st.tensor(1.0), lambda a, b, c: a + b + c).tolist() == [
        12,
        23,
    ]


def test_predicates() -> None:
    x = st.zeros(2, 3, 4, 5)
    assert x.is_cpu
    assert not any([x.is_meta, x.is_nested, x.is_quantized, x.is_conj(), x.is_neg()])
    assert not x.is_distributed()
    assert x.name is None
    assert st.tensor([3]).is_nonzero()
    assert x.const_data_ptr() == x.data_ptr()
    assert x.dim_order() == (0, 1, 2, 3)
    assert x.permute(0, 2, 3, 1).dim_order() == (0, 3, 1, 2)
    assert not x.is_contiguous(memory_format=st.channels_last)
    last = st.zeros(2, 4, 5, 3).permute(0, 3, 1, 2)
    assert last.is_contiguous(memory_format=st.channels_last)
    assert x.to(other=st.zeros(1, dtype=st.int64)).dtype is st.int64
    with pytest.raises(TypeError, match="unexpected keyword"):
        x.to(kind=3)
