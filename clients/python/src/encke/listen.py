"""Listening: streams that come back where they were."""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from urllib.parse import quote

import httpx

from .errors import Refused, content_type, error_of
from .stream import Id, Message, Stream, told_by

SILENCE = 50.0
"""Longest silence of a healthy stream, in seconds: two heartbeats of 20 s, each 10 % late, and a margin."""

CONNECT = 10.0
"""Longest wait for a connection, in seconds."""

Token = str | Callable[[], str] | None
AsyncToken = str | Callable[[], str | Awaitable[str]] | None


def listen(
    url: str,
    ids: Id | Iterable[Id] = (),
    *,
    token: Token = None,
    ticket: Token = None,
    cursor: str | None = None,
    client: httpx.Client | None = None,
    silence: float = SILENCE,
    presence: bool = False,
) -> Iterator[Message]:
    """Yields the events about ids, and notices, for ever.

    `url` is the address of the public listener. `ids` may be left out with a token that names its subject, or with a ticket.
    A `token` or `ticket` that is a function is called for each connection; one that fails as its backend is away (`OSError`,
    `httpx.HTTPError`) is called again later, other errors are raised. `cursor` is the id of the last event received, or `earliest`; without it
    events begin now. `client` brings settings of its own, such as certificates. A stream that says nothing for `silence`
    seconds is replaced; that must exceed two heartbeats of the server. With `presence`, `Presence` says who is online of
    the ids that these ids subscribe to; a server without presence refuses.

    Raises `Refused` when the server will not open the stream, however often it is asked.
    """
    connections = _Connections(url, ids, cursor, silence, presence, callable(token) or callable(ticket))
    own = client is None
    client = client or httpx.Client()
    try:
        while True:
            try:
                credentials = [source() if callable(source) else source for source in (token, ticket)]
                with client.stream("GET", **connections.request(*credentials)) as answer:
                    if connections.has_stream(answer):
                        for data in answer.iter_bytes():
                            yield from connections.stream.receive(data)
                    else:
                        answer.read()
                        connections.refused(answer)
            except (httpx.HTTPError, OSError) as error:
                _raise_unless_it_passes(error)
            time.sleep(connections.delay())
    finally:
        if own:
            client.close()


async def listen_async(
    url: str,
    ids: Id | Iterable[Id] = (),
    *,
    token: AsyncToken = None,
    ticket: AsyncToken = None,
    cursor: str | None = None,
    client: httpx.AsyncClient | None = None,
    silence: float = SILENCE,
    presence: bool = False,
) -> AsyncIterator[Message]:
    """Like `listen`, for asyncio. A `token` or `ticket` may be a coroutine function."""
    connections = _Connections(url, ids, cursor, silence, presence, callable(token) or callable(ticket))
    own = client is None
    client = client or httpx.AsyncClient()
    try:
        while True:
            try:
                credentials = [source() if callable(source) else source for source in (token, ticket)]
                credentials = [await one if inspect.isawaitable(one) else one for one in credentials]
                async with client.stream("GET", **connections.request(*credentials)) as answer:
                    if connections.has_stream(answer):
                        async for data in answer.aiter_bytes():
                            for message in connections.stream.receive(data):
                                yield message
                    else:
                        await answer.aread()
                        connections.refused(answer)
            except (httpx.HTTPError, OSError) as error:
                _raise_unless_it_passes(error)
            await asyncio.sleep(connections.delay())
    finally:
        if own:
            await client.aclose()


class _Connections:
    """The connections of one listener: what each asks for, and what its answer means."""

    def __init__(self, url, ids, cursor, silence, presence, can_renew):
        self.stream = Stream(cursor)
        self._url = url.rstrip("/") + _path(ids)
        if presence:
            self._url += ("&" if "?" in self._url else "?") + "presence=1"
        self._timeout = httpx.Timeout(CONNECT, read=silence)
        self._can_renew = can_renew
        self._renewed = False
        """Whether the last token was refused, and another one was asked for."""
        self._told = None
        """Seconds to wait, as the server said."""

    def request(self, token: str | None, ticket: str | None) -> dict:
        """Begins a connection. Returns the arguments of its request."""
        self.stream.begin()
        self._told = None
        headers = {"Accept-Encoding": "identity"}
        if self.stream.cursor:
            headers["Last-Event-ID"] = self.stream.cursor
        if token:
            headers["Authorization"] = f"Bearer {token}"
        url = self._url
        if ticket:
            url += ("&" if "?" in url else "?") + "ticket=" + quote(ticket, safe="")
        return {"url": url, "headers": headers, "timeout": self._timeout}

    def has_stream(self, answer: httpx.Response) -> bool:
        """Returns whether an answer is a stream."""
        self._told = told_by(answer.headers)
        if answer.status_code != 200 or content_type(answer) != "application/x-ndjson":
            return False
        self._renewed = False
        return True

    def refused(self, answer: httpx.Response) -> None:
        """Raises `Refused` unless trying again is of use."""
        status = answer.status_code
        if status == 401 and self._can_renew and not self._renewed:
            self._renewed = True
        elif status == 200 and self.stream.was_live:
            # The address is right: something between the two answers for the server, for a while.
            pass
        elif status < 500 and status not in (408, 429):
            raise Refused(_sentence(answer), status)

    def delay(self) -> float:
        """Returns the seconds to wait before the next connection."""
        return self.stream.delay(self._told)


def _raise_unless_it_passes(error: Exception) -> None:
    """Raises an error that trying again will not change: the backend that gives tokens has refused one."""
    if isinstance(error, httpx.HTTPStatusError) and error.response.status_code < 500:
        raise error


def _path(ids: Id | Iterable[Id]) -> str:
    ids = [ids] if isinstance(ids, str | int) else list(ids)
    if not ids:
        return "/stream"
    if len(ids) == 1 and ids[0] in (".", ".."):
        # Clients take a dot alone out of a path.
        return f"/stream?id={ids[0]}"
    return "/stream/" + ",".join(quote(str(id), safe="") for id in ids)


def _sentence(answer: httpx.Response) -> str:
    if answer.status_code == 204:
        return "the server wants no reconnect"
    return str(error_of(answer))

