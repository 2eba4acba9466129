"""Whatever the file holds: an error or figures, never a crash, and looking takes no memory."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native
from shmtensor.errors import DomainError

HEAD = 1 << 20  # rows, slots, the first counts


@pytest.fixture
def control() -> Iterator[int]:
    """The control file of this process's domain, open for reading."""
    number = native.domain_fds()[0]
    descriptor = os.open(f"/proc/self/fd/{number}", os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def test_what_is_no_domain_is_refused() -> None:
    for make in (lambda: os.open("/dev/null", os.O_RDONLY), lambda: os.memfd_create("x")):
        descriptor = make()
        with pytest.raises(DomainError, match="survey: cannot read the domain"):
            native.survey(descriptor)
        os.close(descriptor)
    with pytest.raises((ValueError, DomainError)):
        native.survey(-1)


def test_it_sees_its_own_process(control: int) -> None:
    x = st.ones(10)
    seen = native.survey(control)
    assert seen["id"] == native.domain_id()
    row, incarnation = native.row()
    own = next(r for r in seen["rows"] if r["row"] == row)
    assert own["pid"] == os.getpid()
    assert own["incarnation"] == incarnation
    assert own["alive"]
    before = own["sent"], own["unread_messages"]
    handle = native.export(x.numpy())
    own = next(r for r in native.survey(control)["rows"] if r["row"] == row)
    assert (own["sent"] - before[0], own["unread_messages"] - before[1]) == (1, 1)
    native.acknowledge(handle)
    own = next(r for r in native.survey(control)["rows"] if r["row"] == row)
    assert (own["sent"] - before[0], own["unread_messages"]) == (1, before[1])


def test_damaged_files_never_crash(control: int) -> None:
    st.ones(10)
    good = os.pread(control, HEAD, 0)
    whole = os.fstat(control).st_size
    random = np.random.default_rng(7)
    for share in (1e-5, 1e-3, 0.1, 1.0):
        for _ in range(4):
            bad = np.frombuffer(good, np.uint8).copy()
            places = random.random(HEAD) < share
            places[:40] = False  # else it is refused at once
            bad[places] = random.integers(0, 256, int(places.sum()))
            descriptor = os.memfd_create("damaged")
            os.pwrite(descriptor, bad.tobytes(), 0)
            os.ftruncate(descriptor, whole)
            seen = native.survey(descriptor)
            for channel in seen["channels"]:
                native.survey_channel(
                    descriptor, descriptor, seen["slots"], channel["slot"], channel["offset"]
                )
            assert os.fstat(descriptor).st_blocks * 512 < 64 << 20
            os.close(descriptor)


def test_what_is_no_channel_is_none(control: int) -> None:
    for slot, offset in ((0, 0), (2**31, 0), (0, 2**60), (5, 64)):
        assert native.survey_channel(control, control, 1024, slot, offset) is None
