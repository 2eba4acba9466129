"""Types of the C++ core, a block per folder."""

# ---- sync
from typing_extensions import Buffer

def word_wait(buffer: Buffer, offset: int, value: int, timeout: float | None, /) -> bool: ...
def word_wake(buffer: Buffer, offset: int, /) -> None: ...
