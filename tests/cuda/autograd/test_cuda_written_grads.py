"""Gradients and outputs on GPUs that cannot be written, or are on another device; layers under
autocast; pickles with gradients; `record_stream`.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn

CANNOT = "the memory cannot be written"


def leaf() -> Any:
    return st.ones(3).cuda().requires_grad_()


# ---------------------------------------------------------------- .grad


def test_an_expanded_grad_is_not_written(cp: Any) -> None:
    p, one = leaf(), st.ones(1).cuda()
    p.grad = one.expand(3)
    with pytest.raises(RuntimeError, match=r"\.grad of a leaf cannot be written: shape \(3,\)"):
        p.sum().backward()
    assert one.tolist() == [1]
    p.grad = p.grad.clone()
    p.sum().backward()
    assert p.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize(("of_grad", "of_gradient"), [("cpu", "cuda:0"), ("cuda:0", "cpu")])
def test_a_grad_on_another_device(cp: Any, of_grad: str, of_gradient: str) -> None:
    p = st.ones(3).to(of_grad).requires_grad_()
    p.sum().backward()
    p.data = p.data.to(of_gradient)
    if p.grad.device == p.device:
        pytest.skip("the gradient has moved with the data")
    with pytest.raises(RuntimeError) as raised:
        p.sum().backward()
    assert str(raised.value) == (
        f"backward: the .grad is on {of_grad}, the gradient on {of_gradient}: shape (3,), set "
        ".grad to None or move it"
    )
    p.grad = None
    p.sum().backward()
    assert p.grad.tolist() == [1, 1, 1]


# ---------------------------------------------------------------- out=


@pytest.mark.parametrize("name", ["add", "matmul", "maximum", "hstack"])
def test_out_is_expanded(cp: Any, name: str) -> None:
    x = st.ones(3, 3).cuda()
    out = st.zeros(1).cuda().expand(3, 6 if name == "hstack" else 3)
    args = ((x, x),) if name == "hstack" else (x, x)
    with pytest.raises(RuntimeError, match=f"{name}: {CANNOT}: shape"):
        getattr(st, name)(*args, out=out)
    assert not out.any()


def test_one_of_two_outs_is_expanded(cp: Any) -> None:
    values, where = st.zeros(3).cuda(), st.zeros(1, dtype=st.int64).cuda().expand(3)
    with pytest.raises(RuntimeError, match=CANNOT):
        st.max(st.ones(3, 3).cuda(), 0, out=(values, where))


# ---------------------------------------------------------------- recurrent layers


LAYERS = [
    ("LSTM", {}),
    ("LSTM", {"num_layers": 2, "bidirectional": True, "proj_size": 2}),
    ("LSTM", {"bias": False}),
    ("GRU", {}),
    ("GRU", {"num_layers": 2, "bidirectional": True}),
    ("RNN", {}),
    ("RNN", {"num_layers": 2, "nonlinearity": "relu"}),
]


def states(values: Any) -> list[Any]:
    return list(values) if isinstance(values, tuple) else [values]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("name", "options"), LAYERS)
def test_recurrent_layers_under_autocast(
    cp: Any, name: str, options: dict[str, Any], packed: bool
) -> None:
    model: Any = getattr(nn, name)(4, 5, **options)
    twin: Any = getattr(nn, name)(4, 5, **options).cuda()
    twin.load_state_dict(model.state_dict())
    values = np.random.default_rng(0).normal(size=(3, 2, 4)).astype(np.float32)
    x = st.from_numpy(values)

    def run(network: Any, x: Any) -> tuple[Any, list[Any]]:
        if not packed:
            out, last = network(x)
            return out, states(last)
        out, last = network(nn.utils.rnn.pack_padded_sequence(x, st.tensor([3, 2])))
        return out.data, states(last)

    out, last = run(model, x)
    with st.autocast("cuda"):
        near, near_last = run(twin, x.cuda())
    for a, b in zip([near, *near_last], [out, *last], strict=True):
        assert a.dtype is st.float16
        np.testing.assert_allclose(a.float().tolist(), b.tolist(), 2e-2, 2e-3)
    out.square().sum().backward()
    near.float().square().sum().backward()
    for p, q in zip(twin.parameters(), model.parameters(), strict=True):
        assert p.grad.dtype is st.float32
        np.testing.assert_allclose(p.grad.tolist(), q.grad.tolist(), 5e-2, 2e-2)


@pytest.mark.parametrize("dtype", [st.float16, st.float32])
def test_a_state_is_given_under_autocast(cp: Any, dtype: Any) -> None:
    model = nn.GRU(4, 5).cuda()
    with st.autocast("cuda"):
        out, last = model(
            st.ones(3, 2, 4, dtype=dtype).cuda(), st.ones(1, 2, 5, dtype=dtype).cuda()
        )
    assert out.dtype is last.dtype is st.float16


# ---------------------------------------------------------------- pickle


def grads_of_x(x: Any) -> dict[str, Any]:
    return {
        "itself": x,
        "transposed": x.T,
        "flat": x.view(9),
        "expanded": x[0].expand(3, 3),
        "every second": x[::2],
    }


@pytest.mark.parametrize("first", ["x", "w"])
@pytest.mark.parametrize("name", list(grads_of_x(st.ones(3, 3))))
def test_a_pickled_grad_is_a_view_of_another_tensor(cp: Any, first: str, name: str) -> None:
    x = st.arange(9.0).reshape(3, 3).clone().cuda()
    grad = grads_of_x(x)[name]
    w: Any = st.zeros(*grad.shape).cuda().requires_grad_()
    w.grad = grad
    pair = (x, w) if first == "x" else (w, x)
    loaded = pickle.loads(pickle.dumps(pair))
    x2, w2 = loaded if first == "x" else loaded[::-1]
    assert x2.tolist() == x.tolist()
    assert w2.grad.tolist() == grad.tolist()
    assert w2.grad.device == x.device
    if name == "itself":
        assert w2.grad.data_ptr() == x2.data_ptr()


# ---------------------------------------------------------------- record_stream


def test_record_stream(cp: Any) -> None:
    from shmtensor.memory import cuda as memory

    memory.install()
    try:
        side = st.cuda.Stream()
        x = st.ones(1000).cuda()
        chunk = x.array.data.mem._owner.chunk
        assert not chunk.users
        x.record_stream(side)
        assert [user.ptr for user in chunk.users] == [side.cuda_stream]
        x.record_stream(side)
        assert len(chunk.users) == 1
        del x, chunk
    finally:
        memory.uninstall()


def test_record_stream_of_the_cpu(cp: Any) -> None:
    with pytest.raises(NotImplementedError, match=r"record_stream: only for tensors on a GPU"):
        st.ones(3).record_stream(st.cuda.Stream())
