"""The page in Chromium."""

import json
import os
import pathlib
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import jwt
import pytest

from support.http import PLAIN, Sse
from support.program import BINARY, ROOT
from support.server import Server, quote
from support.wait import until

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "</pre><svg onload=alert(1)>",
    "javascript:alert(1)",
    "'\"><b>bold</b>",
]


@pytest.fixture(scope="module")
def server():
    """A server whose page may publish."""
    server = Server("--demo", "--drain-timeout", "5s")
    yield server
    server.stop()


def open_page(page, server, me=None):
    # Two steps: another fragment alone would not load the page anew.
    page.goto("about:blank")
    page.goto(server.public_url + (f"/#{me}" if me else "/"))
    page.wait_text("#state", "live")


def data(page):
    return page.texts("#events .data")


def test_is_live_without_a_choice(page, server):
    """What the first five minutes look like: open it, publish about rj from a terminal."""
    open_page(page, server)
    assert page.evaluate("document.getElementById('id').value") == "rj"
    until(lambda: server.sessions("rj"), "online")
    receipt = server.publish("rj", "hello")
    until(lambda: data(page) == ["hello"], "arrived")
    assert receipt["id"] in page.text("#events .id")


def test_newest_first(page, server, name):
    me = name()
    open_page(page, server, me)
    for number in range(5):
        server.publish(me, f"event {number}")
    until(lambda: data(page) == [f"event {n}" for n in (4, 3, 2, 1, 0)], "arrived")
    assert "5 received" in page.text("#count")
    page.click("#clear")
    assert data(page) == []


def test_keeps_two_hundred(page, server, name):
    me = name()
    open_page(page, server, me)
    for number in range(450):
        server.publish(me, f"event {number}")
    until(lambda: "450 received" in page.text("#count"), "arrived")
    assert data(page) == [f"event {n}" for n in range(449, 249, -1)]


def test_publishes_and_shows_the_receipt_in_words(page, server, name):
    me, fan = name(), name("fan")
    server.subscribe(fan, me)
    open_page(page, server, me)
    page.fill("#data", "from the page\nin two lines & more + % ü")
    page.click("#publish-form button")
    page.wait_text("#receipt", "Subscribers: 2, of whom 1 online. Written to 1 session,")
    assert "queued for 0, not delivered to 0" in page.text("#receipt")
    until(lambda: data(page) == ["from the page\nin two lines & more + % ü"], "arrived")


def test_what_is_too_long_for_it_is_told(page, server, name):
    open_page(page, server, name())
    page.fill("#data", "x" * 5000)
    page.click("#publish-form button")
    page.wait_text("#receipt", "at most 4096 bytes")
    page.fill("#subject", "x" * 129)
    page.click("#publish-form button")
    page.wait_text("#receipt", "128")
    page.complaints()  # The refusal is told to the console.


def test_events_show_their_type_and_subject(page, server, name):
    me, star = name(), name("star")
    server.subscribe(me, star)
    open_page(page, server, me)
    page.fill("#type", "sighting")
    page.fill("#data", "typed")
    page.click("#publish-form button")
    until(lambda: data(page) == ["typed"], "arrived")
    assert page.texts("#events .kind") == ["sighting"]
    assert page.texts("#events .subject") == [], "its own id goes without saying"
    server.publish(star, '{"at": [1]}', kind="other", content_type="application/json")
    server.publish(star, b"\0\xff", content_type="application/octet-stream")
    until(lambda: data(page) == ["2 bytes", '{"at":[1]}', "typed"], "arrived")
    assert page.texts("#events .kind") == ["other", "sighting"]
    assert page.texts("#events .subject") == [star, star]


def test_serves_the_client_that_it_uses(page, server, name):
    client = httpx.get(server.public_url + "/encke.js", **PLAIN)
    source = ROOT / "clients" / "js" / "encke.js"
    assert client.content == source.read_bytes()
    assert client.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert httpx.head(server.public_url + "/encke.js", **PLAIN).status_code == 200


def test_subscribes_lists_and_unsubscribes(page, server, name):
    me, star = name("me"), name("star & co")
    open_page(page, server, me)
    page.fill("#other", star)
    page.click("#subscribe-form button")
    page.wait_text("#subjects", star)
    assert star in page.text("#follow-said")
    server.publish(star, "about the star")
    until(lambda: data(page) == ["about the star"], "arrived")
    page.click("#subjects button")
    until(lambda: page.texts("#subjects li") == [], "unsubscribed")
    assert server.publish(star, "unseen")["online"] == 0


def test_lists_what_was_subscribed_elsewhere(page, server, name):
    me = name()
    subjects = [name("subject") for _ in range(3)]
    for subject in [*subjects, 4242]:
        server.subscribe(me, subject)
    open_page(page, server, me)
    until(lambda: len(page.texts("#subjects li")) == 4, "listed")
    text = page.text("#subjects")
    assert all(str(subject) in text for subject in [*subjects, 4242])


def test_shows_who_is_online_of_those_it_subscribes_to(page, start, name):
    server = start("--demo", "--presence-delay", "1s")
    me, star, other = name("me"), name("<i>star & co"), name("other")
    for subject in (star, other):
        server.subscribe(me, subject)
    open_page(page, server, me)
    until(lambda: page.texts("#online") == ["nobody"], "a snapshot")
    with Sse(server, quote(star)):
        until(lambda: page.texts("#online li") == [star], "online")
        until(lambda: page.texts("#subjects li.online span") == [star], "marked")
        assert "online" in page.evaluate("document.querySelector('#subjects li.online').title")
    until(lambda: page.texts("#online") == ["nobody"], "offline")
    assert page.texts("#subjects li.online") == []
    assert "?presence=1" in commands(page)["Listen"]
    page.goto("about:blank")


def test_shows_nobody_where_presence_is_off(page, start):
    server = start()
    open_page(page, server, "me")
    until(lambda: page.visible(".unrelayed"), "explained")
    assert not page.visible("#presence")
    page.goto("about:blank")


def test_id_is_in_the_address(page, server, name):
    me = name("ü,/?#%&")
    open_page(page, server)
    page.fill("#id", me)
    page.click("#id-form button")
    until(lambda: server.sessions(me), "online")
    page.wait_text("#state", "live")
    server.publish(me, "for the new one")
    until(lambda: data(page) == ["for the new one"], "arrived")
    address = page.evaluate("location.href")
    page.goto("about:blank")
    page.goto(address)
    page.wait_text("#state", "live")
    assert page.evaluate("document.getElementById('id').value") == me
    # Back is back.
    open_page(page, server, "first")
    page.fill("#id", "second")
    page.press("Tab")
    page.click("#id-form button")
    until(lambda: server.sessions("second"), "online")
    page.evaluate("history.back()")
    until(lambda: server.sessions("first") and not server.sessions("second"), "back")


@pytest.mark.parametrize("me", [".", ".."])
def test_ids_that_a_browser_takes_out_of_paths(page, server, me):
    open_page(page, server, me)
    event = json.dumps({"subject": me, "data": "dots"})
    headers = {"Content-Type": "application/x-ndjson"}
    until(lambda: server.post("/v1/publish", event, headers=headers)["online"], "online")
    until(lambda: "dots" in data(page), "arrived")
    page.complaints()  # The paths of its subscriptions are shortened too.


@pytest.mark.parametrize(("me", "word"), [("é" * 65, "128"), ("a%0Ab", "control")])
def test_bad_ids_are_explained(page, server, me, word):
    open_page(page, server, "good")
    page.evaluate(f"location.hash = {me!r}")
    page.wait_text("#id-note", word)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text(page, server, name, text):
    me = name(text)
    page.goto("about:blank")
    page.goto(server.public_url)
    page.wait_text("#state", "live")
    page.fill("#id", me)
    page.click("#id-form button")
    until(lambda: server.sessions(me), "online")
    page.wait_text("#state", "live")
    page.fill("#other", text)
    page.click("#subscribe-form button")
    page.wait_text("#subjects", text)
    for field in ("#subject", "#data", "#type"):
        page.fill(field, text)
    page.click("#publish-form button")
    until(lambda: data(page) == [text], "shown as text")
    assert text in page.text("#events .kind")
    for count in ("img[src=x]", "b", "body script + script", "svg[onload]"):
        assert page.evaluate(f"document.querySelectorAll('{count}').length") == 0, count
    server.unsubscribe(me, text)


def test_commands_are_quoted_for_a_shell(page, server, name):
    me = name()
    open_page(page, server, me)
    page.fill("#data", "it's $HOME `x`")
    commands = page.texts("#commands code")
    assert any(f"{server.public_url}/events/{me}" in command for command in commands)
    assert any("'it'\\''s $HOME `x`'" in command for command in commands)


def run(command, **env):
    """What a shell makes of a command that was copied from the page."""
    path = f"{pathlib.Path(BINARY).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "no_proxy": "*", **env}
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=60, env=env)
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def commands(page):
    return dict(zip(page.texts("#commands dt"), page.texts("#commands code")))


def test_commands_work_as_they_are_copied(page, server, name):
    me, star = name("it's me"), name("-star & co")
    open_page(page, server, quote(me))
    page.fill("#other", star)
    page.fill("#subject", star)
    page.fill("#data", "it's $HOME `x` -- \u202e ü")
    shown = commands(page)
    assert json.loads(run(shown["Subscribe"])) == {"added": 1, "unchanged": 0}
    assert star in run(shown["List subscriptions"])
    for command in ("Publish", "Publish with the encke command"):
        before = len(data(page))
        run(shown[command])
        until(lambda: len(data(page)) > before, command)
        assert data(page)[0] == "it's $HOME `x` -- \u202e ü"
    assert run(shown["Why an event does not arrive"]).startswith("yes: ")
    assert json.loads(run(shown["Unsubscribe"])) == {"removed": 1, "unchanged": 0}
    assert "These are the listeners of this server" in page.text("#control-note")
    assert not page.visible("#control-choice")


def test_a_command_is_copied_by_its_button(page, server, name):
    me = name()
    open_page(page, server, me)
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (text) => { window.copied = text; } } })")
    page.fill("#data", "to copy")
    page.click("#commands dd:nth-of-type(2) button")
    page.wait_text("#copied", "Publish")
    assert page.evaluate("window.copied") == commands(page)["Publish"]


def test_commands_have_a_token_where_one_is_needed(page, start, tmp_path):
    """Both listeners need one: the page asks for its own, and names the other."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"a secret of at least thirty-two bytes\n")
    secret.chmod(0o600)
    control = "secret-0123456789"
    server = start("--jwt-secret-file", secret, "--control-token", control, token=control)
    page.goto("about:blank")
    page.goto(server.public_url + "/#alice")
    page.wait_text("#state", "refused")
    until(lambda: page.visible("#token-form"), "asked for")
    claims = {"sub": "alice", "exp": int(time.time()) + 600}
    token = jwt.encode(claims, "a secret of at least thirty-two bytes", algorithm="HS256")
    page.fill("#token", token)
    page.click("#token-form button")
    page.wait_text("#state", "live")
    server.publish("alice", "for who proved it")
    until(lambda: data(page) == ["for who proved it"], "arrived")
    page.click("#control-token")
    shown = commands(page)
    assert token not in page.evaluate("location.href")
    script = f"{shown['Your token, for this terminal']}\n{shown['Listen']} --max-time 2 --silent; true"
    with ThreadPoolExecutor() as pool:
        heard = pool.submit(run, script)
        until(lambda: len(server.sessions("alice")) == 2, "curl is here")
        usual = "http://127.0.0.1:8001"
        publish = shown["Publish"]
        assert usual in publish and "8001 is the default" in page.text("#control-note")
        receipt = run(publish.replace(usual, server.control_url), ENCKE_CONTROL_TOKEN=control)
        assert json.loads(receipt)["written"] == 2
        assert "hello" in heard.result()
    page.complaints()  # The refusal is told to the console.


def test_comes_back_after_a_restart(page, start, port):
    at = {"public": port().address, "control": port().address}
    first = start("--demo", "--retry", "300ms", "--drain-spread", "300ms", **at)
    open_page(page, first, "me")
    first.publish("me", "before")
    until(lambda: data(page) == ["before"], "arrived")
    first.signal()
    assert first.wait() == 0
    page.wait_text("#state", "retrying")
    second = first.restart("--demo", "--retry", "300ms")
    try:
        page.wait_text("#state", "live")
        second.publish("me", "after")
        until(lambda: data(page) == ["after", "before"], "arrived")
        page.fill("#data", "published again")
        page.click("#publish-form button")
        until(lambda: data(page)[0] == "published again", "arrived")
        page.goto("about:blank")
    finally:
        second.stop()
    page.complaints()  # Refused connections are told to the console.


def test_comes_back_after_a_crash(page, start, port):
    first = start("--retry", "300ms", public=port().address, control=port().address)
    open_page(page, first, "me")
    first.process.kill()
    first.process.wait()
    page.wait_text("#state", "retrying")
    second = first.restart("--retry", "300ms")
    try:
        page.wait_text("#state", "live")
        second.publish("me", "after")
        until(lambda: data(page) == ["after"], "arrived")
        page.goto("about:blank")
    finally:
        second.stop()
    first.kill()
    page.complaints()


@pytest.mark.parametrize("flags", [[], ["--demo", "--control-token", "secret-0123456789"]])
def test_says_how_to_publish_when_it_may_not(page, start, flags):
    server = start(*flags, token=flags[-1] if flags else None)
    open_page(page, server, "me")
    until(lambda: page.visible(".unrelayed"), "explained")
    assert not page.visible("#publish-form") and not page.visible("#subscribe-form")
    assert "encke publish" in page.text("#send") and "--demo" in page.text("#send")
    server.publish("me", "from elsewhere")
    until(lambda: data(page) == ["from elsewhere"], "arrived")
    assert page.complaints() == []
    page.goto("about:blank")


def test_server_that_is_full(page, start):
    """It tells an EventSource when to come back, in place of ending it for good."""
    # It comes back later than the old connection may linger: two seconds, if the browser keeps it.
    server = start("--max-connections", "2", "--head-timeout", "1s", "--retry", "5s")
    open_page(page, server, "me")
    until(lambda: server.totals()["connections"] == 1, "only the stream is left")
    with Sse(server, "other"):
        assert server.api.delete("/v1/sessions/me").json() == {"closed": 1}
        until(lambda: server.totals()["connections"] == 1, "the page is out")
        with Sse(server, "third"):
            until(lambda: server.totals()["requests_rejected"] == 1, "refused")
            page.wait_text("#state", "retrying")
    page.wait_text("#state", "live")
    server.publish("me", "in again")
    until(lambda: data(page) == ["in again"], "arrived")
    page.complaints()
    page.goto("about:blank")


@pytest.mark.parametrize(("width", "height"), [(320, 640), (390, 844), (1280, 900)])
def test_fits_the_screen(page, server, name, width, height):
    page.size(width, height)
    me = name("x" * 100)
    open_page(page, server, me)
    server.publish(me, "long" * 500)
    until(lambda: data(page), "arrived")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.size(1280, 900)


def test_is_accessible(page, server):
    open_page(page, server)
    unlabelled = """[...document.querySelectorAll('input, textarea')]
        .filter((field) => !field.labels.length).map((field) => field.id)"""
    assert page.evaluate(unlabelled) == []
    assert page.evaluate("document.documentElement.lang") == "en"
    contrast = """(() => {
      const light = (rgb) => rgb.map((c) => c / 255)
        .map((c) => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
        .reduce((sum, c, at) => sum + c * [.2126, .7152, .0722][at], 0);
      const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
      const ground = (element) => {
        for (; element; element = element.parentElement) {
          const color = rgb(getComputedStyle(element).backgroundColor);
          if (color.length === 3 || color[3] > 0) return color.slice(0, 3);
        }
        return [255, 255, 255];
      };
      return [...document.querySelectorAll('h1, h2, p, label, input, button, code, dt, summary, span')]
        .filter((element) => element.textContent.trim() && element.checkVisibility())
        .map((element) => {
          const [a, b] = [light(rgb(getComputedStyle(element).color).slice(0, 3)), light(ground(element))];
          return [(Math.max(a, b) + .05) / (Math.min(a, b) + .05), element.textContent.slice(0, 40)];
        }).filter(([ratio]) => ratio < 4.5);
    })()"""
    for scheme in ("light", "dark"):
        page.scheme(scheme)
        assert page.evaluate(contrast) == [], scheme
    page.scheme("light")
