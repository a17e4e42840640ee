"""The public listener as curl sees it: heads, transports, methods, cross-origin access."""

import json
import re
import selectors
import subprocess
import time

import pytest

from support.server import Server
from support.wait import PATIENCE

# Each client is told a reconnect delay of its own.
GREETING = re.compile(rb":\nretry: (\d{4})\n\n")

NO_CACHE = "private, no-cache, no-store, must-revalidate, max-age=0"
DATE = re.compile(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT")


@pytest.fixture(scope="module")
def server():
    """A server without a history: streams then begin without an `id:`, and heartbeats are empty."""
    server = Server("--drain-timeout", "5s", "--history-bytes", "0")
    yield server
    server.stop()


class Curl:
    """A curl that reads a stream until it is told to end."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            ["curl", "--silent", "--noproxy", "*", "--no-buffer", "--max-time", f"{PATIENCE}", *arguments],
            stdout=subprocess.PIPE,
        )
        self.output = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def until(self, end):
        """Output up to and with `end`, which is taken out of it."""
        deadline = time.monotonic() + PATIENCE
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while end not in self.output:
                assert selector.select(deadline - time.monotonic()), self.output
                piece = self.process.stdout.read1()
                assert piece, f"curl ended: {self.output!r}"
                self.output += piece
        found, _, self.output = self.output.partition(end)
        return found + end

    def head(self):
        line, *fields = self.until(b"\r\n\r\n").decode()[:-4].split("\r\n")
        return line, dict(field.split(": ", 1) for field in fields)


def curl(*arguments):
    """Runs curl to its end."""
    command = ["curl", "--silent", "--noproxy", "*", "--show-error", "--max-time", f"{PATIENCE}", *arguments]
    return subprocess.run(command, capture_output=True, check=True).stdout


def head_of(*arguments):
    line, *fields = curl("--include", *arguments).decode().partition("\r\n\r\n")[0].split("\r\n")
    return int(line.split()[1]), dict(field.split(": ", 1) for field in fields)


def test_events_head_is_as_documented(server, name):
    with Curl("--include", f"{server.public_url}/events/{name()}") as stream:
        line, fields = stream.head()
    assert line == "HTTP/1.1 200 OK"
    assert DATE.fullmatch(fields.pop("Date"))
    assert fields == {
        "Content-Type": "text/event-stream",
        "Cache-Control": NO_CACHE,
        "X-Accel-Buffering": "no",
        "X-Content-Type-Options": "nosniff",
        "Transfer-Encoding": "chunked",
    }


def test_events_begin_with_a_comment_and_retry_at_once(server, name):
    with Curl(f"{server.public_url}/events/{name()}") as stream:
        assert GREETING.fullmatch(stream.until(b"\n\n"))


def test_event_arrives_with_id_type_and_data(server, name):
    rj = name("rj")
    with Curl(f"{server.public_url}/events/{rj}") as stream:
        assert GREETING.fullmatch(stream.until(b"\n\n"))
        receipt = server.publish(rj, "hello")
        assert stream.until(b"\n\n").decode() == f"id: {receipt['id']}\ndata: hello\n\n"
        receipt = server.publish(rj, "one\rtwo\r\nthree\n", kind="sighting")
        assert stream.until(b"\n\n").decode() == (
            f"id: {receipt['id']}\nevent: sighting\n"
            "data: one\ndata: two\ndata: three\ndata: \n\n"
        )
        epoch, sequence = receipt["id"].rsplit("-", 1)
        assert epoch and sequence.isdigit()
        assert server.stats()["epoch"] == epoch


def test_chunks_on_the_wire(server, name):
    rj = name()
    with Curl("--raw", f"{server.public_url}/events/{rj}") as stream:
        assert stream.until(b"\r\n") == b"f\r\n"
        assert GREETING.match(stream.until(b"\n\n\r\n"))
        receipt = server.publish(rj, "x" * 300)
        body = f"id: {receipt['id']}\ndata: {'x' * 300}\n\n".encode()
        assert stream.until(b"\r\n") == b"%x\r\n" % len(body)
        assert stream.until(b"\n\n\r\n") == body + b"\r\n"


def test_http_10_is_close_delimited(server, name):
    rj = name()
    with Curl("--include", "--http1.0", f"{server.public_url}/events/{rj}") as stream:
        _, fields = stream.head()
        assert "Transfer-Encoding" not in fields
        assert fields["Connection"] == "close"
        assert GREETING.fullmatch(stream.until(b"\n\n"))
        server.publish(rj, "old")
        assert stream.until(b"\n\n").endswith(b"data: old\n\n")
        # Its end is the connection's.
        server.api.delete(f"/v1/sessions/{rj}")
        stream.process.wait(timeout=PATIENCE)
        assert stream.process.returncode == 0


def test_ndjson_json_text_and_binary(server, name):
    rj = name("ré")
    number = 4_000_000 + int(rj.rsplit("-")[-1])
    ids = f"{rj.replace('é', '%C3%A9')},{number}"
    with Curl("--include", f"{server.public_url}/stream/{ids}") as stream:
        _, fields = stream.head()
        assert fields["Content-Type"] == "application/x-ndjson"
        assert fields["Cache-Control"] == NO_CACHE
        assert stream.until(b"\n") == b"{}\n"

        def published(data, content_type, subject=rj, **options):
            receipt = server.publish(subject, data, content_type=content_type, **options)
            line = stream.until(b"\n")
            event = json.loads(line)
            assert event.pop("id") == receipt["id"]
            return event, line

        event, _ = published('{"a": [1, 2.50, "é"]}', "application/json")
        assert event == {"subject": rj, "data": {"a": [1, 2.5, "é"]}}
        # The value itself, not another spelling of it: digits are kept.
        _, line = published("[1.000, 12345678901234567890]", "application/json")
        assert b'"data":[1.000, 12345678901234567890]' in line
        _, line = published('{\n  "a": "b\\n  c"\n}', "application/json")
        assert json.loads(line)["data"] == {"a": "b\n  c"}
        event, _ = published('line\n"two"\t\\ \x01 \u2028', "text/plain; charset=utf-8", kind="t")
        assert event == {"subject": rj, "type": "t", "data": 'line\n"two"\t\\ \x01 \u2028'}
        event, _ = published(b"\x00\xff\x80", "application/octet-stream")
        assert event == {"subject": rj, "data": "AP+A", "encoding": "base64"}
        event, _ = published(b"\xffraw", None)
        assert event == {"subject": rj, "data": "/3Jhdw==", "encoding": "base64"}
        event, _ = published("1", "text/plain", subject=number)
        assert event == {"subject": number, "data": "1"}


def test_wire_of_2008(server, name):
    one, two = name(), name()
    with Curl("--include", "--raw", f"{server.public_url}/test/{one},{two}") as stream:
        _, fields = stream.head()
        assert fields["Content-Type"] == "text/html; charset=utf-8"
        assert fields["Transfer-Encoding"] == "chunked"
        welcome = f"Encke welcomes you! Your Id: {one},{two}\n".encode()
        assert stream.until(b"\n\r\n") == b"%x\r\n" % len(welcome) + welcome + b"\r\n"
        server.publish(two, "payload as it is\r\n")
        assert stream.until(b"is\r\n\r\n") == b"12\r\npayload as it is\r\n\r\n"
        server.publish(one, b"\x00\xff", content_type="application/octet-stream")
        assert stream.until(b"\xff\r\n") == b"2\r\n\x00\xff\r\n"
        # An empty chunk would end the stream.
        server.publish(one, "")
        server.publish(one, "!")
        assert stream.until(b"!\r\n") == b"1\r\n!\r\n"


@pytest.mark.parametrize("path", ["events", "stream", "test"])
def test_head_is_that_of_get(server, name, path):
    url = f"{server.public_url}/{path}/{name()}"
    with Curl("--include", url) as stream:
        _, of_get = stream.head()
    status, of_head = head_of("--head", url)
    assert status == 200
    assert {**of_get, "Date": ""} == {**of_head, "Date": ""}


def test_head_of_the_page_and_of_an_error(server):
    for path, status in [("/", 200), ("/nothing", 404), ("/events/", 400)]:
        found, of_head = head_of("--head", server.public_url + path)
        _, of_get = head_of(server.public_url + path)
        assert found == status
        assert {**of_get, "Date": ""} == {**of_head, "Date": ""}


def test_page_may_do_nothing_but_be_itself(server):
    status, fields = head_of(server.public_url)
    assert (status, fields["Content-Type"]) == (200, "text/html; charset=utf-8")
    policy = fields["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert "<title>Encke</title>" in curl(server.public_url).decode()


@pytest.mark.parametrize("path", ["/", "/events/rj", "/stream/rj", "/test/rj", "/events/"])
def test_options(server, path):
    status, fields = head_of("--request", "OPTIONS", server.public_url + path)
    assert (status, fields["Allow"]) == (204, "GET, HEAD, OPTIONS")
    assert "Content-Length" not in fields


def test_options_of_the_server(server):
    arguments = ["--request", "OPTIONS", "--request-target", "*", server.public_url]
    status, fields = head_of(*arguments)
    assert (status, fields["Allow"]) == (204, "GET, HEAD, OPTIONS")


class TestCors:
    ASKED = "http://app.example:3000"
    OTHER = "http://evil.example"

    def fields(self, server, origin, path="/nothing", *arguments):
        """Of an error; streams are looked at on their own."""
        given = ["--header", f"Origin: {origin}"] if origin else []
        _, fields = head_of(*given, *arguments, server.public_url + path)
        return fields.get("Access-Control-Allow-Origin"), fields.get("Vary")

    def test_nothing_is_allowed_unasked(self, server):
        assert self.fields(server, self.ASKED) == (None, None)
        assert self.fields(server, None) == (None, None)

    def test_named_origins(self, start):
        server = start("--cors-origin", self.ASKED, "--cors-origin", "https://b.example")
        assert self.fields(server, self.ASKED) == (self.ASKED, "Origin")
        assert self.fields(server, "https://b.example") == ("https://b.example", "Origin")
        # A cache must not hand one origin's answer to another.
        assert self.fields(server, self.OTHER) == (None, "Origin")
        assert self.fields(server, None) == (None, "Origin")
        assert self.fields(server, "null") == (None, "Origin")
        near = [self.ASKED + ".evil.example", self.ASKED.upper(), "http://app.example", "*"]
        for origin in near:
            assert self.fields(server, origin) == (None, "Origin"), origin
        with Curl(
            "--include", "--header", f"Origin: {self.ASKED}", f"{server.public_url}/events/a"
        ) as stream:
            _, fields = stream.head()
            assert fields["Access-Control-Allow-Origin"] == self.ASKED
            assert fields["Vary"] == "Origin"

    def test_preflight(self, start):
        server = start("--cors-origin", self.ASKED)
        asked = ["--request", "OPTIONS", "--header", "Access-Control-Request-Method: GET"]
        _, fields = head_of(
            *asked, "--header", f"Origin: {self.ASKED}", f"{server.public_url}/events/a"
        )
        assert fields["Access-Control-Allow-Origin"] == self.ASKED
        assert "GET" in fields["Access-Control-Allow-Methods"].split(", ")
        headers = fields["Access-Control-Allow-Headers"].split(", ")
        assert {"Authorization", "Last-Event-ID", "Cache-Control", "Accept"} <= set(headers)
        assert fields["Access-Control-Allow-Credentials"] == "true"
        assert self.fields(server, self.OTHER, "/events/a", *asked)[0] is None

    @pytest.mark.parametrize(
        ("allowed", "origin", "credentials"),
        [
            ([ASKED], ASKED, "true"),
            ([ASKED], OTHER, None),
            ([ASKED], None, None),
            (["*"], ASKED, None),
            (["*", ASKED], ASKED, None),
            # Any site can make a page of this origin.
            (["null"], "null", None),
        ],
    )
    def test_credentials(self, start, allowed, origin, credentials):
        server = start(*(word for one in allowed for word in ("--cors-origin", one)))
        given = ["--header", f"Origin: {origin}"] if origin else []
        for path in ["/nothing", "/", "/events/a"]:
            _, fields = head_of("--head", *given, server.public_url + path)
            assert fields.get("Access-Control-Allow-Credentials") == credentials
            exposed = fields.get("Access-Control-Expose-Headers")
            assert (exposed is None) == ("Access-Control-Allow-Origin" not in fields)

    def test_any_origin(self, start):
        server = start("--cors-origin", "*")
        assert self.fields(server, self.OTHER) == ("*", None)
        assert self.fields(server, None) == ("*", None)


SPELLINGS = [
    ("/{a},{b}", "path"),
    ("?id={a}&id={b}", "query"),
    ("/?id={a}&x=1&id={b}", "with a slash and another parameter"),
    ("/{a},{b},{a}", "repeated"),
]


@pytest.mark.parametrize("spelling", [spelling for spelling, _ in SPELLINGS])
@pytest.mark.parametrize("path", ["events", "stream", "test"])
def test_several_ids(server, name, path, spelling):
    a, b = name("a"), name("b")
    with Curl(f"{server.public_url}/{path}{spelling.format(a=a, b=b)}") as stream:
        stream.until(b"\n")
        for subject in [a, b, a]:
            receipt = server.publish(subject, f"to {subject}!")
            assert (receipt["online"], receipt["written"]) == (1, 1)
            stream.until(f"to {subject}!".encode())
        (session,) = server.sessions(a)
        assert sorted(session["ids"]) == sorted([a, b])


@pytest.mark.parametrize(
    ("encoded", "decoded"),
    [
        ("/%72%6a{n}", "rj{n}"),
        ("/caf%C3%A9{n}", "café{n}"),
        ("/café{n}", "café{n}"),
        ("/a%2Cb{n}", "a,b{n}"),
        ("?id=a,b{n}", "a,b{n}"),
        ("?id=a+b{n}", "a b{n}"),
        ("?id=a%2Bb{n}", "a+b{n}"),
        ("/a+b{n}", "a+b{n}"),
        ("/a%2Fb{n}", "a/b{n}"),
        ("/a%25b{n}", "a%b{n}"),
        ("/00{n}", "00{n}"),
        ("/a:@!$&'()*;={n}", "a:@!$&'()*;={n}"),
    ],
)
def test_spellings_of_an_id(server, name, encoded, decoded):
    number = name("").lstrip("-")
    subject = decoded.format(n=number)
    url = f"{server.public_url}/events{encoded.format(n=number)}"
    with Curl("--globoff", "--path-as-is", url) as stream:
        assert GREETING.fullmatch(stream.until(b"\n\n"))
        assert server.publish(subject, "found")["written"] == 1
        stream.until(b"data: found\n\n")


def test_heartbeats(start):
    server = start("--history-bytes", "0", "--heartbeat", "300ms")
    with (
        Curl(f"{server.public_url}/events/a") as events,
        Curl(f"{server.public_url}/stream/a") as lines,
        Curl("--raw", f"{server.public_url}/test/a") as test,
    ):
        events.until(b"\n\n")
        lines.until(b"{}\n")
        test.until(b"Id: a\n\r\n")
        assert events.until(b":\n:\n:\n") == b":\n:\n:\n"
        assert lines.until(b"{}\n{}\n") == b"{}\n{}\n"
        # The clients of 2008 take every byte for payload.
        server.publish("a", "first")
        assert test.until(b"first\r\n") == b"5\r\nfirst\r\n"


def test_retry_flag(start):
    server = start("--history-bytes", "0", "--retry", "4s")
    told = set()
    for _ in range(5):
        with Curl(f"{server.public_url}/events/a") as stream, Curl(f"{server.public_url}/events/b") as other:
            for one in [stream, other]:
                told.add(int(GREETING.fullmatch(one.until(b"\n\n"))[1]))
    assert len(told) > 1, "each client has its own"
    assert all(2000 <= delay < 6000 for delay in told), told
