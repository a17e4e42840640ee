"""What was answered is there after `kill -9`, and nothing else is: many times, under load."""

import http.client
import json
import os
import random
import threading

from support.server import Server, quote
from support.wait import until

ROUNDS = int(os.environ.get("KILL_ROUNDS", 200))
SUBJECTS = [*range(100, 140), *(f"song {n}" for n in range(40))]


class Writer(threading.Thread):
    """Changes the subscriptions of ids of its own, one request at a time, until the server is gone.

    Knows what was answered, and which one change was not."""

    def __init__(self, number):
        super().__init__(daemon=True)
        self.random = random.Random(number)
        self.ids = [number, f"listener {number}"]
        self.edges = {of: set() for of in self.ids}
        self.doubt = None
        self.answered = 0
        self.wrong = None

    def begin(self, address):
        super().__init__(daemon=True)
        self.address = address
        self.start()

    def run(self):
        connection = http.client.HTTPConnection(*self.address)
        try:
            while True:
                self.change(connection)
        except (OSError, http.client.HTTPException):
            connection.close()
        except AssertionError as wrong:
            self.wrong = wrong

    def change(self, connection):
        of, subject = self.random.choice(self.ids), self.random.choice(SUBJECTS)
        method = self.random.choice(["PUT", "PUT", "DELETE"])
        self.doubt = (of, subject)
        connection.request(method, f"/v1/subscriptions/{quote(of)}/{quote(subject)}")
        answer = connection.getresponse()
        said = json.loads(answer.read())
        assert answer.status == 200, said
        there = subject in self.edges[of]
        if method == "PUT":
            assert said == {"added": int(not there), "unchanged": int(there)}
            self.edges[of].add(subject)
        else:
            assert said == {"removed": int(there), "unchanged": int(not there)}
            self.edges[of].discard(subject)
        self.answered += 1
        self.doubt = None

    def compare(self, server):
        """Holds what is there against what was answered; what was in doubt is known now."""
        for of in self.ids:
            page = server.api.get(f"/v1/subscriptions/{quote(of)}", params={"limit": 1000}).json()
            found = set(page["subscriptions"])
            assert page["next"] is None
            if self.doubt and self.doubt[0] == of:
                subject = self.doubt[1]
                self.edges[of].discard(subject)
                self.edges[of] |= found & {subject}
            lost, invented = self.edges[of] - found, found - self.edges[of]
            assert not lost and not invented, f"{of}: lost {lost}, invented {invented}"
        self.doubt = None


def backwards(server):
    """All edges, read from the subjects' side."""
    return {
        (subscriber, subject)
        for subject in SUBJECTS
        for subscriber in server.api.get(
            f"/v1/subscribers/{quote(subject)}", params={"limit": 1000}
        ).json()["subscribers"]
    }


def test_nothing_answered_is_lost_and_nothing_is_invented_by_kill_9(tmp_path):
    writers = [Writer(number) for number in range(8)]
    pauses = random.Random(9)
    for turn in range(ROUNDS):
        server = Server("--data", tmp_path / "data", workers=1)
        try:
            for writer in writers:
                writer.compare(server)
            edges = {
                (of, subject)
                for writer in writers
                for of in writer.ids
                for subject in writer.edges[of]
            }
            if turn % 10 == 0:
                assert backwards(server) == edges
            assert server.stats()["graph"]["edges"] == len(edges)
            goal = sum(writer.answered for writer in writers) + pauses.randrange(1, 200)
            for writer in writers:
                writer.begin(server.control)
            until(lambda: sum(writer.answered for writer in writers) >= goal, "answered", pause=0.001)
        finally:
            server.kill()
        for writer in writers:
            writer.join()
            assert writer.wrong is None, writer.wrong
    assert sum(writer.answered for writer in writers) > ROUNDS
