"""Launchers of one run on several nodes, all of this machine: each has a separate domain, so that
its ranks share memory only among themselves.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from shmtensor.distributed.launcher.agents import parse_nnodes, parse_settings
from shmtensor.distributed.rendezvous.tcp_store import TCPStore
from tests.network_namespaces import HOST, two_hosts

from ..run_ranks import free_port

RUN = [sys.executable, "-m", "shmtensor.run"]
TRAINED = """
    import os, signal, sys, time
    import shmtensor as st
    from shmtensor import distributed as dist
    {before}
    dist.init_process_group("gloo", timeout=60)
    rank, again = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    dist.barrier()
    {}
    x = st.full((20_000,), float(rank + 1))
    dist.all_reduce(x)
    names = "RANK LOCAL_RANK GROUP_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_WORLD_SIZE".split()
    line = [float(x[5]), again, *(os.environ[name] for name in names)]
    os.write(1, (" ".join(map(str, line)) + "\\n").encode())
    dist.destroy_process_group()
"""


@pytest.fixture
def begin(tmp_path: Path) -> Any:
    """Starts launchers, and ends those that still run at the end."""
    processes: list[subprocess.Popen[str]] = []
    env = {**os.environ, "SHMTENSOR_SECRET": "5c" * 16, "OMP_NUM_THREADS": "1"}
    env["PYTHONPATH"] = os.pathsep.join(sys.path)

    def start(
        code: str, *arguments: str, space: str = "", before: str = "", **environ: str
    ) -> subprocess.Popen[str]:
        path = tmp_path / "script.py"
        text = textwrap.dedent(TRAINED).replace("{}", code)
        path.write_text(text.replace("{before}", before))
        inside = ["ip", "netns", "exec", space] if space else []
        process = subprocess.Popen(
            [*inside, *RUN, *arguments, str(path)],
            env={**env, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield start
    for each in processes:
        if each.poll() is None:
            each.kill()
        each.communicate()


def static(
    port: int, node: int, ranks: int = 2, host: str = "127.0.0.1", nodes: int = 2
) -> list[str]:
    return [
        f"--nnodes={nodes}", f"--node_rank={node}", f"--nproc_per_node={ranks}",
        f"--master_addr={host}", f"--master_port={port}",
    ]  # fmt: skip


def elastic(port: int, nodes: str = "1:2", *options: str) -> list[str]:
    return [
        f"--nnodes={nodes}", "--nproc-per-node=1", "--rdzv_backend=c10d", "--rdzv_id=some",
        f"--rdzv_endpoint=127.0.0.1:{port}", "--rdzv_conf=last_call_timeout=1,join_timeout=60",
        *options,
    ]  # fmt: skip


def ends(*launchers: subprocess.Popen[str]) -> list[tuple[int, list[str], str]]:
    outputs = [each.communicate(timeout=120) for each in launchers]
    return [
        (each.returncode, sorted(out.splitlines()), err)
        for each, (out, err) in zip(launchers, outputs, strict=True)
    ]


def test_ranks_of_two_nodes_reduce_and_see_their_environment(begin: Any) -> None:
    port = free_port()
    (one, out, err), (two, out2, err2) = ends(
        begin("", *static(port, 0, 1)), begin("", *static(port, 1))
    )
    assert (one, two) == (0, 0), (err, err2)
    assert out == ["6.0 0 0 0 0 3 1 2"]
    assert out2 == ["6.0 0 1 0 1 3 2 2", "6.0 0 2 1 1 3 2 2"]
    assert (err, err2) == ("", "")


def test_the_first_failure_is_shown_once_with_its_node_and_all_begin_anew(begin: Any) -> None:
    port, code = free_port(), "assert rank < 2 or again, 'no such luck'"
    first, second = ends(
        begin(code, *static(port, 0), "--max-restarts=1"),
        begin(code, *static(port, 1, 1), "--max-restarts=1"),
    )
    assert (first[0], second[0]) == (0, 0), (first, second)
    assert [line[:5] for line in first[1] + second[1]] == ["6.0 1"] * 3
    for _, _, err in (first, second):
        assert f"rank 2 on node 1 ({socket.gethostname()})" in err
        assert "restart 1 of 1" in err
    assert (first[2] + second[2]).count("Traceback") == 1
    assert "no such luck" in second[2]


@pytest.mark.parametrize(
    ("victim", "who"), [(1, "node 1 ({})"), (0, "the node of the store (127.0.0.1)")]
)
def test_a_node_that_dies_ends_the_other(begin: Any, victim: int, who: str) -> None:
    port = free_port()
    waits = f"rank == {victim} or os.write(1, b'running\\n'); time.sleep(100)"
    launchers = [begin(waits, *static(port, node, 1)) for node in (0, 1)]
    stays, dies = launchers[1 - victim], launchers[victim]
    assert stays.stdout.readline() == "running\n"
    dies.kill()
    ((code, _, err),) = ends(stays)
    assert code == 1
    assert f"{who.format(socket.gethostname())} has died" in err


@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_that_dies_while_connections_are_made_ends_all(begin: Any, victim: int) -> None:
    port = free_port()
    before = f"""if os.environ["RANK"] == "{victim}":
        from shmtensor.distributed.backends.tcp import connect_ranks
        connect_ranks.connect = lambda *_: os._exit(7)"""
    one, two = ends(*(begin("", *static(port, i, 1), before=before) for i in range(2)))
    assert (one[0], two[0]) == (7, 7), (one, two)
    for _, _, err in (one, two):
        assert f"rank {victim} on node {victim} ({socket.gethostname()})" in err
        assert "exited with code 7" in err


def test_a_node_rank_given_twice_is_told_to_all(begin: Any) -> None:
    port = free_port()
    launchers = [begin("", *static(port, node, 1, nodes=3)) for node in (0, 1, 1)]
    for code, out, err in ends(*launchers):
        assert (code, out) == (1, [])
        assert "--node-rank is given twice: [0, 1, 1] on [" in err


def test_addresses_of_version_6(begin: Any) -> None:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
            port = server.getsockname()[1]
    except OSError as error:
        pytest.skip(f"this machine has no IPv6: {error}")
    outputs = ends(*(begin("", *static(port, i, 1, "[::1]")) for i in range(2)))
    assert [code for code, _, _ in outputs] == [0, 0], outputs
    assert [line[:5] for _, out, _ in outputs for line in out] == ["3.0 0"] * 2


def test_a_port_that_is_taken_is_told_at_once(begin: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        ((code, out, err),) = ends(begin("", *static(port, 0)))
    assert (code, out) == (2, [])
    assert f"cannot listen at 127.0.0.1:{port}: Address already in use" in err


def test_nodes_come_and_go(begin: Any) -> None:
    """MIN:MAX: one begins alone; another joins and restart; it dies and the first continues."""
    port = free_port()
    body = """dist.get_world_size() == 1 and again or os.write(1, b'%d of %d\\n' % (
        rank, dist.get_world_size())) and time.sleep(100)"""
    first = begin(body, *elastic(port), "--max-restarts=1")
    assert first.stdout.readline() == "0 of 1\n"
    second = begin(body, *elastic(port), "--max-restarts=1")
    assert first.stdout.readline() in ("0 of 2\n", "1 of 2\n")  # in the order of their start
    second.kill()
    ((code, out, err),) = ends(first)
    assert code == 0, err
    assert out == ["1.0 1 0 0 0 1 1 1"]
    assert "another node joins" in err
    assert "has died" in err
    assert "restart 1 of 1" in err


def test_a_signal_to_one_ends_all(begin: Any) -> None:
    port = free_port()
    waits = "rank or os.write(1, b'running\\n'); time.sleep(100)"
    one, two = begin(waits, *static(port, 0, 1)), begin(waits, *static(port, 1, 1))
    assert one.stdout.readline() == "running\n"
    two.send_signal(signal.SIGTERM)
    (first, _, err), (second, _, _) = ends(one, two)
    assert (first, second) == (1, 128 + signal.SIGTERM)
    assert "node 1" in err
    assert "was told to end" in err


def test_wrong_use_is_an_error_at_once(begin: Any) -> None:
    port = free_port()
    for arguments, environ, text in [
        (static(port, 0), {"SHMTENSOR_SECRET": ""}, "need a secret in common"),
        (static(port, 2), {}, "--node-rank is none of 2: 2"),
        (["--nnodes=1:2"], {}, "needs --rdzv-backend c10d"),
        (["--nnodes=2:1"], {}, "neither a number nor MIN:MAX: '2:1'"),
        (["--nnodes=2", "--rdzv-backend=etcd"], {}, "neither static nor c10d: 'etcd'"),
    ]:
        ((code, out, err),) = ends(begin("", *arguments, **environ))
        assert (code, out) == (2, []), err
        assert text in err


def test_a_peer_without_the_secret_is_refused(begin: Any) -> None:
    store = TCPStore("127.0.0.1", 0, is_master=True, secret=b"x" * 16)
    ((code, _, err),) = ends(begin("", *static(store.port, 1)))
    store.close()
    assert code == 2
    assert "does not know the run's secret" in err


def test_a_key_is_set_when_its_owner_is_gone() -> None:
    with TCPStore("127.0.0.1", 0, is_master=True, timeout=30, secret=b"s") as store:
        other = TCPStore("127.0.0.1", store.port, secret=b"s")
        other.set_when_gone("first", "replaced")
        other.set_when_gone("gone", "its host")
        assert store.try_get("gone") is None
        other.close()
        assert store.get("gone") == b"its host"
        assert store.try_get("first") is None


def test_arguments() -> None:
    assert [parse_nnodes(text) for text in ("2", "1:4")] == [(2, 2), (1, 4)]
    assert parse_settings("join_timeout=5,is_host=0") == {"join_timeout": "5", "is_host": "0"}


# ---------------------------------------------------------------- hosts with addresses of their own
@pytest.fixture
def spaces() -> Any:
    """Two network namespaces with a cable between them: names, and its ends."""
    with two_hosts() as hosts:
        yield hosts


def test_hosts_with_separate_addresses(begin: Any, spaces: Any) -> None:
    names, _ = spaces
    outputs = ends(
        *(begin("", *static(29500, i, 2, HOST), space=name) for i, name in enumerate(names))
    )
    assert [code for code, _, _ in outputs] == [0, 0], outputs
    assert [line[:6] for _, out, _ in outputs for line in out] == ["10.0 0"] * 4


def test_a_host_that_no_longer_answers_has_died(begin: Any, spaces: Any) -> None:
    names, cable = spaces
    body = "\n".join(
        [
            "rank or signal.signal(signal.SIGTERM, signal.SIG_IGN)",  # the launcher may be first
            r"rank or os.write(1, b'running\n')",
            "try: rank and time.sleep(100) or dist.barrier()",
            r"except Exception as error: os.write(1, f'{error}\n'.encode()); os._exit(0)",
        ]
    )
    stays, goes = (
        begin(body, *static(29500, i, 1, HOST), space=name) for i, name in enumerate(names)
    )
    assert stays.stdout.readline() == "running\n"
    subprocess.run(["ip", "-n", names[1], "link", "set", cable[1], "down"], check=True)
    assert "rank 1 (pid " in stays.stdout.readline()
    (code, _, err), (other, _, err2) = ends(stays, goes)
    assert (code, other) == (1, 1)
    assert "has died" in err
    assert "has died" in err2
