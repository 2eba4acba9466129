"""Any file gives an error or figures, never a crash; a survey commits no memory."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

import shmtensor as st
from shmtensor import native
from shmtensor.cli import find_domains
from shmtensor.errors import DomainError

HEAD = 1 << 20  # rows, slots, the first counts


@pytest.fixture
def control() -> Iterator[int]:
    """The control file of this process's domain, open for reading."""
    number = native.domain_fds()[0]
    descriptor = os.open(f"/proc/self/fd/{number}", os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def test_files_that_are_not_domains_are_refused() -> None:
    for make in (lambda: os.open("/dev/null", os.O_RDONLY), lambda: os.memfd_create("x")):
        descriptor = make()
        with pytest.raises(DomainError, match="survey: cannot read the domain"):
            native.survey(descriptor)
        os.close(descriptor)
    with pytest.raises((ValueError, DomainError)):
        native.survey(-1)


def test_it_sees_its_own_process(control: int) -> None:
    x = st.ones(10)
    survey = native.survey(control)
    assert survey["id"] == native.domain_id()
    row, incarnation = native.row()
    process_row = next(r for r in survey["rows"] if r["row"] == row)
    assert process_row["pid"] == os.getpid()
    assert process_row["incarnation"] == incarnation
    assert process_row["alive"]
    before = process_row["sent"], process_row["unread_messages"]
    handle = native.export(x.numpy())
    process_row = next(r for r in native.survey(control)["rows"] if r["row"] == row)
    assert (process_row["sent"] - before[0], process_row["unread_messages"] - before[1]) == (1, 1)
    native.acknowledge(handle)
    process_row = next(r for r in native.survey(control)["rows"] if r["row"] == row)
    assert (process_row["sent"] - before[0], process_row["unread_messages"]) == (1, before[1])


def test_damaged_files_never_crash(control: int) -> None:
    st.ones(10)
    good = os.pread(control, HEAD, 0)
    size = os.fstat(control).st_size
    random = np.random.default_rng(7)
    for share in (1e-5, 1e-3, 0.1, 1.0):
        for _ in range(4):
            bad = np.frombuffer(good, np.uint8).copy()
            is_damaged = random.random(HEAD) < share
            is_damaged[:40] = False  # otherwise it is refused at once
            bad[is_damaged] = random.integers(0, 256, int(is_damaged.sum()))
            descriptor = os.memfd_create("damaged")
            os.pwrite(descriptor, bad.tobytes(), 0)
            os.ftruncate(descriptor, size)
            survey = native.survey(descriptor)
            for channel in survey["channels"]:
                native.survey_channel(
                    descriptor, descriptor, survey["slots"], channel["slot"], channel["offset"]
                )
            assert os.fstat(descriptor).st_blocks * 512 < 64 << 20
            os.close(descriptor)


def test_a_block_that_is_not_a_channel_is_none(control: int) -> None:
    for slot, offset in ((0, 0), (2**31, 0), (0, 2**60), (5, 64)):
        assert native.survey_channel(control, control, 1024, slot, offset) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make another user's file")
def test_another_users_file_that_could_shrink_is_not_mapped(control: int) -> None:
    assert find_domains.identity(control) == native.domain_id().hex()
    unsealed = os.memfd_create("damaged")
    try:
        os.pwrite(unsealed, os.pread(control, HEAD, 0), 0)
        os.ftruncate(unsealed, os.fstat(control).st_size)
        assert find_domains.identity(unsealed) == native.domain_id().hex()  # this user's own
        os.fchown(unsealed, 65534, 65534)
        assert find_domains.identity(unsealed) is None
    finally:
        os.close(unsealed)
