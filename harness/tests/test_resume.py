"""Clients that are cut off and return: nothing missed, nothing twice, or a reset, on real sockets."""

import json
import random
import re
import subprocess
import threading
import time

import pytest

from support.http import Connection, Ndjson, Sse
from support.issuer import within_an_hour
from support.wait import until

HISTORY = ("--history-bytes", "8MiB")


def total(server, name):
    """The sum of a metric over all workers."""
    return server.stats()["totals"][name]


def publish_many(server, subject, texts):
    """Publishes a batch."""
    lines = "".join(json.dumps({"subject": subject, "data": text}) + "\n" for text in texts)
    answer = server.api.post(
        "/v1/publish", content=lines, headers={"Content-Type": "application/x-ndjson"}
    )
    assert answer.is_success, answer.text


def last_event_id(cursor):
    return [f"Last-Event-ID: {cursor}"] if cursor else []


class Returning:
    """A client that is cut off again and again, in the middle of whatever it is sent."""

    def __init__(self, server, transport, ids, **options):
        self.server, self.transport, self.ids, self.options = server, transport, ids, options
        self.stream, self.cursor, self.resets = None, "", 0
        self.connect()

    def connect(self):
        self.stream = self.transport(
            self.server, self.ids, *last_event_id(self.cursor), **self.options
        )

    def cut(self):
        self.stream.reset()
        self.connect()

    def next(self):
        """The data of the next event. Ids without data are kept."""
        while True:
            event = self.stream.event()
            if isinstance(event, tuple):
                kind, data, self.cursor = event
                name = kind
            else:
                self.cursor = event.get("id", self.cursor)
                name, data = event.get("type"), event.get("data")
            if name == "reset":
                self.resets += 1
            elif data is not None:
                return data


@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/1.0"])
@pytest.mark.parametrize("transport", [Sse, Ndjson])
def test_each_event_arrives_once_and_in_order_over_any_number_of_cuts(start, transport, version):
    server = start(*HISTORY, "--heartbeat", "1s")
    server.subscribe("alice", "news")
    client = Returning(server, transport, "alice", version=version)
    count = 600

    def publish():
        for number in range(count):
            server.publish("news" if number % 3 else "alice", f"{number}")

    publisher = threading.Thread(target=publish)
    publisher.start()
    dice = random.Random(version + transport.__name__)
    received = []
    while len(received) < count:
        received.append(int(client.next()))
        if dice.random() < 0.1:
            client.cut()
    publisher.join()
    assert received == list(range(count))
    assert client.resets == 0
    assert total(server, "resumes")["complete"] > 20
    until(lambda: total(server, "sessions_replaying") == 0, "all live")
    client.stream.close()


def test_a_cursor_is_read_from_each_place_where_clients_put_it(start):
    server = start(*HISTORY)
    first = server.publish("alice", "one")["id"]
    server.publish("alice", "two")
    for name in ["last_event_id", "lastEventId", "lastEventID", "cursor"]:
        with Sse(server, f"alice?{name}={first}") as stream:
            assert stream.fields["Encke-Last-Event-ID"] == first
            assert stream.data() == "two", name
    with Sse(server, "alice?cursor=e-7", f"Last-Event-ID: {first}") as stream:
        assert stream.data() == "two", "the field counts first"
    with Ndjson(server, "alice?cursor=earliest") as stream:
        assert [stream.data(), stream.data()] == ["one", "two"]
    with Sse(server, "alice?rewind=1") as stream:
        assert stream.data() == "two"
        server.publish("alice", "three")
        assert stream.data() == "three"
    with Connection(server) as connection:
        connection.get("/events/alice?rewind=101")
        answer = connection.response()
        assert answer.status == 400 and "from 0 to 100" in answer.text


def test_curl_returns_with_its_last_id(start):
    server = start(*HISTORY)
    first = server.publish("alice", "one")["id"]
    second = server.publish("alice", "two\nlines")["id"]
    url = f"{server.public_url}/events/alice"
    command = ["curl", "-siN", "--max-time", "1", "-H", f"Last-Event-ID: {first}", url]
    text = subprocess.run(command, capture_output=True).stdout.decode()
    head, _, body = text.partition("\r\n\r\n")
    assert f"Encke-Last-Event-ID: {first}" in head
    greeting, _, event = body.partition("\n\n")
    assert re.fullmatch(r":\nretry: \d{4}", greeting)
    assert event == f"id: {second}\ndata: two\ndata: lines\n\n"


def test_quiet_clients_are_told_positions_without_events(start):
    server = start(*HISTORY, "--heartbeat", "1s")
    epoch = server.publish("other", "a")["id"].partition("-")[0]
    with Sse(server, "alice") as sse, Ndjson(server, "alice") as ndjson:
        assert sse.fields["Encke-Last-Event-ID"] == f"{epoch}-1"
        lines = [sse.line() for _ in range(4)]
        assert lines[2].startswith(b"retry: ")
        assert [*lines[:2], *lines[3:]] == [b":", f"id: {epoch}-1".encode(), b""]
        assert ndjson.line() == json.dumps({"id": f"{epoch}-1"}, separators=(",", ":")).encode()
        server.publish("other", "b")
        # A heartbeat that was on its way may have the position before.
        beats = [(sse.line(), sse.line()) for _ in range(2)]
        assert beats[1] == (f"id: {epoch}-2".encode(), b""), beats
        beats = [json.loads(ndjson.line()) for _ in range(2)]
        assert beats[1] == {"id": f"{epoch}-2"}, beats


def test_without_a_history_the_wire_is_as_it_was(start):
    server = start("--history-bytes", "0", "--heartbeat", "1s")
    with Sse(server, "alice?rewind=500", "Last-Event-ID: garbage") as stream:
        assert "Encke-Last-Event-ID" not in stream.fields
        lines = [stream.line() for _ in range(4)]
        assert re.fullmatch(rb"retry: \d{4}", lines.pop(1)) and lines == [b":", b"", b":"]


def test_a_restart_without_a_history_on_disk_is_a_reset(start):
    server = start(*HISTORY)
    cursor = server.publish("alice", "before")["id"]
    server.stop()
    after = server.restart(*HISTORY)
    with Sse(after, "alice", f"Last-Event-ID: {cursor}") as stream:
        kind, data, _ = stream.event()
        assert (kind, json.loads(data)) == ("reset", {"reason": "restart", "from": cursor})
        after.publish("alice", "after")
        assert stream.data() == "after"
        cursor = stream.last_id
    with Sse(after, "alice", f"Last-Event-ID: {cursor}") as stream:
        assert stream.fields["Encke-Last-Event-ID"] == cursor
    after.stop()


def test_who_was_away_for_too_long_is_told_and_gets_the_latest(start):
    server = start("--history-bytes", "2MiB")
    cursor = server.publish("alice", "first")["id"]
    publish_many(server, "alice", (f"{number}" + "x" * 1000 for number in range(4000)))
    with Sse(server, "alice", f"Last-Event-ID: {cursor}") as stream:
        kind, data, _ = stream.event()
        assert (kind, json.loads(data)["reason"]) == ("reset", "expired")
        numbers = [int(stream.data().rstrip("x")) for _ in range(1000)]
        assert numbers == list(range(3000, 4000))


def test_a_stranger_cannot_hurt_with_cursors(start):
    server = start(*HISTORY)
    server.publish("alice", "kept")
    epoch = server.publish("alice", "kept")["id"].partition("-")[0]
    for cursor in [
        "0", "-", f"{epoch}", f"{epoch}-", f"{epoch}-x", f"{epoch}-5-6", f"{epoch}-1-0-0", "\x7f",
        f"{epoch}-18446744073709551615", f"{epoch}-18446744073709551616", "x" * 7000, "é",
        f"{epoch}--1", f'{epoch}-1"}}', "-1-1", "'; drop table",
    ]:  # fmt: skip
        with Connection(server) as connection:
            connection.get("/stream/alice", f"Last-Event-ID: {cursor}")
            status, _, _ = connection.head()
            assert status in (200, 400, 431), cursor
            if status == 200:
                text = connection.take_until(b"kept").decode()
                notice = re.search(r'^\{"type":"reset".*$', text, re.MULTILINE)
                reset = json.loads(notice.group())
                assert reset["data"]["reason"] == "unknown", cursor
                assert len(reset["data"]["from"]) <= 96
    foreign = Sse(server, "alice", "Last-Event-ID: other-1")
    assert json.loads(foreign.event()[1])["reason"] == "restart"
    foreign.close()
    with Sse(server, "alice") as stream:
        server.publish("alice", "live")
        assert stream.data() == "live", "the server goes on"


def test_a_cursor_opens_nothing_that_a_token_does_not(start, tmp_path):
    import jwt

    secret = "0123456789abcdef0123456789abcdef"
    path = tmp_path / "secret"
    path.write_text(secret)
    path.chmod(0o600)
    server = start(*HISTORY, "--jwt-secret-file", path)
    for subject in ["alice", "bob", "news"]:
        server.publish(subject, f"for {subject}")
        server.send(subject, f"only for {subject}")
    server.subscribe("alice", "news")
    server.publish("news", "followed")
    token = jwt.encode(within_an_hour({"sub": "alice"}), secret, "HS256")
    bearer = f"Authorization: Bearer {token}"
    for start_at in ["cursor=earliest", "rewind=100", "cursor=garbage"]:
        with Connection(server) as stranger:
            stranger.get(f"/events/bob?{start_at}", bearer)
            assert stranger.response().status == 403
        with Connection(server) as stranger:
            stranger.get(f"/events/bob?{start_at}")
            assert stranger.response().status == 401
        with Sse(server, f"alice?{start_at}", bearer) as stream:
            server.publish("alice", "last")
            got = []
            while not got or got[-1] != "last":
                got.append(stream.data())
            assert not [data for data in got if "bob" in data or data == "only for news"], got


def test_a_slow_reader_is_fed_as_it_reads_and_costs_no_memory(start):
    server = start("--history-bytes", "64MiB", workers=1)
    cursor = server.publish("alice", "first")["id"]
    size, count = 8_000, 1_000
    publish_many(server, "alice", (f"{number}" + "x" * size for number in range(count)))
    with Sse(server, "alice", f"Last-Event-ID: {cursor}", receive_buffer=4096) as stream:
        until(lambda: total(server, "backlog_sessions") == 1, "a full socket")
        assert total(server, "backlog_bytes") < size + 1000, "one event at most"

        def is_still():
            before = total(server, "events_replayed")
            time.sleep(0.3)
            return total(server, "events_replayed") == before

        until(is_still, "nothing is fed while nothing is read")
        assert total(server, "events_replayed") < count
        server.publish("alice", "live")
        for number in range(count):
            assert stream.data().rstrip("x") == str(number)
        assert stream.data() == "live"
    until(lambda: total(server, "sessions_replaying") == 0, "it is over")


def test_a_drain_ends_replays_and_the_client_goes_on_from_its_cursor(start):
    server = start("--history-bytes", "64MiB", "--drain-timeout", "1s", workers=1)
    cursor = server.publish("alice", "first")["id"]
    for number in range(300):
        server.publish("alice", f"{number}" + "x" * 20_000)
    stream = Sse(server, "alice", f"Last-Event-ID: {cursor}", receive_buffer=4096)
    assert stream.data().rstrip("x") == "0"
    server.stop()
    stream.close()


PAGE = """new Promise(done => {
    window.got = [];
    window.source = new EventSource('/events/alice');
    source.onmessage = event => got.push([event.data, event.lastEventId]);
    source.addEventListener('reset', event => got.push(['reset ' + event.data, event.lastEventId]));
    source.onopen = () => done('open');
})"""


def test_chromium_keeps_ids_that_come_without_an_event(start, browser):
    server = start(*HISTORY, "--heartbeat", "1s", "--retry", "1s")
    browser.goto(f"{server.public_url}/")
    assert browser.evaluate(PAGE) == "open"
    for number in range(20):
        server.publish("other", f"{number}")
    beats = total(server, "heartbeats")
    until(lambda: total(server, "heartbeats") >= beats + 2, "heartbeats")
    assert browser.evaluate("got.length") == 0, "an id alone dispatches nothing"
    # The session is cut, and returns with an id that it has from a heartbeat alone.
    assert server.api.delete("/v1/sessions/alice").is_success
    until(lambda: not server.sessions("alice"), "the session is gone")
    published = server.publish("alice", "while away")["id"]
    until(lambda: browser.evaluate("got.length") == 1, "the event")
    assert browser.evaluate("got[0]") == ["while away", published]
    assert total(server, "resumes")["complete"] == 1
    browser.evaluate("source.close()")
    browser.goto("about:blank")


def test_chromium_is_told_of_a_restart(start, browser):
    server = start(*HISTORY, "--retry", "1s")
    browser.goto(f"{server.public_url}/")
    assert browser.evaluate(PAGE) == "open"
    cursor = server.publish("alice", "before")["id"]
    until(lambda: browser.evaluate("got.length") == 1, "the event")
    server.kill()
    after = server.restart(*HISTORY, "--retry", "1s")
    until(lambda: browser.evaluate("got.length") == 2, "the reset", patience=20)
    reset = browser.evaluate("got[1][0]")
    assert json.loads(reset.removeprefix("reset ")) == {"reason": "restart", "from": cursor}
    after.publish("alice", "after")
    until(lambda: browser.evaluate("got.length") == 3, "the event")
    assert browser.evaluate("got[2][0]") == "after"
    browser.evaluate("source.close()")
    browser.goto("about:blank")
    after.stop()
