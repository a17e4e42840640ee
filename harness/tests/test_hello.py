"""`encke-proxy hello`: one answer for everybody, and its end."""

import http.client
import pathlib
import re
import resource
import signal
import socket
import subprocess
import sys

import pytest

from support.program import Program, encke
from support.wait import PATIENCE, until


FAST_OPEN = pathlib.Path("/proc/sys/net/ipv4/tcp_fastopen")
# Of tcpi_options in linux/tcp.h: data was in the first packet, and acknowledged with it.
TCPI_OPT_SYN_DATA = 32


@pytest.fixture
def hello(tmp_path):
    started = []

    def start(*flags, **options):
        program = Program("hello", "--listen", "127.0.0.1:0", *flags, cwd=tmp_path, **options)
        started.append(program)
        return program

    yield start
    for program in started:
        program.stop()


def curl(*arguments):
    return subprocess.run(
        ["curl", "-sS", "--noproxy", "*", "--max-time", f"{PATIENCE}", *map(str, arguments)],
        capture_output=True,
        check=True,
    ).stdout


def test_the_answer_is_what_was_asked_for(hello):
    server = hello("--body", "no tea", "--status", "418", "--header", "X-Pot: brown")
    text = curl("-i", server.url).decode()
    head, body = text.split("\r\n\r\n")
    assert head.startswith("HTTP/1.1 418 ")
    assert "X-Pot: brown" in head
    assert re.search(r"Date: \w{3}, \d\d \w{3} \d{4} ", head)
    assert body == "no tea"
    assert curl("-I", server.url).endswith(b"\r\n\r\n")
    assert curl("-0", server.url) == b"no tea"
    assert curl("-d", "x" * 100_000, server.url) == b"no tea"


def test_many_requests_share_a_connection(hello):
    server = hello("--workers", "2")
    client = http.client.HTTPConnection(*server.listen)
    for number in range(100):
        client.request("POST" if number % 2 else "GET", "/", body=b"x" * (number % 2))
        assert client.getresponse().read() == b"hello"
    client.close()


def test_pipelined_requests_are_answered_in_order_by_few_sends(hello):
    server = hello()
    with socket.create_connection(server.listen) as client:
        client.settimeout(PATIENCE)
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 50)
        client.shutdown(socket.SHUT_WR)
        answers = b"".join(iter(lambda: client.recv(65536), b""))
    assert answers.count(b"HTTP/1.1 200 OK\r\n") == 50


def test_short_connections_leave_nothing_behind(hello):
    server = hello("--workers", "1")
    before = server.descriptors()
    for _ in range(200):
        with socket.create_connection(server.listen) as client:
            client.settimeout(PATIENCE)
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            answer = b"".join(iter(lambda: client.recv(65536), b""))
            assert answer.endswith(b"hello")
    # The end is sent an instant before its descriptor is closed.
    until(lambda: server.descriptors() == before, "all descriptors are closed")


def test_the_last_answer_and_the_end_are_one_packet(hello):
    server = hello("--workers", "1")

    def segments():
        with socket.create_connection(server.listen) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            while client.recv(65536):
                pass
            info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 144)
        return int.from_bytes(info[140:144], sys.byteorder)  # tcpi_segs_in of linux/tcp.h

    # The connection, the request's acknowledgement, the answer.
    assert min(segments() for _ in range(20)) == 3


def test_with_defer_accept_only_those_who_ask_are_accepted(hello):
    for flags, silent_ones in [(["--defer-accept"], 0), ([], 1)]:
        server = hello("--workers", "1", *flags)
        before = server.descriptors()
        with socket.create_connection(server.listen):
            # Who comes later is served, so the silent one was passed over.
            assert curl(server.url) == b"hello"
            until(lambda: server.descriptors() == before + silent_ones, "those who asked are gone")


def test_a_client_that_waits_to_be_told_sends_its_body_and_asks_again(hello, tmp_path):
    server = hello()
    body = tmp_path / "body"
    body.write_bytes(bytes(2_000_000))
    ask = ["-H", "Expect: 100-continue", "--data-binary", f"@{body}", server.url]
    told = "%{stderr}%{http_code} %{size_upload} %{num_connects}\n"
    done = subprocess.run(
        ["curl", "-sS", "--noproxy", "*", "--max-time", "10", "-w", told, *ask, server.url],
        capture_output=True,
        text=True,
    )
    assert done.stdout == "hellohello"
    assert done.stderr.split("\n")[:2] == ["200 2000000 1", "200 2000000 0"]


def test_the_limit_on_descriptors_is_raised_and_said_when_met(hello):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
    try:
        raised = hello()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    limits = pathlib.Path(f"/proc/{raised.pid}/limits").read_text()
    assert re.search(rf"Max open files +{hard} ", limits), limits
    server = hello("--workers", "1", nofile=40)
    held = [socket.create_connection(server.listen) for _ in range(60)]
    until(lambda: "raise the limit on open files" in server.log, "a sentence")
    for client in held:
        client.close()


def test_fast_open_is_had_or_refused_with_a_remedy(hello):
    granted = int(FAST_OPEN.read_text())
    if granted & 2:
        assert curl("--tcp-fastopen", hello("--fastopen").url) == b"hello"
        return
    done = encke("hello", "--listen", "127.0.0.1:0", "--fastopen")
    assert done.returncode == 1
    assert f"sysctl -w net.ipv4.tcp_fastopen={granted | 2}" in done.stderr


@pytest.mark.parametrize("flags", [[], ["--defer-accept"]])
def test_with_fast_open_the_request_comes_with_the_first_packet(hello, flags):
    granted = int(FAST_OPEN.read_text())
    if granted & 3 != 3:
        pytest.skip(f"net.ipv4.tcp_fastopen is {granted}; 3 grants it to clients and servers")
    server = hello("--workers", "1", "--fastopen", *flags)

    def ask():
        """Whether the data that came with the first packet was taken."""
        with socket.socket() as client:
            client.settimeout(10)
            request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
            assert client.sendto(request, socket.MSG_FASTOPEN, server.listen) == len(request)
            answer = b"".join(iter(lambda: client.recv(65536), b""))
            assert answer.endswith(b"hello")
            info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 144)
        return bool(info[5] & TCPI_OPT_SYN_DATA)

    # The first connection fetches the cookie that the others show.
    ask()
    assert ask() and ask()


def test_without_descriptors_the_next_client_waits(hello):
    server = hello("--workers", "1", nofile=40)
    held = [socket.create_connection(server.listen) for _ in range(60)]
    for client in held[:40]:
        client.close()
    with held[-1] as last:
        last.settimeout(PATIENCE)
        last.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert last.recv(65536).startswith(b"HTTP/1.1 200")
    for client in held:
        client.close()


def test_an_idle_client_does_not_keep_the_server_from_its_end(hello):
    server = hello("--private-fds", "--workers", "3")
    with socket.create_connection(server.listen) as client:
        client.settimeout(PATIENCE)
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.recv(65536).endswith(b"hello")
        server.stop()
        assert client.recv(1) == b""


def test_who_has_asked_before_the_end_is_answered(hello):
    server = hello("--workers", "1")
    ask = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    with socket.create_connection(server.listen) as kept:
        kept.settimeout(10)
        kept.sendall(ask)
        assert kept.recv(65536).endswith(b"hello")
        server.signal(signal.SIGSTOP)
        kept.sendall(ask)
        clients = [socket.create_connection(server.listen) for _ in range(300)]
        for client in clients:
            client.settimeout(10)
            client.sendall(ask)
        server.signal(signal.SIGTERM)
        server.signal(signal.SIGCONT)
        for client in [kept, *clients]:
            answer = b"".join(iter(lambda: client.recv(65536), b""))
            assert answer.endswith(b"hello")
            client.close()
    assert server.wait() == 0


@pytest.mark.parametrize(
    "flags, said",
    [
        (["--status", "101"], "200 to 599"),
        (["--status", "204", "--body", "x"], "has no body"),
        (["--header", "nonsense"], "a colon"),
        (["--header", "Content-Length: 7"], "writes Content-Length itself"),
    ],
)
def test_an_answer_that_cannot_be_is_refused_with_a_sentence(flags, said):
    done = encke("hello", *flags)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_taken_port_is_said(hello):
    server = hello()
    done = encke("hello", "--listen", "%s:%d" % server.listen)
    assert done.returncode == 1
    assert "in use" in done.stderr
