"""shmtensor.ray.launch: the ranks of one and of two nodes of Ray, all on this machine."""

from __future__ import annotations

import json
import sys
import tempfile
from typing import Any

import pytest

import shmtensor.ray
from tests.environment import run_program


def test_without_ray_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RuntimeError, match=r"pip install 'shmtensor\[ray\]'"):
        shmtensor.ray.launch(print)
    with pytest.raises(ValueError, match="nothing to run: 1 x 0 ranks"):
        shmtensor.ray.launch(print, 1, 0)


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    """What the program prints: Ray leaves threads and descriptors in the process that uses it."""
    pytest.importorskip("ray.cluster_utils")
    # Not tmp_path: names of sockets are short.
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        result = run_program(
            "-m",
            "tests.ray_ranks",
            RAY_TMPDIR=folder,
            RAY_AUTH_MODE="disabled",
            RAY_USAGE_STATS_ENABLED="0",
            SHMTENSOR_RANKS_PER_NODE="1",  # else two nodes of Ray on one machine share memory
        )
    assert result.returncode == 0, result.stderr
    printed: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return printed


@pytest.mark.slow
def test_ranks_of_one_node_share_memory_and_nodes_use_tcp(record: dict[str, Any]) -> None:
    one_node, two_nodes = record["results"]
    both = {"is_launched": True, "x": [3.0, 3.0]}
    assert one_node == [
        {"numbers": [0, 2, 0, 2, 0], "transport": 0, **both},
        {"numbers": [1, 2, 1, 2, 0], "transport": 0, **both},
    ]
    assert two_nodes == [
        {"numbers": [0, 2, 0, 1, 0], "transport": "TCP", **both},
        {"numbers": [1, 2, 0, 1, 1], "transport": "TCP", **both},
    ]


def test_a_rank_that_fails_is_named(record: dict[str, Any]) -> None:
    kind, rank, text = record["raised"]
    assert (kind, rank) == ("ProcessRaisedException", 1)
    assert text.startswith("launch: rank 1 on ")
    assert 'raise KeyError("of the second rank")' in text
    kind, rank, text = record["killed"]
    assert (kind, rank) == ("ProcessExitedException", 1)
    assert text.startswith("launch: rank 1 on ")
    assert "has died" in text


def test_a_cluster_that_is_too_small_is_named(record: dict[str, Any]) -> None:
    assert "the cluster has no place for 3 nodes with {'CPU': 1} each" in record["no place"]
