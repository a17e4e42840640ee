"""`encke-lab flood` against this server, against servers that lie on purpose, and against strangers."""

import base64
import hmac
import http.server
import json
import resource
import signal
import socket
import socketserver
import subprocess
import threading
import time

import pytest
import websockets.exceptions
import websockets.sync.server

from support.http import Ndjson
from support.program import address, begin, encke, installed
from support.sockets import unread_bytes
from support.wait import PATIENCE, PROMPT, until


class Flood:
    """A running `encke-lab flood --json`."""

    def __init__(self, *arguments, **options):
        self.process = begin("flood", "--json", *arguments, **options)

    def end(self, code=0):
        """Waits for its end; returns the report, and what it said beside."""
        try:
            out, self.said = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        assert self.process.returncode == code, (self.process.returncode, out, self.said)
        return json.loads(out) if out else None

    def interrupt(self, code=0):
        self.process.send_signal(signal.SIGINT)
        return self.end(code)


def flood(*arguments, code=0, **options):
    running = Flood(*arguments, **options)
    return running.end(code), running.said


def stamped(number, late_ms=0):
    return {"t": time.time_ns() - late_ms * 1_000_000, "n": number}


def publish(server, subjects, numbers):
    lines = [
        json.dumps({"subject": subject, "data": stamped(number)})
        for number in numbers
        for subject in subjects
    ]
    summary = server.post("/v1/publish?receipts=summary", "\n".join(lines).encode())
    assert summary["failed"] == 0, summary


def online(server):
    return sum(server.totals()["sessions"].values())


def sessions(server, count):
    until(lambda: online(server) == count, f"{count} sessions")


# This server


@pytest.mark.parametrize("transport,path", [("sse", "events"), ("ndjson", "stream"), ("chunked", "test")])
def test_every_transport_is_decoded_and_checked(start, transport, path):
    server = start()
    url = f"{server.public_url}/{path}/{{n}}"
    running = Flood(
        url, "-c", 50, "--transport", transport, "--events", 500, "--expect-no-loss",
        "--expect-order", "--expect-events", 500, "--expect-open", 50, "--expect-p99", "10s",
    )
    sessions(server, 50)
    publish(server, range(1, 51), range(1, 11))
    report = running.end()
    assert (report["opened"], report["heads"], report["active"]) == (50, 50, 50)
    assert (report["events"], report["heartbeats"]) == (500, 50)
    assert report["numbers"]["checked"] == 500
    assert report["numbers"]["skipped"] == report["numbers"]["duplicates"] == 0
    assert report["ids"]["checked"] == (0 if transport == "chunked" else 500)
    assert report["latency"]["count"] == 500
    assert all(verdict["met"] for verdict in report["verdicts"])
    assert report["troubles"] == []
    latency = report["latency"]
    assert 0 < latency["min_us"] <= latency["p50_us"] <= latency["p95_us"] <= latency["p99_us"] <= latency["max_us"]
    # The slowest are in the mean of all, and in no other.
    assert latency["min_us"] <= latency["p95_mean_us"] <= latency["p99_mean_us"] <= latency["mean_us"] <= latency["max_us"]
    assert latency["p95_mean_us"] <= latency["p95_us"] * 1.001 and 0 < latency["stdev_us"] < latency["max_us"]


def test_latency_is_counted_from_when_the_event_was_due(start):
    server = start()
    running = Flood(f"{server.public_url}/events/7", "-c", 1, "--events", 2, "--expect-p99", "2s")
    sessions(server, 1)
    for number in (1, 2):
        server.publish(7, json.dumps(stamped(number, late_ms=5000)))
    latency = running.end(code=1)["latency"]
    # Three digits are kept.
    assert latency["min_us"] >= 4_990_000
    assert "expected a p99 of at most 2000 ms, and it is" in running.said


def test_a_line_a_second_and_the_old_triple(start):
    server = start()
    said = encke("flood", f"{server.public_url}/events/{{n}}", "-c", 20, "--duration", "1500ms")
    assert said.returncode == 0, said.stderr
    lines = said.stderr.splitlines()
    assert lines[0].startswith("20 clients are bound from 127.1.0.1")
    assert "{20,0,20}  20 of 20 open, 0 events" in lines[-1]
    assert "{active,closed,chunks}  {20,0,20}" in said.stdout


def test_an_interrupt_prints_the_report_so_far(start):
    server = start()
    running = Flood(f"{server.public_url}/events/{{n}}", "-c", 10)
    sessions(server, 10)
    report = running.interrupt()
    assert report["interrupted"] and report["heads"] == 10
    sessions(server, 0)
    disappointed = Flood(f"{server.public_url}/events/{{n}}", "-c", 10, "--expect-events", 1)
    sessions(server, 10)
    disappointed.interrupt(code=1)
    assert "error: expected at least 1 events, and 0 came" in disappointed.said


def test_it_ends_when_nobody_is_left(start):
    server = start("--drain-timeout", "0s")
    running = Flood(f"{server.public_url}/events/{{n}}", "-c", 10)
    sessions(server, 10)
    server.signal()
    report = running.end()
    assert (report["active"], report["closed"]) == (0, 10)
    assert report["closes"]["complete"] + report["closes"]["cut"] == 10
    assert server.wait() == 0


def test_threads_and_tables_of_their_own(start):
    server = start()
    url = f"{server.public_url}/events/{{n}}"
    report, said = flood(url, "-c", 30, "--threads", 3, "--private-fds", "--duration", "100ms")
    assert (report["threads"], report["heads"]) == (3, 30)
    assert "they run on 3 threads with a descriptor table each" in said


def test_a_ramp_keeps_its_rate(start):
    server = start()
    report, _ = flood(f"{server.public_url}/events/{{n}}", "-c", 41, "--ramp", 40, "--duration", "0")
    assert 0.95 <= report["opening_seconds"] < PROMPT


def test_urls_of_a_file_are_taken_in_turn(start, tmp_path):
    server = start()
    urls = tmp_path / "urls"
    urls.write_text(f"{server.public_url}/events/1\n\n{server.public_url}/events/2\n")
    running = Flood("--urls", urls, "-c", 5)
    sessions(server, 5)
    assert (len(server.sessions(1)), len(server.sessions(2))) == (3, 2)
    running.interrupt()
    report, _ = flood("--urls", urls, "--duration", "0")
    assert report["connections"] == 2


# Bad citizens


def has_read(server, user):
    """Whether a user has read all that was sent: nothing waits in the kernel, at either end."""
    (session,) = server.sessions(user)
    unread = unread_bytes(address(session["peer"]), server.public)
    return session["backlog_bytes"] == session["bytes_unacknowledged"] == unread


def test_bad_citizens_are_bad_and_the_rest_is_served(start):
    server = start("--head-timeout", "1s", "--backlog-bytes", "64KiB", workers=1)
    with Ndjson(server, "warm"):
        server.sessions("warm")  # For which the worker keeps a socket from the first time on.
    until(lambda: server.totals()["connections"] == 0, "closed")
    before = server.baseline()
    running = Flood(
        f"{server.public_url}/events/{{n}}", "-c", 30, "--every", "50ms", "--stop-reading", 2,
        "--slow", 2, "--reset", 3, "--reconnect", 3, "--trickle", 4,
    )
    good = range(15, 31)
    until(lambda: all(server.sessions(user) for user in good), "the good ones are there")
    # Heads that trickle for longer than the server allows.
    until(lambda: server.totals()["requests_rejected"] == 4, "those that trickle are refused")
    large = {"pad": "x" * 16_000}
    for number in range(1, 101):
        lines = [json.dumps({"subject": user, "data": stamped(number)}) for user in good]
        lines += [json.dumps({"subject": user, "data": large}) for user in range(1, 5)]
        server.post("/v1/publish?receipts=summary", "\n".join(lines).encode())
    # Those that read too little are cut: nothing of theirs is kept.
    until(lambda: server.totals()["backlog_sessions"] == 0, "the slow are cut")
    until(lambda: server.totals()["connections_accepted"] >= 61, "others come again and again")
    until(lambda: all(has_read(server, user) for user in good), "the good ones have read all")
    report = running.interrupt()
    assert report["numbers"]["checked"] == 16 * 100
    assert report["numbers"]["skipped"] == report["numbers"]["duplicates"] == 0
    assert report["closes"]["own"] >= 12
    assert report["opened"] >= 30 + report["closes"]["own"] - 6
    assert report["failed"] >= 4
    assert any("4 clients were answered with status 408" in line for line in report["troubles"]), report
    server.until_as(before)


def test_clients_that_come_back_all_the_time_do_not_put_off_the_end(start):
    # The time began when no client waited for an answer, which may never be with so many that come back.
    report, _ = flood(f"{start().public_url}/events/{{n}}", "-c", 256, "--reconnect", 256, "--every", "1ms",
                      "--duration", "500ms")
    assert report["opened"] > 256 and report["opening_seconds"] <= report["seconds"] - 0.5
    assert report["seconds"] < PROMPT + 5


def test_a_head_that_trickles_in_time_is_served(start):
    server = start()
    running = Flood(f"{server.public_url}/events/{{n}}", "-c", 3, "--trickle", 3, "--every", "2ms")
    sessions(server, 3)
    report = running.interrupt()
    assert (report["opened"], report["heads"], report["failed"]) == (3, 3, 0)


def test_there_are_no_more_bad_ones_than_clients():
    said = encke("flood", "http://127.0.0.1:1/", "-c", 2, "--slow", 3)
    assert said.returncode == 2 and "more than the 2 clients" in said.stderr


# Servers that lie


class Liar:
    """A server that sends each client the same bytes, and tells where they came from."""

    def __init__(self, *parts, pause=0.0, keep=True):
        liar = self
        self.peers = []

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                liar.peers.append(self.client_address)
                while b"\r\n\r\n" not in (heard := self.request.recv(65536)):
                    if not heard:
                        return
                for part in parts:
                    self.request.sendall(part)
                    time.sleep(pause)
                if keep:
                    liar.over.wait(PATIENCE)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads, block_on_close, request_queue_size = True, False, 128

        self.over = threading.Event()
        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:%d/" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


def events(numbers, epoch="run"):
    lines = [f"id: {epoch}-{number}\ndata: {json.dumps({'t': DUE + number, 'n': number})}\n\n" for number in numbers]
    return "".join(lines).encode()


DUE = time.time_ns()


@pytest.mark.parametrize(
    "numbers,skipped,duplicates,reordered",
    [
        ([1, 2, 3, 4, 5], 0, 0, 0),
        ([1, 2, 4, 5, 8], 3, 0, 0),
        ([1, 2, 2, 3, 4, 3], 0, 2, 0),
        ([1, 3, 2, 4, 5], 1, 0, 1),
        ([1, 3, 2, 2, 7, 7], 4, 2, 1),
    ],
)
def test_what_a_server_drops_doubles_and_swaps_is_told(numbers, skipped, duplicates, reordered):
    with Liar(HEAD, events(numbers)) as liar:
        report, _ = flood(liar.url, "-c", 7, "--events", 7 * len(numbers))
    found = report["numbers"]
    assert found["checked"] == 7 * len(numbers)
    assert found["skipped"] == 7 * skipped
    assert found["duplicates"] == report["ids"]["duplicates"] == 7 * duplicates
    assert found["reordered"] == found["filled"] == report["ids"]["reordered"] == 7 * reordered


def test_what_a_server_gets_wrong_fails_an_expectation():
    wrong = {
        "--expect-no-loss": [1, 2, 5],
        "--expect-order": [1, 2, 2],
        "--expect-events=7": [1, 2, 3],
        "--expect-p99=0": [1, 2, 3],
    }
    for expectation, numbers in wrong.items():
        with Liar(HEAD, events(numbers), keep=False) as liar:
            report, said = flood(liar.url, "-c", 2, expectation, code=1)
        assert [verdict["met"] for verdict in report["verdicts"]] == [False]
        assert report["verdicts"][0]["sentence"] in said
    with Liar(HEAD, events([2, 1, 5]), keep=False) as liar:
        flood(liar.url, "-c", 2, "--mixed")


def test_without_numbers_no_loss_is_not_taken_for_granted():
    with Liar(HEAD, b"data: hello\n\n", keep=False) as liar:
        _, said = flood(liar.url, "-c", 1, "--expect-no-loss", code=1)
    assert "no event carried a number" in said


def test_gaps_between_ids_are_losses_where_ids_are_consecutive():
    stream = b"".join(b"id: %d\ndata: x\n\n" % number for number in (7, 8, 11))
    with Liar(HEAD, stream, keep=False) as liar:
        flood(liar.url, "-c", 1, "--expect-order")
        report, said = flood(liar.url, "-c", 1, "--ids", "consecutive", "--expect-no-loss", code=1)
        assert report["ids"]["skipped"] == 2 and "2 events are missing" in said


def test_streams_cut_in_the_middle_are_told_from_those_that_end():
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    with Liar(head, b"3\r\n:\n\n\r\n", keep=False) as liar:
        report, _ = flood(liar.url, "-c", 3)
    assert report["closes"]["cut"] == 3
    with Liar(head, b"3\r\n:\n\n\r\n0\r\n\r\n", keep=False) as liar:
        report, _ = flood(liar.url, "-c", 3)
    assert report["closes"]["complete"] == 3
    with Liar(head, b"nonsense", keep=True) as liar:
        report, said = flood(liar.url, "-c", 3)
    assert report["closes"]["malformed"] == 3
    assert "3 clients got bytes that are not the expected stream (the first: a chunk size" in said


# What stops a flood


def test_a_refusal_is_one_sentence_with_its_first_line():
    head = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 18\r\n\r\n"
    with Liar(head, b"no room left\nbusy!", pause=0.05) as liar:
        report, said = flood(liar.url, "-c", 8, code=1)
    assert report["failed"] == 8
    (line,) = [line for line in said.splitlines() if line.startswith("warning")]
    assert "8 clients were answered with status 503 (the first: no room left): the server takes" in line
    assert said.splitlines()[-1] == "error: no client could be opened"


def test_nobody_listening_is_one_sentence():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        report, said = flood("http://127.0.0.1:%d/" % taken.getsockname()[1], "-c", 300, code=1)
    assert report["failed"] == 300
    assert said.count("found no server listening") == 1 and "200 clients were not begun" in said


def test_urls_that_cannot_be_used_are_named(tmp_path):
    said = encke("flood", "ftp://example.com/")
    assert said.returncode == 2 and "only http:// and https://" in said.stderr
    urls = tmp_path / "urls"
    urls.write_text("http://127.0.0.1/\nftp://a/\nfile://b/\n")
    said = encke("flood", "--urls", urls)
    assert said.returncode == 2 and "2 of 3 URLs cannot be used; the first: `ftp://a/`" in said.stderr


def test_each_client_shows_a_token_of_its_own(tmp_path):
    secret, tokens = tmp_path / "secret", tmp_path / "tokens"
    secret.write_text("a secret of this test that is long\n")
    tokens.write_text("one\ntwo\n")
    shown = []

    class Asking(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            shown.append(self.headers["Authorization"].removeprefix("Bearer "))
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    def decoded(part):
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Asking) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = ["http://127.0.0.1:%d/events" % server.server_address[1], "-c", 3, "--window", 1]
        signed = ["--jwt-secret-file", secret, "--jwt-ttl", "1m", "--jwt-claims", '{"aud":"here"}']
        before = time.time()
        _, said = flood(*url, *signed, code=1)
        assert "give credentials with --token-file" in said
        for number, token in zip([1, 2, 3], shown, strict=True):
            head, claims, signature = token.split(".")
            key = b"a secret of this test that is long"
            assert decoded(signature) == hmac.digest(key, f"{head}.{claims}".encode(), "sha256")
            claims = json.loads(decoded(claims))
            assert (claims["sub"], claims["aud"]) == (str(number), "here")
            assert 0 <= claims["exp"] - int(before) - 60 < 30
        shown.clear()
        flood(*url, "--token-file", tokens, code=1)
        assert shown == ["one", "two", "one"]
        server.shutdown()
    said = encke("flood", *url, "--jwt-secret-file", tokens)
    assert said.returncode == 2 and "HS256 needs 32" in said.stderr, said.stderr


def test_too_few_descriptors_are_told_before_the_first_client():
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (600, 600))
    _, said = flood("http://127.0.0.1:1/", "-c", 500, code=1, preexec_fn=limit)
    assert "one descriptor table has room for 88 of them" in said and "--private-fds" in said
    report, _ = flood(
        "http://127.0.0.1:1/", "-c", 500, "--private-fds", code=1, preexec_fn=limit
    )
    assert report["threads"] == 6


def test_too_few_addresses_are_told_before_the_first_client():
    _, said = flood("http://127.0.0.1:1/", "-c", 60_000, "--source", "127.7.0.1", "--private-fds", code=1)
    assert "60000 clients need 2 source addresses of 50000 ports each, but there is 1" in said


def test_clients_come_from_where_they_are_told_to():
    with Liar(HEAD, keep=True) as liar:
        flood(liar.url, "-c", 4, "--source", "127.7.0.1,127.8.0.0/30", "--duration", "0")
        assert {host for host, _ in liar.peers} <= {"127.7.0.1", "127.8.0.1", "127.8.0.2"}
    said = encke("flood", "http://127.0.0.1:1/", "--source", "nowhere0")
    assert said.returncode == 2 and "neither an address" in said.stderr


# Strangers


def test_a_websocket_server_of_another_author():
    pongs = []

    def serve(connection):
        for number in (1, 2, 2, 4):
            connection.send(json.dumps({"t": DUE + number, "n": number}))
        connection.send([b"binary, ", b"in two frames"])
        pongs.append(connection.ping().wait(PATIENCE))
        try:
            connection.recv(timeout=PATIENCE)
        except websockets.exceptions.ConnectionClosed:
            pass

    with websockets.sync.server.serve(serve, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = "ws://127.0.0.1:%d/" % server.socket.getsockname()[1]
        running = Flood(url, "-c", 5, "--expect-order")
        until(lambda: len(pongs) == 5, "every ping is answered")
        report = running.interrupt(code=1)
        assert pongs == [True] * 5
        assert (report["transport"], report["events"], report["heartbeats"]) == ("websocket", 25, 5)
        assert report["numbers"]["duplicates"] == report["numbers"]["skipped"] == 5

        closing = websockets.sync.server.serve(lambda one: one.close(1013, "later"), "127.0.0.1", 0)
        threading.Thread(target=closing.serve_forever, daemon=True).start()
        report, _ = flood("ws://127.0.0.1:%d/" % closing.socket.getsockname()[1], "-c", 5)
        assert report["close_codes"] == {"1013": 5} and report["closes"]["complete"] == 5
        closing.shutdown()
        server.shutdown()


def test_a_server_that_does_not_switch_to_websocket_is_told():
    with Liar(HEAD, b"hello\n") as liar:
        _, said = flood(liar.url.replace("http:", "ws:"), "-c", 2, code=1)
    assert "2 clients were answered with status 200 (the first: hello): this answer opens no WebSocket" in said


def test_nginx_is_read_as_well(port, tmp_path):
    nginx = installed("nginx")
    port = port().number
    (tmp_path / "events").write_text("".join('{"id":"a-%d","data":%d}\n' % (n, n) for n in range(1, 1001)))
    temporary = "".join(
        f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (tmp_path / "nginx.conf").write_text(
        f"""daemon off; master_process off; pid {tmp_path}/pid; error_log {tmp_path}/error.log;
        events {{}} http {{ access_log off; {temporary} server {{ listen 127.0.0.1:{port}; root {tmp_path};
        location /chunked/ {{ alias {tmp_path}/; sub_filter_types *; sub_filter no such; }} }} }}"""
    )
    process = subprocess.Popen([nginx, "-c", tmp_path / "nginx.conf", "-p", tmp_path])
    try:
        until(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, "nginx listens")
        url = f"http://127.0.0.1:{port}/events"
        for url, transport in [(url, "ndjson"), (url.replace("/events", "/chunked/events"), "ndjson")]:
            report, _ = flood(
                url, "-c", 20, "--transport", transport, "--expect-order", "--ids", "consecutive",
                "--expect-no-loss", "--expect-events", 20_000,
            )
            assert (report["closes"]["complete"], report["events"]) == (20, 20_000)
        size = (tmp_path / "events").stat().st_size
        report, _ = flood(f"http://127.0.0.1:{port}/events", "-c", 3, "--transport", "raw")
        assert report["events"] == 0 and report["bytes"] > 3 * size
    finally:
        process.terminate()
        process.wait()
