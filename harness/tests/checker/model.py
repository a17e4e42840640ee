"""A service that keeps all laws, in a few lines and without a clock: it writes the log of a run, for the checker to be tested with."""

import random

from .log import Attempt, Change, Connection, Fault, Listener, Log, Publish

EPOCH = "k3v9"


class Model:
    """Three nodes with one log. Time goes on by one at each step."""

    def __init__(self, seed, steps=1500, listeners=6, subjects=5):
        self.random = random.Random(seed)
        self.now, self.number = 0.0, 0
        self.log = Log()
        self.ids = [f"l{n}" for n in range(listeners)]
        self.subjects = [f"s{n}" for n in range(subjects)]
        self.follows = {}
        self.log.listeners = [Listener(of, [of]) for of in self.ids]
        self.open = {of: None for of in self.ids}
        # What has come to none of an id's connections yet: (id, publish).
        self.missed = {of: [] for of in self.ids}
        self.cursor = {of: None for of in self.ids}
        for of in self.ids:
            self.connect(of)
        for _ in range(steps):
            self.now += 1.0
            self.step()
        self.settle()
        self.log.faults.append(Fault(self.now, "kill node", "n1"))

    def step(self):
        match self.random.randrange(10):
            case 0:
                self.change(outcome="ok")
            case 1:
                of = self.random.choice(self.ids)
                if self.open[of]:
                    self.leave(of)
                else:
                    self.connect(of)
            case 2:
                self.publish(outcome=self.random.choice(["unknown", "refused"]))
            case _:
                self.publish(outcome="ok")

    def settle(self):
        for of in self.ids:
            if not self.open[of]:
                self.connect(of)
        for of in self.ids:
            self.publish("ok", subject=of)

    def attempt(self, outcome):
        node = self.random.choice(["n1", "n2", "n3"])
        return Attempt(node, self.now, self.now + 0.5, outcome, 200 if outcome == "ok" else 503)

    def publish(self, outcome, subject=None):
        is_sent = subject is None and self.random.random() < 0.1
        subject = subject or self.random.choice(self.ids if is_sent else self.subjects)
        publish = Publish(f"w-{len(self.log.publishes)}", subject, is_sent, None, [self.attempt(outcome)])
        self.log.publishes.append(publish)
        if outcome == "refused" or outcome == "unknown" and self.random.random() < 0.5:
            return
        self.number += 1
        position = (EPOCH, self.number)
        reached = [of for of in self.ids if of == subject or not is_sent and self.follows.get((of, subject))]
        online = [of for of in reached if self.open[of]]
        for of in reached:
            if self.open[of]:
                self.receive(of, publish.event, self.number)
            else:
                self.missed[of].append((publish, self.number))
        if outcome == "ok":
            publish.position = position
            subscribers = len(set(reached) | {subject})
            publish.receipt = {"subscribers": subscribers, "online": len(online), "queued": 0, "shed": 0}
            publish.receipt["written"] = len(online)

    def change(self, outcome):
        pair = self.random.choice(self.ids), self.random.choice(self.subjects)
        before = self.follows.get(pair, False)
        follows = not before if self.random.random() < 0.9 else before
        self.follows[pair] = follows
        changed = int(before != follows)
        self.log.changes.append(Change(*pair, follows, [self.attempt(outcome)], changed))
        if not follows:
            # An event about a subject that is not followed any more does not come later.
            self.missed[pair[0]] = [each for each in self.missed[pair[0]] if each[0].subject != pair[1]]

    def connect(self, of):
        node = self.random.choice(["n1", "n2", "n3"])
        connection = Connection(node, "sse", self.cursor[of], self.now, opened=self.now + 0.1)
        connection.head = self.cursor[of] or f"{EPOCH}-{self.number}"
        self.open[of] = connection
        listener = next(listener for listener in self.log.listeners if listener.name == of)
        listener.connections.append(connection)
        for publish, number in self.missed[of]:
            self.receive(of, publish.event, number)
        self.missed[of] = []
        self.tell(of, "cursor", self.number, None)

    def receive(self, of, event, number):
        self.tell(of, "event", number, event)

    def tell(self, of, kind, number, value):
        self.cursor[of] = f"{EPOCH}-{number}"
        self.open[of].received.append((self.now + 0.2, kind, self.cursor[of], value))

    def leave(self, of):
        self.open[of].end, self.open[of].why = self.now, "left"
        self.open[of] = None
