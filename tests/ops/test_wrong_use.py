"""Wrong use of ops raises PyTorch's exception class, and the message shows the values."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.errors import OutOfSharedMemory
from shmtensor.nn import functional

x = st.ones(3, 4)
integral = st.tensor([[0, 1], [2, 3]])

CASES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "shapes": (lambda: x + st.ones(5), RuntimeError, r"\(3, 4\) and \(5,\), 4 is not 5"),
    "inner sizes": (lambda: x @ x, RuntimeError, r"\(3, 4\) @ \(3, 4\), 4 is not 3"),
    "mm ranks": (lambda: st.mm(x, st.ones(4)), RuntimeError, r"\(3, 4\), \(4,\)"),
    "bmm batches": (
        lambda: st.bmm(st.ones(2, 3, 4), st.ones(3, 4, 5)),
        RuntimeError,
        r"batch sizes differ: \(2, 3, 4\), \(3, 4, 5\)",
    ),
    "mean of ints": (lambda: integral.mean(), RuntimeError, "int64"),
    "var of ints": (lambda: integral.var(), RuntimeError, "int64"),
    "bool minus bool": (lambda: (x > 0) - (x > 0), RuntimeError, "sub: .*bool"),
    "negated bool": (lambda: -(x > 0), RuntimeError, "neg: .*bool"),
    "dim of sum": (lambda: x.sum(2), IndexError, "out of range: 2, expected -2 to 1"),
    "dim of max": (lambda: x.max(5), IndexError, r"5 for shape \(3, 4\)"),
    "nothing to choose": (lambda: st.ones(0, 3).max(0), IndexError, r"\(0, 3\), dim=0"),
    "bool to the power of bools": (
        lambda: (x > 0) ** (x > 0),
        NotImplementedError,
        r"pow: not implemented for bool: .*\(3, 4\)",
    ),
    "True to the power of bools": (lambda: True ** (x > 0), NotImplementedError, "pow: .*bool"),
    "take at floats": (lambda: st.take(x, x), RuntimeError, "take: .*float32, use long"),
    "take at bools": (lambda: st.take(x, x > 0), RuntimeError, "take: .*bool, use long"),
    "gradient of unique": (
        lambda: st.ones(2, requires_grad=True).unique().sum().backward(),
        NotImplementedError,
        r"unique: the derivative is not implemented, .*\(1,\)",
    ),
    "gradient of runs": (
        lambda: st.unique_consecutive(st.ones(2, requires_grad=True)).sum().backward(),
        NotImplementedError,
        "unique: the derivative",
    ),
    "nothing at all": (lambda: st.ones(0).argmax(), IndexError, r"shape \(0,\)"),
    "view": (lambda: x.t().view(12), RuntimeError, r"\(4, 3\) with strides \(1, 4\) as \(12,\)"),
    "reshape": (
        lambda: x.reshape(5, 2),
        RuntimeError,
        r"reshape: .*12 elements do not fill \(5, 2\): shape \(3, 4\)",
    ),
    "reshape, -1": (lambda: x.reshape(5, -1), RuntimeError, r"'\[5, -1\]' is invalid .*size 12"),
    "size of a tensor that no domain holds": (
        lambda: st.empty(1 << 44),
        OutOfSharedMemory,
        "allocate: no room for 70368744177664 bytes: a tensor lies in one of two volumes",
    ),
    "class of dim": (lambda: x.sum(1.5), TypeError, "sum: argument 'dim' must be int, not float"),
    "class of a number": (
        lambda: st.addcmul(x, x, x, value="x"),
        TypeError,
        "addcmul: argument 'value' must be a number, not str: 'x'",
    ),
    "mask as an index": (
        lambda: x[st.tensor([True])],
        IndexError,
        "size 1 at dimension 0, expected 3",
    ),
    "name of the called function": (
        lambda: st.take(x, st.tensor([20])),
        IndexError,
        "^take: index 20 is out of bounds for dimension 0 with size 12",
    ),
    "name of a method": (lambda: x.masked_fill(x[0] > 5, "a"), TypeError, "^masked_fill: "),
    "indices": (lambda: x[[0, 1], [0, 1, 2]], IndexError, r"indices cannot be broadcast: \(2,\)"),
    "expand": (lambda: x.expand(3, 5), RuntimeError, "expand: .*size 4, not 5"),
    "narrow": (lambda: x.narrow(1, 3, 2), RuntimeError, r"3 \+ 2 > 4, dim 1 of \(3, 4\)"),
    "select": (lambda: x.select(0, 3), IndexError, r"3, dim 0 of \(3, 4\)"),
    "split": (lambda: x.split([1, 1]), RuntimeError, r"add up to 3, dim 0: \[1, 1\]"),
    "cat": (lambda: st.cat([x, st.ones(2, 3)]), RuntimeError, r"cat: .*\(2, 3\).*\(3, 4\)"),
    "stack": (lambda: st.stack([x, st.ones(2)]), RuntimeError, r"stack: .*\(2,\)"),
    "index": (lambda: x[3], IndexError, "index 3 is out of bounds for dimension 0 with size 3"),
    "index_select": (
        lambda: x.index_select(0, st.tensor([3])),
        IndexError,
        "index_select: index is out of range: 3, expected 0 to 2",
    ),
    "gather": (
        lambda: x.gather(1, st.tensor([[-1]])),
        RuntimeError,
        "gather: index is out of range: -1, expected 0 to 3",
    ),
    "float index": (lambda: x.gather(1, x), RuntimeError, "whole numbers: float32"),
    "scatter of another dtype": (
        lambda: x.scatter(1, st.tensor([[0]]), st.ones(1, 1, dtype=st.float64)),
        RuntimeError,
        "scatter: expected the operands to have the same dtype: float32, float64",
    ),
    "mask": (lambda: x.masked_fill(x, 0), RuntimeError, "the mask must be bool: float32"),
    "condition": (lambda: st.where(x, x, x), RuntimeError, "must be bool: float32"),
    "number for a tensor": (
        lambda: st.maximum(x, 2),
        TypeError,
        r"maximum: the operands \(input, other\) must be tensors: .* other is a int",
    ),
    "number in front": (lambda: st.eq(2, x), TypeError, r"eq: the operands \(input\)"),
    "bound of a number": (lambda: st.clamp_max(2, x), TypeError, "clamp_max: a tensor is needed"),
    "exponent": (lambda: st.ldexp(x, 2), TypeError, "ldexp: a tensor is needed"),
    "negative weights": (
        lambda: st.cov(x, fweights=st.tensor([1, 1, -1, 1])),
        RuntimeError,
        "fweights cannot be negative: -1",
    ),
    "few weights": (
        lambda: st.cov(x, aweights=st.ones(3)),
        RuntimeError,
        r"one for each of 4 observations: \(3,\)",
    ),
    "renorm": (lambda: st.ones(3).renorm(2, 0, 1.0), RuntimeError, r"2 dimensions.*\(3,\)"),
    "start": (lambda: x.narrow(0, st.ones(2), 1), RuntimeError, "start must be a whole number"),
    "complex in a real tensor": (
        lambda: integral.masked_fill(integral > 1, st.tensor(1j)),
        RuntimeError,
        "a complex value does not fit",
    ),
    "steps": (lambda: st.linspace(0, 1, 3.0), TypeError, "whole number: 3.0"),
    "ends": (lambda: st.logspace(x, 1, 3), RuntimeError, "numbers or 0-d"),
    "size of nonzero_static": (
        lambda: st.nonzero_static(x, size=-1),
        RuntimeError,
        "must not be negative: -1",
    ),
    "log_normal_": (lambda: st.ones(3).log_normal_(0, 0), RuntimeError, "must be positive: 0"),
    "topk": (lambda: x.topk(5), RuntimeError, r"k=5, dim 1 of \(3, 4\)"),
    "quantile": (lambda: x.quantile(1.5), RuntimeError, "1.5"),
    "einsum": (lambda: st.einsum("ij,jk", x, x), RuntimeError, "sizes of 'j' differ: 3 and 4"),
    "einsum terms": (lambda: st.einsum("ij", x, x), RuntimeError, "2 operands for 1 terms"),
    "tensordot": (lambda: st.tensordot(x, x, 1), RuntimeError, "dim 1 of .*, dim 0 of"),
    "clamp": (lambda: x.clamp(), RuntimeError, "min=None, max=None"),
    "rounding mode": (lambda: st.div(x, 2, rounding_mode="up"), RuntimeError, "'up'"),
    "negative power": (lambda: integral**-1, RuntimeError, "negative integer powers"),
    "arange": (lambda: st.arange(5, 0), RuntimeError, "step leads away from end: 5, 0, step=1"),
    "step as a whole number": (
        lambda: st.arange(0, 3, 0.5, dtype=st.int64),
        ValueError,
        "step must be nonzero: 0.5 as int64",
    ),
    "negative size": (lambda: st.zeros(2, -1), RuntimeError, r"\(2, -1\)"),
    "meshgrid": (lambda: st.meshgrid(x[0], indexing="zz"), RuntimeError, "'zz'"),
    "no operand": (lambda: st.add(x, "y"), TypeError, "other is a str"),
    "dtype": (lambda: x.to("float17"), TypeError, "'float17'"),
    "classes": (
        lambda: functional.cross_entropy(x, st.tensor([0, 4, 1])),
        IndexError,
        "4 .*expected 0 to 3|4, there are 4",
    ),
    "nll shapes": (
        lambda: functional.nll_loss(x, st.tensor([0, 1])),
        ValueError,
        r"\(2,\) for \(3, 4\)",
    ),
    "reduction": (lambda: functional.mse_loss(x, x, reduction="max"), ValueError, "'max'"),
    "variances": (
        lambda: functional.gaussian_nll_loss(x, x, st.ones(3, 2)),
        ValueError,
        r"incorrect size: \(3, 2\), the input has \(3, 4\)",
    ),
    "probabilities": (
        lambda: functional.binary_cross_entropy(x * 2, x),
        RuntimeError,
        r"\[0, 1\]: 2.0 to 2.0",
    ),
    "embedding": (
        lambda: functional.embedding(st.tensor([3]), x),
        IndexError,
        "index is out of range: 3, expected 0 to 2",
    ),
    "dropout": (lambda: st.dropout(x, 1.5), ValueError, "from 0 to 1: 1.5"),
    "floats as an index": (lambda: x[st.ones(1)], IndexError, "integers or booleans: float32"),
    "ambiguous": (lambda: bool(x[0]), RuntimeError, r"one value is ambiguous: shape \(4,\)"),
    "item": (lambda: x[0].item(), RuntimeError, "4 elements cannot be converted to Scalar"),
    "length": (lambda: len(st.tensor(7)), TypeError, r"0-d tensor: shape \(\), .*numel\(\)"),
    "iteration": (lambda: iter(st.tensor(7)), TypeError, r"0-d tensor: shape \(\), .*item\(\)"),
    "a float as a size": (lambda: st.eye(2.5), TypeError, r"eye: an integer is needed.*: 2\.5"),
    "a text as a number": (lambda: st.arange("a"), TypeError, "arange: a number is needed.*: 'a'"),
    "a text as a count": (lambda: x.chunk("a"), TypeError, "chunk: .*: 'a'"),
    "full of a text": (lambda: st.full((2,), "a"), TypeError, "full: .* a number: 'a'"),
    "an unknown name": (lambda: st.zeros(2, type=int), TypeError, "keyword argument 'type'"),
    "dot": (lambda: st.dot(x[0], x[:, 0]), RuntimeError, r"dot: .*\(4,\) @ \(3,\)"),
    "dim of mean": (lambda: x.mean(2), IndexError, "mean: .*out of range: 2, expected -2 to 1"),
    "a float as an index": (lambda: x[1.5], IndexError, r"valid indices: 1\.5, hint: int\(\)"),
    "no device": (lambda: x.to("gpu"), TypeError, "neither a device nor a dtype: 'gpu', .*'cuda'"),
    "cat without a list": (lambda: st.cat(x, x), TypeError, r"in one list: cat\(\[x, y\]\)"),
    "stack without a list": (lambda: st.stack(x[0], x[0]), TypeError, r"in one list: stack\("),
    "an element of cat": (lambda: st.cat([x, [1]]), TypeError, r"tensors\[1\] is a list"),
    "relu of a list": (lambda: functional.relu([1.0]), TypeError, "relu: .*input is a list"),
    "shapes of a loss": (
        lambda: functional.l1_loss(x, st.ones(3, 5)),
        RuntimeError,
        r"l1_loss: shapes cannot be broadcast: \(3, 4\) and \(3, 5\)",
    ),
    "operands of a loss that is made": (
        lambda: nn.CrossEntropyLoss(x, integral),
        TypeError,
        r"shape \(2, 2\), hint: a loss module is made first",
    ),
    "dtype of classes": (
        lambda: functional.cross_entropy(x, st.ones(3)),
        RuntimeError,
        r"float32 of shape \(3,\), hint: target\.long\(\)",
    ),
    "cat of nothing": (lambda: st.cat([]), ValueError, "non-empty list of tensors"),
    "stack of nothing": (lambda: st.stack([]), RuntimeError, "non-empty list of tensors"),
    "layer_norm": (lambda: functional.layer_norm(x, (3,)), RuntimeError, r"\(3, 4\), \(3,\)"),
}


@pytest.mark.parametrize("name", CASES)
def test_wrong_use_shows_the_values(name: str) -> None:
    wrong, kind, message = CASES[name]
    with pytest.raises(kind, match=message) as caught:
        wrong()
    assert type(caught.value) is kind


def test_a_loss_whose_shapes_cannot_be_broadcast_does_not_say_they_are() -> None:
    with warnings.catch_warnings(), pytest.raises(RuntimeError, match="mse_loss: shapes"):
        warnings.simplefilter("error")
        functional.mse_loss(x, st.ones(5))
    with pytest.warns(UserWarning, match=r"mse_loss: target size \(4,\) .*\(3, 4\): they are"):
        functional.mse_loss(x, st.ones(4))


@pytest.mark.parametrize(
    "name",
    ["aminmax", "argsort", "diff", "max", "median", "min", "nanmean", "prod", "softmax", "sort"]
    + ["std", "std_mean", "var"],
)
def test_numpys_names_of_a_dimension(name: str) -> None:
    function = getattr(st, name)
    y = st.tensor([[3.0, 1.0], [2.0, 5.0], [4.0, 0.0]])
    for axis in (0, 1):
        assert repr(function(y, axis=axis)) == repr(function(y, dim=axis))
    with pytest.raises(TypeError, match="unexpected keyword argument 'axis'"):
        function(y, dim=0, axis=0)


def test_numpys_name_of_keepdim() -> None:
    assert x.std(axis=1, keepdims=True).shape == (3, 1)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, i: x.max(i(1)).values,
        lambda x, i: x.min(axis=i(1), keepdims=True).indices,
        lambda x, i: x.all(i(1)),
        lambda x, i: x.std(i(1)),
        lambda x, i: x.norm(2, i(1)),
        lambda x, i: x.roll(i(1), i(1)),
        lambda x, i: x.flip(i(1)),
        lambda x, i: x.squeeze(i(1)),
        lambda x, i: x.movedim(i(1), i(0)),
        lambda x, i: x.tile(i(2)),
        lambda x, i: st.fft.fftn(x, dim=i(1)),
        lambda x, i: st.linspace(0, 1, i(3)),
        lambda x, i: functional.cosine_similarity(x, x, dim=i(0)),
        lambda x, i: functional.max_pool1d(x, i(2)),
        lambda x, i: functional.interpolate(x[None], size=i(2)),
    ],
)
def test_dims_and_sizes_may_be_numpys_integers(call: Any) -> None:
    y = st.tensor([[3.0, 1.0, 0.0], [2.0, 5.0, 4.0]], requires_grad=True)
    assert repr(call(y, np.int64)) == repr(call(y, int))


def test_a_wrong_numpy_integer_is_shown_as_an_int() -> None:
    with pytest.raises(IndexError, match=r"out of range.* 7"):
        x.max(np.int64(7))
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        x.max(axis=np.int64(0), foo=np.int64(1))


def test_losses_take_arrays() -> None:
    assert functional.mse_loss(x, np.zeros((3, 4), np.float32)).item() == 1


def test_running_out_of_memory_names_the_request() -> None:
    before = st.ones(3)
    with pytest.raises(OutOfSharedMemory, match="40000000000000"):
        st.zeros(10**13)
    with pytest.raises(MemoryError):
        st.ones(10**7, 1) * st.ones(1, 10**7)
    with pytest.raises(MemoryError):
        st.ones(1).requires_grad_().expand(10**13) * 2
    assert before.tolist() == [1, 1, 1]
