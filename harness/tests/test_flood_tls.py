"""`encke-lab flood` over TLS, through an endpoint of another library."""

import json

import pytest

from support.tls import AUTHORITY, tls_endpoint
from support.wait import until
from test_flood import Flood, flood, publish, sessions, stamped


@pytest.fixture
def secure(start):
    """A server, and the URL of a TLS endpoint before its public listener."""
    server = start("--head-timeout", "1s", workers=1)
    with tls_endpoint(server.public) as url:
        yield server, url


@pytest.mark.parametrize("transport,path", [("sse", "events"), ("ndjson", "stream"), ("chunked", "test")])
def test_every_transport_is_decoded_and_checked_over_tls(secure, transport, path):
    server, url = secure
    running = Flood(
        f"{url}/{path}/{{n}}", "-c", 30, "--transport", transport, "--ca", AUTHORITY, "--events", 300,
        "--expect-no-loss", "--expect-order", "--expect-events", 300, "--expect-open", 30,
    )
    sessions(server, 30)
    publish(server, range(1, 31), range(1, 11))
    report = running.end()
    assert (report["handshakes"], report["resumed"]) == (30, 0)
    assert report["latency"]["count"] == 300


def test_a_large_event_comes_in_many_records(secure):
    server, url = secure
    running = Flood(f"{url}/events/{{n}}", "-c", 4, "--ca", AUTHORITY, "--events", 4, "--expect-no-loss")
    sessions(server, 4)
    large = {**stamped(1), "pad": "x" * 60_000}
    lines = [json.dumps({"subject": user, "data": large}) for user in range(1, 5)]
    server.post("/v1/publish?receipts=summary", "\n".join(lines).encode())
    report = running.end()
    assert report["bytes"] > 4 * 60_000


def test_sessions_are_resumed_if_that_is_wanted(secure):
    server, url = secure
    running = Flood(f"{url}/events/{{n}}", "-c", 20, "--ca", AUTHORITY, "--window", 1, "--tls-resume")
    sessions(server, 20)
    report = running.interrupt()
    assert report["handshakes"] == 20 and report["resumed"] >= 18, report


def test_bad_citizens_are_bad_over_tls_and_the_rest_is_served(secure):
    server, url = secure
    running = Flood(
        f"{url}/events/{{n}}", "-c", 20, "--ca", AUTHORITY, "--every", "5ms", "--stop-reading", 2,
        "--slow", 2, "--reset", 2, "--reconnect", 2, "--trickle", 2, "--events", 12 * 20,
    )
    good = range(9, 21)
    until(lambda: all(server.sessions(user) for user in good), "all that get a head", patience=60)
    until(lambda: server.totals()["connections_accepted"] >= 30, "some come again and again")
    for number in range(1, 21):
        publish(server, good, [number])
    report = running.end()
    assert report["numbers"]["checked"] == 12 * 20
    assert report["numbers"]["skipped"] == report["numbers"]["duplicates"] == 0
    assert report["closes"]["own"] >= 10 and report["closes"]["malformed"] == 0, report
    assert report["troubles"] == [], report


def test_a_server_that_is_not_trusted_is_one_sentence(secure):
    server, url = secure
    _, said = flood(f"{url}/events/{{n}}", "-c", 5, code=1)
    assert "5 clients got no TLS session, or lost it (the first: the certificate of" in said, said
    assert "is not trusted" in said and "--ca" in said
    plain = server.public_url.replace("http", "https")
    _, said = flood(f"{plain}/events/{{n}}", "-c", 5, "--ca", AUTHORITY, code=1)
    assert "5 clients got no TLS session" in said and "does not speak TLS" in said, said
