"""WebSocket: Python's `websockets`, Chromium, proxies in between, TLS, and strangers on plain sockets."""

import base64
import json
import socket
import time

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from support.http import Connection
from support.reverse import reverse_proxy
from support.tls import Authority, TlsServer
from support.wait import PATIENCE, until
from test_identity_browser import guarded, secret_file, token  # noqa: F401

PROXIES = ["nginx, WebSocket", "haproxy", "haproxy, TCP", "encke-proxy tcp"]


def opened(address, path, **options):
    """A client of the library, without what the machine's settings say about proxies."""
    return connect("ws://%s:%d%s" % (*address, path), proxy=None, open_timeout=PATIENCE, **options)


def event(client):
    """The next message that is an event or a notice."""
    while True:
        message = json.loads(client.recv(timeout=PATIENCE))
        if "data" in message:
            return message


def closed(client):
    """The code and the reason of the server's close frame."""
    with pytest.raises(ConnectionClosed) as closing:
        while True:
            client.recv(timeout=PATIENCE)
    received = closing.value.rcvd
    return (received.code, received.reason) if received else (None, None)


def test_a_session_gets_events_and_changes_what_it_follows(server, name):
    first, second = name(), name()
    with opened(server.public, f"/ws/{first}") as client:
        server.publish(first, "one")
        found = event(client)
        assert (found["subject"], found["data"]) == (first, "one")
        client.send(json.dumps({"subscribe": [second]}))
        assert event(client) == {"type": "subscribed", "data": {"ids": [second]}}
        server.publish(second, "y" * 60_000)
        assert event(client)["data"] == "y" * 60_000
        client.send(json.dumps({"unsubscribe": [first]}))
        assert event(client)["type"] == "unsubscribed"
        assert server.publish(first, "to nobody")["online"] == 0
        client.send("not json")
        assert event(client)["type"] == "error"
    until(lambda: server.publish(second, "gone")["online"] == 0, "logged out")


@pytest.mark.parametrize("proxy", PROXIES)
def test_a_websocket_works_through_a_proxy(start, port, proxy):
    server = start()
    with reverse_proxy(proxy, port().number, server.public) as edge:
        with opened(edge, "/ws/a") as client, opened(edge, "/ws/a") as other:
            assert client.recv(timeout=PATIENCE).startswith("{")
            client.send('{"subscribe":["b"]}')
            assert event(client)["type"] == "subscribed"
            server.publish("b", "through it")
            assert event(client)["data"] == "through it"
            other.close(4000, "enough")
            assert other.protocol.close_rcvd.code == 4000
            server.api.delete("/v1/sessions/a")
            assert closed(client)[0] == 1001


def test_tls(tmp_path):
    authority = Authority(tmp_path)
    server = TlsServer(certificates=[authority.issue("localhost", "127.0.0.1")])
    try:
        url = "wss://localhost:%d/ws/a" % server.secure[1]
        with connect(url, ssl=authority.context(), proxy=None) as client:
            server.publish("a", "z" * 50_000)
            assert event(client)["data"] == "z" * 50_000
            client.send(json.dumps({"subscribe": [f"id-{n}" for n in range(100)]}))
            assert len(event(client)["data"]["ids"]) == 100
    finally:
        server.stop()


def test_a_client_that_comes_back_with_its_cursor_misses_nothing(start):
    server, me = start("--history-bytes", "1MiB"), "me"
    with opened(server.public, f"/ws/{me}") as client:
        server.publish(me, "seen")
        cursor = event(client)["id"]
    missed = [f"missed {n}" for n in range(50)]
    for data in missed:
        server.publish(me, data)
    with opened(server.public, f"/ws/{me}?cursor={cursor}") as client:
        assert [event(client)["data"] for _ in missed] == missed
        server.publish(me, "live")
        assert event(client)["data"] == "live"


def test_a_drain_tells_each_client_when_to_come_back(start):
    server = start()
    with opened(server.public, "/ws/a") as client:
        server.signal()
        code, reason = closed(client)
        assert code == 1001
        assert json.loads(reason)["retry"] >= 3000


def test_a_session_lives_as_long_as_its_newest_token(guarded):  # noqa: F811
    server = guarded()
    short = token(sub="alice", lifetime=6, encke={"ids": ["news"]})
    headers = {"Authorization": f"Bearer {short}"}
    with pytest.raises(InvalidStatus) as refused:
        opened(server.public, "/ws")
    assert refused.value.response.status_code == 401
    with (
        opened(server.public, "/ws", additional_headers=headers) as kept,
        opened(server.public, "/ws", additional_headers=headers) as left,
    ):
        kept.send(json.dumps({"token": token(sub="alice", encke={"ids": ["news"]})}))
        assert event(kept)["type"] == "renewed"
        kept.send('{"subscribe":["news"]}')
        assert event(kept)["type"] == "subscribed"
        kept.send('{"subscribe":["bob"]}')
        assert event(kept)["type"] == "error"
        assert closed(left) == (1008, "expired")
        server.publish("news", "later")
        assert event(kept)["data"] == "later"
        kept.send(json.dumps({"token": token(sub="bob", encke={"ids": ["*"]})}))
        assert closed(kept)[0] == 1008


# Chromium


OPEN = """(url) => {
  window.heard = [];
  window.socket = new WebSocket(url);
  for (const type of ['open', 'message', 'close', 'error'])
    window.socket.addEventListener(type, (event) => window.heard.push([type, event.data ?? event.code ?? null]));
}"""


def heard(browser, kind):
    return [value for type_, value in browser.evaluate("window.heard") if type_ == kind]


def open_in(browser, server, path):
    url = "ws://%s:%d%s" % (*server.public, path)
    browser.evaluate(f"({OPEN})({json.dumps(url)})")


def test_a_page_of_the_server_opens_one(start, browser):
    server = start("--heartbeat", "1s")
    browser.goto(server.public_url)
    open_in(browser, server, "/ws/a")
    until(lambda: heard(browser, "open"), "open")
    server.publish("a", "to a page")
    until(lambda: any("to a page" in text for text in heard(browser, "message")), "a message")
    browser.evaluate("window.socket.send('{\"subscribe\":[\"b\"]}')")
    until(lambda: any("subscribed" in text for text in heard(browser, "message")), "a notice")
    # It answers pings by itself.
    until(lambda: len(heard(browser, "message")) >= 6, "heartbeats")
    assert not heard(browser, "close")
    server.api.delete("/v1/sessions/a")
    until(lambda: heard(browser, "close") == [1001], "the close code")


def test_a_page_of_another_origin_must_be_listed(start, browser):
    other = start()
    for flags, is_allowed in [((), False), (("--cors-origin", other.public_url), True)]:
        server = start(*flags)
        # A page of that origin whose own policy allows connections: an error.
        browser.goto(other.public_url + "/nowhere")
        open_in(browser, server, "/ws/a")
        until(lambda: heard(browser, "open") or heard(browser, "close"), "a verdict")
        assert bool(heard(browser, "open")) == is_allowed


# Strangers

UPGRADE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: %s\r\n" % base64.b64encode(bytes(16)).decode()
)


def frame(first, payload):
    size = len(payload)
    length = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
    return bytes([first]) + length + bytes(4) + payload


class Stranger:
    """A plain socket after the handshake."""

    def __init__(self, server):
        self.socket = socket.create_connection(server.public, timeout=PATIENCE)
        self.socket.sendall(f"GET /ws/stranger HTTP/1.1\r\nHost: localhost\r\n{UPGRADE}\r\n".encode())
        received = b""
        while b"\r\n\r\n" not in received:
            received += self.socket.recv(4096)
        assert received.startswith(b"HTTP/1.1 101 ")

    def end(self):
        """All that the server sends until it ends its side."""
        received = b""
        try:
            while data := self.socket.recv(4096):
                received += data
        except ConnectionResetError:
            pass
        return received

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


@pytest.mark.parametrize(
    "code, bytes_",
    [
        (1002, b"\x81\x05Hello"),
        (1002, b"GET / HTTP/1.1\r\n\r\n"),
        (1009, b"\x81\xff" + (1 << 40).to_bytes(8, "big") + bytes(4)),
        (1002, b"\x81\xff" + b"\xff" * 8 + bytes(4)),
        (1008, frame(0x01, b"") + frame(0x00, b"") * 500),
        (1008, frame(0x89, b"ping") * 500),
        (1007, frame(0x81, b"\xff\xfe")),
        (1003, frame(0x82, b"\x00")),
    ],
    ids=["unmasked", "http", "huge", "negative", "fragments", "pings", "not utf-8", "binary"],
)
def test_a_stranger_is_told_why_and_closed(server, code, bytes_):
    with Stranger(server) as stranger:
        stranger.socket.sendall(bytes_)
        assert code.to_bytes(2, "big") in stranger.end()


def test_a_stranger_that_answers_no_ping_is_closed(start):
    server = start("--heartbeat", "1s")
    with Stranger(server) as stranger:
        begun = time.monotonic()
        received = stranger.end()
        assert received.count(b"\x89\x00") == 2
        assert time.monotonic() - begun < 10


def test_a_stranger_that_never_ends_its_message_is_closed(server):
    with Stranger(server) as stranger:
        stranger.socket.sendall(frame(0x81, b"x" * 1000)[:500])
        assert (1008).to_bytes(2, "big") in stranger.end()


def test_a_half_handshake_is_answered_in_time(start):
    server = start("--head-timeout", "1s")
    with Connection(server) as connection:
        connection.send(b"GET /ws/a HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n")
        assert connection.head()[0] == 408


@pytest.mark.parametrize(
    "fields, status",
    [
        ("", 426),
        (UPGRADE.replace("13", "8"), 426),
        (UPGRADE.replace("Sec-WebSocket-Key", "X-Key"), 400),
        (UPGRADE + "Origin: http://evil.example\r\n", 403),
    ],
)
def test_a_request_that_opens_none_is_answered_over_http(server, fields, status):
    with Connection(server) as connection:
        connection.send(f"GET /ws/a HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n".encode())
        assert connection.head()[0] == status
