"""Client of the push server Encke.

`Control` and `AsyncControl` publish and change subscriptions; `listen` and `listen_async` receive events.
"""

from .control import AsyncControl, Control, Receipt
from .listen import listen, listen_async
from .stream import Event, Expired, Gap, Id, Message, Presence, Reset
from .errors import EnckeError, Refused

__all__ = [
    "AsyncControl",
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
    "listen",
    "listen_async",
]
