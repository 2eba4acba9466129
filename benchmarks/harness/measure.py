"""Measuring: repeats of all parties in turn, so that a disturbance affects all of them."""

from __future__ import annotations

import gc
import statistics
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass

from .case import OURS, Case, Party, open_party

# Libraries' threads spin for a while; a pause lets them sleep before the rival's turn.
PAUSE = 0.015
# OpenBLAS's own threads, which np.matmul wakes, spin much longer than libgomp's: the next party
# would have one core less.
AFTER = {"numpy": 0.1}


@dataclass(frozen=True)
class Result:
    """The raw seconds (or bytes) of a case per item, by party."""

    name: str
    seconds: dict[str, list[float]]
    target: float | None
    against: str
    unit: str = "s"

    @property
    def ratio(self) -> float | None:
        """Our time over the rival's: the median over pairs measured in turn."""
        return self.ratio_to(self.against)

    def ratio_to(self, party: str) -> float | None:
        """Our time over that of any party."""
        ours, theirs = self.seconds.get(OURS), self.seconds.get(party)
        if not ours or not theirs:
            return None
        return statistics.median(x / y for x, y in zip(ours, theirs, strict=True))

    @property
    def share(self) -> float | None:
        """The time of a party that only copies ("..., memcpy") over ours."""
        ours = self.seconds.get(OURS)
        memcpy = next((s for name, s in self.seconds.items() if name.endswith(", memcpy")), None)
        if not ours or not memcpy:
            return None
        return statistics.median(x / y for x, y in zip(memcpy, ours, strict=True))

    def record(self) -> dict[str, object]:
        """For the file of raw results."""
        return {**asdict(self), "ratio": self.ratio}


def measure(case: Case, repeats: int, seconds: float) -> Result:
    """Runs a case.

    Args:
        repeats: turns of each party, at least three.
        seconds: of a turn.
    """
    with ExitStack() as stack:
        candidates = [stack.enter_context(open_party(*item)) for item in case.parties.items()]
        parties = [party for party in candidates if party is not None]
        numbers = [calls_in(party, seconds) for party in parties]
        gc.collect()
        gc.disable()
        try:
            before = ""
            for _ in range(repeats):
                for party, number in zip(parties, numbers, strict=True):
                    time.sleep(AFTER.get(before, PAUSE))
                    before = party.name
                    if not party.is_slow:
                        elapsed(party, 1)  # the first call after a pause wakes threads
                    party.seconds.append(elapsed(party, number) / number / case.per)
        finally:
            gc.enable()
    seconds = {party.name: party.seconds for party in parties}
    return Result(case.name, seconds, case.target, case.against, case.unit)


def elapsed(party: Party, number: int) -> float:
    """Seconds of that many calls; a call that returns a float has measured itself."""
    run = party.run
    if party.times_itself:
        return float(sum(run() for _ in range(number)))
    turns = range(number)
    began = time.perf_counter()
    for _ in turns:
        run()
    return time.perf_counter() - began


def calls_in(party: Party, seconds: float) -> int:
    """The number of calls that take about so long; warms up at the same time."""
    party.times_itself = isinstance(party.run(), float)
    began = time.perf_counter()
    elapsed(party, 1)
    party.is_slow = time.perf_counter() - began > 0.1
    if party.is_slow:
        return 1
    number = 1
    while True:
        took = elapsed(party, number)
        if took >= seconds / 4 or number >= 1_000_000:
            return max(1, round(number * seconds / max(took, 1e-9)))
        number = max(number * 2, min(number * 20, int(number * seconds / max(took, 1e-9) / 2)))
