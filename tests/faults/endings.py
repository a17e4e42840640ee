"""Ends of the server: drains, and kills after which all come back."""

import os
import pathlib
import subprocess
import sys
import time

from harness.server import Server
from harness.wait import until

from .fault import fault
from .herd import Herd, sessions

STREAM = b"GET /events/draining HTTP/1.1\r\nHost: localhost\r\n\r\n"
TESTS = pathlib.Path(__file__).resolve().parents[1]


@fault(1_000_000)
def drained(outcome, count, limit=75.0, flags=("--drain-timeout", "70s")):
    """SIGTERM: the closes are paced, and the server ends in time."""
    server = Server(*flags)
    try:
        with Herd(server.public, count, STREAM) as herd:
            until(lambda: sessions(server) == count, "logged in", patience=600)
            began = time.monotonic()
            server.signal()
            worst, at, left = 0.0, began, count
            while left and time.monotonic() < began + 2 * limit:
                time.sleep(0.5)
                now, state = time.monotonic(), herd.state()
                worst = max(worst, (left - state["open"]) / (now - at))
                at, left = now, state["open"]
            outcome.figure("most closes a second", worst, 20_000)
            server.wait(2 * limit)
            outcome.figure("ended after", time.monotonic() - began, limit, " s")
            outcome.figure("connections reset", herd.state()["reset"], 0)
    finally:
        server.stop()


@fault(500)
def killed_under_writes(outcome, rounds):
    """`kill -9` while subscriptions and events are written, and a full disk: what was acknowledged is there, and
    nothing else."""
    for test in ("test_durable.py", "test_history_durable.py", "test_store.py"):
        environment = {**os.environ, "KILL_ROUNDS": str(rounds)}
        command = [sys.executable, "-m", "pytest", test, "-q", "--timeout", "3600"]
        run = subprocess.run(command, cwd=TESTS, env=environment, capture_output=True, text=True)
        outcome.require(run.returncode == 0, f"{test}: {run.stdout[-1000:]}")
        outcome.figures.append(f"{test}: {rounds} rounds: {run.stdout.strip().splitlines()[-1]}")
