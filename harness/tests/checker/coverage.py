"""What a listener has: the stretches of the log that it claims to know, and each event with the connection that brought it."""

from bisect import bisect_left
from dataclasses import dataclass, field

from .log import parse


@dataclass(slots=True)
class Received:
    """An event as a listener got it for the first time."""

    event: str
    position: tuple
    time: float
    connection: object


@dataclass(slots=True)
class Open:
    """A connection within a stretch."""

    connection: object
    # When it had brought all that was certainly in the log before it was opened.
    live_at: float | None = None
    # The number up to which it has brought everything.
    reached: int = -1


@dataclass(slots=True)
class Stretch:
    """A part of the log without a word that anything is missing: from a cursor to the last one before a reset."""

    listener: object
    # After this position everything must have come, up to and with the last.
    first: tuple | None = None
    last: tuple | None = None
    events: list = field(default_factory=list)
    connections: list = field(default_factory=list)
    # By when the listener had everything up to where: two lists, in step.
    times: list = field(default_factory=list)
    numbers: list = field(default_factory=list)

    def advance(self, time, until):
        if self.first is None:
            self.first = until
        self.times.append(time)
        self.numbers.append(max(until[1], self.numbers[-1] if self.numbers else 0))
        self.last = (until[0], self.numbers[-1])

    def covers(self, position):
        if not (self.first and self.last):
            return False
        epoch, number = position
        return self.first[0] == epoch == self.last[0] and self.first[1] < number <= self.last[1]

    def caught_up(self, number):
        """When it had everything up to a number that it covers."""
        return self.times[bisect_left(self.numbers, number)]

    def is_told_at_once(self, publish):
        """Whether a connection was live before the event was published, and went on beyond it."""
        return any(
            open.live_at is not None and open.live_at < publish.start and open.reached >= publish.position[1]
            for open in self.connections
        )


class Heads:
    """How far the log had certainly come by when, from acknowledged events."""

    def __init__(self, publishes):
        self.times, self.positions, highest = [], [], {}
        known = [each for each in publishes if each.is_acknowledged and each.position]
        for publish in sorted(known, key=lambda each: each.end):
            epoch, number = publish.position
            highest[epoch] = max(number, highest.get(epoch, 0))
            self.times.append(publish.end)
            self.positions.append((epoch, highest[epoch]))

    def at(self, time):
        index = bisect_left(self.times, time)
        return self.positions[index - 1] if index else None


def stretches_of(listener, heads, twice, notices):
    """Follows a listener through its connections. Adds to `twice` what came again, and to `notices` what it was told."""
    stretches, stretch, seen = [], None, set()

    def begin(first):
        nonlocal stretch, seen
        stretch, seen = Stretch(listener, first=first), set()
        stretches.append(stretch)

    for connection in listener.connections:
        if connection.opened is None:
            continue
        asked, head = parse(connection.cursor), parse(connection.head)
        goal = heads.at(connection.start)
        if stretch is None:
            begin(head and (head[0][0], head[1]))
        stretch.connections.append(Open(connection, connection.opened if goal is None else None))
        for time, kind, identifier, value in connection.received:
            if kind in ("reset", "gap"):
                notices.append((listener.name, connection.node, time, kind, value))
                # What there is comes again, and what was certainly in the log by then may be missing.
                begin(heads.at(time))
                stretch.connections.append(Open(connection))
                continue
            position, complete = parse(identifier)
            if kind == "event" and (position, value) not in seen:
                seen.add((position, value))
                stretch.events.append(Received(value, position, time, connection))
            elif kind == "event":
                # Behind a cursor that says what is incomplete, it may come again.
                is_expected = asked and asked[0][0] == position[0] and asked[1] < position[1] <= asked[0][1]
                if not is_expected:
                    twice.append((listener.name, connection.node, time, identifier, value))
            stretch.advance(time, (position[0], complete))
            open = stretch.connections[-1]
            open.reached = max(open.reached, complete)
            if open.live_at is None and (goal is None or position[0] != goal[0] or complete >= goal[1]):
                open.live_at = time
    return stretches
