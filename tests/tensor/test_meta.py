"""Tensors on the device "meta": shapes, dtypes and strides without data, and what needs data."""

from __future__ import annotations

import copy
import io
import multiprocessing
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native
from shmtensor.multiprocessing import Pipe, reduction


def meta(*shape: int, **options: Any) -> st.Tensor:
    return st.empty(shape, device="meta", **options)


def layout(x: Any) -> Any:
    return tuple(x.shape), str(x.dtype), x.stride()


def test_it_says_where_it_is() -> None:
    x = meta(2, 3)
    assert x.is_meta
    assert (x.is_cpu, x.is_cuda, st.ones(1).is_meta) == (False, False, False)
    assert x.device == st.device("meta")
    assert x.device.type == "meta"
    assert (x.get_device(), x.data_ptr(), x.nbytes, x.numel()) == (-1, 0, 24, 6)
    assert x.type() == "shmtensor.meta.FloatTensor"
    assert not x.is_shared()
    assert x.share_memory_() is x


def test_text() -> None:
    assert repr(meta(2, 3)) == "tensor(..., device='meta', size=(2, 3))"
    assert repr(meta(0, dtype=st.float16).requires_grad_()) == (
        "tensor(..., device='meta', size=(0,), dtype=shmtensor.float16, requires_grad=True)"
    )
    assert f"{meta()}" == "tensor(..., device='meta', size=())"


FACTORIES: list[Callable[[Any], Any]] = [
    lambda d: st.empty(2, 3, device=d),
    lambda d: st.zeros(2, 3, dtype=st.int16, device=d),
    lambda d: st.ones((), device=d),
    lambda d: st.full((2, 3), 7, device=d),
    lambda d: st.full((2, 3), 2.5, device=d),
    lambda d: st.tensor([[1, 2], [3, 4]], device=d),
    lambda d: st.tensor(np.ones((3, 4)), device=d),
    lambda d: st.as_tensor([1.0, 2.0], device=d),
    lambda d: st.arange(10, device=d),
    lambda d: st.arange(1, 10, 2.5, device=d),
    lambda d: st.arange(10, 1, -3, device=d),
    lambda d: st.linspace(0, 1, 100, device=d),
    lambda d: st.logspace(0, 1, 5, device=d),
    lambda d: st.eye(3, 4, device=d),
    lambda d: st.rand(2, 3, device=d),
    lambda d: st.randn(2, 3, dtype=st.complex64, device=d),
    lambda d: st.randint(5, (2, 3), device=d),
    lambda d: st.randperm(50, device=d),
    lambda d: st.normal(0, 1, (2, 3), device=d),
    lambda d: st.tril_indices(4, 5, device=d),
    lambda d: st.hann_window(60, device=d),
    lambda d: st.scalar_tensor(3, device=d),
    lambda d: st.empty_strided((2, 3), (1, 2), device=d),
    lambda d: st.empty(2, 3, 4, 5, memory_format=st.channels_last, device=d),
    lambda d: st.empty(2, 3, dtype=st.bfloat16, device=d),
    lambda d: st.empty_like(st.ones(2, 3).t(), device=d),
    lambda d: st.randn_like(st.ones(2, 3), device=d),
    lambda d: st.zeros_like(st.empty(2, 3, device=d), dtype=st.int8),
    lambda d: st.empty(2, 3, device=d).new_ones(4),
    lambda d: st.empty(2, 3, device=d).new_tensor([1.0]),
    lambda d: st.rand(2, 3).t().to(d),
    lambda d: st.rand(2, 3, 4).permute(2, 0, 1).to(d, st.float64),
]


@pytest.mark.parametrize("make", FACTORIES, ids=range(len(FACTORIES)))
def test_new_tensors_have_the_layout_of_the_cpu(make: Callable[[Any], Any]) -> None:
    x = make("meta")
    assert x.is_meta
    assert layout(x) == layout(make("cpu"))


def test_in_a_with_block_new_tensors_have_no_data() -> None:
    with st.device("meta"):
        assert st.ones(2).is_meta
        assert st.tensor([1, 2]).is_meta
        assert st.get_default_device() == st.device("meta")
        with st.device("cpu"):
            assert st.ones(2).is_cpu
        assert st.rand(2, device="cpu").is_cpu
    assert st.ones(2).is_cpu


def test_no_random_numbers_are_drawn() -> None:
    before = st.get_rng_state()
    x = meta(100, 100)
    x.uniform_(), x.normal_(), x.bernoulli_(), x.random_(), x.exponential_()
    st.rand_like(x), st.bernoulli(x), st.nn.functional.dropout(x)
    st.nn.init.kaiming_uniform_(x)
    st.nn.init.orthogonal_(x)
    st.nn.init.trunc_normal_(x)
    assert st.equal(st.get_rng_state(), before)


NEEDS_VALUES: list[tuple[str, Callable[[Any], Any]]] = [
    ("item", lambda x: x.sum().item()),
    ("item", lambda x: bool(x.sum())),
    ("item", lambda x: int(x.sum())),
    ("item", lambda x: st.allclose(x, x)),
    ("item", lambda x: 1 in x),
    ("tolist", lambda x: x.tolist()),
    ("nonzero", lambda x: x.nonzero()),
    ("where", lambda x: st.where(x > 0)),
    ("unique", lambda x: x.unique()),
    ("bincount", lambda x: x.long().flatten().bincount()),
    ("repeat_interleave", lambda x: st.repeat_interleave(x.long()[0])),
    ("one_hot", lambda x: st.nn.functional.one_hot(x.long())),
    ("indexing", lambda x: x[x > 0]),
    ("masked_select", lambda x: x.masked_select(x > 0)),
    ("to", lambda x: x.cpu()),
    ("to", lambda x: x.to("cpu")),
    ("to", lambda x: st.ones(2, 3).copy_(x)),
]


@pytest.mark.parametrize(("name", "call"), NEEDS_VALUES)
def test_what_needs_values_is_refused_by_name(name: str, call: Callable[[Any], Any]) -> None:
    with pytest.raises(NotImplementedError, match=rf"^{name}: .*no data"):
        call(meta(2, 3))


def test_other_libraries_get_no_array() -> None:
    for read in (lambda x: x.numpy(), np.asarray):
        with pytest.raises(TypeError, match=r"numpy: meta tensors have no data: shape \(2, 3\)"):
            read(meta(2, 3))
    with pytest.raises(BufferError, match="no data"):
        np.from_dlpack(meta(2, 3))


def test_operands_with_data_are_refused() -> None:
    x = meta(2, 3)
    for call in (
        lambda: x + st.ones(3),
        lambda: st.ones(2, 3) @ x.t(),
        lambda: st.cat([x, st.ones(1, 3)]),
    ):
        with pytest.raises(RuntimeError, match="to be on the same device: one operand is on meta"):
            call()
    assert (x * st.tensor(2.0)).is_meta
    assert x[st.tensor([True, False])].shape == (1, 3)  # a mask on the CPU has values
    assert x[:, st.tensor([2, 0])].shape == (2, 2)


def test_writes_check_shapes_and_count() -> None:
    x = meta(2, 3)
    x[0] = 5
    x[:, 1] = st.ones(2)
    x.copy_(st.ones(3)).add_(1).zero_()
    assert x._version == 5
    assert st.add(x, x, out=meta(2, 3)).is_meta
    with pytest.raises(RuntimeError):
        x.add_(meta(4, 2, 3))


def test_views_share_their_memory() -> None:
    x = meta(4, 6)
    view = x.t()[2:, 1]
    assert (view.stride(), view.storage_offset()) == ((1,), 8)
    assert view._base is x
    assert view.untyped_storage().nbytes() == 96
    assert view.untyped_storage() == x.untyped_storage()
    assert view.untyped_storage().device.type == "meta"
    assert layout(x.as_strided((2, 2), (1, 7), 3)) == ((2, 2), "shmtensor.float32", (1, 7))
    with pytest.raises(RuntimeError, match="out of bounds"):
        x.as_strided((5, 5), (6, 1))
    with pytest.raises(RuntimeError, match="view: no view of these strides"):
        x.t().view(-1)
    assert x.clone().resize_(10, 10).shape == (10, 10)
    assert st.empty(0, device="meta").set_(x).shape == (4, 6)


def rebuilt(x: Any) -> list[Any]:
    """A tensor after each transport."""
    file = io.BytesIO()
    st.save(x, file)
    file.seek(0)
    parts = reduction.dumps(x)
    ours, theirs = Pipe(), multiprocessing.Pipe()
    received = []
    for sender, receiver in (ours, theirs):
        sender.send(x)
        received.append(receiver.recv())
        sender.close(), receiver.close()
    return [
        copy.deepcopy(x),
        pickle.loads(pickle.dumps(x)),
        st.load(file),
        reduction.loads(*parts),
        *received,
    ]


@pytest.mark.parametrize(
    "make",
    [
        lambda: meta(2, 3),
        lambda: meta(2, 3).t(),
        lambda: meta(4, 6)[1:, ::2],
        lambda: meta(3, dtype=st.bfloat16).requires_grad_(),
        lambda: meta(2, 3, 4, 5, memory_format=st.channels_last),
    ],
)
def test_copies_and_messages_have_the_layout(make: Callable[[], Any]) -> None:
    x = make()
    for y in rebuilt(x):
        assert y.is_meta
        assert (y.shape, y.dtype, y.requires_grad) == (x.shape, x.dtype, x.requires_grad)
    assert layout(copy.deepcopy(x)) == layout(x)
    assert layout(pickle.loads(pickle.dumps(x))) == layout(x)


def test_views_in_one_pickle_share_their_memory() -> None:
    x = meta(4, 6)
    a, b = pickle.loads(pickle.dumps([x, x[1:]]))
    assert b.storage_offset() == 6
    assert b.untyped_storage() == a.untyped_storage()


def test_loading_to_meta() -> None:
    file = io.BytesIO()
    x = st.ones(4, 6)
    st.save({"x": x, "row": x[1], "mask": x > 0}, file)
    file.seek(0)
    loaded = st.load(file, map_location="meta")
    assert all(y.is_meta for y in loaded.values())
    assert loaded["row"].untyped_storage() == loaded["x"].untyped_storage()
    assert loaded["mask"].dtype == st.bool


def test_gradients() -> None:
    x, y = meta(4, 6).requires_grad_(), meta(6, 5, requires_grad=True)
    for _ in range(2):
        (x @ y).relu().log_softmax(1)[:, :3].mean().backward()
    assert x.requires_grad
    assert x.grad is not None
    assert y.grad is not None
    assert x.grad.is_meta
    assert (x.grad.shape, y.grad.shape) == ((4, 6), (6, 5))
    (gradient,) = st.autograd.grad((x.sin() * x).sum(), x, create_graph=True)
    assert gradient.requires_grad
    assert st.autograd.grad(gradient.sum(), x)[0].shape == (4, 6)
    assert not x.detach().requires_grad


def test_a_write_in_the_graph() -> None:
    x = meta(4, 6, requires_grad=True)
    y = x * 1
    y[0] = meta(6)
    y[1:].mul_(2)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.shape == (4, 6)


def test_numpys_functions_give_tensors() -> None:
    assert np.add(meta(2, 3), 1).shape == (2, 3)
    assert np.sum(meta(2, 3), axis=1).shape == (2,)
    assert np.concatenate([meta(2, 3), meta(4, 3)]).is_meta


def test_what_is_for_the_cpu_alone() -> None:
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        meta(2).pin_memory()
    with pytest.raises(TypeError, match="only implemented on CPU tensors"):
        meta(2).apply_(abs)


def test_batches_of_a_loader() -> None:
    data = st.utils.data.TensorDataset(meta(4, 3), st.empty(4, device="meta", dtype=st.int64))
    batches = list(st.utils.data.DataLoader(data, 2))
    assert [[tuple(x.shape) for x in batch] for batch in batches] == [[(2, 3), (2,)]] * 2
    assert all(x.is_meta for batch in batches for x in batch)


def test_too_many_elements() -> None:
    with pytest.raises(RuntimeError, match="too many elements"):
        meta(2**31, 2**31)
    with pytest.raises((RuntimeError, ValueError), match="negative"):
        meta(-1)


def test_the_table_has_rules_of_its_own() -> None:
    """Calls on the CPU do not pass by those of "meta"."""
    meta(1)
    x = st.ones(3) + 1
    assert isinstance(x.array, np.ndarray)
    assert native.is_array(meta(1).array)
