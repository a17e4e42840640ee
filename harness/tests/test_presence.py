"""Presence: what curl, `websockets` and Chromium are told of who is online, and what strangers are not."""

import json
import subprocess

import httpx
import pytest

from support.http import PLAIN, Connection, Ndjson
from support.nats import Nats
from support.node import Browser
from support.presence import Known
from support.receiver import Receiver, new_secret, write_secrets
from support.wait import PATIENCE, until
from test_identity_browser import bearer, curl, guarded, secret_file, token  # noqa: F401
from test_websocket import opened

DELAY = ["--presence", "--presence-delay", "1s"]


@pytest.fixture
def settled(start):
    """Starts servers whose first delay is over: a snapshot comes at once from then on."""

    def settled(*flags):
        server = start(*DELAY, *flags)
        with Ndjson(server, "first?presence=1") as first:
            assert notice(first)[0] == "presence"
        return server

    return settled


@pytest.fixture
def engine():
    engine = Nats(servers=1)
    yield engine
    engine.close()


def cluster(engine, start, *flags, names=("one", "two")):
    flags = [*DELAY, "--memory", "--cluster", engine.url, "--log-bytes", "64MiB", "--log-replicas", "1", *flags]
    nodes = [start(*flags, "--node", name) for name in names]
    for node in nodes:
        with Ndjson(node, "first?presence=1") as first:
            assert notice(first)[0] == "presence"
    return nodes


@pytest.fixture
def nodes(engine, start):
    """Two nodes of a cluster, whose first delay is over."""
    return cluster(engine, start)


def notice(stream):
    """The next notice of presence that is news: its type and its data."""
    known = stream.__dict__.setdefault("known", Known())
    while True:
        found = json.loads(stream.line())
        if found.get("type") in ("presence", "online", "offline") and known.is_news(found["type"], found["data"]):
            return found["type"], found["data"]


def snapshot(*ids):
    return "presence", {"online": list(ids), "first": True, "more": False}


def test_a_friend_comes_and_goes_and_a_reload_of_its_page_is_not_seen(settled):
    server = settled()
    server.subscribe("alice", "rj")
    with Ndjson(server, "alice?presence=1") as alice, Ndjson(server, "alice") as plain:
        assert notice(alice) == snapshot()
        for _ in range(5):
            with Ndjson(server, "rj"):
                until(lambda: server.sessions("rj"), "logged in")
        assert notice(alice) == ("online", {"id": "rj"})
        assert notice(alice) == ("offline", {"id": "rj"})
        # Whoever did not ask gets the event next, and nothing before it.
        server.publish("alice", "hello")
        assert plain.event()["data"] == "hello"


def test_a_new_friend_who_is_online_is_shown_at_once_and_a_former_one_no_more(settled):
    server = settled()
    server.subscribe("bob", "rj")
    with Ndjson(server, "rj"), Ndjson(server, "alice?presence=1") as alice:
        assert notice(alice) == snapshot()
        until(lambda: httpx_online(server, "bob") == ["rj"], "rj is announced")
        server.subscribe("alice", "rj")
        assert notice(alice) == snapshot("rj")
        server.unsubscribe("alice", "rj")
        assert notice(alice) == snapshot()


def test_curl_shows_server_sent_events(settled):
    server = settled()
    server.subscribe("alice", "7")
    with Ndjson(server, "7"):
        until(lambda: httpx_online(server, "alice") == [7], "7 is announced")
        url = f"{server.public_url}/events/alice?presence=1"
        curl = subprocess.Popen(["curl", "-sN", "--noproxy", "*", url], stdout=subprocess.PIPE, text=True)
        try:
            lines = iter(curl.stdout.readline, "")
            for line in lines:
                if line.startswith("event: presence"):
                    break
            assert next(lines) == 'data: {"online":[7],"first":true,"more":false}\n'
        finally:
            curl.kill()
            curl.wait()
            curl.stdout.close()


def test_a_websocket_gets_a_new_snapshot_when_it_follows_others(settled):
    server = settled()
    server.subscribe("alice", "rj")
    server.subscribe("team", "7")
    with Ndjson(server, "rj"), Ndjson(server, "7"), opened(server.public, "/ws/alice?presence=1") as client:

        def next_of(kind):
            while True:
                found = json.loads(client.recv(timeout=PATIENCE))
                if found.get("type") == kind:
                    return found["data"]

        until(lambda: httpx_online(server, "alice") == ["rj"], "rj is announced")
        assert next_of("presence")["first"]
        client.send(json.dumps({"subscribe": ["team"]}))
        # Another one of before may be on its way.
        while (online := sorted(map(str, next_of("presence")["online"]))) == ["rj"]:
            pass
        assert online == ["7", "rj"]


def httpx_online(server, who):
    """Who is online of those that an id follows, by a poll."""
    url = f"{server.public_url}/poll/{who}?presence=1&wait=0"
    answer = httpx.get(url, timeout=PATIENCE, **PLAIN)
    assert answer.status_code == 200, answer.text
    return [id for element in answer.json() for id in element["data"]["online"]]


def test_an_event_source_of_chromium_hears_who_comes_and_goes(settled):
    server = settled()
    # The page itself is logged in as rj.
    server.subscribe("alice", "metabrew")
    with Browser() as browser:
        browser.goto(f"{server.public_url}/")
        browser.evaluate(
            """(() => {
              window.told = [];
              window.source = new EventSource('/events/alice?presence=1');
              for (const kind of ['presence', 'online', 'offline'])
                source.addEventListener(kind, (it) => told.push([kind, JSON.parse(it.data)]));
            })()"""
        )
        told = lambda: browser.evaluate("window.told")  # noqa: E731
        until(lambda: len(told()) == 1, "a snapshot")
        with Ndjson(server, "metabrew"):
            until(lambda: len(told()) == 2, "online")
        until(lambda: len(told()) == 3, "offline")
        assert told() == [list(snapshot()), ["online", {"id": "metabrew"}], ["offline", {"id": "metabrew"}]]


@pytest.mark.parametrize("path", ["events", "stream", "ws", "poll"])
def test_a_stranger_is_refused_where_presence_is_off(server, path):
    upgrade = ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
    fields = [*upgrade, "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="] if path == "ws" else []
    with Connection(server) as connection:
        connection.get(f"/{path}/alice?presence=1", *fields)
        answer = connection.response()
        assert answer.status == 400 and "--presence" in answer.text


def test_a_stranger_learns_nothing_of_ids_that_it_may_not_read(guarded):  # noqa: F811
    server = guarded(*DELAY)
    server.subscribe("alice", "rj")
    for path in ["stream", "events", "poll"]:
        path = f"/{path}/alice?presence=1"
        assert curl(server, path)[0] == 401
        assert curl(server, path, *bearer(token(sub="mallory")))[0] == 403


def test_an_id_on_two_nodes_is_online_until_it_has_left_both(nodes):
    one, two = nodes
    one.subscribe("alice", "rj")
    with Ndjson(two, "alice?presence=1") as alice:
        assert notice(alice)[0] == "presence"
        with Ndjson(one, "rj"):
            assert notice(alice) == ("online", {"id": "rj"})
            with Ndjson(two, "rj"):
                until(lambda: two.sessions("rj"), "logged in")
        assert notice(alice) == ("offline", {"id": "rj"})


def test_an_id_that_hides_on_one_node_is_offline_on_all(nodes):
    one, two = nodes
    one.subscribe("alice", "rj")
    with Ndjson(two, "alice?presence=1") as alice, Ndjson(one, "rj"):
        assert notice(alice)[0] == "presence"
        assert notice(alice) == ("online", {"id": "rj"})
        for hider, hidden, told in [(two, True, "offline"), (one, False, "online"), (one, True, "offline")]:
            assert hider.api.put("/v1/presence/rj", json={"hidden": hidden}).is_success
            assert notice(alice) == (told, {"id": "rj"})
        for node in nodes:
            said = node.api.get("/v1/presence/rj").json()
            assert said == {"id": "rj", "online": True, "hidden": True, "nodes": ["one"]}


def test_a_node_explains_what_is_on_the_others(nodes):
    one, two = nodes

    def explained(node):
        answer = node.api.get("/v1/explain", params={"subject": "rj", "subscriber": "alice"}).json()
        return answer["verdict"], [reason["reason"] for reason in answer["reasons"]], answer["summary"]

    one.subscribe("alice", "rj")
    until(lambda: two.api.get("/v1/subscribers/rj").json()["subscribers"] == ["alice"], "subscribed on both")
    for node in nodes:
        verdict, reasons, _ = explained(node)
        assert (verdict, reasons) == ("no", ["edge", "not_online"]), "nobody has to be asked"
    with Ndjson(two, "alice"):
        until(lambda: one.api.post("/v1/online", json=["alice"]).json()["online"], "online")
        verdict, reasons, summary = explained(one)
        assert (verdict, reasons) == ("unknown", ["edge", "online_elsewhere", "one_node"])
        assert "online on the node `two`" in summary
        assert explained(two)[:2] == ("yes", ["edge", "online"])
        assert one.api.put("/v1/presence/alice", json={"hidden": True}).is_success
        until(lambda: explained(two)[:2] == ("yes", ["edge", "online", "hidden"]), "hidden on both")


@pytest.fixture
def receiver(tmp_path):
    secret = new_secret()
    with Receiver(secret) as receiver:
        receiver.flags = ("--webhook-url", receiver.url, "--webhook-events", "presence")
        receiver.flags += ("--webhook-secret-file", write_secrets(tmp_path / "webhook.secret", secret))
        yield receiver


def test_the_backend_is_told_once_by_the_nodes_together(engine, start, receiver):
    nodes = cluster(engine, start, *receiver.flags, names=("one", "two", "three"))
    one, two, three = nodes
    receiver.until_about("first", "online", "offline")
    with Ndjson(one, "alice"):
        receiver.until_about("alice", "online")
        with Ndjson(two, "alice"), Ndjson(three, "alice,bob"):
            receiver.until_about("bob", "online")
        receiver.until_about("bob", "online", "offline")
        assert receiver.about("alice") == ["online"]
        # The node that is asked tells what is hidden, and what is shown again.
        for node, hidden in [(two, True), (three, False)]:
            assert node.api.put("/v1/presence/alice", json={"hidden": hidden}).is_success
            until(lambda: receiver.about("alice")[-1] == ("offline" if hidden else "online"), "told")  # noqa: B023
    receiver.until_about("alice", "online", "offline", "online", "offline")
    told = [(event["type"], event["node"]) for event in receiver.events if event["id"] == "alice"]
    assert told == [("online", "one"), ("offline", "two"), ("online", "three"), ("offline", "one")]
    assert receiver.rejected == []
    # What has been told is kept by no one.
    def kept(node):
        lines = node.api.get("/metrics").text.splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("encke_presence_handover_edges "))

    until(lambda: [kept(node) for node in nodes] == [0, 0, 0], "all told")


def test_the_edges_of_a_node_that_dies_are_told_by_its_heir(engine, start, receiver):
    one, two, three = cluster(engine, start, *receiver.flags, names=("one", "two", "three"))
    receiver.until_about("first", "online", "offline")
    receiver.status = 503
    with Ndjson(three, "alice"), Ndjson(three, "bob"), Ndjson(two, "bob"):
        until(lambda: one.api.post("/v1/online", json=["alice", "bob"]).json()["online"] == ["alice", "bob"], "online")
        before = len(receiver.requests)
        until(lambda: len(receiver.requests) > before + 1, "it has tried what it has to say")
        tried = {number for number, _ in receiver.requests}
        three.kill()
        mark = len(receiver.requests)
        receiver.status = 204
        receiver.until_about("alice", "online", "offline")
        assert [event["node"] for event in receiver.events if event["id"] == "alice"] == ["one", "one"]
        assert receiver.about("bob") == ["online"], "it is on node two"
        assert any(number in tried for number, _ in receiver.requests[mark:]), "the heir's request has the same id"
    receiver.until_about("bob", "online", "offline")
