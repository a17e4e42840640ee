"""Peers that vanish, break off, and come and go."""

import contextlib
import ctypes
import itertools
import os
import pathlib
import subprocess
import tempfile
import time

from support.server import Server
from support.wait import until

from .fault import fault
from .herd import PER_PROCESS, Herd, crowded, sessions

STREAM = b"GET /events/peer HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n"


@contextlib.contextmanager
def network(sources):
    """A network namespace behind a pair of virtual cards: the address of this side, and the name of the other."""
    name, here, there = f"encke-{os.getpid()}", f"ek{os.getpid()}a", f"ek{os.getpid()}b"

    def ip(*arguments):
        subprocess.run(["ip", *arguments], check=True)

    ip("netns", "add", name)
    try:
        ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
        ip("address", "add", "10.213.0.1/16", "dev", here)
        ip("link", "set", here, "up")
        ip("-n", name, "link", "set", "lo", "up")
        for source in range(sources):
            ip("-n", name, "address", "add", f"10.213.{2 + source // 250}.{1 + source % 250}/16", "dev", there)
        ip("-n", name, "link", "set", there, "up")
        state = pathlib.Path("/sys/class/net", here, "operstate")
        until(lambda: state.read_text().strip() == "up", "up")
        yield "10.213.0.1", name, there
    finally:
        # Sockets on the other side that nobody answers keep the namespace, and it the cards, for a while.
        subprocess.run(["ip", "link", "delete", here], stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL)


def _enter(namespace):
    """Python has `setns` since 3.12 only."""
    assert ctypes.CDLL(None, use_errno=True).setns(namespace, 0) == 0, os.strerror(ctypes.get_errno())


class Inside:
    """Runs what is forked meanwhile in a network namespace."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.own = os.open("/proc/self/ns/net", os.O_RDONLY)
        with open(f"/run/netns/{self.name}") as namespace:
            _enter(namespace.fileno())
        return self

    def __exit__(self, *_):
        _enter(self.own)
        os.close(self.own)


@fault(100_000)
def vanished_peers(outcome, count, limit=40.0, flags=()):
    """All packets are dropped: neither an end nor a reset arrives. To half of them an event is on its way; the others are
    quiet, and miss the next heartbeat only."""
    with network(2 + -(-count // PER_PROCESS)) as (host, name, card):
        server = crowded("--allow-anonymous", *flags, room=count, public=f"{host}:0")
        try:
            server.publish("peer", "the history refers to its subject from here on")
            before = server.baseline()
            addresses = (f"10.213.{2 + number // 250}.{1 + number % 250}" for number in itertools.count())
            quiet = count // 2
            with Inside(name):
                addressed = Herd(server.public, count - quiet, STREAM, sources=addresses)
                silent = Herd(server.public, quiet, STREAM.replace(b"peer", b"quiet"), sources=addresses)
            with addressed, silent:
                until(lambda: sessions(server) == count, "logged in", patience=300)
                subprocess.run(["ip", "-n", name, "link", "set", card, "down"], check=True)
                began = time.monotonic()
                server.publish("peer", "is anybody there?")
                # One of the two ids has no session any more; the quiet ones take longer.
                until(lambda: server.stats()["online"] <= 1, "freed", patience=10 * limit, pause=0.1)
                outcome.figure("those with an event on its way, freed after", time.monotonic() - began, limit, " s")
                until(lambda: server.totals()["connections"] == 0, "freed", patience=10 * limit, pause=0.1)
                outcome.figure("quiet ones, freed after", time.monotonic() - began, limit, " s")
                server.until_as(before)
        finally:
            server.stop()


def compiled(directory, source):
    """A program in C beside this file."""
    program = pathlib.Path(directory, source).with_suffix("")
    subprocess.run(["cc", "-O2", "-o", program, pathlib.Path(__file__).with_name(source)], check=True)
    return program


@fault(60)
def resets(outcome, seconds, batch=200, rate=20_000, flags=()):
    """Connections that are reset while events are on their way to them, and strangers who get their slots."""
    mark = "for-peers-only"
    with tempfile.TemporaryDirectory(prefix="encke-resets-") as directory:
        program = compiled(directory, "resets.c")
        # A history that is full at once: it grows with the events, and not with the connections.
        server = Server("--history-bytes", "2MiB", *flags)
        try:
            server.publish("peer", "the history refers to its subject from here on")
            before = server.baseline()
            command = [str(word) for word in (program, *server.public, seconds, batch, mark)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
                memory, published, written = [], 0, 0
                began = time.monotonic()
                while running.poll() is None:
                    receipt = server.publish("peer", f"{mark} " + "x" * 1000)
                    published, written = published + 1, written + receipt["written"]
                    memory.append((time.monotonic() - began, server.resident_bytes()))
                said = running.stdout.read()
            outcome.require(running.returncode == 0, f"the clients ended with {running.returncode}")
            resets_made, deceived = map(int, said.split())
            made = resets_made / (time.monotonic() - began)
            outcome.figure("resets a second", made)
            outcome.require(made >= rate, f"resets a second: {made:,.0f}, and not {rate:,}")
            outcome.figure("events meanwhile", published)
            outcome.figure("deliveries to connections that were about to be reset", written)
            outcome.require(written > 0, "no event met a connection")
            outcome.figure("strangers who heard an event", deceived, 0)
            server.until_as(before)
            outcome.require("panicked" not in server.log, server.log[-2000:])
            # The first tenth is growth to the size of a batch.
            settled = [size for at, size in memory if at >= seconds / 10] or [memory[-1][1]]
            outcome.figure("memory after a tenth of the time to the end", (settled[-1] - settled[0]) / 1e6, 10, " MB")
        finally:
            server.stop()


@fault(5_000_000)
def comings_and_goings(outcome, cycles, batch=10_000, flags=()):
    """Clients that connect, log in and leave: memory does not grow with them."""
    batch = min(batch, max(1, cycles // 20))
    server = Server(*flags)
    try:
        server.publish("peer", "the history refers to its subject from here on")
        before, memory, done = server.baseline(), [], 0
        for number in itertools.count():
            if done >= cycles:
                break
            # Each batch has ids of its own, which the dictionary must forget.
            first = STREAM.replace(b"peer", b"peer-%d" % number)
            with Herd(server.public, batch, first):
                until(lambda: sessions(server) == batch, "logged in", patience=120)
            until(lambda: server.totals()["connections"] == 0, "gone", patience=120)
            done += batch
            memory.append((done, server.resident_bytes()))
        server.until_as(before)
        # The first fifth is growth to the size of a batch.
        later = memory[len(memory) // 5 :]
        (first_done, first_bytes), (last_done, last_bytes) = later[0], later[-1]
        slope = (last_bytes - first_bytes) / max(1, last_done - first_done)
        outcome.figure("cycles", done)
        # Pages of the allocator are not a slope: a short run says little.
        limit = 1.0 if cycles >= 1_000_000 else 100.0
        outcome.figure("resident memory a cycle", slope, limit, " B")
    finally:
        server.stop()
