"""Readers that stop reading while events go on."""

import threading
import time

from harness.http import Sse
from harness.server import Server
from harness.wait import until

from .fault import fault
from .herd import Herd, buffers, percentile, sessions

STREAM = b"GET /events/ticker HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Publisher(threading.Thread):
    """Publishes the time at a rate, until it is told to stop."""

    def __init__(self, server, rate):
        super().__init__(daemon=True)
        self.server, self.rate, self.going, self.sent = server, rate, True, 0
        self.start()

    def run(self):
        began = time.monotonic()
        while self.going:
            due = int((time.monotonic() - began) * self.rate) - self.sent
            if due > 0:
                lines = (b'{"subject":"ticker","data":"%d"}\n' % time.monotonic_ns() for _ in range(due))
                answer = self.server.api.post("/v1/publish?receipts=summary", content=b"".join(lines))
                assert answer.status_code == 200, answer.text
                self.sent += due
            time.sleep(0.002)

    def stop(self):
        self.going = False
        self.join(30)


def latencies(server, seconds):
    """Ascending seconds from the publish of each event to its arrival at a healthy reader."""
    found = []
    deadline = time.monotonic() + seconds
    with Sse(server, "ticker") as reader:
        reader.data()
        while time.monotonic() < deadline:
            found.append((time.monotonic_ns() - int(reader.data())) / 1e9)
    return sorted(found)


@fault(10_000)
def stopped_readers(outcome, count, rate=1_000, seconds=10.0, flags=()):
    server = Server(*flags)
    publisher = None
    try:
        reading = max(1, count // 10)
        with Herd(server.public, reading, STREAM):
            until(lambda: sessions(server) == reading, "logged in", patience=60)
            publisher = Publisher(server, rate)
            healthy = latencies(server, seconds)
            with Herd(server.public, count, STREAM, reads=False, receive_buffer=4096) as herd:
                beside = latencies(server, seconds)
                outcome.figure("buffers", *buffers(server), " B")
                before, after = (percentile(times, 99) * 1000 for times in (healthy, beside))
                outcome.figure("p99 of healthy readers before", before, unit=" ms")
                # On an idle machine a hundredth of a second is noise.
                outcome.figure("p99 of healthy readers beside them", after, max(2 * before, 10.0), " ms")
                # They were idle for as long as the second measurement took.
                herd.read(True)
                began = time.monotonic()
                until(lambda: not server.totals()["backlog_sessions"], "cut or caught up", patience=120)
                outcome.figure("cut or caught up after", time.monotonic() - began, 12.0, " s")
    finally:
        if publisher:
            publisher.stop()
        server.stop()
