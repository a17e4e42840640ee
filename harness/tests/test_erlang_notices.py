"""What Erlang processes are told besides events: who is online, and that events were lost. And what the webhook
is told of them."""

import json
import shutil
import struct

import pytest

from support.erlang import Cluster, atom, cluster, pair
from support.http import Ndjson, Sse
from support.presence import Known
from support.receiver import Receiver, new_secret, write_secrets
from support.server import Server
from support.wait import until

pytestmark = pytest.mark.skipif(not shutil.which("escript"), reason="harness/tests/setup installs Erlang")

PRESENCE = ["--presence", "--presence-delay", "1s"]


@pytest.fixture(scope="module")
def watched():
    """A cluster whose server keeps who is online."""
    servers = []

    def start(*flags, **options):
        servers.append(Server("--drain-timeout", "5s", *flags, **options))
        return servers[-1]

    one = Cluster(start, *PRESENCE)
    with Ndjson(one.server, "first?presence=1") as first:
        while b'"presence"' not in first.line():
            pass
    yield one
    for server in servers:
        server.stop()
    one.stop()


def notice(stream):
    """The next notice of presence that is news."""
    known = stream.__dict__.setdefault("known", Known())
    while True:
        found = json.loads(stream.line())
        if found.get("type") in ("presence", "online", "offline") and known.is_news(found["type"], found["data"]):
            return {key: found[key] for key in ("type", "data")}


def login(options, me="alice"):
    return f"ok = call(router, {{login, {me}, self(), [{options}]}})"


def test_a_process_is_told_who_of_those_whom_it_follows_is_online(watched):
    """By the terms that named them. A short absence is not told, and what it does not follow neither."""
    beam = watched.beam(
        f"""
        ok = call(subsmanager, {{add_subscriptions, [{{fan, {{star, 1}}}}, {{fan, rj}}]}}),
        {login("presence", "fan")},
        receive {{presence_snapshot, [], whole}} -> say(nobody) end,
        Others = fun(Others, Left) -> receive
            {{presence_snapshot, _, _}} -> Others(Others, Left);
            Msg when Left > 1 -> say(Msg), Others(Others, Left - 1);
            Msg -> say(Msg)
        end end,
        Others(Others, 4)
        """,
        name="fan",
    )
    assert beam.stdout.readline() == "nobody\n"
    with Sse(watched.server, "somebody-else"), Sse(watched.server, "%7Bstar%2C1%7D"):
        assert beam.stdout.readline() == "{presence,{star,1},online}\n"
        for _ in range(3):
            with Sse(watched.server, "rj"):
                until(lambda: watched.server.sessions("rj"), "logged in")
        assert beam.stdout.readline() == "{presence,rj,online}\n"
        assert beam.stdout.readline() == "{presence,rj,offline}\n"
        assert watched.server.publish("rj", "hello")["written"] == 1
        assert beam.stdout.readline() == '{router_msg,<<"hello">>}\n'
    assert beam.wait(30) == 0


def test_processes_are_online_for_browsers_and_for_each_other(watched):
    watched.server.subscribe("viewer", "worker_process")
    with Ndjson(watched.server, "viewer?presence=1") as viewer:
        assert notice(viewer)["data"]["online"] == []
        beam = watched.beam(
            f"{login('', 'worker_process')}, say(ready), receive stop -> ok end", name="worker"
        )
        assert beam.stdout.readline() == "ready\n"
        told = watched.beam(
            f"""
            ok = call(subsmanager, {{add_subscriptions, [{{colleague, worker_process}}]}}),
            until(fun() -> {login("presence", "colleague")}, receive
                {{presence_snapshot, [], whole}} -> ok = call(router, {{logout, self()}}), false;
                {{presence_snapshot, [worker_process], whole}} -> true
            end end),
            say(seen),
            receive {{presence, Who, What}} -> say({{Who, What}}) end
            """,
            name="colleague",
        )
        assert told.stdout.readline() == "seen\n"
        assert notice(viewer) == {"type": "online", "data": {"id": "worker_process"}}
        beam.kill()
        beam.wait()
        assert told.stdout.readline() == "{worker_process,offline}\n"
        assert notice(viewer) == {"type": "offline", "data": {"id": "worker_process"}}


def test_who_hides_is_not_told_and_who_does_not_ask_hears_nothing(watched):
    """A stranger: a process that follows an id which does not want to be seen."""
    answer = watched.server.api.put("/v1/presence/hidden_one", json={"hidden": True})
    assert answer.is_success, answer.text
    beam = watched.beam(
        f"""
        ok = call(subsmanager, {{add_subscriptions, [{{nosy, hidden_one}}, {{nosy, open_one}}]}}),
        {login("presence", "nosy")},
        receive {{presence_snapshot, [], whole}} -> ok end,
        % The subscriptions were made just before: there may be another one.
        receive {{presence_snapshot, [], whole}} -> ok after 300 -> ok end,
        Main = self(),
        Pid = spawn(fun() -> {login("gap", "nosy")}, Main ! ready, receive M -> Main ! {{quiet, M}} end end),
        receive ready -> say({{ready, is_pid(Pid)}}) end,
        receive Told -> say(Told) end,
        receive {{router_msg, Msg}} -> say(Msg) end,
        receive {{quiet, First}} -> say(First) end
        """,
        name="nosy",
    )
    assert beam.stdout.readline() == "{ready,true}\n"
    with Sse(watched.server, "hidden_one"), Sse(watched.server, "open_one"):
        assert beam.stdout.readline() == "{presence,open_one,online}\n"
        watched.server.publish("nosy", "x")
        assert beam.stdout.readline() == '<<"x">>\n'
        assert beam.stdout.readline() == '{router_msg,<<"x">>}\n'
    assert beam.wait(30) == 0


def test_without_presence_a_process_that_asks_for_it_is_told_so(start):
    with cluster(start) as one:
        said = one.run(
            """
            {error, Why} = call(router, {login, alice, self(), [presence]}),
            say(Why),
            {error, Unknown} = call(router, {login, alice, self(), [presents]}),
            say(Unknown),
            say(call(router, {send, alice, x}))
            """
        )
        assert "--presence" in said[0] and "link, gap and presence" in said[1]
        assert said[2] == "{ok,0}"


def read_packets(peer, count, wanted):
    """Reads packets until one has `wanted`; returns whether events came before and after it."""
    for _ in range(count):
        (size,) = struct.unpack(">I", peer.read(4))
        packet = peer.read(size)
        if wanted in packet:
            return packet
    raise AssertionError(f"{wanted} did not come")


def test_a_process_whose_node_did_not_read_is_told_how_much_it_has_lost(start):
    with cluster(start, "--history-bytes", "0") as one:
        peer = one.peer(name="deaf@127.0.0.1")
        options = b"\x6c\x00\x00\x00\x01" + atom(b"gap") + b"\x6a"
        login = b"\x68\x04" + atom(b"login") + atom(b"deaf") + peer.pid() + options
        peer.send(pair(atom(b"$gen_cast"), login), to=b"router")
        until(lambda: one.server.sessions("deaf"), "logged in")
        event, shed = "x" * 60_000, 0
        while shed < 3:
            shed += one.server.publish("deaf", event)["shed"]
        gap = read_packets(peer, 2000, b"router_gap")
        assert gap.endswith(atom(b"router_gap") + bytes([97, shed])), gap[-40:]
        assert one.server.publish("deaf", "after")["shed"] == 0
        assert b"after" in read_packets(peer, 1, b"router_msg")
        peer.close()


def test_the_webhook_is_told_of_processes_with_the_reason_of_their_end(start, tmp_path):
    secret = new_secret()
    secret_file = write_secrets(tmp_path / "webhook.secret", secret)
    with Receiver(secret) as receiver:
        hook = ["--webhook-url", receiver.url, "--webhook-secret-file", secret_file]
        with cluster(start, *hook, "--webhook-events", "connects,disconnects") as one:
            beam = one.beam(
                """
                ok = call(router, {login, hooked, self()}),
                ok = call(router, {login, hooked_too, self()}),
                ok = call(router, {logout, self()}),
                Pid = spawn(fun() -> receive stop -> ok end end),
                ok = call(router, {login, mortal, Pid}),
                exit(Pid, kill),
                ok = call(router, {login, stays, self()}),
                say(ready),
                receive stop -> ok end
                """,
                name="hooked",
            )
            assert beam.stdout.readline() == "ready\n"
            for name in ("hooked", "mortal"):
                receiver.until_about(name, "connect", "disconnect")
            beam.kill()
            receiver.until_about("stays", "connect", "disconnect")
            ended = receiver.of_type("disconnect")
            reasons = {event["id"]: event["reason"] for event in ended}
            assert reasons == {"hooked": "peer", "mortal": "peer", "stays": "reset"}
            assert ended[0]["transport"] == "erlang" and ended[0]["ids"] == ["hooked", "hooked_too"]
