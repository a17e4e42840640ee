"""Ends of the server: drains, and kills after which all come back."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from support.program import program_of
from support.wait import until

from .fault import fault
from .herd import Herd, crowded, room_for_a_million, sessions

STREAM = b"GET /events/draining HTTP/1.1\r\nHost: localhost\r\n\r\n"
TESTS = pathlib.Path(__file__).resolve().parents[1]


@fault(1_000_000)
def drained(outcome, count, limit=75.0, flags=("--drain-timeout", "70s")):
    """SIGTERM: the closes are paced, and the server ends in time."""
    server = crowded(*flags, room=count)
    try:
        with room_for_a_million(), Herd(server.public, count, STREAM) as herd:
            until(lambda: sessions(server) == count, "logged in", patience=600)
            began = time.monotonic()
            server.signal()
            worst, at, left = 0.0, began, count
            while left and time.monotonic() < began + 2 * limit:
                # Clients on the same cores notice in bursts.
                time.sleep(3)
                now, state = time.monotonic(), herd.state()
                worst = max(worst, (left - state["open"]) / (now - at))
                at, left = now, state["open"]
            outcome.figure("most closes a second", worst, 20_000)
            server.wait(2 * limit)
            outcome.figure("ended after", time.monotonic() - began, limit, " s")
            outcome.figure("connections reset", herd.state()["reset"], 0)
    finally:
        server.stop()


def memory_of(pid):
    """Resident bytes of a process, and the most that it ever had."""
    fields = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    return [int(fields[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM")]


def servers_of(pid):
    """The processes `encke serve` that a process has started."""
    for children in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            if b"serve" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0"):
                yield int(child)


@fault(1_000_000)
def killed_under_clients(outcome, count, rate=5_000, seconds=40, limit=60.0):
    """`kill -9` in the midst of events: all clients come back to the new server with their cursors, and get each
    event once."""
    with tempfile.TemporaryDirectory(prefix="encke-killed-") as directory:
        page = pathlib.Path(directory, "prove.html")
        command = [program_of("prove"), "prove", "--connections", count, "--rate", rate, "--duration", f"{seconds}s"]
        with open(pathlib.Path(directory, "said"), "w+") as said:
            command = [str(word) for word in (*command, "--restart", "--json", "-o", page)]
            proof = subprocess.Popen(command, stdout=said, cwd=directory)
            memory = {}
            while proof.poll() is None:
                # A server may end while it is looked at.
                with contextlib.suppress(OSError, KeyError):
                    for server in servers_of(proof.pid):
                        memory.setdefault(server, []).append(memory_of(server))
                time.sleep(0.2)
            said.seek(0)
            report = json.load(said)
        outcome.misses.extend(report["failures"])
        restart = report["driven"]["restart"]
        judgement = restart["judgement"]
        outcome.figure("clients that got each event once", judgement["exact"])
        outcome.figure("clients that were told of a gap", judgement["excused"])
        absence = restart["absence"]
        outcome.figure("median absence of a client", absence["p50_us"] / 1e6, unit=" s")
        outcome.figure("p99 absence of a client", absence["p99_us"] / 1e6, unit=" s")
        outcome.figure("longest absence of a client", absence["max_us"] / 1e6, limit, " s")
        old, new = (memory[server] for server in memory)
        steady, peak = max(old[-1][0], new[-1][0]), new[-1][1]
        outcome.figure("memory peak over the steady state", peak / steady, 1.3)
        outcome.figure("steady state", steady / 1e6, unit=" MB")


@fault(500)
def killed_under_writes(outcome, rounds):
    """`kill -9` while subscriptions and events are written, and a full disk: what was acknowledged is there, and
    nothing else."""
    for test in ("test_durable.py", "test_history_durable.py", "test_store.py"):
        environment = {**os.environ, "KILL_ROUNDS": str(rounds)}
        command = [sys.executable, "-m", "pytest", test, "--timeout", "3600"]
        run = subprocess.run(command, cwd=TESTS, env=environment, capture_output=True, text=True)
        outcome.require(run.returncode == 0, f"{test}: {run.stdout[-1000:]}")
        passed = re.search(r"\d+ (?:passed|failed).*", run.stdout)
        outcome.figures.append(f"{test}: {rounds} rounds: {passed and passed[0]}")
