"""Memory that is refused, or capped by a control group, under several attacks at once."""

import contextlib
import os
import pathlib
import re
import resource
import time

from support.wait import until

from .fault import fault
from .heads import SHORT
from .herd import Herd, crowded, sessions

FLAGS = ("--buffer-bytes", "64MiB")
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


def attack(server, attackers, seconds):
    """As many half-sent heads that come again, and readers that stop, floods of events, and batches, all at once."""
    line = b'{"subject":"flood","data":"' + b"x" * 1000 + b'"}\n'
    with (
        Herd(server.public, attackers, SHORT.ljust(8191, b"x"), again=True, may_fail=True),
        Herd(server.public, attackers, STREAM.replace(b"capped", b"flood"), reads=False),
    ):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and server.process.poll() is None:
            server.publish("flood", "x" * 60_000)
            server.api.post("/v1/publish?receipts=summary", content=line * 100)


def survives(outcome, server, count, attackers, seconds, refuse, used, room):
    """Logs clients in, takes memory away by `refuse`, attacks, and looks at who is left. `used` returns bytes."""
    with Herd(server.public, count, STREAM) as logged_in:
        until(lambda: sessions(server) == count, "logged in", patience=120)
        steady = used()
        refuse(steady + room)
        attack(server, attackers, seconds)
        outcome.require(server.process.poll() is None, "the server was killed")
        outcome.figure("memory above the steady state", (used() - steady) / 1e6, room / 1e6, " MB")
        outcome.figure("logged-in clients lost", count - logged_in.state()["open"], count // 1000)


@fault(100_000)
def memory_refused(outcome, count, attackers=None, room=256 << 20, seconds=30.0, flags=FLAGS):
    """The kernel refuses memory (`RLIMIT_DATA`) little beyond what the sessions need."""
    attackers = attackers or max(1, count // 5)
    server = crowded(*flags, room=count + 2 * attackers)
    try:

        def refuse(limit):
            resource.prlimit(server.pid, resource.RLIMIT_DATA, (limit, limit))

        def used():
            status = pathlib.Path(f"/proc/{server.pid}/status").read_text()
            return int(re.search(r"VmData:\s+(\d+) kB", status)[1]) << 10

        survives(outcome, server, count, attackers, seconds, refuse, used, room)
    finally:
        server.stop()


@fault(100_000)
def memory_capped(outcome, count, attackers=None, room=256 << 20, seconds=30.0, flags=FLAGS):
    """A control group with little more memory than the sessions need, that of the kernel's sockets included."""
    attackers = attackers or max(1, count // 5)
    with control_group() as (group, limit):
        server = crowded(*flags, room=count + 2 * attackers)
        try:
            (group / "cgroup.procs").write_text(str(server.pid))

            def refuse(bytes_):
                (group / limit).write_text(str(bytes_))

            survives(outcome, server, count, attackers, seconds, refuse, lambda: usage(group), room)
        finally:
            (group / limit).write_text("-1" if limit.endswith("in_bytes") else "max")
            server.stop()
