"""Requests of the table in `conformance/requests.tsv`: what each listener makes of them, and that no proxy in front of
it disagrees about where they end."""

import json

import pytest

from support.conformance import Tap, exchange, expected, front, rows, statuses
from support.http import Connection
from support.program import Program
from support.wait import until

ROWS = rows()
# Thousands of packets would tell no more.
SHORT = [row for row in ROWS if len(row.data) <= 600]
MARKER_STATUS = {"public": "404", "control": "404", "hello": "200"}


@pytest.fixture(scope="module")
def hello(tmp_path_factory):
    program = Program("hello", "--listen", "127.0.0.1:0", cwd=tmp_path_factory.mktemp("hello"))
    yield program
    program.stop()


@pytest.fixture
def address(server, hello, request):
    return {"public": server.public, "control": server.control, "hello": hello.listen}[request.param]


@pytest.mark.parametrize(
    ("address", "listener"), [(name, name) for name in MARKER_STATUS], indirect=["address"], ids=MARKER_STATUS
)
@pytest.mark.parametrize("by_bytes", [False, True], ids=["whole", "byte by byte"])
def test_each_request_has_its_outcome(address, listener, by_bytes):
    wrong = []
    for row in SHORT if by_bytes else ROWS:
        found = statuses(*exchange(address, row, by_bytes))
        due = expected(row.outcomes[listener], MARKER_STATUS[listener])
        if found != due:
            wrong.append(f"{row.name} ({row.source}): {found}, not {due}")
    assert not wrong, "\n".join(wrong)


def test_both_listeners_refuse_a_head_for_the_same_reason(server):
    for row in ROWS:
        if not row.is_refused:
            continue
        (head, _, reason), (control_head, _, problem) = (
            exchange(address, row)[0].partition(b"\r\n\r\n") for address in (server.public, server.control)
        )
        assert b"Content-Type: text/plain; charset=utf-8" in head, row.name
        assert b"content-type: application/problem+json" in control_head, row.name
        # One line, and a sentence rather than a word.
        assert reason.endswith(b".\n") and reason.count(b"\n") == 1 and len(reason) > 20, row.name
        assert json.loads(problem)["detail"] == reason.decode().rstrip("\n"), row.name


@pytest.mark.parametrize(
    ("address", "listener"), [(name, name) for name in MARKER_STATUS], indirect=["address"], ids=MARKER_STATUS
)
@pytest.mark.parametrize("kind", ["nginx", "haproxy", "haproxy, lenient"])
def test_no_proxy_disagrees_about_the_end_of_a_request(address, listener, kind, port):
    """What a proxy takes for one request, the listener takes for one: it answers as many as were passed on."""
    tap, wrong, apart = Tap(address), [], 0
    try:
        with front(kind, port().number, tap.address) as proxy:
            for row in ROWS:
                exchange(proxy.address, row, patience=5)
                try:
                    until(lambda: tap.answers() == proxy.passed_on() + apart, "equal", patience=1)
                except AssertionError:
                    now = tap.answers() - proxy.passed_on()
                    wrong.append(f"{row.name} ({row.source}): {now - apart:+} answers")
                    apart = now
            assert proxy.passed_on() > 100, "it passes most requests on"
    finally:
        tap.close()
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "field", [b"Forwarded: for=10.0.0.1", b"X-Forwarded-For: 10.0.0.1", b"X-Forwarded-Host: a", b"Via: 1.1 a"]
)
def test_without_a_token_a_forwarded_request_is_refused(server, field):
    """A proxy on this machine sends requests of strangers with a Host that is an IP address."""
    with Connection(None, address=server.control) as connection:
        connection.send(b"GET /v1/stats HTTP/1.1\r\nHost: 127.0.0.1:8001\r\n" + field + b"\r\n\r\n")
        response = connection.response()
        assert response.status == 403 and "proxy" in response.text
