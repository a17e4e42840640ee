"""The client of clients/js against the real server: in Node, and in Chromium with several tabs."""

import functools
import http.server
import json
import pathlib
import subprocess
import threading
import time

import pytest

from support.node import NODE, TESTS, Script
from support.program import ROOT
from support.wait import until
from test_clients import Gate
from test_identity_browser import SECRET, token

CLIENT = ROOT / "clients" / "js"


def test_the_laws_of_the_client():
    """Over a simulated server and clock."""
    run = [NODE, "--test", CLIENT / "encke.test.js"]
    done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout


def test_it_stays_below_6_kilobytes_minified():
    terser = TESTS / "node_modules" / "terser" / "bin" / "terser"
    run = [NODE, terser, CLIENT / "encke.js", "--module", "--compress", "--mangle"]
    done = subprocess.run(run, capture_output=True, check=True)
    assert 1000 < len(done.stdout) <= 6000


def test_typescript_knows_its_types(tmp_path):
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "encke").symlink_to(CLIENT)
    program = """
    import { connect, type EnckeEvent } from 'encke';
    const seen: EnckeEvent[] = [];
    const client = connect({
      ids: ['alice', 2],
      token: async () => 'token',
      onevent: (event) => { seen.push(event); },
      onreset: ({ reason }) => reason === 'restart',
      ongap: ({ lost }) => lost + 1,
      onstate: (state, detail) => state === 'refused' && detail,
      presence: true,
      onpresence: (online, change) => online.has('rj') || change?.online,
    });
    const rj: boolean = client.online.has('rj');
    const cursor: string = client.cursor;
    const id: Promise<string> = client.publish({ subject: 'alice', type: 'note', data: { a: 1 } });
    client.close();
    // @ts-expect-error: no such option
    connect({ channels: ['alice'] });
    // @ts-expect-error: the client alone knows who is online
    client.online.add('rj');
    // @ts-expect-error: no such reason
    connect({ onreset: ({ reason }) => reason === 'other' });
    """
    (tmp_path / "program.mts").write_text(program)
    compiler = TESTS / "node_modules" / "typescript" / "bin" / "tsc"
    flags = ["--noEmit", "--strict", "--module", "nodenext", "--lib", "es2022,dom"]
    run = [NODE, compiler, *flags, "program.mts"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


class Client(Script):
    """The client in Node."""

    def __init__(self, server, ids, **options):
        options = {"url": server.public_url, "ids": ids, **options}
        super().__init__("encke.mjs", json.dumps(options))

    def until(self, kind, *values):
        """Skips to the first call of a callback with such values, and returns its arguments."""
        while True:
            said = self.next()
            if said[0] == kind and said[1 : 1 + len(values)] == list(values):
                return said[1:]

    def event(self):
        return self.until("event")[0]


def test_it_receives_what_is_published(start):
    server = start()
    with Client(server, ["alice", "a,b"]) as client:
        client.until("state", "live", "sse")
        server.publish("alice", "hello", kind="note")
        server.publish("a,b", b"\0\xff", content_type="application/octet-stream")
        server.publish("alice", '{"at":[1]}', content_type="application/json")
        first, second, third = (client.event() for _ in range(3))
        assert (first["subject"], first["type"], first["data"]) == ("alice", "note", "hello")
        assert (second["subject"], second["data"]) == ("a,b", {"0": 0, "1": 255})
        assert third["data"] == {"at": [1]}


def test_what_is_published_while_it_is_away_arrives_once_and_in_order(start):
    server = start("--history-bytes", "4MiB", "--retry", "10ms")
    with Client(server, ["alice"]) as client:
        client.until("state", "live")
        for number in range(300):
            server.publish("alice", str(number))
            if number % 30 == 0:
                server.api.delete("/v1/sessions/alice")
        assert [client.event()["data"] for _ in range(300)] == [str(number) for number in range(300)]


def test_a_reset_is_announced(start):
    server = start("--history-bytes", "4MiB")
    server.publish("alice", "kept")
    with Client(server, ["alice"], cursor="other-7") as client:
        assert client.until("reset")[0] == {"reason": "restart", "from": "other-7"}
        assert client.event()["data"] == "kept"


def test_it_comes_back_after_a_restart(start):
    server = start("--retry", "100ms")
    with Client(server, ["alice"]) as client:
        client.until("state", "live")
        server.publish("alice", "before")
        assert client.event()["data"] == "before"
        server.kill()
        client.until("state", "reconnecting")
        second = server.restart("--retry", "100ms")
        try:
            client.until("state", "live")
            second.publish("alice", "after")
            assert client.event()["data"] == "after"
        finally:
            second.stop()


@pytest.mark.parametrize("transport", ["sse", "poll"])
def test_a_herd_that_loses_its_server_does_not_come_back_in_one_instant(start, port, transport):
    count = 60
    server = start("--retry", "1s", public=port().address, control=port().address)
    options = {"url": server.public_url, "transports": [transport]}
    with Script("herd.mjs", count, json.dumps(options)) as herd:
        assert herd.next() == ["live"]
        until(lambda: server.stats()["online"] == count, "all are here")
        server.process.kill()
        server.process.wait()
        gate = Gate(server.public)
        first = {}

        def have_all_come():
            for when, head in list(gate.knocks):
                first.setdefault(head.split()[1].partition("?")[0], when)
            return len(first) == count

        try:
            until(have_all_come, "all have come back")
        finally:
            gate.close()
    server.kill()
    times = sorted(first.values())
    # Over two seconds by the client alone; half of them together is what a stalled machine may do.
    most = max(sum(begin <= when < begin + 0.1 for when in times) for begin in times)
    assert most <= count / 2, f"{most} of {count} within a tenth of a second: {[when - times[0] for when in times]}"
    assert times[-1] - times[0] > 1


def test_it_ends_when_it_is_refused_and_says_why(start):
    server = start()
    with Client(server, ["x" * 129]) as client:
        _, reason = client.until("state", "refused")
        assert "at most 128 bytes" in reason
    assert client.process.returncode == 0, "nothing keeps the process"


class Pages(http.server.SimpleHTTPRequestHandler):
    """The client's directory, and an empty page."""

    def do_GET(self):
        if self.path != "/":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>tab</title><link rel=icon href=data:,>")

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def origin():
    """An origin that serves the client."""
    handler = functools.partial(Pages, directory=CLIENT)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


# A tab is a frame of the page here. `heard` of its window is what its callbacks got, `states` are its states, and `tried` what
# it has asked the browser for. `luck` is what the client takes for random.
OPEN_TAB = """(async () => {
    const frame = document.createElement('iframe');
    frame.id = %s;
    frame.src = '/';
    document.body.append(frame);
    await new Promise((done) => { frame.onload = done; });
    const script = frame.contentDocument.createElement('script');
    script.type = 'module';
    script.textContent = `
        import { connect } from '/encke.js';
        window.heard = [];
        window.states = [];
        window.tried = [];
        const { fetch, WebSocket } = window;
        window.fetch = (...request) => {
            tried.push('fetch');
            return fetch(...request);
        };
        window.WebSocket = class extends WebSocket {
            constructor(...request) {
                super(...request);
                tried.push('WebSocket');
            }
        };
        const random = Math.random;
        Math.random = () => window.luck ?? random();
        window.client = connect({
            ...%s,
            onevent: (event) => heard.push(event.data),
            onstate: (state, detail) => states.push([state, detail?.message ?? detail]),
        });
    `;
    frame.contentDocument.body.append(script);
})()"""


class Tabs:
    """Tabs of one browser with the client in each."""

    def __init__(self, browser):
        self.browser = browser
        self.names = []

    def open(self, **options):
        name = f"tab{len(self.names)}"
        self.browser.evaluate(OPEN_TAB % (json.dumps(name), json.dumps(options)))
        self.names.append(name)
        return name

    def ask(self, name, script):
        return self.browser.evaluate(f"document.getElementById('{name}').contentWindow.{script}")

    def heard(self, name):
        return self.ask(name, "heard")

    def until_live(self):
        for name in self.names:
            until(lambda: self.ask(name, "client?.state") == "live", f"{name} is live")

    def close(self, name):
        self.browser.evaluate(f"document.getElementById('{name}').remove()")
        self.names.remove(name)


@pytest.fixture
def tabs(browser, origin):
    browser.goto(origin)
    yield Tabs(browser)
    browser.goto("about:blank")


def test_tabs_share_one_connection_and_the_next_takes_it_over(start, tabs, origin):
    server = start("--cors-origin", origin, "--retry", "100ms")
    options = {"url": server.public_url + "/", "ids": ["alice"]}
    for _ in range(8):
        tabs.open(**options)
    tabs.until_live()
    assert len(server.sessions("alice")) == 1
    for number in range(7):
        server.publish("alice", f"event {number}")
        for name in tabs.names:
            until(lambda: f"event {number}" in tabs.heard(name), f"event {number} in {name}")
        tabs.close(tabs.names[0])
        until(lambda: len(server.sessions("alice")) == 1, "a connection of another tab")
        tabs.until_live()
    assert tabs.heard(tabs.names[0]) == [f"event {number}" for number in range(7)]


@pytest.mark.parametrize("transport", ["websocket", "poll"])
def test_other_transports_miss_nothing_either(start, tabs, origin, transport):
    server = start("--history-bytes", "4MiB", "--cors-origin", origin, "--retry", "10ms")
    options = {"url": server.public_url + "/", "ids": ["alice"], "transports": [transport]}
    tab = tabs.open(**options)
    tabs.until_live()
    until(lambda: server.sessions("alice"), "a session")
    for number in range(100):
        server.publish("alice", str(number))
        if number % 30 == 10:
            server.api.delete("/v1/sessions/alice")
    expected = [str(number) for number in range(100)]
    until(lambda: len(tabs.heard(tab)) >= 100, "all events")
    assert tabs.heard(tab) == expected


def test_a_client_that_is_kept_away_stays_away(start, tabs, origin):
    server = start("--history-bytes", "4MiB", "--cors-origin", origin, "--retry", "10ms")
    for transport in ["sse", "poll"]:
        options = {"url": server.public_url + "/", "ids": [transport], "transports": [transport]}
        tab = tabs.open(**options)
        tabs.until_live()
        server.api.delete(f"/v1/sessions/{transport}", params={"ban": "1h"})
        until(lambda: tabs.ask(tab, "client.state") == "refused", "refused")
        tabs.close(tab)


@pytest.mark.parametrize("transport", ["websocket", "poll"])
def test_other_transports_come_back_after_a_crash_and_miss_nothing(start, tabs, origin, tmp_path, transport):
    """A WebSocket falls to polls while there is no server, and is one again when there is."""
    flags = ("--cors-origin", origin, "--history-bytes", "4MiB", "--history-dir", tmp_path / "history")
    server = start(*flags)
    options = {"url": server.public_url + "/", "ids": ["alice"], "share": False}
    tab = tabs.open(**options, transports=[transport, "poll"] if transport != "poll" else ["poll"])
    tabs.until_live()
    server.publish("alice", "before")
    until(lambda: tabs.heard(tab) == ["before"], "an event")
    tabs.ask(tab, "tried.length = 0")
    server.kill()
    until(lambda: "fetch" in tabs.ask(tab, "tried"), "a poll of no server")
    second = server.restart(*flags)
    try:
        second.publish("alice", "after")
        until(lambda: tabs.heard(tab) == ["before", "after"], "the next event")
        until(lambda: tabs.ask(tab, "states.at(-1)") == ["live", transport], f"live over {transport}")
    finally:
        second.stop()


def test_it_comes_back_soon_after_the_network(start, tabs, origin, browser):
    server = start("--cors-origin", origin, "--history-bytes", "4MiB", "--retry", "10ms")
    tab = tabs.open(url=server.public_url + "/", ids=["alice"], share=False)
    tabs.until_live()
    tabs.ask(tab, "luck = 0")
    tabs.ask(tab, "tried.length = 0")
    browser.offline(True)
    try:
        server.api.delete("/v1/sessions/alice")
        until(lambda: len(tabs.ask(tab, "tried")) > 5, "attempts without a network")
        # The next delay is about as long as delays may be.
        tabs.ask(tab, "luck = 0.9")
        server.publish("alice", "missed")
    finally:
        browser.offline(False)
    begun = time.monotonic()
    until(lambda: tabs.heard(tab) == ["missed"], "what was missed")
    assert time.monotonic() - begun < 15, "27 s without a sign of the network"
    states = [state for state, _ in tabs.ask(tab, "states")]
    assert states == ["live", "reconnecting", "live"]


def test_a_tab_that_is_refused_leads_no_other(start, tabs, origin, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET)
    secret.chmod(0o600)
    server = start("--cors-origin", origin, "--jwt-secret-file", secret)
    options = {"url": server.public_url + "/", "ids": ["alice"], "share": "team"}
    refused = tabs.open(**options, token=token(sub="alice", lifetime=-60))
    until(lambda: tabs.ask(refused, "client?.state") == "refused", "refused")
    leader = tabs.open(**options, token=token(sub="alice"))
    until(lambda: tabs.ask(leader, "client?.state") == "live", "the next tab leads")
    follower = tabs.open(**options, token=token(sub="alice", lifetime=-60))
    until(lambda: tabs.ask(follower, "client?.state") == "live", "a tab shares its connection")
    server.publish("alice", "hello")
    for name in [leader, follower]:
        until(lambda: tabs.heard(name) == ["hello"], f"an event in {name}")
        assert [state for state, _ in tabs.ask(name, "states")] == ["live"]
    assert tabs.ask(refused, "client.state") == "refused" and tabs.heard(refused) == []
    tabs.close(leader)
    until(lambda: tabs.ask(follower, "client.state") == "refused", "the next tab tries with its own token")


def test_tabs_with_tokens_share_only_by_a_name(start, tabs, origin):
    server = start("--cors-origin", origin)
    options = {"url": server.public_url + "/", "ids": ["alice"], "token": "unread"}
    tabs.open(**options)
    tabs.open(**options)
    tabs.open(**options, share="bob")
    tabs.open(**options, share="bob")
    tabs.until_live()
    assert len(server.sessions("alice")) == 3
