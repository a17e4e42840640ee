"""The commands beside `serve`."""

import contextlib
import json
import os
import pty
import re
import subprocess
import time

import pytest

from support.http import Sse
from support.program import BINARY, begin, encke
from support.wait import PATIENCE, until


def at(server):
    return ["--control", server.control_url]


class Listening:
    """An `encke listen` and what it prints."""

    def __init__(self, server, *arguments):
        self.process = begin("listen", "--url", server.public_url, *arguments)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def lines(self, count=None):
        """Waits for the end, or reads so many lines."""
        if count is None:
            out, _ = self.process.communicate(timeout=PATIENCE)
            assert self.process.returncode == 0
            return out.splitlines()
        return [self.process.stdout.readline().rstrip("\n") for _ in range(count)]


def online(server, *ids):
    until(lambda: all(server.sessions(each) for each in ids), "online")


@pytest.mark.parametrize("transport", ["sse", "ndjson", "test"])
def test_listen_prints_events_as_they_come(server, name, transport):
    rj = name()
    with Listening(server, rj, "--transport", transport, "--count", "3") as listening:
        online(server, rj)
        said = encke("publish", *at(server), rj, "hello")
        assert said.returncode == 0, said.stderr
        assert "hello" in listening.lines(1)[0]
        server.publish(rj, "second")
        server.publish(rj, "third")
        rest = listening.lines()
        assert len(rest) == 2 and "second" in rest[0] and "third" in rest[1]


def test_listen_as_json(server, name):
    rj, other = name(), name()
    with Listening(server, rj, other, "--transport", "ndjson", "--json", "--count", "1") as listening:
        online(server, rj, other)
        receipt = server.publish(other, '{"a": 1}', kind="t", content_type="application/json")
        (line,) = listening.lines()
        event = json.loads(line)
        assert (event["id"], event["data"]) == (receipt["id"], {"a": 1})


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_listen_escapes_control_characters_on_a_terminal_only(server, name, flags):
    subject = name()
    hostile = "a\x1b]0;title\x07\x9b31m\x08b"
    leader, follower = pty.openpty()
    command = [BINARY, "listen", subject, "--url", server.public_url, "--count", "1", *flags]
    seen = subprocess.Popen(command, stdout=follower, stderr=subprocess.DEVNULL)
    os.close(follower)
    piped = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    until(lambda: len(server.sessions(subject)) == 2, "both listen")
    server.publish(subject, hostile)
    shown = b""
    with contextlib.suppress(OSError):  # The other end is closed.
        while data := os.read(leader, 4096):
            shown += data
    os.close(leader)
    assert seen.wait(PATIENCE) == 0
    text, _ = piped.communicate(timeout=PATIENCE)
    assert shown.endswith(b"\r\n")
    assert not re.search(rb"[\x00-\x1f\x7f]|\xc2[\x80-\x9f]", shown[:-2]), shown
    assert b"u001b]0;title" in shown and b"u009b31m" in shown
    raw = json.loads(text)["data"] if flags else text.decode().removesuffix("\n")
    assert raw == hostile


def test_listen_comes_back_after_a_restart(start, port):
    at = {"public": port().address, "control": port().address}
    first = start("--retry", "100ms", "--drain-spread", "100ms", **at)
    with Listening(first, "a") as listening:
        online(first, "a")
        first.publish("a", "before")
        assert "before" in listening.lines(1)[0]
        first.signal()
        assert first.wait() == 0
        second = first.restart()
        try:
            online(second, "a")
            second.publish("a", "after")
            assert "after" in listening.lines(1)[0]
        finally:
            listening.process.kill()
            second.stop()


def test_listen_to_a_reader_that_leaves(server, name):
    """`encke listen | head -1` is a success."""
    rj = name()
    with Listening(server, rj) as listening:
        online(server, rj)
        server.publish(rj, "one")
        listening.lines(1)
        listening.process.stdout.close()
        deadline = time.monotonic() + PATIENCE
        while listening.process.poll() is None:
            assert time.monotonic() < deadline
            server.publish(rj, "more")
            time.sleep(0.01)
        assert listening.process.returncode == 0
        listening.process.stdout = None


def test_publish_lines_of_standard_input(server, name):
    rj = name()
    with Sse(server, rj) as stream:
        text = "one\ntwo words\n\nlast"
        said = encke("publish", *at(server), rj, "-", input=text)
        assert said.returncode == 0, said.stderr
        server.publish(rj, "end")
        got = []
        while (data := stream.data()) != "end":
            got.append(data)
        assert got in (["one", "two words", "", "last"], ["one", "two words", "last"])


def test_publish_lines_as_they_come(server, name):
    """`tail -f log | encke publish log -`: a line is not kept until there are more."""
    rj = name()
    with (
        Sse(server, rj) as stream,
        begin("publish", *at(server), rj, "-", stdin=subprocess.PIPE) as process,
    ):
        for line in ("first", "second"):
            process.stdin.write(line + "\n")
            process.stdin.flush()
            assert stream.data() == line
        process.stdin.close()
        assert process.wait(timeout=PATIENCE) == 0


def test_publish_many_lines(server, name):
    text = "".join(f"line {n}\n" for n in range(20_000))
    said = encke("publish", *at(server), name(), "-", input=text, timeout=60)
    assert said.returncode == 0, said.stderr


def test_publish_reports(server, name):
    rj = name()
    with Sse(server, rj) as stream:
        said = encke("publish", *at(server), rj, "a", "--type", "t", "--json")
        receipt = json.loads(said.stdout)
        assert (receipt["online"], receipt["written"]) == (1, 1)
        assert stream.event() == ("t", "a", receipt["id"])
        said = encke("publish", *at(server), rj, '{"a":1}', "--json-data")
        assert said.returncode == 0 and re.search(r"\b1\b", said.stdout)
        assert stream.data() == '{"a":1}'
        said = encke("publish", *at(server), rj, "{", "--json-data")
        assert said.returncode == 1 and "JSON" in said.stderr


def test_send(server, name):
    star, fan = name("star"), name("fan")
    server.subscribe(fan, star)
    with Sse(server, fan) as stream:
        assert encke("send", *at(server), star, "not to fans").returncode == 0
        assert encke("send", *at(server), fan, "to the fan").returncode == 0
        assert stream.data() == "to the fan"


def test_subscribe_and_unsubscribe(server, name):
    fan, one, two = name("fan"), name("one"), name("two")
    assert encke("subscribe", *at(server), fan, one, two).returncode == 0
    subjects = server.api.get(f"/v1/subscriptions/{fan}").json()["subscriptions"]
    assert sorted(subjects) == sorted([one, two])
    assert encke("unsubscribe", *at(server), fan, one).returncode == 0
    assert server.api.get(f"/v1/subscriptions/{fan}").json()["subscriptions"] == [two]


def test_sessions(server, name):
    rj = name()
    with Sse(server, rj) as stream:
        said = encke("sessions", *at(server), rj)
        assert said.returncode == 0 and "sse" in said.stdout
        said = encke("sessions", *at(server), rj, "--json")
        assert json.loads(said.stdout)["sessions"][0]["transport"] == "sse"
        assert encke("sessions", *at(server), rj, "--close").returncode == 0
        assert stream.event() is None
    until(lambda: not server.sessions(rj), "closed")


def test_ticket_and_revoke(start, name):
    server, alice, news = start("--tickets"), name("alice"), name("news")
    issued = encke("ticket", *at(server), alice, news, "--ttl", "2m")
    assert issued.returncode == 0, issued.stderr
    ticket = issued.stdout.strip()
    assert json.loads(encke("ticket", *at(server), alice, "--json").stdout)["expires_in"] == 30
    with Listening(server, "--ticket", ticket) as listening:
        online(server, alice, news)
        server.send(news, "for the ticket")
        assert "for the ticket" in listening.lines(1)[0]
        revoked = encke("revoke", *at(server), alice)
        assert revoked.returncode == 0 and f"issued to {alice} before" in revoked.stdout, revoked.stderr
        until(lambda: not server.sessions(alice), "the session ends")
        # It comes back with the same ticket, which is refused.
        assert listening.process.wait(PATIENCE) == 1
        assert "401" in listening.process.stderr.read()
    assert encke("revoke", *at(server), "--jti", "6f1c").stdout == "revoked the token\n"
    # One in 64 tickets begins with a hyphen.
    hyphen = encke("listen", "--url", server.public_url, "--ticket", "-" + ticket[1:])
    assert hyphen.returncode == 1 and "401" in hyphen.stderr
    for wrong in [["revoke"], ["revoke", alice, "--jti", "x"], ["ticket"], ["ticket", alice, "--ttl", "soon"]]:
        assert encke(*wrong, *at(server)).returncode == 2, wrong
    refused = encke("ticket", *at(server), alice, "--ttl", "2h")
    assert refused.returncode == 1 and "3600" in refused.stderr


def test_a_server_without_tickets_says_so(server, name):
    refused = encke("ticket", *at(server), name("alice"))
    assert refused.returncode == 1 and "--tickets" in refused.stderr


def test_failures(server, name):
    said = encke("publish", "--control", "http://127.0.0.1:1", "a", "x")
    assert said.returncode == 1 and "127.0.0.1:1" in said.stderr
    said = encke("publish", *at(server), "x" * 129, "x")
    assert said.returncode in (1, 2) and "128" in said.stderr
    said = encke("publish", *at(server), name(), "x" * 70_000)
    assert said.returncode == 1 and "65536" in said.stderr
    assert encke("publish", "--no-such-flag").returncode == 2
