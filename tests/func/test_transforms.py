"""grad, vjp, jvp and Jacobians, against each other and closed forms, and inside a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)  # fmt: skip

RANDOM = np.random.default_rng(2)
X = st.tensor(RANDOM.standard_normal((4, 3)))
W = st.tensor(RANDOM.standard_normal((2, 3)))
T = st.tensor(RANDOM.standard_normal((4, 2)))


def cube(x: Any) -> Any:
    return (x**3).sum()


def loss(w: Any, x: Any, t: Any) -> Any:
    return ((w @ x - t) ** 2).sum()


def close(x: Any, y: Any) -> bool:
    return bool(np.allclose(np.asarray(x.detach()), np.asarray(y), 1e-9, 1e-9))


def test_gradients_of_gradients() -> None:
    x = st.tensor(0.7, dtype=st.float64)
    f = st.sin
    for slope in (np.cos, lambda v: -np.sin(v), lambda v: -np.cos(v), np.sin):
        f = grad(f)
        result = f(x)
        assert close(result, slope(0.7))
        assert not result.requires_grad


def test_arguments_and_aux() -> None:
    gw, gt = grad(loss, (0, 2))(W, X[0], T[0])
    away = 2 * (W.numpy() @ X[0].numpy() - T[0].numpy())
    assert close(gw, np.outer(away, X[0].numpy()))
    assert close(gt, -away)
    tree = grad(lambda d: (d["a"] * d["b"][0]).sum())({"a": X[0], "b": (X[1],)})
    assert close(tree["a"], X[1])
    assert close(tree["b"][0], X[0])
    slope, aux = grad(lambda x: (cube(x), {"twice": x * 2}), has_aux=True)(X)
    assert close(slope, 3 * X.numpy() ** 2)
    assert close(aux["twice"], 2 * X.numpy())
    assert not aux["twice"].requires_grad
    slope, value = grad_and_value(cube)(X)
    assert close(value, (X.numpy() ** 3).sum())
    assert not value.requires_grad
    slope, (value, inputs) = grad_and_value(lambda x: (cube(x), x), has_aux=True)(X)
    assert close(inputs, X)


def test_gradients_example_by_example() -> None:
    each = vmap(grad(loss), in_dims=(None, 0, 0))(W, X, T)
    assert each.shape == (4, 2, 3)
    for i in range(4):
        assert close(each[i], grad(loss)(W, X[i], T[i]).numpy())
    batch_gradient = grad(lambda w: vmap(loss, in_dims=(None, 0, 0))(w, X, T).sum())(W)
    assert close(batch_gradient, each.sum(0))
    curved = vmap(hessian(cube))(X)
    assert close(curved, np.stack([np.diag(6 * x) for x in X.numpy()]))
    twice = vmap(vmap(grad(lambda x: x.sin())))(X)
    assert close(twice, np.cos(X.numpy()))


def test_a_graph_around() -> None:
    x = X[0].clone().requires_grad_()
    grad(cube)(x).sum().backward()
    assert close(x.grad, 6 * X[0].numpy())
    w = W.clone().requires_grad_()
    result = grad(lambda x: (w @ x).sum() * (w @ x).sum())(X[0])
    assert result.requires_grad
    result.sum().backward()
    assert w.grad is not None
    with st.no_grad():
        assert close(grad(cube)(X), 3 * X.numpy() ** 2)


def test_vjp_and_jvp() -> None:
    out, pull = vjp(lambda x, y: (x * y, x.sin()), X, X + 1)
    assert not out[0].requires_grad
    gx, gy = pull((st.ones_like(X), st.zeros_like(X)))
    assert close(gx, X.numpy() + 1)
    assert close(gy, X)
    vjps = vmap(lambda g: pull((g, g * 0))[0])(st.stack([st.ones_like(X), X]))
    assert close(vjps[1], X.numpy() * (X.numpy() + 1))
    out, slope = jvp(st.sin, (X,), (X,))
    assert close(out, np.sin(X.numpy()))
    assert close(slope, np.cos(X.numpy()) * X.numpy())
    second = jvp(grad(cube), (X[0],), (st.ones_like(X[0]),))[1]
    assert close(second, 6 * X[0].numpy())
    assert close(vmap(lambda x: jvp(cube, (x,), (x,))[1])(X), 3 * (X.numpy() ** 3).sum(1))
    _, _, aux = vjp(lambda x: (x, 5), X, has_aux=True)
    assert aux == 5
    assert jvp(lambda x: (x, 5), (X,), (X,), has_aux=True)[2] == 5


def test_jacobians() -> None:
    f = lambda x: st.stack([x[0] * x[1], x.sum(), x[2].sin()])  # noqa: E731
    x = X[0].numpy()
    expected = np.array([[x[1], x[0], 0], [1, 1, 1], [0, 0, np.cos(x[2])]])
    assert close(jacrev(f)(X[0]), expected)
    assert close(jacfwd(f)(X[0]), expected)
    assert close(vmap(jacrev(f))(X)[0], expected)
    assert close(vmap(jacfwd(f))(X)[0], expected)
    both = jacrev(lambda a, b: {"out": a * b}, (0, 1))(X[0], X[1])["out"]
    assert close(both[0], np.diag(X[1].numpy()))
    assert close(both[1], np.diag(X[0].numpy()))
    mixed = hessian(lambda a, b: (a * b).sum(), (0, 1))(X[0], X[1])
    assert close(mixed[0][1], np.eye(3))
    assert close(jacrev(jacrev(cube))(X[0]), np.diag(6 * x))
    _, aux = jacrev(lambda x: (x, 3), has_aux=True)(X[0])
    assert aux == 3


def test_wrong_use() -> None:
    with pytest.raises(RuntimeError, match="scalar tensor"):
        grad(st.sin)(X)
    with pytest.raises(RuntimeError, match="single tensor"):
        grad(lambda x: (x, x))(X)
    with pytest.raises(RuntimeError, match="argnums 1"):
        grad(cube, 1)(X)
    with pytest.raises(RuntimeError, match="to be tensors"):
        grad(cube)(3.0)
    with pytest.raises(RuntimeError, match="complex dtype"):
        grad(cube)(st.arange(3))
    with pytest.raises(RuntimeError, match="another shape"):
        vjp(st.sin, X)[1](X[0])
    with pytest.raises(RuntimeError, match="same shapes"):
        jvp(st.sin, (X,), (X[0],))
    with pytest.raises(RuntimeError, match="must be a tuple"):
        jvp(st.sin, X, X)
    with pytest.raises(RuntimeError, match="real tensor"):
        grad(lambda x: (x * 1j).sum())(X)
    with pytest.raises(RuntimeError, match="at least one"):
        vjp(cube)


def net() -> Any:
    return st.nn.Sequential(st.nn.Linear(3, 4), st.nn.Tanh(), st.nn.Linear(4, 2)).double()


def test_modules_as_functions() -> None:
    model = net()
    mine = {k: v.detach() * 2 for k, v in model.named_parameters()}
    before = {k: v.detach().clone() for k, v in model.named_parameters()}
    output = functional_call(model, mine, X)
    h = np.tanh(X.numpy() @ mine["0.weight"].numpy().T + mine["0.bias"].numpy())
    assert close(output, h @ mine["2.weight"].numpy().T + mine["2.bias"].numpy())
    assert all(v.detach().equal(before[k]) for k, v in model.named_parameters())
    each = vmap(
        grad(lambda p, x: functional_call(model, p, (x,)).square().sum()), in_dims=(None, 0)
    )(mine, X)
    batch_gradients = grad(lambda p: functional_call(model, p, X).square().sum())(mine)
    for name, g in each.items():
        assert close(g.sum(0), batch_gradients[name].numpy()), name
    with pytest.raises(RuntimeError, match="missing names"):
        functional_call(model, {"0.weight": mine["0.weight"]}, X, strict=True)
    with pytest.raises(RuntimeError, match="unexpected names"):
        functional_call(model, {**mine, "other": W}, X, strict=True)
    with pytest.raises(ValueError, match="multiple dictionaries"):
        functional_call(model, (mine, mine), X)


def test_ensembles() -> None:
    models = [net() for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    assert buffers == {}
    assert parameters["0.weight"].shape == (3, 4, 3)
    assert parameters["0.weight"].requires_grad
    outputs = vmap(lambda p, x: functional_call(models[0], p, x), in_dims=(0, None))(parameters, X)
    for i, model in enumerate(models):
        assert close(outputs[i], model(X).detach())
    with pytest.raises(RuntimeError, match="at least one"):
        stack_module_state([])
    with pytest.raises(RuntimeError, match="same class"):
        stack_module_state([net(), st.nn.Linear(1, 1)])


def test_tied_weights_change_together() -> None:
    model = net()
    model[2] = model[0].__class__(4, 4).double()
    tied = st.nn.Sequential(model[2], model[2])
    other = st.zeros(4, 4, dtype=st.float64)
    x = st.ones(1, 4, dtype=st.float64)
    output = functional_call(tied, {"0.weight": other}, x)
    assert close(output, model[2].bias.detach().numpy()[None])
