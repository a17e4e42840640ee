"""The end of a server: farewells, flushing, exit codes."""

import signal
import socket
import subprocess
import time

import pytest

from support.http import Connection, Ndjson, Sse, Stream, elapsed
from support.wait import PROMPT, until
from test_pressure import LARGE, fill


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_streams_are_told_to_come_back_over_a_while(start, number):
    server = start("--retry", "2s", "--drain-spread", "20s", workers=2)
    streams = [Sse(server, f"user-{n}") for n in range(60)]
    lines = [Ndjson(server, f"user-{n}") for n in range(3)]
    tests = [Stream(server, f"/test/user-{n}") for n in range(3)]
    old = Sse(server, "old", version="HTTP/1.0")
    for test in tests:
        assert test.chunk().startswith(b"Encke welcomes you!")
    server.signal(number)
    retries = []
    for stream in [*streams, old]:
        assert stream.event() is None, "the last chunk, then the end"
        assert stream.connection.rest() == b""
        assert 1000 <= stream.retry[0] < 3000
        retries.append(stream.retry[-1])
        stream.close()
    for stream in lines:
        assert stream.event() is None
        assert stream.connection.rest() == b""
        stream.close()
    for stream in tests:
        assert stream.chunk() == b""
        assert stream.connection.rest() == b""
        stream.close()
    assert server.wait() == 0
    assert all(2000 <= retry <= 22000 for retry in retries), retries
    assert len(set(retries)) == len(retries), "no two at once"
    # Evenly: every quarter of the time has its share.
    quarters = [sum(1 for r in retries if 2000 + q * 5000 <= r < 7000 + q * 5000) for q in range(4)]
    assert min(quarters) >= 8, quarters


# As long as a test may take: none that uses it is about time.
UNHURRIED = ("--drain-timeout", "60s", "--stall-timeout", "60s", "--backlog-bytes", "1MiB", "--slow", "close")


def test_owed_events_arrive_before_the_farewell(start, port):
    server = start(*UNHURRIED, public=port().address)
    with Sse(server, "slow", receive_buffer=4096) as slow:
        receipt, written = fill(server, "slow")
        assert receipt["queued"] == 1
        server.publish("slow", "last")
        server.signal()
        until(lambda: is_refused(server.public), "refusing connections")
        assert [slow.data() for _ in range(written + 1)] == [LARGE] * (written + 1)
        assert slow.data() == "last"
        assert slow.event() is None
        assert len(slow.retry) == 2
    assert server.wait() == 0


def is_refused(address):
    try:
        socket.create_connection(address).close()
        return False
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        return False


def test_new_connections_are_refused_and_readiness_says_so(start, port):
    server = start(*UNHURRIED, public=port().address)
    with Sse(server, "slow", receive_buffer=4096) as slow, Connection(server) as idle:
        idle.get("/nothing")
        idle.response()
        fill(server, "slow")
        assert server.api.get("/readyz").status_code == 200
        server.signal()
        until(lambda: is_refused(server.public), "refusing connections")
        answer = server.api.get("/readyz")
        assert answer.status_code == 503 and answer.headers["Retry-After"]
        assert server.api.get("/healthz").status_code == 200
        assert server.stats()["draining"] is True
        # A connection between requests has nothing to wait for.
        assert idle.rest() == b""
        while slow.event() is not None:
            pass
    assert server.wait() == 0


def test_drain_timeout_is_kept(start):
    server = start("--drain-timeout", "1s", "--stall-timeout", "60s")
    with Sse(server, "slow", receive_buffer=4096):
        fill(server, "slow")
        began = time.monotonic()
        server.signal()
        assert server.wait() == 0
        assert 0.8 < time.monotonic() - began < PROMPT


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_second_signal_ends_at_once(start, port, number):
    server = start(*UNHURRIED, public=port().address)
    with Sse(server, "slow", receive_buffer=4096):
        fill(server, "slow")
        server.signal()
        until(lambda: is_refused(server.public), "refusing connections")
        with pytest.raises(subprocess.TimeoutExpired):
            server.wait(patience=0.5)
        server.signal(number)
        took, code = elapsed(server.wait)
        assert took < PROMPT
        assert code != 0, "it did not end as asked"
    server.kill()


def test_idle_server_ends_at_once(start):
    server = start("--drain-timeout", "60s")
    with Connection(server) as connection:
        connection.get("/nothing")
        connection.response()
        server.signal()
        took, code = elapsed(server.wait)
    assert (code, took < PROMPT) == (0, True), took


def test_request_in_progress_is_answered(start, port):
    server = start(*UNHURRIED, "--head-timeout", "60s", public=port().address)
    with Connection(server) as connection, Connection(server) as other:
        page, stream = b"GET /nothing HTTP/1.1\r\nHost: loc", b"GET /events/a HTTP/1.1\r\nHost: loc"
        connection.send(page)
        other.send(stream)
        until(lambda: server.totals()["bytes_read"] == len(page + stream), "both read")
        server.signal()
        until(lambda: is_refused(server.public), "refusing connections")
        connection.send(b"alhost\r\n\r\n")
        response = connection.response()
        assert response.status == 404
        assert response.fields["Connection"] == "close"
        assert connection.rest() == b""
        # A stream would not last.
        other.send(b"alhost\r\n\r\n")
        response = other.response()
        assert response.status == 503
        assert response.fields["Retry-After"]
    assert server.wait() == 0


def test_restart_on_the_same_port(start, port):
    first = start(public=port().address, control=port().address)
    with Sse(first, "a"):
        first.signal()
    assert first.wait() == 0
    second = first.restart()
    try:
        with Sse(second, "a") as stream:
            assert second.publish("a", "again")["written"] == 1
            assert stream.data() == "again"
    finally:
        second.stop()


def test_epochs_differ_between_runs(start):
    ids = {start().publish("a", "x")["id"].rsplit("-", 1)[0] for _ in range(3)}
    assert len(ids) == 3
