"""`encke-proxy tcp` and `encke-proxy hello`, looked at: what they count is what happened."""

import http.client
import json
import os
import random
import re
import signal
import socket
import threading
import time

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from support.program import Program, encke
from support.sockets import listener_inode
from support.wait import PATIENCE, until

CONTROL = ["--control", "127.0.0.1:0"]


@pytest.fixture
def start(tmp_path):
    started = []

    def start(verb, *flags, **options):
        if "--config" not in flags:
            flags = ("--listen", "127.0.0.1:0", *flags)
        if verb == "tcp" and "--drain-timeout" not in flags:
            flags = ("--drain-timeout", "2s", *flags)
        program = Program(verb, *flags, cwd=tmp_path, **options)
        started.append(program)
        return program

    yield start
    for program in started:
        program.stop()


@pytest.fixture
def echo():
    """Starts a server that says what it hears, and tells where it is."""
    listeners = []

    def serve(client):
        with client:
            while data := client.recv(65536):
                client.sendall(data)

    def accept(listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    def start(port=0):
        listener = socket.create_server(("127.0.0.1", port), backlog=512)
        listeners.append(listener)
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        return "127.0.0.1:%d" % listener.getsockname()[1]

    yield start
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def connect(program):
    client = socket.create_connection(program.listen)
    client.settimeout(PATIENCE)
    return client


def through(program, data):
    """Sends all of it through an echo, and reads it back."""
    with connect(program) as client:
        sender = threading.Thread(
            target=lambda: (client.sendall(data), client.shutdown(socket.SHUT_WR))
        )
        sender.start()
        heard = b"".join(iter(lambda: client.recv(65536), b""))
        sender.join()
    assert heard == data


def leaves(figures, path=()):
    """All numbers, by where they stand."""
    if not isinstance(figures, dict):
        return {path: figures}
    return {at: n for key, part in figures.items() for at, n in leaves(part, (*path, key)).items()}


def adds_up(stats):
    """Whether totals are the sums over workers, and polls by events all polls. While a worker is between
    two counters, the latter is not."""
    sums = {}
    for worker in stats["workers"]:
        for at, number in leaves(worker).items():
            sums[at] = sums.get(at, 0) + number
        if sum(worker["events_per_poll"].values()) != worker["turns"]:
            return False
        for label, polls in worker["events_per_poll"].items():
            assert polls * int(label.split("-")[0]) <= worker["poll_events"]
    assert sums == pytest.approx(leaves(stats["totals"]))
    return True


def samples(program):
    """The metrics by name and labels."""
    families = text_string_to_metric_families(program.ask("/metrics").text)
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def agree(stats, metrics):
    """Whether the metrics of a program at rest have the sums of its statistics, but for the histogram."""
    for name, value in stats["totals"].items():
        names = (f"encke_{name}", f"encke_{name}_total")
        told = sum(number for (sample, *_), number in metrics.items() if sample in names)
        assert name == "events_per_poll" or told == pytest.approx(sum(leaves(value).values())), name
    return True


def top(program, *arguments, every="200ms"):
    done = encke("top", "--control", program.control_url, "--once", "--every", every, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_proxy_counts_what_passes_through_it(start, echo):
    backend = echo()
    program = start("tcp", "--to", backend, "--workers", "2", *CONTROL)
    dice = random.Random(11)
    sizes = [1, 100, 1000, 40_000, *dice.choices(range(1, 5000), k=20), 10_000_000]
    for size in sizes:
        through(program, dice.randbytes(size))
    stats = until(
        lambda: (stats := program.stats())["totals"]["connections"] == 0 and adds_up(stats) and stats,
        "all are gone",
    )
    totals, sent = stats["totals"], sum(sizes)
    assert (stats["program"], stats["draining"], len(stats["workers"])) == ("proxy", False, 2)
    assert totals["connections_accepted"] == len(sizes)
    assert totals["connections_closed"] == {
        **dict.fromkeys(["reset", "timeout", "no_backend", "header", "drain"], 0),
        "done": len(sizes),
    }
    assert totals["connections_refused"] == {"listener": 0, "source": 0}
    assert (totals["connects"], totals["connects_failed"]) == (len(sizes), 0)
    assert totals["relayed_bytes"] == {"up": sent, "down": sent}
    assert totals["bytes_read"] == totals["bytes_written"] == 2 * sent
    assert 0 < totals["spliced_bytes"] < 2 * sent
    calls = totals["system_calls"]
    assert calls["accept"] >= calls["connect"] == len(sizes)
    assert calls["close"] == calls["shutdown"] == 2 * len(sizes)
    # Each side is watched once, a client that was full once more. Input is paused and resumed at a full sink.
    assert 2 * len(sizes) <= calls["epoll_ctl"] <= 3 * len(sizes) + calls["splice"]
    assert calls["recv"] >= 2 * len(sizes) and calls["splice"] > 0
    assert stats["backends"] == [
        {
            "listener": "%s:%d" % program.listen,
            "backend": backend,
            "address": backend,
            "state": "well",
            "connections": 0,
            "connects": len(sizes),
            "connects_failed": 0,
        }
    ]
    for absent in ("online", "slow", "published", "graph"):
        assert absent not in stats
    for absent in ("sessions", "backlog_bytes", "deliveries", "mailbox_bytes"):
        assert absent not in totals

    metrics = samples(program)
    listener = ("listener", "%s:%d" % program.listen)
    for name, value in [
        (("encke_connections_accepted_total",), len(sizes)),
        (("encke_bytes_read_total",), 2 * sent),
        (("encke_relayed_bytes_total", ("direction", "up")), sent),
        (("encke_connections_closed_total", ("reason", "done")), len(sizes)),
        (("encke_backend_connects_total", ("backend", backend), listener), len(sizes)),
        (("encke_backend_state", ("backend", backend), listener, ("state", "well")), 1),
        (("encke_backend_state", ("backend", backend), listener, ("state", "ejected")), 0),
    ]:
        assert metrics[name] == value, name
    assert any(name == "encke_build_info" and ("program", "proxy") in labels
               for name, *labels in metrics)
    # Pipes that nobody has wanted for a second are closed; then no worker has anything to do.
    until(lambda: program.totals()["pipes"] == 0, "pipes are closed")
    assert agree(program.stats(), samples(program))


def test_backends_are_told_as_they_are(start, echo, port):
    well, dead = echo(), port().address
    program = start(
        "tcp", "--to", f"{well},{dead}", "--balance", "round-robin", "--eject-time", "60s",
        *["--workers", "1"], *CONTROL,
    )

    def backends():
        return {one["backend"]: one for one in program.stats()["backends"]}

    clients = []
    for _ in range(10):
        clients.append(connect(program))
        clients[-1].sendall(b"x")
        assert clients[-1].recv(1) == b"x"
    told, totals = backends(), program.totals()
    assert (told[well]["state"], told[well]["connections"]) == ("well", 10)
    assert (told[dead]["state"], told[dead]["connections"]) == ("ejected", 0)
    assert told[dead]["connects"] == told[dead]["connects_failed"] == 3
    assert (totals["connects"], totals["connects_failed"]) == (13, 3)
    assert (totals["connect_retries"], totals["connections"]) == (3, 10)
    for client in clients:
        client.close()
    until(lambda: backends()[well]["connections"] == 0, "none is left")

    looked_after = start(
        "tcp", "--to", dead, "--check-interval", "100ms", "--check-fall", "2", "--check-rise", "1",
        *CONTROL,
    )
    state = lambda: looked_after.stats()["backends"][0]["state"]
    until(lambda: state() == "unwell", "it is noticed")
    assert looked_after.totals()["connects"] == 0, "a check is nobody's connection"
    echo(int(dead.rpartition(":")[2]))
    until(lambda: state() == "well", "it is noticed")


def test_who_is_refused_is_counted(start, echo):
    program = start(
        "tcp", "--to", echo(), "--max-connections", "2", "--max-connections-per-source", "1", *CONTROL
    )
    with connect(program) as first:
        first.sendall(b"x")
        assert first.recv(1) == b"x"
        with connect(program) as second:
            assert second.recv(1) == b""
        until(lambda: program.totals()["connections"] == 1, "the second is gone")
        assert program.totals()["connections_refused"] == {"listener": 0, "source": 1}
    limited = start("tcp", "--to", echo(), "--max-connections", "1", *CONTROL)
    with connect(limited) as first:
        first.sendall(b"x")
        assert first.recv(1) == b"x"
        with connect(limited) as second:
            assert second.recv(1) == b""
        # It hears of its end an instant before that is counted.
        until(lambda: limited.totals()["connections"] == 1, "the second is gone")
        assert limited.totals()["connections_refused"] == {"listener": 1, "source": 0}
        calls = limited.totals()["system_calls"]
        assert (calls["connect"], calls["close"]) == (1, 1)


def test_a_request_to_hello_is_one_receive_and_one_send(start):
    program = start("hello", "--workers", "2", *CONTROL)
    client = http.client.HTTPConnection(*program.listen, timeout=PATIENCE)

    def ask():
        client.request("GET", "/", headers={"Accept-Encoding": "identity"})
        assert client.getresponse().read() == b"hello"

    ask()
    request = len(b"GET / HTTP/1.1\r\nHost: %s:%d\r\nAccept-Encoding: identity\r\n\r\n" % (
        program.listen[0].encode(), program.listen[1]))

    def counted(requests):
        """The totals when so many requests are: an answer leaves an instant before that."""
        totals = program.totals()
        done = totals["requests_answered"] == totals["system_calls"]["send"] == requests
        return done and totals["bytes_written"] and totals

    before = until(lambda: counted(1), "the first is counted")
    assert before["bytes_read"] == request
    for _ in range(50):
        ask()
    answered = 51 * before["bytes_written"]
    after = until(
        lambda: (totals := counted(51)) and totals["bytes_written"] == answered and totals,
        "all are counted",
    )
    grown = lambda name: after[name] - before[name]
    calls = {
        call: count - before["system_calls"][call] for call, count in after["system_calls"].items()
    }
    assert calls == {"accept": 0, "recv": 50, "send": 50, "epoll_ctl": 0, "shutdown": 0, "close": 0}
    assert (grown("requests_answered"), grown("connections_accepted")) == (50, 0)
    assert grown("bytes_read") == 50 * request
    assert grown("bytes_written") == 50 * before["bytes_written"]
    assert grown("turns") >= grown("poll_events") == 50
    assert after["connections"] == 1
    client.close()
    for _ in range(20):
        with connect(program) as short:
            short.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert b"".join(iter(lambda: short.recv(65536), b"")).endswith(b"hello")
    with connect(program) as bad:
        bad.sendall(b"nonsense\r\n\r\n")
        assert bad.recv(65536).startswith(b"HTTP/1.1 400 ")
    stats = until(
        lambda: (stats := program.stats())["totals"]["connections"] == 0 and adds_up(stats) and stats,
        "all are gone",
    )
    totals = stats["totals"]
    assert (stats["program"], len(stats["workers"])) == ("hello", 2)
    assert totals["connections_accepted"] == totals["system_calls"]["close"] == 22
    assert (totals["requests_answered"], totals["requests_rejected"]) == (71, 1)
    assert totals["system_calls"]["shutdown"] == 21
    assert "backends" not in stats and "connections_closed" not in totals
    metrics = samples(program)
    assert agree(stats, metrics) and metrics[("encke_requests_answered_total",)] == 71


def test_time_is_worked_or_waited(start):
    program = start("hello", "--workers", "1", *CONTROL)
    client = http.client.HTTPConnection(*program.listen, timeout=PATIENCE)

    def ask():
        client.request("GET", "/")
        client.getresponse().read()

    began = time.monotonic()
    ask()
    before = program.totals()
    asked = time.monotonic()
    while time.monotonic() - asked < 1:
        ask()
        time.sleep(0.01)
    ask()
    # Between the two looks at least, and at most.
    between = time.monotonic() - asked
    after = program.totals()
    passed = time.monotonic() - began
    spent = {
        state: seconds - before["worker_seconds"][state]
        for state, seconds in after["worker_seconds"].items()
    }
    # What passes while it waits counts when it wakes: 10 ms late at most, and more on a busy machine.
    assert 0.8 * between - 0.1 < sum(spent.values()) < passed + 0.2
    assert 0 < spent["busy"] < spent["waiting"]
    stages = after["stage_seconds"]
    assert set(stages) == {"accept", "signals", "mail", "deadlines", "closing"}
    assert all(seconds > 0 for seconds in stages.values())
    assert sum(stages.values()) < 2 * after["worker_seconds"]["busy"]


def test_top_shows_both_and_leaves_out_what_they_have_not(start):
    hello = start("hello", "--workers", "2", *CONTROL)
    backend = "%s:%d" % hello.listen
    proxy = start("tcp", "--to", backend, "--workers", "3", *CONTROL)
    stop = threading.Event()
    asked = []

    def load():
        while not stop.is_set():
            with connect(proxy) as client:
                client.sendall(b"GET / HTTP/1.0\r\n\r\n")
                assert b"".join(iter(lambda: client.recv(65536), b"")).endswith(b"hello")
                asked.append(1)

    loader = threading.Thread(target=load)
    loader.start()
    try:
        until(lambda: asked, "an answer")
        of_proxy, of_hello = (json.loads(top(one, "--json", every="500ms")) for one in (proxy, hello))
        tables = {program.pid: top(program) for program in (proxy, hello)}
    finally:
        stop.set()
        loader.join()
    for view, program, workers in [(of_proxy, "proxy", 3), (of_hello, "hello", 2)]:
        assert (view["program"], len(view["workers"])) == (program, workers)
        totals = view["totals"]
        assert totals["accepts_per_second"] > 0 and totals["bytes_in_per_second"] > 0
        for rate in ("accepts_per_second", "bytes_out_per_second", "polls_per_second"):
            parts = [worker[rate] for worker in view["workers"]]
            assert sum(parts) == pytest.approx(totals[rate])
        for row in (totals, *view["workers"]):
            for absent in ("sessions", "deliveries_per_second", "backlog_bytes", "mailbox_bytes"):
                assert absent not in row
        for absent in ("online", "publishes_per_second", "slowest", "slow"):
            assert absent not in view
    assert of_proxy["totals"]["connects_per_second"] > 0
    (row,) = of_proxy["backends"]
    assert (row["backend"], row["state"]) == (backend, "well") and row["connects_per_second"] > 0
    assert "backends" not in of_hello and "pipes" not in of_hello["totals"]
    assert of_hello["totals"]["requests_answered_per_second"] > 0

    text = tables[proxy.pid]
    assert text.startswith("encke proxy ") and "pairs: " in text
    assert re.search(rf"\nbackend +STATE .*\n{re.escape(backend)} +well ", text), text
    assert "SPLICE" in text and "CHECKS" in text and "OWED B" not in text and "FAN-OUT" not in text
    assert tables[hello.pid].startswith("encke hello ") and "REQ/s" in tables[hello.pid]
    for text, workers in [(text, 3), (tables[hello.pid], 2)]:
        for table in text.rstrip("\n").split("\n\n")[1:5]:
            rows = [line.split()[0] for line in table.splitlines()[1:]]
            assert rows == [*map(str, range(workers)), "all"], table
        assert max(map(len, text.splitlines())) <= 80, text


def test_nobody_may_look_unless_told_where(start, echo):
    clients = {"ENCKE_CONTROL": "http://127.0.0.1:1"}
    for program in (start("hello", env=clients), start("tcp", "--to", echo(), env=clients)):
        assert program.control is None
        assert not any("control" in name for name in program.threads())
    told = start("hello", env={"ENCKE_HELLO_CONTROL": "127.0.0.1:0"})
    assert told.ask("/healthz").json() == {"status": "ok"}


def test_the_file_says_where_to_look_and_the_process_is_told_better(start, echo, port, tmp_path):
    config = tmp_path / "proxy.toml"
    config.write_text(
        'control = "127.0.0.1:0"\ncontrol-token = "of-the-file-0123456789"\n'
        f'[[listener]]\nlisten = "127.0.0.1:0"\nto = ["{echo()}"]\n'
    )
    program = start("tcp", "--config", config)
    assert program.ask("/v1/stats").status_code == 401
    bearer = {"Authorization": "Bearer of-the-file-0123456789"}
    assert program.ask("/v1/stats", headers=bearer).status_code == 200
    assert top(program, "--json", "--control-token", "of-the-file-0123456789")
    address = port().address
    program = start(
        "tcp", "--config", config,
        env={"ENCKE_PROXY_CONTROL": f"http://{address}/", "ENCKE_CONTROL_TOKEN": "better-0123456789"},
    )
    assert program.control_url == f"http://{address}"
    assert program.ask("/v1/stats", headers=bearer).status_code == 401
    bearer = {"Authorization": "Bearer better-0123456789"}
    assert program.ask("/metrics", headers=bearer).status_code == 200
    program.signal(signal.SIGHUP)
    until(lambda: "was reloaded" in program.log, "a reload")
    assert program.ask("/v1/stats", headers=bearer).status_code == 200


def test_strangers_cannot_look_without_a_token(start, echo):
    backend = echo()
    for verb in (["hello"], ["tcp", "--to", backend]):
        command = [*verb, "--listen", "127.0.0.1:0", "--control"]
        done = encke(*command, "0.0.0.0:0")
        assert done.returncode == 2 and "--control-token-file" in done.stderr, done
        taken = encke(*command, backend)
        assert taken.returncode == 1 and f"cannot bind {backend}" in taken.stderr, taken
    program = start("hello", *CONTROL)
    answer = program.ask("/v1/stats", headers={"Origin": "http://example.org"})
    assert answer.status_code == 403
    assert program.ask("/v1/publish/rj").status_code == 404


def test_workers_with_tables_of_their_own_have_none_of_its_descriptors(start, echo):
    for verb in (["hello"], ["tcp", "--to", echo()]):
        program = start(*verb, "--private-fds", "--workers", "3", *CONTROL)
        inode = listener_inode(program.control)
        threads = program.threads()
        held = {
            name: f"socket:[{inode}]" in map(os.readlink, (thread / "fd").iterdir())
            for name, thread in threads.items()
        }
        workers = [name for name in held if name.startswith(("hello-", "proxy-"))]
        assert len(workers) == 3 and not any(held[name] for name in workers)
        assert held["encke-proxy"], "the process itself holds it"
        for _ in range(5):
            with connect(program) as client:
                client.sendall(b"GET / HTTP/1.0\r\n\r\n")
                assert client.recv(65536)
        until(lambda: program.totals()["connections_accepted"] == 5, "all are counted")


def test_it_can_be_looked_at_to_its_end(start, echo):
    program = start("tcp", "--to", echo(), "--drain-timeout", "60s", *CONTROL)
    with connect(program) as client:
        client.sendall(b"x")
        assert client.recv(1) == b"x"
        assert program.ask("/readyz").status_code == 200
        program.signal(signal.SIGTERM)
        until(lambda: program.ask("/readyz").status_code == 503, "it is ending")
        stats = program.stats()
        assert (stats["draining"], stats["totals"]["connections"]) == (True, 1)
        assert program.ask("/healthz").status_code == 200
        assert "encke_draining 1.0" in program.ask("/metrics").text
        assert ", ending; " in top(program)
    assert program.process.wait(PATIENCE) == 0
    assert "connections_accepted=1" in program.log
