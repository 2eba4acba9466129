"""A program that any process of ours starts inherits none of our descriptors: with the memory of
the domain it could read and write every tensor, whoever runs it.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from shmtensor import memory
from tests.environment import run_program

# In each process of a program: what do programs see that it starts by os.system, and by os.execv?
LISTING = """
import os

def list_descriptors(who):
    command = f"ls -l /proc/self/fd > $LISTINGS/{who}.$$"
    assert os.system(command) == 0
    pid = os.fork()
    if pid == 0:
        os.execv("/bin/sh", ["sh", "-c", command])
    assert os.waitpid(pid, 0)[1] == 0
"""

FAMILY = """
import sys
import shmtensor as st
from shmtensor import multiprocessing as mp
from shmtensor.utils.data import DataLoader
from listing import list_descriptors

METHOD = sys.argv[1]

class Listed:
    def __len__(self):
        return 1

    def __getitem__(self, i):
        list_descriptors("loader")
        return st.zeros(2)

def run(target, *args):
    process = mp.get_context(METHOD).Process(target=target, args=args)
    process.start()
    process.join()
    assert process.exitcode == 0

def child(connection, queue, tensor):
    list_descriptors("child")
    run(list_descriptors, "grandchild")

def ranks(index):
    list_descriptors("spawn")

if __name__ == "__main__":
    context = mp.get_context(METHOD)
    ours, theirs = context.Pipe()
    queue = context.Queue()
    queue._reader  # has a descriptor
    run(child, theirs, queue, st.ones(3))
    with context.Pool(1) as pool:
        pool.map(list_descriptors, ["pool"])
    list(DataLoader(Listed(), num_workers=1, multiprocessing_context=METHOD))
    mp.start_processes(ranks, nprocs=1, start_method=METHOD)
    list_descriptors("parent")
"""

RANK = """
import sys
from listing import list_descriptors
from shmtensor import distributed as dist

list_descriptors("early")  # before the rank has joined the domain
dist.init_process_group()
import shmtensor as st
total = st.ones(3)
dist.all_reduce(total)
assert total.tolist() == [2, 2, 2]
list_descriptors("rank")
dist.destroy_process_group()
"""

GUEST = """
import sys
from listing import list_descriptors
from shmtensor import memory

tensor = memory.open(sys.argv[1], timeout=20)
list_descriptors("guest")
"""


def listed(folder: Path, text: str, *command: str | Path) -> dict[str, list[str]]:
    """The descriptors beyond 0, 1 and 2 of the programs that each process of a program started."""
    (folder / "listing.py").write_text(LISTING)
    (folder / "program.py").write_text(text)
    listings = folder / "listings"
    listings.mkdir(exist_ok=True)
    path = os.pathsep.join([str(folder), *sys.path])
    settings = {"LISTINGS": listings, "SHMTENSOR_DOMAIN": "new", "PYTHONPATH": path}
    completed = run_program(*command, **settings)
    assert completed.returncode == 0, completed.stderr
    programs: dict[str, list[str]] = {}
    for path in listings.iterdir():
        links = re.findall(r" (\d+) -> (.*)", path.read_text())
        assert len(links) >= 4, path.read_text()  # 0, 1, 2 and the directory
        own = [to for n, to in links if int(n) > 2 and not re.fullmatch(r"/proc/\d+/fd", to)]
        programs.setdefault(path.stem, []).extend(own)
        path.unlink()
    return programs


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_programs_of_children_inherit_nothing(tmp_path: Path, method: str) -> None:
    programs = listed(tmp_path, FAMILY, tmp_path / "program.py", method)
    names = ("child", "grandchild", "pool", "loader", "spawn", "parent")
    assert programs == {name: [] for name in names}


def test_programs_of_ranks_inherit_nothing(tmp_path: Path) -> None:
    run = ("-m", "shmtensor.run", "--nproc-per-node", "2")
    program = str(tmp_path / "program.py")
    nothing: dict[str, list[str]] = {"early": [], "rank": []}
    assert listed(tmp_path, RANK, *run, program) == nothing
    # The program between the launcher and Python gets the descriptors, and hands them on.
    (tmp_path / "rank.sh").write_text(f"{sys.executable} {program}\n")
    assert listed(tmp_path, RANK, *run, "--no-python", "sh", str(tmp_path / "rank.sh")) == nothing


def test_programs_of_a_guest_inherit_nothing(tmp_path: Path) -> None:
    import shmtensor as st

    name = f"inherited/{os.getpid()}"
    memory.publish(name, st.ones(3))
    try:
        programs = listed(tmp_path, GUEST, tmp_path / "program.py", name)
    finally:
        memory.unpublish(name)
    assert programs == {"guest": []}
