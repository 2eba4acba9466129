"""What another user can do with a named tensor, tried as another user (65534), where it may."""

from __future__ import annotations

import os

import pytest

from shmtensor import memory

from .actor import Actor, actors
from .hostile import BECOME, NOBODY, attack, resize_attack

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")

NAME = f"other/{os.getpid()}"
PUBLISH = (
    "x = st.arange(24, dtype=st.float32).reshape(4, 6); secret = st.full((1000,), 7.0)\n"
    f"v = x[1:3]; memory.publish({NAME!r}, v, mode={{mode:#o}})"
)
OPEN = f"t = memory.open({NAME!r}, owner=0, readonly={{readonly}}, timeout=10)"
IMPORT = "from memory import hostile"
GROUPS = {
    "other": BECOME,
    "group": f"os.setgroups([{os.getegid()}]); os.setgid(65534); os.setuid(65534)",
    "primary group": f"os.setgroups([]); os.setgid({os.getegid()}); os.setuid(65534)",
}


MODES = (0o600, 0o604, 0o606, 0o640, 0o644, 0o660, 0o664, 0o666)


@pytest.mark.parametrize("kind", GROUPS)
def test_each_user_gets_what_the_mode_says(kind: str) -> None:
    with actors(2) as (publisher, opener):
        opener.do(GROUPS[kind])
        for mode in MODES:
            publisher.do(PUBLISH.format(mode=mode))
            check_mode(publisher, opener, mode & 7 if kind == "other" else mode >> 3 & 7)
            publisher.do(f"memory.unpublish({NAME!r})")


def check_mode(publisher: Actor, opener: Actor, bits: int) -> None:
    """What the other user may do with a tensor just published; `bits`: its permissions."""
    assert "FileNotFoundError" in opener.fails(f"memory.open({NAME!r})")  # not its own name
    for readonly, needed in ((True, 4), (False, 6)):
        line = OPEN.format(readonly=readonly)
        if bits & needed != needed:
            verb = "read" if readonly else "write"
            assert f"PermissionError open: {NAME!r}: user 65534 may not {verb} it: mode " in (
                opener.fails(line)
            )
            continue
        opener.do(line)
        assert opener.do("out = t.sum().item()") == "138.0"
        publisher.do("x[1, 0] += 1; secret += 1")  # in the storage, and elsewhere
        assert opener.do("out = t.sum().item()") == "139.0"
        if not readonly:
            opener.do("t[0, 1] += 1")
            assert publisher.do("out = v.sum().item(), x[1, 1].item()") == "(140.0, 8.0)"
        publisher.do("x[1, 0] -= 1")
        opener.do("del t; memory.check()")
    assert opener.do("out = [d for d in memory.domains() if not d.own]") == "[]"
    assert publisher.do("memory.check(); out = memory.domains()[0].processes") == "1"


@pytest.mark.parametrize("mode", [0o644, 0o444])
def test_a_reader_cannot_write_resize_or_reach_beyond(mode: int) -> None:
    with actors(2) as (publisher, opener):
        publisher.do(PUBLISH.format(mode=mode))
        domain = publisher.do("out = [os.fstat(fd).st_ino for fd in native.domain_fds()]")
        opener.do(f"{IMPORT}; {BECOME}; {OPEN.format(readonly=True)}")
        assert opener.do("out = hostile.attack(t)") == "[]"
        assert opener.do("out = published_file.file_of(t.array).size()") == str(24 * 4)
        opened = opener.do("out = sorted(inode for _, inode in hostile.inodes())")
        assert not set(domain[1:-1].split(", ")) & set(opened[1:-1].split(", "))
        assert publisher.do("out = v.sum().item()") == "138.0"


def test_a_writer_cannot_resize() -> None:
    with actors(2) as (publisher, opener):
        publisher.do(PUBLISH.format(mode=0o666))
        opener.do(f"{IMPORT}; {BECOME}; {OPEN.format(readonly=False)}")
        assert opener.do("out = hostile.resize_attack(t)") == "[]"
        opener.do("t.zero_()")
        assert publisher.do("out = v.sum().item(), x[0].sum().item()") == "(0.0, 15.0)"


def test_root_opens_another_users_file() -> None:
    with actors(1) as (publisher,):
        publisher.do(BECOME)
        publisher.do(PUBLISH.format(mode=0o644))
        t = memory.open(NAME, owner=NOBODY)
        t[0, 0] = 0
        assert publisher.do("out = v[0, 0].item()") == "0.0"
        assert resize_attack(t) == []
        with pytest.raises(ValueError, match="belongs to another user: 65534, publish"):
            memory.publish(NAME, t)
        del t


def test_the_tensor_outlives_its_publisher_and_the_name_does_not() -> None:
    with actors(2) as (publisher, opener):
        publisher.do(PUBLISH.format(mode=0o644))
        opener.do(f"{BECOME}; {OPEN.format(readonly=True)}")
        publisher.kill()
        assert opener.do("out = t.sum().item()") == "138.0"
        failure = OPEN.format(readonly=True).replace("timeout=10", "timeout=0")
        assert "FileNotFoundError" in opener.fails(failure)


def test_a_follower_of_the_publishers_user_serves_other_users() -> None:
    with actors(3) as (publisher, follower, opener):
        publisher.do(PUBLISH.format(mode=0o644))
        follower.do(f"w = memory.open({NAME!r})")
        publisher.kill()
        opener.do(f"{IMPORT}; {BECOME}; {OPEN.format(readonly=True)}")
        follower.do("w[0, 0] += 1")
        assert opener.do("out = t.sum().item(), hostile.attack(t)") == "(139.0, [])"


def test_the_attacks_would_be_noticed() -> None:
    """The list of attacks that succeed is not empty where they may."""
    import shmtensor as st

    x = st.ones(3)
    memory.publish(NAME, x, mode=0o644)
    try:
        assert {"pwrite", "map for writing", "mprotect", "punch a hole", "chmod"} <= set(attack(x))
        assert resize_attack(x) == []
    finally:
        memory.unpublish(NAME)
