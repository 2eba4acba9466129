"""Ranks that no common parent has started, nor one that knows shmtensor, meet by address and port,
by a name or by a store; what cannot share memory is named, or communicates over TCP.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from shmtensor import distributed as dist
from shmtensor.distributed.rendezvous.find_group import find_group
from shmtensor.distributed.rendezvous.secret import shared_secret
from shmtensor.errors import CollectiveMismatch, CollectiveTimeout

from ..ddp.sharded_step import training
from ..run_ranks import SECRET, free_port, run
from ..run_ranks import values as values_of
from .strangers import Stranger, end_all, end_in_one_session, values

NOBODY = 65534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
HAS_SECRET = {"SHMTENSOR_SECRET": SECRET}


def can_unshare(*what: str) -> bool:
    return (
        bool(shutil.which("unshare"))
        and not subprocess.run(
            ["unshare", *what, "true"], capture_output=True, check=False
        ).returncode
    )


def together(path: Path, n: int) -> list[str]:
    """Settings by which n ranks begin to meet at the same time, and print no line meanwhile."""
    path.mkdir()
    return [f"together={path}", f"n={n}"]


def strangers(
    n: int,
    *case: str,
    before: str = "",
    port: int = 0,
    world: int = 0,
    each: dict[int, list[str]] | None = None,
    **env: str,
) -> list[Stranger]:
    """The first n ranks of `world` (0: all); those in `before` make a tensor before they meet.

    Args:
        each: further settings, by rank.
    """
    port = port or free_port()
    settings = {r: ["before=1"] if str(r) in before else [] for r in range(n)}
    return [
        Stranger(r, world or n, port, *case, *settings[r], *(each or {}).get(r, []), **env)
        for r in range(n)
    ]


# ---------------------------------------------------------------- they share memory
BY_PID = {"SHMTENSOR_LIVENESS": "process"}


@pytest.mark.parametrize(
    ("before", "domains", "env"),
    [("", 1, {}), ("0", 1, {}), ("1", 2, {}), ("012", 3, {}), ("", 1, BY_PID), ("012", 3, BY_PID)],
    ids=["none", "0", "1", "all", "none, deaths by pid", "all, deaths by pid"],
)
def test_ranks_meet_by_address_and_port_and_share_memory(
    before: str, domains: int, env: dict[str, str]
) -> None:
    records = end_all(strangers(3, "meet", "silence=1000", before=before, **env))
    expected = {"sums": [True, True], "domains": domains, "staged": 0, "name": "Group"}
    assert values(records) == [expected] * 3
    assert not any(record["stderr"] for record in records)


PARENT = """
import multiprocessing, os, sys
sys.path[:0] = {path!r}

def rank(r, port):
    os.environ.update(RANK=str(r), WORLD_SIZE="3", MASTER_ADDR="localhost", MASTER_PORT=port)
    os.environ.pop("SHMTENSOR_DOMAIN", None)
    import shmtensor as st
    from shmtensor import distributed as dist
    dist.init_process_group(timeout=60)
    x = st.full((50_000,), 1.0 + r)
    dist.all_reduce(x)
    assert x[-1].item() == 6.0
    dist.destroy_process_group()

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    ranks = [context.Process(target=rank, args=(r, sys.argv[1])) for r in range(3)]
    for each in ranks: each.start()
    for each in ranks: each.join()
    assert "shmtensor" not in sys.modules
    print([each.exitcode for each in ranks])
"""


def test_children_that_the_standard_library_spawns_meet(tmp_path: Path) -> None:
    """Their parent has never imported shmtensor."""
    program = tmp_path / "parent.py"
    program.write_text(PARENT.format(path=sys.path))
    env = {name: value for name, value in os.environ.items() if name != "SHMTENSOR_DOMAIN"}
    command = [sys.executable, str(program), str(free_port())]
    result = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert result.stdout == "[0, 0, 0]\n", result.stderr


@pytest.mark.parametrize("kind", ["method=file:///nowhere/", "method=any name ", "store="])
def test_any_name_or_store_is_a_place_to_meet(kind: str, tmp_path: Path) -> None:
    records = end_all(strangers(2, "meet", f"{kind}{tmp_path / 'place'}", before="1"))
    assert [each["name"] for each in values(records)] == ["Group"] * 2


def test_a_rank_tries_again_at_a_store_after_a_timeout() -> None:
    store = dist.HashStore()
    for rank in (0, 1):
        meet = partial(find_group, f"again/{rank}", store=store)
        with pytest.raises(CollectiveTimeout, match=f"rank {1 - rank} "):
            meet(rank, 2, 0.01)
        threads = [threading.Thread(target=meet, args=(r, 2, 60.0)) for r in range(2)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()


def test_two_strangers_meet_within_a_second(tmp_path: Path) -> None:
    """One of five times, from the moment when both have been imported."""
    seconds = []
    for i in range(5):
        records = end_all(strangers(2, "meet", *together(tmp_path / str(i), 2), before="01"))
        values(records)
        seconds.append(max(record["seconds"] for record in records))
        if seconds[-1] < 1.0:
            return
    raise AssertionError(seconds)


# With tensors in domains of their own; test_ranks_meet_by_address_and_port_... has every mixture.
def test_the_battery_holds_among_strangers() -> None:
    counts = values(end_all(strangers(3, "battery", before="012")))
    assert len(set(counts)) == 1
    assert counts[0] > 40


def test_strangers_train_as_forked_ranks_do() -> None:
    forked = {gradient.hex() for gradient in values_of(run(training, 2))}
    assert set(values(end_all(strangers(2, "train", before="01")))) == forked
    assert len(forked) == 1


def test_groups_objects_and_a_second_group_work_among_strangers() -> None:
    for record in values(end_all(strangers(3, "groups_and_objects", before="12"))):
        assert all(record), record


def test_launched_ranks_and_a_stranger_are_one_group() -> None:
    case = ["meet", f"method=mixed {free_port()}"]
    launch = [sys.executable, "-m", "shmtensor.run", "--nproc-per-node", "2", "-m"]
    command = [*launch, Stranger.__module__, *case, "before=1", "world=3"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    stranger = Stranger(2, 3, 1, *case)
    try:
        result = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=120, check=False
        )
    finally:
        record = stranger.end()
    assert result.stdout.count('"sums": [true, true]') == 2, result
    values([record])


def meet_forked(name: str) -> bool:
    import shmtensor as st

    rank = dist.get_rank()
    dist.destroy_process_group()
    dist.init_process_group("gloo", name, timeout=60, world_size=3, rank=rank)
    for size in (3, 100_000):
        x = st.full((size,), float(rank + 1))
        dist.all_reduce(x)
        assert x[-1].item() == 6.0
    return True


@pytest.mark.parametrize("before", ["", "2"])
def test_forked_ranks_and_a_stranger_are_one_group(before: str) -> None:
    name = f"forked {free_port()}"
    case = ["meet", f"method={name}", *(["before=1"] if before else [])]
    stranger = Stranger(2, 3, 1, *case)
    try:
        assert values_of(run(meet_forked, 2, name)) == [True, True]
    finally:
        record = stranger.end()
    assert values([record])[0]["domains"] == (2 if before else 1)


PUBLISHER = """
import sys
import shmtensor as st
from shmtensor import memory
memory.publish(sys.argv[1], st.full((50_000,), 2.0))
print("published", flush=True)
sys.stdin.read()
"""


def sum_opened(name: str) -> tuple[float, int]:
    """Rank 0's operand is of a domain in which no other rank is."""
    import shmtensor as st
    from shmtensor import memory

    x = memory.open(name) if dist.get_rank() == 0 else st.full((50_000,), 3.0)
    out = st.zeros(100_000)
    dist.all_gather_into_tensor(out, x)
    world: Any = dist.GroupMember.WORLD
    return out.sum().item(), world.statistics().bytes_staged


def test_memory_that_some_rank_cannot_reach_is_staged() -> None:
    name = f"staged/{os.getpid()}"
    environment = {**os.environ, "SHMTENSOR_DOMAIN": "new", "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", PUBLISHER, name],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as publisher:
        assert publisher.stdout is not None
        assert publisher.stdout.readline() == "published\n"
        zero, one = values_of(run(sum_opened, 2, name))
        publisher.communicate("")
    assert zero == (250_000.0, 200_000)
    assert one == (250_000.0, 0)


# ---------------------------------------------------------------- deaths
STEPS = ["hello", "welcome", "plan", "guest", "lent", "domains", "group", "joined"]


@pytest.mark.parametrize("step", [*STEPS, "member"])
def test_a_rank_that_dies_while_it_joins_is_named_by_all(step: str) -> None:
    before = "2" if step == "member" else "12"
    ranks = strangers(3, "stay", before=before, each={1: [f"die={step}"]})
    check_lost(end_all(ranks), ranks[1], -9)


@pytest.mark.parametrize("step", ["gathered", "planned", "shared", "all joined"])
def test_a_rank_0_that_dies_while_others_join_is_named_by_all(step: str) -> None:
    ranks = strangers(3, "stay", before="2", each={0: [f"die={step}"]})
    check_lost(end_all(ranks), ranks[0], -9)


def test_an_interrupted_rank_0_is_named_by_all() -> None:
    ranks = strangers(3, "stay", each={0: ["interrupt=planned"]})
    records = end_all(ranks)
    assert records[0]["error"] == "KeyboardInterrupt"
    check_lost(records, ranks[0], 0, "gave up: KeyboardInterrupt")


def check_lost(
    records: list[dict[str, Any]], victim: Stranger, exitcode: int, text: str = ""
) -> None:
    """All others name the victim."""
    for rank, record in enumerate(records):
        if rank == victim.rank:
            assert record["exitcode"] == exitcode
        else:
            assert record["error"] == "PeerLostError", record
            assert f"rank {victim.rank} (pid {victim.process.pid}" in record["text"]
            assert text in record["text"]


def test_a_death_in_the_group_is_noticed_as_among_forked_ranks() -> None:
    records = end_all(strangers(3, "lose", before="012"))
    for record in (records[0], records[2]):
        name, is_pid, late, text = record["value"]
        assert name == "rank 1"
        assert is_pid
        assert late < 5.0  # 0.3 s until it dies, and the bound of `make kills` on a loaded machine
        assert "SIGKILL" in text or "exit code unknown" in text


def await_line(stranger: Stranger, line: str) -> None:
    """Waits until a rank that prints nothing else meanwhile has printed a line."""
    assert stranger.process.stdout is not None
    assert stranger.process.stdout.readline() == line, stranger.end()


@pytest.mark.parametrize("at", ["socket", pytest.param("store", marks=AS_ROOT)])
def test_rank_0_waits_on_for_a_rank_that_gave_up_and_lives(at: str) -> None:
    port, env = free_port(), HAS_SECRET if at == "store" else {}
    again = ["again=1", *([f"uid={NOBODY}"] if at == "store" else [])]
    ranks = strangers(2, "meet", port=port, world=3, each={1: again}, **env)
    await_line(ranks[1], "gave up\n")
    values(end_all([*ranks, Stranger(2, 3, port, "meet", **env)]))


# ---------------------------------------------------------------- a rank fails
@pytest.mark.parametrize(("rank", "step"), [(1, "welcome"), (0, "planned")])
def test_a_rank_without_free_descriptors_says_so_to_all(rank: int, step: str) -> None:
    ranks = strangers(3, "stay", before="012", each={rank: [f"descriptors={step}"]})
    for record in end_all(ranks):
        assert record["error"] == "DomainError", record
        assert (
            f"no free descriptors for another rank's memory: pid {ranks[rank].process.pid}"
            in (record["text"])
        )
        assert record["seconds"] < 30  # long before the timeout


def test_too_many_domains_are_refused_on_all_ranks() -> None:
    for record in end_all(strangers(3, "stay", "domains=1", before="012")):
        assert record["error"] == "DomainError", record
        assert "too many domains: 2 beside that of rank 0, at most 1" in record["text"]


@pytest.mark.parametrize("step", ["welcome", "plan"])
def test_a_domain_may_be_born_while_a_rank_waits(step: str) -> None:
    """By another thread's first tensor, or by a fork."""
    ranks = strangers(2, "meet", each={1: [f"tensor={step}"]})
    expected = {"sums": [True, True], "domains": 2, "staged": 0, "name": "Group"}
    assert values(end_all(ranks)) == [expected] * 2


# ---------------------------------------------------------------- they do not fit
@pytest.mark.parametrize("by", ["port", "store"])
@pytest.mark.parametrize(
    ("rank", "world", "reason"),
    [
        (0, 3, "rank 0 came twice"),
        (1, 3, "rank 1 came twice"),
        (2, 4, "they disagree about the world size"),
    ],
)
def test_ranks_that_do_not_fit_all_raise_at_once(
    rank: int, world: int, reason: str, by: str, tmp_path: Path
) -> None:
    port, case = free_port(), ["stay", "silence=0.1"]
    case += [f"store={tmp_path / 'store'}"] if by == "store" else []
    ranks = strangers(2, *case, port=port, world=3)
    assert ranks[1].process.stderr is not None
    while "1 of 3 are missing" not in (line := ranks[1].process.stderr.readline()):
        assert line  # rank 0 tells a rank that has come who is missing
    ranks.append(Stranger(rank, world, port, *case))
    for record in end_all(ranks):
        assert record["error"] == "CollectiveMismatch", record
        assert reason in record["text"]
        for each in (ranks[rank % 2], ranks[2]):
            assert f"rank {each.rank} (pid {each.process.pid}" in record["text"]
        assert record["seconds"] < 30  # long before the timeout


def test_who_is_missing_is_said_after_five_seconds(tmp_path: Path) -> None:
    port, each = free_port(), {0: ["timeout=8"], 1: ["timeout=9"]}
    case = ["stay", *together(tmp_path / "ranks", 2)]
    ranks = strangers(2, *case, port=port, world=3, each=each)
    lost = Stranger(1, 2, free_port(), "stay", "timeout=6")
    zero, one = end_all(ranks)
    line = f"waits at 'localhost:{port}/0/': 1 of 3 are missing: rank 2 has not come"
    for record in (zero, one):
        assert record["stderr"].count(line) == 1, record
        assert record["error"] == "CollectiveTimeout"
    alone = lost.end()
    assert "rank 0 is missing" in alone["stderr"]
    assert "SHMTENSOR_SECRET" in alone["stderr"]


def test_who_is_missing_is_said_to_a_rank_that_comes_later() -> None:
    port = free_port()
    zero = Stranger(0, 3, port, "stay", "silence=0.1", "timeout=60")
    assert zero.process.stderr is not None
    assert "2 of 3 are missing" in zero.process.stderr.readline()
    one = Stranger(1, 3, port, "stay", "silence=1000")
    assert one.process.stderr is not None
    assert "1 of 3 are missing: rank 2 has not come" in one.process.stderr.readline()
    for record in end_all([zero, one, Stranger(2, 3, port, "stay")]):
        assert record.get("value") == "stayed", record


def end_with_stopped(ranks: list[Stranger], victim: int) -> list[dict[str, Any]]:
    """The records of the others; the victim, which is stopped, is killed."""
    try:
        return end_all([each for i, each in enumerate(ranks) if i != victim])
    finally:
        ranks[victim].process.kill()
        ranks[victim].end()


def test_a_rank_that_is_stopped_while_it_joins_is_named(tmp_path: Path) -> None:
    each = {0: ["timeout=6", "silence=1"], 1: ["stop=plan"]}
    ranks = strangers(3, "stay", *together(tmp_path / "ranks", 3), each=each)
    for record in end_with_stopped(ranks, 1):
        assert record["error"] == "CollectiveTimeout", record
        assert record["stderr"].count("which came and does not answer") == 1, record
        assert f"rank 1 (pid {ranks[1].process.pid}" in record["text"]
        assert "it is stopped" in record["text"]


def test_a_rank_0_that_is_stopped_is_named(tmp_path: Path) -> None:
    each = {0: ["stop=gathered"], 1: ["silence=1", "timeout=6"]}
    ranks = strangers(2, "stay", *together(tmp_path / "ranks", 2), each=each)
    (record,) = end_with_stopped(ranks, 0)
    assert record["error"] == "CollectiveTimeout", record
    named = f"rank 0 is pid {ranks[0].process.pid}, uid {os.geteuid()}: it is stopped"
    assert named in record["text"]
    assert record["stderr"].count(named) == 1


def test_a_death_is_noticed_while_another_rank_is_stopped() -> None:
    ranks = strangers(3, "stay", before="1", each={1: ["stop=plan"], 2: ["die=lent"]})
    zero, _ = end_with_stopped(ranks, 1)
    assert zero["error"] == "PeerLostError", zero
    assert f"rank 2 (pid {ranks[2].process.pid}" in zero["text"]
    assert zero["seconds"] < 30  # long before the timeout


def test_who_is_missing_is_said_over_tcp_too() -> None:
    env = {**HAS_SECRET, "LOCAL_WORLD_SIZE": "1"}
    alone = Stranger(1, 2, free_port(), "stay", "timeout=6", **env)
    zero, _ = end_all(strangers(2, "stay", "timeout=6", world=3, **env))
    assert "waits for ranks 2" in zero["stderr"]
    assert "waits for rank 0" in alone.end()["stderr"]


# ---------------------------------------------------------------- they share no memory
def check_apart(records: list[dict[str, Any]], *words: str) -> None:
    for record in records:
        assert record["error"] == "PermissionError", record
        assert record["seconds"] < 30  # long before the timeout
        for word in (*words, "secrets.token_hex()"):
            assert word in record["text"], record


def check_over_tcp(records: list[dict[str, Any]], reason: str) -> None:
    assert [each["name"] for each in values(records)] == ["Engine"] * len(records)
    lines = [line for each in records for line in each["stderr"].splitlines()]
    reasons = [line for line in lines if "runs over TCP" in line]
    assert len(reasons) == 1, lines
    assert reason in reasons[0]
    assert reasons[0] in records[0]["stderr"]


@AS_ROOT
def test_ranks_of_two_users_are_told() -> None:
    port = free_port()
    records = end_in_one_session(
        ((0, 2, port, "meet"), {}), ((1, 2, port, "meet", f"uid={NOBODY}"), {})
    )
    check_apart(records, *(f"pid {record['pid']}" for record in records), f"uid {NOBODY}")


@AS_ROOT
def test_another_session_of_another_user_ends_nothing() -> None:
    """Only the kernel's word that one session started both makes it an error."""
    port = free_port()
    zero = Stranger(0, 2, port, "meet", "silence=0.1")
    assert zero.process.stderr is not None
    assert "1 of 2 are missing" in zero.process.stderr.readline()
    case = ["meet", f"uid={NOBODY}", "silence=0.1", "timeout=1"]
    record = Stranger(1, 2, port, *case, prefix=["setsid", "-w"]).end()
    assert record["error"] == "CollectiveTimeout"
    assert "a process of another user waits for ranks there" in record["stderr"]
    assert zero.process.poll() is None
    records = end_all([zero, Stranger(1, 2, port, "meet")])
    values(records)


UNSHARE = {"pid": ["--pid", "--fork", "--mount-proc"], "net": ["--net"]}


@AS_ROOT
@pytest.mark.parametrize(
    ("what", "by", "has_secret"),
    [
        ("user", "port", True),
        ("pid", "port", True),
        ("pid", "port", False),
        ("pid", "store", True),
        ("net", "store", False),
    ],
)
def test_ranks_that_share_no_memory_communicate_over_tcp_or_are_told(
    what: str, by: str, has_secret: bool, tmp_path: Path
) -> None:
    """Only the last rank shares none with rank 0."""
    store = [f"store={tmp_path / 'store'}"] if by == "store" else []
    n, env, prefix = (3, HAS_SECRET, []) if has_secret else (2, {}, [])
    reason, uid = f"in another {what} namespace", []
    if what == "user":
        reason, uid = f"of another user: uid {NOBODY}, not 0", [f"uid={NOBODY}"]
    elif can_unshare(*UNSHARE[what]):
        prefix = ["unshare", *UNSHARE[what]]
    else:
        pytest.skip(f"may not make a {what} namespace")
    ranks = strangers(n - 1, "meet", *store, before="1", world=n, **env)
    last = Stranger(n - 1, n, ranks[0].port, "meet", *store, *uid, prefix=prefix, **env)
    records = end_all([*ranks, last])
    if has_secret:
        check_over_tcp(records, reason)
    else:
        check_apart(records, reason, "rank 0", "rank 1")
    if store:
        keys = dist.FileStore(str(tmp_path / "store")).list_keys()
        assert not [key for key in keys if key.endswith("/host")]


@pytest.mark.parametrize("left", [b"", b"{}", b"[]", b'{"id": 3, "rank": "0"}', b"\xff"])
def test_what_is_in_a_store_and_no_place_is_an_error(left: bytes) -> None:
    store = dist.HashStore()
    store.set("absurd/host", left or b"no JSON")
    for rank in (0, 1):
        with pytest.raises(CollectiveMismatch, match="what is in the store is no rank: b"):
            find_group("absurd", rank, 2, 60.0, store=store)


@AS_ROOT
@pytest.mark.skipif(not can_unshare("--net"), reason="may not make a network namespace")
def test_ranks_in_two_network_namespaces_say_for_whom_they_wait() -> None:
    port = free_port()
    ranks = [
        Stranger(0, 2, port, "meet", "timeout=6"),
        Stranger(1, 2, port, "meet", "timeout=6", prefix=["unshare", "--net"]),
    ]
    for record, missing in zip(
        end_all(ranks), ("rank 1 has not come", "rank 0 is missing"), strict=True
    ):
        assert record["error"] == "CollectiveTimeout"
        assert missing in record["stderr"]
        assert "network namespace" in record["stderr"]


def test_a_rank_on_another_host_is_told() -> None:
    """The address of rank 0 is none of this host: 192.0.2.1 is for documentation."""
    record = Stranger(1, 2, free_port(), "meet", MASTER_ADDR="192.0.2.1").end()
    check_apart([record], "rank 1 (pid", "'192.0.2.1'")


# ---------------------------------------------------------------- the port
def test_a_port_that_another_program_has_disturbs_no_ranks_that_share_memory() -> None:
    with socket.create_server(("127.0.0.1", 0)) as program:
        port = program.getsockname()[1]
        for env in ({}, HAS_SECRET):
            records = end_all(strangers(2, "meet", port=port, **env))
            assert [each["name"] for each in values(records)] == ["Group"] * 2


@AS_ROOT
def test_a_port_that_another_program_has_is_an_error_where_ranks_need_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as program:
        port = program.getsockname()[1]
        zero, one = end_in_one_session(
            ((0, 2, port, "meet"), HAS_SECRET), ((1, 2, port, "meet", f"uid={NOBODY}"), HAS_SECRET)
        )
    assert zero["error"] == one["error"] == "PermissionError"
    assert f"cannot listen at 127.0.0.1:{port}" in zero["text"]
    assert f"127.0.0.1:{port}" in one["text"]


def test_a_store_that_is_not_this_groups_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a program that has the port, and knows the secret."""
    port = free_port()
    monkeypatch.setenv("SHMTENSOR_SECRET", SECRET)
    with dist.TCPStore("127.0.0.1", port, is_master=True, secret=shared_secret("test")):
        one = Stranger(1, 2, port, "meet", "silence=0.2", **HAS_SECRET)
        assert one.process.stderr is not None
        assert "is not that of this group's rank 0" in one.process.stderr.readline()
        records = end_all([Stranger(0, 2, port, "meet", **HAS_SECRET), one])
    assert [each["name"] for each in values(records)] == ["Group"] * 2


def test_secrets_of_ranks_that_share_memory_are_not_compared() -> None:
    """The kernel says that they are of one user."""
    port = free_port()
    ranks = [
        Stranger(0, 2, port, "meet", **HAS_SECRET),
        Stranger(1, 2, port, "meet", SHMTENSOR_SECRET="7c" * 16),
    ]
    assert [each["name"] for each in values(end_all(ranks))] == ["Group"] * 2
