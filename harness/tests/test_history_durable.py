"""The history in its directory: what is there after `kill -9`, restarts, damage and a full disk."""

import http.client
import json
import os
import random
import subprocess
import threading

import pytest

from support.program import encke
from support.server import Server, quote
from support.wait import until

ROUNDS = int(os.environ.get("KILL_ROUNDS", 12))
SUBJECTS = [*range(8), *(f"song {n}" for n in range(8))]
# Data of the last event about a subject.
LAST = "the last"
HISTORY = ("--memory", "--history-bytes", "64MiB", "--event-bytes", "64KiB")


def history(directory, *flags):
    return [*HISTORY, "--history-dir", directory, *flags]


def events_of(server, subject, after, count, patience=20):
    """What a client of `subject` gets that comes back after a cursor: (id, data) of each event, and resets."""
    events, resets = [], []
    arguments = ["curl", "-sN", "--max-time", str(patience)]
    url = f"{server.public_url}/events/{quote(subject)}?last_event_id={after}"
    stream = subprocess.Popen([*arguments, url], stdout=subprocess.PIPE, text=True)
    try:
        block = {}
        for line in stream.stdout:
            name, _, value = line.rstrip("\n").partition(":")
            if name:
                block[name] = value.removeprefix(" ")
                continue
            if block.get("event") == "reset":
                resets.append(json.loads(block["data"]))
            elif "data" in block:
                events.append((block["id"], block["data"]))
            block = {}
            if len(events) >= count or events and events[-1][1] == LAST:
                break
    finally:
        stream.kill()
        stream.wait()
        stream.stdout.close()
    return events, resets


def position(identifier):
    return int(identifier.split("-")[1])


class Publisher(threading.Thread):
    """Publishes one event after another until the server is gone. Knows which had a receipt."""

    def __init__(self, number, address):
        super().__init__(daemon=True)
        self.number = number
        self.address = address
        self.random = random.Random(number)
        self.answered = []
        self.start()

    def run(self):
        connection = http.client.HTTPConnection(*self.address)
        try:
            while True:
                subject = self.random.choice(SUBJECTS)
                data = f"{self.number}:{len(self.answered)}:" + "x" * self.random.randrange(300)
                headers = {"Content-Type": "text/plain; charset=utf-8"}
                path = f"/v1/publish/{quote(subject)}"
                connection.request("POST", path, data, headers)
                receipt = json.loads(connection.getresponse().read())
                assert "unstored" not in receipt
                self.answered.append((subject, receipt["id"], data))
        except (OSError, http.client.HTTPException, ValueError):
            connection.close()


@pytest.mark.parametrize("sync", ["100ms", "receipt"])
def test_every_event_with_a_receipt_is_there_after_a_kill(tmp_path, sync):
    directory = tmp_path / "history"
    answered, epoch, first = [], None, None
    chance = random.Random(5)
    for _ in range(ROUNDS):
        server = Server(*history(directory, "--history-sync", sync))
        if first is None:
            first = server.publish("begin", "here")["id"]
            epoch = first.split("-")[0]
        publishers = [Publisher(chance.random(), server.control) for _ in range(4)]
        wanted = chance.randrange(1, 120)
        until(lambda: sum(len(it.answered) for it in publishers) >= wanted, "events are published")
        server.kill()
        for publisher in publishers:
            publisher.join()
            answered += publisher.answered
    ids = [identifier for _, identifier, _ in answered]
    assert len(ids) == len(set(ids)), "no number is given out twice"
    assert {identifier.split("-")[0] for identifier in ids} == {epoch}
    server = Server(*history(directory))
    try:
        last = server.publish("end", "there")["id"]
        assert position(last) > max(map(position, ids))
        for subject in SUBJECTS:
            own = [(identifier, data) for of, identifier, data in answered if of == subject]
            own.sort(key=lambda it: position(it[0]))
            # An event without a receipt may be there or not.
            server.publish(subject, LAST)
            events, resets = events_of(server, subject, first, count=10_000)
            assert not resets, "nothing that was acknowledged is lost"
            found = [event for event in events if event in set(own)]
            assert found == own
    finally:
        server.stop()


def test_a_restart_keeps_epoch_order_and_cursors(tmp_path, start):
    directory = tmp_path / "history"
    server = start(*history(directory))
    ids = [server.publish("rj", f"event {n}")["id"] for n in range(20)]
    server.stop()
    server = start(*history(directory))
    assert "WARN" not in server.log
    after = server.publish("rj", "after")["id"]
    assert position(after) == position(ids[-1]) + 1
    events, resets = events_of(server, "rj", ids[4], 16)
    assert [event for event, _ in events] == [*ids[5:], after]
    assert not resets


@pytest.mark.parametrize("sync", ["100ms", "receipt"])
def test_a_key_that_was_answered_publishes_nothing_after_a_kill(tmp_path, sync):
    directory, key = history(tmp_path / "history", "--history-sync", sync), {"Idempotency-Key": "one"}
    lines, of_batch = '{"subject":"rj","data":1}\n{"subject":"rj","data":2}\n', {"Idempotency-Key": "two"}
    server = Server(*directory)
    first = server.post("/v1/publish/rj", "once", headers=key)
    server.post("/v1/publish?receipts=summary", lines, headers=of_batch)
    for end in ["kill", "stop"]:
        getattr(server, end)()
        server = Server(*directory)
        again = server.api.post("/v1/publish/rj?receipt=early", content="once", headers=key)
        assert (again.status_code, again.headers["Idempotent-Replayed"]) == (202, "true")
        assert again.json() == {"id": first["id"], "subscribers": 1, "online": 0}
        assert server.api.post("/v1/publish/rj", content="else", headers=key).status_code == 422
        batch = server.api.post("/v1/publish?receipts=summary", content=lines, headers=of_batch)
        assert batch.status_code == 409 and "restarted" in batch.json()["detail"]
        events = server.api.get("/v1/history/rj").json()["events"]
        assert [event["data"] for event in events] == ["once", 1, 2]
    server.stop()


def test_a_cursor_of_an_event_that_was_lost_is_a_reset(tmp_path, start):
    directory = tmp_path / "history"
    server = start(*history(directory))
    last = server.publish("rj", "stored")["id"]
    server.kill()
    epoch, number = last.split("-")
    server = start(*history(directory))
    assert "clients that have seen later ones" in server.log
    server.publish("rj", "new")
    # Delivered before the kill, and never written: this client cannot go on from there.
    _, resets = events_of(server, "rj", f"{epoch}-{int(number) + 1}", 2, patience=3)
    assert resets and resets[0]["reason"] == "restart"
    events, resets = events_of(server, "rj", last, 1)
    assert [data for _, data in events] == ["new"] and not resets


def segments(directory):
    return sorted(directory.glob("segment-*"))


def test_a_torn_tail_is_cut_and_said(tmp_path, start):
    directory = tmp_path / "history"
    server = start(*history(directory))
    first = server.publish("rj", "first")["id"]
    server.publish("rj", "second")
    server.kill()
    with open(segments(directory)[-1], "ab") as file:
        file.write(b"\x01torn")
    server = start(*history(directory))
    assert "the last 5 bytes of the history" in server.log
    events, resets = events_of(server, "rj", first, 1)
    assert [data for _, data in events] == ["second"] and not resets


def test_damage_is_a_reset_and_never_silence(tmp_path, start):
    directory = tmp_path / "history"
    server = start(*history(directory))
    ids = [server.publish("rj", f"event {n}")["id"] for n in range(10)]
    server.stop()
    file = segments(directory)[-1]
    content = bytearray(file.read_bytes())
    content[content.index(b"event 5")] ^= 1
    file.write_bytes(content)
    server = start(*history(directory))
    assert f"damaged in {file.name}" in server.log
    events, resets = events_of(server, "rj", ids[2], 2, patience=3)
    assert resets and resets[0]["reason"] == "expired"
    assert "event 5" not in [data for _, data in events]


def test_one_server_has_the_directory_and_others_are_told(tmp_path, start):
    directory = tmp_path / "history"
    server = start(*history(directory))
    assert directory.stat().st_mode & 0o7777 == 0o700
    for file in directory.iterdir():
        assert file.stat().st_mode & 0o7777 == 0o600, file
    refused = encke("serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", *history(directory))
    assert refused.returncode == 1
    assert f"in use by another process (process id {server.pid})" in refused.stderr


def test_a_newer_format_and_a_lost_state_are_refused(tmp_path):
    directory = tmp_path / "history"
    server = Server(*history(directory))
    server.publish("rj", "kept")
    server.stop()
    state = directory / "state"
    content = bytearray(state.read_bytes())
    for at in (8, 4096 + 8):
        content[at] = 9
    free = ("--listen", "127.0.0.1:0", "--control", "127.0.0.1:0")
    before = state.read_bytes()
    state.write_bytes(content)
    refused = encke("serve", *free, *history(directory))
    assert refused.returncode == 1 and "has format 9" in refused.stderr
    state.unlink()
    refused = encke("serve", *free, *history(directory))
    assert refused.returncode == 1 and '"state" is missing' in refused.stderr
    assert len(segments(directory)) == 1
    state.write_bytes(before)
    server = Server(*history(directory))
    server.stop()


def test_a_full_disk_stops_no_event_and_is_told(start, small_disk):
    directory = small_disk / "history"
    server = start(*history(directory, "--history-sync", "receipt"))
    kept = server.publish("rj", "kept")["id"]
    filler = small_disk / "filler"
    with open(filler, "wb") as file:
        try:
            while True:
                os.write(file.fileno(), b"x" * 4096)
        except OSError:
            pass
    receipt = {}
    while "unstored" not in receipt:
        receipt = server.publish("rj", "x" * 60_000)
    assert receipt["unstored"] == 1
    disk = server.stats()["history"]["disk"]
    assert disk["has_failed"] and disk["unstored"] >= 1 and disk["failures"] >= 1
    assert server.log.count("events are kept in memory only") == 1
    # In memory nothing is missing.
    events, resets = events_of(server, "rj", kept, 2)
    assert len(events) == 2 and not resets
    filler.unlink()
    until(lambda: "unstored" not in server.publish("rj", "stored again"), "there is room again")
    assert "can be written again" in server.log
    last = server.publish("rj", "last")["id"]
    server.kill()
    server = start(*history(directory, "--history-sync", "receipt"))
    server.publish("rj", "new")
    _, resets = events_of(server, "rj", kept, 3, patience=3)
    assert resets and resets[0]["reason"] == "expired", "a client from before the gap learns of it"
    events, resets = events_of(server, "rj", last, 1)
    assert [data for _, data in events] == ["new"] and not resets


def test_an_event_with_a_receipt_is_on_the_disk_after_syncs_have_failed(start, failing_disk):
    flags = history(failing_disk.path / "history", "--history-sync", "receipt")
    server = start(*flags)
    first = server.publish("rj", "first")["id"]
    for _ in range(2):
        failing_disk.fail()
        until(lambda: "unstored" in server.publish("rj", "x" * 60_000), "events are not stored", pause=0)
        failing_disk.heal()
        until(lambda: "unstored" not in server.publish("rj", "again"), "events are stored again", patience=5)
    last = server.publish("rj", "last")["id"]
    assert "unstored" not in server.publish("rj", "after the last")
    server.kill()
    failing_disk.read_again()
    server = start(*flags)
    events, resets = events_of(server, "rj", last, 1)
    assert [data for _, data in events] == ["after the last"] and not resets
    server.publish("rj", "new")
    _, resets = events_of(server, "rj", first, 9, patience=2)
    assert resets and resets[0]["reason"] == "expired", "a client from before the gap learns of it"
