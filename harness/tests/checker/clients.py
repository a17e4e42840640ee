"""Clients, each a thread: writers, changers of subscriptions, listeners. Each writes down what it did and saw."""

import http.client
import json
import random
import threading
import time

from support.server import quote

from .log import Attempt, Change, Connection, Listener, Publish, Stranger, parse
from .streams import DECODERS, Ended, Stream

# A request that has no answer by then has an unknown outcome. Longer than an election takes.
REQUEST_SECONDS = 15.0

# How long a writer goes on with an event that has a key.
REPEAT_SECONDS = 60.0


class Client(threading.Thread):
    """A thread that ends when it is told to, and keeps what went wrong in it."""

    def __init__(self, service, name, seed):
        super().__init__(name=name, daemon=True)
        self.service = service
        self.random = random.Random(f"{seed} {name}")
        self.ending = threading.Event()
        self.error = None
        self.connections = {}

    def run(self):
        try:
            while not self.ending.is_set():
                self.act()
        except Exception as error:  # Told by `finish`: a bug of the checker, or an answer that nobody expects.
            self.error = error
        finally:
            for connection in self.connections.values():
                connection.close()

    def finish(self):
        self.ending.set()
        self.join(REPEAT_SECONDS + REQUEST_SECONDS)
        assert not self.is_alive(), f"{self.name} does not end"
        if self.error:
            raise self.error

    def node(self):
        return self.random.choice(self.service.nodes)

    def request(self, node, method, path, body=None, headers=None):
        """One request to the control listener of a node, on a connection that is kept: (attempt, answer, fields)."""
        start = time.monotonic()
        address = node.control
        connection = self.connections.get(node.name)
        if connection is None or (connection.host, connection.port) != address:
            connection = http.client.HTTPConnection(*address, timeout=REQUEST_SECONDS)
            self.connections[node.name] = connection
        is_sent = False
        try:
            if connection.sock is None:
                connection.connect()
            is_sent = True
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            said = answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            # Without a connection nothing was asked.
            outcome = "unknown" if is_sent else "refused"
            return Attempt(node.name, start, time.monotonic(), outcome, None, repr(error)), None, {}
        end = time.monotonic()
        # 202: the event of an earlier request with the same key, whose counts are not known.
        outcome = "ok" if answer.status in (200, 202) else "refused" if answer.status == 503 else "unknown"
        attempt = Attempt(node.name, start, end, outcome, answer.status, "" if outcome == "ok" else said.decode()[:200])
        if answer.status not in (200, 202, 409, 503, 504):
            raise AssertionError(f"{method} {path} at {node.name}: {answer.status} {said[:500]}")
        return attempt, json.loads(said) if outcome == "ok" else None, answer.headers


class Writer(Client):
    """Publishes numbered events through any node. Every other one has a key, and is sent again until it is answered."""

    def __init__(self, service, name, seed, subjects, ids, pause):
        super().__init__(service, name, seed)
        self.subjects, self.ids, self.pause = subjects, ids, pause
        self.publishes = []

    def act(self):
        is_sent = self.random.random() < 0.1
        number = len(self.publishes)
        publish = Publish(
            event=f"{self.name}-{number}",
            subject=self.random.choice(self.ids if is_sent else self.subjects),
            is_sent=is_sent,
            key=f"key-{self.service.run}-{self.name}-{number}" if self.random.random() < 0.5 else None,
        )
        deadline = time.monotonic() + REPEAT_SECONDS
        # The record counts from the first attempt on, however it ends.
        while True:
            attempt, receipt, fields = self.attempt(publish)
            publish.attempts.append(attempt)
            if len(publish.attempts) == 1:
                self.publishes.append(publish)
            if receipt:
                publish.position = parse(receipt["id"])[0]
                publish.receipt = receipt if "subscribers" in receipt else None
                # A replayed receipt counts sessions of the first attempt.
                break
            self.ending.wait(0.1 if attempt.outcome == "unknown" else 0.3)
            is_over = publish.key is None and attempt.outcome == "unknown"
            if is_over or time.monotonic() > deadline:
                break
        self.ending.wait(self.random.uniform(0, 2 * self.pause))

    def attempt(self, publish):
        verb = "send" if publish.is_sent else "publish"
        # The body varies in size: some events fill a frame of their own.
        headers = {"Content-Type": "text/plain; charset=utf-8"}
        if publish.key:
            headers["Idempotency-Key"] = publish.key
        return self.request(self.node(), "POST", f"/v1/{verb}/{quote(publish.subject)}", publish.event, headers)


class Filler(Client):
    """Fills the log with events for nobody, so that nodes make snapshots of their graphs and the log loses its beginning."""

    event, pause = b"x" * 60_000, 0.2

    def act(self):
        self.request(self.node(), "POST", "/v1/publish/nobody?history=false", self.event, {"Content-Type": "text/plain"})
        self.ending.wait(self.pause)


class Changer(Client):
    """Makes and takes back subscriptions of its own pairs. Leaves a pair when it does not know what became of a change."""

    def __init__(self, service, name, seed, pairs, pause):
        super().__init__(service, name, seed)
        self.pairs, self.pause = {pair: False for pair in pairs}, pause
        self.changes = []

    def act(self):
        if not self.pairs:
            self.ending.wait(1.0)
            return
        subscriber, subject = pair = self.random.choice(list(self.pairs))
        # Mostly another state; now and then the same again.
        follows = not self.pairs[pair] if self.random.random() < 0.9 else self.pairs[pair]
        change = Change(subscriber, subject, follows)
        path = f"/v1/subscriptions/{quote(subscriber)}/{quote(subject)}"
        while not self.ending.is_set() or not change.attempts:
            attempt, answer, _ = self.request(self.node(), "PUT" if follows else "DELETE", path)
            change.attempts.append(attempt)
            if len(change.attempts) == 1:
                self.changes.append(change)
            if attempt.outcome != "refused":
                break
            self.ending.wait(0.3)
        if attempt.outcome == "ok":
            self.pairs[pair] = follows
            change.changed = answer["added" if follows else "removed"]
        elif attempt.outcome == "unknown":
            del self.pairs[pair]
        self.ending.wait(self.random.uniform(0, 2 * self.pause))


class Reader(Client):
    """A listener. A restless one leaves after a while and comes back with its cursor, to any node."""

    def __init__(self, service, name, seed, ids, transport, stay):
        super().__init__(service, name, seed)
        self.listener = Listener(name, ids)
        self.transport = transport
        # Seconds for which it stays, at most; `None` for as long as it can.
        self.stay = stay
        self.cursor = None
        self.has = set()

    def act(self):
        node = self.node()
        connection = Connection(node.name, self.transport, self.cursor, time.monotonic())
        decoder = DECODERS[self.transport]()
        target = f"/{decoder.path}/{','.join(quote(of) for of in self.listener.ids)}"
        try:
            stream = Stream(node.public, target, self.cursor)
        except Ended as ended:
            connection.end, connection.why = time.monotonic(), str(ended)
            self.listener.connections.append(connection)
            self.ending.wait(self.random.uniform(0.05, 0.5))
            return
        connection.opened = time.monotonic()
        connection.head = stream.fields.get("encke-last-event-id")
        self.cursor = self.cursor or connection.head
        self.listener.connections.append(connection)
        until = connection.opened + (self.random.uniform(0.2, self.stay) if self.stay else 1e9)
        try:
            while not self.ending.is_set() and time.monotonic() < until:
                self.read(stream, decoder, connection)
            connection.why = "left"
        except Ended as ended:
            connection.why = str(ended)
        finally:
            stream.close()
            connection.end = time.monotonic()

    def read(self, stream, decoder, connection):
        for line in stream.lines(min(time.monotonic() + 0.2, time.monotonic() + REQUEST_SECONDS)):
            if not (what := decoder.decode(line)):
                continue
            kind, identifier, value = what
            connection.received.append((time.monotonic(), kind, identifier, value))
            if identifier:
                self.cursor = identifier
            if kind == "event":
                self.has.add(value)


class Visitor(Client):
    """Comes with cursors of another log, whose numbers this one has as well. Each time it must be told."""

    # Seconds for which it stays if it is told nothing, and between two visits.
    stay, pause = 3.0, 1.0

    def __init__(self, service, name, seed, readers):
        super().__init__(service, name, seed)
        self.readers, self.strangers = readers, []

    def act(self):
        self.ending.wait(self.pause)
        reader = self.random.choice(self.readers)
        position = parse(reader.cursor)
        if position is None:
            return
        node, decoder = self.node(), DECODERS[reader.transport]()
        cursor = f"elsewhere-{position[0][1]}"
        target = f"/{decoder.path}/{','.join(quote(of) for of in reader.listener.ids)}"
        start = time.monotonic()
        try:
            stream = Stream(node.public, target, cursor)
        except Ended:
            return
        stranger = Stranger(node.name, cursor, time.monotonic(), ids=list(reader.listener.ids), start=start)
        self.strangers.append(stranger)
        until = stranger.opened + self.stay
        try:
            while not stranger.received and time.monotonic() < until:
                decoded = [decoder.decode(line) for line in stream.lines(until)]
                stranger.received += [what[0] for what in decoded if what and what[0] != "cursor"]
            stranger.is_whole = True
        except Ended:
            pass
        finally:
            stream.close()
            stranger.end = time.monotonic()
