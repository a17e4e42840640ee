"""`encke-proxy tcp` between real programs: what goes in comes out, whoever dies."""

import contextlib
import hashlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from support.http import Ndjson
from support.program import ROOT, Program, begin, encke, installed
from support.wait import PATIENCE, PROMPT, in_time, punctually, until


class Backend:
    """A TCP server in a thread per connection; `serve` gets each socket."""

    def __init__(self, serve, port=0):
        self.listener = socket.create_server(("127.0.0.1", port), backlog=512)
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.serve = serve
        self.accepted = 0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self._one, args=(client,), daemon=True).start()

    def _one(self, client):
        with client:
            with contextlib.suppress(OSError):
                self.serve(client)

    def close(self):
        # A thread within accept() holds the socket: shutting it down wakes it.
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def echo(client):
    while data := client.recv(65536):
        client.sendall(data)


def named(name):
    def serve(client):
        client.sendall(name)

    return serve


@pytest.fixture
def backend():
    started = []

    def start(serve=echo, port=0):
        started.append(Backend(serve, port))
        return started[-1]

    yield start
    for server in started:
        server.close()


@pytest.fixture
def proxy(tmp_path):
    started = []

    def start(*flags, to=(), listen="127.0.0.1:0", **options):
        if to:
            to = ",".join(getattr(name, "address", name) for name in to)
            flags = ("--listen", listen, "--to", to, *flags)
        if "--drain-timeout" not in flags:
            flags = (*flags, "--drain-timeout", "2s")
        program = Program("tcp", *flags, cwd=tmp_path, **options)
        started.append(program)
        return program

    yield start
    for program in started:
        program.stop()


def connect(program):
    client = socket.create_connection(program.listen)
    client.settimeout(PATIENCE)
    return client


def read_all(client):
    return b"".join(iter(lambda: client.recv(65536), b""))


def is_cut(client):
    """Whether the other end is gone, well or not."""
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


def test_bytes_come_back_as_they_went_small_and_bulk(proxy, backend):
    program = proxy(to=[backend()], *["--workers", "2"])
    before = program.descriptors()
    dice = random.Random(7)
    for size in [1, 64, 1000, 65_536, 5_000_000, 20_000_000]:
        data = dice.randbytes(size)
        with connect(program) as client:
            sender = threading.Thread(
                target=lambda: (client.sendall(data), client.shutdown(socket.SHUT_WR))
            )
            sender.start()
            assert hashlib.sha256(read_all(client)).digest() == hashlib.sha256(data).digest()
            sender.join()
    until(lambda: program.descriptors() == before, "no descriptor left behind")
    assert program.pipes() <= 2, "signals have theirs"


def test_workers_that_share_a_poller_carry_the_same(proxy, backend):
    program = proxy("--shared-poller", "--workers", "3", to=[backend()])
    data = random.Random(8).randbytes(3_000_000)

    def talk(troubles):
        try:
            for _ in range(5):
                with connect(program) as client:
                    for _ in range(50):
                        client.sendall(b"hello")
                        assert client.recv(5, socket.MSG_WAITALL) == b"hello"
            with connect(program) as client:
                sender = threading.Thread(
                    target=lambda: (client.sendall(data), client.shutdown(socket.SHUT_WR))
                )
                sender.start()
                assert read_all(client) == data
                sender.join()
        except Exception as trouble:
            troubles.append(repr(trouble))

    troubles = []
    threads = [threading.Thread(target=talk, args=(troubles,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not troubles


def test_each_side_may_end_first(proxy, backend):
    def after_the_end(client):
        client.sendall(b"seen: " + read_all(client))

    program = proxy(to=[backend(after_the_end)])
    with connect(program) as client:
        client.sendall(b"question")
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == b"seen: question"

    heard = []

    def speaks_first(client):
        client.sendall(b"farewell")
        client.shutdown(socket.SHUT_WR)
        heard.append(read_all(client))

    program = proxy(to=[backend(speaks_first)])
    with connect(program) as client:
        assert read_all(client) == b"farewell"
        client.sendall(b"still here")
    until(lambda: heard == [b"still here"], "the backend heard the rest")


def test_a_slow_reader_slows_the_sender_and_loses_nothing(proxy, backend):
    held = most_that_the_kernel_holds()
    total = held + 60_000_000
    sent = []

    def pour(client):
        block = b"x" * 1_000_000
        for start in range(0, total, len(block)):
            client.sendall(block[: total - start])
            sent.append(len(block))

    program = proxy(to=[backend(pour)])
    with connect(program) as client:
        time.sleep(0.5)
        assert sum(sent) < held + 30_000_000, "the proxy does not buffer without end"
        assert len(read_all(client)) == total


def most_that_the_kernel_holds():
    """Bytes, in the four sockets of two connections: each has a limit for what it sends and one for what it receives."""
    limits = (Path("/proc/sys/net/ipv4", name).read_text().split()[2] for name in ("tcp_rmem", "tcp_wmem"))
    return 2 * sum(map(int, limits))


def test_a_reset_is_passed_on(proxy, backend):
    def abort(client):
        client.recv(1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    program = proxy(to=[backend(abort)])
    with connect(program) as client:
        client.sendall(b"x")
        with pytest.raises(ConnectionResetError):
            client.recv(1)


@pytest.mark.parametrize("leaves", ["resets", "closes", "ends and resets"])
def test_a_client_that_vanishes_takes_its_pouring_backend_with_it(proxy, backend, leaves):
    # Not after two seconds, as one that ends its side and reads on.
    in_time(lambda: time_to_be_told(proxy, backend, leaves), 1.5)


def time_to_be_told(proxy, backend, leaves):
    """How long a backend pours on after its client has left."""
    poured, broke = [0], threading.Event()

    def pour(client):
        try:
            assert client.recv(5, socket.MSG_WAITALL) == b"begin"
            while True:
                poured[0] += client.send(bytes(1_000_000))
        except ConnectionError:
            broke.set()

    program = proxy(to=[backend(pour)])
    with connect(program) as client:
        client.sendall(b"begin")
        taken = 0
        while taken < 20_000_000:
            taken += len(client.recv(1_000_000))
        if leaves == "ends and resets":
            client.shutdown(socket.SHUT_WR)
            taken += len(client.recv(1_000_000))
        if leaves != "closes":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        before = poured[0]
    began = time.monotonic()
    assert broke.wait(PATIENCE), "the backend is told"
    took = time.monotonic() - began
    # Buffers of two sockets and of a pipe; in a second there would be a gigabyte.
    assert poured[0] - before < 30_000_000
    return took


def test_a_dead_backend_is_passed_over_and_said(proxy, backend, port):
    living = backend(named(b"living"))
    dead = port()
    program = proxy("--balance", "round-robin", to=[dead, living])
    for _ in range(20):
        with connect(program) as client:
            assert read_all(client) == b"living"
    assert f"backend {dead.address} refused a connection" in program.log
    assert "left alone for 1s" in program.log
    assert program.log.count("refused") <= 10, "once a second at most"


def test_with_no_backend_the_client_is_reset_and_the_log_says_why(proxy, port):
    program = proxy(to=[port()])
    with connect(program) as client:
        assert is_cut(client)
    until(lambda: "no backend took a connection" in program.log, "a sentence")


def test_connections_are_shared_as_asked(proxy, backend):
    backends = [backend(named(name)) for name in (b"a", b"b", b"c")]
    in_turn = proxy("--balance", "round-robin", "--workers", "1", to=backends)
    answers = []
    for _ in range(9):
        with connect(in_turn) as client:
            answers.append(read_all(client))
    assert sorted(answers) == [b"a"] * 3 + [b"b"] * 3 + [b"c"] * 3

    by_source = proxy("--balance", "source", to=backends)
    answers = set()
    for _ in range(9):
        with connect(by_source) as client:
            answers.add(read_all(client))
    assert len(answers) == 1


def test_the_one_with_the_fewest_connections_is_taken(proxy, backend):
    first, second = backend(), backend()
    program = proxy(to=[first, second])
    clients = [connect(program) for _ in range(10)]
    for client in clients:
        client.sendall(b"x")
        assert client.recv(1) == b"x"
    assert (first.accepted, second.accepted) == (5, 5)
    for client in clients:
        client.close()


def test_limits_hold(proxy, backend):
    program = proxy("--max-connections", "3", "--max-connections-per-source", "2", to=[backend()])
    clients = [connect(program) for _ in range(2)]
    for client in clients:
        client.sendall(b"x")
        assert client.recv(1) == b"x"
    with connect(program) as third:
        assert is_cut(third)
    clients.pop().close()

    def is_served():
        with connect(program) as client, contextlib.suppress(OSError):
            client.sendall(b"y")
            return client.recv(1) == b"y"

    until(is_served, "a place is free again")
    clients.pop().close()


def test_idle_connections_are_let_go(proxy, backend):
    program = proxy("--idle-timeout", "300ms", to=[backend()])

    def trial(step):
        began = time.monotonic()
        with connect(program) as client:
            for _ in range(5):
                step()
                time.sleep(0.15)
                client.sendall(b"x")
                assert client.recv(1) == b"x"
            step()
            assert is_cut(client)
            assert 0.9 < time.monotonic() - began < PROMPT

    punctually(trial, 0.28)


def test_the_client_is_introduced_in_both_versions(proxy, backend):
    inner = backend(lambda client: client.sendall(read_all(client)))
    for version, begins in [("v1", b"PROXY TCP4 127.0.0.1 127.0.0.1 "), ("v2", b"\r\n\r\n\0\r\nQUIT\n!\x11\0\x0c")]:
        program = proxy("--proxy-out", version, to=[inner])
        with connect(program) as client:
            client.sendall(b"hello")
            client.shutdown(socket.SHUT_WR)
            heard = read_all(client)
        assert heard.startswith(begins) and heard.endswith(b"hello"), heard
        # What one sends the other understands.
        outer = proxy("--proxy-in", "--proxy-out", "v1", to=[inner])
        chain = proxy("--proxy-out", version, to=["%s:%d" % outer.listen])
        with connect(chain) as client:
            port = client.getsockname()[1]
            client.sendall(b"hello")
            client.shutdown(socket.SHUT_WR)
            heard = read_all(client)
        assert heard == b"PROXY TCP4 127.0.0.1 127.0.0.1 %d %d\r\nhello" % (port, chain.listen[1])


def test_a_client_without_its_header_is_refused(proxy, backend):
    program = proxy("--proxy-in", "--proxy-in-timeout", "300ms", to=[backend()])
    with connect(program) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert is_cut(client)
    with connect(program) as client:
        client.sendall(b"PROXY TCP4 1.2.3.4")
        assert is_cut(client)
    until(lambda: "did not begin with a PROXY header" in program.log, "a sentence")
    program = proxy("--proxy-in", "--proxy-in-timeout", "60s", to=[backend()])
    with connect(program) as client:
        for byte in b"PROXY UNKNOWN\r\nhello":
            client.sendall(bytes([byte]))
        assert client.recv(5) == b"hello"


def test_checks_find_who_is_unwell_and_well_again(proxy, backend):
    sick = threading.Event()

    def answers(client):
        if client.recv(100).startswith(b"PING"):
            client.sendall(b"-ERR\r\n" if sick.is_set() else b"+PONG\r\n")
        else:
            client.sendall(b"a")

    first, second = backend(answers), backend(named(b"+PONG b"))
    program = proxy(
        *["--balance", "round-robin", "--check-interval", "100ms", "--check-timeout", "10s"],
        *["--check-fall", "2", "--check-rise", "2"],
        *["--check-send", r"PING\r\n", "--check-expect", "PONG"],
        to=[first, second],
    )

    def answer():
        with connect(program) as client:
            client.sendall(b"x")
            return client.recv(100)

    until(lambda: {answer() for _ in range(4)} == {b"a", b"+PONG b"}, "both are used")
    sick.set()
    until(lambda: f"backend {first.address} is not well" in program.log, "it is noticed")
    assert {answer() for _ in range(6)} == {b"+PONG b"}
    sick.clear()
    until(lambda: f"backend {first.address} is well again" in program.log, "it is noticed")
    until(lambda: {answer() for _ in range(4)} == {b"a", b"+PONG b"}, "both are used")


RECIPES = re.findall(r"^```toml\n(.*?)^```$", (ROOT / "docs" / "PROXY.md").read_text(), re.DOTALL | re.MULTILINE)


def recipe(words, *addresses):
    """The recipe of docs/PROXY.md with these words, with addresses of this machine in place of its own, in their order."""
    (text,) = (recipe for recipe in RECIPES if words in recipe)
    found = re.findall(r"\b[\d.]+:\d+", text)
    for address, other in zip(found, addresses, strict=True):
        text = text.replace(f'"{address}"', f'"{other}"')
    return text


def test_every_recipe_is_a_configuration(tmp_path):
    assert len(RECIPES) == 2
    for text in RECIPES:
        config = tmp_path / "proxy.toml"
        config.write_text(text)
        done = encke("tcp", "--config", config, "--check-config")
        assert done.returncode == 0, done.stderr


def test_the_recipe_for_nodes_sends_clients_to_those_that_are_ready(proxy, backend, server, name, tmp_path):
    ready = threading.Event()
    requests = []

    def not_ready(client):
        requests.append(client.recv(1000))
        if b" /readyz " in requests[-1] and ready.is_set():
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n")
        else:
            client.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 10\r\n\r\nnot ready\n")

    other = backend(not_ready)
    node = "%s:%d" % server.public
    config = tmp_path / "proxy.toml"
    text = recipe("balance = \"source\"\nidle-timeout", "127.0.0.1:0", node, other.address)
    config.write_text(text + 'check-interval = "100ms"\n')
    program = proxy("--config", config)
    until(lambda: f"backend {other.address} is not well" in program.log, "the one that is not ready is out")
    program.public = program.listen
    for _ in range(5):
        # One source has one backend, and each of its ports would have the same.
        rj = name()
        with Ndjson(program, rj) as stream:
            until(lambda: server.sessions(rj), "a session")
            server.publish(rj, "hello")
            assert stream.data() == "hello"
    assert f"backend {node} is not well" not in program.log
    assert all(request.startswith(b"GET /readyz ") for request in requests), "only checks reach it"
    ready.set()
    until(lambda: f"backend {other.address} is well again" in program.log, "it is ready again")


def test_the_recipe_with_a_protocol_checks_it(proxy, backend, tmp_path):
    def redis(client):
        while said := client.recv(100):
            client.sendall(b"+PONG\r\n" if said == b"PING\r\n" else b"-ERR\r\n")

    first, second, third, wrong = backend(redis), backend(redis), backend(redis), backend(named(b"-ERR\r\n"))
    config = tmp_path / "proxy.toml"
    addresses = ["127.0.0.1:0", "127.0.0.1:0", first.address, second.address, "127.0.0.2:0", third.address]
    text = recipe("check-send = \"PING", *addresses).replace("/var/log", str(tmp_path))
    config.write_text(text.replace(f'"{third.address}"', f'"{third.address}", "{wrong.address}"'))
    program = proxy("--config", config)
    until(lambda: f"backend {wrong.address} is not well" in program.log, "it does not answer PONG")
    until(lambda: third.accepted > 2, "checks go on")
    assert f"backend {third.address} is not well" not in program.log
    assert (tmp_path / "encke-proxy.log").exists()


def test_a_reload_under_load_loses_nothing(proxy, backend, tmp_path):
    config = tmp_path / "proxy.toml"
    first, second, third = backend(), backend(), backend()

    def write(listen, *backends):
        names = ", ".join(f'"{one.address}"' for one in backends)
        config.write_text(f'[[listener]]\nlisten = "{listen}"\nto = [{names}]\n')

    write("127.0.0.1:0", first)
    program = proxy("--config", config, "--workers", "2")
    stop = threading.Event()
    troubles, exchanges = [], []

    def talk(keep):
        while not stop.is_set():
            try:
                with connect(program) as client:
                    for _ in range(1000 if keep else 3):
                        client.sendall(b"hello")
                        assert client.recv(5, socket.MSG_WAITALL) == b"hello"
                        exchanges.append(1)
                        if stop.is_set():
                            break
            except Exception as trouble:
                troubles.append(repr(trouble))
                return

    threads = [threading.Thread(target=talk, args=(number < 2,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for number in range(30):
        write("127.0.0.1:0", *([first], [second], [second, third], [third])[number % 4])
        seen = program.log.count("was reloaded")
        program.signal(signal.SIGHUP)
        until(lambda: program.log.count("was reloaded") > seen, "the configuration is read")
    stop.set()
    for thread in threads:
        thread.join()
    assert not troubles, troubles[:3]
    assert len(exchanges) > 100
    assert second.accepted and third.accepted

    config.write_text("[[listener]]\nlisten = 7\n")
    program.signal(signal.SIGHUP)
    until(lambda: "the reload failed and changed nothing" in program.log, "the mistake is said")
    with connect(program) as client:
        client.sendall(b"x")
        assert client.recv(1) == b"x"


def test_listeners_come_and_go_with_the_file(proxy, backend, port, tmp_path):
    config = tmp_path / "proxy.toml"
    server = backend()
    port = port().number
    one = f'[[listener]]\nlisten = "127.0.0.1:0"\nto = ["{server.address}"]\n'
    two = one + f'[[listener]]\nlisten = "127.0.0.1:{port}"\nto = ["{server.address}"]\n'
    config.write_text(one)
    program = proxy("--config", config)

    def is_open():
        with contextlib.suppress(ConnectionError):
            return socket.create_connection(("127.0.0.1", port))

    assert not is_open()
    config.write_text(two)
    program.signal(signal.SIGHUP)
    held = until(is_open, "the second listener")
    held.settimeout(PATIENCE)
    held.sendall(b"x")
    assert held.recv(1) == b"x"
    config.write_text(one)
    program.signal(signal.SIGHUP)

    def is_closed():
        client = is_open()
        if client:
            client.close()
        return not client

    until(is_closed, "the second listener is gone")
    held.sendall(b"y")
    assert held.recv(1) == b"y", "its connection goes on"
    held.close()


def test_a_listener_moves_to_all_addresses_and_back(proxy, backend, port, tmp_path):
    config = tmp_path / "proxy.toml"
    server = backend()
    port = port().number

    def write(*hosts):
        config.write_text(
            "".join(
                f'[[listener]]\nlisten = "{host}:{port}"\nto = ["{server.address}"]\n' for host in hosts
            )
        )

    def answers(host):
        try:
            with socket.create_connection((host, port), timeout=PATIENCE) as client:
                client.sendall(b"x")
                return client.recv(1) == b"x"
        except ConnectionError:
            return False

    write("127.0.0.1")
    program = proxy("--config", config, "--workers", "2")
    assert answers("127.0.0.1") and not answers("127.0.0.2")
    for hosts in [("0.0.0.0",), ("127.0.0.1",), ("0.0.0.0", "127.0.0.1"), ("127.0.0.2",)]:
        write(*hosts)
        seen = program.log.count("was reloaded")
        program.signal(signal.SIGHUP)
        until(lambda: program.log.count("was reloaded") > seen, "the configuration is read")
        for host in ("127.0.0.1", "127.0.0.2"):
            wanted = host in hosts or "0.0.0.0" in hosts
            until(lambda: answers(host) == wanted, f"{hosts} at {host}")


def test_an_ending_proxy_lets_connections_finish(proxy, backend, port):
    program = proxy("--drain-timeout", "60s", listen=port().address, to=[backend()])
    with connect(program) as client:
        client.sendall(b"x")
        assert client.recv(1) == b"x"
        program.signal()
        until(lambda: "shutting down" in program.log, "the signal is seen")

        def refuses():
            try:
                connect(program).close()
            except ConnectionRefusedError:
                return True
            except ConnectionResetError:
                return False

        until(refuses, "nobody is accepted")
        client.sendall(b"y")
        assert client.recv(1) == b"y"
    assert program.process.wait(timeout=PATIENCE) == 0, program.log


@pytest.mark.parametrize("slow", [True, False])
def test_a_transfer_that_the_end_cuts_does_not_look_whole(proxy, backend, slow):
    def pour(client):
        while client.send(bytes(1_000_000)):
            pass

    program = proxy("--drain-timeout", "300ms", to=[backend(pour)])
    with connect(program) as client:
        client.recv(1)
        program.signal()
        if slow:
            assert program.wait() == 0
        with pytest.raises(ConnectionResetError):
            read_all(client)


def test_the_access_log_has_a_line_for_each_connection(proxy, backend, tmp_path):
    server = backend()
    program = proxy("--access-log", tmp_path / "access", to=[server])
    for _ in range(3):
        with connect(program) as client:
            client.sendall(b"12345")
            assert client.recv(5, socket.MSG_WAITALL) == b"12345"
    program.stop()
    lines = (tmp_path / "access").read_text().splitlines()
    assert len(lines) == 3
    pattern = rf"\[\w+, .* GMT\] client=127\.0\.0\.1:\d+ listener=\S+ backend={server.address} end=\w+ seconds=\d\.\d+ up=5 down=5"
    assert all(re.fullmatch(pattern, line) for line in lines), lines


def test_an_access_log_that_was_renamed_is_opened_again(proxy, backend, tmp_path):
    log, rotated = tmp_path / "access", tmp_path / "access.1"
    program = proxy("--access-log", log, to=[backend()])

    def talk():
        with connect(program) as client:
            client.sendall(b"x")
            assert client.recv(1) == b"x"

    talk()
    until(lambda: log.read_text().count("\n") == 1, "a line")
    log.rename(rotated)
    program.signal(signal.SIGHUP)
    until(log.exists, "a new file, though nobody came")
    talk()
    until(lambda: log.read_text().count("\n") == 1, "a line in the new file")
    log.rename(rotated)
    log.mkdir()
    program.signal(signal.SIGHUP)
    until(lambda: "cannot be opened again" in program.log, "it is said")
    talk()
    until(lambda: rotated.read_text().count("\n") == 2, "a line where it was")


def test_nobody_who_reads_the_access_log_keeps_the_proxy_from_its_work_and_end(
    proxy, backend, tmp_path
):
    server = backend()
    ports = tmp_path / "ports"
    flags = ["--listen", "127.0.0.1:0", "--to", server.address, "--access-log", "-"]
    # A pipe that is full after some hundred lines.
    program = begin("tcp", *flags, "--ports-file", ports)
    try:
        until(ports.exists, "listening")
        host, port = json.loads(ports.read_text())["listen"][0].split(":")
        for _ in range(1000):
            with socket.create_connection((host, int(port))) as client:
                client.sendall(b"x")
                assert client.recv(1) == b"x"
        program.terminate()
        assert program.wait(timeout=PATIENCE) == 0
        assert "no program reads them" in program.stderr.read()
    finally:
        program.kill()
        program.communicate()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    done = encke("tcp", *flags[:-1], fifo)
    assert (done.returncode, "start its reader first" in done.stderr) == (1, True), done.stderr


def test_whoever_asks_for_json_gets_nothing_else(backend, tmp_path):
    server = backend()
    ports = tmp_path / "ports"
    flags = ["--listen", "127.0.0.1:0", "--to", server.address, "--json", "--request-latency"]
    program = begin("tcp", *flags, "--ports-file", ports)
    try:
        until(ports.exists, "listening")
        host, port = json.loads(ports.read_text())["listen"][0].split(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"x")
            assert client.recv(1) == b"x"
        program.terminate()
        said, _ = program.communicate(timeout=PATIENCE)
        assert [json.loads(line)["count"] for line in said.splitlines()] == [1]
    finally:
        program.kill()


def test_latency_is_measured_without_knowing_the_protocol(proxy, backend):
    def slow(client):
        while client.recv(100):
            time.sleep(0.02)
            client.sendall(b"answer")

    server = backend(slow)
    program = proxy("--request-latency", "--json", to=[server])
    with connect(program) as client:
        for _ in range(20):
            client.sendall(b"question")
            assert client.recv(6, socket.MSG_WAITALL) == b"answer"
    program.stop()
    reports = [json.loads(line) for line in program.log.splitlines() if line.startswith("{")]
    assert sum(report["count"] for report in reports) == 20
    assert all(report["backend"] == server.address for report in reports)
    assert all(19_000 <= report["p50"] <= report["p99"] <= report["max"] * 1.02 for report in reports)
    for report in reports:
        means = [report[name] for name in ["p95_mean", "p99_mean", "mean"]]
        assert means == sorted(means)
        assert report["min"] * 0.98 <= means[0]
        assert means[-1] <= report["max"] * 1.02
        deviations = [report[name] for name in ["p95_stdev", "p99_stdev", "stdev"]]
        assert all(0 <= deviation <= report["max"] for deviation in deviations)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_header_is_nothing_that_the_client_has_said(proxy, backend, tmp_path, version):
    def greets(client):
        time.sleep(0.01)
        client.sendall(b"welcome")
        header = client.recv(200)
        question = header[-8:] if header.endswith(b"question") else client.recv(8)
        assert question == b"question"
        client.sendall(b"answer")

    flags = ["--proxy-out", version, "--access-log", tmp_path / "access"]
    program = proxy(*flags, "--request-latency", "--json", to=[backend(greets)])
    with connect(program) as client:
        assert client.recv(7, socket.MSG_WAITALL) == b"welcome"
        client.sendall(b"question")
        assert client.recv(6, socket.MSG_WAITALL) == b"answer"
    program.stop()
    reports = [json.loads(line) for line in program.log.splitlines() if line.startswith("{")]
    assert [report["count"] for report in reports] == [1], "a greeting answers nothing"
    assert " up=8 down=13\n" in (tmp_path / "access").read_text()


def test_a_name_is_complained_of_with_what_it_means(proxy, backend):
    dead = backend()
    dead.close()
    port = dead.address.split(":")[1]
    program = proxy(to=[f"localhost:{port}"])
    with connect(program) as client:
        assert is_cut(client)
    until(lambda: re.search(rf"backend localhost:{port} \(\S+:{port}\) refused", program.log), "said")


def test_descriptors_that_run_out_delay_and_do_not_break(proxy, backend):
    program = proxy("--workers", "1", to=[backend()], nofile=60)
    clients = [connect(program) for _ in range(40)]
    served = 0
    for client in clients:
        client.settimeout(0.2)
        with contextlib.suppress(OSError):
            client.sendall(b"x")
            served += client.recv(1) == b"x"
    assert 10 <= served < 40
    assert "raise the limit on open files" in program.log
    for client in clients:
        client.close()

    def is_served():
        with connect(program) as client, contextlib.suppress(OSError):
            client.sendall(b"y")
            return client.recv(1) == b"y"

    until(is_served, "it recovers")


def test_curl_through_haproxy_and_back(proxy, port, tmp_path):
    haproxy = installed("haproxy")
    hello = Program("hello", "--listen", "127.0.0.1:0", cwd=tmp_path)
    inner = proxy("--proxy-in", to=["%s:%d" % hello.listen])
    port = port().number
    (tmp_path / "haproxy.cfg").write_text(
        "defaults\n mode tcp\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n"
        f"listen x\n bind 127.0.0.1:{port}\n server s %s:%d send-proxy-v2\n" % inner.listen
    )
    peer = subprocess.Popen([haproxy, "-f", tmp_path / "haproxy.cfg", "-db"])
    outer = proxy(to=[f"127.0.0.1:{port}"])
    try:
        def answer():
            done = subprocess.run(["curl", "-sS", "--noproxy", "*", outer.url], capture_output=True)
            return done.stdout == b"hello"

        until(answer, "an answer through three proxies")
    finally:
        peer.terminate()
        peer.wait()
        hello.stop()


@pytest.mark.parametrize(
    "flags, code, said",
    [
        (["--listen", "127.0.0.1:0"], 2, "0 backends"),
        (["--to", "127.0.0.1:1"], 2, "no address"),
        (["--listen", "127.0.0.1:0", "--to", "nowhere.invalid:1"], 2, "cannot be resolved"),
        (["--listen", "127.0.0.1:0", "--to", "x"], 2, "not a host and a port"),
        (["--listen", "127.0.0.1:0", "--to", "127.0.0.1:0"], 2, "port 0"),
        (["--config", "/nonexistent"], 2, "cannot be read"),
        (["--config", "/dev/null", "--listen", "127.0.0.1:0"], 2, "move the flags into the file"),
    ],
)
def test_a_wrong_configuration_is_said(flags, code, said):
    done = encke("tcp", *flags)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
