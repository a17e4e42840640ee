"""Presence for backends: who is online, the stream of edges, hidden ids, and what strangers get."""

import contextlib
import json
import time

import httpx
import pytest

from support.http import PLAIN, Sse
from support.program import encke
from support.receiver import Receiver, new_secret, write_secrets
from support.wait import PATIENCE, until

DELAY = "300ms"


@pytest.fixture
def present(start):
    """Starts a server with presence, whose first delay is over."""

    def present(*flags, **options):
        server = start("--presence", "--presence-delay", DELAY, *flags, **options)
        server.online = lambda *ids: online(server, *ids)
        return server

    return present


def online(server, *ids):
    answer = server.api.post("/v1/online", json=list(ids))
    assert answer.status_code == 200, answer.text
    return answer.json()["online"]


class Edges:
    """A reader of `GET /v1/presence`."""

    def __init__(self, server, cursor=None, token=None):
        self.client = httpx.Client(base_url=server.control_url, timeout=PATIENCE, **PLAIN)
        params = {"cursor": cursor} if cursor else {}
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.stack = contextlib.ExitStack()
        stream = self.client.stream("GET", "/v1/presence", params=params, headers=headers)
        self.answer = self.stack.enter_context(stream)
        self.lines = self.answer.iter_lines()

    def next(self):
        """The next line that is no heartbeat."""
        while True:
            line = json.loads(next(self.lines))
            self.cursor = line.get("cursor")
            if line["type"] != "heartbeat":
                return line

    def snapshot(self):
        ids = []
        while True:
            line = self.next()
            assert line["type"] == "snapshot", line
            assert line["first"] == (not ids)
            ids += line["online"]
            if not line["more"]:
                return ids

    def until(self, *edges):
        """Reads until these edges have come, in their order."""
        for expected in edges:
            while True:
                line = self.next()
                assert line["type"] in ("online", "offline"), line
                if (line["type"], line["id"]) == expected:
                    break

    def close(self):
        self.stack.close()
        self.client.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def test_who_is_online_is_answered_until_some_time_after_the_last_session(present, name):
    server = present()
    alice, bob = name("alice"), name("bob")
    with Sse(server, f"{alice},7"), Sse(server, alice):
        until(lambda: server.online(alice, bob, 7, "7") == [alice, 7, "7"], "online")
    until(lambda: server.online(alice, bob, 7) == [], "offline")


def test_a_hundred_thousand_ids_are_asked_about_within_a_second_or_so(present):
    server = present()
    with Sse(server, ",".join(str(number * 1000) for number in range(1, 101))):
        until(lambda: server.online(1000) == [1000], "online")
        ids = list(range(1, 100_001))
        began = time.monotonic()
        found = server.online(*ids)
        took = time.monotonic() - began
    assert found == [number * 1000 for number in range(1, 101)]
    print(f"100,000 ids in {took:.2f} s")
    # A debug build on a loaded machine.
    assert took < 20


def test_a_reader_sees_who_comes_and_goes_and_resumes_where_it_was(present, name):
    server = present()
    alice, bob = name("alice"), name("bob")
    with Sse(server, alice):
        until(lambda: server.online(alice), "online")
        with Edges(server) as edges:
            assert alice in edges.snapshot()
            with Sse(server, bob):
                edges.until(("online", bob))
            edges.until(("offline", bob))
            cursor = edges.cursor
    until(lambda: not server.online(alice), "offline")
    with Edges(server, cursor) as edges:
        edges.until(("offline", alice))
        assert edges.cursor != cursor


def test_a_reconnect_within_the_delay_is_no_edge(present, name):
    server = present("--presence-delay", "5s")
    alice, bob = name("alice"), name("bob")
    with Sse(server, alice):
        until(lambda: server.online(alice), "online")
        with Edges(server) as edges:
            edges.snapshot()
            for _ in range(5):
                with Sse(server, alice):
                    pass
            with Sse(server, bob):
                line = edges.next()
                assert (line["type"], line["id"]) == ("online", bob)


def test_a_cursor_of_another_run_gets_a_reset_and_a_snapshot(present, name, tmp_path):
    # With the history on disk, other cursors survive a restart.
    flags = ("--history-dir", tmp_path / "history")
    server = present(*flags)
    with Edges(server) as edges:
        edges.snapshot()
        cursor = edges.cursor
    server.stop()
    server = present(*flags)
    alice = name()
    with Sse(server, alice):
        until(lambda: server.online(alice), "online")
        for given, reason in ((cursor, "restart"), ("nonsense", "unknown")):
            with Edges(server, given) as edges:
                assert edges.next() == {"type": "reset", "reason": reason}
                assert edges.snapshot() == [alice]


def test_a_hidden_id_is_offline_for_others(present, name):
    server = present()
    alice, bob = name("alice"), name("bob")

    def hide(server, hidden):
        answer = server.api.put(f"/v1/presence/{alice}", json={"hidden": hidden})
        assert answer.status_code == 200, answer.text
        assert answer.json()["hidden"] == hidden

    hide(server, True)
    with Edges(server) as edges:
        edges.snapshot()
        with Sse(server, alice), Sse(server, bob):
            edges.until(("online", bob))
            until(lambda: server.online(alice, bob) == [alice, bob], "online for the backend")
            hide(server, False)
            edges.until(("online", alice))
            hide(server, True)
            edges.until(("offline", alice))


def test_strangers_and_tokens_with_prefixes_see_what_they_may(present, name, tmp_path):
    tokens = tmp_path / "tokens.toml"
    entry = '[[token]]\nname = "{0}"\nsecret = "secret-of-{0}-0123456789"\nrights = ["{1}"]\n{2}\n'
    tokens.write_text(
        entry.format("all", "sessions", "")
        + entry.format("some", "sessions", 'prefixes = ["p:"]')
        + entry.format("other", "publish", "")
    )
    tokens.chmod(0o600)
    everyone = "secret-of-all-0123456789"
    server = present("--control-tokens", tokens, token=everyone)
    mine, theirs = f"p:{name()}", name()
    asked = (
        ("POST", "/v1/online", [mine]),
        ("GET", "/v1/presence", None),
        ("GET", f"/v1/presence/{mine}", None),
        ("PUT", f"/v1/presence/{mine}", {"hidden": True}),
    )
    for method, path, body in asked:
        for bearer, status in (("", 401), ("wrong-0123456789abcdef", 401), ("secret-of-other-0123456789", 403)):
            fields = {"Authorization": f"Bearer {bearer}" if bearer else ""}
            with httpx.Client(base_url=server.control_url, **PLAIN, timeout=PATIENCE) as client:
                answer = client.request(method, path, json=body, headers=fields)
            assert answer.status_code == status, (method, path, bearer)
    some = "secret-of-some-0123456789"
    with Sse(server, theirs), Sse(server, mine):
        until(lambda: server.online(mine, theirs) == [mine, theirs], "online")
        with Edges(server, token=some) as edges:
            assert edges.snapshot() == [mine]
        fields = {"Authorization": f"Bearer {some}"}
        with httpx.Client(base_url=server.control_url, **PLAIN, headers=fields, timeout=PATIENCE) as client:
            assert client.post("/v1/online", json=[mine]).json() == {"online": [mine]}
            assert client.post("/v1/online", json=[mine, theirs]).status_code == 403
            assert client.put(f"/v1/presence/{theirs}", json={"hidden": True}).status_code == 403


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{}", 400),
        (b"[" * 100_000, 400),
        (b'["a", "' + b"x" * 100_000 + b'"]', 400),
        (b'["a"', 400),
        (b'["\xff"]', 400),
        (b"[" + b"1," * 1_000_001 + b"1]", 413),
    ],
)
def test_a_hostile_question_is_refused_and_harms_nobody(present, body, status):
    server = present()
    answer = server.api.post("/v1/online", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status, answer.text
    assert server.online("nobody") == []


def test_the_stream_ends_with_the_server(present):
    server = present("--drain-timeout", "1s")
    with Edges(server) as edges:
        edges.snapshot()
        server.stop()
        for _ in edges.lines:
            pass


def test_the_webhook_is_told_who_comes_and_goes_and_not_of_hidden_ids(present, name, tmp_path):
    secret = new_secret()
    file = write_secrets(tmp_path / "secret", secret)
    with Receiver(secret) as receiver:
        flags = ("--webhook-url", receiver.url, "--webhook-secret-file", file, "--webhook-events", "presence")
        server = present(*flags)
        alice, bob = name("alice"), name("bob")
        server.api.put(f"/v1/presence/{bob}", json={"hidden": True}).raise_for_status()
        with Sse(server, alice), Sse(server, bob):
            receiver.until_about(alice, "online")
        receiver.until_about(alice, "online", "offline")
        until(lambda: not server.online(bob), "offline")
        assert receiver.about(bob) == []
        assert receiver.of_type("connect", "start") == []


def test_the_command_says_who_is_online(present, name):
    server = present()
    alice, bob = name("alice"), name("bob")
    control = ("--control", server.control_url)
    with Sse(server, f"{alice},7"):
        until(lambda: server.online(alice), "online")
        said = encke("online", alice, bob, "7", *control)
        assert said.stdout.splitlines() == [f"online   {alice}", f"offline  {bob}", "online   7"], said.stderr
        assert json.loads(encke("online", alice, bob, "--json", *control).stdout) == {"online": [alice]}
    assert encke("online", "x" * 129, *control).returncode == 1
    assert encke("online", *control).returncode == 2


def test_metrics_say_what_became_of_edges(present, name):
    server = present("--presence-subscribers-max", "0", "--presence-delay", "5s")
    alice, bob = name("alice"), name("bob")

    def metrics():
        lines = server.api.get("/metrics").text.splitlines()
        lines = [line.removeprefix("encke_presence_").split() for line in lines if line.startswith("encke_presence_")]
        return {line[0]: float(line[1]) for line in lines}

    with Sse(server, "first?presence=1") as first:
        assert first.event()[0] == "presence", "the first delay is over"
    until(lambda: metrics()["online_ids"] == 0, "nobody")
    # Its subscriber is one too many.
    server.subscribe(bob, alice)
    assert server.api.put(f"/v1/presence/{bob}", json={"hidden": True}).is_success
    before = metrics()
    assert (before["hidden_ids"], before["queue_edges"], before["handover_edges"]) == (1, 0, 0)
    with Sse(server, alice), Sse(server, "7"):
        until(lambda: metrics()["online_ids"] == 2, "online")
        until(lambda: metrics()['edges_total{outcome="told"}'] == before['edges_total{outcome="told"}'] + 1, "told")
        assert metrics()['edges_total{outcome="crowded"}'] > before['edges_total{outcome="crowded"}']
    until(lambda: metrics()["leaving_ids"] == 2, "leaving")
    until(lambda: metrics()["online_ids"] == 0 and metrics()["leaving_ids"] == 0, "gone")


def test_without_presence_it_is_said_how_to_get_it(server):
    answer = server.api.post("/v1/online", json=[1])
    assert answer.status_code == 404
    assert "--presence" in answer.json()["detail"]
    assert answer.json()["type"] == "urn:encke:problem:no-presence"
