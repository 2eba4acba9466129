"""A sample of `python -m tests.cuda.memory.kills`."""

from __future__ import annotations

import pytest

from tests.cuda.memory.kills import main


@pytest.mark.slow
def test_kills_at_random_moments() -> None:
    """No leak, no hang, no bytes of another tensor: 60 seconds of kills."""
    assert main(kills=1000, seconds=60, seed=7) == []
