"""The control API: errors, batches, the graph, tokens, metrics, OpenAPI."""

import http.client
import json
import math
import re
import signal
import socket
import time

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from support.http import PLAIN, Connection, Ndjson, Sse
from support.program import encke
from support.server import Server
from support.wait import PATIENCE, PROMPT, until

NDJSON = {"Content-Type": "application/x-ndjson"}


def assert_problem(answer, status):
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert problem["type"].startswith("urn:encke:problem:")
    assert problem["title"] and len(problem["detail"]) > 20
    return problem["detail"]


PROBLEMS = [
    ("POST", "/v1/publish/%FF", b"x", {}, 400, "UTF-8"),
    ("POST", "/v1/publish/%zz", b"x", {}, 400, "percent"),
    ("POST", "/v1/publish/a%0Ab", b"x", {}, 400, "control"),
    ("POST", "/v1/publish/", b"x", {}, 400, "empty"),
    ("POST", "/v1/publish/" + "x" * 129, b"x", {}, 400, "128"),
    ("POST", "/v1/publish/a?typ=x", b"x", {}, 400, "typ"),
    ("POST", "/v1/publish/a?type=a%0Ab", b"x", {}, 400, "type"),
    ("POST", "/v1/publish/a?type=", b"x", {}, 400, "type"),
    ("POST", "/v1/publish/a?type=a&type=b", b"x", {}, 400, "twice"),
    ("POST", "/v1/publish/a?receipt=never", b"x", {}, 400, "early"),
    ("POST", "/v1/publish/a", b"{", {"Content-Type": "application/json"}, 400, "JSON"),
    ("POST", "/v1/publish/a", b"1 2", {"Content-Type": "application/json"}, 400, "JSON"),
    ("POST", "/v1/publish/a", b"\xff", {"Content-Type": "application/json"}, 400, "JSON"),
    ("POST", "/v1/publish/a", b"\xff", {"Content-Type": "text/plain"}, 400, "UTF-8"),
    ("POST", "/v1/publish/a", b"x", {"Content-Type": "text/plain; charset=latin1"}, 415, "charset"),
    ("POST", "/v1/publish/a", b"x", {"Content-Type": "image/png"}, 415, "image/png"),
    ("POST", "/v1/publish/a", b"x" * 65537, {}, 413, "65536"),
    ("POST", "/v1/send/a", b"x" * 65537, {}, 413, "65536"),
    ("POST", "/v1/publish?receipts=some", b"", NDJSON, 400, "summary"),
    ("GET", "/v1/subscribers/a?limit=0", b"", {}, 400, "limit"),
    ("GET", "/v1/subscribers/a?limit=x", b"", {}, 400, "limit"),
    ("GET", "/v1/subscriptions/a?after=unheard-of", b"", {}, 400, "unheard-of"),
    ("PUT", "/v1/subscriptions/a/%FF", b"", {}, 400, "UTF-8"),
    ("PUT", "/v1/subscriptions//b", b"", {}, 400, "empty"),
    ("GET", "/v1/nothing", b"", {}, 404, "openapi.json"),
    ("GET", "/", b"", {}, 404, "openapi.json"),
    ("GET", "/v1/publish/a", b"", {}, 405, "GET"),
    ("DELETE", "/v1/stats", b"", {}, 405, "DELETE"),
    ("GET", "/v1/stats?x=1", b"", {}, 400, "x"),
    ("GET", "/v1/stats", b"", {"Origin": "http://evil.example"}, 403, "page"),
    ("POST", "/v1/publish/a", b"x", {"Sec-Fetch-Site": "cross-site"}, 403, "page"),
    ("GET", "/v1/stats", b"", {"Host": "evil.example"}, 403, "Host"),
]


@pytest.mark.parametrize(
    ("method", "target", "body", "headers", "status", "word"),
    PROBLEMS,
    ids=[f"{row[0]} {row[1][:40]} {n}" for n, row in enumerate(PROBLEMS)],
)
def test_problems(server, method, target, body, headers, status, word):
    answer = server.api.request(method, target, content=body, headers=headers)
    assert word in assert_problem(answer, status)
    if status == 405:
        assert answer.headers["Allow"]


def test_batch_answers_a_receipt_a_line_and_goes_on_after_bad_ones(server, name):
    rj = name()
    with Ndjson(server, rj) as stream:
        lines = [
            json.dumps({"subject": rj, "data": "text"}),
            "nonsense",
            json.dumps({"subject": rj, "data": {"json": [1]}, "type": "t"}),
            json.dumps({"subject": rj}),
            json.dumps({"subject": "", "data": 1}),
            "",
            json.dumps({"subject": rj, "data": "AP8=", "encoding": "base64"}),
            json.dumps({"subject": rj, "data": "x" * 65537}),
            json.dumps({"subject": name("nobody"), "data": None}),
        ]
        answer = server.api.post("/v1/publish", content="\n".join(lines), headers=NDJSON)
        assert answer.status_code == 200
        assert answer.headers["Content-Type"] == "application/x-ndjson"
        said = [json.loads(line) for line in answer.text.splitlines()]
        receipts = [line for line in said if "id" in line]
        failures = [line for line in said if "error" in line]
        assert [failure["line"] for failure in failures] == [2, 4, 5, 8]
        assert [receipt["written"] for receipt in receipts] == [1, 1, 1, 0]
        events = [stream.event() for _ in range(3)]
        assert [event["data"] for event in events] == ["text", {"json": [1]}, "AP8="]
        assert events[1]["type"] == "t" and events[2]["encoding"] == "base64"
        assert [event["id"] for event in events] == [receipt["id"] for receipt in receipts[:3]]


def test_batch_as_array(server, name):
    rj = name()
    with Sse(server, rj) as stream:
        events = [{"subject": rj, "data": f"e{n}"} for n in range(3)]
        answer = server.api.post("/v1/publish", json=events)
        assert len(answer.text.splitlines()) == 3
        assert [stream.data() for _ in range(3)] == ["e0", "e1", "e2"]


def test_batch_streams_receipts_before_its_end(server, name):
    rj = name()
    connection = http.client.HTTPConnection(*server.control, timeout=PATIENCE)
    with Sse(server, rj) as stream:
        connection.connect()
        line = json.dumps({"subject": rj, "data": "now"}).encode() + b"\n"
        connection.sock.sendall(
            b"POST /v1/publish HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(line), line)
        )
        # The request has not ended.
        assert stream.data() == "now"
        got = b""
        while b'"written":1' not in got:
            piece = connection.sock.recv(4096)
            assert piece
            got += piece
        connection.sock.sendall(b"0\r\n\r\n")
    connection.close()


def test_batch_of_a_hundred_thousand_need_not_fit_in_memory(server, name):
    rj = name()
    count, bad = 100_000, {1, 777, 50_000, 100_000}

    def lines():
        for number in range(1, count + 1):
            subject = rj if number % 10_000 == 0 else f"nobody-{number % 100}"
            if number in bad:
                yield b'{"subject": "a", "data": \n'
            else:
                yield json.dumps({"subject": subject, "data": "x" * 500}).encode() + b"\n"

    def pieces():
        piece = b""
        for line in lines():
            piece += line
            if len(piece) > 1 << 16:
                yield piece
                piece = b""
        yield piece

    before = server.resident_bytes()
    with Sse(server, rj) as stream:
        answer = server.api.post(
            "/v1/publish?receipts=summary&history=false",
            content=pieces(),
            headers=NDJSON,
            timeout=PATIENCE,
        )
        summary = answer.json()
        for _ in range(8):
            stream.data()
    assert summary["failed"] == len(bad)
    assert [error["line"] for error in summary["errors"]] == sorted(bad)
    assert summary["written"] == 8  # Two of its ten lines are bad.
    grown = server.resident_bytes() - before
    assert grown < 32 << 20, f"{grown} bytes for a batch of 52 MB"


def test_graph_is_read_by_pages(server, name):
    star, fans = name("star"), sorted(name("fan") for _ in range(25))
    for fan in fans:
        server.subscribe(fan, star)
    server.subscribe(12_345_678, star)
    got, after, pages = [], None, 0
    while True:
        params = {"limit": 10, **({"after": after} if after is not None else {})}
        answer = server.api.get(f"/v1/subscribers/{star}", params=params).json()
        got += answer["subscribers"]
        pages += 1
        after = answer["next"]
        if after is None:
            break
    assert pages == 3
    assert sorted(map(str, got)) == sorted([*fans, "12345678"])
    assert 12_345_678 in got, "integers are numbers"
    answer = server.api.get(f"/v1/subscriptions/{fans[0]}").json()
    assert answer == {"subscriptions": [star], "total": 1, "next": None}
    answer = server.api.get(f"/v1/subscriptions/{name()}").json()
    assert answer == {"subscriptions": [], "total": 0, "next": None}


def test_pages_hold_while_the_graph_changes(server, name):
    """An id that is text is forgotten with its last edge; the cursor that it was stays good."""
    star, fans = name("star"), [name("fan") for _ in range(40)]
    for fan in fans:
        server.subscribe(fan, star)
    met, after = [], None
    while True:
        params = {"limit": 3, **({"after": after} if after else {})}
        answer = server.api.get(f"/v1/subscribers/{star}", params=params)
        assert answer.status_code == 200, answer.text
        met += answer.json()["subscribers"]
        server.unsubscribe(met[-1], star)
        server.subscribe(name("late"), star)
        after = answer.json()["next"]
        if after is None or len(met) > 100:
            break
    assert len(met) == len(set(met)), "nobody twice"
    assert set(fans) <= set(met), "nobody left out"


def test_bulk_subscriptions(server, name):
    star, a, b = name("star"), name("a"), name("b")
    edges = f"{a} {star}\n# a comment\n{b}\t{star}\nthree words here\n{a} {star}\n"
    answer = server.post("/v1/subscriptions", edges, headers={"Content-Type": "text/plain"})
    assert (answer["added"], answer["unchanged"], answer["failed"]) == (2, 1, 1)
    assert answer["errors"][0]["line"] == 4
    lines = "".join(json.dumps({"subscriber": each, "subject": star}) + "\n" for each in (a, b))
    answer = server.post("/v1/subscriptions/remove", lines, headers=NDJSON)
    assert (answer["removed"], answer["failed"]) == (2, 0)
    assert server.publish(star, "x")["subscribers"] == 1


TOKEN = "correct-horse-battery"


@pytest.fixture(scope="module")
def guarded():
    server = Server("--control-token", TOKEN, token=TOKEN)
    yield server
    server.stop()


class TestToken:
    def status(self, server, authorization):
        connection = http.client.HTTPConnection(*server.control, timeout=PATIENCE)
        headers = {"Authorization": authorization} if authorization is not None else {}
        connection.request("GET", "/v1/stats", headers=headers)
        answer = connection.getresponse()
        body, challenge = answer.read(), answer.getheader("WWW-Authenticate")
        connection.close()
        if answer.status == 401:
            assert challenge.startswith("Bearer")
            assert json.loads(body)["status"] == 401
            assert TOKEN.encode() not in body
        return answer.status

    def test_right(self, guarded):
        assert self.status(guarded, f"Bearer {TOKEN}") == 200
        assert self.status(guarded, f"bearer {TOKEN}") == 200
        assert guarded.publish("a", "x")["subscribers"] == 1

    @pytest.mark.parametrize(
        "authorization",
        [
            None,
            "",
            "Bearer",
            "Bearer ",
            f"Bearer {TOKEN}x",
            f"Bearer {TOKEN[:-1]}",
            f"Bearer x{TOKEN}",
            f"Bearer {TOKEN[:-1]}X",
            f"Bearer {TOKEN.upper()}",
            f"Basic {TOKEN}",
            TOKEN,
            "Bearer " + "x" * 4000,
        ],
    )
    def test_wrong(self, guarded, authorization):
        assert self.status(guarded, authorization) == 401

    def test_health_is_open(self, guarded):
        for path in ("/healthz", "/livez", "/readyz"):
            connection = http.client.HTTPConnection(*guarded.control, timeout=PATIENCE)
            connection.request("GET", path)
            assert connection.getresponse().status == 200
            connection.close()

    def test_page_may_not_publish_then(self, guarded):
        """Its requests could not carry the token."""
        connection = http.client.HTTPConnection(*guarded.control, timeout=PATIENCE)
        origin = "http://%s:%d" % guarded.public
        connection.request("POST", "/demo/v1/publish/a?data=x", headers={"X-Encke-Demo": "1", "Origin": origin})
        assert connection.getresponse().status == 401
        connection.close()

    def test_token_is_not_in_the_log(self, guarded):
        assert TOKEN not in guarded.log

    def test_command_takes_it(self, guarded):
        control = ["--control", "%s:%d" % guarded.control]
        assert encke("publish", *control, "a", "x").returncode == 1
        said = encke("publish", *control, "--control-token", TOKEN, "a", "x")
        assert said.returncode == 0, said.stderr


class TestListener:
    """What is bounded before anything is known of a client."""

    PLACES = 512
    REQUEST = b"GET /v1/stats HTTP/1.1\r\nHost: localhost\r\n\r\n"
    HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"

    def connect(self, server):
        return Connection(server, address=server.control)

    @pytest.mark.parametrize("sent", [b"", b"G", REQUEST[:-1]], ids=["silent", "a byte", "half"])
    def test_less_than_a_head_is_cut(self, start, sent):
        server = start("--head-timeout", "1s", token=TOKEN, env={"ENCKE_CONTROL_TOKEN": TOKEN})
        began = time.monotonic()
        with self.connect(server) as connection:
            connection.send(sent)
            assert connection.rest() == b""
            assert 0.8 < time.monotonic() - began < PROMPT
        until(lambda: server.stats()["control"]["timeouts"] == 1, "counted")

    def test_a_trickle_wins_no_time(self, start):
        server = start("--head-timeout", "1s")
        began = time.monotonic()
        with self.connect(server) as connection:
            for byte in self.REQUEST:
                connection.send(bytes([byte]))
                # The pace of the trickle: all of it would take nine times as long as is allowed.
                if not connection.is_silent(0.2):
                    break
            assert 0.8 < time.monotonic() - began < PROMPT

    def test_an_answered_client_may_be_idle_for_longer(self, start):
        server = start("--head-timeout", "1s")
        with self.connect(server) as connection:
            connection.send(self.REQUEST)
            assert connection.response().status == 200
            assert connection.is_silent(2)
            connection.send(self.REQUEST)
            assert connection.response().status == 200

    @pytest.mark.parametrize("body", [b"", b"x"], ids=["under way", "there"])
    def test_a_refusal_before_the_body_says_that_the_connection_ends(self, server, body):
        head = b"POST /v1/publish/%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n"
        with self.connect(server) as connection:
            connection.send(head % b"%zz" + body)
            answer = connection.response()
            assert answer.status == 400 and answer.fields["connection"] == "close"
            assert connection.rest() == b""

    def test_a_refusal_after_the_body_leaves_the_connection(self, server):
        head = b"POST /v1/publish/nobody HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
        with self.connect(server) as connection:
            for _ in range(2):
                connection.send(head + b"Content-Type: application/json\r\n\r\nx")
                answer = connection.response()
                assert answer.status == 400 and "connection" not in answer.fields
            connection.send(head + b"Content-Type: application/json\r\n\r\n1")
            assert connection.response().status == 200

    def test_beyond_the_limit_of_authorized_connections_it_says_so_and_recovers(self, start):
        server = start("--head-timeout", "60s")
        # One place is the harness's own.
        assert server.stats()["control"]["connections"] == 1
        before = server.descriptors()
        within = []
        for _ in range(self.PLACES - 1):
            within.append(self.connect(server))
            within[-1].send(self.REQUEST)
            assert within[-1].response().status == 200
        for _ in range(3):
            with self.connect(server) as connection:
                connection.send(self.REQUEST)
                answer = connection.response()
                assert answer.status == 503
                fields = answer.fields
                assert fields["retry-after"] == "1" and fields["connection"] == "close"
                assert fields["content-type"] == "application/problem+json"
                assert str(self.PLACES) in json.loads(answer.body)["detail"]
                assert connection.rest() == b""
        # A watchdog must not take a crowd for a dead server.
        with self.connect(server) as connection:
            connection.send(self.HEALTH)
            assert connection.response().status == 200
        assert server.stats()["control"]["refused"] == 3
        # Those inside are served, and those who come when there is room again.
        within[0].send(self.REQUEST)
        assert within[0].response().status == 200
        for connection in within:
            connection.close()
        until(lambda: server.stats()["control"]["connections"] == 1, "as before")
        assert httpx.get(f"{server.control_url}/v1/stats", **PLAIN).status_code == 200
        until(lambda: server.descriptors() == before, "all descriptors back")


class TestStrangers:
    """Clients without the token try to keep those with the token out."""

    HEALTH = TestListener.HEALTH
    PUBLISH = (
        b"POST /v1/publish/a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
        b"Content-Length: 1\r\n\r\nx" % TOKEN.encode()
    )

    def begin(self, start, *flags, **options):
        env = {"ENCKE_CONTROL_TOKEN": TOKEN}
        return start("--head-timeout", "60s", *flags, token=TOKEN, env=env, **options)

    def publishes(self, server):
        """Whether a publisher with the token is served on a new connection, and at once."""
        began = time.monotonic()
        with Connection(server, address=server.control) as connection:
            connection.send(self.PUBLISH)
            answer = connection.response()
            assert answer.status == 200, answer
        return time.monotonic() - began < PROMPT

    @pytest.mark.parametrize("kind", ["silent", "half a head", "health", "a wrong token", "no reader"])
    def test_600_idle_ones_keep_no_publisher_out(self, start, kind):
        server = self.begin(start)
        sent = {
            "silent": b"",
            "half a head": b"GET /v1/stats HTTP/1.1\r\nHo",
            "health": self.HEALTH,
            "a wrong token": self.PUBLISH.replace(TOKEN.encode(), b"x" * 20),
            "no reader": self.HEALTH * 2000,
        }[kind]
        with Connection(server, address=server.control) as early:
            early.send(self.PUBLISH)
            assert early.response().status == 200
            strangers = []
            for _ in range(600):
                strangers.append(Connection(server, address=server.control))
                strangers[-1].socket.setblocking(False)
                try:
                    strangers[-1].socket.send(sent)
                except OSError:
                    pass
            assert self.publishes(server)
            # One that was there before is served as well.
            early.send(self.PUBLISH)
            assert early.response().status == 200
        until(lambda: server.stats()["control"]["connections"] <= 256 + 2, "strangers are bounded")
        assert server.stats()["control"]["refused"] == 0
        for stranger in strangers:
            stranger.close()

    def test_no_descriptor_is_left_for_strangers_and_some_are_for_publishers(self, start):
        server = self.begin(start, nofile=96)
        # Clients of the public listener take all descriptors that they can get.
        clients = [Connection(server) for _ in range(150)]
        for number, client in enumerate(clients):
            client.get(f"/events/user-{number}")
        until(lambda: server.totals()["accept_pauses"] > 0, "none is left")
        for _ in range(3):
            assert self.publishes(server)
        strangers = []
        for _ in range(100):
            strangers.append(Connection(server, address=server.control))
            strangers[-1].send(b"GET /healthz HTTP/1.1\r\nHo")
        assert self.publishes(server)
        # The reserve is still there, however often it was used.
        for _ in range(100):
            assert self.publishes(server)
        with Connection(server, address=server.control) as probe:
            probe.send(self.HEALTH)
            assert probe.response().status == 200
        for connection in clients + strangers:
            connection.close()


class TestRights:
    """Several tokens, from a file that a reload reads again."""

    def write(self, path, *entries):
        path.write_text(
            "".join(
                f'[[token]]\nname = "{name}"\nsecret = "{name}-0123456789abcdef"\n{rest}\n'
                for name, rest in entries
            )
        )
        path.chmod(0o600)

    def ask(self, server, name, method, path, **options):
        headers = {"Authorization": f"Bearer {name}-0123456789abcdef"}
        url = server.control_url + path
        return httpx.request(method, url, headers=headers, **PLAIN, **options)

    def test_each_token_does_what_it_may_and_no_more(self, start, tmp_path):
        path = tmp_path / "tokens.toml"
        backend = ("backend", 'rights = ["publish"]\nprefixes = ["chat:"]')
        scraper = ("scraper", 'rights = ["metrics"]')
        self.write(path, backend, scraper)
        server = start("--control-tokens", path, token="scraper-0123456789abcdef")
        ask = self.ask
        assert ask(server, "backend", "POST", "/v1/publish/chat:1", content="x").status_code == 200
        for method, target, body in [
            ("POST", "/v1/publish/news", "x"),
            ("GET", "/v1/stats", None),
            ("PUT", "/v1/subscriptions/a/chat:1", None),
            ("DELETE", "/v1/sessions/chat:1", None),
            ("POST", "/v1/revocations", '{"id": "chat:1"}'),
        ]:
            answer = ask(server, "backend", method, target, content=body)
            assert "backend" in assert_problem(answer, 403), target
            assert 'error="insufficient_scope"' in answer.headers["WWW-Authenticate"]
        assert ask(server, "other", "GET", "/v1/stats").status_code == 401
        metrics = ask(server, "scraper", "GET", "/metrics").text
        assert 'encke_control_requests_total{token="backend"} 6' in metrics
        assert 'encke_control_denied_total{reason="right"} 5' in metrics
        assert 'encke_control_denied_total{reason="wrong_token"} 1' in metrics

        # A reload takes the one away and gives another.
        operator = ("operator", 'rights = ["admin"]')
        self.write(path, scraper, operator)
        server.signal(signal.SIGHUP)
        until(lambda: ask(server, "operator", "GET", "/v1/slowest").status_code == 200, "a reload")
        assert ask(server, "backend", "POST", "/v1/publish/chat:1").status_code == 401
        assert "0123456789abcdef" not in server.log
        # A file with a mistake changes nothing.
        path.write_text("[[token]]\nname = 'x'\n")
        server.signal(signal.SIGHUP)
        until(lambda: "changed nothing" in server.log, "a failed reload")
        assert ask(server, "operator", "GET", "/v1/slowest").status_code == 200

    def test_a_ticket_logs_in_and_a_ban_keeps_away(self, start):
        server = start("--tickets", token=TOKEN, env={"ENCKE_CONTROL_TOKEN": TOKEN})
        answer = server.api.post("/v1/tickets", json={"ids": ["alice"], "ttl": "30s"})
        assert answer.status_code == 201 and answer.headers["Cache-Control"] == "no-store"
        ticket = answer.json()["ticket"]
        with Connection(server) as stream:
            stream.get(f"/events?ticket={ticket}")
            assert stream.head()[0] == 200
            assert server.publish("alice", "x")["written"] == 1
            answer = server.api.delete("/v1/sessions/alice", params={"ban": "10m"})
            assert answer.json() == {"closed": 1, "banned_seconds": 600}
        with Connection(server) as late:
            late.get(f"/events?ticket={ticket}")
            assert late.response(head_only=True).status == 204
        assert ticket not in server.log


def test_metrics_are_well_formed_and_true(start):
    server = start()
    streams = [Sse(server, f"user-{n}") for n in range(3)] + [Ndjson(server, "user-0")]
    server.publish("user-0", "x")
    server.publish("nobody", "x")
    server.send("user-1", "x")
    answer = server.api.get("/metrics")
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert all(name.startswith(("encke_", "process_")) for name in families)
    assert families["process_resident_memory_bytes"].samples[0].value > 1 << 20
    assert 0 < families["process_open_fds"].samples[0].value < families["process_max_fds"].samples[0].value
    assert all(family.documentation for family in families.values())

    def value(sample, **labels):
        found = [
            each.value
            for family in families.values()
            for each in family.samples
            if each.name == sample and labels.items() <= each.labels.items()
        ]
        assert found, (sample, labels)
        return sum(found)

    assert value("encke_sessions", transport="sse") == 3
    assert value("encke_sessions", transport="ndjson") == 1
    assert value("encke_connections") == 4
    assert value("encke_online_ids") == 3
    assert value("encke_deliveries_total", outcome="written") == 3
    assert value("encke_publishes_total", verb="publish") == 2
    assert value("encke_publishes_total", verb="send") == 1
    assert value("encke_logins_total") == 4
    assert value("encke_publish_fan_out_ids_count") == 3
    histogram = [s for s in families["encke_publish_fan_out_ids"].samples if "le" in s.labels]
    assert math.isinf(float(histogram[-1].labels["le"]))
    # Two scrapes: counters only grow, and nothing appears or goes.
    again = {f.name for f in text_string_to_metric_families(server.api.get("/metrics").text)}
    assert again == set(families)
    totals = server.totals()
    assert totals["deliveries"]["written"] == 3
    sessions = totals["sessions"]
    assert (sessions.pop("sse"), sessions.pop("ndjson")) == (3, 1)
    assert not any(sessions.values())
    for stream in streams:
        stream.close()


def test_openapi_describes_what_answers(start, name, tmp_path):
    server = start("--data", tmp_path / "data", "--tickets", "--presence")
    description = server.api.get("/openapi.json").json()
    assert description["openapi"].startswith("3.")
    assert description["info"]["version"] == server.stats()["version"]
    bodies = {
        "/v1/publish/{subject}": b"x",
        "/v1/publish": b'{"subject": "a", "data": 1}\n',
        "/v1/send/{id}": b"x",
        "/v1/subscriptions": b'{"subscriber": "a", "subject": "b"}\n',
        "/v1/subscriptions/remove": b'{"subscriber": "a", "subject": "b"}\n',
        "/v1/tickets": b'{"ids": ["a"], "ttl": "30s"}',
        "/v1/revocations": b'{"id": "a"}',
        "/v1/online": b'["a"]',
        "/v1/presence/{id}": b'{"hidden": false}',
    }
    queries = {"/v1/explain": "?subject=a&subscriber=b"}
    asked = set()
    for path, item in description["paths"].items():
        for method, operation in item.items():
            # A stream without an end is tested where presence is.
            if method not in ("get", "put", "post", "delete") or path == "/v1/presence":
                continue
            target = re.sub(r"\{\w+\}", lambda _: name(), path) + queries.get(path, "")
            body = bodies.get(path, b"")
            headers = NDJSON if body.endswith(b"}\n") else {}
            answer = server.api.request(method, target, content=body, headers=headers)
            responses = operation["responses"]
            assert str(answer.status_code) in responses, (method, path, answer.status_code)
            if path.startswith("/v1/cluster"):
                assert answer.status_code == 404, answer.text  # This server is no node of one.
                continue
            assert answer.is_success, (method, path, answer.text)
            kind = answer.headers.get("Content-Type", "").partition(";")[0]
            content = responses[str(answer.status_code)].get("content", {})
            # An answer of which no content is described has none.
            kinds = {each.partition(";")[0] for each in content} if content else {""}
            assert kind in kinds and bool(content) == bool(answer.content), (method, path, kind)
            if kind == "application/json":
                schema = content[kind]["schema"]
                check(schema, answer.json(), description, f"{method} {path}")
            asked.add((method, path))
    assert len(asked) >= 15


def check(schema, value, description, where):
    """Types and members only: enough to catch a description that tells of another answer."""
    while "$ref" in schema:
        place = description
        for step in schema["$ref"].removeprefix("#/").split("/"):
            place = place[step]
        schema = place
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    python = {
        "object": dict, "array": list, "string": str, "boolean": bool,
        "integer": int, "number": (int, float), "null": type(None),
    }  # fmt: skip
    if kinds:
        assert any(isinstance(value, python[kind]) for kind in kinds), (where, schema, value)
    if isinstance(value, dict) and "properties" in schema:
        missing = set(schema.get("required", [])) - set(value)
        assert not missing, (where, missing)
        if schema.get("additionalProperties") is not True:
            unknown = set(value) - set(schema["properties"])
            assert not unknown, (where, unknown)
        for key, each in value.items():
            if key in schema["properties"]:
                check(schema["properties"][key], each, description, f"{where} {key}")
    if isinstance(value, list) and "items" in schema:
        for each in value:
            check(schema["items"], each, description, where)


def test_health(server):
    for path in ("/healthz", "/livez", "/readyz"):
        assert server.api.get(path).status_code == 200


def test_stats_settle(start):
    """What was counted is counted once."""
    server = start()
    with Sse(server, "a"):
        for _ in range(10):
            server.publish("a", "x")
        totals = server.totals()
        assert totals["deliveries"] == {"written": 10, "queued": 0, "shed": 0, "lost": 0}
        assert totals["logins"] == 1 and totals["sessions"]["sse"] == 1
    until(lambda: server.totals()["connections"] == 0, "closed")
    totals = server.totals()
    assert totals["connections_closed"]["peer"] + totals["connections_closed"]["reset"] == 1
    assert server.stats()["online"] == 0
