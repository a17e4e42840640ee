"""What the public listener refuses: each with its status, one line that says what was wrong, and, where
the next request could not be told, an end."""

import socket
import time

import pytest

from harness.http import Closed, Connection, Sse
from harness.server import Server
from harness.wait import PATIENCE, PROMPT, punctually, until

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


# Name, request, status, a word of the reason.
REFUSED = [
    # Where does the request end? Two readers that differ are how requests are smuggled.
    ("both lengths", get(fields=HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400, "both"),
    ("both lengths, other order", get(fields=HOST + b"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n"), 400, "both"),
    ("duplicate lengths, equal", get(fields=HOST + b"Content-Length: 0\r\nContent-Length: 0\r\n"), 400, "Content-Length"),
    ("duplicate lengths, different", get(fields=HOST + b"Content-Length: 0\r\nContent-Length: 9\r\n"), 400, "Content-Length"),
    ("length list", get(fields=HOST + b"Content-Length: 0, 0\r\n"), 400, "Content-Length"),
    ("negative length", get(fields=HOST + b"Content-Length: -1\r\n"), 400, "Content-Length"),
    ("length with sign", get(fields=HOST + b"Content-Length: +0\r\n"), 400, "Content-Length"),
    ("hexadecimal length", get(fields=HOST + b"Content-Length: 0x10\r\n"), 400, "Content-Length"),
    ("empty length", get(fields=HOST + b"Content-Length:\r\n"), 400, "Content-Length"),
    ("huge length", get(fields=HOST + b"Content-Length: 99999999999999999999999\r\n"), 400, "Content-Length"),
    ("folded field", get(fields=HOST + b"X: a\r\n b\r\n"), 400, "folded"),
    ("folded with tab", get(fields=HOST + b"X: a\r\n\tb\r\n"), 400, "folded"),
    ("folded transfer-encoding", get(fields=HOST + b"Transfer-Encoding:\r\n chunked\r\n"), 400, "folded"),
    ("bare CR in a value", get(fields=HOST + b"X: a\rb\r\n"), 400, "CR"),
    ("bare CR as line end", b"GET /events/rj HTTP/1.1\rHost: localhost\r\r", 400, "CR"),
    ("bare LF as line end", b"GET /events/rj HTTP/1.1\nHost: localhost\n\n", 400, "LF"),
    ("bare LF after a field", b"GET /events/rj HTTP/1.1\r\nHost: localhost\n\r\n", 400, "LF"),
    ("space before colon", get(fields=HOST + b"Content-Length : 5\r\n"), 400, "colon"),
    ("tab before colon", get(fields=HOST + b"Transfer-Encoding\t: chunked\r\n"), 400, "colon"),
    ("absolute form with another host", get(b"http://other/events/rj"), 400, "host"),
    ("absolute form with another port", get(b"http://localhost:81/events/rj"), 400, "host"),
    ("absolute form with user", get(b"http://user@localhost/events/rj"), 400, "host"),
    ("chunked twice", get(fields=HOST + b"Transfer-Encoding: chunked, chunked\r\n"), 400, "Transfer-Encoding"),
    ("chunked not last", get(fields=HOST + b"Transfer-Encoding: chunked, identity\r\n"), 400, "Transfer-Encoding"),
    ("transfer-encoding twice", get(fields=HOST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400, "Transfer-Encoding"),
    ("transfer-encoding identity", get(fields=HOST + b"Transfer-Encoding: identity\r\n"), 400, "Transfer-Encoding"),
    ("transfer-encoding xchunked", get(fields=HOST + b"Transfer-Encoding: xchunked\r\n"), 400, "Transfer-Encoding"),
    ("transfer-encoding quoted", get(fields=HOST + b'Transfer-Encoding: "chunked"\r\n'), 400, "Transfer-Encoding"),
    ("transfer-encoding with vertical tab", get(fields=HOST + b"Transfer-Encoding: \x0bchunked\r\n"), 400, ""),
    ("transfer-encoding gzip", get(fields=HOST + b"Transfer-Encoding: gzip, chunked\r\n"), 501, "Transfer-Encoding"),
    ("transfer-encoding on 1.0", get(fields=HOST + b"Transfer-Encoding: chunked\r\n", version=b"HTTP/1.0"), 400, "HTTP/1.0"),
    # Heads that are none.
    ("NUL in the target", get(b"/events/r\0j"), 400, "NUL"),
    ("NUL in a field", get(fields=HOST + b"X: \0\r\n"), 400, "NUL"),
    ("control character in a value", get(fields=HOST + b"X: \x07\r\n"), 400, "control"),
    ("DEL in a value", get(fields=HOST + b"X: \x7f\r\n"), 400, "control"),
    ("field without colon", get(fields=HOST + b"nonsense\r\n"), 400, "field"),
    ("field without name", get(fields=HOST + b": x\r\n"), 400, "field"),
    ("field name with a space", get(fields=HOST + b"X Y: x\r\n"), 400, "field"),
    ("field name beyond ASCII", get(fields=HOST + "Ä: x\r\n".encode()), 400, "field"),
    ("field before all", b"GET / HTTP/1.1\r\n Host: localhost\r\n\r\n", 400, "folded"),
    ("no host", get(fields=b""), 400, "Host"),
    ("two hosts", get(fields=HOST + HOST), 400, "Host"),
    ("host with a path", get(fields=b"Host: localhost/x\r\n"), 400, "Host"),
    ("host with user", get(fields=b"Host: a@localhost\r\n"), 400, "Host"),
    ("host with a word as port", get(fields=b"Host: localhost:http\r\n"), 400, "Host"),
    ("two origins", get(fields=HOST + b"Origin: http://a\r\nOrigin: http://b\r\n"), 400, "Origin"),
    ("two spaces", b"GET  / HTTP/1.1\r\n" + HOST + b"\r\n", 400, "request line"),
    ("space at the end", b"GET / HTTP/1.1 \r\n" + HOST + b"\r\n", 400, "request line"),
    ("tab between", b"GET\t/\tHTTP/1.1\r\n" + HOST + b"\r\n", 400, "request line"),
    ("no version", b"GET /\r\n\r\n", 400, "request line"),
    ("lower case version", b"GET / http/1.1\r\n" + HOST + b"\r\n", 400, "request line"),
    ("method with a bracket", b"G[T / HTTP/1.1\r\n" + HOST + b"\r\n", 400, "request line"),
    ("relative target", get(b"events/rj"), 400, "target"),
    ("fragment", get(b"/events/rj#x"), 400, "target"),
    ("raw bytes that are not UTF-8", get(b"/events/\xff"), 400, "target"),
    ("asterisk with GET", get(b"*"), 400, "target"),
    ("authority form", get(b"localhost:1"), 400, "target"),
    ("newlines without end", b"\r\n" * 100, 400, "request line"),
    ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 100, 400, "TLS"),
    # Versions.
    ("HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "HTTP/2"),
    ("HTTP/3.0", get(version=b"HTTP/3.0"), 505, "version"),
    ("HTTP/0.9", get(version=b"HTTP/0.9"), 505, "version"),
    # Limits.
    ("long target", get(b"/events/" + b"x" * 4090), 414, "4096"),
    ("long target without an end", b"GET /" + b"x" * 9000, 414, "4096"),
    ("long method", b"X" * 9000, 414, "4096"),
    ("long head", get(fields=HOST + b"X: " + b"x" * 8192 + b"\r\n"), 431, "8192"),
    ("long head in many fields", get(fields=HOST + b"X: %s\r\n" % (b"x" * 200) * 42), 431, "8192"),
    ("65 fields", get(fields=HOST + b"X: y\r\n" * 64), 431, "64"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("request_bytes", "status", "word"),
    [row[1:] for row in REFUSED],
    ids=[row[0] for row in REFUSED],
)
def test_refused_and_ended(server, request_bytes, status, word):
    # A second request behind it must not be answered: that is the smuggled one.
    response, ended = exchange(server, request_bytes + get(b"/smuggled"))
    assert response.status == status, response
    assert_one_line(response)
    assert word.lower() in response.text.lower(), response.text
    assert ended


# Thousands of packets would tell no more.
SHORT = [row for row in REFUSED if len(row[1]) <= 2000]


@pytest.mark.parametrize(
    ("request_bytes", "status"), [row[1:3] for row in SHORT], ids=[row[0] for row in SHORT]
)
def test_refused_in_the_same_way_byte_by_byte(server, request_bytes, status):
    with Connection(server) as connection:
        for at in range(len(request_bytes)):
            connection.send(request_bytes[at : at + 1])
        assert connection.response().status == status


# Within the limits, and odd, but right.
ACCEPTED = [
    ("64 fields", get(b"/nothing", HOST + b"X: y\r\n" * 63), 404),
    ("4096 bytes of target", get(b"/" + b"x" * 4095), 404),
    ("8192 bytes of head", None, 404),
    ("absolute form", get(b"http://LOCALHOST/nothing"), 404),
    ("leading empty line", b"\r\n" + get(b"/nothing"), 404),
    ("field without a space", get(b"/nothing", b"host:localhost\r\n"), 404),
    ("field with spaces around", get(b"/nothing", b"Host: \t localhost \t\r\n"), 404),
    ("empty host", get(b"/nothing", b"Host:\r\n"), 404),
    ("IPv6 host", get(b"/nothing", b"Host: [::1]:8000\r\n"), 404),
    ("UTF-8 in a field", get(b"/nothing", HOST + "X: é\r\n".encode()), 404),
    ("length of zero", get(b"/nothing", HOST + b"Content-Length: 0\r\n"), 404),
    ("HTTP/1.2", get(b"/nothing", version=b"HTTP/1.2"), 404),
]


@pytest.mark.parametrize(
    ("request_bytes", "status"), [row[1:] for row in ACCEPTED], ids=[row[0] for row in ACCEPTED]
)
def test_accepted_and_kept(server, request_bytes, status):
    if request_bytes is None:
        room = 8192 - len(get(b"/nothing", HOST + b"X: \r\n"))
        request_bytes = get(b"/nothing", HOST + b"X: " + b"x" * room + b"\r\n")
        assert len(request_bytes) == 8192
    with Connection(server) as connection:
        for _ in range(2):
            connection.send(request_bytes)
            assert connection.response().status == status


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
        assert connection.take_until(b"\n\n\r\n").endswith(b"retry: 3000\n\n\r\n")
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
        connection.take_until(b"retry: 3000\n\n\r\n")
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
        with Connection(quick) as connection:
            began = time.monotonic()
            request = iter(get(b"/" + b"x" * 1000))
            while connection.is_silent(0.2):
                assert time.monotonic() < began + PROMPT
                connection.send(bytes([next(request)]))
            assert connection.response().status == 408

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
    for _, request, *_ in REFUSED:
        with Connection(server) as connection:
            connection.send(request)
            try:
                connection.rest()
            except Closed:
                pass
    server.until_as(before)
