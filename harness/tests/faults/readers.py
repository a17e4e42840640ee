"""Readers that stop reading while events go on."""

import time

from support.http import Sse
from support.server import Server
from support.wait import until

from .fault import beside, fault
from .herd import Herd, buffers, percentile, sessions

STREAM = b"GET /events/ticker HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Publisher:
    """Publishes the time at a rate."""

    def __init__(self, server, rate):
        self.server, self.rate, self.sent = server, rate, 0

    def run(self, going):
        began = time.monotonic()
        while going():
            due = int((time.monotonic() - began) * self.rate) - self.sent
            if due > 0:
                lines = (b'{"subject":"ticker","data":"%d"}\n' % time.monotonic_ns() for _ in range(due))
                answer = self.server.api.post("/v1/publish?receipts=summary", content=b"".join(lines))
                assert answer.status_code == 200, answer.text
                self.sent += due
            time.sleep(0.002)


def latencies(server, seconds):
    """Ascending seconds from the publish of each event to its arrival at a healthy reader."""
    found = []
    deadline = time.monotonic() + seconds
    with Sse(server, "ticker") as reader:
        reader.data()
        while time.monotonic() < deadline:
            found.append((time.monotonic_ns() - int(reader.data())) / 1e9)
    return sorted(found)


# Healthy readers beside them: with 1,000 events a second, a fifth of what two cores can deliver and read.
HEALTHY = 20


@fault(10_000)
def stopped_readers(outcome, count, rate=1_000, seconds=10.0, limit=12.0, flags=()):
    """Half of them never read again and are cut. The other half read on after half of the time for that, and catch up."""
    server = Server(*flags)
    publisher = Publisher(server, rate)
    try:
        with Herd(server.public, HEALTHY, STREAM):
            until(lambda: sessions(server) == HEALTHY, "logged in", patience=60)
            with beside(publisher.run) as end_publishing:
                healthy = latencies(server, seconds)
                with (
                    Herd(server.public, count // 2, STREAM, reads=False, receive_buffer=4096),
                    Herd(server.public, count - count // 2, STREAM, reads=False, receive_buffer=4096) as back,
                ):
                    stopped, sent = time.monotonic(), publisher.sent
                    # While their sockets fill, nobody can tell them from the healthy ones.
                    beside_filling, beside_full = latencies(server, limit / 4), latencies(server, limit / 4)
                    beside_them = sorted(beside_filling + beside_full)
                    outcome.figure("buffers", *buffers(server), " B")
                    before, after = (percentile(times, 99) * 1000 for times in (healthy, beside_them))
                    outcome.figure("p99 of healthy readers before", before, unit=" ms")
                    outcome.figure("p99 of healthy readers beside them", after, 2 * before, " ms")
                    full = percentile(beside_full, 99) * 1000
                    outcome.figure("p99 of healthy readers when their sockets are full", full, unit=" ms")
                    back.read(True)
                    began = time.monotonic()
                    left = HEALTHY + count - count // 2
                    until(lambda: sessions(server) <= left, "those that never read are cut", patience=120)
                    outcome.figure("cut after", time.monotonic() - stopped, limit, " s")
                    published = (publisher.sent - sent) / (time.monotonic() - stopped)
                    outcome.figure("events published a second", published)
                    enough = published > 0.9 * rate
                    outcome.require(enough, f"{published:.0f} events a second were published, and not {rate}")
                    end_publishing()
                    until(lambda: not server.totals()["sessions_replaying"], "caught up", patience=120)
                    outcome.figure("caught up after", time.monotonic() - began, limit, " s")
                    outcome.figure("those that read again and were cut", left - sessions(server), 0)
    finally:
        server.stop()
