"""Tensors of PyTorch and arrays of JAX in messages: as handles if they are in our memory, else
copied once into it; they arrive as what they were, and never by a descriptor of PyTorch's own.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from typing import Any

import foreign_workers
import numpy as np
import pytest
from foreign_workers import run_alone, through

import shmtensor as st
from shmtensor import memory, native
from shmtensor import multiprocessing as mp
from shmtensor.multiprocessing.reduction import dumps, loads

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

LONG = 60.0
METHODS = ("fork", "spawn")


def shared(x: Any) -> bool:
    return bool(native.is_shared(x.data_ptr()))


def of_every_layout() -> list[Any]:
    x = torch.arange(24.0).reshape(2, 3, 4)
    image = torch.rand(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    return [x, x.t() if x.ndim == 2 else x.permute(2, 0, 1), image, torch.tensor(3.5), x[:0], x[1]]


@pytest.mark.parametrize("index", range(6))
def test_private_memory_is_copied_once_and_keeps_its_layout(index: int) -> None:
    x = of_every_layout()[index]
    y = through(x)
    assert type(y) is torch.Tensor
    assert torch.equal(x, y)
    assert (y.shape, y.stride(), y.dtype) == (x.shape, x.stride(), x.dtype)
    assert not y.numel() or y.data_ptr() != x.data_ptr()
    assert not y.numel() or shared(y)


@pytest.mark.parametrize(
    "view", [lambda s: s, lambda s: s.T, lambda s: s[:, 1:], lambda s: s[::2, ::3], lambda s: s[1]]
)
def test_memory_of_ours_travels_as_a_handle(view: Callable[[Any], Any]) -> None:
    base = st.zeros(4, 6)
    x = torch.from_dlpack(view(base))
    data, blocks = dumps(x)
    assert len(blocks) == 1
    assert len(data) < 250
    y = through(x)
    assert (y.data_ptr(), y.shape, y.stride()) == (x.data_ptr(), x.shape, x.stride())
    y += 1
    assert base.sum().item() == x.numel()


def test_one_block_for_all_views_of_it() -> None:
    base = st.zeros(10)
    x = torch.from_numpy(base.numpy())
    message = {"theirs": [x, x[2:]], "ours": base, "array": base.numpy()[1:]}
    assert len(dumps(message)[1]) == 1
    received = through(message)
    received["theirs"][1][0] = 5
    assert received["ours"][2].item() == received["array"][1] == 5
    parameter = torch.nn.Parameter(torch.ones(2))
    a, b = through([parameter, parameter])
    assert a is b


NAMES = ("bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
         "float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128",
         "float8_e4m3fn", "float8_e5m2")  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_dtype(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # complex32 is experimental
        x = torch.arange(6).reshape(2, 3).t().to(getattr(torch, name))
        y = through(x)
        assert (y.dtype, y.stride()) == (x.dtype, x.stride())
        integer = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
        if x.element_size() <= 8:
            assert torch.equal(x.view(integer[x.element_size()]), y.view(integer[x.element_size()]))
        else:
            assert torch.equal(x, y)


def test_lazy_conjugates_and_negatives_arrive_resolved() -> None:
    x = torch.tensor([1 + 2j, 3 - 4j])
    for lazy in (x.conj(), x.conj().imag, torch.from_dlpack(st.tensor([1j])).conj()):
        y = through(lazy)
        assert torch.equal(y, lazy)
        assert not y.is_conj()
        assert not y.is_neg()


def test_a_leaf_keeps_requires_grad_and_not_its_gradient() -> None:
    x = torch.ones(3, requires_grad=True)
    x.sum().backward()
    y = through(x)
    assert y.requires_grad
    assert y.is_leaf
    assert y.grad is None  # as with torch.multiprocessing
    for requires_grad in (True, False):
        parameter = torch.nn.Parameter(torch.ones(3), requires_grad)
        y = through(parameter)
        assert type(y) is torch.nn.Parameter
        assert y.requires_grad is requires_grad
    with torch.no_grad():
        assert not through(torch.ones(3, requires_grad=True) * 2).requires_grad


def test_subclasses_storages_and_models() -> None:
    model = torch.nn.Sequential(
        torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.LSTM(3, 4), torch.nn.LazyLinear(2)
    )
    model[0].bias.requires_grad_(False)
    copy = through(model)
    for (name, x), (other, y) in zip(
        model.state_dict().items(), copy.state_dict().items(), strict=True
    ):
        assert name == other
        if not isinstance(x, torch.nn.UninitializedParameter):
            assert torch.equal(x, y)
            assert shared(y)
    assert isinstance(copy[3].weight, torch.nn.UninitializedParameter)
    assert not copy[0].bias.requires_grad
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.ones(2))])
    optimizer.param_groups[0]["params"][0].sum().backward()
    optimizer.step()
    state = through(optimizer.state_dict())
    assert torch.equal(state["state"][0]["exp_avg"], optimizer.state_dict()["state"][0]["exp_avg"])
    storage = through(torch.arange(3, dtype=torch.uint8).untyped_storage())
    assert type(storage) is torch.UntypedStorage
    assert list(storage) == [0, 1, 2]
    x = foreign_workers.Tagged.of(torch.ones(2), "tag")
    y = through(x)
    assert type(y) is foreign_workers.Tagged
    assert y.tag == "tag"
    assert torch.equal(torch.Tensor(y), torch.ones(2))


@pytest.mark.filterwarnings("ignore:Sparse", "ignore:.*sparse.*beta")
@pytest.mark.parametrize("layout", ["coo", "uncoalesced", "csr", "csc", "bsr", "bsc"])
def test_sparse_tensors_travel_as_their_parts(layout: str) -> None:
    base = st.tensor([3.0, 4.0, 5.0])
    values = torch.from_dlpack(base)
    dense = torch.zeros(4, 4)
    if layout in ("coo", "uncoalesced"):
        indices = torch.tensor([[0, 1, 1], [2, 0, 0 if layout == "uncoalesced" else 3]])
        x = torch.sparse_coo_tensor(indices, values, (4, 4), is_coalesced=layout == "coo")
        part = x._values()
    else:
        dense[0, 2] = 3
        block = (2, 2) if layout[0] == "b" else ()
        x = getattr(dense, f"to_sparse_{layout}")(*([block] if block else []))
        part = x.values()
    y = through([x, x])
    assert y[0] is y[1]
    assert (y[0].layout, y[0].shape, y[0].dtype) == (x.layout, x.shape, x.dtype)
    assert torch.equal(y[0].to_dense(), x.to_dense())
    if x.layout is torch.sparse_coo:
        assert y[0].is_coalesced() is x.is_coalesced()
        assert y[0]._values().data_ptr() == part.data_ptr() == base.data_ptr()
    assert through(x.requires_grad_()).requires_grad


def refused() -> dict[str, tuple[Any, str]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = torch.ones(3)
        return {
            "non-leaf": (torch.ones(3, requires_grad=True) * 2, r"\(3,\), .*non-leaf.*detach"),
            "meta": (
                torch.ones(3, device="meta"),
                r"\(3,\), torch.float32 .*not on the CPU: on meta",
            ),
            "quantized": (
                torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
                r"it is quantised: torch.qint8, use .*int_repr",
            ),
            "nested": (torch.nested.nested_tensor([x, x[:2]]), r"it is nested, use x.unbind\(\)"),
            "storage": (torch.ones(3, device="meta").untyped_storage(), "Storage .*device meta"),
            "typed storage": (x.storage(), "TypedStorage .*untyped"),
        }


@pytest.mark.parametrize("name", refused())
def test_what_cannot_be_sent_is_named(name: str) -> None:
    x, text = refused()[name]
    for message in (x, [1, {"x": x}]):
        with pytest.raises(RuntimeError, match=f"(?s)cannot be sent.*|{text}") as error:
            dumps(message)
        assert error.match(text)
    queue: Any = mp.SimpleQueue()
    with pytest.raises(RuntimeError, match=text):
        queue.put(x)
    queue.put("next")
    assert queue.get() == "next"
    queue.close()


@pytest.mark.parametrize(
    ("method", "kind"),
    [("fork", "Queue"), ("fork", "SimpleQueue"), ("fork", "JoinableQueue"), ("spawn", "Queue")],
)
def test_queues_there_and_back(method: str, kind: str) -> None:
    context: Any = mp.get_context(method)
    inbox, outbox = getattr(context, kind)(), getattr(context, kind)()
    process = context.Process(target=foreign_workers.echo, args=(inbox, outbox))
    process.start()
    base = st.zeros(4)
    sent = [torch.from_dlpack(base), torch.rand(3, 2), torch.ones(2, requires_grad=True)]
    for x in sent:
        inbox.put(x)
        y = outbox.get(timeout=LONG) if kind == "Queue" else outbox.get()
        assert torch.equal(x, y)
        assert y.requires_grad is x.requires_grad
        assert shared(y)
    inbox.put(sent)
    received = outbox.get()
    received[0][:] = 7
    assert base.tolist() == [7] * 4
    inbox.put(None)
    process.join(LONG)
    assert process.exitcode == 0
    for queue in (inbox, outbox):
        queue.close()


@pytest.mark.parametrize("method", METHODS)
def test_pipes_arguments_and_pools(method: str) -> None:
    context: Any = mp.get_context(method)
    base = st.zeros(4)
    x = torch.from_dlpack(base)
    out = context.SimpleQueue()
    process = context.Process(target=foreign_workers.describe_all, args=([x, torch.ones(2)], out))
    process.start()
    names = out.get()
    process.join(LONG)
    assert names[0] == ("torch.Tensor", "torch.float32", (4,), True)
    # A forked child inherits its arguments: what is private here is private there.
    assert names[1] == ("torch.Tensor", "torch.float32", (2,), method == "spawn")
    near, far = context.Pipe()
    near.send(x)
    far.recv().add_(1)
    assert base.tolist() == [1] * 4
    near.close()
    far.close()
    out.close()
    with context.Pool(1) as pool:
        result = pool.apply(foreign_workers.double, (x,))
        assert type(result) is torch.Tensor
        assert result.tolist() == [2] * 4
        assert shared(result)
        assert pool.map(foreign_workers.total, [x, torch.ones(3)]) == [4, 3]


def test_a_model_is_trained_by_its_receiver() -> None:
    context: Any = mp.get_context("fork")
    inbox, outbox = context.SimpleQueue(), context.SimpleQueue()
    process = context.Process(target=foreign_workers.train_step, args=(inbox, outbox))
    process.start()
    model = torch.nn.Linear(2, 1)
    before = [p.detach().clone() for p in model.parameters()]
    inbox.put(model)
    weight, bias = outbox.get()
    process.join(LONG)
    assert torch.allclose(weight, before[0] - 0.5)
    assert torch.allclose(bias, before[1] - 0.5)
    assert torch.equal(model.weight, before[0])  # the model was private: the receiver has a copy
    inbox.close()
    outbox.close()


@pytest.mark.parametrize("method", METHODS)
def test_the_memory_outlives_its_producer(method: str) -> None:
    context: Any = mp.get_context(method)
    out, ready = context.SimpleQueue(), context.Event()
    process = context.Process(target=foreign_workers.send_torch_and_die, args=(out, ready))
    process.start()
    x = out.get()
    ready.set()
    process.join(LONG)
    assert process.exitcode == -9
    assert torch.equal(x, torch.arange(10_000))
    x += 1
    assert x[-1] == 10_000
    out.close()


def test_a_received_block_is_free_when_the_tensor_is() -> None:
    before = memory.statistics().shared_blocks
    y = through(torch.ones(1000))
    assert memory.statistics().shared_blocks > before
    z = y[2:].view(2, 499)
    del y
    assert z.sum() == 998
    del z
    gc.collect()
    assert memory.statistics().shared_blocks == before


def test_shared_containers_keep_the_class_by_value() -> None:
    x = torch.arange(3.0)
    elements = st.SharedList([x, [torch.nn.Parameter(x.clone())]])
    assert torch.equal(elements[0], x)
    assert type(elements[0]) is torch.Tensor
    assert type(elements[1][0]) is torch.nn.Parameter
    table = st.SharedDict({"x": x})
    assert torch.equal(table["x"], x)


def test_queues_of_the_standard_library_are_left_to_pytorch() -> None:
    """The reductions that torch.multiprocessing registered with the standard library stay."""
    from multiprocessing.reduction import ForkingPickler

    registered = vars(ForkingPickler)["_extra_reducers"]
    assert registered[torch.Tensor].__module__.startswith("torch.")
    assert registered[st.Tensor].__module__.startswith("shmtensor.")


def run_with_jax(code: str) -> None:
    pytest.importorskip("jax")
    start = """
        import jax, jax.numpy as jnp
        def same(x, y):
            assert isinstance(y, jax.Array), type(y)
            assert (x.dtype, x.shape, x.weak_type) == (y.dtype, y.shape, y.weak_type)
            assert np.array_equal(np.asarray(x), np.asarray(y))
    """
    run_alone(start + code)


def test_jax_arrays_within_a_message() -> None:
    run_with_jax(r"""
        base = st.zeros(64)
        x = jax.dlpack.from_dlpack(base)
        data, blocks = dumps([x, base])
        assert len(blocks) == 1 and len(data) < 250
        y, _ = through([x, base])
        same(x, y)
        assert y.unsafe_buffer_pointer() == x.unsafe_buffer_pointer() == base.data_ptr()
        for name in ("bool_", "uint8", "int8", "int16", "int32", "uint32", "float16", "bfloat16",
                     "float32", "complex64", "int4", "float8_e5m2", "float8_e4m3fn"):
            for shape in ((24,), (2, 12), (2, 3, 4), (), (0, 3)):
                x = jnp.ones(shape).astype(getattr(jnp, name))
                y = through(x)
                same(x, y)
                if x.size and name not in ("int4", "float8_e5m2", "float8_e4m3fn"):
                    assert native.is_shared(np.asarray(y)), (name, shape)
        weak = jnp.sin(1.0)
        assert weak.weak_type
        same(weak, through(weak))
        key = jax.random.key(3)
        assert (jax.random.key_data(key) == jax.random.key_data(through(key))).all()
        tree = through({"w": jnp.ones((2, 3)), "b": [jnp.zeros(3), 1.5]})
        assert jax.tree.map(jnp.shape, tree) == {"w": (2, 3), "b": [(3,), ()]}
        def f(v):
            with pytest.raises(RuntimeError, match=r"jax.Array of shape \(3,\), float32 .*traced"):
                dumps(v)
            return v
        jax.jit(f)(jnp.ones(3))
        gone = jnp.ones(3)
        gone.delete()
        with pytest.raises(RuntimeError, match="cannot be sent .*deleted"):
            dumps(gone)
        y = through(jnp.arange(1000.0))
        (y + y).block_until_ready()
        assert y.sum() == 499500
    """)


def test_jax_arrays_between_processes() -> None:
    run_with_jax(r"""
        context = mp.get_context("spawn")
        inbox, outbox = context.Queue(), context.SimpleQueue()
        process = context.Process(target=foreign_workers.echo, args=(inbox, outbox))
        process.start()
        base = st.zeros(64)
        view = jax.dlpack.from_dlpack(base)
        for x in (view, jnp.arange(10.0), jnp.ones((3, 4), jnp.bfloat16), jnp.float32(2)):
            inbox.put(x)
            y = outbox.get()
            same(x, y)
            assert native.is_shared(np.asarray(y))
        inbox.put(view)
        assert outbox.get().unsafe_buffer_pointer() == base.data_ptr()
        inbox.put(None)
        process.join(60)
        assert process.exitcode == 0
        inbox.close()
        process = context.Process(target=foreign_workers.jax_of, args=([1.0, 2.0], outbox))
        process.start()
        y = outbox.get()
        process.join(60)
        assert y.tolist() == [1, 2]  # the producer has ended
        process = context.Process(target=foreign_workers.describe_all, args=([view, y], outbox))
        process.start()
        assert [d[-1] for d in outbox.get()] == [True, True]
        process.join(60)
        outbox.close()
    """)


def test_several_devices_are_named() -> None:
    run_with_jax(r"""
        jax.config.update("jax_num_cpu_devices", 2)
        x = jax.device_put(jnp.ones(4), jax.devices()[1])
        mesh = jax.make_mesh((2,), ("x",))
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
        split = jax.device_put(jnp.ones(4), sharding)
        with pytest.raises(RuntimeError, match=r"\(4,\), float32 .*it is on .*, .*device_get"):
            dumps(split)
        assert through(x).tolist() == [1] * 4
    """)


def test_numpy_still_travels_as_before() -> None:
    private = np.ones(3)
    data, blocks = dumps(private)
    assert not blocks
    assert loads(data, []).tolist() == [1, 1, 1]


@pytest.mark.parametrize("method", METHODS)
def test_shared_containers_hold_arrays_of_other_libraries_in_their_block(method: str) -> None:
    tensors = {
        "image": torch.arange(600.0).reshape(20, 30),
        "transposed": torch.arange(6.0).reshape(2, 3).t(),
        "half": [torch.ones(4, dtype=torch.bfloat16), torch.tensor(7)],
        "leaf": torch.ones(2, requires_grad=True),
    }
    container = st.SharedDict(tensors, readonly=False)
    image = container["image"]
    assert shared(image)
    assert image.data_ptr() == container["image"].data_ptr()
    assert torch.equal(image, tensors["image"])
    assert container["transposed"].stride() == (1, 3)
    assert torch.equal(container["half"][0], tensors["half"][0])
    assert container["half"][1].item() == 7
    assert container["leaf"].requires_grad  # by pickle
    context = mp.get_context(method)
    inbox, outbox = context.Queue(), context.Queue()
    worker = context.Process(target=foreign_workers.add_one_in_place_of_item, args=(inbox, outbox))
    worker.start()
    inbox.put((container, "image"))
    assert outbox.get(timeout=LONG) == "torch.Tensor"
    worker.join(LONG)
    assert worker.exitcode == 0
    assert torch.equal(image, tensors["image"] + 1)
    for queue in (inbox, outbox):
        queue.close()


def test_a_readonly_container_gives_copies_of_tensors_that_pytorch_could_write_to() -> None:
    x = torch.arange(300.0)
    container = st.SharedList([x])
    container[0].add_(1)
    assert torch.equal(container[0], x)
    assert not shared(container[0])
