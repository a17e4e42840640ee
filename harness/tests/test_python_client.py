"""The client of clients/python: its laws, and the real server."""

import asyncio
import json
import queue
import random
import threading
import time

import httpx
import pytest

import encke
from encke.stream import SEEN_MAX, Stream
from support.wait import PATIENCE, until
from test_identity_browser import token


def line(id, **more):
    return json.dumps({"id": id, "subject": "rj", "data": id, **more}).encode() + b"\n"


def ids(messages):
    return [message.id for message in messages if isinstance(message, encke.Event)]


class TestStream:
    def test_messages_are_whole_at_every_split(self):
        said = b"{}\n" + line("e-2", type="é", data="a\n") + b'{"id":"e-5"}\n'
        for at in range(len(said) + 1):
            stream = Stream()
            messages = [*stream.receive(said[:at]), *stream.receive(said[at:])]
            assert messages == [encke.Event("e-2", "rj", "é", "a\n")]
            assert stream.cursor == "e-5"

    def test_a_cut_line_is_not_continued_by_the_next_connection(self):
        stream = Stream()
        assert [*stream.receive(line("e-2")[:-5])] == []
        stream.begin()
        assert ids(stream.receive(line("e-2"))) == ["e-2"]

    def test_repeats_are_dropped_and_move_the_cursor(self):
        stream = Stream()
        assert ids(stream.receive(line("e-4") + line("e-3-2") + line("e-3") + line("e-4-3"))) == ["e-4", "e-3-2"]
        assert stream.cursor == "e-4-3"

    def test_what_it_remembers_is_bounded(self):
        stream = Stream()
        for number in range(3 * SEEN_MAX):
            list(stream.receive(line(f"e-{number}")))
        assert len(stream._seen) == SEEN_MAX

    def test_notices_are_no_events(self):
        stream = Stream()
        said = [
            {"type": "reset", "data": {"reason": "restart", "from": "d-1"}},
            {"type": "gap", "data": {"lost": 3}},
            {"type": "expired", "data": {"reason": "revoked"}},
            {"type": "a notice of a later version", "data": 1},
        ]
        messages = list(stream.receive(b"".join(json.dumps(one).encode() + b"\n" for one in said)))
        assert messages == [encke.Reset("restart", "d-1"), encke.Gap(3), encke.Expired("revoked")]
        event = next(iter(stream.receive(line("e-1", type="reset"))))
        assert event == encke.Event("e-1", "rj", "reset", "e-1")

    def presence(self, stream, *said):
        lines = (json.dumps({"type": type, "data": data}).encode() + b"\n" for type, data in said)
        return [(set(message.online), message.id) for message in stream.receive(b"".join(lines))]

    def test_a_snapshot_in_pieces_is_told_as_one_and_replaces_what_was_known(self):
        stream = Stream()
        first = ("presence", {"online": ["alice", 7], "first": True, "more": True})
        assert self.presence(stream, first, ("online", {"id": "bob"}), ("offline", {"id": 7})) == []
        last = ("presence", {"online": ["rj"], "first": False, "more": False})
        assert self.presence(stream, last) == [({"alice", "bob", "rj"}, None)]
        alone = ("presence", {"online": [], "first": True, "more": False})
        assert self.presence(stream, alone) == [(set(), None)]

    def test_a_change_of_presence_is_told_once(self):
        stream = Stream()
        self.presence(stream, ("presence", {"online": ["alice"], "first": True, "more": False}))
        changes = [("online", {"id": "rj"}), ("online", {"id": "rj"}), ("offline", {"id": "alice"})]
        assert self.presence(stream, *changes) == [({"alice", "rj"}, "rj"), ({"rj"}, "alice")]
        assert stream.cursor is None, "presence is no place in the stream"

    def test_a_snapshot_that_was_cut_is_forgotten(self):
        stream = Stream()
        self.presence(stream, ("presence", {"online": ["old"], "first": True, "more": True}))
        stream.begin()
        rest = ("presence", {"online": ["rest"], "first": False, "more": False})
        assert self.presence(stream, rest, ("online", {"id": "rj"})) == [({"rj"}, "rj")]

    def test_bytes_are_bytes(self):
        (event,) = Stream().receive(line("e-1", data="AP8=", encoding="base64"))
        assert event.data == b"\0\xff"

    def test_delays_are_spread_over_a_time_that_doubles_up_to_a_bound(self, monkeypatch):
        monkeypatch.setattr(random, "uniform", lambda low, high: high)
        monkeypatch.setattr(random, "random", lambda: 0)
        stream = Stream()
        assert [stream.delay() for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
        assert stream.delay(told=7) == 7
        list(stream.receive(b"{}\n"))
        assert stream.delay() == 1


class Listener:
    """`listen` in a thread."""

    def __init__(self, *arguments, **options):
        self.said = queue.Queue()
        self.client = httpx.Client()
        self.ended = False
        run = {"target": self._run, "args": arguments, "kwargs": options}
        self.thread = threading.Thread(**run, daemon=True)
        self.thread.start()

    def _run(self, *arguments, **options):
        try:
            for message in encke.listen(*arguments, client=self.client, **options):
                if self.ended:
                    return
                self.said.put(message)
        except Exception as error:  # noqa: BLE001
            self.said.put(error)

    def next(self):
        said = self.said.get(timeout=PATIENCE)
        if isinstance(said, Exception):
            raise said
        return said


@pytest.fixture
def control(start):
    made = []

    def control(*flags):
        server = start("--retry", "100ms", *flags)
        made.append(encke.Control(server.control_url))
        return server, made[-1]

    yield control
    for one in made:
        one.close()


def until_online(server, id):
    until(lambda: server.sessions(id), f"{id} is online")


def end(listener, server, id):
    """Lets a listener end at its next message."""
    listener.ended = True
    server.publish(id, "the end")
    listener.thread.join(PATIENCE)
    assert not listener.thread.is_alive()
    listener.client.close()


def test_what_is_published_is_heard(control):
    server, backend = control()
    listener = Listener(server.public_url, ["alice", "a/b,c"])
    until_online(server, "a/b,c")
    assert backend.subscribe("alice", "rj") is True
    assert backend.subscribe("alice", "rj") is False
    assert list(backend.subscriptions("alice")) == ["rj"]
    assert list(backend.subscribers("rj")) == ["alice"]
    for data in ["hello\n", b"\0\xff", {"at": [1, None]}]:
        receipt = backend.publish("rj", data, type="note")
        assert (receipt["subscribers"], receipt["written"]) == (2, 1)
        event = listener.next()
        assert (event.id, event.subject, event.type, event.data) == (receipt["id"], "rj", "note", data)
    assert backend.send("a/b,c", 7)["written"] == 1
    assert listener.next().data == 7
    assert backend.unsubscribe("alice", "rj") is True
    assert backend.publish("rj", "nobody", early=True)["online"] == 0
    end(listener, server, "alice")


def test_many_at_once(control):
    server, backend = control()
    numbers = range(3000)
    assert backend.subscribe_many((n, "rj") for n in numbers)["added"] == 3000
    assert sorted(backend.subscribers("rj")) == list(numbers)
    summary = backend.publish_many({"subject": n, "data": b"\xff" if n % 2 else n} for n in numbers)
    assert (summary["events"], summary["failed"]) == (3000, 0)
    assert backend.unsubscribe_many((n, "rj") for n in numbers)["removed"] == 3000


def test_who_is_online_and_who_hides(control):
    server, backend = control("--presence", "--presence-delay", "1s")
    assert backend.online([]) == set()
    listener = Listener(server.public_url, ["alice", 7])
    until(lambda: backend.online(["alice", "bob", 7]) == {"alice", 7}, "online")
    assert backend.presence("alice") == {"id": "alice", "online": True, "hidden": False}
    assert backend.hide("alice")["hidden"] is True
    assert backend.presence("alice") == {"id": "alice", "online": True, "hidden": True}
    assert backend.hide("alice", False)["hidden"] is False
    end(listener, server, "alice")
    until(lambda: backend.online(["alice", 7]) == set(), "offline")


def test_ids_that_look_like_paths(control):
    server, backend = control()
    for id in [".", "..", "a/b", "%2F", "é"]:
        listener = Listener(server.public_url, id)
        until(lambda: backend.sessions(id)["sessions"], f"{id} is online")
        assert backend.subscribe("alice", id) is True
        assert backend.publish(id, "hello")["written"] == 1, id
        assert listener.next().subject == id
        listener.ended = True
        backend.publish(id, "the end")
        listener.thread.join(PATIENCE)


def test_a_refusal_is_an_error_with_the_server_s_sentence(control):
    server, backend = control()
    with pytest.raises(encke.EnckeError, match="128 bytes") as raised:
        backend.publish("x" * 129, "hello")
    assert raised.value.status == 400
    with pytest.raises(encke.Refused, match="128 bytes"):
        next(encke.listen(server.public_url, "x" * 129))


def test_what_is_published_while_it_is_away_arrives_once_and_in_order(control):
    server, _ = control("--history-bytes", "4MiB")
    listener = Listener(server.public_url, "alice", cursor="other-7")
    assert listener.next() == encke.Reset("restart", "other-7")
    for number in range(100):
        server.publish("alice", str(number))
        if number == 50:
            server.api.delete("/v1/sessions/alice")
    assert [listener.next().data for _ in range(100)] == [str(number) for number in range(100)]
    end(listener, server, "alice")


def test_it_comes_back_after_a_restart(start):
    server = start("--retry", "100ms")
    listener = Listener(server.public_url, "alice")
    until_online(server, "alice")
    server.publish("alice", "before")
    assert listener.next().data == "before"
    server.kill()
    second = server.restart("--retry", "100ms")
    try:
        until_online(second, "alice")
        second.publish("alice", "after")
        said = listener.next()
        while not isinstance(said, encke.Event):
            said = listener.next()
        assert said.data == "after"
        end(listener, second, "alice")
    finally:
        second.stop()


def test_publishing_goes_on_after_a_restart(start):
    """Kept connections of the control API end with the server, and are not used again."""
    server = start("--retry", "100ms")
    with encke.Control(server.control_url) as backend:
        assert backend.publish("rj", "before")["subscribers"] == 1
        server.kill()
        with pytest.raises(httpx.TransportError):
            backend.publish("rj", "away")
        second = server.restart("--retry", "100ms")
        try:
            assert backend.publish("rj", "after")["subscribers"] == 1
            assert backend.send("rj", "after")["written"] == 0
            assert backend.subscribe("alice", "rj") is True
        finally:
            second.stop()


def test_asyncio_goes_on_after_a_restart(start, tmp_path):
    flags = ("--retry", "100ms", "--history-bytes", "4MiB", "--history-dir", tmp_path / "history")
    server = start(*flags)

    async def main():
        async with encke.AsyncControl(server.control_url) as backend:
            stream = encke.listen_async(server.public_url, "alice", cursor="earliest")
            await backend.publish("alice", 1)
            assert (await anext(stream)).data == 1
            server.kill()
            second = await asyncio.to_thread(server.restart, *flags)
            try:
                await backend.publish("alice", 2)
                await backend.send("alice", 3)
                assert [(await anext(stream)).data for _ in range(2)] == [2, 3]
                page = await backend.history("alice", limit=2)
                assert ([event["data"] for event in page["events"]], page["more"]) == ([1, 2], True)
                rest = await backend.history("alice", after=page["cursor"])
                assert [event["data"] for event in rest["events"]] == [3]
                assert rest["events"][-1]["id"] == await backend.cursor()
                await stream.aclose()
            finally:
                second.stop()

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_a_ticket_that_cannot_be_had_now_is_asked_for_again(start):
    server = start("--tickets", "--retry", "100ms")
    with encke.Control(server.control_url) as backend:
        answers = [httpx.ConnectError("the backend is away"), OSError("so is its host")]

        def ticket():
            if answers:
                raise answers.pop(0)
            return backend.ticket(["alice"])

        listener = Listener(server.public_url, ticket=ticket)
        until_online(server, "alice")
        server.publish("alice", "hello")
        assert listener.next().data == "hello"
        end(listener, server, "alice")

        def refused():
            request = httpx.Request("POST", "http://backend.example/ticket")
            raise httpx.HTTPStatusError("no", request=request, response=httpx.Response(403))

        with pytest.raises(httpx.HTTPStatusError):
            next(encke.listen(server.public_url, ticket=refused))


def test_asyncio(start, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"a secret of at least thirty-two bytes")
    secret.chmod(0o600)
    server = start("--retry", "100ms", "--jwt-secret-file", secret, "--tickets")
    asked = []

    async def fresh():
        asked.append(time.time())
        # The first one is refused.
        return token(sub="alice", lifetime=-60 if len(asked) == 1 else 600)

    async def main():
        async with encke.AsyncControl(server.control_url) as backend:
            stream = encke.listen_async(server.public_url, token=fresh)
            first = asyncio.ensure_future(anext(stream))
            while not (await backend.sessions("alice"))["sessions"]:
                await asyncio.sleep(0.01)
            await backend.subscribe("alice", "rj")
            assert [one async for one in backend.subscriptions("alice")] == ["rj"]
            summary = await backend.publish_many([{"subject": "rj", "data": 1}])
            assert summary["written"] == 1
            assert (await first).data == 1
            await stream.aclose()
            ticket = await backend.ticket(["bob"])
            assert ticket
            with pytest.raises(encke.EnckeError):
                await backend.ticket([])

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
    assert len(asked) == 2
