"""Which parameters move into a common block. Note [Which parameters are moved]."""

from __future__ import annotations

import os

import numpy as np

import shmtensor as st
from shmtensor import nn, optim


def tensors_of(o: optim.Optimizer) -> list[int]:
    return [len(flat.tensors) for flat in o.flats]


def test_a_fresh_model_moves() -> None:
    o = optim.SGD(nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)).parameters(), lr=0.1)
    assert tensors_of(o) == [4]


def test_second_optimizer_takes_the_existing_block() -> None:
    m = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    optim.SGD(m.parameters(), lr=0.1)
    addresses = [p.data_ptr() for p in m.parameters()]
    o = optim.Adam(m.parameters())
    assert tensors_of(o) == [4]
    assert [p.data_ptr() for p in m.parameters()] == addresses
    assert tensors_of(optim.SGD(list(m.parameters())[1:3], lr=0.1)) == [2]


def test_views_of_a_parameter_stay_valid() -> None:
    m = nn.Linear(2, 2)
    array, view, state = m.weight.detach().numpy(), m.bias.data[:1], m.state_dict()
    o = optim.SGD(m.parameters(), lr=1.0)
    assert sorted(tensors_of(o)) == [1, 1]
    m(st.ones(1, 2)).sum().backward()
    o.step()
    np.testing.assert_array_equal(array, m.weight.detach().numpy())
    assert view[0].item() == m.bias[0].item()
    np.testing.assert_array_equal(state["weight"].numpy(), array)


def test_parameters_over_one_memory_stay_tied() -> None:
    a = nn.Parameter(st.ones(4))
    b = nn.Parameter(a.data)
    o = optim.SGD([a, b], lr=1.0)
    (a.sum() + b.sum()).backward()
    o.step()
    assert a.tolist() == b.tolist() == [-1] * 4


def test_parts_of_a_tensor_stay_parts() -> None:
    buffer = st.ones(40)
    parts = [nn.Parameter(buffer[:16]), nn.Parameter(buffer[16:32])]
    o = optim.SGD(parts, lr=0.5)
    assert tensors_of(o) == [2]  # neighbours already
    for p in parts:
        p.grad = st.ones(16)
    o.step()
    assert buffer.tolist() == [0.5] * 32 + [1.0] * 8


def test_memory_between_parts_is_unchanged() -> None:
    buffer = st.ones(32)
    parts = [nn.Parameter(buffer[:10]), nn.Parameter(buffer[16:32])]
    o = optim.SGD(parts, lr=0.5, weight_decay=0.5)
    assert tensors_of(o) == [1, 1]
    for p in parts:
        p.grad = st.ones(p.numel())
    o.step()
    assert buffer[10:16].tolist() == [1.0] * 6


def test_transposed_parameter_is_updated_in_place() -> None:
    buffer = st.ones(3, 2)
    p = nn.Parameter(buffer.T)
    o = optim.Adam([p], lr=0.5)
    p.grad = st.ones(2, 3)
    o.step()
    np.testing.assert_allclose(buffer.numpy(), 0.5, rtol=1e-5)


def test_memory_that_another_process_has_does_not_move() -> None:
    m = nn.Linear(2, 2)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(read, 1)
        os._exit(int(abs(m.bias.detach().numpy() - 5).max() > 1e-6))
    address = m.bias.data_ptr()
    o = optim.SGD(m.parameters(), lr=1.0)
    assert m.bias.data_ptr() == address
    with st.no_grad():
        m.bias.fill_(6)
    m.bias.grad = st.ones(2)
    o.step()
    os.write(write, b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(read)
    os.close(write)


def test_memory_of_a_process_that_ended_moves() -> None:
    m = nn.Linear(2, 2)
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    assert tensors_of(optim.SGD(m.parameters(), lr=1.0)) == [2]


def test_empty_and_scalar_parameters() -> None:
    ps = [nn.Parameter(st.ones(0)), nn.Parameter(st.tensor(2.0)), nn.Parameter(st.ones(3))]
    o = optim.Adam(ps, lr=0.5)
    for p in ps:
        p.grad = st.ones_like(p)
    o.step()
    np.testing.assert_allclose(ps[1].item(), 1.5, rtol=1e-5)
