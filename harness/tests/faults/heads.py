"""Half-sent heads: clients that begin a request and never end it."""

import time

from support.wait import until

from .fault import fault
from .herd import Herd, buffers, connect_times, crowded, percentile

SHORT = b"GET /events/rj HTTP/1.1\r\nHost: localhost\r\nX-Padding: "


def half_sent(outcome, count, bytes_each, head_timeout=10.0):
    server = crowded("--head-timeout", f"{head_timeout * 1000:.0f}ms", room=count)
    try:
        server.stats()
        before, memory = server.baseline(), server.resident_bytes()
        first = SHORT.ljust(bytes_each, b"x")
        began = time.monotonic()
        with Herd(server.public, count, first) as herd:
            opened = time.monotonic() - began
            outcome.figure("resident memory", (server.resident_bytes() - memory) / 1e6, 100, " MB")
            outcome.figure("buffers", *buffers(server), " B")
            # Five clients a second come while the server reaps.
            times = connect_times(server.public, 100, pause=0.002)
            outcome.figure("connect p99 of a good client", percentile(times, 99) * 1000, 20, " ms")
            until(lambda: herd.state()["open"] == 0, "all reaped", patience=3 * head_timeout + 60)
            reaped = time.monotonic() - began
            outcome.figure("last one reaped after the last one came", reaped - opened, head_timeout + 5, " s")
        server.until_as(before)
    finally:
        server.stop()


@fault(100_000)
def half_sent_heads(outcome, count, **options):
    half_sent(outcome, count, 64, **options)


@fault(100_000)
def half_sent_large_heads(outcome, count, **options):
    # One byte less than the limit of a head, which is refused at once.
    half_sent(outcome, count, 8191, **options)
