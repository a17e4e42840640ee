"""What readers that do not keep up cost, what they get, and what they are told about the rest."""

import json

import pytest

from support.http import Connection, Ndjson, Sse, Stream
from support.wait import until

LARGE = "x" * 65536


def fill(server, subject, payload=LARGE, count=1000):
    """Publishes until an event waits in a backlog; returns the bytes that were written before."""
    written = 0
    for _ in range(count):
        receipt = server.publish(subject, payload)
        if not receipt["written"]:
            return written
        written += len(payload)
    raise AssertionError(f"after {written} bytes the socket is still not full")


class TestKernelMemory:
    def test_of_a_reader_that_stops_is_bounded(self, start):
        """Unbounded, the kernel takes up to 4 MB for it before the server sees a full socket."""
        server = start("--stall-timeout", "60s", "--backlog-bytes", "256KiB")
        for payload in (LARGE, "x" * 160):
            with Sse(server, "slow", receive_buffer=4096):
                written = fill(server, "slow", payload, 10_000)
                assert written < 96 * 1024, written
                (session,) = server.sessions("slow")
                assert 0 < session["bytes_unacknowledged"] < 64 * 1024, session
            until(lambda: not server.sessions("slow"), "gone")


def events_and_gaps(stream, last):
    """Reads up to the event whose payload begins with `last`; returns payloads and numbers of lost events."""
    got = []
    while not got or not str(got[-1]).startswith(last):
        event = stream.event()
        assert event is not None, got[-3:]
        kind, data = (event[0], event[1]) if isinstance(stream, Sse) else (event.get("type"), event["data"])
        if kind == "gap":
            got.append(json.loads(data)["lost"] if isinstance(data, str) else data["lost"])
        else:
            got.append(data)
    return got


def publish_all(server, subjects, count, size=20_000):
    receipts = [server.publish(subjects[n % len(subjects)], f"{n} " + "x" * size) for n in range(count)]
    assert all(receipt["online"] == 1 for receipt in receipts)
    return receipts


class TestPolicies:
    FLAGS = ("--stall-timeout", "60s", "--backlog-bytes", "128KiB")

    @pytest.mark.parametrize("stream", [Sse, Ndjson])
    def test_drop_oldest_says_how_many(self, start, stream):
        server = start(*self.FLAGS)
        with stream(server, "slow?slow=drop-oldest", receive_buffer=4096) as slow:
            publish_all(server, ["slow"], 50)
            assert len(server.sessions("slow")) == 1
            got = events_and_gaps(slow, "49 ")
            numbers = [int(item.split()[0]) for item in got if isinstance(item, str)]
            gaps = [item for item in got if isinstance(item, int)]
            assert numbers == sorted(numbers)
            assert len(numbers) + sum(gaps) == 50
            # One notice, at the place where the events are missing.
            (gap,) = gaps
            before = numbers[got.index(gap) - 1]
            assert numbers[got.index(gap)] - before - 1 == gap
            totals = server.totals()
            assert totals["deliveries_dropped"] == {"drop_oldest": gap, "latest": 0}
            assert totals["deliveries"]["lost"] == gap
            assert totals["gaps"] == 1
            until(lambda: server.totals()["backlog_sessions"] == 0, "flushed")
            assert server.publish("slow", "on")["written"] == 1

    def test_latest_keeps_the_last_of_each_subject(self, start):
        server = start(*self.FLAGS, "--slow", "latest")
        with Ndjson(server, "a,b,c", receive_buffer=4096) as slow:
            publish_all(server, ["a", "b", "c"], 60)
            got = events_and_gaps(slow, "59 ")
            assert [item.split()[0] for item in got[-3:]] == ["57", "58", "59"]
            assert not [item for item in got if isinstance(item, int)], "nothing was lost"
            totals = server.totals()
            assert totals["deliveries_dropped"] == {"drop_oldest": 0, "latest": 60 - len(got)}
            assert totals["gaps"] == 0

    def test_test_is_told_nothing(self, start):
        server = start(*self.FLAGS)
        with Stream(server, "/test/slow?slow=drop-oldest", receive_buffer=4096) as slow:
            publish_all(server, ["slow"], 50)
            slow.chunk()
            numbers = []
            while not numbers or numbers[-1] != 49:
                numbers.append(int(slow.chunk().split()[0]))
            assert numbers == sorted(numbers) and len(numbers) < 50

    def test_catch_up_misses_nothing_and_costs_little(self, start):
        server = start(*self.FLAGS, "--history-bytes", "16MiB")
        with Sse(server, "slow", receive_buffer=4096) as slow, Sse(server, "slow") as quick:
            receipts = [server.publish("slow", f"{n} " + "x" * 20_000) for n in range(200)]
            assert [quick.event()[2] for _ in receipts] == [receipt["id"] for receipt in receipts]
            worst = max(session["backlog_bytes"] for session in server.sessions("slow"))
            assert worst < 24_000, "one event, and no backlog"
            assert server.totals()["catch_ups"] >= 1
            ids = [slow.event()[2] for _ in receipts]
            assert ids == [receipt["id"] for receipt in receipts]
            assert server.publish("slow", "live")["online"] == 1
            assert slow.data() == "live"
            totals = server.totals()
            assert totals["deliveries"]["lost"] == totals["connections_closed"]["slow"] == 0

    def test_catch_up_without_a_history_closes(self, start):
        server = start(*self.FLAGS, "--history-bytes", "0")
        with Sse(server, "slow", receive_buffer=4096):
            for _ in range(20):
                server.publish("slow", LARGE)
            until(lambda: server.totals()["connections_closed"]["slow"] == 1, "closed")

    def test_an_unknown_policy_is_refused(self, start):
        server = start()
        for query in ("slow=never", "slow=", "slow=%0d%0aX:1", "slow=" + "x" * 1000):
            with Connection(server) as connection:
                connection.get(f"/events/1?{query}")
                response = connection.response()
                assert response.status == 400
                assert response.text.endswith("leave slow out, or use one of close, catch-up, drop-oldest, latest\n")
                assert "x" * 100 not in response.text


def test_an_event_without_bytes_is_not_written_to_test(start):
    server = start()
    with Stream(server, "/test/1"):
        receipt = server.publish("1", "")
        assert (receipt["online"], receipt["written"], receipt["shed"]) == (1, 0, 1)
