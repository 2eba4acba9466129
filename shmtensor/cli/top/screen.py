"""`top`: shows a domain, live. Redraws in place, or serves a page; q or Ctrl-C ends it."""

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
from .page import ended, fragment
from .serve import serving
from .snapshot import Snapshot, survey_domain

HOME, CLEAR_LINE, CLEAR_REST = "\x1b[H", "\x1b[K", "\x1b[J"
# To the alternate screen, without a cursor, and back.
OPEN, CLOSE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


class StopEvents:
    """Events that end a wait: signals (through a pipe) and keys.

    A shell starts background commands with SIGINT ignored, and Python then raises no
    KeyboardInterrupt. So this class sets handlers, and restores the former ones at the end.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.is_stopped = False

    def __enter__(self) -> StopEvents:
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
        self.is_stopped = True

    def wait(self, timeout: float) -> None:
        """Returns after `timeout` seconds; earlier at a signal or key, or if the window's size has
        changed.
        """
        descriptors = [self.reader] + ([] if self.keys is None else [self.keys])
        ready, _, _ = select.select(descriptors, [], [], timeout)
        if self.reader in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self.reader, 4096)
        if self.keys is not None and self.keys in ready:
            keys = os.read(self.keys, 64)
            if not keys:  # the terminal is closed
                self.keys, self.is_stopped = None, True
            elif keys[:1] in b"qQ\x03\x04":
                self.is_stopped = True


def is_terminal(stream: object) -> bool:
    """Whether a standard stream exists and is a terminal."""
    try:
        return bool(stream.isatty())  # type: ignore[attr-defined]
    except (AttributeError, ValueError):
        return False


def snapshots(
    domain: find_domains.Domain, stops: StopEvents, interval: float
) -> Iterator[Snapshot]:
    """A snapshot now and after each interval, until a stop event."""
    previous = None
    while not stops.is_stopped:
        start = time.monotonic()
        previous = survey_domain(domain, previous)
        yield previous
        stops.wait(max(start + interval - time.monotonic(), 0.01))
        with contextlib.suppress(find_domains.NoDomain):  # finds new members
            domain = find_domains.select(domain.id)


def run(options: argparse.Namespace) -> int:
    """Shows a domain once, or until a stop event or the end of the domain."""
    domain = find_domains.select(options.domain)
    if options.once:
        snapshot = survey_domain(domain)
        print(json.dumps(snapshot.record()) if options.json else "\n".join(lines(snapshot)))
        return 0
    if options.html:
        return serve(domain, options)
    is_screen = is_terminal(sys.stdout) and not options.json
    with StopEvents() as stops, alternate_screen(is_screen):
        try:
            for snapshot in snapshots(domain, stops, options.interval):
                show(snapshot, is_screen, options)
        except find_domains.NoDomain as error:
            message = str(error)
        else:
            return 0
    print(f"top: {message}", file=sys.stderr)
    return 0


def serve(domain: find_domains.Domain, options: argparse.Namespace) -> int:
    """Serves the page until a stop event or the end of the domain; 1 if the port is not free."""
    try:
        with StopEvents() as stops, serving(options.port) as server:
            print(f"{server.url}   Ctrl-C ends it", flush=True)
            try:
                for snapshot in snapshots(domain, stops, options.interval):
                    server.fragment = fragment(snapshot)
            except find_domains.NoDomain as error:
                server.fragment = ended(str(error)) + server.fragment
                print(f"top: {error}", file=sys.stderr)
                stops.wait(2.0)  # until open pages have read it
    except OSError as error:
        print(f"top: cannot serve port {options.port}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


@contextlib.contextmanager
def alternate_screen(is_screen: bool) -> Iterator[None]:
    """Switches to the terminal's alternate screen, and back."""
    if not is_screen:
        yield
        return
    sys.stdout.write(OPEN)
    try:
        yield
    finally:
        sys.stdout.write(CLOSE)
        sys.stdout.flush()


def show(snapshot: Snapshot, is_screen: bool, options: argparse.Namespace) -> None:
    """Shows one snapshot: in place on a terminal, else appended."""
    if options.json:
        print(json.dumps(snapshot.record()), flush=True)
    elif not is_screen:
        print("\n".join(lines(snapshot)) + "\n", flush=True)
    else:
        width, height = shutil.get_terminal_size()
        page = lines(snapshot, width, height - 2)
        text = "".join(f"{line}{CLEAR_LINE}\r\n" for line in page)
        foot = f"{CLEAR_LINE}\r\nevery {options.interval:g} s, q ends"
        sys.stdout.write(f"{HOME}{text}{foot}{CLEAR_REST}")
        sys.stdout.flush()
