"""The public and the control listener refuse the same request heads."""

import json

import pytest

from harness.http import Connection

from test_bad_input import ACCEPTED, HOST, REFUSED, get

# Rows that were once accepted by one of the two.
MORE = [
    ("host with a suffix after the bracket", get(fields=b"Host: [::1]evil.com\r\n"), 400, "Host"),
    ("no host, absolute form", get(b"http://localhost/events/rj", fields=b""), 400, "Host"),
    ("gzip without chunked", get(fields=HOST + b"Transfer-Encoding: gzip\r\n"), 400, "Transfer-Encoding"),
]  # fmt: skip

ROWS = REFUSED + MORE


def status_of(address, request, by_bytes=False):
    """The status of the only answer, after which the connection ends."""
    with Connection(None, address=address) as connection:
        if by_bytes:
            for at in range(len(request)):
                connection.send(request[at : at + 1])
        else:
            connection.send(request + get(b"/v1/stats"))
        response = connection.response()
        fields = {name.lower(): value for name, value in response.fields.items()}
        assert fields["connection"] == "close"
        assert connection.rest() == b"", "the request behind it is not answered"
        return response.status, fields["content-type"], response.text


@pytest.mark.parametrize(
    ("request_bytes", "status", "word"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_both_refuse_alike(server, request_bytes, status, word):
    public = status_of(server.public, request_bytes)
    control = status_of(server.control, request_bytes)
    assert (public[0], control[0]) == (status, status), (public, control)
    assert control[1] == "application/problem+json"
    # Both give the same reason.
    assert json.loads(control[2])["detail"] == public[2].rstrip("\n")
    assert word.lower() in public[2].lower()


SHORT = [row for row in ROWS if len(row[1]) <= 200]


@pytest.mark.parametrize(
    ("request_bytes", "status"), [row[1:3] for row in SHORT], ids=[row[0] for row in SHORT]
)
def test_control_refuses_in_the_same_way_byte_by_byte(server, request_bytes, status):
    assert status_of(server.control, request_bytes, by_bytes=True)[0] == status


def test_what_the_public_listener_accepts_is_a_request_for_control_as_well(server):
    for name, request, _ in ACCEPTED:
        # Hyper knows no later 1.x; the head is refused with 505. An empty Host is no name of this
        # machine, which the control listener requires.
        status = {"HTTP/1.2": 505, "empty host": 403}.get(name, 404)
        with Connection(None, address=server.control) as connection:
            connection.send(request or get(b"/nothing"))
            assert connection.response().status == status, name


@pytest.mark.parametrize(
    "field", [b"Forwarded: for=10.0.0.1", b"X-Forwarded-For: 10.0.0.1", b"X-Forwarded-Host: a", b"Via: 1.1 a"]
)
def test_without_a_token_a_forwarded_request_is_refused(server, field):
    """A proxy on this machine sends requests of strangers with a Host that is an IP address."""
    with Connection(None, address=server.control) as connection:
        connection.send(get(b"/v1/stats", b"Host: 127.0.0.1:8001\r\n" + field + b"\r\n"))
        response = connection.response()
        assert response.status == 403 and "proxy" in response.text
