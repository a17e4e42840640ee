"""What nodes share beside events and subscriptions, over restarts and snapshots; nodes that the log leaves behind."""

import json
import re
import signal
import time

import jwt
import pytest

from support.http import Connection, Sse
from support.issuer import within_an_hour
from support.nats import Nats
from support.program import encke
from support.server import Server
from support.wait import until

SECRET = "correct horse battery staple, and more"
LOG_MIB = 16
EVENT = b"x" * (64 << 10)


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    path.write_text(SECRET)
    path.chmod(0o600)
    return path


class Cluster:
    """Nodes over one server of the engine."""

    def __init__(self, engine, secret, directory):
        self.engine, self.directory, self.running = engine, directory, []
        self.flags = ["--cluster", engine.url, "--cluster-name", "state", "--log-replicas", 1]
        self.flags += ["--log-bytes", f"{LOG_MIB}MiB", "--history-bytes", "4MiB", "--drain-timeout", "1s"]
        self.flags += ["--event-bytes", "64KiB", "--tickets", "--jwt-secret-file", secret, "--presence"]

    def node(self, name, is_stored=True, history="4MiB"):
        data = ["--data", self.directory / name] if is_stored else []
        flags = [history if flag == "4MiB" else flag for flag in self.flags]
        node = Server(*flags, *data, "--node", name, workers=1)
        self.running.append(node)
        return node

    def stop(self, node):
        self.running.remove(node)
        node.stop()

    def state_of_log(self):
        """The first and the last entry of the log, and the messages of its object store."""
        accounts = self.engine.servers[0].monitor("jsz?streams=1&accounts=1")["account_details"]
        streams = {stream["name"]: stream["state"] for stream in accounts[0]["stream_detail"]}
        log, store = streams["encke-state"], streams.get("OBJ_encke-state-snapshots", {})
        return log["first_seq"], log["last_seq"], store.get("messages", 0)

    def close(self):
        for node in self.running:
            node.kill()


@pytest.fixture
def cluster(secret, tmp_path):
    with Nats(1) as engine:
        cluster = Cluster(engine, secret, tmp_path)
        try:
            yield cluster
        finally:
            cluster.close()


def fill(node, mebibytes):
    """Writes so much to the log."""
    lines = b"".join(b'{"subject":"filler","data":"%s"}\n' % EVENT[:60_000] for _ in range(mebibytes * 17))
    summary = node.post("/v1/publish?receipts=summary", lines, headers={"Content-Type": "application/x-ndjson"})
    assert summary["events"] == mebibytes * 17, summary


def fill_past(node, entry, cluster):
    """Writes to the log until it has lost an entry, and a snapshot was made from which it can be read on."""

    def snapshots():
        return [int(entry) for entry in re.findall(r"made a snapshot of the graph after entry (\d+)", node.log)]

    while (first := cluster.state_of_log()[0]) <= entry:
        fill(node, 2)
    until(lambda: max(snapshots(), default=0) + 1 >= first, f"a snapshot after entry {first}", pause=0.05)


def status(node, *, ticket=None, token=None, ids=None):
    """Status of a request for a stream, which is closed again."""
    target = f"/events/{ids}" if ids else "/events"
    with Connection(node) as connection:
        fields = [f"Authorization: Bearer {token}"] if token else []
        connection.get(f"{target}?ticket={ticket}" if ticket else target, *fields)
        return connection.head()[0]


def token(name, **claims):
    return jwt.encode(within_an_hour({"sub": name, **claims}), SECRET, "HS256")


def hide(node, id, is_hidden):
    answer = node.api.put(f"/v1/presence/{id}", json={"hidden": is_hidden})
    assert answer.status_code == 200 and answer.json()["hidden"] == is_hidden, answer.text


def hidden(node, *ids):
    return [id for id in ids if node.api.get(f"/v1/presence/{id}").json()["hidden"]]


def publish_once(node):
    key = {"Idempotency-Key": "order-1", "Content-Type": "text/plain"}
    answer = node.api.post("/v1/publish/news", content="once", headers=key)
    assert answer.status_code == 200, answer.text
    return answer.json()["id"], answer.headers.get("Idempotent-Replayed")


def test_what_is_revoked_banned_issued_or_done_once_holds_on_nodes_that_start_from_a_snapshot(cluster):
    first = cluster.node("n1")
    tickets = {
        name: first.post("/v1/tickets", f'{{"ids":["{name}"],"ttl":"1h"}}')["ticket"]
        for name in ["alice", "bob", "carol"]
    }
    tokens = {"dora": token("dora"), "emil": token("emil", jti="stolen"), "fay": token("fay")}
    assert first.api.delete("/v1/sessions/alice?ban=1h").status_code == 200
    first.post("/v1/revocations", f'{{"id":"bob","before":{int(time.time()) + 1}}}')
    first.post("/v1/revocations", f'{{"id":"dora","before":{int(time.time()) + 1}}}')
    first.post("/v1/revocations", '{"jti":"stolen"}')
    for id, is_hidden in [("gil", True), (7, True), ("hal", True), ("hal", False)]:
        hide(first, id, is_hidden)
    published, replayed = publish_once(first)
    assert replayed is None
    first.subscribe("fan", "news")

    def check(node):
        assert status(node, ticket=tickets["alice"]) == 204
        assert status(node, ticket=tickets["bob"]) == 401
        assert status(node, ticket=tickets["carol"]) == 200
        assert status(node, token=tokens["dora"]) == 401
        assert status(node, token=tokens["emil"]) == 401
        assert status(node, token=tokens["fay"]) == 200
        assert hidden(node, "gil", 7, "hal") == ["gil", 7]
        assert publish_once(node) == (published, "true")
        assert node.api.get("/v1/subscribers/news").json()["subscribers"] == ["fan"]

    check(first)
    fill_past(first, 20, cluster)
    # The log has lost all of it. One node has a directory, and one has none.
    second, third = cluster.node("n2"), cluster.node("n3", is_stored=False)
    for node in (second, third):
        assert "the graph starts from the snapshot" in node.log, node.log
        check(node)
    # A node that is started again with its own graph.
    cluster.stop(first)
    check(cluster.node("n1"))


def test_a_node_that_the_log_has_left_behind_ends_to_be_started_again(cluster):
    writer, behind = cluster.node("n1"), cluster.node("n2")
    behind.signal(signal.SIGSTOP)
    # More than the engine has sent before it waits for answers, and more than the log keeps.
    writer.subscribe("fan", "news")
    fill(writer, 20)
    fill_past(writer, cluster.state_of_log()[1], cluster)
    behind.signal(signal.SIGCONT)
    # EX_TEMPFAIL: each supervisor starts it again.
    assert behind.process.wait(timeout=60) == 75, behind.log
    assert "it continues from a snapshot" in behind.log.splitlines()[-1], behind.log
    cluster.running.remove(behind)
    behind.kill()
    again = cluster.node("n2")
    assert "the graph starts from the snapshot" in again.log, again.log
    assert again.api.get("/v1/subscribers/news").json()["subscribers"] == ["fan"]


PLACE = re.compile(
    r"the log of the cluster state ends at entry (\d+); this node is (\d+) entries behind, and reads from entry (\d+) on"
)


def place(node):
    """Where a node was in the log when it was started, as it says: end of the log, entries behind, the first one it reads."""
    [found] = PLACE.findall(node.log)
    return [int(number) for number in found]


def test_a_node_says_at_its_start_where_it_is_in_the_log_and_how_far_behind(cluster):
    first = cluster.node("n1")
    first.subscribe("fan", "news")

    def started(name):
        """A node that was started, with what it says; the end of the log is between what it was before and is since."""
        _, before, _ = cluster.state_of_log()
        node = cluster.node(name)
        end, behind, reads = place(node)
        assert before <= end <= cluster.state_of_log()[1]
        assert "this node has applied what was in the log" in node.log
        return node, end, behind, reads

    second, end, behind, reads = started("n2")
    assert (behind, reads) == (end, 1), "a new node has nothing of the log"
    _, before, _ = cluster.state_of_log()
    second.subscribe("other", "news")
    cluster.stop(second)
    until(lambda: len(first.api.get("/v1/cluster").json()["nodes"]) == 1, "it has left")
    for number in range(5):
        first.publish("news", str(number))
    _, end, behind, reads = started("n2")
    # It has what came before its last change, and that; events it reads again for its history.
    assert 5 <= behind < end - before, (end, behind, before)
    assert 1 <= reads <= end - behind + 1, (end, behind, reads)


def test_a_client_that_was_away_for_longer_than_the_log_reaches_back_is_told_so_at_every_node(cluster):
    first = cluster.node("n1")
    old = first.publish("rj", "old")["id"]
    fill_past(first, 20, cluster)
    recent = first.publish("rj", "recent")["id"]
    first.publish("rj", "last")
    identity = f"Authorization: Bearer {token('rj')}"

    def check(node):
        with Sse(node, "rj", identity, f"Last-Event-ID: {old}") as stream:
            kind, data, _ = stream.event()
            assert kind == "reset", (kind, data)
            assert json.loads(data) == {"reason": "expired", "from": old}
        with Sse(node, "rj", identity, f"Last-Event-ID: {recent}") as stream:
            assert stream.event()[:2] == ("message", "last")

    check(first)
    # Their histories have room for all that the log has, and are not full.
    second = cluster.node("n2", history="64MiB")
    assert "the graph starts from the snapshot" in second.log, second.log
    cluster.stop(first)
    for node in (second, cluster.node("n1", history="64MiB")):
        check(node)


def test_a_server_alone_keeps_revocations_bans_and_hidden_ids_over_a_kill(secret, tmp_path):
    flags = ["--data", tmp_path / "data", "--jwt-secret-file", secret, "--presence"]
    tokens = {"alice": token("alice"), "bob": token("bob"), "carol": token("carol", jti="stolen"), "dora": token("dora")}
    server = Server(*flags)
    try:
        assert server.api.delete("/v1/sessions/alice?ban=1h").status_code == 200
        assert server.api.delete("/v1/sessions/eve?ban=1s").status_code == 200
        server.post("/v1/revocations", f'{{"id":"bob","before":{int(time.time()) + 1}}}')
        server.post("/v1/revocations", '{"jti":"stolen"}')
        for id, is_hidden in [("gil", True), (7, True), ("hal", True), ("hal", False)]:
            hide(server, id, is_hidden)
        server.process.kill()
        server.process.wait()
        server.kill()
        server = Server(*flags)
        found = {name: status(server, token=it) for name, it in tokens.items()}
        assert found == {"alice": 204, "bob": 401, "carol": 401, "dora": 200}
        assert hidden(server, "gil", 7, "hal") == ["gil", 7]
        until(lambda: status(server, token=token("eve")) == 200, "a ban that is over")
        # A later token is good again.
        later = jwt.encode({**within_an_hour({"sub": "bob"}), "iat": int(time.time()) + 2}, SECRET, "HS256")
        assert status(server, token=later) == 200
    finally:
        server.kill()


def test_of_two_nodes_with_one_name_one_goes_on(cluster):
    first = cluster.node("n1")
    flags = [*cluster.flags, "--data", cluster.directory / "other", "--node", "n1"]
    refused = encke("serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", *flags)
    assert refused.returncode == 1 and "has the name n1 and is running" in refused.stderr, refused.stderr
    assert "clients are served" not in refused.stderr, refused.stderr
    assert first.publish("news", "hello")["nodes"] == 1
    # A configuration may be checked while its node runs.
    assert encke("serve", "--check-config", *flags).returncode == 0
    # One that stands still says nothing when it is asked. When it goes on, the log tells both which of them came first.
    first.signal(signal.SIGSTOP)
    second = Server(*flags, workers=1)
    cluster.running.append(second)
    first.signal(signal.SIGCONT)
    nodes = [first, second]
    until(lambda: any(node.process.poll() is not None for node in nodes), "one of them ends")
    [ended] = [node for node in nodes if node.process.poll() is not None]
    assert ended.process.returncode == 1 and "has the name n1 and is running" in ended.log.splitlines()[-1], ended.log
    [left] = [node for node in nodes if node is not ended]
    until(lambda: left.publish("news", "hello")["nodes"] == 1, "it is alone")
    assert left.process.poll() is None and not left.stats()["draining"], left.log
    # Its place is free when it has ended, also at once after a kill.
    left.process.kill()
    left.process.wait()
    assert cluster.node("n1").publish("news", "hello")["nodes"] >= 1
