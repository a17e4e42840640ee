"""What the public listener refuses: each with its status, one line that says what was wrong, and, where
the next request could not be told, an end. Heads that are refused are in the table of `test_conformance`."""

import socket
import time

import pytest

from support import conformance
from support.http import Connection, Sse
from support.server import Server
from support.wait import PATIENCE, PROMPT, punctually, until

HOST = b"Host: localhost\r\n"


def exchange(server, request):
    """Sends bytes and reads the answer and whether the connection ended after it."""
    with Connection(server) as connection:
        connection.send(request)
        response = connection.response()
        ended = response.fields.get("Connection") == "close"
        if ended:
            assert connection.rest() == b""
        return response, ended


def assert_one_line(response):
    assert response.fields["Content-Type"] == "text/plain; charset=utf-8"
    assert response.text.endswith("\n") and response.text.count("\n") == 1
    assert len(response.text) > 20, "a sentence, not a word"


def get(target=b"/events/rj", fields=HOST, version=b"HTTP/1.1"):
    return b"GET " + target + b" " + version + b"\r\n" + fields + b"\r\n"


METHODS = [
    ("POST", "/events/rj", 405),
    ("PUT", "/stream/rj", 405),
    ("DELETE", "/test/rj", 405),
    ("POST", "/", 405),
    ("PATCH", "/events/rj", 501),
    ("TRACE", "/", 501),
    ("BREW", "/", 501),
    ("CONNECT", "localhost:1", 501),
    ("get", "/", 501),
]


@pytest.mark.parametrize(("method", "target", "status"), METHODS)
def test_methods(server, method, target, status):
    with Connection(server) as connection:
        for _ in range(2):
            connection.get(target, method=method)
            response = connection.response()
            assert response.status == status
            assert_one_line(response)
            if status == 405:
                assert response.fields["Allow"] == "GET, HEAD, OPTIONS"


@pytest.mark.parametrize(
    "target", ["/nothing", "/event/rj", "/eventsx", "/events/a/b", "/relay", "/v1/publish/rj", "/.."]
)
def test_nothing_there(server, target):
    with Connection(server) as connection:
        connection.get(target)
        response = connection.response()
        assert response.status == 404
        assert_one_line(response)
        assert "Connection" not in response.fields


BODIES = [
    ("sized", b"Content-Length: 5\r\n", b"hello"),
    ("chunked", b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n0\r\n\r\n"),
    ("announced and not sent", b"Content-Length: 1000000\r\n", b""),
    ("a request as body", b"Content-Length: 200\r\n", get(b"/events/smuggled")),
]


@pytest.mark.parametrize(("fields", "body"), [row[1:] for row in BODIES], ids=[r[0] for r in BODIES])
@pytest.mark.parametrize("target", [b"/events/rj", b"/", b"/test/rj"])
def test_bodies_are_refused(server, target, fields, body):
    response, ended = exchange(server, get(target, HOST + fields) + body)
    assert response.status == 413, response
    assert_one_line(response)
    assert ended


def test_body_of_a_post_is_not_a_request(server):
    """A method is refused before its body is looked at; what follows is not answered either."""
    smuggled = get(b"/nothing")
    request = b"POST /events/rj HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % len(smuggled)
    response, ended = exchange(server, request + smuggled)
    assert response.status == 405
    assert ended


IDS = [
    ("empty", "/events/", "empty"),
    ("no segment", "/events", "empty"),
    ("empty in the query", "/events?id=", "empty"),
    ("empty among others", "/events/a,,b", "empty"),
    ("empty at the end", "/events/a,", "empty"),
    ("129 bytes", "/events/" + "x" * 129, "128"),
    ("129 bytes, encoded", "/events/" + "%C3%A9" * 64 + "x", "128"),
    ("129 digits", "/events/" + "1" * 129, "128"),
    ("percent alone", "/events/a%", "percent"),
    ("percent and one digit", "/events/a%4", "percent"),
    ("percent and no digits", "/events/%zz", "percent"),
    ("percent and sign", "/events/%+1", "percent"),
    ("percent in the query", "/events?id=%G0", "percent"),
    ("not UTF-8", "/events/%FF", "UTF-8"),
    ("overlong UTF-8", "/events/%C0%AF", "UTF-8"),
    ("surrogate", "/events/%ED%A0%80", "UTF-8"),
    ("cut UTF-8", "/events/%E2%82", "UTF-8"),
    ("line feed", "/events/a%0Ab", "control"),
    ("carriage return", "/events/a%0Db", "control"),
    ("NUL", "/events/%00", "control"),
    ("DEL", "/events/%7F", "control"),
    ("C1", "/events/%C2%85", "control"),
    ("129 ids", "/events/" + ",".join(f"i{n}" for n in range(129)), "128"),
    ("ids in path and query", "/events/alice?id=bob", "both the path and the query"),
    ("an id twice", "/events/alice?id=alice", "both the path and the query"),
    ("an encoded name in the query", "/events/alice?x=y&%69d=bob", "both the path and the query"),
]


@pytest.mark.parametrize(("target", "word"), [row[1:] for row in IDS], ids=[row[0] for row in IDS])
def test_bad_ids(server, target, word):
    with Connection(server) as connection:
        for path in (target, target.replace("/events", "/test", 1)):
            connection.get(path)
            response = connection.response()
            assert response.status == 400, response
            assert_one_line(response)
            assert word.lower() in response.text.lower(), response.text


def test_longest_ids(server):
    for segment in ("x" * 128, "%C3%A9" * 64, "9" * 128):
        with Sse(server, segment) as stream:
            assert stream.status == 200


def test_pipelined_requests_are_answered_in_order(server):
    with Connection(server) as connection:
        connection.send(
            get(b"/nothing")
            + b"HEAD / HTTP/1.1\r\n" + HOST + b"\r\n"
            + b"OPTIONS / HTTP/1.1\r\n" + HOST + b"\r\n"
            + get(b"/events/%FF")
            + get(b"/")
            + get(b"/events/pipelined")
            + get(b"/nothing")
        )  # fmt: skip
        assert connection.response().status == 404
        assert connection.response(head_only=True).status == 200
        assert connection.response().status == 204
        assert connection.response().status == 400
        page = connection.response()
        assert page.status == 200 and b"<title>" in page.body
        status, _, fields = connection.head()
        assert (status, fields["Content-Type"]) == (200, "text/event-stream")
        # A stream has no end behind which another answer could stand.
        assert b"\nretry: " in connection.take_until(b"\n\n\r\n")
        assert connection.is_silent(0.2)


def test_many_pipelined_requests(server):
    """More answers than sockets hold, so that the server has to wait for its reader."""
    count = 2000
    with Connection(server, receive_buffer=8192) as connection:
        connection.socket.setblocking(False)
        requests = get(b"/") * count
        sent, got = 0, 0
        deadline = time.monotonic() + PATIENCE
        length = None
        while got < count:
            assert time.monotonic() < deadline, (sent, got)
            try:
                sent += connection.socket.send(requests[sent : sent + 65536])
            except BlockingIOError:
                pass
            try:
                data = connection.socket.recv(1 << 20)
                assert data, "the server ended the connection"
                connection.buffer += data
            except BlockingIOError:
                time.sleep(0.001)
            if length is None and b"\r\n\r\n" in connection.buffer:
                head, _, _ = connection.buffer.partition(b"\r\n\r\n")
                field = [line for line in head.split(b"\r\n") if line.startswith(b"Content-Length")]
                length = len(head) + 4 + int(field[0].split(b": ")[1])
            while length and len(connection.buffer) >= length:
                assert connection.buffer.startswith(b"HTTP/1.1 200 OK\r\n")
                connection.buffer = connection.buffer[length:]
                got += 1


def test_keep_alive(server):
    with Connection(server) as connection:
        for _ in range(3):
            connection.get("/nothing")
            assert "Connection" not in connection.response().fields
        connection.get("/", "Connection: close")
        assert connection.response().fields["Connection"] == "close"
        assert connection.rest() == b""
    with Connection(server) as connection:
        for _ in range(3):
            connection.get("/", "Connection: keep-alive", version="HTTP/1.0")
            assert connection.response().fields["Connection"] == "keep-alive"
        connection.get("/", version="HTTP/1.0")
        assert connection.response().fields["Connection"] == "close"
        assert connection.rest() == b""


def test_one_byte_at_a_time_works(server, name):
    rj = name()
    with Connection(server) as connection:
        for byte in get(b"/nothing") + get(b"/events/" + rj.encode()):
            connection.send(bytes([byte]))
        assert connection.response().status == 404
        assert connection.head()[0] == 200
        assert b"\nretry: " in connection.take_until(b"\n\n\r\n")
        assert server.publish(rj, "x")["written"] == 1


def test_every_split_of_a_request(server):
    request = get(b"/nothing") + get(b"/")
    for at in range(1, len(request)):
        with Connection(server) as connection:
            connection.send(request[:at])
            connection.send(request[at:])
            assert connection.response().status == 404
            assert connection.response().status == 200


@pytest.fixture(scope="module")
def quick():
    server = Server("--head-timeout", "1s")
    yield server
    server.stop()


class TestHeadTimeout:
    @pytest.mark.parametrize("sent", [b"G", b"GET / HTTP/1.1\r\nHost: loc", b"\r\n"])
    def test_partial_head(self, quick, sent):
        began = time.monotonic()
        with Connection(quick) as connection:
            connection.send(sent)
            response = connection.response()
            assert 0.7 < time.monotonic() - began < PROMPT
            assert response.status == 408
            assert_one_line(response)
            assert response.fields["Connection"] == "close"
            assert connection.rest() == b""

    def test_a_byte_now_and_then_does_not_help(self, quick):
        def trial(step):
            with Connection(quick) as connection:
                began = time.monotonic()
                step()
                # A connection that has said nothing is closed without a word.
                request = iter(get(b"/" + b"x" * 1000))
                connection.send(bytes([next(request)]))
                step()
                while connection.is_silent(0.2):
                    assert time.monotonic() < began + PROMPT
                    connection.send(bytes([next(request)]))
                assert connection.response().status == 408

        punctually(trial, 0.5)

    def test_second_request_has_its_own_time(self, quick):
        def trial(step):
            with Connection(quick) as connection:
                for _ in range(3):
                    step()
                    time.sleep(0.6)
                    connection.get("/nothing")
                    assert connection.response().status == 404
                step()
                connection.send(b"GET /")
                assert connection.response().status == 408

        punctually(trial, 0.9)

    def test_idle_connections_are_closed_without_a_word(self, quick):
        began = time.monotonic()
        with Connection(quick) as connection:
            assert connection.rest() == b""
            assert 0.7 < time.monotonic() - began < PROMPT

    def test_stream_lives_on(self, quick):
        with Sse(quick, "patient") as stream:
            assert not stream.connection.buffer or stream.line() is not None
            time.sleep(1.6)
            assert quick.publish("patient", "still here")["written"] == 1
            assert stream.data() == "still here"

    def test_half_closed_head(self, quick):
        """A client that ends its side within a head is gone."""
        before = quick.totals()["connections"]
        with Connection(quick) as connection:
            connection.send(b"GET /")
            connection.socket.shutdown(socket.SHUT_WR)
            connection.rest()
            until(lambda: quick.totals()["connections"] <= before, "closed")


def test_client_that_talks_during_its_stream(server, name):
    """A little is ignored; a lot is not HTTP, and ends the stream."""
    rj = name()
    with Sse(server, rj) as stream:
        stream.connection.send(get(b"/nothing") * 3)
        server.publish(rj, "x")
        assert stream.data() == "x"
        stream.connection.socket.settimeout(PATIENCE)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for _ in range(1000):
                stream.connection.socket.sendall(b"x" * 65536)
    until(lambda: not server.sessions(rj), "logged out")


def test_event_too_large(server, name):
    rj = name()
    with Sse(server, rj) as stream:
        answer = server.api.post(f"/v1/publish/{rj}", content=b"x" * 65537)
        assert answer.status_code == 413
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert "65536" in answer.json()["detail"]
        server.publish(rj, "small")
        assert stream.data() == "small"


def test_event_bytes_flag(start):
    server = start("--event-bytes", "100")
    assert server.api.post("/v1/publish/a", content=b"x" * 100).status_code == 200
    assert server.api.post("/v1/publish/a", content=b"x" * 101).status_code == 413


def test_nothing_is_left_of_all_this(start):
    server = start("--head-timeout", "1s")
    with Connection(server) as connection:
        connection.get("/nothing")
        connection.response()
    server.stats()
    until(lambda: server.totals()["connections"] == 0, "closed")
    before = server.baseline()
    for row in conformance.rows():
        conformance.exchange(server.public, row)
    server.until_as(before)
