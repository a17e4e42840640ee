"""Clients that do not read, break off, or say nothing; servers that run out of room."""

import ctypes
import re
import socket
import struct
import threading
import time

import httpx
import pytest

from support.http import PLAIN, Closed, Connection, Ndjson, Sse, elapsed
from support.server import measure_cpu
from support.wait import PATIENCE, PROMPT, in_time, punctually, until

LARGE = "x" * 65536


def fill(server, subject, patience=PATIENCE):
    """Publishes until an event waits in a backlog; returns that receipt and how many were written."""
    deadline = time.monotonic() + patience
    written = 0
    while time.monotonic() < deadline:
        receipt = server.publish(subject, LARGE)
        if receipt["queued"] or receipt["shed"]:
            return receipt, written
        written += receipt["written"]
    raise AssertionError(f"after {written} events the socket is still not full")


WIRES = [(Sse, "HTTP/1.1"), (Sse, "HTTP/1.0"), (Ndjson, "HTTP/1.1"), (Ndjson, "HTTP/1.0")]


class TestSlowReader:
    def test_waits_then_is_closed_for_stalling(self, start):
        server = start("--stall-timeout", "3s", "--backlog-bytes", "1MiB")
        with Sse(server, "slow", receive_buffer=4096) as slow, Sse(server, "quick") as quick:
            receipt, _ = fill(server, "slow")
            assert (receipt["online"], receipt["queued"], receipt["shed"]) == (1, 1, 0)
            (session,) = server.sessions("slow")
            assert session["backlog_frames"] >= 1
            assert session["backlog_bytes"] > 0
            assert session["bytes_unacknowledged"] > 0
            totals = server.totals()
            assert totals["backlog_sessions"] == 1 and totals["backlog_bytes"] > 0
            took, _ = elapsed(lambda: until(lambda: server.totals()["connections"] == 1, "closed"))
            assert took < PROMPT
            stats = server.stats()
            assert stats["totals"]["connections_closed"]["slow"] == 1
            assert stats["slow"] == [{"id": "slow", "count": 1}]
            assert (stats["totals"]["backlog_sessions"], stats["totals"]["backlog_bytes"]) == (0, 0)
            assert stats["totals"]["deliveries"]["lost"] >= 1
            assert server.publish("slow", "x")["online"] == 0
            assert server.publish("quick", "x")["written"] == 1
            assert quick.data() == "x"
            # What it finds is an end, not a stream that looks whole.
            with pytest.raises((Closed, AssertionError)):
                while slow.event() is not None:
                    pass
                pytest.fail("the stream ended as if it were whole")

    def test_is_closed_for_owing_too_much(self, start):
        server = start("--stall-timeout", "60s", "--backlog-bytes", "128KiB", "--slow", "close")
        with Sse(server, "slow", receive_buffer=4096):
            receipt, _ = fill(server, "slow")
            receipts = [receipt]
            while not receipts[-1]["shed"]:
                assert len(receipts) < 10, receipts
                receipts.append(server.publish("slow", LARGE))
            assert receipts[-1]["online"] == 1
            assert (receipts[-1]["written"], receipts[-1]["queued"]) == (0, 0)
            assert [receipt["queued"] for receipt in receipts[:-1]] == [1] * (len(receipts) - 1)
            assert server.stats()["slow"] == [{"id": "slow", "count": 1}]
            # The publisher is told before the turn ends, in which it is closed.
            until(lambda: server.totals()["connections"] == 0, "closed")
            totals = server.totals()
            assert totals["connections_closed"]["slow"] == 1
            assert totals["deliveries"]["shed"] == 1
            assert totals["deliveries"]["lost"] == len(receipts) - 1

    @pytest.mark.parametrize(("transport", "version"), WIRES)
    def test_that_reads_on_misses_nothing(self, start, transport, version):
        server = start("--stall-timeout", "60s", "--backlog-bytes", "1MiB")
        with transport(server, "slow", receive_buffer=4096, version=version) as slow:
            sent = []
            while not sent or not sent[-1]["queued"]:
                sent.append(server.publish("slow", LARGE))
                assert not sent[-1]["shed"]
            for number in range(5):
                sent.append(server.publish("slow", f"{number}"))
                assert sent[-1]["queued"] == 1
            got = [slow.event() for _ in sent]
            if transport is Ndjson:
                got = [("message", event["data"], event["id"]) for event in got]
            assert [event[2] for event in got] == [receipt["id"] for receipt in sent]
            assert [event[1] for event in got[-5:]] == ["0", "1", "2", "3", "4"]
            assert all(event[1] == LARGE for event in got[:-5])
            until(lambda: server.totals()["backlog_sessions"] == 0, "flushed")
            totals = server.totals()
            assert totals["backlog_bytes"] == 0
            assert totals["deliveries"]["lost"] == totals["deliveries"]["shed"] == 0
            assert server.publish("slow", "on")["written"] == 1
            assert slow.data() == "on"

    def test_that_reads_a_little_now_and_then_is_not_stalled(self, start):
        """The kernel reports room when a third of its megabytes is free: at this pace long after the test."""
        server = start("--stall-timeout", "3s", "--backlog-bytes", "4MiB")

        def trial(step):
            closed = server.totals()["connections_closed"]["slow"]
            with Sse(server, "slow", receive_buffer=4096) as slow:
                fill(server, "slow")
                step.last = began = time.monotonic()
                for _ in range(40):
                    server.publish("slow", LARGE)
                while time.monotonic() - began < 8:
                    slow.connection.take(10_000)
                    step()
                    time.sleep(0.2)
                assert server.totals()["connections_closed"]["slow"] == closed
                assert len(server.sessions("slow")) == 1
                step()
            until(lambda: not server.sessions("slow"), "gone")

        punctually(trial, 1.0)

    def test_that_is_kicked(self, start):
        """It is logged out at once, and has as long as it may stall to take what it is owed."""
        server = start("--stall-timeout", "60s", "--head-timeout", "1s", "--backlog-bytes", "1MiB")
        with Sse(server, "slow", receive_buffer=4096) as slow:
            _, written = fill(server, "slow")
            assert server.api.delete("/v1/sessions/slow").json() == {"closed": 1}
            until(lambda: server.publish("slow", "too late")["online"] == 0, "logged out")
            for _ in range(written + 1):
                assert slow.data() == LARGE
            assert slow.event() is None
        server = start("--stall-timeout", "1s", "--head-timeout", "1s", "--backlog-bytes", "1MiB")
        with Sse(server, "slower", receive_buffer=4096):
            fill(server, "slower")
            server.api.delete("/v1/sessions/slower")
            until(lambda: server.totals()["connections"] == 0, "closed")
        assert server.totals()["backlog_bytes"] == 0

    def test_others_feel_nothing(self, start):
        # The slow are waited for two seconds.
        in_time(lambda: self.slowest_of_others(start), 1.0)

    def slowest_of_others(self, start):
        """How long an event took to one who reads, while others do not."""
        server = start("--stall-timeout", "2s", "--backlog-bytes", "256KiB")
        for fan in ("slow", "quick"):
            server.subscribe(fan, "star")
        streams = [Sse(server, "slow", receive_buffer=4096) for _ in range(4)]
        got, worst = [], [0.0]
        with Ndjson(server, "quick") as quick:

            def read():
                while (event := quick.event()) and event["data"] != "end":
                    sent = float(event["data"].partition(" ")[0])
                    worst[0] = max(worst[0], time.monotonic() - sent)
                    got.append(event["id"])

            reader = threading.Thread(target=read)
            reader.start()
            sent = []
            while server.totals()["connections_closed"]["slow"] < 4:
                receipt = server.publish("star", f"{time.monotonic()} {LARGE[:60_000]}")
                sent.append(receipt["id"])
                assert len(sent) < 2000
            server.publish("quick", "end")
            reader.join()
        assert got == sent
        for stream in streams:
            stream.close()
        return worst[0]


def test_reader_of_requests_that_reads_no_answers(start):
    """Answers wait for a reader as events do; requests behind them are not read on meanwhile."""
    server = start("--stall-timeout", "1s", "--head-timeout", "1s")
    with Connection(server, receive_buffer=4096) as connection:
        connection.socket.settimeout(PATIENCE)
        request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000
        with pytest.raises((TimeoutError, BrokenPipeError, ConnectionResetError)):
            for _ in range(2000):
                connection.socket.sendall(request)
    until(lambda: server.totals()["connections"] == 0, "closed")
    assert server.totals()["backlog_bytes"] == 0
    assert server.resident_bytes() < 200 << 20


class TestNothingLeaks:
    @pytest.fixture
    def server(self, start):
        # A history keeps the ids of its events in the dictionary.
        server = start(
            *("--head-timeout", "1s", "--stall-timeout", "1s", "--user-timeout", "2s"),
            *("--history-bytes", "0"),
        )
        with Sse(server, "warm") as stream:
            server.publish("warm", "x")
            stream.data()
        until(lambda: server.totals()["connections"] == 0, "closed")
        self.before = server.baseline()
        return server

    def assert_as_before(self, server):
        server.until_as(self.before)
        # And it still serves.
        with Sse(server, "after") as stream:
            assert server.publish("after", "x")["written"] == 1
            assert stream.data() == "x"

    def test_connect_and_leave(self, server):
        for _ in range(500):
            Connection(server).close()
        self.assert_as_before(server)

    @pytest.mark.parametrize(
        "sent",
        [
            b"",
            b"GET /events/a HT",
            b"GET /events/a,b,c HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20,
            b"nonsense\r\n\r\n",
        ],
        ids=["nothing", "half a head", "stream", "pages", "nonsense"],
    )
    def test_storm_of_resets(self, server, sent):
        for _ in range(10):
            connections = [Connection(server) for _ in range(50)]
            for connection in connections:
                connection.send(sent)
            for number, connection in enumerate(connections):
                connection.reset() if number % 2 else connection.close()
        self.assert_as_before(server)

    def test_reset_after_the_head_while_published_to(self, server):
        """Events in flight to a session that dies meet a closed slot."""
        stop = threading.Event()
        failures = []

        def publish():
            with httpx.Client(base_url=server.control_url, timeout=PATIENCE, **PLAIN) as api:
                while not stop.is_set():
                    receipt = api.post("/v1/publish/star", content="x" * 1000).json()
                    told = receipt["written"] + receipt["queued"] + receipt["shed"]
                    if told < receipt["online"]:
                        failures.append(receipt)

        thread = threading.Thread(target=publish)
        thread.start()
        try:
            for _ in range(15):
                streams = [Sse(server, f"star,own-{n}") for n in range(30)]
                for number, stream in enumerate(streams):
                    stream.reset() if number % 3 else stream.close()
        finally:
            stop.set()
            thread.join()
        assert not failures, failures[:3]
        self.assert_as_before(server)

    def test_broken_off_while_owed(self, server):
        for number in range(4):
            stream = Sse(server, f"owed-{number}", receive_buffer=4096)
            fill(server, f"owed-{number}")
            stream.reset() if number % 2 else stream.close()
        self.assert_as_before(server)

    def test_slot_is_not_given_to_a_stranger(self, server):
        """Connections come and go on the same slots: nobody gets another's event."""
        for number in range(60):
            with Sse(server, f"stranger-{number}") as stream:
                for other in range(max(0, number - 3), number):
                    server.publish(f"stranger-{other}", "not yours")
                server.publish(f"stranger-{number}", f"yours {number}")
                assert stream.data() == f"yours {number}"
        self.assert_as_before(server)

    def test_clients_that_end_their_side(self, server):
        """A half-closed stream has no reader worth a slot."""
        streams = [Sse(server, f"half-{n}") for n in range(50)]
        for stream in streams:
            stream.connection.socket.shutdown(socket.SHUT_WR)
        self.assert_as_before(server)
        for stream in streams:
            stream.close()

    def test_silent_clients(self, server):
        connections = [Connection(server) for _ in range(50)]
        for connection in connections[::2]:
            connection.send(b"GET /")
        self.assert_as_before(server)
        for connection in connections:
            connection.close()

    def test_clients_that_do_not_end_after_a_refusal(self, server):
        """The server waits a little for their end, and no longer."""
        connections = [Connection(server) for _ in range(50)]
        for connection in connections:
            connection.send(b"nonsense\r\n\r\n")
        self.assert_as_before(server)
        for connection in connections:
            connection.close()

    def test_vanished_peers_are_found(self, server):
        """A peer whose machine is gone acknowledges nothing: TCP_USER_TIMEOUT while something is sent
        to it, keepalive while nothing is."""
        streams = [Sse(server, f"vanished-{n}") for n in range(6)]
        try:
            for stream in streams:
                vanish(stream.connection.socket)
        except OSError as error:
            pytest.skip(f"this kernel lets no socket go deaf: {error}")
        for number in range(3):
            assert server.publish(f"vanished-{number}", "anybody?")["online"] == 1
        self.assert_as_before(server)
        closed = server.totals()["connections_closed"]
        assert closed["reset"] + closed["timeout"] + closed["slow"] >= 6, closed
        for stream in streams:
            stream.close()


def vanish(connection):
    """Makes a socket deaf: a filter drops what arrives before TCP sees it, so nothing is acknowledged."""
    instruction = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))  # BPF_RET | BPF_K
    program = struct.pack("HL", 1, ctypes.addressof(instruction))
    connection.setsockopt(socket.SOL_SOCKET, 26, program)  # SO_ATTACH_FILTER


class TestDescriptorsRunOut:
    LIMIT = 96

    def exhaust(self, server, count):
        """Connects more than there are descriptors for: the kernel completes these connections and
        the server cannot accept them."""
        first = Connection(server)
        first.get("/events/user-0")
        assert first.head()[0] == 200
        connections = [first, *(Connection(server) for _ in range(count - 1))]
        for number, connection in enumerate(connections[1:], 1):
            connection.get(f"/events/user-{number}")
        until(lambda: server.totals()["accept_pauses"] > 0, "paused")
        return connections

    def test_pauses_and_resumes(self, start):
        server = start("--history-bytes", "0", nofile=self.LIMIT)
        before = server.baseline()
        connections = self.exhaust(server, 2 * self.LIMIT)
        # Those inside are served.
        until(lambda: server.descriptors() >= self.LIMIT - 2, "all descriptors taken")
        inside = server.stats()["online"]
        assert 0 < inside < self.LIMIT
        assert server.publish("user-0", "x")["written"] == 1
        # The control listener has some descriptors of its own. Without room neither listener spins.
        outside = [socket.create_connection(server.control) for _ in range(3)]
        spent = measure_cpu(server, 2)
        assert spent < 0.4, f"{spent} s of CPU in 2 s of waiting"
        assert "ulimit" in server.log, "the warning says what to do"
        # Room for those outside: each gets its stream.
        for connection in connections[: self.LIMIT + 40]:
            connection.close()
        for connection in connections[self.LIMIT + 40 :]:
            assert connection.head()[0] == 200
            connection.close()
        for connection in outside:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
            connection.close()
        server.until_as(before)
        # The control listener, which has the same descriptors, is back as well.
        answer = httpx.get(f"{server.control_url}/healthz", timeout=PATIENCE, **PLAIN)
        assert answer.status_code == 200

    def test_private_tables_count_for_each_worker(self, start):
        server = start("--private-fds", nofile=self.LIMIT, workers=4)
        connections = [Connection(server) for _ in range(2 * self.LIMIT)]
        try:
            for number, connection in enumerate(connections):
                connection.get(f"/events/user-{number}")
            until(lambda: server.stats()["online"] == 2 * self.LIMIT, "all online")
            assert server.totals()["accept_pauses"] == 0
            assert server.publish("user-7", "x")["written"] == 1
        finally:
            for connection in connections:
                connection.close()
        until(lambda: server.totals()["connections"] == 0, "closed")


class TestConnectionLimits:
    def refused(self, server, **options):
        with Connection(server, **options) as connection:
            connection.get("/events/late")
            response = connection.response()
            assert response.status == 503
            assert re.fullmatch(r"[1-9]\d*", response.fields["Retry-After"])
            assert response.fields["Connection"] == "close"
            assert response.text.endswith("\n") and response.text.count("\n") == 1
            assert connection.rest() == b""

    def test_of_the_server(self, start):
        server = start("--max-connections", "5")
        streams = [Sse(server, f"user-{n}") for n in range(5)]
        for _ in range(3):
            self.refused(server)
        totals = server.totals()
        assert totals["connections_refused"] == {"server": 3, "address": 0, "buffers": 0}
        assert server.publish("user-0", "x")["written"] == 1
        assert streams[0].data() == "x"
        streams.pop().close()
        until(lambda: server.totals()["connections"] == 4, "one has left")
        streams.append(Sse(server, "next"))
        self.refused(server)
        for stream in streams:
            stream.close()
        until(lambda: server.totals()["connections"] == 0, "closed")

    def test_of_an_address(self, start):
        server = start("--max-connections-per-address", "3")
        streams = [Sse(server, f"user-{n}") for n in range(3)]
        for _ in range(3):
            self.refused(server)
        assert server.totals()["connections_refused"] == {"server": 0, "address": 3, "buffers": 0}
        # Another address has places of its own.
        others = [Sse(server, f"other-{n}", source="127.0.0.2") for n in range(3)]
        self.refused(server, source="127.0.0.2")
        streams[0].reset()
        streams[1].close()
        until(lambda: server.totals()["connections"] == 4, "two have left")
        streams[:2] = [Sse(server, "again-1"), Sse(server, "again-2")]
        self.refused(server)
        for stream in streams + others:
            stream.close()
        until(lambda: server.totals()["connections"] == 0, "closed")
        with Sse(server, "free"):
            pass
