"""The history on the control side: cursor, pages, events that are kept out, idempotency keys."""

import httpx

from support.http import PLAIN, Ndjson, Sse


def history(server, subject, **query):
    answer = server.api.get(f"/v1/history/{subject}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_history_is_on_by_default_and_a_cursor_misses_nothing(server, name):
    """Note the cursor, load the state, connect: what is published in between comes."""
    rj = name()
    cursor = server.api.get("/v1/cursor").json()["cursor"]
    receipt = server.publish(rj, "in between")
    with Sse(server, f"{rj}?cursor={cursor}") as stream:
        assert stream.event() == ("message", "in between", receipt["id"])
    assert history(server, rj, after=cursor)["events"][0]["id"] == receipt["id"]


def test_pages_of_a_history_have_what_was_published(server, name):
    rj = name()
    receipts = [server.publish(rj, f"event {n}", kind="k") for n in range(25)]
    found, query = [], {"limit": 10}
    while True:
        page = history(server, rj, **query)
        found += page["events"]
        if not page["more"]:
            break
        query["after"] = page["cursor"]
    assert [event["id"] for event in found] == [receipt["id"] for receipt in receipts]
    assert [event["data"] for event in found] == [f"event {n}" for n in range(25)]
    assert {(event["type"], event["subject"]) for event in found} == {("k", rj)}
    assert history(server, rj, after="garbage")["reset"] == "unknown"


def test_an_event_that_is_kept_out_is_delivered_and_not_stored(server, name):
    rj = name()
    with Ndjson(server, rj) as stream:
        cursor = server.api.get("/v1/cursor").json()["cursor"]
        answer = server.api.post(f"/v1/publish/{rj}?history=false", content="now or never")
        assert answer.json()["written"] == 1
        assert stream.data() == "now or never"
    assert history(server, rj)["events"] == []
    kept = server.publish(rj, "kept")
    with Sse(server, f"{rj}?cursor={cursor}") as stream:
        assert stream.event() == ("message", "kept", kept["id"]), "without a reset"


def test_a_follower_gets_nothing_from_before_it_followed(server, name):
    alice, news = name("alice"), name("news")
    cursor = server.api.get("/v1/cursor").json()["cursor"]
    server.publish(news, "before")
    server.api.put(f"/v1/subscriptions/{alice}/{news}").raise_for_status()
    server.publish(news, "after")
    with Sse(server, f"{alice}?cursor={cursor}") as stream:
        assert stream.data() == "after"


def test_a_request_that_comes_again_with_its_key_publishes_once(server, name):
    rj, key = name(), {"Idempotency-Key": name("key")}
    with Ndjson(server, rj) as stream:
        first = server.api.post(f"/v1/publish/{rj}", content="once", headers=key)
        again = server.api.post(f"/v1/publish/{rj}", content="once", headers=key)
        assert (first.json(), again.json()) == (first.json(), first.json())
        assert again.headers["Idempotent-Replayed"] == "true"
        other = server.api.post(f"/v1/publish/{rj}", content="twice", headers=key)
        assert other.status_code == 422
        server.publish(rj, "the next")
        assert [stream.data(), stream.data()] == ["once", "the next"]


def test_a_server_without_a_history_says_so(start):
    server = start("--history-bytes", "0")
    for answer in (
        server.api.get("/v1/cursor"),
        server.api.get("/v1/history/rj"),
        server.api.post("/v1/publish/rj", content="x", headers={"Idempotency-Key": "k"}),
    ):
        assert answer.status_code in (404, 400)
        assert "--history-bytes" in answer.json()["detail"]
    assert "encke_history_bytes" not in server.api.get("/metrics").text


def test_the_history_stays_within_its_bounds(start):
    server = start("--history-bytes", "1MiB", "--event-bytes", "64KiB", "--history-age", "1h")
    lines = "".join('{"subject":%d,"data":"%s"}\n' % (n % 50, "x" * 1000) for n in range(5000))
    server.api.post("/v1/publish?receipts=summary", content=lines).raise_for_status()
    stats = server.stats()["history"]
    assert stats["appended"] == 5000 and stats["lost"] == 0
    assert 500 < stats["events"] < 1100
    assert stats["bytes"] <= 1 << 20
    first = history(server, 0)["events"][0]["id"]
    assert history(server, 0, after=first).get("reset") is None
    epoch = first.partition("-")[0]
    assert history(server, 0, after=f"{epoch}-1")["reset"] == "expired"


def test_strangers_read_no_history(start, tmp_path):
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(
        """
        [[token]]
        name = "reader"
        secret = "reader-0123456789abcdef"
        rights = ["sessions"]
        prefixes = ["chat:"]
        """
    )
    tokens.chmod(0o600)
    server = start("--control-tokens", str(tokens), token="reader-0123456789abcdef")
    base = server.api.base_url
    with httpx.Client(base_url=base, **PLAIN) as stranger:
        for path in ("/v1/cursor", "/v1/history/chat:1"):
            assert stranger.get(path).status_code == 401
        bearer = {"Authorization": "Bearer reader-0123456789abcdef"}
        assert stranger.get("/v1/history/chat:1", headers=bearer).status_code == 200
        assert stranger.get("/v1/history/news", headers=bearer).status_code == 403
