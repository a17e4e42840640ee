"""The applications of examples/, each as its README starts it: backends, pages in Chromium, restarts of the server."""

import contextlib
import json
import os
import subprocess
import sys

import httpx
import pytest

from support.http import PLAIN, Stream
from support.node import NODE
from support.program import ROOT
from support.wait import PATIENCE, until

EXAMPLES = ROOT / "examples"
CLIENT = str(ROOT / "clients" / "python" / "src")


class Process:
    """A program of an example. What it prints is in `lines`."""

    def __init__(self, *command, log, **environment):
        self.log = log
        with open(log, "wb") as output:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                env={**os.environ, "PYTHONPATH": CLIENT, "PYTHONUNBUFFERED": "1", **{k: str(v) for k, v in environment.items()}},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def text(self):
        return self.log.read_text()

    def until(self, words):
        until(lambda: words in self.text or self.process.poll() is not None, words)
        assert words in self.text, self.text

    def stop(self):
        # Not SIGINT: where the tests run in the background, programs ignore it.
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(PATIENCE)
        self.process.kill()
        self.process.wait()


@pytest.fixture
def run(tmp_path):
    """Starts programs of an example, and ends them."""
    running = []

    def run(*command, **environment):
        log = tmp_path / f"program-{len(running)}.log"
        running.append(Process(*command, log=log, **environment))
        return running[-1]

    yield run
    for process in reversed(running):
        process.stop()


@pytest.fixture
def place(port):
    """Where a backend listens, and its origin in a browser."""
    backend = port()
    return backend, f"http://localhost:{backend.number}"


def flags(origin, *more):
    return ("--tickets", "--retry", "100ms", "--cors-origin", origin, *more)


SUBMIT = """(() => {
    const form = document.querySelector(%s);
    for (const [name, value] of Object.entries(%s)) form.elements[name].value = value;
    form.requestSubmit();
})()"""


def submit(browser, form, **values):
    browser.evaluate(SUBMIT % (json.dumps("#" + form), json.dumps(values)))


def control(server):
    return {"ENCKE_CONTROL": server.control_url, "ENCKE_PUBLIC": server.public_url + "/"}


@contextlib.contextmanager
def logged_in(origin, user):
    """Another user, without a browser."""
    with httpx.Client(base_url=origin, timeout=PATIENCE, **PLAIN) as client:
        assert client.post("/login", json={"user": user}).is_success
        yield client


def test_a_post_reaches_friends_at_once_and_those_who_were_cut_later(start, run, browser, place):
    backend, origin = place
    server = start(*flags(origin, "--history-bytes", "4MiB", "--presence", "--presence-delay", "1s"))
    run(sys.executable, EXAMPLES / "feed" / "backend.py", PORT=backend.number, **control(server)).until("http")
    browser.goto(origin)
    submit(browser, "login", user="alice")
    browser.wait_text("#state", "live")
    submit(browser, "befriend", friend="bob")
    browser.wait_text("#friends", "bob")
    with logged_in(origin, "bob") as bob:
        said = bob.post("/post", json={"text": "hello friends"}).json()
        assert (said["subscribers"], said["online"]) == (2, 1)
        browser.wait_text("#feed", "bob: hello friends")
        # A stranger's post is not for alice.
        with logged_in(origin, "carol") as carol:
            assert carol.post("/post", json={"text": "noise"}).json()["online"] == 0
        submit(browser, "post", text="from alice")
        browser.wait_text("#feed", "alice: from alice")
        for number in range(10):
            bob.post("/post", json={"text": f"number {number}"})
            server.api.delete("/v1/sessions/alice")
        browser.wait_text("#feed", "bob: number 9")
        numbers = [f"bob: number {number}" for number in reversed(range(10))]
        assert browser.texts("#feed li")[:10] == numbers
        assert "noise" not in browser.text("#feed")
        # Bob has no window open so far.
        assert browser.texts("#friends .online") == []
        ticket = bob.post("/ticket", json={}).json()["ticket"]
        with Stream(server, f"/events?ticket={ticket}"):
            until(lambda: browser.texts("#friends .online") == ["bob"], "bob is online")
        until(lambda: browser.texts("#friends .online") == [], "bob is away")
    for path in ("/post", "/ticket", "/befriend"):
        assert httpx.post(origin + path, json={"text": "x", "friend": "x"}).status_code == 401
        assert httpx.post(origin + path, data={"text": "x"}).status_code == 400


def test_a_member_who_comes_in_reads_what_was_said_and_goes_on_from_there(start, run, browser, place):
    backend, origin = place
    server = start(*flags(origin, "--history-bytes", "4MiB"))
    run(NODE, EXAMPLES / "chat" / "backend.mjs", PORT=backend.number, **control(server)).until("http")
    with logged_in(origin, "bob") as bob:
        assert bob.post("/join", json={"room": "lobby"}).json()["messages"] == []
        for text in ("one", "two"):
            bob.post("/say", json={"room": "lobby", "text": text})
        bob.post("/say", json={"room": "cellar", "text": "elsewhere"})
        browser.goto(origin)
        submit(browser, "join", user="alice", room="lobby")
        browser.wait_text("#state", "live")
        assert browser.texts("#messages p") == ["bob: one", "bob: two"]
        bob.post("/say", json={"room": "lobby", "text": "three"})
        browser.wait_text("#messages", "bob: three")
        submit(browser, "say", text="hello <b>")
        browser.wait_text("#messages", "alice: hello <b>")
        server.api.delete("/v1/sessions/user%3Aalice")
        bob.post("/say", json={"room": "lobby", "text": "four"})
        browser.wait_text("#messages", "bob: four")
        said = ["bob: one", "bob: two", "bob: three", "alice: hello <b>", "bob: four"]
        assert browser.texts("#messages p") == said
        assert "elsewhere" in [each["text"] for each in bob.post("/join", json={"room": "cellar"}).json()["messages"]]
    assert httpx.post(origin + "/say", json={"room": "lobby", "text": "x"}).status_code == 401


def test_a_watcher_prints_builds_that_ended_while_it_or_the_server_was_away(start, run, tmp_path, port):
    backend = port()
    origin = f"http://localhost:{backend.number}"
    keep = ("--tickets", "--retry", "100ms", "--data", tmp_path / "data", "--history-dir", tmp_path / "history")
    keep = (*keep, "--history-bytes", "4MiB")
    server = start(*keep)
    run(
        *(sys.executable, EXAMPLES / "builds" / "backend.py"),
        **{"PORT": backend.number, "CI_KEY": "secret", **control(server)},
    ).until("http")

    def ended(project, number, key="secret"):
        said = {"number": number, "status": "failed"}
        return httpx.post(f"{origin}/builds/{project}", json=said, headers={"Authorization": f"Bearer {key}"})

    def watcher():
        watch = (sys.executable, EXAMPLES / "builds" / "watch.py", "ann", "kernel", "libc", "--backend", origin)
        return run(*watch, "--cursor-file", tmp_path / "cursor")

    first = watcher()
    until(lambda: server.sessions("dev:ann"), "ann watches")
    assert ended("kernel", 1, key="wrong").status_code == 401
    assert ended("kernel", 1).json()["written"] == 1
    # A repeated build is one build.
    assert ended("kernel", 1).is_success
    ended("shell", 1)
    first.until("kernel 1: failed")
    first.stop()
    ended("libc", 2)
    server.kill()
    server = server.restart(*keep)
    try:
        ended("kernel", 3)
        second = watcher()
        second.until("kernel 3: failed")
        server.kill()
        server = server.restart(*keep)
        assert until(lambda: server.sessions("dev:ann"), "ann is back")
        ended("libc", 4)
        second.until("libc 4: failed")
        assert first.text.split("\n") == ["kernel 1: failed", ""]
        assert second.text.split("\n")[:-1] == ["libc 2: failed", "kernel 3: failed", "libc 4: failed"]
    finally:
        server.stop()
