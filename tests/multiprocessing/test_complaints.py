"""What users of other libraries suffer from, and docs/complaints.md that answers row by row."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

import shmtensor as st
from tests.environment import run_program

ROOT = Path(__file__).resolve().parents[2]
ROWS = 24


def run(code: str | Path) -> str:
    """What a fresh interpreter prints; it must not say anything on stderr."""
    process = run_program(code)
    assert process.stderr == ""
    assert process.returncode == 0
    return process.stdout


def test_hundred_thousand_tensors_need_no_descriptor_and_no_mapping() -> None:
    """Rows 1 and 2: 100,000 tensors live in two processes, 256 descriptors are allowed."""
    code = """
        import os
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
        import shmtensor as st
        from shmtensor import memory, multiprocessing as mp

        def maps():
            with open("/proc/self/maps") as lines:
                return len(lines.readlines())

        def keep(inbox, outbox):
            before = len(os.listdir("/proc/self/fd")), maps()
            got = [t for _ in range(100) for t in inbox.get()]
            good = all(t[0].item() == i for i, t in enumerate(got))
            after = len(os.listdir("/proc/self/fd")), maps()
            outbox.put((len(got), good, after[0] - before[0], after[1] - before[1] < 100))
            inbox.get()

        inbox, outbox = mp.SimpleQueue(), mp.SimpleQueue()
        child = mp.get_context("fork").Process(target=keep, args=(inbox, outbox))
        child.start()
        mine = [st.full((4,), float(i)) for i in range(100_000)]
        for i in range(0, 100_000, 1000):
            inbox.put(mine[i : i + 1000])
        print(*outbox.get(150.0))
        inbox.put(None)
        child.join()
        memory.check()
    """
    assert run(code) == "100000 True 0 True\n"


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_no_resource_tracker_and_no_name_in_dev_shm(method: str) -> None:
    """Rows 13 and 14: nothing that could warn of a leak, unlink too early or stay behind."""
    code = f"""
        import os
        import secrets
        from multiprocessing import process, resource_tracker, shared_memory
        import shmtensor as st
        from shmtensor import multiprocessing as mp

        # Other programs have names there, too: the standard library marks those of this one.
        mark = secrets.token_hex(2)
        process.current_process()._config["semprefix"] = "/mp-" + mark
        shared_memory._SHM_NAME_PREFIX = "/psm_" + mark
        prefixes = ("sem.mp-" + mark, "psm_" + mark, f"pym-{{os.getpid()}}-")

        def named():
            with open("/proc/self/maps") as file:
                maps = file.read()
            names = os.listdir("/dev/shm")
            return [n for n in names if n.startswith(prefixes) or f"/dev/shm/{{n}}\\n" in maps]

        context = mp.get_context({method!r})
        things = [context.Lock(), context.Semaphore(2), context.Queue(), context.Event()]
        things += [context.Value("i", 0), context.Array("d", 3), context.Barrier(1), st.ones(1000)]
        with context.Pool(1) as pool:
            assert pool.map(abs, [-1, -2]) == [1, 2]
            print(named())
        tracker = resource_tracker._resource_tracker
        print(tracker._pid, tracker._fd)
    """
    assert run(code) == "[]\nNone None\n"


def test_starting_a_process_does_not_wait_for_its_imports(tmp_path: Path) -> None:
    """Row 9: processes start side by side. Importing this program takes until all have started."""
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
            import os
            import time
            from shmtensor import multiprocessing as mp

            go = os.path.join(os.path.dirname(__file__), "go")
            while __name__ != "__main__" and not os.path.exists(go):
                time.sleep(0.01)

            def work(queue, i):
                queue.put(i)

            if __name__ == "__main__":
                context = mp.get_context("spawn")
                queue = context.SimpleQueue()
                processes = [context.Process(target=work, args=(queue, i)) for i in range(3)]
                for process in processes:
                    process.start()
                open(go, "w").close()
                print(sorted(queue.get(100.0) for _ in processes))
                for process in processes:
                    process.join()
        """)
    )
    assert run(program) == "[0, 1, 2]\n"


def send_numbers(queue: Any, n: int) -> None:
    for i in range(n):
        queue.put(st.full((1000,), float(i)))


@pytest.mark.parametrize("sender", ["itself", "another"])
def test_a_view_keeps_its_memory_while_the_queue_goes_on(sender: str) -> None:
    """Row 21: no message is written over one that somebody still looks at."""
    from shmtensor import multiprocessing as mp

    queue, other = mp.Queue(), None
    if sender == "another":  # which has let go of what it sent, and allocates on
        other = mp.get_context("fork").Process(target=send_numbers, args=(queue, 300))
        other.start()
    references = []
    for i in range(300):
        if not other:
            queue.put(st.full((1000,), float(i)))
        references.append(queue.get(timeout=100.0)[::100])
    assert [view.tolist() for view in references] == [[float(i)] * 10 for i in range(300)]
    if other:
        other.join()
        other.close()


def table() -> list[list[str]]:
    lines = (ROOT / "docs" / "complaints.md").read_text().splitlines()
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines if line[:2] == "| "]
    return [row for row in cells if row[0].isdigit()]


def test_every_row_of_the_page_has_an_answer() -> None:
    assert [int(row[0]) for row in table()] == list(range(1, ROWS + 1))
    for row in table():
        assert re.search(r"`tests/[\w/]+\.py(::\w+)?`", row[3]) or row[3].startswith("still:"), row


# Pages that name tests, and where tests lie that are named without a folder.
PAGES = {
    "complaints.md": "",
    "known-limits.md": "",
    "design/multiprocessing.md": "multiprocessing",
    "design/dataloaders.md": "dataloaders",
}


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_the_page_names_exists(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    names = re.findall(r"`(tests/[\w/.]+\.\w+|test_\w+\.py)(?:::(\w+))?`", text)
    assert names
    for path, name in names:
        file = ROOT / path if path.startswith("tests/") else ROOT / "tests" / PAGES[page] / path
        text = file.read_text()
        assert not name or f"def {name}(" in text, f"{path}::{name}"


@pytest.mark.parametrize(
    ("page", "least"), [("design/multiprocessing.md", 16), ("design/dataloaders.md", 18)]
)
def test_every_line_of_what_pytorch_offers_works_or_says_why_not(page: str, least: int) -> None:
    text = (ROOT / "docs" / page).read_text().partition("Line by line")[2]
    table = re.split(r"Beside it:|Other libraries:|\n## ", text)[0].splitlines()
    rows = [line.strip("|").split("|") for line in table if line.startswith("| ")][1:]
    assert len(rows) >= least
    for there, here, view in rows:
        assert "`test" in view or here.strip().startswith(
            ("not applicable: ", "not implemented: ")
        ), there
