"""The table of requests in `conformance/requests.tsv`, and what a listener makes of a row."""

import contextlib
import dataclasses
import pathlib
import re
import socket
import tempfile
import threading

from .program import installed
from .reverse import running, temporary_paths
from .wait import PATIENCE

TABLE = pathlib.Path(__file__).resolve().parents[1] / "conformance" / "requests.tsv"

# Sent behind each row. It is answered only if the row has ended where the table says.
MARKER = b"GET /marker HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")


@dataclasses.dataclass(frozen=True)
class Row:
    """A request. `outcomes` has for each listener the statuses of its answers, then `+` if the marker is answered
    as well, `.` if the connection has ended before it; `-` for no answer at all."""

    name: str
    source: str
    head: str
    outcomes: dict
    data: bytes

    @property
    def is_refused(self):
        """Whether its first head is refused."""
        return self.head[0].isupper()

    @property
    def is_whole(self):
        return self.head != "more"


def rows():
    """All rows of the table, in their order."""
    lines = TABLE.read_text("ascii").splitlines()
    table = [_row(*line.split("\t")) for line in lines if line and not line.startswith("#")]
    assert len({row.name for row in table}) == len(table) >= 215
    return table


def _row(name, source, head, public, control, hello, data):
    return Row(name, source, head, {"public": public, "control": control, "hello": hello}, unescape(data))


def unescape(text):
    r"""Undoes `\r`, `\n`, `\t`, `\\`, `\xNN` and `\{COUNT:TEXT}`, which stands for a repetition."""

    def undo(found):
        escape = found[1]
        if escape[0] == "{":
            count, _, repeated = escape[1:-1].partition(":")
            return unescape(repeated).decode("latin-1") * int(count)
        if escape[0] == "x":
            return chr(int(escape[1:], 16))
        return {"r": "\r", "n": "\n", "t": "\t", "\\": "\\"}[escape]

    return re.sub(r"\\(\{[^}]*\}|x[0-9a-f]{2}|.)", undo, text).encode("latin-1")


def exchange(address, row, by_bytes=False, patience=PATIENCE):
    """Sends a row, and the marker if the row is whole. Returns all that is answered, up to the end of the connection,
    and whether it has ended."""
    with socket.create_connection(address, timeout=patience) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if by_bytes:
                for byte in row.data:
                    client.send(bytes([byte]))
                client.sendall(MARKER if row.is_whole else b"")
            else:
                client.sendall(row.data + (MARKER if row.is_whole else b""))
            if not row.is_whole:
                client.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while data := client.recv(65536):
                answer += data
        except ConnectionResetError:
            pass
        except TimeoutError:
            return answer, False
        return answer, True


def statuses(answer, ended):
    """The statuses of all answers; one that is none if the connection stays open."""
    return [status.decode() for status in STATUS.findall(answer)] + ([] if ended else ["open"])


def expected(text, marker):
    """The statuses of an outcome in the table, with that of the marker."""
    own = [status for status in text.rstrip("+.-").split(",") if status]
    return own + ([marker] if text.endswith("+") else [])


class Tap:
    """Passes bytes between a proxy and a listener, and counts the answers of the listener, 1xx not counted."""

    def __init__(self, to):
        self.to, self.heard = to, []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = self.listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def answers(self):
        return sum(status >= b"200" for heard in self.heard for status in STATUS.findall(heard))

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(self.to)
            heard = bytearray()
            self.heard.append(heard)
            for source, sink, kept in [(client, server, None), (server, client, heard)]:
                threading.Thread(target=self._pass, args=(source, sink, kept), daemon=True).start()

    @staticmethod
    def _pass(source, sink, kept):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if kept is not None:
                    kept += data
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
        if kept is not None:
            source.close()
            sink.close()


class Front:
    """A proxy in front of a listener."""

    def __init__(self, address, log):
        self.address, self.log = address, log

    def passed_on(self):
        """How many requests it has passed on, by its own account."""
        lines = self.log.read_text(errors="replace").splitlines()
        return sum(line.startswith("one ") for line in lines)


@contextlib.contextmanager
def front(kind, port, to):
    """Runs nginx or HAProxy, which keeps its connections to the listener and shares them between clients."""
    with tempfile.TemporaryDirectory(prefix="encke-front-") as directory:
        directory = pathlib.Path(directory)
        log, path = directory / "requests.log", directory / "conf"
        path.write_text(_nginx(port, to, directory) if kind == "nginx" else _haproxy(port, to, kind))
        command = {
            "nginx": [installed("nginx"), "-c", path, "-p", directory],
            "haproxy": [installed("haproxy"), "-db", "-f", path],
        }[kind.split(",")[0]]
        with open(directory / "output" if kind == "nginx" else log, "wb") as output:
            with running(command, kind, port, output):
                yield Front(("127.0.0.1", port), log)


def _nginx(port, to, directory):
    # As much is passed on as nginx can be told to.
    return f"""daemon off; master_process off; pid {directory}/pid; error_log {directory}/error.log;
        events {{}} http {{ {temporary_paths(directory)}
        map $upstream_addr $fate {{ "" "none"; default "one"; }}
        log_format fate "$fate $status $upstream_status $request"; access_log {directory}/requests.log fate;
        upstream listener {{ server {to[0]}:{to[1]}; keepalive 4; }}
        server {{ listen 127.0.0.1:{port}; client_header_timeout 1s; client_body_timeout 1s; lingering_close off;
            merge_slashes off; underscores_in_headers on; ignore_invalid_headers off;
            location / {{ proxy_pass http://listener; proxy_http_version 1.1; proxy_set_header Connection "";
                proxy_set_header Host $http_host; proxy_request_buffering off; proxy_next_upstream off; }} }} }}"""


def _haproxy(port, to, kind):
    lenient = "option accept-invalid-http-request" if "lenient" in kind else ""
    return f"""global
  log stdout format raw local0
defaults
  mode http
  log global
  {lenient}
  retries 0
  http-reuse always
  timeout connect 10s
  timeout client 1s
  timeout http-request 1s
  timeout server 60s
frontend edge
  bind 127.0.0.1:{port}
  log-format "%s %ST %r"
  default_backend listener
backend listener
  server one {to[0]}:{to[1]}
"""
