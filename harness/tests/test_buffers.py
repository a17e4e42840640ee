"""The bound on the buffers of all connections together (`--buffer-bytes`), on a real machine."""

import contextlib
import json
import os
import pathlib
import threading

import pytest

from support.http import Closed, Connection, Sse
from support.sockets import exists
from support.wait import until

MEBIBYTE = 1 << 20
LARGE = "x" * 65_000


class MemoryGroup:
    """A control group with a limit on memory, of whichever version there is, inside that of this process."""

    def __init__(self, limit):
        self.limit = limit
        own = dict(line.split(":", 2)[1:] for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines())
        first = "memory" in own
        mount = pathlib.Path("/sys/fs/cgroup/memory" if first else "/sys/fs/cgroup")
        path = own["memory"] if first else own.get("", "/")
        # A container may see only its own group, at the top of what is mounted.
        seen = mount / path.lstrip("/")
        self.parent = seen if seen.is_dir() else mount
        self.directory = self.parent / f"encke-test-{os.getpid()}"
        self.limit_file = "memory.limit_in_bytes" if first else "memory.max"
        self.kills_file = "memory.oom_control" if first else "memory.events"

    def __enter__(self):
        try:
            self.directory.mkdir()
        except OSError as error:
            pytest.skip(f"no control group can be made below {self.parent}: {error.strerror}")
        try:
            (self.directory / self.limit_file).write_text(str(self.limit))
        except OSError as error:
            self.directory.rmdir()
            pytest.skip(f"memory cannot be limited below {self.parent}: {error.strerror}")
        return self

    def __exit__(self, *_):
        def is_removed():
            # A test that has failed leaves its server to the fixture.
            with contextlib.suppress(OSError):
                for pid in (self.directory / "cgroup.procs").read_text().split():
                    (self.parent / "cgroup.procs").write_text(pid)
                self.directory.rmdir()
            return not self.directory.exists()

        until(is_removed, "the control group is empty")

    @contextlib.contextmanager
    def entered(self):
        """What this process starts meanwhile is in the group. What it had before counts where it was."""
        try:
            (self.directory / "cgroup.procs").write_text("0")
        except OSError as error:
            pytest.skip(f"no process can be moved to {self.directory}: {error.strerror}")
        try:
            yield
        finally:
            (self.parent / "cgroup.procs").write_text("0")

    def kills(self):
        """Processes that the kernel has killed."""
        words = (self.directory / self.kills_file).read_text().split()
        return int(words[words.index("oom_kill") + 1])


def totals_of_buffers(server):
    totals = server.totals()
    return totals["buffer_bytes"], totals["buffer_give_ways"]


def test_1400_readers_that_stop_do_not_get_a_server_of_300_mib_killed(start):
    readers = 1400
    with MemoryGroup(300 * MEBIBYTE) as group, contextlib.ExitStack() as clients:
        with group.entered():
            server = start("--slow", "drop-oldest", "--backlog-bytes", "512KiB", "--stall-timeout", "60s", nofile=8192)
        assert "30 MiB, a tenth of 300 MiB (control group, " in server.log
        healthy = clients.enter_context(Sse(server, "healthy"))
        for number in range(readers):
            clients.enter_context(Connection(server, receive_buffer=4096)).get(f"/events/slow-{number}")
        until(lambda: server.totals()["sessions"]["sse"] == readers + 1, "there")
        got = []
        reading = threading.Thread(target=lambda: got.extend(healthy.event()[1] for _ in range(35)))
        reading.start()
        # 5 events of 65 kB each: 450 MB, of which 512 KiB may wait for each reader by itself.
        for round in range(5):
            for first in range(0, readers, 100):
                lines = [
                    json.dumps({"subject": f"slow-{number}", "data": LARGE}) for number in range(first, first + 100)
                ]
                if first % 200 == 0:
                    lines.append(json.dumps({"subject": "healthy", "data": f"{round}.{first}"}))
                batch = {"Content-Type": "application/x-ndjson"}
                answer = server.api.post("/v1/publish", content="\n".join(lines), headers=batch)
                assert answer.is_success, answer.text
                assert server.process.poll() is None, "killed"
        reading.join(30)
        assert got == [f"{round}.{first}" for round in range(5) for first in range(0, readers, 200)]
        until(lambda: server.totals()["buffer_bytes"] <= 30 * MEBIBYTE, "within the bound")
        _, gave_way = totals_of_buffers(server)
        assert gave_way["drop_oldest"] > 0
        assert group.kills() == 0
        clients.close()
        until(lambda: server.totals()["buffer_bytes"] == 0, "given back")
        server.stop()


def test_a_stranger_with_half_heads_keeps_nobody_out(start):
    server = start("--buffer-bytes", "1MiB", "--head-timeout", "60s")
    half = b"GET /events/1 HTTP/1.1\r\nHost: localhost\r\nX-Padding: " + b"x" * 7000
    with contextlib.ExitStack() as clients:
        strangers = [clients.enter_context(Connection(server)) for _ in range(400)]
        for number, stranger in enumerate(strangers):
            stranger.send(half)
            if number % 100 == 99:
                with Sse(server, "good") as good:
                    assert server.publish("good", str(number))["written"] == 1
                    assert good.data() == str(number)
        until(lambda: server.totals()["buffer_bytes"] <= MEBIBYTE, "within the bound")
        _, gave_way = totals_of_buffers(server)
        refused = server.totals()["connections_refused"]["buffers"]
        # 1 MiB has room for fewer than 150 of them.
        assert gave_way["input"] + refused >= 250, (gave_way, refused)
        assert {name: count for name, count in gave_way.items() if count and name != "input"} == {}
        answered = 0
        for stranger in strangers:
            with contextlib.suppress(AssertionError, Closed):
                stranger.more(patience=0.01)
                response = stranger.response()
                assert response.status == 503 and response.fields["Retry-After"], response
                answered += 1
        assert answered >= 250
    until(lambda: server.totals()["buffer_bytes"] == 0, "given back")


def test_the_kernel_keeps_nothing_for_a_reader_that_was_closed(start):
    """It would for `--user-timeout`, as the peer's window is closed and its kernel goes on answering."""
    server = start("--stall-timeout", "1s", "--user-timeout", "10min", "--slow", "close")
    with Sse(server, "slow", receive_buffer=4096) as slow:
        remote = slow.connection.socket.getsockname()
        assert exists(server.public, remote)
        while server.publish("slow", LARGE)["written"]:
            pass
        until(lambda: server.totals()["connections"] == 0, "closed")
        assert server.totals()["connections_closed"]["slow"] == 1
        until(lambda: not exists(server.public, remote), "forgotten by the kernel")
        # What had arrived can be read; then it is told.
        with pytest.raises(Closed):
            while slow.event():
                pass


UPGRADE = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: " + "A" * 22 + "==")


def test_a_websocket_that_takes_nothing_is_told_3008_as_soon_as_it_reads(start):
    server = start("--stall-timeout", "20s", "--backlog-bytes", "128KiB")
    with Connection(server, receive_buffer=4096) as slow:
        slow.get("/ws/slow?slow=close", *UPGRADE)
        assert slow.head()[0] == 101
        while not server.publish("slow", LARGE)["shed"]:
            pass
        assert server.sessions("slow") == []
        received, reason = b"", b"the client reads too slowly"
        with contextlib.suppress(Closed):
            while True:
                received = received[-100:] + slow.take(1)
        assert received.endswith(b"\x88" + bytes([2 + len(reason)]) + (3008).to_bytes(2, "big") + reason), received


def test_a_websocket_that_takes_nothing_for_the_stall_timeout_costs_nothing_soon_after(start):
    server = start("--stall-timeout", "1s", "--user-timeout", "10min")
    with Connection(server, receive_buffer=4096) as slow:
        slow.get("/ws/slow", *UPGRADE)
        assert slow.head()[0] == 101
        remote = slow.socket.getsockname()
        while server.publish("slow", LARGE)["written"]:
            pass
        until(lambda: not exists(server.public, remote), "forgotten by the kernel")
        until(lambda: server.totals()["connections"] == 0, "closed")
        assert server.totals()["connections_closed"]["slow"] == 1
        assert server.stats()["slow"] == [{"id": "slow", "count": 1}]
