"""`top --html`: the page on the loopback interface.

Other users of the machine and pages of the web may connect to a loopback port, too. So a request
needs the key of the printed address, and the Host header of this machine: a page of the web whose
name was made to point to 127.0.0.1 (DNS rebinding) has its own name there.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from .page import PAGE, SCRIPT, STYLE

LOOPBACK = "127.0.0.1"
HOSTS = (LOOPBACK, "localhost")


def source_of(text: str) -> str:
    """A text in a Content-Security-Policy: nothing else than it may be a style or a script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        f"default-src 'none'; style-src {source_of(STYLE)}; script-src {source_of(SCRIPT)}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class PageServer(ThreadingHTTPServer):
    """Serves `/`, the page, and `/data`, its tables: the text of `fragment`.

    Args:
        port: 0 for any that is free.
    """

    daemon_threads = True

    def __init__(self, port: int) -> None:
        self.key, self.fragment = secrets.token_urlsafe(16), ""
        super().__init__((LOOPBACK, port), Handler)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.server_port}/?key={self.key}"

    def handle_error(self, *_: object) -> None:
        """A browser that closes its connection is no news."""


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD of two paths."""

    server: PageServer
    server_version, sys_version = "shmtensor", ""
    timeout = 10  # of a connection that sends nothing

    def do_GET(self) -> None:
        text, status = self.answer()
        content = text.encode()
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_HEAD = do_GET

    def answer(self) -> tuple[str, int]:
        """The text of an answer, and its status."""
        host = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        if host.lower() not in HOSTS:
            return "403: the Host header is not this machine's loopback\n", 403
        parts = urlsplit(self.path)
        key = parse_qs(parts.query).get("key", [""])[0]
        if not hmac.compare_digest(key.encode(), self.server.key.encode()):
            return "403: the key is missing or wrong: open the address that top has printed\n", 403
        if parts.path == "/":
            return PAGE, 200
        if parts.path == "/data":
            return self.server.fragment, 200
        return "404: there are only / and /data\n", 404

    def log_message(self, *_: object) -> None:
        """The terminal belongs to the user."""


@contextmanager
def serving(port: int) -> Iterator[PageServer]:
    """A server whose thread answers until the block ends.

    Raises:
        OSError: the port is in use, or not allowed.
    """
    with PageServer(port) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
