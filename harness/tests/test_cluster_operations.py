"""Operating a cluster: how it is looked at, a node that is drained or killed, what nodes share, and the way to the engine."""

import contextlib
import json
import re

import httpx
import pytest

from support.http import PLAIN, Sse, Stream
from support.nats import Nats
from support.program import ROOT, Program, begin, encke
from support.server import Server
from support.wait import until
from test_flood import Flood
from test_pressure import fill


class Cluster:
    """Three servers of the engine and three nodes, which tests kill and start again."""

    def __init__(self, directory):
        self.directory, self.nodes = directory, {}
        self.engine = Nats(3)

    def start(self, name, *flags):
        node = Server(
            "--cluster", self.engine.url, "--cluster-name", "ops", "--node", name, "--log-bytes", "64MiB",
            "--data", self.directory / name, "--drain-spread", "1s", "--drain-timeout", "5s", *flags,
        )  # fmt: skip
        self.nodes[name] = node
        return node

    def status(self, name="n1"):
        done = encke("cluster", "status", "--control", self.nodes[name].control_url, "--json")
        return done, json.loads(done.stdout)

    def close(self):
        for node in self.nodes.values():
            if node.api:
                node.kill()
        self.engine.close()


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("nodes"))
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def cluster(shared_cluster):
    """All nodes run, are ready and know each other."""
    for name in ("n1", "n2", "n3"):
        node = shared_cluster.nodes.get(name)
        if node is None or node.process.poll() is not None:
            shared_cluster.start(name)

    def is_well():
        for name in ("n1", "n2", "n3"):
            done, status = shared_cluster.status(name)
            states = [node["state"] for node in status["nodes"]]
            if done.returncode != 0 or states != ["ready"] * 3:
                return False
        return True

    until(is_well, "the cluster is well", pause=0.1)
    return shared_cluster


def test_status_shows_nodes_log_and_engine_and_says_what_is_wrong(cluster):
    done, status = cluster.status("n2")
    assert done.returncode == 0, done.stderr
    assert (status["node"], status["ready"], status["connected"]) == ("n2", True, True)
    assert [node["name"] for node in status["nodes"]] == ["n1", "n2", "n3"]
    engine = status["engine"]
    names = {engine["leader"], *(follower["name"] for follower in engine["followers"])}
    assert names == {"s1", "s2", "s3"} and engine["server"] in names
    assert all(follower["current"] for follower in engine["followers"]), engine
    shown = encke("cluster", "status", "--control", cluster.nodes["n1"].control_url)
    assert shown.returncode == 0
    for part in ("node n1 is ready", "NODE  STATE", f"{engine['leader']} leads", "keeps up", "3 nodes"):
        assert part in shown.stdout, shown.stdout
    # The chapter on metrics has those of a node, all of them.
    metrics = cluster.nodes["n1"].api.get("/metrics", headers={"Accept": "text/plain"}).text
    counted = set(re.findall(r"^(encke_(?:log|cluster)_\w+)", metrics, re.MULTILINE))
    chapter = (ROOT / "docs" / "CONTROL.md").read_text()
    assert counted == set(re.findall(r"`(encke_(?:log|cluster)_\w+)`", chapter))

    # A node is killed: it is silent, cannot be drained, and leaves the table.
    with Sse(cluster.nodes["n3"], "carol"):
        until(lambda: cluster.status()[1]["nodes"][2]["sessions"] == 1, "the session is told of")
        cluster.nodes["n3"].kill()
    drained = encke("cluster", "drain", "n3", "--control", cluster.nodes["n1"].control_url)
    assert drained.returncode == 1 and "does not answer" in drained.stderr, drained.stderr

    def is_missed():
        done, status = cluster.status()
        return done.returncode == 1 and "n3 was last heard" in done.stderr and len(status["nodes"]) == 3

    until(is_missed, "n3 is missed", pause=0.1)
    until(lambda: len(cluster.status()[1]["nodes"]) == 2, "n3 has left", pause=0.1)
    drained = encke("cluster", "drain", "n3", "--control", cluster.nodes["n1"].control_url)
    assert drained.returncode == 1 and "it has n1, n2" in drained.stderr, drained.stderr

    # A server of the engine is killed, one that follows.
    follower = cluster.engine.by_name(engine["followers"][0]["name"])
    follower.kill()

    def is_named():
        done, _ = cluster.status()
        return done.returncode == 1 and f"{follower.name} of the engine" in done.stderr

    until(is_named, "the follower is named", pause=0.1)
    follower.start()
    cluster.engine.until_healthy()
    until(lambda: cluster.status()[0].returncode == 0, "all is well again", pause=0.1)


def test_a_drained_node_sends_its_clients_to_others_and_no_event_is_lost(cluster, tmp_path):
    to = ",".join("%s:%d" % node.public for node in cluster.nodes.values())
    proxy = Program(
        "tcp", "--listen", "127.0.0.1:0", "--to", to, "--check", "--check-interval", "200ms", "--drain-timeout", "0s",
        cwd=tmp_path,
    )  # fmt: skip
    log = tmp_path / "log"
    running = Flood(
        f"{proxy.url}events/{{n}}", "-c", 60, "--resume", "--owed", log, "--ids", "opaque", "--expect-exact",
        "--expect-no-loss", "--duration", "7s",
    )  # fmt: skip
    n1, n2, n3 = cluster.nodes.values()

    def sessions(*nodes):
        return [sum(node.stats()["totals"]["sessions"].values()) for node in nodes]

    until(lambda: sum(sessions(n1, n2, n3)) == 60, "all are there")
    assert sessions(n2) > [0]
    driving = begin(
        "drive", "--control", n1.control_url, "--log", log, "--rate", 300, "--duration", "4s", "--max-id", 60, "--json"
    )  # fmt: skip
    until(lambda: n1.stats()["totals"]["deliveries"]["written"] > 50, "events flow")
    started = encke("cluster", "drain", "n2", "--control", n3.control_url, "--no-wait", "--json")
    assert started.returncode == 0, started.stderr
    assert json.loads(started.stdout)["others_ready"] == 2
    waited = encke("cluster", "drain", "n2", "--control", n3.control_url)
    # It may have ended in between, and may have left the table as well.
    is_gone = "it has n1, n3" in waited.stderr or "does not answer" in waited.stderr
    assert waited.returncode == 0 or is_gone, waited.stderr
    assert n2.wait() == 0
    assert "an operator drains this node" in n2.log
    out, error = driving.communicate(timeout=60)
    assert driving.returncode == 0 and json.loads(out)["events"]["accepted"] == 1200, (out, error)
    until(lambda: sum(sessions(n1, n3)) == 60, "its clients are at the others")
    report = running.end()
    proxy.stop()
    assert report["judgement"] == {"checked": 60, "exact": 60, "excused": 0, "missing": 0, "excess": 0}, report
    assert report["resets"] == {"restart": 0, "expired": 0, "unknown": 0}


def token_of(name):
    return f"secret-of-{name}-0123456789"


def test_only_an_administrator_drains_a_node_and_it_is_not_ready_meanwhile(shared_cluster, start, tmp_path):
    # Each right alone, and one that has all others together.
    others = ["publish", "graph", "sessions", "metrics"]
    rights = {name: [name] for name in (*others, "admin")} | {"most": others}
    tokens = tmp_path / "tokens.toml"
    entry = '[[token]]\nname = "{0}"\nsecret = "{1}"\nrights = {2}\n'
    tokens.write_text("".join(entry.format(name, token_of(name), json.dumps(has)) for name, has in rights.items()))
    tokens.chmod(0o600)
    flags = ["--cluster", shared_cluster.engine.url, "--cluster-name", "rights", "--memory", "--log-bytes", "64MiB"]
    # As long as a test may take: what is asked below does not end by the clock.
    flags += ["--drain-timeout", "60s", "--stall-timeout", "60s", "--backlog-bytes", "1MiB", "--slow", "close"]
    flags += ["--control-tokens", tokens]
    n1, n2 = (start(*flags, "--node", name, token=token_of("admin")) for name in ("n1", "n2"))

    def drain(headers, name="n2"):
        path = f"{n1.control_url}/v1/cluster/nodes/{name}/drain"
        return httpx.post(path, headers=headers, **PLAIN, timeout=60.0).status_code

    def bearer(secret):
        return {"Authorization": f"Bearer {secret}"}

    def state_of_n2():
        nodes = n1.api.get("/v1/cluster").json()["nodes"]
        return next((node["state"] for node in nodes if node["name"] == "n2"), None)

    until(lambda: state_of_n2() == "ready", "n1 knows n2")
    # Strangers, and whoever has any other right: the node that is meant, and the one that is asked.
    for name in ("n2", "n1"):
        assert [drain(headers, name) for headers in ({}, bearer("a-stranger-0123456789"))] == [401, 401]
        assert {had: drain(bearer(token_of(had)), name) for had in rights if had != "admin"} == dict.fromkeys(
            [*others, "most"], 403
        )
    command = encke("cluster", "drain", "n2", "--control", n1.control_url)
    assert command.returncode == 1, command.stderr
    for node in (n1, n2):
        assert node.api.get("/readyz").status_code == 200 and not node.stats()["draining"]

    with Sse(n2, "slow", receive_buffer=4096) as slow:
        fill(n2, "slow")
        assert drain(bearer(token_of("admin"))) == 202
        answer = until(lambda: (a := n2.api.get("/readyz")).status_code == 503 and a, "n2 is not ready")
        assert "draining" in answer.json()["detail"] and "retry-after" in answer.headers
        assert n2.api.get("/livez").status_code == 200
        until(lambda: state_of_n2() == "draining", "n1 is told")
        assert n1.api.get("/readyz").status_code == 200
        while slow.event() is not None:
            pass
    assert n2.wait() == 0


def test_top_shows_a_line_for_each_node_and_their_sums(cluster):
    url = cluster.nodes["n1"].control_url
    with contextlib.ExitStack() as stack:
        # Different numbers, so that none can be left out, or be taken for another's.
        for name, count in (("n1", 1), ("n2", 2), ("n3", 4)):
            for _ in range(count):
                stack.enter_context(Sse(cluster.nodes[name], "alice"))
        until(lambda: sum(node["sessions"] for node in cluster.status()[1]["nodes"]) == 7, "all sessions")
        shown = encke("top", "--once", "--every", "1s", "--control", url)
        assert shown.returncode == 0, shown.stderr
        lines = shown.stdout.splitlines()
        title = next(number for number, line in enumerate(lines) if line.startswith("node "))
        rows = [line.split() for line in lines[title + 1 : title + 5]]
        assert [row[:2] for row in rows] == [["n1", "ready"], ["n2", "ready"], ["n3", "ready"], ["all", "3"]]
        view = json.loads(encke("top", "--once", "--every", "1s", "--json", "--control", url).stdout)
        nodes = view["nodes"]
        assert nodes["totals"]["sessions"] == 7 and [node["sessions"] for node in nodes["each"]] == [1, 2, 4]


class Ticketed(Sse):
    """A stream that a ticket opens."""

    def __init__(self, server, ticket):
        Stream.__init__(self, server, f"/events?ticket={ticket}")
        self.retry, self.last_id = [], ""


def status_of(node, path):
    """What a client is answered; a stream is left at once."""
    with httpx.stream("GET", node.public_url + path, **PLAIN, timeout=5.0) as answer:
        return answer.status_code


def until_as_far(node, other):
    """Waits until a node has applied all that another one has. What one has answered is on its way to the others."""
    applied = lambda node: node.api.get("/v1/cluster").json()["applied"]
    last = applied(other)
    until(lambda: applied(node) >= last, f"entry {last} is applied")


def test_nodes_share_tickets_revocations_and_bans(shared_cluster, start):
    flags = ["--cluster", shared_cluster.engine.url, "--cluster-name", "shared", "--memory", "--tickets"]
    n1, n2 = (start(*flags, "--log-bytes", "64MiB", "--node", name) for name in ("n1", "n2"))

    def ticket_for(name, node):
        return node.post("/v1/tickets", json.dumps({"ids": [name], "ttl": "60s"}))["ticket"]

    ticket = ticket_for("tina", n1)
    until_as_far(n2, n1)
    with Ticketed(n2, ticket) as stream:
        assert n1.send("tina", "by ticket")["online"] == 1
        assert stream.data() == "by ticket"
        # One client at a time has it, wherever: the session at the other node ends.
        with Ticketed(n1, ticket) as other:
            until(lambda: (n2.sessions("tina"), len(n1.sessions("tina"))) == ([], 1), "it has moved")
            assert n2.send("tina", "moved")["online"] == 1
            assert other.data() == "moved"
            assert n2.post("/v1/revocations", json.dumps({"id": "tina"}))["id"] == "tina"
            until(lambda: not n1.sessions("tina"), "the session is ended everywhere")
    for node in (n1, n2):
        until(lambda: status_of(node, f"/events?ticket={ticket}") != 200, "the ticket is refused")
    tickets = [ticket_for("bob", n1) for _ in range(3)]
    until_as_far(n2, n1)
    with Ticketed(n2, tickets[0]):
        assert n1.api.delete("/v1/sessions/bob?ban=1m").status_code == 200
        for node, ticket in zip((n1, n2), tickets[1:]):
            until(lambda: status_of(node, f"/events?ticket={ticket}") != 200, "bob is banned")
    # What a node counts, and whom it has, is its own.
    ticket = ticket_for("carl", n2)
    until_as_far(n1, n2)
    with Ticketed(n1, ticket):
        assert (len(n1.sessions("carl")), n2.sessions("carl")) == (1, [])
