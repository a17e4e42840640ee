"""A stream as bytes: read without waiting for long, decoded to what came. Whatever breaks it is an end, and no error."""

import json
import select
import socket
import time

# A node that is paused answers late; a client that waits longer for the head tries another.
CONNECT_SECONDS = 3.0


class Ended(Exception):
    """The stream is over; the message says how."""


class Stream:
    """One GET, and what it answers, decoded from its chunks, line by line."""

    def __init__(self, address, target, cursor):
        try:
            self.socket = socket.create_connection(address, timeout=CONNECT_SECONDS)
        except OSError as error:
            raise Ended(f"connect: {error}") from None
        self.bytes, self.body, self.is_chunked = b"", b"", False
        field = f"Last-Event-ID: {cursor}\r\n" if cursor else ""
        try:
            self.socket.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n{field}\r\n".encode())
            self.fields = self._head(time.monotonic() + CONNECT_SECONDS)
        except OSError as error:
            self.close()
            raise Ended(f"head: {error}") from None
        except Ended:
            self.close()
            raise

    def _head(self, deadline):
        while b"\r\n\r\n" not in self.bytes:
            if time.monotonic() > deadline:
                raise Ended("head: none in time")
            self._receive(deadline)
        head, _, self.bytes = self.bytes.partition(b"\r\n\r\n")
        line, *fields = head.decode().split("\r\n")
        if " 200 " not in f"{line} ":
            raise Ended(f"head: {line}")
        return {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}

    def _receive(self, deadline):
        """Waits for bytes until the deadline; returns whether some came."""
        if not select.select([self.socket], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return False
        try:
            piece = self.socket.recv(262144)
        except OSError as error:
            raise Ended(f"read: {error}") from None
        if not piece:
            raise Ended("read: end")
        self.bytes += piece
        return True

    def lines(self, deadline):
        """Whole lines of the body that come until the deadline; returns as soon as there are some."""
        while True:
            self._unchunk()
            if b"\n" in self.body:
                *lines, self.body = self.body.split(b"\n")
                return [line.decode() for line in lines]
            if not self._receive(deadline):
                return []

    def _unchunk(self):
        while True:
            size, end, rest = self.bytes.partition(b"\r\n")
            if not end:
                return
            length = int(size, 16)
            if length == 0:
                raise Ended("read: last chunk")
            if len(rest) < length + 2:
                return
            self.body += rest[:length]
            self.bytes = rest[length + 2 :]

    def close(self):
        self.socket.close()


class Sse:
    """Blocks of Server-Sent Events."""

    path = "events"

    def __init__(self):
        self.block = {}

    def decode(self, line):
        """What a line completes: (kind, id, value), or `None`."""
        if line:
            name, _, value = line.partition(":")
            self.block[name] = value.removeprefix(" ")
            return None
        block, self.block = self.block, {}
        identifier, data, kind = block.get("id"), block.get("data"), block.get("event")
        if data is None:
            return ("cursor", identifier, None) if identifier else None
        # A notice has no id.
        return ("event", identifier, data) if identifier else (kind, None, data)


class Ndjson:
    """A JSON object a line."""

    path = "stream"

    def decode(self, line):
        value = json.loads(line)
        identifier = value.get("id")
        if "data" not in value:
            return ("cursor", identifier, None) if identifier else None
        if identifier:
            return "event", identifier, value["data"]
        return value["type"], None, json.dumps(value["data"])


DECODERS = {"sse": Sse, "ndjson": Ndjson}
