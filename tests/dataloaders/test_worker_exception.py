"""Exceptions on their way from a worker."""

from __future__ import annotations

import pickle

import pytest

from shmtensor.dataloaders.loader.worker_exception import Failure
from shmtensor.errors import ProcessRaisedException


class Picky(Exception):
    """Needs two arguments."""

    def __init__(self, code: int, *, reason: str) -> None:
        super().__init__(code, reason)


class Choosy(Exception):
    """Needs an argument that is not a message."""

    def __init__(self, response: object) -> None:
        super().__init__(response.__cause__)  # type: ignore[attr-defined]


def caught(error: BaseException) -> Failure:
    try:
        raise error
    except BaseException as e:
        return pickle.loads(pickle.dumps(Failure(e, "worker 3, index 5")))


@pytest.mark.parametrize("error", [ValueError("x is wrong"), KeyError("x is wrong")])
def test_the_type_and_the_traceback_arrive(error: Exception) -> None:
    with pytest.raises(type(error)) as raised:
        caught(error).reraise()
    message = str(raised.value)
    assert message.startswith(f"Caught {type(error).__name__} in worker 3, index 5.\nOriginal Trac")
    assert "in caught" in message
    assert "x is wrong" in message


@pytest.mark.parametrize(
    "error", [Picky(1, reason="because"), Choosy(ValueError()), StopIteration()], ids=repr
)
def test_a_type_that_cannot_be_raised_becomes_a_runtime_error(error: Exception) -> None:
    with pytest.raises(RuntimeError, match=f"Caught {type(error).__name__} in worker 3"):
        caught(error).reraise()


def test_our_errors_keep_their_type() -> None:
    with pytest.raises(ProcessRaisedException, match="Caught ProcessRaisedException"):
        caught(ProcessRaisedException("inner")).reraise()
