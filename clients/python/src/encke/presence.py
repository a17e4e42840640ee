"""Presence for backends: who comes and goes, as `GET /v1/presence` tells it. Knows no socket and no clock."""

from dataclasses import dataclass
from typing import Any

from .stream import Id, Lines


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Who is online now, however it was before."""

    online: frozenset[Id]
    """All that are online. Other ids are offline."""
    reason: str | None
    """Why changes before it may be missing: `restart`, `expired` or `unknown`. `None` for the first one."""
    cursor: str
    """Where to go on later."""


@dataclass(frozen=True, slots=True)
class Change:
    """An id has come online or gone offline. It may repeat what is known."""

    id: Id
    """The id that has come or gone."""
    online: bool
    """Whether it is online now."""
    cursor: str
    """Where to go on later."""


class PresenceLines(Lines):
    """What `/v1/presence` says to a backend."""

    def __init__(self, cursor: str | None = None):
        super().__init__(cursor)
        self._pieces: set[Id] = set()
        self._reason: str | None = None

    def _take(self, said: dict[str, Any]) -> Snapshot | Change | None:
        # Of the pieces of a snapshot the last one alone has a cursor: a snapshot that is cut begins anew.
        self.cursor = said.get("cursor", self.cursor)
        match said["type"]:
            case "reset":
                self._reason = said["reason"]
            case "snapshot":
                if said["first"]:
                    self._pieces = set()
                self._pieces.update(said["online"])
                if not said["more"]:
                    online, self._pieces = frozenset(self._pieces), set()
                    reason, self._reason = self._reason, None
                    return Snapshot(online, reason, said["cursor"])
            case "online" | "offline" as change:
                return Change(said["id"], change == "online", said["cursor"])
        return None
