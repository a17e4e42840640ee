"""`encke-lab flood --resume` and `encke-lab drive --log`: clients that are cut at random get each event once,
and what a server that lies does to them is found."""

import json
import socket
import threading
import time

import pytest

from support.program import begin, encke
from support.wait import PATIENCE, until
from test_flood import Flood


def drive(server, log, *arguments, code=0):
    done = encke(
        "drive", "--control", server.control_url, "--log", log, "--json", *arguments, timeout=90
    )
    assert done.returncode == code, (done.returncode, done.stderr)
    return json.loads(done.stdout)


def each_was_here(server, count):
    """Waits until each client has had a session. Some of them may have been cut again by then, so
    there may be no moment at which all are there."""
    for client in range(1, count + 1):
        until(lambda: server.sessions(str(client)), f"client {client}")


def flood(url, clients, log, *arguments):
    return Flood(
        f"{url}/{{n}}", "-c", clients, "--resume", "--owed", log, "--ids", "opaque",
        "--expect-exact", *arguments,
    )  # fmt: skip


@pytest.mark.parametrize("transport,path", [("sse", "events"), ("ndjson", "stream")])
def test_clients_that_are_cut_at_random_get_each_event_once(start, tmp_path, transport, path):
    server, log = start("--history-bytes", "64MiB"), tmp_path / "log"
    running = flood(
        f"{server.public_url}/{path}", 50, log, "--transport", transport, "--cut-every", "300ms",
        "--back-within", "100ms", "--duration", "5s", "--expect-no-loss",
    )  # fmt: skip
    each_was_here(server, 50)
    driven = drive(server, log, "--rate", 1000, "--duration", "3s", "--max-id", 50)
    assert driven["events"]["accepted"] == 3000
    report = running.end()
    assert report["judgement"] == {
        "checked": 50, "exact": 50, "excused": 0, "missing": 0, "excess": 0,
    }  # fmt: skip
    assert report["events"] == 3000
    recovery = report["recovery"]
    assert recovery["cuts"] > 50 and recovery["returns"] > 50, recovery
    assert recovery["without_cursor"] == recovery["late"] == 0, recovery
    assert report["resets"] == {"restart": 0, "expired": 0, "unknown": 0}
    assert report["absence"]["count"] == recovery["returns"]


def test_friends_are_owed_what_is_about_each_other(start, tmp_path):
    server, log, friends = start("--history-bytes", "64MiB"), tmp_path / "log", tmp_path / "friends"
    pairs = [(one, other) for one in range(1, 21) for other in range(one + 1, 21, 3)]
    friends.write_text("".join(f"{one} {other}\n" for one, other in pairs))
    for one, other in pairs:
        server.subscribe(one, other)
        server.subscribe(other, one)
    running = flood(
        f"{server.public_url}/events", 20, log, "--friends", friends, "--mixed", "--cut-every",
        "300ms", "--back-within", "100ms", "--duration", "4s",
    )  # fmt: skip
    each_was_here(server, 20)
    drive(server, log, "--rate", 300, "--duration", "2s", "--max-id", 20)
    report = running.end()
    assert report["judgement"]["exact"] == 20, report["judgement"]
    assert report["recovery"]["cuts"] > 20


def test_a_server_without_history_is_found_out(start, tmp_path):
    server, log = start("--history-bytes", 0), tmp_path / "log"
    running = flood(
        f"{server.public_url}/events", 20, log, "--cut-every", "200ms", "--back-within", "200ms",
        "--duration", "2s", "--patience", "0s",
    )  # fmt: skip
    each_was_here(server, 20)
    drive(server, log, "--rate", 500, "--duration", "1500ms", "--max-id", 20)
    report = running.end(code=1)
    assert report["judgement"]["missing"] > 0
    assert "expected each event once: " in running.said


class Scripted:
    """A server that answers each connection with the next script, and keeps the requests. It ends all connections but the
    last, unless `is_cut` is false."""

    def __init__(self, *scripts, is_cut=True):
        self.is_cut, self.open = is_cut, []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d/events" % self.socket.getsockname()[1]
        self.scripts, self.asked = scripts, []
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        for script in self.scripts:
            connection, _ = self.socket.accept()
            self.asked.append(connection.recv(65536).decode())
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            connection.sendall(script.encode())
            if self.is_cut and script is not self.scripts[-1]:
                time.sleep(0.05)
                connection.close()
            else:
                self.open.append(connection)


def event(id, number):
    return f'id: {id}\ndata: {{"t":{1_800_000_000_000_000_000 + number},"n":{number}}}\n\n'


def test_repeats_are_dropped_and_requests_name_the_last_id():
    server = Scripted(
        "id: k-5\n\n" + event("k-7", 1) + event("k-10-8", 3),
        event("k-9", 2) + event("k-10", 3) + event("k-11", 4) + ":\nid: k-20\n\n",
        event("k-21", 5),
    )
    running = Flood(
        server.url, "-c", 1, "--resume", "--back-within", "10ms", "--events", 5, "--expect-no-loss",
        "--ids", "opaque",
    )  # fmt: skip
    report = running.end()
    assert (report["events"], report["recovery"]["repeats"]) == (5, 1)
    assert report["numbers"]["duplicates"] == 0
    ids = [
        next((line for line in asked.split("\r\n") if line.startswith("Last-Event-ID")), None)
        for asked in server.asked
    ]
    assert ids == [None, "Last-Event-ID: k-10-8", "Last-Event-ID: k-20"]


def test_a_server_that_is_gone_without_a_word_is_left():
    # Of the first stream nothing is heard any more, and its connection stays open.
    server = Scripted(event("k-7", 1), event("k-8", 2), is_cut=False)
    flags = ["--resume", "--back-within", "10ms", "--silent-after", "500ms"]
    report = Flood(server.url, "-c", 1, *flags, "--events", 2, "--expect-no-loss", "--ids", "opaque").end()
    assert (report["events"], report["recovery"]["returns"]) == (2, 1)
    assert "Last-Event-ID: k-7" in server.asked[1]


@pytest.mark.parametrize(
    "second,found",
    [
        (event("k-9", 3), ("missing", 1)),
        (event("k-8", 2) + event("k-9", 3) + event("k-10", 2), ("duplicates", 1)),
    ],
    ids=["loses", "repeats"],
)
def test_a_server_that_lies_after_a_return_is_found_out(second, found):
    server = Scripted(event("k-7", 1), second + event("k-30", 4))
    running = Flood(
        server.url, "-c", 1, "--resume", "--back-within", "10ms", "--duration", "700ms",
    )  # fmt: skip
    numbers = running.end()["numbers"]
    name, count = found
    value = numbers["skipped"] - numbers["filled"] if name == "missing" else numbers[name]
    assert value == count, numbers


def test_resets_and_gaps_are_counted_by_reason_and_excuse_losses():
    def reset(reason):
        return f'event: reset\ndata: {{"reason":"{reason}","from":"k-1"}}\n\n'

    server = Scripted(
        event("k-7", 1),
        reset("expired") + event("k-9", 50),
        reset("unknown") + event("k-2", 60),
        reset("restart") + event("m-1", 70) + 'event: gap\ndata: {"lost":3}\n\n' + event("m-9", 80),
    )
    running = Flood(
        server.url, "-c", 1, "--resume", "--back-within", "10ms", "--events", 5, "--expect-no-loss",
        "--ids", "opaque",
    )  # fmt: skip
    report = running.end()
    assert report["resets"] == {"restart": 1, "expired": 1, "unknown": 1}
    assert report["gaps"] == 1


def test_a_drive_publishes_on_when_its_server_comes_back(start, tmp_path):
    server, log = start("--history-bytes", "64MiB"), tmp_path / "log"
    address = "%s:%d" % server.control
    running = begin(
        "drive", "--control", server.control_url, "--log", log, "--reconnect", "--json", "--rate",
        "500", "--duration", "4s", "--max-id", "10",
    )  # fmt: skip
    until(lambda: server.stats()["history"]["appended"] > 100, "events")
    server.kill()
    other = start("--history-bytes", "64MiB", control=address)
    out, said = running.communicate(timeout=PATIENCE)
    assert running.returncode == 0, said
    report = json.loads(out)
    events = report["events"]
    assert report["reconnects"] >= 1 and events["unsent"] == events["refused"] == 0, report
    assert events["accepted"] + events["lost"] == 2000
    lines = log.read_text().splitlines()
    accepted = [line.split() for line in lines if not line.startswith("?")]
    assert sum(int(count) for _, count, _ in accepted) == events["accepted"]
    assert sum(line.startswith("?") for line in lines) == events["lost"]
    assert other.stats()["history"]["appended"] > 0


def test_what_does_not_go_together_is_said(tmp_path):
    url = "http://127.0.0.1:1/events/{n}"
    for arguments in (["--cut-every", "1s"], ["--resume", "--expect-exact"]):
        done = encke("flood", url, *arguments)
        assert done.returncode == 2, done.stderr
    (tmp_path / "log").write_text("nonsense\n")
    server = Scripted("")
    done = encke("flood", server.url, "-c", 1, "--resume", "--duration", "0s", "--owed", tmp_path / "log")
    assert done.returncode == 1 and "is not a line as `encke-lab drive --log` writes them" in done.stderr
