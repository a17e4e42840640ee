"""The control API: publish, send, subscribe, look at sessions, and follow who is online."""

import asyncio
import base64
import json
import operator
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypedDict
from urllib.parse import quote

import httpx

from .errors import content_type, error_of, is_json
from .presence import Change, PresenceLines, Snapshot
from .stream import Id, told_by

TIMEOUT = 30.0
"""Longest wait for an answer, in seconds: a receipt may take some."""

SILENCE = 65.0
"""Longest silence of a healthy stream of presence, in seconds: a line comes at least every 25 s."""


class Receipt(TypedDict, total=False):
    """What became of an event."""

    id: str
    """The event's id, which is a cursor."""
    subscribers: int
    """Ids that the event is for, including the subject."""
    online: int
    """Ids among them with an open session."""
    written: int
    """Sessions whose socket took the whole event."""
    queued: int
    """Sessions at which the event waits behind a full socket."""
    shed: int
    """Sessions that the event did not reach."""


class _Request(NamedTuple):
    method: str
    path: str
    params: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    content: Any = None
    result: Callable[[Any], Any] = lambda answer: answer
    """What the caller gets of the answer."""


class _Requests:
    """The requests of the API, in terms of `_send`, which a class for each kind of input and output adds."""

    def _send(self, request: _Request) -> Any:
        raise NotImplementedError

    def publish(
        self,
        subject: Id,
        data: Any,
        *,
        type: str | None = None,
        early: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> Receipt:
        """Publishes an event to the sessions of a subject and of all who subscribe to it.

        `bytes` are sent as bytes, a `str` as text, and anything else as JSON. With `early` the receipt has only what is
        known when the event has its place in the order.
        """
        return self._event("publish", subject, data, type, early, headers)

    def send(
        self,
        id: Id,
        data: Any,
        *,
        type: str | None = None,
        early: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> Receipt:
        """Sends an event to the sessions of one id, and not to its subscribers."""
        return self._event("send", id, data, type, early, headers)

    def publish_many(self, events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Publishes many events in order: mappings with `subject`, `data`, and possibly `type`.

        Returns the sums of their receipts, the number of events that `failed`, and the first `errors`.
        """
        return self._send(
            _Request("POST", "/v1/publish", {"receipts": "summary"}, _NDJSON, _lines(map(_line, events)))
        )

    def subscribe(self, subscriber: Id, subject: Id) -> bool:
        """Subscribes an id to a subject. Returns whether it was not subscribed before."""
        return self._edge("PUT", subscriber, subject, "added")

    def unsubscribe(self, subscriber: Id, subject: Id) -> bool:
        """Ends a subscription. Returns whether there was one."""
        return self._edge("DELETE", subscriber, subject, "removed")

    def subscribe_many(self, edges: Iterable[tuple[Id, Id]]) -> dict[str, Any]:
        """Subscribes many: pairs of a subscriber and a subject."""
        return self._send(_Request("POST", "/v1/subscriptions", {}, _NDJSON, _lines(map(_edge, edges))))

    def unsubscribe_many(self, edges: Iterable[tuple[Id, Id]]) -> dict[str, Any]:
        """Ends many subscriptions: pairs of a subscriber and a subject."""
        return self._send(
            _Request("POST", "/v1/subscriptions/remove", {}, _NDJSON, _lines(map(_edge, edges)))
        )

    def replace_subscriptions(self, subscriber: Id, subjects: Iterable[Id]) -> dict[str, Any]:
        """Subscribes an id to these subjects, at most 16,384, and to no others.

        Returns how many were `added`, `removed` and `unchanged`.
        """
        body = json.dumps(list(subjects))
        return self._send(_Request("PUT", f"/v1/subscriptions/{_quoted(subscriber)}", {}, _JSON, body))

    def end_subscriptions(self, subscriber: Id) -> int:
        """Ends all subscriptions of an id. Returns their number."""
        path = f"/v1/subscriptions/{_quoted(subscriber)}"
        return self._send(_Request("DELETE", path, result=operator.itemgetter("removed")))

    def remove_id(self, id: Id) -> int:
        """Removes an id from the graph, as subscriber and as subject. Returns the number of subscriptions that this ended."""
        return self._send(_Request("DELETE", f"/v1/ids/{_quoted(id)}", result=operator.itemgetter("removed")))

    def sessions(self, id: Id) -> dict[str, Any]:
        """Returns the sessions of an id."""
        return self._send(_Request("GET", f"/v1/sessions/{_quoted(id)}"))

    def close_sessions(self, id: Id, *, ban: str | None = None) -> dict[str, Any]:
        """Closes the sessions of an id, and keeps its clients away for a time like `10m`."""
        params = {"ban": ban} if ban else {}
        return self._send(_Request("DELETE", f"/v1/sessions/{_quoted(id)}", params))

    def slowest(self, *, limit: int | None = None) -> list[dict[str, Any]]:
        """Returns the sessions that are furthest behind; none while no session is behind."""
        params = {} if limit is None else {"limit": str(limit)}
        return self._send(_Request("GET", "/v1/slowest", params, result=operator.itemgetter("sessions")))

    def explain(self, subject: Id, subscriber: Id) -> dict[str, Any]:
        """Returns whether an id would get what is published about a subject now: the `verdict`, a `summary`, `reasons`."""
        params = {"subject": str(subject), "subscriber": str(subscriber)}
        return self._send(_Request("GET", "/v1/explain", params))

    def revoke(self, id: Id | None = None, *, before: int | None = None, jti: str | None = None) -> dict[str, Any]:
        """Revokes the tokens and tickets of an id that were issued until now, or `before` a time in seconds since 1970; or the
        one token with the id `jti`. Sessions that they opened are closed."""
        said = {"id": id, "before": before, "jti": jti}
        body = json.dumps({name: value for name, value in said.items() if value is not None})
        return self._send(_Request("POST", "/v1/revocations", {}, _JSON, body))

    def online(self, ids: Iterable[Id]) -> set[Id]:
        """Returns which of these ids are online, on any node of a cluster. At most 1,000,000.

        The server must run with `--presence`; so it is for the next two.
        """
        body = json.dumps(list(ids))
        return self._send(_Request("POST", "/v1/online", {}, _JSON, body, lambda answer: set(answer["online"])))

    def presence(self, id: Id) -> dict[str, Any]:
        """Returns whether an id is `online`, and whether it is `hidden`; in a cluster the `nodes` on which it is online."""
        return self._send(_Request("GET", f"/v1/presence/{_quoted(id)}"))

    def hide(self, id: Id, hidden: bool = True) -> dict[str, Any]:
        """Hides an id, so that it looks offline to those who follow it, or shows it again."""
        body = json.dumps({"hidden": hidden})
        return self._send(_Request("PUT", f"/v1/presence/{_quoted(id)}", {}, _JSON, body))

    def ticket(self, ids: Iterable[Id], *, ttl: str = "30s") -> str:
        """Issues a ticket with which a client may listen to ids. It must first be used within `ttl`."""
        body = json.dumps({"ids": list(ids), "ttl": ttl})
        result = operator.itemgetter("ticket")
        return self._send(_Request("POST", "/v1/tickets", {}, _JSON, body, result))

    def cursor(self) -> str:
        """Returns the cursor of now: a client that begins with it gets what is published from here on."""
        return self._send(_Request("GET", "/v1/cursor", result=operator.itemgetter("cursor")))

    def history(self, subject: Id, *, after: str | None = None, limit: int | None = None) -> dict[str, Any]:
        """Returns a page of the stored events about a subject, oldest first: `events`, `cursor` and `more`.

        `after` is the `cursor` of the page before.
        """
        params = {"after": after, "limit": None if limit is None else str(limit)}
        params = {name: value for name, value in params.items() if value is not None}
        return self._send(_Request("GET", f"/v1/history/{_quoted(subject)}", params))

    def stats(self) -> dict[str, Any]:
        """Returns the figures of the server."""
        return self._send(_Request("GET", "/v1/stats"))

    def cluster(self) -> dict[str, Any]:
        """Returns the nodes of the cluster, their log and its engine, as the node sees them that is asked."""
        return self._send(_Request("GET", "/v1/cluster"))

    def _following(self, lines: PresenceLines, silence: float) -> dict[str, Any]:
        """Begins a connection that follows presence. Returns the arguments of its request."""
        lines.begin()
        return {
            "method": "GET",
            "url": self._url + "/v1/presence",
            "params": {"cursor": lines.cursor} if lines.cursor else {},
            "headers": {"Accept-Encoding": "identity", **_authorization(self._token)},
            "timeout": httpx.Timeout(TIMEOUT, read=silence),
        }

    def _edge(self, method, subscriber, subject, count):
        path = f"/v1/subscriptions/{_quoted(subscriber)}/{_quoted(subject)}"
        return self._send(_Request(method, path, result=lambda answer: answer[count] == 1))

    def _event(self, verb, subject, data, type, early, headers):
        if isinstance(data, bytes | bytearray | memoryview):
            content, kind = bytes(data), "application/octet-stream"
        elif isinstance(data, str):
            content, kind = data.encode(), "text/plain; charset=utf-8"
        else:
            content, kind = json.dumps(data, allow_nan=False).encode(), "application/json"
        params = {"type": type} if type else {}
        if early:
            params["receipt"] = "early"
        headers = {**(headers or {}), "Content-Type": kind}
        return self._send(_Request("POST", f"/v1/{verb}/{_quoted(subject)}", params, headers, content))


class Control(_Requests):
    """The control API, for threads.

    `url` is the address of the control listener, `token` one of its tokens. `client` brings settings of its own, such as
    certificates. All methods raise `EnckeError` when the server refuses, and `httpx.HTTPError` when it cannot be reached.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8001",
        *,
        token: str | None = None,
        client: httpx.Client | None = None,
    ):
        self._url = url.rstrip("/")
        self._token = token
        self._client = client or httpx.Client(timeout=TIMEOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    def subscriptions(self, subscriber: Id) -> Iterator[Id]:
        """Yields the subjects that an id subscribes to, page by page."""
        return self._pages("subscriptions", subscriber)

    def subscribers(self, subject: Id) -> Iterator[Id]:
        """Yields the ids that subscribe to a subject, page by page."""
        return self._pages("subscribers", subject)

    def follow_presence(
        self, cursor: str | None = None, *, silence: float = SILENCE
    ) -> Iterator[Snapshot | Change]:
        """Yields who comes online and who goes offline, for ever; first a `Snapshot` of all that are online.

        With the `cursor` of the last message it goes on there, without a snapshot unless changes may be missing. It comes
        back after a break. The server must run with `--presence`. Raises `EnckeError` when the server refuses.
        """
        lines = PresenceLines(cursor)
        while True:
            told = None
            try:
                with self._client.stream(**self._following(lines, silence)) as answer:
                    if _has_lines(answer):
                        for data in answer.iter_bytes():
                            yield from lines.receive(data)
                    else:
                        answer.read()
                        told = _unless_final(answer, lines)
            except (httpx.TransportError, OSError):
                pass
            time.sleep(lines.delay(told))

    def _pages(self, of, id):
        after = {}
        while True:
            page = self._send(_Request("GET", f"/v1/{of}/{_quoted(id)}", after))
            yield from page[of]
            if page["next"] is None:
                return
            after = {"after": page["next"]}

    def _send(self, request):
        method, path, params, headers, content, _ = request
        headers = {**_authorization(self._token), **headers}
        answer = self._client.request(method, self._url + path, params=params, headers=headers, content=content)
        return _result(request, answer)


class AsyncControl(_Requests):
    """The control API, for asyncio: like `Control`, with methods to await."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8001",
        *,
        token: str | None = None,
        client: httpx.AsyncClient | None = None,
    ):
        self._url = url.rstrip("/")
        self._token = token
        self._client = client or httpx.AsyncClient(timeout=TIMEOUT)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.aclose()

    def subscriptions(self, subscriber: Id):
        """Yields the subjects that an id subscribes to, page by page."""
        return self._pages("subscriptions", subscriber)

    def subscribers(self, subject: Id):
        """Yields the ids that subscribe to a subject, page by page."""
        return self._pages("subscribers", subject)

    async def follow_presence(
        self, cursor: str | None = None, *, silence: float = SILENCE
    ) -> AsyncIterator[Snapshot | Change]:
        """Like `Control.follow_presence`, as an asynchronous generator."""
        lines = PresenceLines(cursor)
        while True:
            told = None
            try:
                async with self._client.stream(**self._following(lines, silence)) as answer:
                    if _has_lines(answer):
                        async for data in answer.aiter_bytes():
                            for message in lines.receive(data):
                                yield message
                    else:
                        await answer.aread()
                        told = _unless_final(answer, lines)
            except (httpx.TransportError, OSError):
                pass
            await asyncio.sleep(lines.delay(told))

    async def _pages(self, of, id):
        after = {}
        while True:
            page = await self._send(_Request("GET", f"/v1/{of}/{_quoted(id)}", after))
            for one in page[of]:
                yield one
            if page["next"] is None:
                return
            after = {"after": page["next"]}

    async def _send(self, request):
        method, path, params, headers, content, _ = request
        headers = {**_authorization(self._token), **headers}
        if content is not None and not isinstance(content, str | bytes):
            content = _as_async(content)
        answer = await self._client.request(
            method, self._url + path, params=params, headers=headers, content=content
        )
        return _result(request, answer)


_NDJSON = {"Content-Type": "application/x-ndjson"}
_JSON = {"Content-Type": "application/json"}

LINES_BYTES = 1 << 16
"""Bytes of lines that are sent at a time."""


def _quoted(id: Id) -> str:
    text = quote(str(id), safe="")
    # Clients take a dot alone out of a path.
    return text.replace(".", "%2E") if text in (".", "..") else text


def _authorization(token: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


def _line(event: Mapping[str, Any]) -> dict[str, Any]:
    data = event["data"]
    if isinstance(data, bytes | bytearray | memoryview):
        return {**event, "data": base64.b64encode(data).decode(), "encoding": "base64"}
    return dict(event)


def _edge(edge: tuple[Id, Id]) -> dict[str, Id]:
    subscriber, subject = edge
    return {"subscriber": subscriber, "subject": subject}


def _lines(objects: Iterable[Any]) -> Iterator[bytes]:
    waiting = bytearray()
    for value in objects:
        waiting += json.dumps(value, allow_nan=False).encode() + b"\n"
        if len(waiting) >= LINES_BYTES:
            yield bytes(waiting)
            waiting.clear()
    yield bytes(waiting)


async def _as_async(pieces: Iterable[bytes]):
    for piece in pieces:
        yield piece


def _has_lines(answer: httpx.Response) -> bool:
    return answer.status_code == 200 and content_type(answer) == "application/x-ndjson"


def _unless_final(answer: httpx.Response, lines: PresenceLines) -> float | None:
    """Raises the error of an answer, unless trying again is of use. Returns how long to wait, as the server said."""
    status = answer.status_code
    # Who has had the stream knows that the address is right: something between the two answers for the server.
    if not (status >= 500 or status in (408, 429) or (answer.is_success and lines.was_live)):
        raise error_of(answer)
    return told_by(answer.headers)


def _result(request: _Request, answer: httpx.Response) -> Any:
    if answer.is_success and is_json(answer):
        return request.result(answer.json())
    raise error_of(answer)
