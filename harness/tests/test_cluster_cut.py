"""Parts of a cluster that cannot reach each other for longer than an election takes, an engine that has lost its majority, and
a log that becomes another one under nodes that run."""

import asyncio
import time

import httpx
import nats
import pytest

from support.http import PLAIN, Sse
from support.link import Links
from support.nats import Nats
from support.server import Server
from support.wait import until

# A node is not ready, and tries another server, after 10 s without a leader.
LEADERLESS = 10.0


class Node:
    """A node that reaches each server of the engine by a link of its own."""

    def __init__(self, engine, links, name, *flags, is_stored=False, directory=None):
        self.links = {server.name: links.to(server.ports["client"].address) for server in engine.servers}
        urls = ",".join(f"nats://{link.address}" for link in self.links.values())
        stored = ["--data", directory / name] if is_stored else ["--memory"]
        flags = ["--cluster", urls, "--cluster-name", "cut", "--node", name, "--log-bytes", "64MiB", *stored, *flags]
        self.server = Server(*flags, "--drain-timeout", "1s", "--retry", "1s", "--event-bytes", "64KiB", workers=1)

    def ready(self):
        return httpx.get(self.server.control_url + "/readyz", **PLAIN).status_code == 200

    def status(self):
        return self.server.api.get("/v1/cluster").json()

    def connected_to(self):
        return self.status()["engine"]["server"]

    def publish(self, subject, data, timeout=30.0):
        url = f"{self.server.control_url}/v1/publish/{subject}"
        return httpx.post(url, content=data, timeout=timeout, **PLAIN)

    def publish_surely(self, subject, data):
        until(lambda: self.publish(subject, data).status_code == 200, f"{data} is published")

    def connect_to(self, name):
        """Makes the node leave all servers but one, and lets it reach all again."""
        others = [link for server, link in self.links.items() if server != name]
        for link in others:
            link.cut()
        until(lambda: self.connected_to() == name, f"the node is at {name}", pause=0.1)
        for link in others:
            link.heal()


@pytest.fixture
def cluster():
    links, nodes = Links(), []
    try:
        with Nats(3, links=links) as engine:

            def node(name, *flags, **options):
                nodes.append(Node(engine, links, name, *flags, **options))
                return nodes[-1]

            try:
                yield engine, node
            finally:
                for each in nodes:
                    if each.server.api:
                        each.server.kill()
    finally:
        links.close()


def cut(engine, name):
    """The server reaches its clients, and none of the other servers."""
    for link in engine.links_of(engine.by_name(name)):
        link.cut()


def heal(engine, name):
    for link in engine.links_of(engine.by_name(name)):
        link.heal()
    engine.until_healthy()


def consumer_server(engine):
    """The server that has the newest consumer of the log, in its memory: that of the node that started last."""
    made = {}
    for server in engine.servers:
        accounts = (server.monitor("jsz?accounts=1&streams=1&consumers=1") or {}).get("account_details", [])
        for stream in accounts[0]["stream_detail"] if accounts else []:
            for consumer in stream.get("consumer_detail") or []:
                if stream["name"] == "encke-cut":
                    made[consumer["created"]] = consumer["cluster"]["leader"]
    return made[max(made)] if made else None


def test_without_a_majority_writes_are_refused_at_once_and_streams_stay(cluster):
    engine, node = cluster
    nodes = [node(f"n{number}", "--cluster-patience", "5s") for number in (1, 2)]
    with Sse(nodes[0].server, "alice") as stream:
        nodes[1].publish_surely("alice", "before")
        assert stream.data() == "before"
        down = engine.servers[:2]
        for server in down:
            server.kill()
        began = time.monotonic()
        for each in nodes:
            until(lambda: not each.ready(), f"{each.server} is not ready")
        assert time.monotonic() - began > LEADERLESS - 1, "an election is waited for"
        for each in nodes:
            began = time.monotonic()
            answer = each.publish("alice", "nobody has this")
            assert (answer.status_code, "retry-after" in answer.headers) == (503, True), answer.text
            assert time.monotonic() - began < 5, "at once"
        # For longer than nodes are patient: no other node is a better one.
        until(lambda: nodes[0].status()["engine"]["leader_silent_seconds"] > LEADERLESS + 5, "it goes on like that", pause=0.2)
        for server in down:
            server.start()
        engine.until_healthy()
        for each in nodes:
            until(each.ready, "it is ready again")
        nodes[1].publish_surely("alice", "after")
        assert stream.data() == "after", "on the same stream"


def node_beside_its_consumer(engine, node):
    """A node that is connected to the server in whose memory its consumer is, and the name of the server."""
    for _ in range(50):
        reader = node("n1", "--cluster-patience", "60s")
        if consumer_server(engine) == reader.connected_to():
            break
        reader.server.kill()
    alone = reader.connected_to()
    reader.publish_surely("alice", "there")
    assert (reader.connected_to(), consumer_server(engine)) == (alone, alone)
    return reader, alone


def goes_on(engine, reader, alone, stream):
    """Publishes while the server `alone` is cut off, and again when it is not any more: the stream gets both events."""
    reader.publish_surely("alice", "after")
    assert stream.data() == "after"
    until(reader.ready, "it is ready")
    heal(engine, alone)
    reader.publish_surely("alice", "healed")
    # "after" comes twice if its outcome was unknown and it was published again.
    while (data := stream.data()) != "healed":
        assert data == "after"


# The consumer, whose server is cut off too, went on with heartbeats, and never had an entry.
def test_a_node_leaves_a_server_of_the_engine_that_is_cut_off_from_the_others(cluster):
    engine, node = cluster
    reader, alone = node_beside_its_consumer(engine, node)
    with Sse(reader.server, "alice") as stream:
        cut(engine, alone)
        until(lambda: reader.connected_to() not in (alone, None), "it is at another server", pause=0.2)
        goes_on(engine, reader, alone, stream)


# Publishes reach the leader, and are acknowledged, while the consumer has heartbeats only.
def test_a_node_leaves_a_server_that_passes_on_what_it_writes_and_gets_no_entries(cluster):
    engine, node = cluster
    reader, alone = node_beside_its_consumer(engine, node)
    with Sse(reader.server, "alice") as stream:
        for link in engine.links_of(engine.by_name(alone)):
            link.cut_consensus()
        goes_on(engine, reader, alone, stream)


def test_clients_of_a_node_that_reaches_no_leader_are_sent_elsewhere_while_others_go_on(cluster):
    engine, node = cluster
    lonely, other = node("n1", "--cluster-patience", "12s"), node("n2")
    lonely.publish_surely("alice", "before")
    alone = engine.servers[0].name
    lonely.connect_to(alone)
    if other.connected_to() == alone:
        other.connect_to(engine.servers[1].name)
    other.links[alone].cut()
    with Sse(lonely.server, "alice") as stream:
        other.publish_surely("alice", "both")
        assert stream.data() == "both"
        # The node and one server of the engine are on one side of a cut, all else on the other.
        for name, link in lonely.links.items():
            if name != alone:
                link.cut()
        cut(engine, alone)
        other.publish_surely("alice", "on the other side")
        until(lambda: not lonely.server.sessions("alice"), "its clients are told to go elsewhere")
        assert stream.event() is None, "the stream ends as at a drain"
    assert not lonely.ready()
    for link in [*lonely.links.values(), *other.links.values()]:
        link.heal()
    heal(engine, alone)
    until(lonely.ready, "it is ready again")
    with Sse(lonely.server, "alice") as stream:
        other.publish_surely("alice", "after")
        assert stream.data() == "after"


def test_nodes_whose_log_is_made_anew_end_with_a_sentence(cluster, tmp_path):
    engine, node = cluster
    stored, in_memory = node("n1", is_stored=True, directory=tmp_path), node("n2")
    with Sse(stored.server, "alice") as stream:
        in_memory.publish_surely("alice", "old")
        assert stream.data() == "old"
        asyncio.run(remove_stream(engine, "encke-cut"))
        # Whoever starts first makes a new one.
        third = node("n3")
        assert stream.event() is None, "the stream ends as at a drain"
    for each, code in ((stored, 1), (in_memory, 75)):
        process = each.server.process
        until(lambda: process.poll() is not None, "it ends")
        assert process.returncode == code, each.server.log
        last = each.server.log.splitlines()[-1]
        assert "was made anew" in last and "empty data directory" in last, each.server.log
    third.publish_surely("alice", "new")


async def remove_stream(engine, name):
    client = await nats.connect(engine.urls)
    await client.jetstream().delete_stream(name)
    await client.close()
