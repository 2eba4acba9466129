"""python -m shmtensor.run: environment, exit codes, who died and how, and nothing that is left
behind.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shmtensor.distributed.elastic.multiprocessing.errors import (
    ErrorHandler,
    get_error_handler,
    record,
)
from shmtensor.distributed.run import get_args_parser

RUN = [sys.executable, "-m", "shmtensor.run"]


def script(folder: Path, text: str) -> str:
    path = folder / "script.py"
    path.write_text(textwrap.dedent(text))
    return str(path)


def launch(*arguments: str, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RUN, *arguments], capture_output=True, text=True, timeout=90, check=False, **kwargs
    )


def still_there(mark: str) -> list[str]:
    names = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"MARK={mark}\0".encode() in path.read_bytes():
                state = (path.parent / "stat").read_text().rpartition(")")[2].split()[0]
                if state != "Z":
                    names.append(path.parent.name)
        except OSError:  # ended, or another user's
            continue
    return names


def assert_nothing_stays(mark: str) -> None:
    end = time.monotonic() + 5
    while (names := still_there(mark)) and time.monotonic() < end:
        time.sleep(0.02)
    assert not names


def test_ranks_reduce_and_see_their_environment(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        """
        import os, sys
        import shmtensor as st
        from shmtensor import distributed as dist
        assert __name__ == "__main__" and sys.path[0] == os.path.dirname(os.path.abspath(__file__))
        dist.init_process_group()
        x = st.full((20_000,), float(dist.get_rank()))
        dist.all_reduce(x)
        if dist.get_rank() == 0:
            print(float(x[5]), os.environ["WORLD_SIZE"], os.environ["LOCAL_WORLD_SIZE"],
            sys.argv[1:])
        dist.destroy_process_group()
        """,
    )
    completed = launch("--standalone", "--nnodes=1", "--nproc_per_node", "3", name, "--lr", "1")
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout == "3.0 3 3 ['--lr', '1']\n"
    assert completed.stderr == ""


@pytest.mark.parametrize("option", ["--nproc", "--nproc-per-node", "--nproc_per_node"])
def test_the_number_of_ranks_has_a_short_name(option: str) -> None:
    assert get_args_parser().parse_args([option, "3", "x.py"]).nproc_per_node == 3
    assert get_args_parser().parse_args([f"{option}=3", "x.py"]).nproc_per_node == 3


def test_module_form(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "__init__.py").write_text("")
    (tmp_path / "work" / "train.py").write_text(
        "import os\nif os.environ['RANK'] == '1': print(__spec__.name)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    completed = launch("--nproc-per-node", "2", "-m", "work.train", cwd=tmp_path, env=environment)
    assert (completed.returncode, completed.stdout) == (0, "work.train\n"), completed.stderr


WAITING = """
    import os, signal, sys, time
    import shmtensor as st
    from shmtensor import distributed as dist
    dist.init_process_group()
    dist.barrier()
    if dist.get_rank() == 1:
        {}
    dist.all_reduce(st.zeros(3))
    time.sleep(60)
"""


def test_an_exception_is_reported_before_the_rank_exits(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        """
        import threading, time
        import shmtensor as st
        from shmtensor import distributed as dist
        dist.init_process_group()
        if dist.get_rank() == 1:
            threading.Thread(target=time.sleep, args=(2.0,)).start()  # is awaited at the end
            raise ValueError("no such luck")
        try:
            dist.all_reduce(st.zeros(3))
        except st.errors.PeerLostError as error:
            print(error)
            raise
        """,
    )
    completed = launch("--nproc-per-node", "2", name)
    assert "rank 1 gave up: it raised ValueError: no such luck" in completed.stdout
    assert completed.returncode == 1
    assert "rank 1 (pid" in completed.stderr, completed.stderr  # not rank 0, which had ended before
    assert completed.stderr.count("Traceback") == 1, completed.stderr


def test_restarts(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        """
        import os
        from shmtensor import distributed as dist
        dist.init_process_group()
        dist.barrier()
        n = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
        if n < 2 and dist.get_rank() == 0:
            raise RuntimeError(f"attempt {n}")
        dist.barrier()
        if dist.get_rank() == 0:
            print("attempt", n)
        """,
    )
    completed = launch("--nproc-per-node", "2", "--max-restarts", "2", name)
    assert (completed.returncode, completed.stdout) == (0, "attempt 2\n"), completed.stderr
    assert "restart 2 of 2" in completed.stderr


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_ranks_end_with_the_launcher(tmp_path: Path, number: int, code: int) -> None:
    name = script(tmp_path, WAITING.format("print('ready', flush=True); time.sleep(60)"))
    mark = f"{os.getpid()}-{code}"
    process = subprocess.Popen(
        [*RUN, "--nproc-per-node", "2", name],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "MARK": mark},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    assert process.wait(20) == code
    process.stdout.close()
    assert_nothing_stays(mark)


def test_bad_arguments_are_an_error() -> None:
    for arguments, text in [
        (["--nproc-per-node", "0", "x.py"], "not a number of processes: '0'"),
        (["--no-python", "-m", "x"], "--no-python and --module exclude each other"),
        (["--start-method", "nope", "x.py"], "invalid choice: 'nope'"),
        (["no-such-file.py"], "no such file: no-such-file.py"),
        (["--signals-to-handle", "SIGTERM,SIGNOPE", "x.py"], "no such signal: 'SIGNOPE'"),
        (["--nproc-per-node", "gpu", "x.py"], "there is no GPU for CuPy here"),
        (["-t", "x", "x.py"], "is neither 0 to 3 nor rank:what,...: 'x'"),
        (["-r", "0:1,2", "x.py"], "is neither 0 to 3 nor rank:what,...: '0:1,2'"),
    ]:
        completed = launch(*arguments)
        assert completed.returncode == 2
        assert text in completed.stderr


def test_the_port_handed_to_the_script_is_free(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        """
        import os, socket
        if os.environ["RANK"] == "1":
            socket.create_server(("127.0.0.1", int(os.environ["MASTER_PORT"]))).close()
            print("free")
        """,
    )
    with socket.socket() as server:
        with suppress(OSError):  # torchrun's port, taken by us or by others
            server.bind(("127.0.0.1", 29500))
        completed = launch("--nproc-per-node", "2", name)
    assert (completed.returncode, completed.stdout) == (0, "free\n"), completed.stderr


def test_logs_binding_role_and_secret(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        """
        import os, sys
        from shmtensor import distributed as dist
        rank = int(os.environ["RANK"])
        shown = ["out", rank, os.environ["LOCAL_RANK"], os.environ["ROLE_NAME"],
                 len(os.sched_getaffinity(0)), len(os.environ["SHMTENSOR_SECRET"])]
        sys.stdout.write(" ".join(map(str, shown)) + "\\n")  # at once: others write there, too
        print("err", rank, file=sys.stderr)
        """,
    )
    completed = launch(
        "--nproc-per-node", "2", "--log-dir", str(tmp_path / "logs"), "--rdzv-id", "job",
        "-r", "2", "--tee", "0:1,1:0", "--role", "trainer", "--numa-binding", "cpu",
        "--duplicate-stdout-filters", "out 0,x,,y",
        "--virtual-local-rank", "--local-ranks-filter", "0,1", "--start-method", "spawn", name,
    )  # fmt: skip
    assert completed.returncode == 0, completed.stderr
    share = max(1, len(os.sched_getaffinity(0)) // 2)
    folder = tmp_path / "logs" / "job" / "attempt_0"
    assert (folder / "0" / "stdout.log").read_text() == f"out 0 0 trainer {share} 32\n"
    assert (folder / "1" / "stderr.log").read_text() == "err 1\n"
    assert (folder / "filtered_stdout.log").read_text() == f"[0]: out 0 0 trainer {share} 32\n"
    assert completed.stderr == ""
    assert sorted(completed.stdout.splitlines()) == sorted(
        [f"[0]: out 0 0 trainer {share} 32", f"out 1 0 trainer {share} 32"]
    )


def test_virtual_local_ranks_see_a_gpu_each() -> None:
    shows = ["sh", "-c", "echo $RANK $LOCAL_RANK $CUDA_VISIBLE_DEVICES"]
    env = {name: each for name, each in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    for variables, want in (({}, ["0", "1"]), ({"CUDA_VISIBLE_DEVICES": "5,7"}, ["5", "7"])):
        completed = launch("--nproc-per-node", "2", "--virtual-local-rank", "--no-python", *shows,
                      env={**env, **variables})  # fmt: skip
        assert sorted(completed.stdout.splitlines()) == [f"{r} 0 {want[r]}" for r in range(2)]


def test_a_rank_for_each_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    from shmtensor.distributed.launcher.arguments import parse_nproc

    runtime = SimpleNamespace(getDeviceCount=lambda: 3)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))
    assert parse_nproc("gpu") == 3
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(argparse.ArgumentTypeError, match="there is no GPU"):
        parse_nproc("gpu")


def test_the_grace_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert get_args_parser().parse_args(["x.py"]).shutdown_timeout == 30.0
    monkeypatch.setenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "7")
    assert get_args_parser().parse_args(["x.py"]).shutdown_timeout == 7.0


def test_a_program_that_is_not_python(tmp_path: Path) -> None:
    completed = launch("--nproc-per-node", "2", "--local-ranks-filter", "1", "--no-python",
                  "sh", "-c", "echo $RANK of $WORLD_SIZE")  # fmt: skip
    assert (completed.returncode, completed.stdout) == (0, "1 of 2\n"), completed.stderr


def test_shares_of_cpus() -> None:
    from shmtensor.distributed.launcher.cpu_affinity import cpus_of, parse_cpu_list, share

    assert parse_cpu_list("0-3,8") == {0, 1, 2, 3, 8}
    assert [share([0, 1, 2, 3, 4], at, 2) for at in range(2)] == [[0, 1], [2, 3, 4]]
    assert share([4, 7], 3, 5) == [7]
    assert cpus_of(None, 0, 2) == []
    allowed = os.sched_getaffinity(0)
    for kind in ("node", "socket", "exclusive", "core-complex", "cpu"):
        assert set(cpus_of(kind, 1, 2)) <= allowed
        assert cpus_of(kind, 1, 2)


def test_record_tells_the_launcher_and_writes_the_file(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        """
        import os, sys
        from shmtensor.distributed.elastic.multiprocessing.errors import record

        @record
        def main(number):
            if sys.argv[1:] == ["good"]:
                sys.exit(0)
            raise KeyError(f"rank {os.environ['RANK']} has no {number}")

        assert main(7) is None
        """,
    )
    logs = tmp_path / "logs"
    command = ["--log-dir", str(logs), "--rdzv-id", "it"]
    for form in ([name], ["--no-python", sys.executable, name]):
        completed = launch(*command, *form)
        assert completed.returncode == 1
        # the script prints its own traceback; the launcher reports the failed rank and the cause
        report = completed.stderr[completed.stderr.index("shmtensor.run: rank 0") :]
        assert "KeyError: 'rank 0 has no 7'" in report
        record = json.loads((logs / "it" / "attempt_0" / "0" / "error.json").read_text())
        assert record["message"]["message"] == "KeyError: 'rank 0 has no 7'"
        assert "raise KeyError" in record["message"]["extraInfo"]["py_callstack"]
        assert int(record["message"]["extraInfo"]["timestamp"]) > 1e9
        (logs / "it" / "attempt_0" / "0" / "error.json").unlink()
    assert launch(*command, name, "good").returncode == 0
    assert not list(logs.rglob("error.json"))


def test_users_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHELASTIC_ERROR_FILE", raising=False)
    calls: list[Any] = []

    class Mine(ErrorHandler):
        def initialize(self) -> None:
            calls.append("begins")

        def record_exception(self, e: BaseException) -> None:
            super().record_exception(e)  # without a file and without a launcher
            calls.append(e)

    def fail(code: Any) -> int:
        if code == 9:
            return 9
        raise code

    wrapped = record(fail, Mine())
    assert (wrapped(9), wrapped(SystemExit(0)), wrapped.__name__) == (9, None, "fail")
    with pytest.raises(SystemExit):
        wrapped(SystemExit(3))
    assert calls == ["begins"] * 3
    error = ValueError("so")
    with pytest.raises(ValueError, match="so"):
        wrapped(error)
    assert calls[3:] == ["begins", error]
    assert type(get_error_handler()) is ErrorHandler


def test_arguments_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PET_NPROC_PER_NODE", "3")
    monkeypatch.setenv("PET_MAX_RESTARTS", "4")
    monkeypatch.setenv("PET_NO_PYTHON", "1")
    monkeypatch.setenv("PET_MODULE", "0")
    options = get_args_parser().parse_args(
        ["--max-restarts", "5", "--duplicate-stderr-filters", "a,,b,c", "x.py"]
    )
    assert (options.duplicate_stdout_filters, options.duplicate_stderr_filters) == (
        [],
        ["a,b", "c"],
    )
    assert (options.nproc_per_node, options.max_restarts) == (3, 5)
    assert (options.no_python, options.module, options.script) == (True, False, "x.py")


@pytest.mark.torch
def test_every_argument_of_torchrun_is_understood() -> None:
    code = (
        "from torch.distributed.run import get_args_parser as get\n"
        "print(*(o for a in get()._actions for o in a.option_strings))"
    )
    theirs = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert len(theirs) > 40
    assert not set(theirs) - {o for a in get_args_parser()._actions for o in a.option_strings}


def test_the_help_says_what_each_argument_does() -> None:
    idle = {a.dest for a in get_args_parser()._actions if "accepted" in (a.help or "")}
    assert idle == {"start_method", "local_addr", "logs_specs", "event_log_handler"}
    for action in get_args_parser()._actions:
        assert action.help, action
