"""`encke listen` through cuts and restarts of the server: each event once and in order, on each transport that has ids."""

import json
import random
import socket
import struct
import subprocess
import threading

import pytest

from support.program import begin
from support.wait import PATIENCE, until

TRANSPORTS = ["sse", "ndjson", "ws", "poll"]


class CuttingRelay:
    """Passes connections on to a server, and resets each of them after some bytes of its answers."""

    def __init__(self, target, seed):
        self.target, self.random = target, random.Random(seed)
        self.cuts, self.is_cutting = 0, True
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self.target)
            except OSError:
                self.reset(client)
                continue
            # More than a head, so that some events come each time; less than a batch of them.
            room = self.random.randrange(700, 4000)
            for source, sink, room in [(client, server, None), (server, client, room)]:
                threading.Thread(target=self.pump, args=(source, sink, room), daemon=True).start()

    def pump(self, source, sink, room):
        try:
            while data := source.recv(4096):
                if room is not None and self.is_cutting and len(data) >= room:
                    # In the middle of whatever is there.
                    sink.sendall(data[:room])
                    self.cuts += 1
                    break
                room = room - len(data) if room is not None else None
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            self.reset(end)

    @staticmethod
    def reset(end):
        """Ends a connection without a word."""
        try:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        end.close()

    def close(self):
        self.listener.close()


class Listener:
    """An `encke listen --json`, and the events that it has printed so far."""

    def __init__(self, url, transport, *ids):
        self.events = []
        self.process = begin(
            "listen", *ids, "--url", url, "--transport", transport, "--json", "--earliest", stderr=subprocess.DEVNULL
        )
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def seen(self):
        return [(event["id"].rsplit("-", event["id"].count("-") - 1)[0], event["data"]) for event in list(self.events)]

    def end(self):
        self.process.kill()
        self.process.wait(PATIENCE)


@pytest.fixture
def listening(port, start, tmp_path):
    """A server whose history is on disk, a relay before it, and listeners of all transports."""
    flags = ("--retry", "50ms", "--drain-spread", "50ms", "--history-dir", tmp_path / "history", "--heartbeat", "1s")
    server = start(*flags, public=port().address, control=port().address)
    relay = CuttingRelay(server.public, seed=7)
    listeners = {transport: Listener(relay.url, transport, "me", "other") for transport in TRANSPORTS}
    servers = [server]

    def restart():
        servers.append(servers[-1].restart(*flags))
        return servers[-1]

    yield server, restart, relay, listeners
    for listener in listeners.values():
        listener.end()
    relay.close()
    if servers[-1] is not server and servers[-1].api:
        servers[-1].stop()


def publish(server, published, count):
    for _ in range(count):
        number = len(published)
        receipt = server.publish(["me", "other"][number % 2], f"{number} " + "x" * (number % 90), kind="note")
        published.append((receipt["id"], f"{number} " + "x" * (number % 90)))


def until_all_have(listeners, published):
    for transport, listener in listeners.items():
        until(lambda: len(listener.events) >= len(published), f"{transport} has all")
        assert listener.seen() == published, transport


def test_what_is_printed_is_what_was_published_over_cuts_and_kills(listening):
    server, restart, relay, listeners = listening
    published = []
    for end in ["kill", "signal", None]:
        publish(server, published, 80)
        if end == "kill":
            server.kill()
            server = restart()
        elif end == "signal":
            server.signal()
            assert server.wait() == 0
            server = restart()
    relay.is_cutting = False
    until_all_have(listeners, published)
    assert relay.cuts >= 2 * len(TRANSPORTS), relay.cuts
    # Nothing comes later that came before.
    publish(server, published, 1)
    until_all_have(listeners, published)


def test_a_restart_without_its_history_is_told_and_what_follows_is_printed(start, port):
    at = {"public": port().address, "control": port().address}
    server = start("--retry", "50ms", "--drain-spread", "50ms", **at)
    listeners = {}
    for transport in [*TRANSPORTS, "test"]:
        listeners[transport] = begin("listen", "me", "--url", server.public_url, "--transport", transport)
    until(lambda: len(server.sessions("me")) == len(listeners), "all listen")
    try:
        server.publish("me", "before")
        for listener in listeners.values():
            assert "before" in listener.stdout.readline()
        server.kill()
        server = server.restart()
        until(lambda: len(server.sessions("me")) == len(listeners), "all are back")
        server.publish("me", "after")
        for transport, listener in listeners.items():
            assert "after" in listener.stdout.readline(), transport
            listener.kill()
            _, said = listener.communicate(timeout=PATIENCE)
            # The wire of 2008 has no cursor, and no notice.
            assert ("the server has restarted" in said) == (transport != "test"), (transport, said)
    finally:
        for listener in listeners.values():
            listener.kill()
            listener.communicate()
        server.stop()
