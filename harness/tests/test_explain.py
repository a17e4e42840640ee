"""Why an event arrives or not: `/v1/explain` and `encke explain`, with servers and clients as they are."""

import json
import subprocess

import httpx

from support.http import PLAIN, Ndjson, Sse
from support.program import BINARY, ROOT
from support.wait import until

LARGE = "x" * 60_000


def explain(server, subject, subscriber):
    answer = server.api.get("/v1/explain", params={"subject": subject, "subscriber": subscriber})
    assert answer.status_code == 200, answer.text
    answer = answer.json()
    assert answer["summary"].endswith("."), answer
    return answer


def words(answer):
    return [reason["reason"] for reason in answer["reasons"]]


def prevents(answer):
    return [reason["reason"] for reason in answer["reasons"] if reason["effect"] == "prevents"]


def test_what_it_says_is_what_happens(server, name):
    """For each state of a subscriber: the verdict, and what a publish does."""
    star, fan = name("star"), name("fan")
    for subscribed in (False, True):
        if subscribed:
            server.subscribe(fan, star)
        away = explain(server, star, fan)
        assert away["verdict"] == "no" and away["sessions"] == []
        assert prevents(away) == (["not_online"] if subscribed else ["no_edge", "not_online"])
        with Sse(server, fan) as stream:
            here = explain(server, star, fan)
            receipt = server.publish(star, "now")
            if subscribed:
                assert (here["verdict"], receipt["written"]) == ("yes", 1)
                assert stream.event()[1] == "now"
                assert here["sessions"][0]["via"] == fan
                assert here["sessions"][0]["transport"] == "sse"
            else:
                assert (here["verdict"], receipt["written"]) == ("no", 0)
                assert prevents(here) == ["no_edge"]
                assert here["sessions"][0]["via"] is None
        until(lambda: not server.sessions(fan), "gone")


def test_ids_may_be_anything(server, name):
    for subscriber in (7, "0", ".", "..", "a/b?c&d=e#f", "a b+c", "ü‮", '<img src=x onerror="x">'):
        star = name("star")
        server.api.post("/v1/subscriptions", content=json.dumps({"subscriber": subscriber, "subject": star}) + "\n",
                        headers={"Content-Type": "application/x-ndjson"})
        answer = explain(server, star, subscriber)
        assert (answer["subscriber"], prevents(answer)) == (int(subscriber) if subscriber == "0" else subscriber, ["not_online"])
    own = explain(server, "1", 1)
    assert words(own)[0] == "self", "1 and '1' are one id"


def test_a_session_with_several_ids_gets_it_by_any_of_them(server, name):
    star, fan, other = name("star"), name("fan"), name("other")
    server.subscribe(other, star)
    with Ndjson(server, f"{fan},{other}"):
        answer = explain(server, star, fan)
        assert (answer["verdict"], answer["sessions"][0]["via"]) == ("yes", other)
        assert words(answer)[:2] == ["no_edge", "other_id"]
        assert server.publish(star, "x")["written"] == 1


def test_a_reader_that_is_slow_gets_it_late(start):
    server = start("--stall-timeout", "60s", "--backlog-bytes", "128KiB")
    server.subscribe("fan", "star")
    with Sse(server, "fan", receive_buffer=4096) as stream:
        assert explain(server, "star", "fan")["verdict"] == "yes"
        until(lambda: server.publish("star", LARGE)["written"] == 0, "full")
        full = explain(server, "star", "fan")
        assert (full["verdict"], "backlog" in words(full)) == ("late", True), full
        assert full["sessions"][0]["backlog_bytes"] > 0
        # More than a backlog holds: it falls behind, and reads on from the history.
        until(lambda: server.publish("star", LARGE) and "behind" in words(explain(server, "star", "fan")), "behind")
        behind = explain(server, "star", "fan")
        assert (behind["verdict"], behind["sessions"][0]["behind"]) == ("late", True)
        server.publish("star", "the last")
        while stream.event()[1] != "the last":
            pass
        until(lambda: explain(server, "star", "fan")["verdict"] == "yes", "live again")
        assert server.publish("star", "x")["written"] == 1


def test_a_reader_that_lost_events_is_known(start):
    server = start("--stall-timeout", "60s", "--backlog-bytes", "128KiB")
    with Sse(server, "fan?slow=drop-oldest", receive_buffer=4096) as stream:
        for _ in range(20):
            server.publish("fan", LARGE)
        server.publish("fan", "the last")
        while (event := stream.event())[1] != "the last":
            if event[0] == "gap":
                lost = json.loads(event[1])["lost"]
        answer = explain(server, "fan", "fan")
        assert "gap" in words(answer), answer
        gap = answer["sessions"][0]["last_gap"]
        assert gap["lost"] == lost and 0 <= gap["seconds_ago"] < 60, answer
        # Another session of the id was told nothing.
        with Sse(server, "fan"):
            gaps = ["last_gap" in session for session in explain(server, "fan", "fan")["sessions"]]
            assert sorted(gaps) == [False, True]


def test_a_reader_that_was_closed_for_being_slow_is_known(start):
    server = start("--slow", "close", "--stall-timeout", "60s", "--backlog-bytes", "128KiB")
    with Sse(server, "fan", receive_buffer=4096):
        until(lambda: server.publish("fan", LARGE)["online"] == 0, "closed")
    answer = explain(server, "fan", "fan")
    assert {"closed_slow", "not_online"} <= set(words(answer)), answer


def test_bans_and_revocations_are_said(start, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"a secret of at least thirty-two bytes\n")
    secret.chmod(0o600)
    server = start("--jwt-secret-file", secret)
    assert words(explain(server, "a", "a"))[-1] == "needs_identity"
    assert server.api.delete("/v1/sessions/a?ban=2m").status_code == 200
    server.post("/v1/revocations", json.dumps({"id": "a"}), headers={"Content-Type": "application/json"})
    said = {reason["reason"]: reason["detail"] for reason in explain(server, "a", "a")["reasons"]}
    assert "banned for another 1" in said["banned"], said
    assert "revoked" in said
    assert not {"banned", "revoked"} & set(words(explain(server, "b", "b")))


def test_strangers_are_told_nothing(start, tmp_path):
    tokens = tmp_path / "tokens.toml"
    entry = '[[token]]\nname = "{0}"\nsecret = "secret-of-{0}-0123456789"\nrights = {1}\n{2}\n'
    tokens.write_text(
        entry.format("all", '["admin"]', "")
        + entry.format("sessions", '["sessions"]', "")
        + entry.format("graph", '["graph"]', "")
        + entry.format("chat", '["sessions", "graph"]', 'prefixes = ["chat:"]')
    )
    tokens.chmod(0o600)
    server = start("--control-tokens", tokens, token="secret-of-all-0123456789")

    def status(token, subject="chat:a", subscriber="chat:b"):
        headers = {"Authorization": f"Bearer secret-of-{token}-0123456789"} if token else {}
        parameters = {"subject": subject, "subscriber": subscriber}
        url = server.control_url + "/v1/explain"
        return httpx.get(url, params=parameters, headers=headers, **PLAIN).status_code

    assert [status(token) for token in (None, "nobody", "sessions", "graph", "chat", "all")] == [401, 401, 403, 403, 200, 200]
    assert status("chat", subject="news") == status("chat", subscriber="alice") == 403


class TestCommand:
    def run(self, server, *arguments):
        command = [BINARY, "explain", *arguments, "--control", server.control_url]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    def test_it_says_why(self, server, name):
        star, fan = name("star"), name("fan")
        said = self.run(server, star, fan)
        assert said.returncode == 0, said.stderr
        assert said.stdout.startswith("no: "), said.stdout
        assert "no_edge" in said.stdout and "not_online" in said.stdout
        server.subscribe(fan, star)
        with Sse(server, fan):
            said = self.run(server, star, fan)
            assert said.stdout.startswith(f"yes: `{fan}` would get"), said.stdout
            assert "(sse, worker " in said.stdout and said.stdout.rstrip().endswith("live")
            as_json = json.loads(self.run(server, star, fan, "--json").stdout)
            assert as_json["verdict"] == "yes"

    def test_it_is_told_what_is_wrong(self, server):
        assert self.run(server, "x" * 129, "a").returncode == 1
        assert self.run(server, "a").returncode == 2


def test_words_are_those_of_the_documentation():
    """Programs rely on the words: all are in the description of the API, and in CONTROL.md."""
    api = json.loads((ROOT / "crates/control/src/openapi.json").read_text())
    item = api["components"]["schemas"]["Explanation"]["properties"]["reasons"]["items"]
    documented = (ROOT / "docs/CONTROL.md").read_text()
    source = (ROOT / "crates/control/src/explain/verdict.rs").read_text()
    for word in item["properties"]["reason"]["enum"]:
        assert f"`{word}`" in documented, word
        assert f'"{word}"' in source, word
    assert source.count("Reason::new(") == len(item["properties"]["reason"]["enum"])
