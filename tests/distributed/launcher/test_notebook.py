"""st.launch: a function as several ranks."""

from __future__ import annotations

import os

import pytest

import shmtensor as st
from shmtensor import distributed as dist
from shmtensor.errors import ProcessExitedException


def test_results_of_all_ranks_come_back_and_tensors_as_memory() -> None:
    def work(scale: int) -> tuple[int, st.Tensor, str]:
        x = st.full((5,), float(dist.get_rank()))
        dist.all_reduce(x)
        return dist.get_rank() * scale, x, os.environ["LOCAL_RANK"]

    results = st.launch(work, 3, (10,))
    assert [n for n, _, _ in results] == [0, 10, 20]
    assert [x.tolist() for _, x, _ in results] == [[3.0] * 5] * 3
    assert [text for *_, text in results] == ["0", "1", "2"]
    with pytest.raises(ValueError, match="nothing to run"):
        st.launch(work, 0)


def test_a_rank_that_ends_without_an_answer_is_named() -> None:
    def leave() -> None:
        if dist.get_rank() == 1:
            os._exit(0)

    with pytest.raises(ProcessExitedException, match=r"rank 1 \(pid \d+\) exited with code 0"):
        st.launch(leave, 2)
