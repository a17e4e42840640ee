"""What clients did and saw: plain records, by one clock, that the laws are checked against.

All times are seconds of one monotonic clock. A position is (epoch, number), the first two parts of an event's id."""

import dataclasses
import json
import math
from dataclasses import dataclass, field

# Ends of intervals that have none.
NEVER = math.inf


@dataclass(slots=True)
class Attempt:
    """A request: to which node, when, and how it ended. `ok`, `refused` (nothing was done), or `unknown`."""

    node: str
    start: float
    end: float
    outcome: str
    status: int | None = None
    reason: str = ""


@dataclass(slots=True)
class Publish:
    """An event: its data is unique. Sent again, with its key, only if it has one."""

    event: str
    subject: str
    # An event that is sent reaches the sessions of its subject alone.
    is_sent: bool
    key: str | None
    attempts: list = field(default_factory=list)
    position: tuple | None = None
    receipt: dict | None = None

    @property
    def start(self):
        return self.attempts[0].start

    @property
    def end(self):
        return self.attempts[-1].end if self.is_acknowledged else NEVER

    @property
    def is_acknowledged(self):
        return self.attempts[-1].outcome == "ok"

    @property
    def is_refused(self):
        """Whether nothing of it can have happened."""
        return all(attempt.outcome == "refused" for attempt in self.attempts)


@dataclass(slots=True)
class Change:
    """A subscription that is made or taken back. A pair has one changer, which leaves it after an unknown outcome."""

    subscriber: str
    subject: str
    follows: bool
    attempts: list = field(default_factory=list)
    # What the answer said: 1 if the graph was another before.
    changed: int | None = None

    @property
    def attempt(self):
        """The one that counts: those before it were refused."""
        return self.attempts[-1]


@dataclass(slots=True)
class Connection:
    """A stream of a listener: what it asked for, and what came, in order."""

    node: str
    transport: str
    # The cursor that the client gave, as it stands in the request.
    cursor: str | None
    start: float
    # When its head had come; `None` if none came.
    opened: float | None = None
    end: float = NEVER
    # The id that the stream goes on from, by its head.
    head: str | None = None
    why: str = ""
    # (time, kind, id, value): kind is `event` with its data, `cursor`, or a notice (`reset`, `gap`) with its data.
    received: list = field(default_factory=list)


@dataclass(slots=True)
class Listener:
    """A client that comes back with its cursor."""

    name: str
    ids: list
    connections: list = field(default_factory=list)


@dataclass(slots=True)
class Stranger:
    """A connection of a client whose cursor is of another log, and what it got."""

    node: str
    cursor: str
    opened: float
    end: float = NEVER
    # Kinds of what came, the first one first.
    received: list = field(default_factory=list)
    # Whether the stream stood when the client left.
    is_whole: bool = False
    # Ids that it logged in as: those of a listener.
    ids: list = field(default_factory=list)
    # When it began to connect.
    start: float = NEVER


@dataclass(slots=True)
class Fault:
    """What was done to a part of the service."""

    time: float
    what: str
    target: str


@dataclass(slots=True)
class Log:
    """All that happened in a run."""

    publishes: list = field(default_factory=list)
    changes: list = field(default_factory=list)
    listeners: list = field(default_factory=list)
    faults: list = field(default_factory=list)
    strangers: list = field(default_factory=list)

    def save(self, path):
        with open(path, "w") as file:
            for kind in ("publishes", "changes", "listeners", "faults", "strangers"):
                for record in getattr(self, kind):
                    file.write(json.dumps({kind: dataclasses.asdict(record)}, separators=(",", ":")))
                    file.write("\n")


def parse(identifier):
    """(position, number up to which everything has come) of an id; `None` for what is none."""
    parts = identifier.split("-") if identifier else []
    if len(parts) not in (2, 3) or not all(part.isdecimal() for part in parts[1:]):
        return None
    return (parts[0], int(parts[1])), int(parts[-1])
