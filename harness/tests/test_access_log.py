"""The access log: which lines there are, what stays out of them, and what logrotate does to it."""

import contextlib
import json
import os
import signal
import socket
import stat

import httpx

from support.http import PLAIN
from support.program import encke
from support.server import Server
from support.wait import PATIENCE, until


@contextlib.contextmanager
def served(*flags):
    server = Server(*flags)
    try:
        yield server
    finally:
        server.kill()


def entries(path):
    """The lines of a log. Each is one JSON object."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def logged(path, count=1):
    until(lambda: path.exists() and len(entries(path)) >= count, f"{count} lines")
    return entries(path)


def ask(server, head):
    """Sends the bytes of a request, and returns the answer up to the end of its head."""
    with socket.create_connection(server.public, PATIENCE) as client:
        client.sendall(head)
        answer = b""
        while b"\r\n\r\n" not in answer:
            piece = client.recv(65536)
            if not piece:
                break
            answer += piece
        return answer


def get(path, fields=""):
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n".encode()


def test_requests_and_sessions_have_a_line_each(tmp_path):
    log = tmp_path / "access.log"
    with served("--access-log", log) as server:
        assert b" 404 " in ask(server, get("/nothing"))
        (line,) = logged(log)
        assert (line["method"], line["path"], line["status"]) == ("GET", "/nothing", 404)
        assert line["client"] == "127.0.0.1" and line["bytes"] > 100
        assert b" 200 " in ask(server, get("/events/alice,7"))
        session = logged(log, 2)[1]
        assert session["ids"] == ["alice", 7] and session["transport"] == "sse"
        assert (session["status"], session["reason"]) == (200, "peer")
        assert session["bytes"] is None or session["bytes"] > 100
        assert session["time"].endswith("Z") and session["seconds"] >= 0
        metrics = server.api.get("/metrics").text
        assert 'encke_access_log_lines_total{outcome="written"} 2' in metrics
        assert 'encke_access_log_lines_total{outcome="dropped"} 0' in metrics
    # It says who follows what.
    assert stat.S_IMODE(log.stat().st_mode) & 0o007 == 0


def test_secrets_stay_out(tmp_path):
    log = tmp_path / "access.log"
    secret = tmp_path / "secret"
    secret.write_text("0123456789-0123456789-0123456789-0123456789\n")
    secret.chmod(0o600)
    with served("--access-log", log, "--jwt-secret-file", secret, "--jwt-query", "--tickets") as server:
        for path in ("/events/a?access_token=HIDDEN", "/events/a?ticket=HIDDEN", "/ws/a?access_token=HIDDEN",
                     "/poll/a?access_token=HIDDEN", "/?HIDDEN"):  # fmt: skip
            ask(server, get(path))
        fields = "Cookie: token=HIDDEN\r\nAuthorization: Bearer HIDDEN\r\nReferer: http://a/HIDDEN\r\n"
        ask(server, get("/events/a", fields))
        assert len(logged(log, 6)) == 6
    assert "HIDDEN" not in log.read_text()


def test_a_stranger_forges_no_line(tmp_path):
    log = tmp_path / "access.log"
    with served("--access-log", log) as server:
        forged = '%0a{"status":200}%0d%0a","reason":"x%1b[2J%c2%85%e2%80%a8'
        for path in (f"/events/{forged}", f"/{forged}", "/events/" + "é" * 60, "/" + "a" * 4000):
            ask(server, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        ask(server, b"no request\n\n\r\n\r\n")
        ask(server, b'GET /events/a","status":1,"x":" HTTP/1.1\r\nHost: localhost\r\n\r\n')
        assert len(logged(log, 6)) == 6
        text = log.read_bytes().decode()
    assert text.count("\n") == 6 and not any(ord(c) < 32 or 126 < ord(c) < 160 for c in text.replace("\n", ""))
    for line in map(json.loads, text.splitlines()):
        assert isinstance(line["status"], int) and len(line.get("path", "")) <= 512


def test_clients_are_those_that_trusted_proxies_name(tmp_path):
    log = tmp_path / "access.log"
    fields = "X-Forwarded-For: 192.0.2.7\r\n"
    for flags, client in ((["--trusted-proxy", "127.0.0.1"], "192.0.2.7"), ([], "127.0.0.1")):
        log.unlink(missing_ok=True)
        with served("--access-log", log, *flags) as server:
            ask(server, get("/", fields))
            assert logged(log)[0]["client"] == client


def test_a_moved_file_is_left_on_sighup_without_a_lost_line(tmp_path):
    log, moved = tmp_path / "access.log", tmp_path / "access.log.1"
    with served("--access-log", log) as server:
        httpx.get(f"{server.public_url}/livez", **PLAIN)
        logged(log)
        log.rename(moved)
        httpx.get(f"{server.public_url}/readyz", **PLAIN)
        logged(moved, 2)
        os.kill(server.pid, signal.SIGHUP)
        until(log.exists, "it is opened again")
        httpx.get(f"{server.public_url}/livez", **PLAIN)
        assert logged(log)[0]["path"] == "/livez"
    assert [line["path"] for line in entries(moved)] == ["/livez", "/readyz"]


def test_open_sessions_are_logged_when_the_server_ends(tmp_path):
    log = tmp_path / "access.log"
    with served("--access-log", log, "--drain-timeout", "1s") as server:
        client = socket.create_connection(server.public, PATIENCE)
        client.sendall(get("/stream/rj"))
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        server.stop()
        client.close()
    assert [(line["ids"], line["reason"]) for line in entries(log)] == [(["rj"], "drain")]


def test_a_file_that_cannot_be_opened_is_an_error_at_the_start(tmp_path):
    path = tmp_path / "no" / "access.log"
    failed = encke("serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--access-log", path)
    assert failed.returncode == 1
    assert f"the access log {path} cannot be opened" in failed.stderr, failed.stderr


def test_a_full_disk_stops_nothing_and_is_counted():
    with served("--access-log", "/dev/full") as server:
        for _ in range(3):
            assert httpx.get(f"{server.public_url}/livez", **PLAIN).status_code == 200
        failed = 'encke_access_log_lines_total{outcome="failed"} 3'
        until(lambda: failed in server.api.get("/metrics").text, "it is counted")
        assert server.log.count("the access log cannot be written") == 1


