"""Tensor: properties, Python's protocols, conversion, copies."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import shmtensor as st


def test_shape_and_size() -> None:
    x = st.ones(2, 3, dtype=st.float64)
    assert x.shape == x.size() == (2, 3)
    assert (x.size(-1), x.dim(), x.ndim, x.numel(), len(x)) == (3, 2, 2, 6, 2)
    assert (x.element_size(), x.itemsize, x.nbytes) == (8, 8, 48)
    assert (x.stride(), x.stride(0), x[:, 1:].storage_offset()) == ((3, 1), 3, 1)
    assert x.device == st.device("cpu")
    assert x.is_floating_point()
    assert x.is_contiguous()
    assert not x.t().is_contiguous()
    assert x.t().contiguous().is_contiguous()
    with pytest.raises(IndexError, match="size: Dimension out of range"):
        x.size(2)


def test_tensor_is_one_class_over_the_methods_of_the_table() -> None:
    names = [cls.__name__ for cls in st.Tensor.__mro__]
    assert names == ["Tensor", "Methods", "TensorBase", "object"]


def test_numbers_from_tensors() -> None:
    assert (int(st.tensor(3.7)), float(st.tensor([2])), complex(st.tensor(1j))) == (3, 2.0, 1j)
    assert [10, 20, 30][st.tensor(1)] == 20
    assert bool(st.tensor([0.0])) is False
    assert f"{st.tensor(3.14159):.2f}" == "3.14"
    assert st.tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(TypeError, match="only integer tensors"):
        [1, 2][st.tensor(1.0)]


def test_iteration_and_membership() -> None:
    x = st.tensor([[1, 2], [3, 4]])
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    assert 3 in x
    assert 5 not in x
    a, b = st.tensor([1.0, 2.0])
    assert (a.item(), b.item()) == (1.0, 2.0)


def test_comparisons_are_elementwise() -> None:
    x, y = st.tensor([1, 2, 3]), st.tensor([3, 2, 1])
    assert (x == y).tolist() == [False, True, False]
    assert (x < y).tolist() == [True, False, False]
    assert (x >= 2).tolist() == [False, True, True]
    assert (x < 2).tolist() == [True, False, False]
    assert len({x, y, x}) == 2


def test_python_operators() -> None:
    x = st.tensor([5, 7])
    assert (x // 2).tolist() == [2, 3]
    assert (x % 4).tolist() == [1, 3]
    assert (-x).tolist() == [-5, -7]
    assert (x**2).tolist() == [25, 49]
    assert (~st.tensor([True, False])).tolist() == [False, True]
    assert (x & 4).tolist() == [4, 4]
    assert abs(st.tensor([-1.0])).tolist() == [1]
    x += 1
    assert x.tolist() == [6, 8]


def test_indexing() -> None:
    x = st.arange(12).reshape(3, 4)
    array = x.numpy()
    rows, mask = st.tensor([2, 0]), st.tensor([True, False, True])
    for index, same in (
        (1, 1),
        (-1, -1),
        (slice(None, None, 2), slice(None, None, 2)),
        ((0, slice(1, 3)), (0, slice(1, 3))),
        ((..., 0), (..., 0)),
        ((None, 1), (None, 1)),
        (rows, rows.numpy()),
        (mask, mask.numpy()),
        ((rows, [1, 3]), (rows.numpy(), [1, 3])),
        (st.tensor(1), 1),
        ([0, 2], [0, 2]),
        (x > 5, array > 5),
    ):
        assert x[index].tolist() == array[same].tolist()
    assert x[1, 2].shape == ()
    assert x[1].is_set_to(x.select(0, 1))


def test_assignment() -> None:
    x = st.zeros(3, 4)
    x[0] = 1
    x[1, :2] = st.tensor([5, 6])
    x[st.tensor([False, False, True])] = 7
    x[:, 3] = [1, 2, 3]
    assert x.tolist() == [[1, 1, 1, 1], [5, 6, 0, 2], [7, 7, 7, 3]]


def test_results_are_shared_and_foreign_memory_is_not() -> None:
    outside = st.from_numpy(np.ones(3))
    assert not outside.is_shared()
    assert (outside * 2).is_shared()
    assert st.tensor([1.0]).is_shared()
    assert outside.share_memory_() is outside
    assert outside.is_shared()


def test_other_dtypes() -> None:
    x = st.tensor([1.5, -2.5], requires_grad=True)
    assert x.to(st.float32) is x
    assert x.to(st.float32, copy=True) is not x
    y = x.double()
    assert y.dtype is st.float64
    y.sum().backward()
    assert x.grad.dtype is st.float32
    assert x.int().tolist() == [1, -2]
    assert x.to(st.ones(1, dtype=st.float16)).dtype is st.float16
    assert x.type() == "shmtensor.FloatTensor"
    assert x.type(y.type()).dtype is x.type(st.DoubleTensor).dtype is st.float64
    assert x.type("torch.LongTensor").dtype is x.type(st.int64).dtype is st.int64
    with pytest.raises(ValueError, match=r"invalid type: .shmtensor.FooTensor."):
        x.type("shmtensor.FooTensor")
    assert x.bool().tolist() == [True, True]
    assert not x.long().requires_grad


def test_clone_detach_and_deepcopy() -> None:
    x = st.tensor([1.0, 2.0], requires_grad=True)
    (x * 3).sum().backward()
    assert not x.clone().is_set_to(x)
    assert x.clone().requires_grad
    assert x.detach().is_set_to(x)
    y = copy.deepcopy(x)
    assert y.requires_grad
    assert y.is_leaf
    assert y.grad.tolist() == [3, 3]
    assert not y.is_set_to(x)
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(x * 2)
    pair = copy.deepcopy([x, x])
    assert pair[0] is pair[1]


def test_requires_grad_can_be_set_and_taken_back() -> None:
    x = st.ones(2)
    x.requires_grad = True
    assert x.is_leaf
    y = x * 2
    assert not y.is_leaf
    with pytest.raises(RuntimeError, match="leaf variables"):
        y.requires_grad = False
    x.requires_grad_(False)
    assert not (x * 2).requires_grad


def test_assigned_grad() -> None:
    x = st.ones(2)
    x.grad = st.ones(2)
    assert x.grad.tolist() == [1, 1]
    x.grad = None
    assert x.grad is None
    with pytest.raises(RuntimeError, match=r"different shape or dtype: \(3,\)"):
        x.grad = st.ones(3)
    with pytest.raises(TypeError):
        x.grad = 3


def test_writing() -> None:
    x = st.ones(2, 2)
    x.fill_(3).add_(1).zero_()
    assert x.tolist() == [[0, 0], [0, 0]]
    x.copy_(st.tensor([1, 2]))
    assert x.tolist() == [[1, 2], [1, 2]]
    assert x._version == 4
    x.apply_(lambda v: v * 10)
    assert x.tolist() == [[10, 20], [10, 20]]


def test_weak_references_and_attributes() -> None:
    import weakref

    x = st.ones(1)
    assert weakref.ref(x)() is x


def test_a_number_is_formatted_as_one() -> None:
    assert f"{st.tensor(2.5)}" == "2.5"
    assert f"{st.tensor(2.5, requires_grad=True) * 2:.2f}" == "5.00"
    assert f"{st.tensor(3)}" == "3"
    assert f"{st.tensor([2.5])}" == "tensor([2.5000])"
    assert str(st.tensor(2.5)) == "tensor(2.5000)"


def test_reversed_turns_every_dimension() -> None:
    x = st.arange(6).reshape(2, 3)
    assert reversed(x).tolist() == [[5, 4, 3], [2, 1, 0]]
    assert reversed(st.tensor(3)).item() == 3


def test_properties_of_a_tensor() -> None:
    x = st.ones(2, 3)
    assert (x.ndimension(), x.nelement(), x.get_device()) == (2, 6, -1)
    assert x.is_signed()
    assert not x.byte().is_signed()
    assert x.char().dtype is st.int8
    assert x.is_same_size(x.t().t())
    assert not x.is_same_size(x.t())
    assert not x.is_pinned()
    assert x.pin_memory() is x
    y = (x * 1).requires_grad_()
    z = y * 2
    assert z.detach_() is z
    assert not z.requires_grad
    assert st.ones(3).map_(st.arange(3.0), lambda a, b: a + b).tolist() == [1, 2, 3]
    samples = st.zeros(1000).cauchy_(2.0, 0.5)
    assert samples.median().item() == pytest.approx(2, abs=0.3)


def test_streams_are_of_gpus() -> None:
    with pytest.raises(NotImplementedError, match=r"record_stream: only for tensors on a GPU: .*3"):
        st.ones(3).record_stream(None)
