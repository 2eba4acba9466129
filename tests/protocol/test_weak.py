"""The memory orders of the shared words suffice, and each is needed (docs/design/memory-order.md).

A pattern is a function of the orders; the tests call it with the orders of the code (no run fails),
and once for each order with that one weakened (some run fails).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from weak import Step, add, claim, explore, fence, load, only, read, store, swap, write

Pattern = Callable[..., tuple[int, str | None]]
LIVE, DYING, FREE = "live", "dying", "free"


def fenced(has_fence: bool) -> list[Step]:
    return [fence()] if has_fence else []


def validate(word: str) -> list[Step]:
    """The loop of `validate`, as often as one reclaimer can make it turn: LIVE is valid, DYING is
    rescued, FREE is stale."""
    return [
        load("w", word, "acquire"),
        *only(lambda r: r["w"] == DYING, swap("rescued", word, DYING, LIVE)),
        *only(lambda r: r["w"] == DYING and not r["rescued"], load("w", word, "acquire")),
    ]


def stands(r: dict[str, Any]) -> bool:
    return bool(r["w"] == LIVE or r.get("rescued"))


def reclaim(
    fence_there: bool, scan: list[Step], register: str, mark_first: bool = True
) -> list[Step]:
    """Mark, FENCE, scan; free and overwrite the block unless the scan saw a hold or a rescue."""
    mark = [swap("marked", "word", LIVE, DYING), *fenced(fence_there)]
    return [
        *(mark if mark_first else [*scan, *mark]),
        *(scan if mark_first else []),
        *only(lambda r: not r[register], swap("freed", "word", DYING, FREE)),
        *only(lambda r: bool(r.get("freed")), write("data", 2)),
    ]


# ---- hold, fence, validate against mark, fence, scan
def hold_against_reclaim(
    holder_fence: bool = True, reclaimer_fence: bool = True, mark_first: bool = True
) -> tuple[int, str | None]:
    holder = [
        store("bit", 1),
        *fenced(holder_fence),
        *validate("word"),
        *only(stands, read("x", "data"), claim(lambda r: r["x"] == 0, "held bytes were reused")),
    ]
    reclaimer = reclaim(reclaimer_fence, [load("h", "bit", "acquire")], "h", mark_first)
    return explore([holder, reclaimer], {"word": LIVE, "data": 0})


# ---- nheld guides the scan: raised before the fence, lowered after the bit
def drop_against_reclaim(
    bit_release: bool = True, count_release: bool = True, scan_acquire: bool = True
) -> tuple[int, str | None]:
    order = {True: "release", False: "relaxed"}
    acquire = "acquire" if scan_acquire else "relaxed"
    holder = [
        read("x", "data"),
        store("bit", 0, order[bit_release]),
        store("nheld", 0, order[count_release]),
    ]
    scan = [load("n", "nheld", acquire), *only(lambda r: r["n"] != 0, load("b", "bit", acquire))]
    reclaimer = [
        swap("marked", "word", LIVE, DYING),
        fence(),
        *scan,
        *only(lambda r: not (r["n"] and r["b"]), swap("freed", "word", DYING, FREE)),
        *only(lambda r: bool(r.get("freed")), write("data", 2)),
    ]
    return explore([holder, reclaimer], {"word": LIVE, "data": 0, "bit": 1, "nheld": 1})


# ---- the chain pin -> row: acknowledged only after the hold stands
def acknowledge_against_reclaim(
    after_hold: bool = True, holder_fence: bool = True
) -> tuple[int, str | None]:
    hold = [store("bit", 1), *fenced(holder_fence), *validate("word")]
    ack = only(stands, swap("acked", "pin", 1, 2)) if after_hold else [swap("acked", "pin", 1, 2)]
    receiver = [
        *(hold + ack if after_hold else ack + hold),
        claim(stands, "a pinned block was refused"),
        read("x", "data"),
    ]
    scan = [
        load("h", "bit", "acquire"),  # rows first, then pins
        load("p", "pin", "acquire"),
    ]
    reclaimer = [
        swap("marked", "word", LIVE, DYING),
        fence(),
        *scan,
        *only(lambda r: not r["h"] and r["p"] != 1, swap("freed", "word", DYING, FREE)),
        *only(lambda r: r["h"] or r["p"] == 1, swap("kept", "word", DYING, LIVE)),
        *only(lambda r: bool(r.get("freed")), write("data", 2)),
    ]
    return explore([receiver, reclaimer], {"word": LIVE, "data": 0, "pin": 1})


# ---- a fork copies its row: a new hold that is validated only where a reclaimer announces itself
def fork_against_reclaim(
    parent_fence: bool = True, announced_first: bool = True, validates: bool = True
) -> tuple[int, str | None]:
    parent = [
        store("child", 1),
        *fenced(parent_fence),
        load("announced", "reclaiming", "acquire"),
        *only(lambda r: validates and bool(r["announced"]), *validate("word")),
        read("x", "data"),
        store("parent", 0, "release"),  # the parent releases, the child keeps its hold
        read("y", "data"),
    ]
    announce = [store("reclaiming", 1)]
    reclaimer = [
        *(announce if announced_first else []),
        swap("marked", "word", LIVE, DYING),
        fence(),
        *([] if announced_first else announce),
        load("c", "child", "acquire"),
        load("p", "parent", "acquire"),
        *only(lambda r: not r["c"] and not r["p"], swap("freed", "word", DYING, FREE)),
        *only(lambda r: bool(r.get("freed")), write("data", 2)),
    ]
    return explore([parent, reclaimer], {"word": LIVE, "data": 0, "parent": 1})


# ---- a pin's fields: published by PENDING, read between two looks at the word
def pin_publication(
    release: bool = True, acquire: bool = True, look_again: bool = True, sender: bool = True
) -> tuple[int, str | None]:
    """The first message is acknowledged, the slot is used for a second one; a scanner that sees the
    same word twice has fields of one message."""
    publish = "release" if release else "relaxed"
    sending = [
        store("a", 1),
        store("b", 1),
        store("pin", "pending 1", publish),
        load("w", "pin", "acquire" if sender else "relaxed"),
        *only(lambda r: r["w"] == "free 2", *([fence("release")] if sender else [])),
        *only(lambda r: r["w"] == "free 2", store("a", 2), store("b", 2)),
        *only(lambda r: r["w"] == "free 2", store("pin", "pending 2", publish)),
    ]
    acknowledging = [swap("acked", "pin", "pending 1", "free 2")]
    scanning = [
        load("w", "pin", "acquire" if acquire else "relaxed"),
        load("a", "a"),
        load("b", "b"),
        *([fence("acquire")] if look_again else []),
        load("again", "pin"),
        claim(
            lambda r: (
                r["w"][:7] != "pending"
                or (look_again and r["w"] != r["again"])
                or f"{r['a']}{r['b']}" == r["w"][-1] * 2
            ),
            "the fields are not the pin's",
        ),
    ]
    return explore([sending, acknowledging, scanning], {"pin": "free 1", "a": 0, "b": 0})


# ---- the next generation: whoever sees it sees that the block is free, and nothing later
def generation_against_stale(acquire: bool = True) -> tuple[int, str | None]:
    """A reader of the new generation sees everything written before the export."""
    owner = [write("data", 2), swap("out", "word", "quiet 2", "live 2")]
    receiver = [
        store("bit", 1),
        fence("release"),  # a seq_cst fence would hide the need for the acquire
        load("w", "word", "acquire" if acquire else "relaxed"),
        *only(lambda r: r["w"] == "live 2", read("x", "data")),
        *only(lambda r: r["w"] == "live 2", claim(lambda r: r["x"] == 2, "old bytes")),
    ]
    return explore([owner, receiver], {"word": "quiet 2", "data": 1})


# ---- a slot is claimed: its line, then LIVE; who holds something in it reads the line
def claim_publication(release: bool = True, acquire: bool = True) -> tuple[int, str | None]:
    # A CAS to LIVE is acq_rel; weakened, it is a plain store.
    live = swap("live", "slot", "claimed", "live") if release else store("slot", "live")
    owner = [store("kind", 1), live]
    holder = [
        load("w", "slot", "acquire" if acquire else "relaxed"),
        *only(lambda r: r["w"] == "live", load("k", "kind")),
        *only(lambda r: r["w"] == "live", claim(lambda r: r["k"] == 1, "the line of before")),
    ]
    return explore([owner, holder], {"slot": "claimed", "kind": 0})


# ---- a cell of a channel
def cell_publication(release: bool = True) -> tuple[int, str | None]:
    ready = store("cell", "ready", "release" if release else "relaxed")
    return explore(
        [
            [write("message", 7), ready],
            [
                swap("mine", "cell", "ready", "claimed"),
                *only(lambda r: r["mine"], read("m", "message")),
                *only(lambda r: r["mine"], claim(lambda r: r["m"] == 7, "half a message")),
            ],
        ],
        {"cell": "writing", "message": 0},
    )


# ---- change, then look for sleepers; announce oneself, then look for a change
def sleep_and_wake(waker_fence: bool = True, sleeper_fence: bool = True) -> tuple[int, str | None]:
    """A pair of seq_cst accesses, as the relaxed ones with a seq_cst fence between."""
    waker = [add("_", "items", 1), *fenced(waker_fence), load("sleepers", "waiters")]
    sleeper = [add("_", "waiters", 1), *fenced(sleeper_fence), load("seen", "items")]
    return explore(
        [waker, sleeper],
        {"items": 0, "waiters": 0},
        lambda r: r[0]["sleepers"] == 1 or r[1]["seen"] == 1,  # awake again, or never asleep
    )


# ---- a segment is left: head first, then its pin; a reader holds, then looks at head again
def reach_against_retire(
    look_again: bool = True, head_first: bool = True
) -> tuple[int, str | None]:
    """Memory of a retired segment may be reused: a reader uses it only if head still names it."""
    move, unpin = store("head", 2, "release"), store("pin", 0, "release")
    retirer = [move, unpin] if head_first else [unpin, move]
    reader = [
        load("head", "head", "acquire"),
        *only(lambda r: r["head"] == 1, store("bit", 1), fence()),
        *only(lambda r: r["head"] == 1, load("again", "head", "acquire")),
        *only(lambda r: r["head"] == 1 and (not look_again or r["again"] == 1), read("s", "data")),
    ]
    reclaimer = [
        load("pinned", "pin", "acquire"),
        fence(),
        load("h", "bit", "acquire"),
        *only(lambda r: not r["pinned"] and not r["h"], write("data", 2)),
    ]
    return explore([retirer, reader, reclaimer], {"head": 1, "pin": 1, "data": 0})


# ---- a lock of lock.h
def lock_hands_on(release: bool = True) -> tuple[int, str | None]:
    free = store("owner", 0, "release" if release else "relaxed")
    holder = [
        swap("mine", "owner", 0, "me"),
        *only(lambda r: r["mine"], read("x", "data"), write("data", lambda r: r["x"] + 1)),
        *only(lambda r: r["mine"], free),
    ]
    return explore([holder, holder], {"owner": 0, "data": 0})


PATTERNS: list[tuple[Pattern, list[str]]] = [
    (hold_against_reclaim, ["holder_fence", "reclaimer_fence", "mark_first"]),
    (drop_against_reclaim, ["bit_release", "count_release", "scan_acquire"]),
    (acknowledge_against_reclaim, ["after_hold", "holder_fence"]),
    (fork_against_reclaim, ["parent_fence", "announced_first", "validates"]),
    (pin_publication, ["release", "acquire", "look_again", "sender"]),
    (generation_against_stale, ["acquire"]),
    (claim_publication, ["release", "acquire"]),
    (cell_publication, ["release"]),
    (sleep_and_wake, ["waker_fence", "sleeper_fence"]),
    (reach_against_retire, ["look_again", "head_first"]),
    (lock_hands_on, ["release"]),
]
IDS = [pattern.__name__ for pattern, _ in PATTERNS]


@pytest.mark.parametrize(("pattern", "orders"), PATTERNS, ids=IDS)
def test_orders_suffice(pattern: Pattern, orders: list[str]) -> None:
    states, error = pattern()
    assert error is None
    assert states > 5


@pytest.mark.parametrize(
    ("pattern", "order"),
    [(pattern, order) for pattern, orders in PATTERNS for order in orders],
    ids=lambda x: x if isinstance(x, str) else x.__name__,
)
def test_each_order_is_needed(pattern: Pattern, order: str) -> None:
    _, error = pattern(**{order: False})
    assert error is not None, f"{pattern.__name__} holds without {order}"


def test_the_memory_is_weak_and_not_weaker() -> None:
    """Store buffering and stale reads occur; coherence and release sequences hold."""
    buffering = [[store("x", 1), load("a", "y")], [store("y", 1), load("b", "x")]]
    assert explore(buffering, final=lambda r: r[0]["a"] + r[1]["b"] > 0)[1] is not None
    coherent = [[store("x", 1), store("x", 2)], [load("a", "x"), load("b", "x")]]
    assert explore(coherent, final=lambda r: r[1]["a"] <= r[1]["b"])[1] is None
    sequence = [
        [write("d", 1), store("f", 1, "release")],
        [add("_", "f", 1)],
        [load("f", "f", "acquire"), *only(lambda r: r["f"] == 2, read("d", "d"))],
    ]
    assert explore(sequence)[1] is None
