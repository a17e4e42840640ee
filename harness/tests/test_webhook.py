"""The webhook: what its receiver gets, how it knows that, and that a bad receiver harms nobody."""

import signal
import socket
import time

import pytest

from support.http import Connection, Ndjson, Sse
from support.ports import Port
from support.program import encke
from support.receiver import Receiver, new_secret, write_secrets
from support.tls import AUTHORITY, FILES, Certificate
from support.wait import PROMPT, until

EVENTS = ("--webhook-events", "connects,disconnects")


@pytest.fixture
def secret():
    return new_secret()


@pytest.fixture
def secret_file(tmp_path, secret):
    return write_secrets(tmp_path / "webhook.secret", secret)


@pytest.fixture
def receiver(secret):
    with Receiver(secret) as receiver:
        yield receiver


@pytest.fixture
def hooked(start, secret_file):
    """Starts a server whose webhook is at a URL."""

    def hooked(url, *flags, **options):
        return start("--webhook-url", url, "--webhook-secret-file", secret_file, *EVENTS, *flags, **options)

    return hooked


def metric(server, name):
    text = server.api.get("/metrics").text
    lines = [line for line in text.splitlines() if line.startswith(f"encke_webhook_{name} ")]
    assert len(lines) == 1, (name, lines)
    return float(lines[0].split()[1])


def events(server, outcome):
    return metric(server, f'events_total{{outcome="{outcome}"}}')


def test_sessions_of_each_kind_are_told_signed_with_their_reasons(hooked, receiver, name):
    server = hooked(receiver.url)
    alice, bob, carol = name("alice"), name("bob"), name("carol")
    began = int(time.time())
    with Sse(server, f"{alice},7") as stream:
        session = server.sessions(alice)[0]["session"]
        stream.close()
    with Ndjson(server, bob):
        receiver.until_about(bob, "connect")
        server.api.delete(f"/v1/sessions/{bob}").raise_for_status()
        receiver.until_about(bob, "connect", "disconnect")
    with Connection(server) as poll:
        poll.get(f"/poll/{carol}?wait=0")
        assert poll.response().status == 204
        poll.get(f"/poll/{carol}?wait=0")
        assert poll.response().status == 204
    receiver.until_about(alice, "connect", "disconnect")
    receiver.until_about(carol, "connect", "disconnect")
    connect, disconnect = [event for event in receiver.events if event.get("id") == alice]
    assert connect == {
        "type": "connect",
        "id": alice,
        "ids": [alice, 7],
        "session": session,
        "transport": "sse",
        "time": connect["time"],
    }
    assert disconnect == connect | {"type": "disconnect", "reason": "peer", "time": disconnect["time"]}
    assert began <= connect["time"] <= disconnect["time"] <= int(time.time())
    reasons = {event["id"]: event["reason"] for event in receiver.of_type("disconnect")}
    assert reasons == {alice: "peer", bob: "kicked", carol: "peer"}
    assert receiver.events[0]["type"] == "start"
    assert receiver.rejected == []
    until(lambda: events(server, "delivered") == len(receiver.events), "all counted")
    assert events(server, "dropped") == 0


def test_only_what_is_asked_for_is_sent(start, receiver, secret_file, name):
    flags = ("--webhook-url", receiver.url, "--webhook-secret-file", secret_file)
    server = start(*flags, "--webhook-events", "disconnects")
    alice = name()
    with Sse(server, alice):
        pass
    receiver.until_about(alice, "disconnect")


def test_a_receiver_that_fails_and_comes_back_gets_everything_once(hooked, secret, name):
    port = Port()
    server = hooked(f"http://{port.address}/hook")
    names = [name() for _ in range(3)]
    for one in names[:2]:
        with Sse(server, one):
            pass
    until(lambda: metric(server, 'requests_total{outcome="failed"}') >= 1, "a request that nobody took")
    with Receiver(secret, port=port) as receiver:
        receiver.status = lambda number: 500 if number < 3 else 200
        with Sse(server, names[2]):
            pass
        for one in names:
            receiver.until_about(one, "connect", "disconnect")
        told = [event["id"] for event in receiver.of_type("connect", "disconnect")]
        assert sorted(told) == sorted(2 * names), "each once"
        assert receiver.rejected == []
        first = [number for number, _ in receiver.requests][:3]
        assert len(set(first)) == 1, "a repeated request has the same id"
        assert events(server, "dropped") == 0
        assert "accepts events again" in server.log
    port.close()


def test_a_receiver_that_hangs_delays_no_publisher_and_no_client(hooked, receiver, name):
    receiver.hang.set()
    server = hooked(receiver.url, "--webhook-timeout", "10m")
    alice = name()
    with Sse(server, alice) as stream:
        until(lambda: receiver.requests, "a request that hangs")
        began = time.monotonic()
        for number in range(200):
            server.publish(alice, f"{number}")
            assert stream.data() == f"{number}"
            with Connection(server) as other:
                other.get(f"/events/{alice}-{number}")
                other.head()
        took = time.monotonic() - began
    assert took < 60, took
    assert len(receiver.requests) == 1, "one request at a time"
    assert metric(server, "queue_events") >= 200
    receiver.hang.clear()
    until(lambda: metric(server, "queue_events") == 0, "all sent")
    receiver.until_about(alice, "connect", "disconnect")
    assert events(server, "dropped") == 0


def test_what_is_given_up_is_counted_and_said_in_the_next_request(hooked, receiver, name):
    receiver.status = 500
    server = hooked(receiver.url, "--webhook-give-up", "100ms")
    alice, bob = name(), name()
    with Sse(server, alice):
        pass
    # The start, the beginning and the end.
    until(lambda: events(server, "dropped") == 3, "given up")
    assert "were dropped" in until(lambda: server.log, "a log")
    receiver.status = 200
    with Sse(server, bob):
        receiver.until_about(bob, "connect")
    missed = receiver.of_type("missed")
    assert sum(event["events"] for event in missed) == 3
    assert receiver.events[0]["type"] == "missed"


def test_a_redirection_is_not_followed(hooked, receiver, secret, name):
    with Receiver(secret) as elsewhere:
        receiver.status = 307
        receiver.fields = {"Location": elsewhere.url}
        server = hooked(receiver.url)
        with Sse(server, name()):
            pass
        until(lambda: len(receiver.requests) > 1, "a repetition")
        assert "it redirects elsewhere" in server.log
        assert (elsewhere.requests, elsewhere.rejected) == ([], [])
        receiver.status = 200
        until(lambda: metric(server, "queue_events") == 0, "all sent")


def test_a_receiver_that_is_gone_is_left_alone_until_a_reload(hooked, receiver, name):
    receiver.status = 410
    server = hooked(receiver.url)
    until(lambda: metric(server, "stopped") == 1, "stopped")
    with Sse(server, name()):
        pass
    until(lambda: events(server, "dropped") == 3, "dropped")
    asked = len(receiver.requests)
    assert "410 Gone" in server.log
    receiver.status = 200
    server.signal(signal.SIGHUP)
    until(lambda: metric(server, "stopped") == 0, "going again")
    alice = name()
    with Sse(server, alice):
        receiver.until_about(alice, "connect")
    assert len(receiver.requests) > asked
    assert receiver.of_type("missed")[0]["events"] == 3


def test_a_secret_is_replaced_by_a_reload_without_a_request_that_is_refused(hooked, receiver, secret_file, secret, name):
    server = hooked(receiver.url)
    newer = new_secret()
    steps = [(secret, newer), (newer, secret), (newer,)]
    for step, secrets in enumerate(steps):
        write_secrets(secret_file, *secrets)
        server.signal(signal.SIGHUP)
        until(lambda: server.log.count("was reloaded") == step + 1, "a reload")
        if step == 1:
            receiver.secret = newer
        alice = name()
        with Sse(server, alice):
            receiver.until_about(alice, "connect")
    assert receiver.rejected == []


def test_https_trusts_the_authority_that_is_named_and_no_other(hooked, start, secret_file, secret, name):
    certificate = Certificate(FILES / "server.pem", FILES / "server.key")
    with Receiver(secret, certificate=certificate) as receiver:
        server = hooked(receiver.url, "--webhook-ca", AUTHORITY)
        alice = name()
        with Sse(server, alice):
            receiver.until_about(alice, "connect")
        receiver.until_about(alice, "connect", "disconnect")
        seen = len(receiver.requests)
        stranger = hooked(receiver.url)
        until(lambda: metric(stranger, 'requests_total{outcome="failed"}') >= 1, "a failed handshake")
        until(lambda: "did not accept events" in stranger.log, "a warning")
        assert len(receiver.requests) == seen


def test_a_server_that_ends_sends_what_waits_and_one_that_is_killed_says_that_it_started(hooked, receiver, name):
    server = hooked(receiver.url)
    alice, bob = name(), name()
    with Sse(server, alice):
        receiver.until_about(alice, "connect")
        server.stop()
        receiver.until_about(alice, "connect", "disconnect")
    assert receiver.of_type("disconnect")[0]["reason"] == "drain"
    second = hooked(receiver.url)
    with Sse(second, bob):
        receiver.until_about(bob, "connect")
        second.kill()
    hooked(receiver.url)
    until(lambda: len(receiver.of_type("start")) == 3, "a third start")
    # Nobody could tell the end of bob: whoever counts sessions forgets those before a start.
    assert receiver.events[-1]["type"] == "start"
    assert len({number for number, _ in receiver.requests}) == len(receiver.requests), "ids of requests are new"


def test_a_receiver_that_hangs_does_not_keep_the_server_from_its_end(hooked, receiver, name):
    receiver.hang.set()
    server = hooked(receiver.url, "--drain-timeout", "1s")
    with Sse(server, name()):
        until(lambda: receiver.requests, "a request that hangs")
    began = time.monotonic()
    server.stop()
    assert time.monotonic() - began < 5 + 1 + PROMPT


def test_a_receiver_that_answers_nonsense_is_tried_again(hooked, name):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = hooked("http://127.0.0.1:%d/" % listener.getsockname()[1])
        for answer in (b"", b"\x00" * 4096, b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n"):
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)
        until(lambda: metric(server, "queue_events") == 0, "the status counts, not the body")
        assert events(server, "delivered") == 1


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--webhook-url", "http://backend.example/"], "it is http"),
        (["--webhook-url", "https://a:b@backend.example/"], "it has a user name or a password"),
        (["--webhook-url", "https://backend.example/"], "--webhook-url needs --webhook-secret-file"),
        (["--webhook-ca", AUTHORITY], "--webhook-ca needs --webhook-url"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(flags, sentence, tmp_path):
    result = encke("serve", "--check-config", *flags, cwd=tmp_path)
    assert result.returncode == 2
    assert sentence in result.stderr


def test_a_secret_that_all_can_read_or_that_is_none_is_refused(secret_file, secret, tmp_path):
    flags = ["--webhook-url", "https://backend.example/", "--webhook-secret-file", secret_file]
    assert encke("serve", "--check-config", *flags, cwd=tmp_path).returncode == 0
    shown = encke("serve", "--print-config", *flags, cwd=tmp_path)
    assert secret not in shown.stdout
    secret_file.chmod(0o644)
    assert "chmod 600" in encke("serve", "--check-config", *flags, cwd=tmp_path).stderr
    write_secrets(secret_file, "hunter2")
    refused = encke("serve", "--check-config", *flags, cwd=tmp_path).stderr
    assert "openssl rand" in refused
    assert "hunter2" not in refused
