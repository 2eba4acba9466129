"""Tensor's methods on a GPU: each gives what it gives on the CPU, on the GPU."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import shmtensor as st
from shmtensor import cuda

# Expressions of x (2, 3), q (2, 3, 4, 2), z complex (2,), i int64 (4,), b bool (2, 3).
SAME = """
x.shape
x.size(1)
x.stride()
x.T.stride()
x[1:, 1].storage_offset()
x.T[1:].storage_offset()
x.as_strided((2, 2), (1, 1), 1)
x.as_strided((2, 2), (1, 1), 1).storage_offset()
x.clone().as_strided_((2, 2), (1, 1), 1)
x[1].untyped_storage().nbytes()
x.storage().tolist()
x[1].storage().size()
x[1].untyped_storage() == x.untyped_storage()
x[1].data_ptr() - x.data_ptr()
x.is_set_to(x[:])
x.is_set_to(x[1:])
x.is_shared()
x.share_memory_().is_shared()
x.share()
x.is_pinned()
x.T.dim_order()
x.T.is_contiguous()
x.T.contiguous().stride()
x.T.clone().stride()
q.to(memory_format=st.channels_last).stride()
q.contiguous(memory_format=st.channels_last).is_contiguous(memory_format=st.channels_last)
q.to(memory_format=st.channels_last).clone().stride()
q.clone().resize_(2, 3, 2, 2, memory_format=st.channels_last).stride()
(x.numel(), x.itemsize, x.nbytes, x.ndim, x.element_size())
(x.is_floating_point(), x.is_complex(), x.is_signed(), x.is_conj(), x.is_neg())
x.H
z.mH if z.ndim > 1 else z.conj()
z.real
z.imag
x.clone().set_(x)
x.clone().set_()
x.clone().set_(x, 1, (2,), (1,))
x.clone().set_(x, 1, (2, 2))
x.clone().resize_(2, 2)
x.clone().resize_(3, 3).shape
x[1:].clone().resize_(2, 2).shape
x[:, 1].resize_(1)
x.clone().resize_as_(x[:, :2])
x.resize(6)
x.clone().t_()
x.clone().transpose_(0, 1)
x.clone().unsqueeze_(0).squeeze_()
x.tolist()
x[0, 0].item()
bool(x[0, 0])
(int(x[0, 1]), float(x[0, 1]), complex(z[0]))
[1, 2, 3][i[0]]
len(x)
[v.tolist() for v in x]
(3.0 in x, 99 in x)
format(x[0, 0], ".2f")
f"{x[0, 0]}"
copy.copy(x).data_ptr() == x.data_ptr()
x.clone().fill_(2)
x.clone().fill_(x[0, 0])
x.clone().fill_(st.tensor(3.0))
i.clone().fill_(2.5)
b.clone().fill_(True)
z.clone().fill_(1 + 2j)
x.half().fill_(1e300) if False else x.half().fill_(3)
x.clone().zero_()
x.clone().fill_diagonal_(9)
x.new_zeros(7, 3).fill_diagonal_(9, wrap=True)
x.new_zeros(3, 3, 3).fill_diagonal_(2)
x.type(st.float64)
x.type_as(i)
x.to(i)
x.to(x) is x
x.to(x.device) is x
x.to(x.device, copy=True) is x
x.to(x.device, non_blocking=True) is x
x.to(x.device, st.float64)
x.to(dtype=st.int32, non_blocking=True, copy=True)
x.to(other=i)
x.to_device(x.device) is x
x.float() is x
(x.double(), x.half(), x.int(), x.long(), x.short(), x.char(), x.byte(), x.bool(), x.cfloat())
x.new_tensor([1, 2])
x.new(2).shape
x.new_full((2,), 3)
x.new_ones(2)
st.as_tensor(x) is x
st.tensor(x)
st.asarray(x, copy=True)
x.data
x.detach()
x._version
x.is_inference()
x.view(st.int32)
x.expand(2, 2, 3).stride()
x.unbind()
x.diagonal()
x[0]
x[:, ::2]
x[[0, 1], [0, 2]]
x[:, [0, 2]]
x[b]
x[b, ]
x[..., None, 0]
x[0, [1, 2]]
x[st.tensor([1, 0])]
x[i[:2] % 2]
x[i[0]]
x[i[0]:i[1]]
q[0, :, [2, 1]]
q[[0, 1], :, [0, 1]]
q[0, b[1]]
""".strip().splitlines()

# The same, where both raise: the class of the error and the beginning of its message.
ERRORS = """
x.item()
bool(x)
bool(x[:0])
int(z[0])
range(5)[x[0, 0]]
len(x[0, 0])
iter(x[0, 0])
"a" in x
format(x, ".2f")
copy.deepcopy(x.clone().requires_grad_() * 2)
x.clone().set_(i)
x.clone().resize_(-1)
x.clone().fill_(x)
x.clone().fill_(1e300)
i.clone().fill_(10**30)
x.to("bogus")
x.to(bogus=1)
x["a"]
x[1.5]
x[0, 0, 0]
x[[0, 5]]
x[0, [7]]
x[..., [3]]
x[st.tensor([1.5])]
x.expand(2, 2, 3).add_(1)
x.expand(2, 2, 3).__setitem__(0, 1)
""".strip().splitlines()

# Statements that change x.
WRITES = """
x[0] = 7
x[0, 1] = 7.5
x[0] = [7, 8, 9]
x[:] = [[1, 2, 3], [4, 5, 6]]
x[0] = np.array([1.0, 2.0, 3.0])
x[0] = np.float64(3)
x[0] = st.tensor([1.0, 2.0, 3.0])
x[0] = st.tensor([1, 2, 3])
x[0] = x[1].double()
x[x > 2] = 0
x[x > 2] = -x[x > 2]
x[st.tensor([1, 0])] = x.clone()
x[i[:2] % 2] = x.clone()
x[[1, 0]] = x.clone()
x[[0, 1], [0, 2]] = 9
x[np.array([0, 1]), 1] = 9
x[b.cpu()] = 0
x[:, [0, 2]] = x[:, [1, 1]]
x[0, [0, 2]] = 4
x[..., 0] = 4
x[None] = 4
x[True] = 4
x[0] = True
x[0:1, ::2] = 5
x.T[0] = 5
x[0] += 1
x *= st.tensor(2.0)
x.T.mul_(2)
x[0].zero_()
x.copy_(st.ones(3))
x.copy_(i[:3])
x.data[0] = 5
x.data = x.data * 2
x.copy_(x.cpu() * 3)
x.diagonal().mul_(3)
x.view(-1)[2:4].fill_(1)
""".strip().splitlines()


def names(device: str) -> dict[str, Any]:
    import numpy as np

    x = st.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).to(device)
    return {
        "x": x,
        "q": st.arange(48.0).reshape(2, 3, 4, 2).to(device),
        "z": st.tensor([1 + 2j, 3 - 1j]).to(device),
        "i": st.tensor([1, 2, 3, 0]).to(device),
        "b": st.tensor([[True, False, True], [False, True, True]]).to(device),
        "st": st,
        "np": np,
        "copy": copy,
    }


def plain(value: Any, device: str) -> Any:
    """A value that can be compared, after a check of its device."""
    if isinstance(value, st.Tensor):
        assert value.device.type == device
        return (str(value.dtype), tuple(value.shape), value.tolist(), value.requires_grad)
    if isinstance(value, (list, tuple)):
        return [plain(v, device) for v in value]
    return value


@pytest.mark.parametrize("expression", SAME)
def test_as_on_the_cpu(cp: Any, expression: str) -> None:
    expected = plain(eval(expression, names("cpu")), "cpu")
    assert plain(eval(expression, names("cuda")), "cuda") == expected


@pytest.mark.parametrize("expression", ERRORS)
def test_errors_as_on_the_cpu(cp: Any, expression: str) -> None:
    raised = []
    for device in ("cpu", "cuda"):
        with pytest.raises(Exception) as caught:
            eval(expression, names(device))
        raised.append(caught.value)
    assert type(raised[0]) is type(raised[1])
    start, other = (str(error).lower()[:25] for error in raised)
    assert start == other


@pytest.mark.parametrize("statement", WRITES)
def test_writes_as_on_the_cpu(cp: Any, statement: str) -> None:
    results = []
    for device in ("cpu", "cuda"):
        scope = names(device)
        exec(statement, scope)
        results.append(plain(scope["x"], device))
    assert results[0] == results[1]


def test_printing_names_the_device(cp: Any) -> None:
    x = st.tensor([[1.0, 2.0], [3.0, 4.0]]).cuda()
    assert repr(x) == "tensor([[1., 2.],\n        [3., 4.]], device='cuda:0')"
    assert f"{x}" == str(x) == repr(x)
    assert repr(x[:0]) == "tensor([], device='cuda:0', size=(0, 2))"
    assert "device='cuda:0', requires_grad=True" in repr(x.clone().requires_grad_())
    assert "..." in repr(st.arange(2000).cuda())


def test_hash_and_identity(cp: Any) -> None:
    x = st.ones(2).cuda()
    assert hash(x) == id(x)
    assert {x: 1}[x] == 1


# ---------------------------------------------------------------- old types


def test_old_types_name_the_device(cp: Any) -> None:
    x = st.ones(2)
    assert x.cuda().type() == "shmtensor.cuda.FloatTensor"
    assert st.typename(x.cuda().long()) == "shmtensor.cuda.LongTensor"
    y = x.type("shmtensor.cuda.DoubleTensor")
    assert (y.is_cuda, y.dtype) == (True, st.float64)
    assert not y.type("shmtensor.FloatTensor").is_cuda
    assert x.type("torch.cuda.FloatTensor").is_cuda
    with pytest.raises(RuntimeError, match="no such device: 'mps'"):
        x.to("mps")
    assert not y.type(st.FloatTensor).is_cuda
    assert x.type(cuda.HalfTensor).type() == "shmtensor.cuda.HalfTensor"
    assert y.type(st.int8).is_cuda
    assert isinstance(y, cuda.DoubleTensor)
    assert not isinstance(y, st.DoubleTensor)
    assert isinstance(y.cpu(), st.DoubleTensor)


@pytest.mark.parametrize("cls", [
    cuda.BoolTensor, cuda.ByteTensor, cuda.CharTensor, cuda.DoubleTensor, cuda.FloatTensor,
    cuda.HalfTensor, cuda.IntTensor, cuda.LongTensor, cuda.ShortTensor,
])  # fmt: skip
def test_old_constructors(cp: Any, cls: Any) -> None:
    x = cls([1, 0, 1])
    assert x.is_cuda
    assert x.dtype is cls.dtype
    assert x.tolist() == [1, 0, 1]
    assert cls(2, 3).shape == (2, 3)
    assert isinstance(x, cls)


# ---------------------------------------------------------------- what a GPU has not


def test_python_functions_are_for_the_cpu(cp: Any) -> None:
    x = st.ones(2).cuda()
    for name, call in (
        ("apply_", lambda: x.apply_(lambda v: v)),
        ("map_", lambda: x.map_(x, lambda a, b: a)),
        ("map2_", lambda: x.map2_(x, x, lambda a, b, c: a)),
    ):
        with pytest.raises(TypeError, match=f"{name} is only implemented on CPU tensors"):
            call()


def test_no_read_only_memory_and_no_pinning(cp: Any) -> None:
    x = st.ones(2).cuda()
    with pytest.raises(RuntimeError, match="cannot be read-only"):
        x.share(readonly=True)
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        x.pin_memory()


def test_storages_move(cp: Any) -> None:
    storage = st.arange(3).cuda().storage()
    assert storage.is_cuda
    assert str(storage.device) == "cuda:0"
    assert storage.cuda() is storage
    assert storage.cpu().tolist() == [0, 1, 2]
    assert not storage.cpu().is_cuda
    assert storage.cpu().cuda().is_cuda
    assert storage.is_shared()


# ---------------------------------------------------------------- moving


def test_dense_strides_stay(cp: Any) -> None:
    x = st.arange(24.0).reshape(1, 2, 3, 4).to(memory_format=st.channels_last)
    y = x.cuda()
    assert y.stride() == x.stride()
    assert y.cpu().stride() == x.stride()
    assert y.is_contiguous(memory_format=st.channels_last)
    assert x.T.cuda().cpu().stride() == x.T.stride() if x.ndim == 2 else True
    assert st.arange(12).reshape(3, 4)[:, ::2].cuda().stride() == (2, 1)
    assert x.to("cuda", memory_format=st.contiguous_format).is_contiguous()
    assert y.cpu().tolist() == x.tolist()


def test_two_devices(two_devices: Any, cp: Any) -> None:
    x = st.arange(6.0).reshape(2, 3)
    a, b = x.cuda(0), x.T.cuda(1)
    assert b.stride() == (1, 3)
    assert a.to(b).device == b.device
    assert (a + 1).to("cuda:1").tolist() == (x + 1).tolist()  # in the order of the work
    assert a.clone().copy_(b.T).tolist() == x.tolist()
    assert (b + 1).T.add_(1).tolist() == (x + 2).tolist()
    b[0] = a[:, 0]
    b[b > 4] = 0
    assert b.tolist() == [[0, 3], [1, 4], [2, 0]]
    with pytest.raises(RuntimeError, match=r"cuda:0.*cuda:1"):
        a + b.T
    with pytest.raises(RuntimeError, match=r"tensor \(cuda:0\): an index .* on cuda:1"):
        a[st.tensor([0]).cuda(1)]
    with pytest.raises(RuntimeError, match=r"destination .* is on cuda:0.*value .* on cuda:1"):
        a[[0, 1]] = b.T


def test_mixed_devices_are_named(cp: Any) -> None:
    x = st.ones(2, 3)
    y = x.cuda()
    with pytest.raises(RuntimeError, match=r"on cuda:0, other of shape \(2, 3\) is on cpu"):
        y - x
    with pytest.raises(
        RuntimeError, match=r"same device as the indexed tensor \(cpu\).* on cuda:0"
    ):
        x[st.tensor([0]).cuda()]
    with pytest.raises(RuntimeError, match=r"destination .* on cuda:0, the value .* on cpu"):
        y[[0, 1]] = x
    with pytest.raises(RuntimeError, match=r"out is on cpu, the result .* is on cuda:0"):
        st.add(y, y, out=st.empty(2, 3))
    assert (y + st.tensor(1.0)).tolist() == (x + 1).tolist()  # 0-d tensors on the CPU are numbers
