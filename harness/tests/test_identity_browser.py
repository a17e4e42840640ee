"""Where proofs of identity may stand, and how sessions end, as curl and Chromium see it."""

import base64
import hashlib
import hmac
import json
import subprocess
import time

import pytest

from support.http import Connection, Sse
from support.wait import until

SECRET = b"a secret of at least thirty-two bytes"


def token(lifetime=600, secret=SECRET, algorithm="HS256", **claims):
    """A token as a backend makes it."""
    now = int(time.time())
    claims = {"iat": now, "exp": now + lifetime, **claims}
    parts = [{"alg": algorithm, "typ": "JWT"}, claims]
    signed = b".".join(text(json.dumps(part).encode()) for part in parts)
    signature = hmac.new(secret, signed, hashlib.sha256).digest()
    return (signed + b"." + text(signature)).decode()


def text(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=")


@pytest.fixture(scope="module")
def secret_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("identity") / "secret"
    path.write_bytes(SECRET + b"\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def guarded(start, secret_file):
    """Starts a server whose clients need a token."""
    flags = ("--jwt-secret-file", secret_file, "--jwt-cookie", "session", "--retry", "100ms")
    return lambda *more: start(*flags, *more)


def curl(server, path, *arguments):
    """The status, the fields and the body of an answer to curl."""
    url = server.public_url + path
    command = ["curl", "--silent", "--noproxy", "*", "--max-time", "2", "--include", *arguments, url]
    answer = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    head, _, body = answer.partition("\n\n" if "\r\n" not in answer else "\r\n\r\n")
    return int(head.split()[1]), head, body


def bearer(value):
    return ("--header", f"Authorization: Bearer {value}")


def test_a_token_counts_where_it_may_be_and_once(guarded):
    server = guarded()
    alice = token(sub="alice")
    assert curl(server, "/events", "--cookie", f"session={alice}")[0] == 200
    assert curl(server, "/events", "--cookie", f"other={alice}")[0] == 401
    assert curl(server, f"/events?jwt={alice}")[0] == 401
    both = ("--cookie", f"session={alice}", *bearer(alice))
    status, head, _ = curl(server, "/events", *both)
    assert status == 400 and 'error="invalid_request"' in head
    assert alice not in server.log
    server = guarded("--jwt-query", "--log-level", "trace")
    assert curl(server, f"/events?jwt={alice}")[0] == 200
    assert alice not in server.log


def test_the_public_listener_may_leave_loopback(start, secret_file):
    server = start("--jwt-secret-file", secret_file, public="0.0.0.0:0")
    server.public = ("127.0.0.1", server.public[1])
    assert curl(server, "/events/alice")[0] == 401
    assert curl(server, "/events", *bearer(token(sub="alice")))[0] == 200


def test_a_trusted_proxy_names_the_user_and_no_other_peer_does(start):
    header = ("--identity-header", "X-User", "--trusted-proxy", "127.0.0.2")
    server = start(*header)
    for source, path, status in [
        ("127.0.0.2", "/events", 200),
        ("127.0.0.2", "/events/alice", 200),
        ("127.0.0.2", "/events/bob", 403),
        ("127.0.0.1", "/events", 400),
    ]:
        with Connection(server, source=source) as connection:
            connection.get(path, "X-User: alice")
            assert connection.head()[0] == status, (source, path)
    with Connection(server, source="127.0.0.2") as connection:
        connection.get("/events")
        assert connection.head()[0] == 401


def test_a_stream_ends_before_its_token_expires(guarded):
    server = guarded()
    lifetime = 8
    end = time.time() + lifetime
    fields = f"Authorization: Bearer {token(sub='alice', lifetime=lifetime)}"
    with Sse(server, "alice", fields) as stream:
        server.publish("alice", "in time")
        assert stream.event()[:2] == ("message", "in time")
        kind, data, _ = stream.event()
        assert (kind, json.loads(data)) == ("expired", {"reason": "expired"})
        assert stream.event() is None
        # Half a second for a loaded machine.
        assert end - 6 < time.time() < end + 0.5
    until(lambda: server.stats()["online"] == 0, "offline")


OPEN = """() => {
  window.seen = [];
  const source = new EventSource(window.target ?? '/events');
  window.source = source;
  const note = (event) => window.seen.push([event.type, event.data ?? null]);
  for (const type of ['open', 'message', 'expired', 'error']) source.addEventListener(type, note);
  source.addEventListener('expired', () => { if (window.next) document.cookie = window.next; });
}"""


def seen(browser, kind):
    return [data for type_, data in browser.evaluate("window.seen") if type_ == kind]


def is_closed(browser):
    return browser.evaluate("window.source.readyState") == 2


def test_an_event_source_learns_of_the_end_and_comes_back_with_a_new_token(guarded, browser):
    server = guarded()
    browser.goto(server.public_url + "/")
    browser.evaluate(f"document.cookie = 'session={token(sub='alice', lifetime=8)}; path=/'")
    browser.evaluate(f"window.next = 'session={token(sub='alice')}; path=/'")
    browser.evaluate(f"({OPEN})()")
    until(lambda: seen(browser, "open"), "a stream")
    server.publish("alice", "before")
    until(lambda: seen(browser, "message") == ["before"], "an event")
    until(lambda: seen(browser, "expired"), "the end of the token")
    until(lambda: len(seen(browser, "open")) == 2, "another stream")
    server.publish("alice", "after")
    until(lambda: seen(browser, "message") == ["before", "after"], "another event")
    # The operator closes it: the browser comes back by itself.
    assert server.api.delete("/v1/sessions/alice").is_success
    until(lambda: len(seen(browser, "open")) == 3, "a third stream")
    browser.goto("about:blank")
    browser.complaints()


def test_an_event_source_without_a_new_token_ends_for_good(guarded, browser):
    server = guarded()
    browser.goto(server.public_url + "/")
    browser.evaluate(f"document.cookie = 'session={token(sub='alice', lifetime=7)}; path=/'")
    browser.evaluate(f"({OPEN})()")
    until(lambda: seen(browser, "expired"), "the end of the token")
    until(lambda: is_closed(browser), "the end of the EventSource")
    browser.goto("about:blank")
    browser.complaints()


def test_an_event_source_comes_back_with_its_ticket_after_the_server_cuts_it(start, browser):
    server = start("--tickets", "--retry", "100ms")
    ticket = server.post("/v1/tickets", json.dumps({"ids": ["alice"], "ttl": "10s"}))["ticket"]
    browser.goto(server.public_url + "/")
    browser.evaluate(f"window.target = '/events?ticket={ticket}'")
    browser.evaluate(f"({OPEN})()")
    for count in (1, 2, 3):
        until(lambda: len(seen(browser, "open")) == count, "a stream")
        server.publish("alice", f"event {count}")
        until(lambda: seen(browser, "message")[-1:] == [f"event {count}"], "its event")
        assert server.api.delete("/v1/sessions/alice").is_success
    assert not is_closed(browser)
    assert ticket not in server.log
    # Another client with the ticket would take the stream over: one at a time.
    assert server.stats()["online"] <= 1
    browser.goto("about:blank")
    browser.complaints()


def test_a_ban_stops_an_event_source_for_good(start, browser):
    server = start("--tickets", "--retry", "100ms")
    ticket = server.post("/v1/tickets", json.dumps({"ids": ["alice"], "ttl": "10s"}))["ticket"]
    browser.goto(server.public_url + "/")
    browser.evaluate(f"window.target = '/events?ticket={ticket}'")
    browser.evaluate(f"({OPEN})()")
    until(lambda: seen(browser, "open"), "a stream")
    assert server.api.delete("/v1/sessions/alice", params={"ban": "10m"}).is_success
    until(lambda: is_closed(browser), "the end of the EventSource")
    assert curl(server, f"/events?ticket={ticket}")[0] == 204
    browser.goto("about:blank")
    browser.complaints()


def test_a_revocation_ends_streams_and_refuses_the_tokens_that_opened_them(guarded):
    server = guarded()
    named = token(sub="alice", jti="one")
    with Sse(server, "", f"Authorization: Bearer {named}") as stream:
        server.post("/v1/revocations", json.dumps({"jti": "one"}))
        kind, data, _ = stream.event()
        assert (kind, json.loads(data)) == ("expired", {"reason": "revoked"})
        assert stream.event() is None
    status, head, _ = curl(server, "/events", *bearer(named))
    assert status == 401 and "revoked" in head
    assert curl(server, "/events", *bearer(token(sub="alice", jti="two")))[0] == 200
