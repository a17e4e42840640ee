"""The requests of clients/python against the description of the API, and what it makes of other answers than Encke's."""

import asyncio
import http.server
import inspect
import itertools
import json
import random
import re
import threading
from urllib.parse import unquote

import httpx
import jsonschema
import pytest

import encke
from encke.presence import PresenceLines
from support.program import ROOT
from support.wait import PATIENCE, until
from test_identity_browser import SECRET, token
from test_python_client import Listener, control, until_online  # noqa: F401

API = json.loads((ROOT / "crates" / "control" / "src" / "openapi.json").read_text())
OPERATIONS = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, operations in API["paths"].items()
    for method, operation in operations.items()
}

# What operators do, with `encke`, curl or a program that reads metrics.
LEFT_OUT = """copyGraph copyErlangIds drainNode getMetrics getHealth getLiveness getReadiness getDescription""".split()

CALLS = {
    "publish": lambda api: api.publish("a/b", {"at": 1}, type="note", early=True, headers={"Idempotency-Key": "k"}),
    "send": lambda api: api.send(7, b"\0\xff"),
    "publishBatch": lambda api: api.publish_many([{"subject": 7, "data": b"\xff"}, {"subject": "a", "data": "x"}]),
    "getHistory": lambda api: api.history("rj", after="e-1", limit=10),
    "getCursor": lambda api: api.cursor(),
    "subscribe": lambda api: api.subscribe("alice", "a,b/c"),
    "unsubscribe": lambda api: api.unsubscribe("alice", "."),
    "subscribeMany": lambda api: api.subscribe_many([("alice", 7), (8, "rj")]),
    "unsubscribeMany": lambda api: api.unsubscribe_many([("alice", 7)]),
    "listSubscribers": lambda api: api.subscribers("rj"),
    "listSubscriptions": lambda api: api.subscriptions("alice"),
    "replaceSubscriptions": lambda api: api.replace_subscriptions("alice", [8, "rj"]),
    "endSubscriptions": lambda api: api.end_subscriptions("alice"),
    "removeId": lambda api: api.remove_id("alice"),
    "listSessions": lambda api: api.sessions("rj"),
    "closeSessions": lambda api: api.close_sessions("rj", ban="10m"),
    "listSlowest": lambda api: api.slowest(limit=5),
    "explain": lambda api: api.explain("rj", 7),
    "findOnline": lambda api: api.online(["alice", 7]),
    "followPresence": lambda api: api.follow_presence("6u3k-41"),
    "getPresence": lambda api: api.presence("alice"),
    "setPresence": lambda api: api.hide("alice"),
    "getStats": lambda api: api.stats(),
    "getCluster": lambda api: api.cluster(),
    "issueTicket": lambda api: api.ticket(["alice", 7], ttl="10m"),
    "revoke": lambda api: api.revoke("alice", before=1767225600),
}


def resolved(value):
    """What a reference of the description stands for."""
    while "$ref" in value:
        target = API
        for name in value["$ref"].removeprefix("#/").split("/"):
            target = target[name]
        value = target
    return value


def validate(instance, schema):
    jsonschema.Draft202012Validator({**schema, "components": API["components"]}).validate(instance)


class Described:
    """Answers each request with the example of the description, if the description has the request."""

    def __init__(self):
        self.seen = []

    def __call__(self, request):
        path = request.url.raw_path.decode().partition("?")[0]
        operation = self.operation(request.method, path)
        self.seen.append(operation["operationId"])
        parameters = [resolved(parameter) for parameter in operation.get("parameters", [])]
        declared = {(parameter["in"], parameter["name"]): parameter for parameter in parameters}
        assert len(set(request.url.params)) == len(request.url.params.multi_items())
        for name, value in request.url.params.items():
            schema = declared["query", name].get("schema", {})
            validate(int(value) if schema.get("type") == "integer" else value, schema)
        ours = {"content-type", "authorization"} | {"idempotency-key"} & {name.lower() for _, name in declared}
        theirs = httpx.Client().headers.keys() | {"host", "content-length", "transfer-encoding"}
        assert set(request.headers) <= ours | theirs
        self.check_body(request, operation.get("requestBody"))
        return self.answer(operation)

    def operation(self, method, path):
        for of, template, operation in OPERATIONS.values():
            if of == method and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path):
                return operation
        raise AssertionError(f"{method} {path} is not described")

    def check_body(self, request, described):
        if described is None:
            assert request.content == b"" and "content-type" not in request.headers
            return
        kind = request.headers["content-type"].partition(";")[0]
        schema = described["content"][kind].get("schema", {})
        match kind:
            case "application/json":
                validate(json.loads(request.content), schema)
            case "application/x-ndjson":
                for line in request.content.splitlines():
                    validate(json.loads(line), schema)
            case "text/plain":
                assert request.content.decode()

    def answer(self, operation):
        status = min(status for status in operation["responses"] if status.startswith("2"))
        content = resolved(operation["responses"][status])["content"]
        kind = "application/json" if "application/json" in content else next(iter(content))
        example = content[kind].get("example", {})
        text = example if isinstance(example, str) else json.dumps(self.last_page(example))
        return httpx.Response(int(status), text=text, headers={"Content-Type": kind})

    def last_page(self, example):
        return {**example, "next": None} if "next" in example else example


def results(api):
    """The results of all calls; of what goes on for ever, the first two."""
    found = {}
    for name, call in CALLS.items():
        result = call(api)
        found[name] = list(itertools.islice(result, 2)) if inspect.isgenerator(result) else result
    return found


async def results_async(api):
    found = {}
    for name, call in CALLS.items():
        result = call(api)
        if inspect.isasyncgen(result):
            found[name] = []
            async for one in result:
                found[name].append(one)
                if len(found[name]) == 2:
                    break
            await result.aclose()
        else:
            found[name] = await result
    return found


def check(found, described):
    assert described.seen == list(CALLS), "each call makes the request of its operation"
    assert set(CALLS) | set(LEFT_OUT) == set(OPERATIONS)
    assert found["subscribe"] is True and found["endSubscriptions"] == 3 and found["removeId"] == 12
    assert found["findOnline"] == {"alice", 7} and found["issueTicket"] and found["getCursor"]
    snapshot = encke.Snapshot(frozenset(["alice", 7]), None, "6u3k-41")
    assert found["followPresence"] == [snapshot, encke.Change(7, False, "6u3k-42")]


def test_every_request_is_one_of_the_description_and_its_example_is_understood():
    described = Described()
    with encke.Control(client=httpx.Client(transport=httpx.MockTransport(described))) as api:
        check(results(api), described)


def test_so_it_is_for_asyncio():
    described = Described()

    async def main():
        client = httpx.AsyncClient(transport=httpx.MockTransport(described))
        async with encke.AsyncControl(client=client) as api:
            check(await results_async(api), described)

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def lines(*objects):
    return b"".join(json.dumps(one).encode() + b"\n" for one in objects)


def test_a_snapshot_of_presence_is_told_whole_at_every_split_and_a_cut_one_not_at_all():
    first = {"type": "snapshot", "online": ["alice", 7], "first": True, "more": True}
    last = {"type": "snapshot", "online": ["é"], "first": False, "more": False, "cursor": "e-4"}
    change = {"type": "offline", "id": 7, "cursor": "e-5"}
    said = lines({"type": "reset", "reason": "expired"}, first, last, change, {"type": "heartbeat", "cursor": "e-6"})
    expected = [encke.Snapshot(frozenset(["alice", 7, "é"]), "expired", "e-4"), encke.Change(7, False, "e-5")]
    for at in range(len(said) + 1):
        presence = PresenceLines("e-2")
        assert [*presence.receive(said[:at]), *presence.receive(said[at:])] == expected
        assert presence.cursor == "e-6"
    presence = PresenceLines("e-2")
    assert list(presence.receive(lines({"type": "reset", "reason": "expired"}, first))) == []
    assert presence.cursor == "e-2", "the next connection is told to reset again"
    presence.begin()
    alone = {**last, "first": True}
    assert list(presence.receive(lines(alone)))[0].online == frozenset(["é"])


def test_refusals_have_the_type_of_their_problem(control, start):
    server, backend = control()
    for call, expected in [
        (lambda: backend.publish("x" * 129, "hello"), (400, "bad-request")),
        (lambda: backend.online(["alice"]), (404, "no-presence")),
        (lambda: next(backend.follow_presence()), (404, "no-presence")),
        (lambda: backend.cluster(), (404, "no-cluster")),
        (lambda: backend.ticket(["alice"]), (409, "not-configured")),
    ]:
        with pytest.raises(encke.EnckeError) as raised:
            call()
        assert (raised.value.status, raised.value.type) == expected

    async def main():
        async with encke.AsyncControl(server.control_url) as api:
            for call in [api.online(["alice"]), anext(api.follow_presence())]:
                with pytest.raises(encke.EnckeError) as raised:
                    await call
                assert (raised.value.status, raised.value.type) == (404, "no-presence")

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_subscriptions_are_replaced_and_ended_and_ids_removed(control):
    _, backend = control()
    backend.subscribe_many([("alice", 7), ("alice", "rj"), ("bob", "alice")])
    assert backend.replace_subscriptions("alice", ["rj", "x/y"]) == {"added": 1, "removed": 1, "unchanged": 1}
    assert sorted(backend.subscriptions("alice")) == ["rj", "x/y"]
    assert backend.end_subscriptions("alice") == 2
    assert backend.subscribe("alice", "rj") is True
    assert backend.remove_id("alice") == 2
    assert list(backend.subscriptions("bob")) == []


def test_an_event_that_does_not_arrive_is_explained(control):
    _, backend = control()
    explained = backend.explain("rj", "alice")
    assert explained["verdict"] == "no" and "no_edge" in {reason["reason"] for reason in explained["reasons"]}
    assert backend.slowest() == [] == backend.slowest(limit=3)


def test_what_is_revoked_ends_and_does_not_come_back(start, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET)
    secret.chmod(0o600)
    server = start("--jwt-secret-file", secret)
    with encke.Control(server.control_url) as backend:
        listener = Listener(server.public_url, token=token(sub="alice"))
        until_online(server, "alice")
        backend.revoke("alice")
        assert listener.next() == encke.Expired("revoked")
        with pytest.raises(encke.Refused):
            listener.next()
        listener.client.close()
        other = token(sub="bob", jti="stolen")
        assert backend.revoke(jti="stolen")["jti"] == "stolen"
        with pytest.raises(encke.Refused):
            next(encke.listen(server.public_url, token=other))


class Follower:
    """`follow_presence` in a thread."""

    def __init__(self, backend, cursor=None):
        self.seen = []
        self.thread = threading.Thread(target=self._run, args=(backend, cursor), daemon=True)
        self.thread.start()

    def _run(self, backend, cursor):
        for message in backend.follow_presence(cursor):
            if isinstance(message, encke.Change) and message.id == "the end":
                return
            self.seen.append(message)

    def until(self, wanted, what):
        until(lambda: any(wanted(message) for message in list(self.seen)), what)


def test_presence_is_followed_through_restarts_and_from_a_cursor(start, monkeypatch):
    monkeypatch.setattr(random, "uniform", lambda low, high: 0.05)
    flags = ("--presence", "--presence-delay", "200ms")
    server = start(*flags)
    with encke.Control(server.control_url) as backend:
        follower = Follower(backend)
        follower.until(lambda said: isinstance(said, encke.Snapshot), "a snapshot")
        listener = Listener(server.public_url, ["alice", 7])
        follower.until(lambda said: isinstance(said, encke.Change) and said.id == 7 and said.online, "7 comes")
        until(lambda: len(follower.seen) >= 3, "both")
        kept = follower.seen[-1].cursor
        server.kill()
        second = server.restart(*flags)
        try:
            follower.until(lambda said: isinstance(said, encke.Snapshot) and said.reason == "restart", "a reset")
            follower.until(lambda said: said.cursor.partition("-")[0] != kept.partition("-")[0], "another run")
            until(lambda: backend.online(["alice", 7]) == {"alice", 7}, "the listener is back")
            now = []

            def is_told():
                now[:] = follower.seen
                last = max(at for at, said in enumerate(now) if isinstance(said, encke.Snapshot))
                online = set(now[last].online)
                for change in now[last + 1 :]:
                    (online.add if change.online else online.discard)(change.id)
                return online == {"alice", 7}

            until(is_told, "who is online")
            cursor = now[-1].cursor

            async def from_a_cursor():
                async with encke.AsyncControl(second.control_url) as api:
                    edges = api.follow_presence(cursor)
                    first = asyncio.ensure_future(anext(edges))
                    bob = encke.listen_async(second.public_url, "bob")
                    hears = asyncio.ensure_future(anext(bob))
                    change = await first
                    assert (change.id, change.online) == ("bob", True), "no snapshot, and no change of before"
                    hears.cancel()
                    await edges.aclose()

            asyncio.run(asyncio.wait_for(from_a_cursor(), PATIENCE))
            end = Listener(second.public_url, "the end")
            follower.thread.join(PATIENCE)
            assert not follower.thread.is_alive()
            for one in [listener, end]:
                one.ended = True
                one.client.close()
        finally:
            second.stop()


PORTAL = b"<!doctype html><title>Log in to this network</title>"


class Portal:
    """A server that gives the answers of a list, one to each connection, and then its last one."""

    def __init__(self, *answers):
        answers = list(answers)

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                kind, content = answers.pop(0) if len(answers) > 1 else answers[0]
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_GET

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


HTML = ("text/html; charset=utf-8", PORTAL)
FIRST = ("application/x-ndjson", b'{"id":"e-1","subject":"rj","data":1}\n')
SECOND = ("application/x-ndjson; charset=utf-8", b'{"id":"e-2","subject":"rj","data":2}\n')


def test_a_page_in_place_of_a_stream_is_no_stream(monkeypatch):
    monkeypatch.setattr(random, "uniform", lambda low, high: 0)
    with Portal(HTML) as portal:
        with pytest.raises(encke.Refused, match="text/html.*address") as raised:
            next(encke.listen(portal.url, "rj"))
        assert raised.value.status == 200
        with encke.Control(portal.url) as backend:
            for call in [lambda: backend.publish("rj", 1), lambda: next(backend.follow_presence())]:
                with pytest.raises(encke.EnckeError, match="text/html") as raised:
                    call()
                assert (raised.value.status, raised.value.type) == (200, None)


def test_a_page_that_comes_between_two_streams_passes(monkeypatch):
    monkeypatch.setattr(random, "uniform", lambda low, high: 0)
    with Portal(FIRST, HTML, HTML, SECOND) as portal:
        events = encke.listen(portal.url, "rj")
        assert [next(events).data for _ in range(2)] == [1, 2]
        events.close()

    async def main():
        with Portal(FIRST, HTML, SECOND) as portal:
            events = encke.listen_async(portal.url, "rj")
            assert [(await anext(events)).data for _ in range(2)] == [1, 2]
            await events.aclose()

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_the_path_of_an_id_is_its_own():
    seen = []
    transport = httpx.MockTransport(lambda request: seen.append(request.url.raw_path) or httpx.Response(404))
    with encke.Control(client=httpx.Client(transport=transport)) as api:
        for id in ["..", "a/b?c", "é", 7]:
            with pytest.raises(encke.EnckeError):
                api.remove_id(id)
    assert [unquote(path.decode()) for path in seen] == [f"/v1/ids/{id}" for id in ["..", "a/b?c", "é", 7]]
    assert all(path.count(b"/") == 3 and b"?" not in path for path in seen)
