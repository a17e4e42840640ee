"""A stream as bytes: what it says, where it goes on, and when to come back. Knows no socket and no clock."""

import base64
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Id = str | int
"""Id of a client or a subject."""

DELAY_MAX = 30.0
"""Longest delay between two attempts, in seconds."""

DELAY_FIRST = 1.0
"""Bound of the first delay, in seconds."""

SEEN_MAX = 1024
"""Most ids that are remembered to drop events that arrive again after a reconnect."""

LINE_BYTES_MAX = 64 << 20
"""Longest line in bytes. The largest event has 16 MiB, which may triple in JSON."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event about an id."""

    id: str
    """Name of the event, and the cursor of a client that has received it."""
    subject: Id
    """Id that the event is about."""
    type: str | None
    """Type that the publisher gave, if it gave one."""
    data: Any
    """A JSON value, a `str`, or `bytes`."""


@dataclass(frozen=True, slots=True)
class Reset:
    """Events may be missing. Load the whole state again; what the server has follows."""

    reason: str
    """`restart`, `expired` or `unknown`."""
    cursor: str | None
    """Cursor that the client came with."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The server dropped events because this client was too slow."""

    lost: int
    """Number of events that were dropped."""


@dataclass(frozen=True, slots=True)
class Expired:
    """The token has expired or was revoked. A new one is asked for if it is a function."""

    reason: str
    """`expired` or `revoked`."""


@dataclass(frozen=True, slots=True)
class Presence:
    """Who is online of the ids that the listener's ids subscribe to."""

    online: frozenset[Id]
    """All that are online."""
    id: Id | None
    """The id that has come or gone, and is in `online` or not. `None` if all were told anew, as after a reconnect."""


Message = Event | Reset | Gap | Expired | Presence
"""What a stream says."""


def told_by(headers: Mapping[str, str]) -> float | None:
    """Returns the seconds after which the server wants to be asked again, if it says so."""
    told = headers.get("Retry-After", "")
    return float(told) if told.isdigit() else None


class Lines:
    """State of a reader of NDJSON over all of its connections. A subclass says what an object means, by `_take`."""

    def __init__(self, cursor: str | None = None):
        self.cursor = cursor
        """Where the next connection begins."""
        self.was_live = False
        """Whether any connection has brought something."""
        self._line = bytearray()
        self._failures = 0
        self._is_live = False

    def begin(self) -> None:
        """Begins a connection."""
        self._line.clear()
        self._is_live = False

    def receive(self, data: bytes) -> Iterator[Any]:
        """Yields what bytes of the connection say."""
        self._is_live = self.was_live = True
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._line += line
            whole, self._line = bytes(self._line), bytearray()
            if whole.strip() and (message := self._take(json.loads(whole))):
                yield message
        self._line += rest
        if len(self._line) > LINE_BYTES_MAX:
            raise ValueError(f"a line of the stream has more than {LINE_BYTES_MAX} bytes")

    def delay(self, told: float | None = None) -> float:
        """Returns the seconds to wait before the next connection, which the server may have told."""
        if self._is_live:
            self._failures = 0
        bound = min(DELAY_MAX, DELAY_FIRST * 2**self._failures)
        self._failures = min(self._failures + 1, 16)
        if told is not None:
            return told * (1 + random.random())
        return random.uniform(0, bound)

    def _take(self, said: dict[str, Any]) -> Any:
        raise NotImplementedError


class Stream(Lines):
    """What `/stream` says to a client."""

    def __init__(self, cursor: str | None = None):
        super().__init__(cursor)
        self._seen: dict[str, None] = {}
        self._online: set[Id] = set()
        self._snapshot: set[Id] | None = None
        """Ids of a snapshot of which pieces are still to come."""

    def begin(self) -> None:
        """Begins a connection."""
        super().begin()
        self._snapshot = None

    def _take(self, said: dict[str, Any]) -> Message | None:
        data = said.get("data")
        if (cursor := said.get("id")) is None:
            # Without an id it is a notice about the stream, or a heartbeat.
            match said.get("type"):
                case "reset":
                    return Reset(data["reason"], data.get("from"))
                case "gap":
                    return Gap(data["lost"])
                case "expired":
                    return Expired(data["reason"])
                case "presence":
                    return self._take_snapshot(data)
                case "online" | "offline" as change:
                    return self._take_change(data["id"], change == "online")
            return None
        self.cursor = cursor
        if "data" not in said:
            return None
        # A third part says only how much is complete.
        position = "-".join(cursor.split("-")[:2])
        if position in self._seen:
            return None
        self._seen[position] = None
        if len(self._seen) > SEEN_MAX:
            del self._seen[next(iter(self._seen))]
        if said.get("encoding") == "base64":
            data = base64.b64decode(data)
        return Event(cursor, said["subject"], said.get("type"), data)

    def _take_snapshot(self, data: dict[str, Any]) -> Presence | None:
        if data.get("first"):
            self._snapshot = set()
        if self._snapshot is None:
            return None
        self._snapshot.update(data["online"])
        if data.get("more"):
            return None
        self._online, self._snapshot = self._snapshot, None
        return Presence(frozenset(self._online), None)

    def _take_change(self, id: Id, is_online: bool) -> Presence | None:
        ids = self._online if self._snapshot is None else self._snapshot
        if (id in ids) == is_online:
            return None
        (ids.add if is_online else ids.discard)(id)
        # The whole of a snapshot is told when it is complete.
        return Presence(frozenset(ids), id) if self._snapshot is None else None
