"""A cap on memory (a control group) under several attacks at once."""

import contextlib
import os
import pathlib
import time

from harness.wait import until

from .fault import fault
from .heads import SHORT
from .herd import Herd, crowded, sessions

STREAM = b"GET /events/capped HTTP/1.1\r\nHost: localhost\r\n\r\n"
CONTROL_GROUPS = pathlib.Path("/sys/fs/cgroup")


@contextlib.contextmanager
def control_group():
    """An empty control group of either version, and the name of its limit."""
    is_second = (CONTROL_GROUPS / "cgroup.controllers").exists()
    group = CONTROL_GROUPS / ("" if is_second else "memory") / f"encke-faults-{os.getpid()}"
    if is_second:
        (CONTROL_GROUPS / "cgroup.subtree_control").write_text("+memory")
    group.mkdir()
    try:
        yield group, "memory.max" if is_second else "memory.limit_in_bytes"
    finally:
        # Empty once the server has ended.
        until(lambda: not (group / "cgroup.procs").read_text(), "empty")
        group.rmdir()


def usage(group):
    for name in ("memory.current", "memory.usage_in_bytes"):
        if (group / name).exists():
            return int((group / name).read_text())
    raise AssertionError("the control group does not say what it uses")


@fault(100_000)
def memory_capped(outcome, count, room=256 << 20, seconds=30.0, buffer_bytes="64MiB"):
    """Half-sent heads, readers that stop and floods of events, with little more memory than the sessions need."""
    with control_group() as (group, limit):
        server = crowded("--buffer-bytes", buffer_bytes, room=count + 2 * (count // 5))
        try:
            (group / "cgroup.procs").write_text(str(server.pid))
            with Herd(server.public, count, STREAM) as logged_in:
                until(lambda: sessions(server) == count, "logged in", patience=120)
                steady = usage(group)
                (group / limit).write_text(str(steady + room))
                attackers = max(1, count // 5)
                with (
                    Herd(server.public, attackers, SHORT.ljust(8191, b"x")),
                    Herd(server.public, attackers, STREAM.replace(b"capped", b"flood"), reads=False),
                ):
                    deadline = time.monotonic() + seconds
                    while time.monotonic() < deadline and server.process.poll() is None:
                        server.publish("flood", "x" * 60_000)
                outcome.require(server.process.poll() is None, "the server was killed")
                state = logged_in.state()
                outcome.figure("memory above the steady state", (usage(group) - steady) / 1e6, room / 1e6, " MB")
                outcome.figure("logged-in clients lost", count - state["open"], count // 1000)
        finally:
            (group / limit).write_text("-1" if limit.endswith("in_bytes") else "max")
            server.stop()
