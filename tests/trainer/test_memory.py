"""The memory of several ranks: one copy of the weights and of the optimizer's state, whatever their
number.
"""

from __future__ import annotations

import gc
from typing import Any

import pytest

import shmtensor as st
from shmtensor import memory, native, nn, optim
from shmtensor.optim.flat.flat_optimizer import instances
from shmtensor.trainer import Trainer


def own_bytes(others: set[int]) -> int:
    """Bytes of this process's own blocks, and of its optimizers' arrays outside shared memory, but
    for other optimizers, which a child has from its parent."""
    gc.collect()  # arrays that the optimizer had before the ranks shared them
    flats = [flat for each in instances if id(each) not in others for flat in each._flats]
    arrays = [x for flat in flats for x in (flat.parameter, *flat.state.values())]
    s = memory.statistics()
    outside = sum(x.nbytes for x in arrays if not native.is_shared(x))
    return s.private_bytes + s.shared_bytes + outside


class Measured(nn.Module):
    """Before its forward each rank writes its bytes in the row of its first sample."""

    def __init__(self, rows: Any, others: set[int]) -> None:
        super().__init__()
        self.rows, self.others = rows, others
        self.net = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 3))

    def forward(self, x: Any) -> Any:
        self.rows[int(x[0, 0])] = own_bytes(self.others)
        return self.net(x)


def bytes_of_ranks(nprocs: int, make_optimizer: Any) -> tuple[int, int]:
    """Bytes of all ranks that `fit` has allocated, and the parameters' bytes."""
    x, y = st.zeros(12, 1024), st.zeros(12, dtype=st.int64)
    x[:, 0] = st.arange(12.0)
    gc.collect()
    gc.freeze()  # the next collections look at what is made from here on
    memory.trim()  # a larger free block would be used, and count, as a whole
    others = {id(optimizer) for optimizer in instances}
    before = own_bytes(others)
    model = Measured(st.full((12,), -1), others)
    trainer = Trainer(
        model, make_optimizer(model.parameters()), nn.CrossEntropyLoss(), nprocs=nprocs,
        progress=False, snapshots=False, start_method="fork",
    )  # fmt: skip
    trainer.fit([(x, y)] * 3, 1)
    gc.unfreeze()
    found = model.rows[model.rows >= 0]
    assert len(found) == nprocs
    return int(found.sum()) - before, sum(p.array.nbytes for p in model.parameters())


# How many arrays of the parameters' size there are beside the ranks' gradients.
@pytest.mark.parametrize(
    ("make_optimizer", "arrays"), [(optim.Adam, 3), (lambda p: optim.SGD(p, 0.1, 0.9), 2)]
)
def test_weights_and_state_do_not_grow_with_the_ranks(make_optimizer: Any, arrays: int) -> None:
    for nprocs in (1, 2, 3, 4):
        nbytes, size = bytes_of_ranks(nprocs, make_optimizer)
        copies = nbytes / size - nprocs  # each rank has its gradients
        assert copies == pytest.approx(arrays, abs=0.25), f"{nprocs} ranks"
