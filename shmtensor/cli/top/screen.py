"""`top`: a domain, live. Redraws in place; q or Ctrl-C ends it."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import shutil
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator

from .. import find_domains
from .format import lines
from .snapshot import Snapshot, take

__all__ = ["run"]

HOME, CLEAR_LINE, CLEAR_REST = "\x1b[H", "\x1b[K", "\x1b[J"
OPEN, CLOSE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # another screen, no cursor; back


class Stops:
    """What ends a wait: signals (through a pipe, whatever the parent had set) and keys.

    A shell starts background commands with SIGINT ignored, and Python then raises no
    KeyboardInterrupt: so the handlers are set here, and former ones come back.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.stopped = False

    def __enter__(self) -> Stops:
        self.reader, self.writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.keys = sys.stdin.fileno() if is_terminal(sys.stdin) else None
        if self.keys is not None:
            self.former_mode = termios.tcgetattr(self.keys)
            tty.setcbreak(self.keys)
        self.former = {s: signal.signal(s, self.stop) for s in self.SIGNALS}
        self.former[signal.SIGWINCH] = signal.signal(signal.SIGWINCH, lambda *_: None)
        self.former_fd = signal.set_wakeup_fd(self.writer, warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self.former_fd)
        for number, handler in self.former.items():
            signal.signal(number, handler)
        if self.keys is not None:
            termios.tcsetattr(self.keys, termios.TCSADRAIN, self.former_mode)
        os.close(self.reader)
        os.close(self.writer)

    def stop(self, *_: object) -> None:
        self.stopped = True

    def wait(self, timeout: float) -> None:
        """Returns after `timeout` seconds, or sooner: to end, or because the window changed."""
        watched = [self.reader] + ([] if self.keys is None else [self.keys])
        ready, _, _ = select.select(watched, [], [], timeout)
        if self.reader in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self.reader, 4096)
        if self.keys is not None and self.keys in ready:
            pressed = os.read(self.keys, 64)
            if not pressed:  # the terminal is gone
                self.keys, self.stopped = None, True
            elif pressed[:1] in b"qQ\x03\x04":
                self.stopped = True


def is_terminal(stream: object) -> bool:
    """Whether a standard stream is there and a terminal."""
    try:
        return bool(stream.isatty())  # type: ignore[attr-defined]
    except (AttributeError, ValueError):
        return False


def snapshots(domain: find_domains.Found, stops: Stops, interval: float) -> Iterator[Snapshot]:
    """A snapshot now and after each interval, until something ends it."""
    before = None
    while not stops.stopped:
        began = time.monotonic()
        before = take(domain, before)
        yield before
        stops.wait(max(began + interval - time.monotonic(), 0.01))
        with contextlib.suppress(find_domains.NoDomain):  # those who joined meanwhile
            domain = find_domains.select(domain.id)


def run(options: argparse.Namespace) -> int:
    """Shows a domain once or until it is told to end, or the domain is gone."""
    domain = find_domains.select(options.domain)
    if options.once:
        snapshot = take(domain)
        print(json.dumps(snapshot.record()) if options.json else "\n".join(lines(snapshot)))
        return 0
    screen = is_terminal(sys.stdout) and not options.json
    with Stops() as stops, alternate_screen(screen):
        try:
            for snapshot in snapshots(domain, stops, options.interval):
                show(snapshot, screen, options)
        except find_domains.NoDomain as error:
            gone = str(error)
        else:
            return 0
    print(f"top: {gone}", file=sys.stderr)
    return 0


@contextlib.contextmanager
def alternate_screen(screen: bool) -> Iterator[None]:
    """The terminal's other screen, and back whatever happens."""
    if not screen:
        yield
        return
    sys.stdout.write(OPEN)
    try:
        yield
    finally:
        sys.stdout.write(CLOSE)
        sys.stdout.flush()


def show(snapshot: Snapshot, screen: bool, options: argparse.Namespace) -> None:
    """One frame: in place on a terminal, else one after another."""
    if options.json:
        print(json.dumps(snapshot.record()), flush=True)
    elif not screen:
        print("\n".join(lines(snapshot)) + "\n", flush=True)
    else:
        width, height = shutil.get_terminal_size()
        page = lines(snapshot, width, height - 2)
        text = "".join(f"{line}{CLEAR_LINE}\r\n" for line in page)
        foot = f"{CLEAR_LINE}\r\nevery {options.interval:g} s, q ends"
        sys.stdout.write(f"{HOME}{text}{foot}{CLEAR_REST}")
        sys.stdout.flush()
