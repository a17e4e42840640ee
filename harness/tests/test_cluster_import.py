"""`encke cluster import`: a cluster begins with the graph of one machine, and one machine goes on with that of a cluster."""

import asyncio
import dataclasses
import json
import subprocess

import nats
import pytest
from nats.js.api import StreamConfig

from support.http import Sse
from support.nats import Nats
from support.program import begin, encke
from support.wait import until

EDGES = 100_000
FREE = ("--listen", "127.0.0.1:0", "--control", "127.0.0.1:0")


@pytest.fixture(scope="module")
def engine():
    with Nats(1) as engine:
        yield engine


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """A data directory with the graph of a single machine: 1,000 users by number, who subscribe to 100 subjects by name."""
    directory = tmp_path_factory.mktemp("old")
    edges = directory / "edges.txt"
    edges.write_text("".join(f"{user} subject-{number}\n" for user in range(1000) for number in range(100)))
    done = encke("friends", "load", edges, "--data", directory / "data")
    assert done.returncode == 0, done.stderr
    return directory / "data"


def of_cluster(engine, name):
    return ["--cluster", engine.url, "--cluster-name", name, "--log-replicas", "1", "--log-bytes", "64MiB"]


def imports(engine, name, data, *flags):
    return encke("cluster", "import", "--data", data, *of_cluster(engine, name), *flags)


def exported(data):
    done = encke("graph", "export", "--data", data)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ask(engine, act):
    """Does something with the engine as another client of it."""

    async def go():
        client = await nats.connect(engine.url)
        try:
            return await act(client.jetstream())
        finally:
            await client.close()

    return asyncio.run(go())


def test_a_cluster_begins_with_a_graph_and_one_machine_goes_on_with_it(engine, old, start, tmp_path):
    flags = of_cluster(engine, "whole")
    # Whoever tries the obvious is told what to do, and has spoilt nothing.
    refused = encke("serve", *FREE, *flags, "--node", "n1", "--data", old)
    assert refused.returncode == 1 and "encke cluster import" in refused.stderr, refused.stderr
    checked = imports(engine, "whole", old, "--check", "--json")
    assert checked.returncode == 0, checked.stderr
    assert json.loads(checked.stdout) == {"cluster": "whole", "log": "empty", "edges": EDGES, "names": 100}
    done = imports(engine, "whole", old, "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["edges"], said["new"]) == (EDGES, True)
    again = json.loads(imports(engine, "whole", old, "--json").stdout)
    assert (again["snapshot"], again["new"]) == (said["snapshot"], False)

    nodes = [start(*flags, "--node", f"n{n}", "--data", tmp_path / f"n{n}") for n in (1, 2, 3)]
    # One without a directory begins with the same graph.
    nodes.append(start(*flags, "--node", "n4", "--memory"))
    for node in nodes:
        assert node.stats()["graph"]["edges"] == EDGES
        assert node.api.get("/v1/subscribers/subject-7?limit=3").json()["subscribers"] == [0, 1, 2]
    with Sse(nodes[1], "999") as stream:
        receipt = nodes[0].publish("subject-99", "hello")
        assert (receipt["subscribers"], receipt["online"]) == (1001, 1), receipt
        assert stream.data() == "hello"
    assert nodes[2].subscribe("new", "subject-1")["added"] == 1
    assert nodes[0].api.get("/v1/cluster").json()["epoch"] == said["epoch"]

    refused = imports(engine, "whole", old)
    assert refused.returncode == 1 and "has entries already" in refused.stderr, refused.stderr

    # And back: the directory of a node is one of a single server.
    until(lambda: nodes[0].stats()["graph"]["edges"] == EDGES + 1, "the change is everywhere")
    nodes[0].stop()
    assert sorted(exported(tmp_path / "n1").splitlines()) == sorted([*exported(old).splitlines(), "new subject-1"])
    single = start("--data", tmp_path / "n1")
    assert single.publish("subject-1", "alone")["subscribers"] == 1002
    assert single.subscribe("newer", "subject-1")["added"] == 1
    # What it has changed is not in the log of the cluster: it may not come back as a node.
    single.stop()
    refused = encke("serve", *FREE, *flags, "--node", "n1", "--data", tmp_path / "n1")
    assert refused.returncode == 1 and "do not come from a cluster" in refused.stderr, refused.stderr


def test_an_import_that_is_broken_off_is_taken_for_none_and_can_be_repeated(engine, old, start, tmp_path):
    flags = of_cluster(engine, "broken")
    node = [*flags, "--node", "n1", "--data", tmp_path / "n1"]
    for seconds in (0.05, 0.2, 0.35, 0.5):
        running = begin("cluster", "import", "--data", old, *flags)
        try:
            running.wait(seconds)
        except subprocess.TimeoutExpired:
            running.kill()
        running.communicate()

    async def take_the_manifest_away(stream):
        """What is left by an import that is killed before its last step."""
        await stream.purge_stream("OBJ_encke-broken-snapshots", subject="$O.encke-broken-snapshots.M.>")

    assert imports(engine, "broken", old).returncode == 0
    ask(engine, take_the_manifest_away)
    refused = encke("serve", *FREE, *node)
    assert refused.returncode == 1 and "`encke cluster import` again" in refused.stderr, refused.stderr
    done = imports(engine, "broken", old, "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["new"], (done.stdout, done.stderr)
    assert start(*node).stats()["graph"]["edges"] == EDGES


def test_only_the_graph_that_is_there_is_imported_again(engine, old, tmp_path):
    other = tmp_path / "other"
    (tmp_path / "edges").write_text("1 2\n")
    assert encke("friends", "load", tmp_path / "edges", "--data", other).returncode == 0
    assert imports(engine, "other", other).returncode == 0
    refused = imports(engine, "other", old)
    assert refused.returncode == 1 and "not the one of this data directory" in refused.stderr, refused.stderr
    # What the engine has is compared, and not only its name.
    async def damage(stream):
        name = "OBJ_encke-other-snapshots"
        info = await stream.stream_info(name, subjects_filter="$O.encke-other-snapshots.C.>")
        [pieces] = [subject for subject in info.state.subjects if subject.endswith("-graph")]
        await stream.purge_stream(name, subject=pieces)
        await stream.publish(pieces, b"something else")

    ask(engine, damage)
    refused = imports(engine, "other", other)
    assert refused.returncode == 1 and "not the one" in refused.stderr, refused.stderr


def test_a_copy_that_the_engine_does_not_give_back_is_noticed_before_any_node_can_start_with_it(engine, old, tmp_path):
    name = "encke-lost-snapshots"
    config = StreamConfig(
        name=f"OBJ_{name}", subjects=[f"$O.{name}.C.>", f"$O.{name}.M.>"], allow_rollup_hdrs=True, allow_direct=True,
        max_msgs_per_subject=1,
    )  # fmt: skip

    # An engine that acknowledges each piece of the copy, and keeps the last one only.
    async def forget_pieces(stream):
        await stream.add_stream(config)

    async def keep_them(stream):
        await stream.update_stream(dataclasses.replace(config, max_msgs_per_subject=-1))

    ask(engine, forget_pieces)
    refused = imports(engine, "lost", old)
    assert refused.returncode == 1 and "differs from the one sent" in refused.stderr, refused.stderr
    node = encke("serve", *FREE, *of_cluster(engine, "lost"), "--node", "n1", "--data", tmp_path / "n1")
    assert node.returncode == 1 and "`encke cluster import` again" in node.stderr, node.stderr
    ask(engine, keep_them)
    assert imports(engine, "lost", old).returncode == 0


def test_what_cannot_be_imported_is_refused_and_nothing_is_made(engine, start, tmp_path):
    flags = of_cluster(engine, "none")
    missing = encke("cluster", "import", "--data", tmp_path / "nothing", *flags)
    assert missing.returncode == 1 and "there is no data directory" in missing.stderr, missing.stderr
    (tmp_path / "empty").mkdir(mode=0o700)
    empty = encke("cluster", "import", "--data", tmp_path / "empty", *flags)
    assert empty.returncode == 1 and "there is no graph" in empty.stderr, empty.stderr
    server = start("--data", tmp_path / "used")
    used = encke("cluster", "import", "--data", tmp_path / "used", *flags)
    assert used.returncode == 1 and f"process id {server.pid}" in used.stderr, used.stderr
    misused = encke("cluster", "import", "--data", tmp_path / "used")
    assert misused.returncode == 2 and "set --cluster" in misused.stderr, misused.stderr
    server.stop()
    away = encke("cluster", "import", "--data", tmp_path / "used", "--cluster", "nats://127.0.0.1:1")
    assert away.returncode == 1 and "nats-server" in away.stderr, away.stderr

    async def streams(stream):
        return [info.config.name for info in await stream.streams_info()]

    assert not [name for name in ask(engine, streams) if "none" in name]
