"""What a message holds: handles for shared memory, values for the rest, clear refusals."""

from __future__ import annotations

import gc
import multiprocessing as stdlib
import pickle
import sys
import textwrap
import time

import numpy as np
import pytest

import shmtensor as st
from shmtensor import memory, native, nn
from shmtensor import multiprocessing as mp
from shmtensor.multiprocessing.reduction import dumps, loads
from tests.environment import run_program


def through(obj: object) -> object:
    """A message's way, within this process."""
    data, blocks = dumps(obj)
    return loads(data, [native.receive(native.export(block)) for block in blocks])


@pytest.mark.parametrize(
    "dtype",
    ["bool", "uint8", "int16", "int64", "float16", "bfloat16", "float32", "float64", "complex64"],
)
def test_every_dtype(dtype: str) -> None:
    x = st.zeros(3, dtype=getattr(st, dtype))
    result = through(x)
    assert result.dtype == x.dtype
    assert result.data_ptr() == x.data_ptr()


@pytest.mark.parametrize("dtype", [">f4", "datetime64[s]", [("a", "i4"), ("b", "f8")], "U3"])
def test_arrays_of_other_dtypes(dtype: object) -> None:
    with memory.shared_numpy():
        array = np.zeros(4, dtype)
    result = through(array)
    assert result.dtype == array.dtype
    assert result.ctypes.data == array.ctypes.data


def test_private_arrays_and_objects_go_by_value() -> None:
    private = np.ones(3)
    with memory.shared_numpy():
        objects = np.array([{}, None], object)
    result, other = through([private, objects])
    assert not native.is_shared(result)
    assert other.tolist() == [{}, None]


def test_memory_from_outside_is_copied_once_and_does_not_alias() -> None:
    private = np.ones(4, np.float32)
    tensor = st.from_numpy(private)
    with pytest.warns(UserWarning, match="sent as a copy"):
        result = through(tensor)
    assert result.is_shared()
    result += 1
    assert private.tolist() == [1] * 4


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1, 1), (5,)])
def test_scalars_and_nothing_keep_their_shape(shape: tuple[int, ...]) -> None:
    x = st.ones(shape)
    result = through(x)
    assert result.shape == shape
    assert result.tolist() == x.tolist()


LAYOUTS = {
    "permuted": lambda x: x.permute(2, 0, 1),
    "every other": lambda x: x[:, ::2],
    "expanded": lambda x: x[:1, :1].expand(5, 2, 4),
    "an element": lambda x: x[1, 2, 3],
    "end": lambda x: x[1:, 1:, 1:],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout_is_the_same_memory(layout: str) -> None:
    x = LAYOUTS[layout](st.arange(24.0).reshape(2, 3, 4))
    result = through(x)
    assert (result.shape, result.stride(), result.data_ptr()) == (x.shape, x.stride(), x.data_ptr())
    assert result.tolist() == x.tolist()


def test_arrays_with_negative_strides() -> None:
    with memory.shared_numpy():
        array = np.arange(6.0)
    backwards = array[::-1]
    result, full = through([backwards, array])
    assert result.strides == (-8,)
    result[0] = -1
    assert full[5] == array[5] == -1
    backwards = st.from_numpy(array[::-1].copy()).share_memory_()
    assert through(backwards).tolist() == [-1, 4, 3, 2, 1, 0]


def test_overlapping_views_are_one_block_sent_once() -> None:
    x = st.arange(10.0)
    views = [x[i : i + 3] for i in range(8)]
    data, blocks = dumps(views)
    assert len(blocks) == 1
    assert len(data) < 1000
    result = through(views)
    result[0][2] = 50
    assert [result[i][2 - i].item() for i in range(3)] == [50, 50, 50]
    assert x[2].item() == 50


def test_complex_numbers_their_parts_and_conjugates() -> None:
    x = st.tensor([1 + 2j, 3 + 4j])
    result, imaginary, conjugate = through([x, x.imag, x.conj()])
    imaginary.add_(1)
    assert result.tolist() == x.tolist() == [1 + 3j, 3 + 5j]
    assert conjugate.tolist() == x.conj().tolist() or conjugate.tolist() == [1 - 2j, 3 - 4j]


def test_containers_keep_identity_and_aliasing() -> None:
    from collections import OrderedDict, deque

    x = st.zeros(3)
    result = through({"list": [x, (x[1:],)], "ordered": OrderedDict(k=x), "deque": deque([x])})
    assert result["ordered"]["k"] is result["list"][0] is result["deque"][0]
    result["list"][0].add_(1)
    assert result["list"][1][0].tolist() == [1, 1]
    assert x.tolist() == [1, 1, 1]


def test_parameters_keep_class_gradient_and_attributes() -> None:
    parameter = st.nn.Parameter(st.ones(2))
    parameter.grad = st.full((2,), 3.0)
    parameter.tag = "mine"
    result, frozen = through([parameter, st.nn.Parameter(st.ones(1), requires_grad=False)])
    assert type(result) is type(frozen) is st.nn.Parameter
    assert (result.requires_grad, frozen.requires_grad) == (True, False)
    assert result.tag == "mine"
    result.grad.add_(1)
    assert parameter.grad.tolist() == [4, 4]


def test_storages_and_sparse_tensors_are_the_same_memory() -> None:
    x = st.arange(4.0)
    full, numbers = through([x.untyped_storage(), x[1:].storage()])
    numbers[1] = 7.0
    assert x.tolist() == [0, 7, 2, 3]
    assert full == x.untyped_storage()
    assert (type(numbers), numbers.dtype) == (st.TypedStorage, st.float32)
    matrix = st.sparse_coo_tensor([[0, 1], [1, 0]], st.tensor([1.0, 2.0]), (2, 2))
    result = through(matrix)
    result._values().add_(1)
    assert matrix.to_dense().tolist() == [[0, 2], [3, 0]]


def test_the_standard_library_carries_storages_and_sparse_tensors() -> None:
    x = st.arange(4.0)
    numbers, matrix = x.storage(), st.sparse_coo_tensor([[1]], st.tensor([1.0]), (2,))
    ours, theirs = stdlib.Pipe()
    theirs.send([numbers, matrix])
    result = ours.recv()
    result[0][0] = 9.0
    result[1]._values().add_(1)
    assert x.tolist() == [9, 1, 2, 3]
    assert matrix.to_dense().tolist() == [0, 2]
    for end in (ours, theirs):
        end.close()


def test_hooks_are_dropped() -> None:
    leaf = st.ones(2, requires_grad=True)
    leaf.register_hook(lambda g: g * 100)
    result = through(leaf)
    (result * 2).sum().backward()
    assert result.grad.tolist() == [2, 2]


def test_modules_and_optimizers_step_on_the_same_memory() -> None:
    module = st.nn.Linear(3, 2)
    module.tied = st.nn.Linear(3, 2)
    module.tied.weight = module.weight
    optimizer = st.optim.Adam(module.parameters(), lr=0.1)
    module(st.ones(1, 3)).sum().backward()
    optimizer.step()
    before = module.weight.tolist()
    theirs, stepping = through((module, optimizer))
    assert theirs.tied.weight is theirs.weight
    assert stepping.param_groups[0]["params"][0] is theirs.weight
    theirs(st.ones(1, 3)).sum().backward()
    stepping.step()
    assert module.weight.tolist() == theirs.weight.tolist() != before


def test_generators_go_on_where_they_were() -> None:
    generator = st.Generator().manual_seed(3)
    st.rand(3, generator=generator)
    result = through(generator)
    assert st.rand(4, generator=result).tolist() == st.rand(4, generator=generator).tolist()


def test_closures_carry_tensors_as_handles() -> None:
    x, ends = st.zeros(2), mp.Pipe()
    queue = mp.SimpleQueue()
    queue.put(lambda: x.add_(1))
    queue.get()()
    assert x.tolist() == [1, 1]

    def tell() -> None:
        ends[1].send(x)

    process = mp.get_context("spawn").Process(target=tell)
    process.start()
    assert ends[0].recv().data_ptr() == x.data_ptr()
    process.join()
    assert process.exitcode == 0
    process.close()
    for end in ends:
        end.close()


def test_a_non_leaf_is_refused_with_advice() -> None:
    x = st.ones(3, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match=r"non-leaf .*\(3,\).*detach"):
        dumps(x)
    queue = mp.SimpleQueue()
    with pytest.raises(RuntimeError, match="detach"):
        queue.put([x])
    queue.put(x.detach())
    assert queue.get(5.0).tolist() == [2, 2, 2]


def test_what_cannot_be_pickled_raises_where_it_is_put() -> None:
    queue = mp.Queue()
    with pytest.raises(TypeError, match="pickle"):
        queue.put(sys._getframe())
    assert queue.empty()


def test_a_queue_travels_through_a_queue() -> None:
    outer, inner = mp.Queue(), mp.Queue()
    outer.put({"queue": inner, "lock": mp.Lock()})
    result = outer.get(timeout=5.0)
    result["queue"].put(1)
    assert inner.get(timeout=5.0) == 1


def test_plain_pickle_copies() -> None:
    x = st.ones(3)
    result = pickle.loads(pickle.dumps(x))
    result += 1
    assert x.tolist() == [1, 1, 1]


def test_the_standard_library_carries_handles_without_an_import_of_ours() -> None:
    code = """
        import sys
        import shmtensor as st
        assert "multiprocessing" not in sys.modules
        import multiprocessing
        a, b = multiprocessing.Pipe()
        x, p = st.zeros(2), st.nn.Parameter(st.zeros(2))
        a.send((x, p))
        y, q = b.recv()
        y += 1
        q.data.add_(2)
        assert x.tolist() == [1, 1] and p.tolist() == [2, 2] and type(q) is st.nn.Parameter
        print("good")
    """
    process = run_program(code)
    assert process.stdout == "good\n", process.stderr


def test_unread_messages_of_a_dropped_queue_hold_nothing() -> None:
    before = memory.statistics()
    queue = mp.SimpleQueue()
    for _ in range(300):
        queue.put([st.ones(5), st.ones(5000)])
    assert memory.statistics().shared_blocks >= before.shared_blocks
    del queue
    gc.collect()
    end = time.monotonic() + 5
    while memory.statistics().limbo_bytes > 600 * 20000 and time.monotonic() < end:
        memory.trim()
    assert memory.statistics().shared_blocks <= before.shared_blocks


NOTEBOOK = """
    import shmtensor as st
    import shmtensor.multiprocessing as mp
    class Point:
        def __init__(self, x): self.x = x
    def work(q, t, p):
        t += p.x
        q.put(Point(t.sum().item()))
    for method in ("fork", "forkserver", "spawn"):
        context = mp.get_context(method)
        q, t = context.Queue(), st.zeros(2)
        process = context.Process(target=work, args=(q, t, Point(3)))
        process.start()
        got = q.get(timeout=30)
        process.join()
        assert isinstance(got, Point) and got.x == 6 and t.tolist() == [3, 3]
    print("good")
"""


def test_functions_and_classes_typed_in_a_session_reach_every_process() -> None:
    process = run_program(NOTEBOOK)
    assert process.stdout == "good\n", process.stderr


SCRIPT = """
    import os
    import shmtensor as st
    import shmtensor.multiprocessing as mp
    from shmtensor import native

    weights = st.ones(3)      # allocates while a spawned child imports this file

    class Point:
        pass

    def work(q, t):
        t += 1
        q.put((Point(), native.domain_id(), __name__))

    if __name__ == "__main__":
        for method in ("fork", "forkserver", "spawn"):
            context = mp.get_context(method)
            q, t = context.Queue(), st.zeros(2)
            process = context.Process(target=work, args=(q, t))
            process.start()
            got, domain, name = q.get(timeout=30)
            process.join()
            assert isinstance(got, Point), got
            assert domain == native.domain_id()
            assert t.tolist() == [1, 1]
        print("good")
"""


def test_a_script_that_allocates_at_import_stays_in_one_domain(tmp_path) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    process = run_program(script)
    assert process.stdout == "good\n", process.stderr
    assert process.stderr == ""


def test_a_copy_that_does_not_alias_is_named_when_it_is_sent() -> None:
    queue = mp.get_context("fork").SimpleQueue()
    receiver, sender = mp.Pipe()
    for send, receive in ((queue.put, queue.get), (sender.send, receiver.recv)):
        foreign = st.from_numpy(np.zeros(2))
        for message in (foreign, [foreign[:1]], nn.Parameter(foreign)):
            with pytest.warns(UserWarning, match="sent as a copy"):
                send(message)
            receive()
        foreign.share_memory_()
        send(foreign)
        receive().fill_(1)
        assert foreign.tolist() == [1, 1]
        readonly = np.zeros(2)
        readonly.flags.writeable = False
        send(st.from_numpy(readonly))
        assert receive().tolist() == [0, 0]
    queue.close()
    receiver.close()
    sender.close()


def foreign_result(n: int) -> st.Tensor:
    return st.from_numpy(np.full(2, float(n)))


def test_results_of_a_pool_are_values() -> None:
    with mp.get_context("fork").Pool(1) as pool:
        assert [x.tolist() for x in pool.map(foreign_result, [1, 2])] == [[1, 1], [2, 2]]
