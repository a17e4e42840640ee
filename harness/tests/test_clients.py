"""Clients of the registries, which share no code with the server: what they hand out is what was
published, as the SSE standard says."""

import json
import re
import socket
import threading
import time

import httpx
import httpx_sse
import pytest

from support.http import PLAIN, Ndjson
from support.node import EventSource
from support.wait import PATIENCE, PROMPT, until

NASTY = [
    "plain",
    "",
    " ",
    " leading space",
    "  two leading spaces",
    "trailing space ",
    "\tleading tab",
    "two\nlines",
    "two\r\nlines",
    "two\rlines",
    "\n",
    "\r\n",
    "\r",
    "\n\n",
    "\r\r",
    "\n\r",
    "\r\n\r\n",
    "ends in LF\n",
    "ends in CRLF\r\n",
    "ends in CR\r",
    "\nbegins with LF",
    "mixed\rA\nB\r\nC\n\rD\r\r\nE",
    "data: not a field",
    "\ndata: not a field\n\nid: 7\nevent: forged\nretry: 1\n\n",
    "\rid: forged\r\rdata: forged\r\r",
    ": not a comment",
    ":",
    "id",
    "é",
    "€uro 漢字 😀",
    "combining é and \u200d joiners",
    "line separator \u2028 and paragraph separator \u2029 and next line \x85 are text",
    "\ufeffbyte order mark",
    "form feed \x0c vertical tab \x0b file separator \x1c are text",
    "NUL \x00 within",
    "\x00",
    "control \x01\x02\x1b[31m characters \x7f",
    "\"quotes\" 'and' \\backslashes\\ \\n",
    '{"json": [1, 2, "three"]}',
    "<script>alert(1)</script>",
    "0\r\n\r\n",
    "a" * 65536,
    ("0123456789abcdef" * 64 + "\r\n") * 60,
    "é漢😀" * 7000,
    "\n" * 3000,
]


def as_the_standard_says(text):
    """WHATWG HTML 9.2.6: CR, LF and CRLF each end a line, and lines are joined by LF."""
    return re.sub("\r\n|\r", "\n", text)


def test_nasty_payloads_in_node(server, name):
    rj = name()
    with EventSource(f"{server.public_url}/events/{rj}", "sighting") as source:
        assert source.next() == {"open": True}
        for number, text in enumerate(NASTY):
            kind = "sighting" if number % 2 else None
            receipt = server.publish(rj, text, kind=kind)
            said = source.next()
            assert said == {
                "type": kind or "message",
                "data": as_the_standard_says(text),
                "id": receipt["id"],
            }, text[:100]


def test_nasty_payloads_in_python(server, name):
    rj = name()
    with (
        httpx.Client(timeout=PATIENCE, **PLAIN) as client,
        httpx_sse.connect_sse(client, "GET", f"{server.public_url}/events/{rj}") as source,
    ):
        events = source.iter_sse()
        first = next(events)
        assert 1500 <= first.retry < 4500 and first.data == ""
        assert re.fullmatch(r"[a-z0-9]+-\d+", first.id), "where the stream begins"
        for number, text in enumerate(NASTY):
            kind = "sighting" if number % 2 else None
            receipt = server.publish(rj, text, kind=kind)
            event = next(events)
            assert event.event == (kind or "message")
            assert event.data == as_the_standard_says(text), text[:100]
            assert event.id == receipt["id"]


def test_nasty_payloads_as_ndjson(server, name):
    """Here nothing is changed at all."""
    rj = name()
    with Ndjson(server, rj) as stream:
        for text in NASTY:
            server.publish(rj, text)
            assert stream.data() == text


@pytest.mark.parametrize("kind", ["a", "with space", " lead", "é漢😀", "message", "error", "x" * 100])
def test_types(server, name, kind):
    """All a publisher may name reaches a listener of that name."""
    rj = name()
    with EventSource(f"{server.public_url}/events/{rj}", kind) as source:
        source.next()
        server.publish(rj, "x", kind=kind)
        assert source.next()["type"] == kind


@pytest.mark.parametrize("kind", ["%0A", "a%0Db", "a%0D%0Adata:%20x", "%00", ""])
def test_types_that_would_not_arrive_are_refused(server, name, kind):
    answer = server.api.post(f"/v1/publish/{name()}?type={kind}", content="x")
    assert answer.status_code == 400


class Gate:
    """Takes the place of a server that is gone, and notes when somebody knocks and what they say."""

    def __init__(self, address):
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(address)
        self.listener.listen()
        self.knocks = []
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()

    def _watch(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            connection.settimeout(PATIENCE)
            try:
                head = connection.recv(65536).decode()
            except OSError:
                head = ""
            if head:
                self.knocks.append((time.monotonic(), head))
            connection.close()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()


def test_node_comes_back_after_as_long_as_it_was_told(start, port):
    # It is told half of this at least, which is longer than the three seconds that it waits untold.
    first = start("--retry", "8s", public=port().address, control=port().address)
    with EventSource(f"{first.public_url}/events/rj") as source:
        assert source.next() == {"open": True}
        receipt = first.publish("rj", "before")
        assert source.next()["data"] == "before"
        gone = time.monotonic()
        first.process.kill()
        first.process.wait()
        gate = Gate(first.public)
        until(lambda: gate.knocks, "knocked")
        gate.close()
        when, head = gate.knocks[0]
        assert 3.9 <= when - gone < 12 + PROMPT, f"came back after {when - gone} s"
        assert f"last-event-id: {receipt['id']}" in head.lower().splitlines()
        second = first.restart()
        try:
            source.until("open")
            second.publish("rj", "after")
            assert source.until("data")["data"] == "after"
        finally:
            second.stop()
    first.kill()


def test_node_heeds_the_farewell(start, port):
    """An ending server spreads its clients: what counts is the last `retry:`."""
    at = {"public": port().address, "control": port().address}
    first = start("--retry", "2500ms", "--drain-spread", "0s", **at)
    with EventSource(f"{first.public_url}/events/rj") as source:
        assert source.next() == {"open": True}
        gone = time.monotonic()
        first.signal()
        assert first.wait() == 0
        second = first.restart()
        try:
            source.until("open")
            took = time.monotonic() - gone
            assert 2.4 <= took < 2.5 + PROMPT, f"came back after {took} s"
            second.publish("rj", "after")
            assert source.until("data")["data"] == "after"
        finally:
            second.stop()


def test_python_comes_back_after_as_long_as_it_was_told(start, port):
    """As the client's documentation shows it: with the last `retry` and the last id."""
    first = start("--retry", "700ms", public=port().address, control=port().address)
    server = first
    heard, resets = [], []
    retry, last = 0, ""
    second = None
    try:
        while "after" not in heard:
            headers = {"Last-Event-ID": last} if last else {}
            try:
                with (
                    httpx.Client(timeout=PATIENCE, **PLAIN) as client,
                    httpx_sse.connect_sse(
                        client, "GET", f"{first.public_url}/events/rj", headers=headers
                    ) as source,
                ):
                    for event in source.iter_sse():
                        if event.retry is not None:
                            retry = event.retry
                            server.publish("rj", "after" if second else "before")
                            continue
                        if event.event == "reset":
                            resets.append(json.loads(event.data)["reason"])
                            continue
                        last = event.id
                        if not event.data:
                            continue  # Where the stream goes on. A browser passes over it.
                        heard.append(event.data)
                        if second:
                            break
                        first.process.kill()
                        first.process.wait()
            except httpx.TransportError:
                pass
            if not second:
                assert 350 <= retry < 1050
                second = server = first.restart("--retry", "700ms")
                time.sleep(retry / 1000)
    finally:
        if second:
            second.stop()
        first.kill()
    assert heard == ["before", "after"]
    assert resets == ["restart"], "it had no history of what came before"
