"""Client of the push server Encke.

`Control` and `AsyncControl` publish, change subscriptions and follow who is online; `listen` and `listen_async` receive events.
"""

from .control import AsyncControl, Control, Receipt
from .errors import EnckeError, Refused
from .listen import listen, listen_async
from .presence import Change, Snapshot
from .stream import Event, Expired, Gap, Id, Message, Presence, Reset

__all__ = [
    "AsyncControl",
    "Change",
    "Control",
    "EnckeError",
    "Event",
    "Expired",
    "Gap",
    "Id",
    "Message",
    "Presence",
    "Receipt",
    "Refused",
    "Reset",
    "Snapshot",
    "listen",
    "listen_async",
]
