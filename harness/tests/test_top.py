"""`encke top`: what it tells is what happened."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import statistics
import struct
import subprocess
import termios
import threading
import time

import pyte
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from support.http import Ndjson, Sse, elapsed
from support.program import BINARY, ENVIRONMENT, begin, encke
from support.wait import PATIENCE, PROMPT, until

LARGE = "x" * 60_000


class Top:
    """A running `encke top`, whose lines are collected."""

    def __init__(self, server, *arguments):
        self.process = begin("top", "--control", server.control_url, *arguments)
        self.lines, self.said = [], []
        self.readers = [
            threading.Thread(target=lambda to=to, of=of: to.extend(of), daemon=True)
            for to, of in [
                (self.lines, self.process.stdout),
                (self.said, self.process.stderr),
            ]
        ]
        for reader in self.readers:
            reader.start()

    @property
    def views(self):
        return [json.loads(line) for line in list(self.lines)]

    def next(self):
        """A view that begins after now."""
        seen = len(self.lines)
        until(lambda: len(self.lines) > seen + 1, "two more views")
        return self.views[seen + 1]

    def interrupt(self):
        """Ends it as a person would, and returns its exit code."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE)
        for reader in self.readers:
            reader.join()
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for reader in self.readers:
            reader.join()
        self.process.stdout.close()
        self.process.stderr.close()


def once(server, *arguments, every="200ms"):
    done = encke("top", "--control", server.control_url, "--once", "--every", every, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def summed(views, rate):
    """How often something happened over all views."""
    return sum(rate(view["totals"]) * view["seconds"] for view in views)


def test_views_sum_to_what_happened(start):
    server = start()
    with Top(server, "--json", "--every", "100ms") as top:
        until(lambda: top.lines, "a view")
        streams = [Sse(server, f"user-{n}") for n in range(5)]
        streams += [Ndjson(server, f"user-{n}") for n in range(3)]
        for n in range(1, 5):
            server.subscribe(f"user-{n}", "rj")
        for _ in range(10):
            assert server.publish("rj", "hello")["written"] == 6
        for stream in streams[:2]:
            stream.close()
        until(lambda: server.totals()["connections"] == 6, "two are gone")
        # Two heartbeats are 20 s apart: what is counted now stays.
        totals = server.totals()
        last = top.next()
        assert top.interrupt() == 0, top.said
    views = top.views
    for name, rate, count in [
        ("accepts", lambda row: row["accepts_per_second"], 8),
        ("closes", lambda row: row["closes_per_second"], 2),
        ("written", lambda row: row["deliveries_per_second"]["written"], 60),
        ("in", lambda row: row["bytes_in_per_second"], totals["bytes_read"]),
        ("out", lambda row: row["bytes_out_per_second"], totals["bytes_written"]),
        *(
            (call, lambda row, call=call: row["system_calls_per_second"][call], count)
            for call, count in totals["system_calls"].items()
        ),
    ]:
        assert summed(views, rate) == pytest.approx(count), name
    assert totals["bytes_read"] > 8 * 30 and totals["bytes_written"] > 60 * 5
    calls = totals["system_calls"]
    # Each is welcomed with one, and gets each event with one at most.
    assert 8 < calls["send"] <= 8 + 60
    assert calls["accept"] >= 8 and calls["epoll_ctl"] == 8 and calls["close"] == 2
    assert sum(view["publishes_per_second"]["publish"] * view["seconds"] for view in views) == (
        pytest.approx(10)
    )
    assert (last["online"], last["totals"]["sessions"], last["totals"]["connections"]) == (5, 6, 6)
    assert (last["totals"]["backlog_bytes"], last["totals"]["mailbox_bytes"]) == (0, 0)
    for view in views:
        for rate in ("accepts_per_second", "bytes_out_per_second", "polls_per_second"):
            parts = [worker[rate] for worker in view["workers"]]
            assert sum(parts) == pytest.approx(view["totals"][rate])
        assert sum(worker["connections"] for worker in view["workers"]) == (
            view["totals"]["connections"]
        )
    for stream in streams:
        stream.close()


def polls_agree(figures):
    """A worker may be between two of its counters: then they agree a moment later."""
    return sum(figures["events_per_poll"].values()) == figures["turns"]


def test_polls_by_events_are_all_polls(start):
    server = start()
    with Top(server, "--json", "--every", "100ms") as top:
        streams = [Sse(server, "rj") for _ in range(20)]
        for _ in range(50):
            server.publish("rj", "x")
        top.next()
        assert top.interrupt() == 0
    stats = until(
        lambda: all(map(polls_agree, (stats := server.stats())["workers"])) and stats, "agreement"
    )
    assert all(worker["poll_events"] >= 10 for worker in stats["workers"])
    for worker in stats["workers"]:
        polls = worker["events_per_poll"]
        assert list(polls)[0] == "0" and "2-3" in polls and len(polls) == 10
        least = sum(int(label.split("-")[0]) * count for label, count in polls.items())
        assert least <= worker["poll_events"] <= 2 * least
    by_events = summed(top.views, lambda row: sum(row["polls_by_events_per_second"].values()))
    polls = summed(top.views, lambda row: row["polls_per_second"])
    assert by_events == pytest.approx(polls, abs=4)
    families = text_string_to_metric_families(server.api.get("/metrics").text)
    family = next(one for one in families if one.name == "encke_events_per_poll")
    values = {sample.name.removeprefix(family.name): sample.value for sample in family.samples}
    buckets = [sample.value for sample in family.samples if "le" in sample.labels]
    assert len(buckets) == 10 and buckets == sorted(buckets)
    assert values["_count"] == buckets[-1] >= stats["totals"]["turns"]
    assert values["_sum"] >= stats["totals"]["poll_events"]
    for stream in streams:
        stream.close()


def test_time_is_worked_or_waited(start):
    server = start(workers=1)
    with Sse(server, "rj") as stream:
        for _ in range(20):
            server.publish("rj", "x")
            stream.data()
        before = time.monotonic()
        spent = server.totals()["worker_seconds"]
        view = json.loads(once(server, "--json", every="2s"))
        passed = time.monotonic() - before
        now = server.totals()
    (worker,) = view["workers"]
    # With somebody connected a worker wakes ten times a second, and waiting counts when it wakes: later
    # where others need the processor.
    assert 0.6 < worker["busy"] + worker["waiting"] < 1.000001
    assert 0 < worker["busy"] < worker["waiting"]
    grown = sum(now["worker_seconds"].values()) - sum(spent.values())
    assert 0.6 * passed - 0.2 < grown < passed + 0.4
    stages = now["stage_seconds"]
    assert set(stages) == {"accept", "signals", "mail", "fan_out", "deadlines", "closing"}
    assert all(stages[stage] > 0 for stage in ("accept", "mail", "fan_out", "deadlines"))


def test_an_idle_server_waits_all_the_time(start):
    server = start(workers=3)

    def shares():
        view = json.loads(once(server, "--json", every="1s"))
        rows = view["workers"]
        for share in ("busy", "waiting"):
            mean = sum(row[share] for row in rows) / len(rows)
            assert view["totals"][share] == pytest.approx(mean)
        return [row["waiting"] for row in rows], view["totals"]["waiting"]

    # Nobody has ever been there: no worker takes a turn.
    until(lambda: shares() == ([1.0] * 3, 1.0), "all workers wait")
    table = once(server).split("\n\n")[2].splitlines()
    assert [row.split()[:2] for row in table[1:]] == [[worker, "100%"] for worker in ("0", "1", "2", "all")]
    # One client, who hears nothing: its worker wakes ten times a second, and nobody else does.
    with Sse(server, "rj"):

        def two_sleep():
            rows, every = shares()
            return sorted(rows)[1:] == [1.0, 1.0] and every > 0.85

        until(two_sleep, "two workers sleep, and the row of all says so")


def test_stages_add_up_to_busy_where_each_turn_comes_after_a_wait(start):
    server = start(workers=1)
    with Sse(server, "rj") as stream:

        def share():
            before = server.totals()
            for _ in range(60):
                # Longer than the wait after which each turn is timed.
                time.sleep(0.003)
                server.publish("rj", "x")
                stream.data()
            now = server.totals()
            busy = now["worker_seconds"]["busy"] - before["worker_seconds"]["busy"]
            return (sum(now["stage_seconds"].values()) - sum(before["stage_seconds"].values())) / busy

        shares = [share() for _ in range(5)]
    # A few turns come without a wait, and one of them may be drawn that the machine has interrupted.
    assert 0.75 < statistics.median(shares) < 1.25, shares


def test_the_slowest_readers_are_named(start):
    server = start("--stall-timeout", "60s", "--backlog-bytes", "4MiB", "--slow", "close")
    with (
        Sse(server, "slow", receive_buffer=4096),
        Sse(server, "slower", receive_buffer=4096),
        Sse(server, "quick"),
    ):
        for reader in ("slow", "slower"):
            until(lambda: server.publish(reader, LARGE)["queued"], "a full socket")
        for _ in range(3):
            server.publish("slower", LARGE)
        view = json.loads(once(server, "--json"))
        assert [session["ids"] for session in view["slowest"]] == [["slower"], ["slow"]]
        owed = [session["backlog_bytes"] for session in view["slowest"]]
        assert owed[0] > 3 * 60_000 and sum(owed) == view["totals"]["backlog_bytes"]
        assert view["totals"]["backlog_sessions"] == 2
        table = once(server)
        assert re.search(r"slowest readers.*OWED B.*\n.*slower\n.*slow\n", table), table
        answer = server.api.get("/v1/slowest?limit=1").json()
        assert [session["ids"] for session in answer["sessions"]] == [["slower"]]


def test_tables_have_a_row_for_each_worker(start):
    server = start(workers=3)
    with Sse(server, "rj"):
        text = once(server)
    tables = text.rstrip("\n").split("\n\n")
    assert tables[0].startswith("encke ") and "ids online: 1, sessions: 1," in tables[0]
    assert [table.split()[0] for table in tables[1:]] == ["worker", "time", "calls/s", "polls"]
    for table in tables[1:]:
        rows = [line.split() for line in table.splitlines()[1:]]
        assert [row[0] for row in rows] == ["0", "1", "2", "all"], table
    assert max(map(len, text.splitlines())) <= 80, text


def test_a_server_that_goes_away_is_waited_for(start, port):
    server = start(public=port().address, control=port().address)
    with Top(server, "--json", "--every", "100ms") as top:
        until(lambda: top.lines, "a view")
        server.stop()
        until(lambda: top.said, "a sentence")
        assert top.said[0].rstrip().endswith("trying again"), top.said
        seen = len(top.lines)
        again = server.restart()
        try:
            until(lambda: len(top.lines) > seen, "a view of the new server")
            assert top.views[-1]["epoch"] == again.stats()["epoch"]
            # Counters that begin anew are no rates below nothing.
            assert all(
                rate >= 0
                for view in top.views
                for rate in view["totals"]["system_calls_per_second"].values()
            )
            assert top.interrupt() == 0
        finally:
            again.stop()
        assert len(top.said) == 1, top.said


def test_a_server_that_stands_still_keeps_nobody_from_ending(start):
    server = start()
    with Top(server, "--every", "100ms") as top:
        until(lambda: top.lines, "a view")
        server.signal(signal.SIGSTOP)
        try:
            time.sleep(0.5)  # A look has begun and is not answered.
            took, code = elapsed(top.interrupt)
        finally:
            server.signal(signal.SIGCONT)
        assert (code, top.said) == (0, []) and took < PROMPT


def test_a_server_that_is_not_there_is_a_failure(port):
    url = f"http://{port().address}"
    for more in ([], ["--once"], ["--json"]):
        done = encke("top", "--control", url, *more)
        assert done.returncode == 1 and "encke serve" in done.stderr, done
    assert encke("top", "--every", "10ms").returncode == 2


def test_a_token_is_needed_where_the_server_has_one(start):
    server = start("--control-token", "secret-0123456789", token="secret-0123456789")
    done = encke("top", "--once", "--control", server.control_url)
    assert done.returncode == 1 and "--control-token" in done.stderr
    assert json.loads(once(server, "--json", "--control-token", "secret-0123456789"))


def test_a_reader_that_goes_away_is_no_failure(server):
    with Top(server, "--every", "100ms") as top:
        until(lambda: top.lines, "a line")
        assert top.lines[0].startswith("encke ")
    command = f"{BINARY} top --every 100ms --control {server.control_url} | head -1"
    script = f"set -o pipefail; {command}"
    done = subprocess.run(
        ["bash", "-c", script], env=ENVIRONMENT, capture_output=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done


class OnTerminal:
    """An `encke top` on a terminal of its own, and what that shows."""

    def __init__(self, server, lines=30, columns=100, keyboard=True):
        self.master, slave = pty.openpty()
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.drawn = b""
        self.resize(lines, columns)
        self.before = termios.tcgetattr(self.master)
        command = ["top", "--every", "100ms", "--control", server.control_url]
        keys = {"stdin": slave} if keyboard else {}
        self.process = begin(*command, stdout=slave, stderr=slave, **keys)
        os.close(slave)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.master)

    def resize(self, lines, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.screen.resize(lines, columns)

    def read(self):
        """Reads a piece; whether the other side is closed."""
        if select.select([self.master], [], [], 0.1)[0]:
            try:
                piece = os.read(self.master, 65536)
            except OSError:
                return True
            self.drawn += piece
            self.stream.feed(piece)
        return False

    def press(self, keys):
        os.write(self.master, keys)

    def shows(self, condition, what):
        until(lambda: self.read() or condition(self.screen.display), what, pause=0)

    def ends(self):
        until(self.read, "its end", pause=0)
        assert self.process.wait(PATIENCE) == 0, self.drawn


def tables(display):
    """How many tables of all 64 workers a terminal shows."""
    return sum(line.startswith("all 64") for line in display)


def first_worker(display):
    title = next(number for number, line in enumerate(display) if line.startswith("worker"))
    return int(display[title + 1].split()[0])


@pytest.mark.parametrize("keyboard", [True, False], ids=["keyboard", "no keyboard"])
def test_a_terminal_is_drawn_upon_and_given_back(start, keyboard):
    with OnTerminal(start(workers=64), keyboard=keyboard) as top:
        # All four tables are there, of some workers and of all.
        top.shows(lambda display: tables(display) == 4, "four tables")
        pictures = {tuple(top.screen.display)}
        top.shows(lambda display: pictures.add(tuple(display)) or len(pictures) > 2, "three pictures")
        top.process.send_signal(signal.SIGINT)
        top.ends()
        assert termios.tcgetattr(top.master) == top.before
    text = top.drawn.decode()
    # The other page without a cursor, whose lines do not wrap, and back.
    assert text.startswith("\x1b[?1049h\x1b[?7l\x1b[?25l") and "\x1b[?7h" in text
    _, _, left = text.partition("\x1b[?1049l\x1b[?25h")
    assert "polls of" in left and "\x1b" not in left
    assert max(map(len, left.splitlines())) <= 100


@pytest.mark.parametrize("key", [b"q", b"\x1b", b"\x03"], ids=["q", "Esc", "Ctrl-C"])
def test_keys_end_it(start, key):
    with OnTerminal(start(workers=64)) as top:
        top.shows(lambda display: tables(display) == 4, "four tables")
        top.press(key)
        top.ends()
        assert termios.tcgetattr(top.master) == top.before


def test_keys_scroll_explain_and_pause(start):
    with OnTerminal(start(workers=64)) as top:
        top.shows(lambda display: tables(display) == 4, "four tables")
        top.press(b"\x1b[B")
        top.shows(lambda display: first_worker(display) == 0, "the first worker")
        top.press(b"\x1b[B" * 5)
        top.shows(lambda display: first_worker(display) == 5, "the sixth worker")
        top.press(b"?")
        top.shows(lambda display: any("half the interval" in line for line in display), "the keys")
        top.press(b"? ")
        top.shows(lambda display: "paused" in display[0], "a pause")
        top.press(b"q")
        top.ends()


def test_another_size_is_filled(start):
    with OnTerminal(start(workers=64)) as top:
        top.shows(lambda display: tables(display) == 4, "four tables")
        for lines, columns in ((60, 120), (24, 80), (5, 20), (40, 100)):
            top.resize(lines, columns)
            top.shows(lambda display: display[-1].startswith("q quit"[:columns]), "the hint at the bottom")
        top.shows(lambda display: tables(display) == 4, "four tables")
        top.press(b"q")
        top.ends()
