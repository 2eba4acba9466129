"""`top --html`: the facts of the text, on this machine's loopback only, for who has the address."""

from __future__ import annotations

import html
import http.client
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit
from xml.etree import ElementTree

import pytest

from shmtensor.cli import main
from shmtensor.cli.find_domains import select
from shmtensor.cli.top.format import lines
from shmtensor.cli.top.page import PAGE, fragment
from shmtensor.cli.top.serve import PageServer, serving
from shmtensor.cli.top.snapshot import survey_domain
from shmtensor.cli.top.tables import sentences, tables

from .running import LONG, Program
from .test_top import snapshot

TOP = [sys.executable, "-m", "shmtensor", "top"]


def get(
    url: str, path: str | None = None, host: str | None = None, method: str = "GET"
) -> tuple[int, str, dict[str, str]]:
    """Status, text and headers of an answer."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=LONG)
    headers = {} if host is None else {"Host": host}
    try:
        connection.request(method, f"{parts.path}?{parts.query}" if path is None else path,
                           headers=headers)  # fmt: skip
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), dict(answer.getheaders())
    finally:
        connection.close()


def data_of(url: str) -> str:
    return url.replace("/?", "/data?")


def test_it_has_the_sentences_and_rows_of_the_text(shared_program: Program) -> None:
    now = survey_domain(select(str(shared_program.pid)))
    text, page = lines(now, 1000), fragment(now)
    root = ElementTree.fromstring(f"<div>{page}</div>")
    assert [p.text for p in root.iter("p")] == sentences(now) == text[: len(sentences(now))]
    rows = [["".join(cell.itertext()) for cell in row] for row in root.iter("tr")]
    for row in rows:  # in a line of the text each cell, in their order
        pattern = r"\s+".join(re.escape(cell) for cell in row)
        assert any(re.fullmatch(rf"\s*{pattern}\s*", line) for line in text), row
    assert len(rows) == sum(1 + len(t.rows) for t in tables(now) if t.rows) >= 7
    assert [str(shared_program.child) in row for row in rows].count(True) == 1


def test_the_dead_are_marked_and_names_are_escaped() -> None:
    whole = snapshot(2, 1)
    name = "<script>alert(1)</script>\x1b"
    processes = [replace(p, state=s, role=name) for p, s in zip(whole.processes, ("live", "dead"))]
    page = fragment(replace(whole, processes=processes))
    assert "<script" not in page
    assert html.escape("<script>alert(1)</script>.") in page
    assert re.findall(r'<tr class="processes (\w+)">', page) == ["live", "dead"]


def test_the_page_needs_no_other_file() -> None:
    assert not re.search(r"https?://|src=|@import|url\(", PAGE)


@pytest.fixture
def server() -> Iterator[PageServer]:
    with serving(0) as instance:
        instance.fragment = "<p>the tables</p>"
        yield instance


def test_only_the_page_and_its_data_are_served(server: PageServer) -> None:
    status, text, headers = get(server.url)
    assert (status, text) == (200, PAGE)
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Cache-Control"] == "no-store"
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert get(data_of(server.url))[:2] == (200, "<p>the tables</p>")
    query = urlsplit(server.url).query
    for path in ("/x", "/data/", "/../etc/passwd", "/index.html"):
        assert get(server.url, f"{path}?{query}")[0] == 404
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert get(server.url, method=method)[0] == 501
    assert get(server.url, method="HEAD")[:2] == (200, "")


def test_other_hosts_and_wrong_keys_are_refused(server: PageServer) -> None:
    port = server.server_port
    for host in ("127.0.0.1", "localhost", f"LOCALHOST:{port}", "127.0.0.1:1"):  # ssh -L
        assert get(data_of(server.url), host=host)[0] == 200
    for host in (f"evil.example:{port}", "evil.example", "", f"127.0.0.1.evil.example:{port}",
                 "0.0.0.0", "[::1]", f"127.0.0.1@evil.example:{port}"):  # fmt: skip
        for url in (server.url, data_of(server.url)):
            status, text, _ = get(url, host=host)
            assert status == 403
            assert "tables" not in text
    for path in ("/", "/data", "/data?key=", "/data?key=wrong", "/data?key=%ff", "/?key"):
        status, text, _ = get(server.url, path)
        assert (status, "the key is missing or wrong" in text) == (403, True)


def test_it_listens_on_the_loopback_alone(server: PageServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", server.server_port), timeout=LONG)
    assert len(server.key) >= 22  # 128 bits


def test_a_client_that_says_nothing_delays_no_other(server: PageServer) -> None:
    with socket.create_connection(("127.0.0.1", server.server_port)) as silent:
        silent.sendall(b"GET / HT")
        assert get(server.url)[0] == 200


def begun(pid: int, *options: str) -> tuple[subprocess.Popen[str], str]:
    """A running `top --html`, and its address."""
    process = subprocess.Popen(
        [*TOP, str(pid), "--html", "--interval", "0.05", *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    return process, process.stdout.readline().split()[0]


def until_page_has(url: str, text: str) -> None:
    end = time.monotonic() + LONG
    while text not in get(data_of(url))[1]:
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def test_it_is_live_until_it_is_ended(program: Program) -> None:
    process, url = begun(program.pid)
    with process:
        try:
            until_page_has(url, f">{program.child}<")
            for _ in range(20):
                program.ask("put")
            until_page_has(url, 'data-name="TAKEN">22<')
            process.send_signal(signal.SIGINT)
            assert process.wait(LONG) == 0
            assert process.stderr is not None
            assert process.stderr.read() == ""
        finally:
            process.kill()


def test_it_ends_with_the_domain_and_says_so(program: Program) -> None:
    process, url = begun(program.pid)
    with process:
        try:
            until_page_has(url, f">{program.child}<")
            program.process.kill()
            program.process.wait(LONG)
            subprocess.run(["kill", "-9", str(program.child)], check=True)
            until_page_has(url, "is gone")
            assert process.wait(LONG) == 0
            assert process.stderr is not None
            assert "is gone" in process.stderr.read()
        finally:
            process.kill()


def test_a_port_that_is_in_use_is_named(
    shared_program: Program, server: PageServer, capsys: pytest.CaptureFixture[str]
) -> None:
    port = str(server.server_port)
    assert main(["top", str(shared_program.pid), "--html", "--port", port]) == 1
    assert f"top: cannot serve port {port}: Address already in use" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [["--port", "65536"], ["--port", "-1"], ["--html", "--once"],
                                   ["--html", "--json"]])  # fmt: skip
def test_wrong_arguments_are_refused(wrong: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["top", *wrong])
    assert caught.value.code == 2
