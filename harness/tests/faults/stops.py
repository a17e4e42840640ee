"""A server that is stopped for a while (SIGSTOP, a suspended machine), and clocks that jump."""

import contextlib
import email.utils
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from support.server import Server
from support.wait import until

from .fault import fault
from .herd import Herd, crowded, sessions

STREAM = b"GET /events/stopped HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF, REST = STREAM[:30], STREAM[30:]


# A worker takes the next stop for one when it has run so long behind the last: five seconds, and two to catch up.
AWAKE = 8.0


def stopped(outcome, count, seconds, *flags, earlier=0.0):
    """Clients that are logged in, and others whose requests come while the server is stopped. `earlier` is the time for which it was
    stopped shortly before."""
    server = crowded(*flags, room=count + count // 5)
    try:
        with contextlib.ExitStack() as herds:
            logged_in = herds.enter_context(Herd(server.public, count, STREAM))
            until(lambda: sessions(server) == count, "logged in", patience=120)
            if earlier:
                os.kill(server.pid, signal.SIGSTOP)
                time.sleep(earlier)
                os.kill(server.pid, signal.SIGCONT)
                time.sleep(AWAKE)
            late = herds.enter_context(Herd(server.public, max(1, count // 10), HALF))
            os.kill(server.pid, signal.SIGSTOP)
            time.sleep(seconds / 2)
            late.send(REST)
            new = herds.enter_context(Herd(server.public, max(1, count // 20), STREAM))
            time.sleep(seconds / 2)
            os.kill(server.pid, signal.SIGCONT)
            due = count + sum(herd_size(herd) for herd in (late, new))
            # What would be reaped is reaped within a few seconds.
            deadline = time.monotonic() + 10
            while sessions(server) < due and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(1)
            lost = count - logged_in.state()["open"]
            outcome.figure("logged-in clients lost", lost, int(count * 0.001))
            for name, herd in (("began before", late), ("came meanwhile", new)):
                # Who is answered with 408 has heard something, and is closed.
                state = herd.state()
                unanswered = herd_size(herd) - min(state["heard"], state["open"])
                outcome.figure(f"requests not answered that {name}", unanswered, 0)
            outcome.figure("sessions missing", due - sessions(server), int(count * 0.001))
    finally:
        os.kill(server.pid, signal.SIGCONT)
        server.stop()


def herd_size(herd):
    state = herd.state()
    return state["open"] + state["closed"] + state["reset"]


@fault(100_000)
def stopped_for_12_seconds(outcome, count, seconds=12.0, flags=()):
    stopped(outcome, count, seconds, *flags)


@fault(100_000)
def stopped_for_40_seconds(outcome, count, seconds=40.0, flags=()):
    stopped(outcome, count, seconds, *flags)


@fault(100_000)
def stopped_twice(outcome, count, seconds=12.0, flags=()):
    stopped(outcome, count, seconds, *flags, earlier=seconds)


# The wall clock of one program, moved by as many seconds as a file says.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *out) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, out);
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) {
        static __thread long shift, read_at;
        struct timespec now;
        real(CLOCK_MONOTONIC, &now);
        if (now.tv_sec != read_at) {
            FILE *file = fopen(getenv("CLOCK_SHIFT"), "r");
            if (file) { if (fscanf(file, "%ld", &shift) != 1) shift = 0; fclose(file); }
            read_at = now.tv_sec;
        }
        out->tv_sec += shift;
    }
    return result;
}
"""


def time_of_server(server):
    """The wall clock of the server, in seconds: its answers say it."""
    date = server.api.get("/healthz").headers["Date"]
    return email.utils.parsedate_to_datetime(date).timestamp()


@fault(10_000)
def clock_steps(outcome, count, watched=30.0, flags=()):
    """The wall clock jumps by an hour and by ten years, forward and back."""
    with tempfile.TemporaryDirectory(prefix="encke-clock-") as directory:
        directory = pathlib.Path(directory)
        (directory / "shim.c").write_text(SHIM)
        shift = directory / "shift"
        shift.write_text("0")
        command = ["cc", "-shared", "-fPIC", "-o", directory / "shim.so", directory / "shim.c", "-ldl"]
        subprocess.run(command, check=True)
        environment = {"LD_PRELOAD": str(directory / "shim.so"), "CLOCK_SHIFT": str(shift)}
        server = Server(*flags, env=environment)
        try:
            with Herd(server.public, count, STREAM) as herd:
                until(lambda: sessions(server) == count, "logged in", patience=120)
                for step in (3600, 0, -3600, 315_576_000, 0, -315_576_000, 0):
                    shift.write_text(str(step))
                    time.sleep(watched / 7)
                    receipt = server.publish("stopped", "tick")
                    outcome.require(receipt["written"] == count, f"at {step} s: {receipt}")
                    # What makes its answers keeps the latest date when the clock goes back.
                    ahead = time_of_server(server) - time.time()
                    seen = step <= 0 or abs(ahead - step) < 60
                    outcome.require(seen, f"the server's clock is {ahead:.0f} s ahead, and not {step} s")
                outcome.figure("sessions dropped", count - herd.state()["open"], 0)
        finally:
            server.stop()
