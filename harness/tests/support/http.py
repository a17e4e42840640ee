"""HTTP/1.1 over bare sockets, byte for byte: what a library would hide is what is tested."""

import json
import socket
import struct
import time

from .wait import PATIENCE

# For `httpx` where nothing is encrypted. It would read the authorities of this machine for each client, which takes longer
# than the request.
PLAIN = {"trust_env": False, "verify": False}


class Closed(Exception):
    """The peer has ended its side, or broken the connection."""


class Response:
    """A complete answer."""

    def __init__(self, status, phrase, fields, body):
        self.status, self.phrase, self.fields, self.body = status, phrase, fields, body

    @property
    def text(self):
        return self.body.decode()

    def __repr__(self):
        return f"{self.status} {self.phrase} {self.fields} {self.body[:200]!r}"


class Connection:
    """A connection to the public listener, or to another address. With `tls`, a context of Python's ssl, over TLS."""

    def __init__(self, server, receive_buffer=None, source=None, address=None, tls=None, name="localhost"):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(PATIENCE)
        if source:
            self.socket.bind((source, 0))
        self.socket.connect(address or (server.secure if tls else server.public))
        if tls:
            # An end without a word of TLS is an error, and not an end.
            self.socket = tls.wrap_socket(self.socket, server_hostname=name, suppress_ragged_eofs=False)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def reset(self):
        """Breaks the connection: the peer gets RST instead of FIN."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # What was answered before it can still be read, or its absence is found.

    def get(self, target, *fields, version="HTTP/1.1", method="GET"):
        lines = [f"{method} {target} {version}", "Host: localhost", *fields, "", ""]
        self.send("\r\n".join(lines).encode())

    def more(self, patience=PATIENCE):
        self.socket.settimeout(patience)
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            raise Closed("reset") from None
        except TimeoutError:
            raise AssertionError(f"nothing for {patience} s; so far {self.buffer[-200:]!r}") from None
        if not data:
            raise Closed("ended")
        self.buffer += data

    def take(self, count):
        while len(self.buffer) < count:
            self.more()
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def take_until(self, end):
        while end not in self.buffer:
            self.more()
        data, _, self.buffer = self.buffer.partition(end)
        return data + end

    def head(self):
        """Status, phrase and fields, each name in its own spelling."""
        head = self.take_until(b"\r\n\r\n").decode("ascii")
        line, *lines = head[:-4].split("\r\n")
        version, status, phrase = line.split(" ", 2)
        assert version == "HTTP/1.1", line
        pairs = [field.split(": ", 1) for field in lines]
        fields = dict(pairs)
        assert len(fields) == len(pairs), f"a field is repeated: {lines}"
        return int(status), phrase, fields

    def response(self, head_only=False):
        status, phrase, fields = self.head()
        body = b""
        if not head_only and status != 204:
            # The control listener spells its fields in lower case.
            body = self.take(int(fields.get("Content-Length") or fields["content-length"]))
        return Response(status, phrase, fields, body)

    def rest(self, patience=PATIENCE):
        """Everything up to the end of the connection; a reset is an error."""
        while True:
            try:
                self.more(patience)
            except Closed as closed:
                assert str(closed) == "ended", "the connection was reset"
                data, self.buffer = self.buffer, b""
                return data

    def is_silent(self, seconds):
        """Whether nothing arrives for a while."""
        self.socket.settimeout(seconds)
        try:
            self.buffer += self.socket.recv(65536)
        except TimeoutError:
            return not self.buffer
        except ConnectionResetError:
            return False
        return False


class Stream:
    """A streaming answer: head read, body decoded from its chunks or up to the connection's end."""

    def __init__(self, server, target, *fields, version="HTTP/1.1", **options):
        self.connection = Connection(server, **options)
        self.connection.get(target, *fields, version=version)
        self.status, self.phrase, self.fields = self.connection.head()
        assert self.status == 200, (self.status, self.connection.buffer)
        self.chunked = self.fields.get("Transfer-Encoding") == "chunked"
        self.ended = False
        self.text = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.connection.close()

    def reset(self):
        self.connection.reset()

    def chunk(self):
        """The next piece of the body; empty at its end."""
        connection = self.connection
        if not self.chunked:
            try:
                if not connection.buffer:
                    connection.more()
            except Closed as closed:
                assert str(closed) == "ended"
            data, connection.buffer = connection.buffer, b""
            self.ended = not data
            return data
        size = connection.take_until(b"\r\n")
        assert size == b"%x\r\n" % int(size, 16), size
        data = connection.take(int(size, 16))
        assert connection.take(2) == b"\r\n"
        self.ended = not data
        return data

    def line(self):
        """The next line without its end; `None` at the end of the body."""
        while b"\n" not in self.text:
            piece = self.chunk()
            if not piece:
                assert not self.text, f"the body ended within a line: {self.text!r}"
                return None
            self.text += piece
        line, _, self.text = self.text.partition(b"\n")
        return line


class Sse(Stream):
    """Server-Sent Events by the letter of WHATWG HTML 9.2.6, but that only LF may end a line: the
    server has no reason to send another."""

    def __init__(self, server, ids, *fields, **options):
        super().__init__(server, f"/events/{ids}", *fields, **options)
        self.retry = []
        self.last_id = ""

    def event(self):
        """The next event as (type, data, id); `None` at the end."""
        kind, data = "", []
        while True:
            line = self.line()
            if line is None:
                return None
            assert b"\r" not in line, line
            name, colon, value = line.decode().partition(":")
            value = value.removeprefix(" ")
            match name:
                case "" if not colon:
                    if data:
                        return kind or "message", "\n".join(data), self.last_id
                    kind = ""
                case "":
                    pass
                case "data":
                    data.append(value)
                case "event":
                    kind = value
                case "id":
                    self.last_id = value
                case "retry":
                    self.retry.append(int(value))
                case _:
                    raise AssertionError(f"an unknown field: {line!r}")

    def data(self):
        event = self.event()
        assert event is not None, "the stream has ended"
        return event[1]


class Ndjson(Stream):
    """One JSON object a line."""

    def __init__(self, server, ids, *fields, **options):
        super().__init__(server, f"/stream/{ids}", *fields, **options)

    def event(self):
        """The next event; heartbeats and cursors are skipped. `None` at the end."""
        while True:
            line = self.line()
            if line is None:
                return None
            event = json.loads(line)
            if event.keys() - {"id"}:
                return event

    def data(self):
        event = self.event()
        assert event is not None, "the stream has ended"
        return event["data"]


def elapsed(action):
    """How long it takes, and what it gives."""
    before = time.monotonic()
    result = action()
    return time.monotonic() - before, result
