"""Comparisons that people know from other libraries, beside as many of them as are installed.

    least squares  the gradient of |y - A x|^2 by x, A of 10 d x d: dispatch where d is small,
                   products with a matrix where it is large
    network        64 rows through 1000-100-10 with ReLU, a step of gradient descent, 500 in a row:
                   with the gradients written by hand, and by autograd
    to NumPy       an n x n tensor as a NumPy array and as a tensor again. Libraries without tensors
                   in shared memory, beside: a NumPy array into memory that other processes see, and
                   the array of it
    another loader in a program of PyTorch's: beside_pytorch_loader.py

All in float32. JAX's functions are compiled before they are timed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .harness.case import Build, Case, compare

DIMENSIONS = (10, 20, 50, 100, 200, 500, 1000)
SIDES = (10, 30, 100, 300, 1000, 3000)
STEPS = 500
RATE = 1e-6
STORE = 512 << 20  # bytes of Ray's store: some of the largest arrays
Arrays = tuple[np.ndarray, ...]


def normal(*shapes: tuple[int, ...]) -> Arrays:
    random = np.random.default_rng(0)
    return tuple(random.standard_normal(shape, np.float32) for shape in shapes)


# ---------------------------------------------------------------- least squares
def problem(d: int) -> Arrays:
    """A, x, y."""
    return normal((10 * d, d), (d,), (10 * d,))


def gradient(st: Any, d: int) -> Callable[[], Any]:
    a, x, y = map(st.tensor, problem(d))
    x.requires_grad_()

    def run() -> Any:
        x.grad = None
        residual = y - a @ x
        (residual * residual).sum().backward()
        return x.grad

    return run


def gradient_by_hand(_: Any, d: int) -> Callable[[], Any]:
    a, x, y = problem(d)
    return lambda: -2 * (a.T @ (y - a @ x))


def gradient_autograd(_: Any, d: int) -> Callable[[], Any]:
    from autograd import grad
    from autograd import numpy as anp

    a, x, y = problem(d)

    def loss(x: Any) -> Any:
        residual = y - anp.dot(a, x)
        return anp.sum(residual * residual)

    slope = grad(loss)
    return lambda: slope(x)


def gradient_jax(jax: Any, d: int) -> Callable[[], Any]:
    a, x, y = map(jax.numpy.asarray, problem(d))

    def loss(x: Any, a: Any, y: Any) -> Any:
        residual = y - a @ x
        return (residual * residual).sum()

    slope = jax.jit(jax.grad(loss))
    return lambda: slope(x, a, y).block_until_ready()


def least_squares(d: int) -> Case:
    parties = compare(gradient, d, numpy=gradient_by_hand)
    parties |= {"autograd": with_size(gradient_autograd, d), "jax": with_size(gradient_jax, d)}
    return Case(f"comparison/least squares, d = {d}", parties, wide=d != 100)


def with_size(build: Build, n: int) -> Build:
    return lambda library: build(library, n)


# ---------------------------------------------------------------- the network
def network() -> Arrays:
    """x, y and two weights."""
    return normal((64, 1000), (64, 10), (1000, 100), (100, 10))


def by_hand(st: Any) -> Callable[[], Any]:
    """The same for NumPy's arrays and for tensors."""
    x, y, w1, w2 = network() if st is np else map(st.tensor, network())

    def run() -> Any:
        nonlocal w1, w2
        for _ in range(STEPS):
            h = x @ w1
            active = h > 0
            a = h * active
            g = 2 * (a @ w2 - y)
            g_hidden = (g @ w2.T) * active
            w2 = w2 - RATE * (a.T @ g)
            w1 = w1 - RATE * (x.T @ g_hidden)
        return w1

    return run


def by_autograd(st: Any) -> Callable[[], Any]:
    x, y, w1, w2 = map(st.tensor, network())
    weights = (w1.requires_grad_(), w2.requires_grad_())

    def run() -> Any:
        for _ in range(STEPS):
            error = (x @ w1).relu() @ w2 - y
            (error * error).sum().backward()
            with st.no_grad():
                for w in weights:
                    w -= RATE * w.grad
                    w.grad = None
        return w1

    return run


def network_autograd(_: Any) -> Callable[[], Any]:
    from autograd import grad
    from autograd import numpy as anp

    x, y, *weights = network()

    def loss(weights: Any) -> Any:
        error = anp.dot(anp.maximum(anp.dot(x, weights[0]), 0), weights[1]) - y
        return anp.sum(error * error)

    slopes = grad(loss)

    def run() -> Any:
        nonlocal weights
        for _ in range(STEPS):
            weights = [w - np.float32(RATE) * g for w, g in zip(weights, slopes(weights))]
        return weights[0]

    return run


def network_jax(jax: Any) -> Callable[[], Any]:
    x, y, *weights = map(jax.numpy.asarray, network())

    def loss(weights: Any) -> Any:
        error = jax.numpy.maximum(x @ weights[0], 0) @ weights[1] - y
        return (error * error).sum()

    @jax.jit
    def step(weights: Any) -> Any:
        return [w - RATE * g for w, g in zip(weights, jax.grad(loss)(weights))]

    def run() -> Any:
        nonlocal weights
        for _ in range(STEPS):
            weights = step(weights)
        return weights[0].block_until_ready()

    return run


# ---------------------------------------------------------------- to NumPy and back
def matrix(n: int) -> np.ndarray:
    return normal((n, n))[0]


def to_numpy(st: Any, n: int) -> Callable[[], Any]:
    x = st.tensor(matrix(n))
    return lambda: st.from_numpy(x.numpy())


def to_numpy_jax(jax: Any, n: int) -> Callable[[], Any]:
    x = jax.numpy.asarray(matrix(n))
    return lambda: jax.numpy.asarray(np.asarray(x)).block_until_ready()


def through_shared_memory(shared_memory: Any, n: int) -> Callable[[], Any]:
    """A segment with the array, as the documentation of Python makes it."""
    x = matrix(n)

    def run() -> Any:
        segment = shared_memory.SharedMemory(create=True, size=x.nbytes)
        array = np.ndarray(x.shape, x.dtype, segment.buf)
        array[:] = x
        result = array[0, 0]
        del array
        segment.close()
        segment.unlink()
        return result

    return run


def through_joblib(joblib: Any, n: int) -> Callable[[], Any]:
    """A file in /dev/shm that is mapped: what joblib does with large arguments of workers."""
    x, path = matrix(n), f"/dev/shm/shmtensor-benchmark-{os.getpid()}"

    def run() -> Any:
        try:
            joblib.dump(x, path)
            return joblib.load(path, mmap_mode="r")[0, 0]
        finally:
            os.unlink(path)

    return run


def through_mpi4py(_: Any, n: int) -> Callable[[], Any]:
    """A shared window of one rank."""
    from mpi4py import MPI

    x = matrix(n)

    def run() -> Any:
        window = MPI.Win.Allocate_shared(x.nbytes, x.itemsize, comm=MPI.COMM_SELF)
        array = np.ndarray(x.shape, x.dtype, window.Shared_query(0)[0])
        array[:] = x
        result = array[0, 0]
        del array
        window.Free()
        return result

    return run


def through_ray(ray: Any, n: int) -> Iterator[Callable[[], Any]]:
    """Into the object store and back."""
    ray.init(num_cpus=1, object_store_memory=STORE, include_dashboard=False, logging_level="ERROR")
    x = matrix(n)
    yield lambda: ray.get(ray.put(x))[0, 0]
    ray.shutdown()


def to_numpy_and_back(n: int) -> Case:
    parties = compare(to_numpy, n) | {
        name: with_size(build, n)
        for name, build in (
            ("jax", to_numpy_jax), ("multiprocessing.shared_memory", through_shared_memory),
            ("joblib", through_joblib), ("mpi4py", through_mpi4py), ("ray", through_ray),
        )
    }  # fmt: skip
    return Case(f"comparison/to NumPy and back, n = {n}", parties, wide=n != 1000)


HAND, AUTOGRAD = "comparison/network by hand, a step", "comparison/network by autograd, a step"
CASES = [
    *map(least_squares, DIMENSIONS),
    Case(HAND, compare(by_hand, numpy=by_hand), per=STEPS, slow=True),
    Case(
        AUTOGRAD,
        compare(by_autograd) | {"autograd": network_autograd, "jax": network_jax},
        per=STEPS,
        slow=True,
    ),
    *map(to_numpy_and_back, SIDES),
]
