"""What peers can do to the Erlang node that have not proved that they know the cookie, or that make it dial."""

import contextlib
import os
import shutil
import socket
import time

import pytest

from support.erlang import atom, cluster, pair
from support.wait import until

pytestmark = pytest.mark.skipif(not shutil.which("escript"), reason="harness/tests/setup installs Erlang")


def crowded(one):
    return one.figures()["erlang_refused"]["crowded"]


def threads(server):
    return len(os.listdir(f"/proc/{server.pid}/task"))


def test_six_hundred_silent_strangers_keep_no_node_out(start):
    with cluster(start) as one, contextlib.ExitStack() as silent:
        before = one.server.descriptors()
        for _ in range(600):
            silent.enter_context(socket.create_connection(one.address))
        with contextlib.closing(one.peer(name="honest@127.0.0.1")):
            until(lambda: one.figures()["erlang_nodes"] == 1, "a node that proves itself connected")
            assert one.run("say(net_adm:ping(N))") == ["pong"]
        assert crowded(one) >= 600 - 64
        said = [line for line in one.server.log.splitlines() if "too many nodes are connected" in line]
        assert len(said) == 1, said
        assert one.server.descriptors() - before < 100


def test_a_stranger_with_the_name_of_a_wanted_node_does_not_keep_that_out(start):
    """It says the name and nothing more, again whenever it is cut off."""
    with cluster(start, "--erlang-connect", "wanted@127.0.0.1") as one:
        strangers = [one.peer(name="wanted@127.0.0.1", shake=False) for _ in range(3)]
        for stranger in strangers:
            stranger.say_name()
            stranger.read_short()
        beam = one.beam(
            "until(fun() -> nodes(hidden) =:= [N] end), say(there), receive stop -> ok end",
            name="wanted",
        )
        assert beam.stdout.readline() == "there\n"
        until(lambda: one.figures()["erlang_nodes"] == 1, "connected")
        # One that declares the node dead proves nothing, and ends nothing.
        late = one.peer(name="wanted@127.0.0.1", shake=False)
        late.say_name()
        assert late.read_short() == b"salive"
        late.write_short(b"strue")
        with pytest.raises((EOFError, ConnectionResetError)):
            late.prove(late.read_short(), cookie="another")
            late.read_short()
        assert one.figures()["erlang_nodes"] == 1
        assert one.run("say(net_adm:ping(N))", name="other") == ["pong"]
        for stranger in (*strangers, late):
            stranger.close()


def test_logins_of_processes_of_unknown_nodes_take_few_threads_and_dials(start):
    """An epmd that does not answer keeps each dial waiting."""
    with cluster(start) as one, contextlib.ExitStack() as sockets:
        deaf = sockets.enter_context(socket.create_server(("127.0.0.2", one.epmd.port), backlog=4096))
        before = threads(one.server), one.server.descriptors()
        peer = one.peer(name="many@127.0.0.1")
        for number in range(4000):
            pid = b"\x58" + atom(b"n%d@127.0.0.2" % number) + bytes([0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 77])
            login = b"\x68\x03" + atom(b"login") + atom(b"alice") + pid
            peer.send(pair(atom(b"$gen_cast"), login), to=b"router")
        until(lambda: crowded(one) >= 4000 - 2 * 64, "the rest refused")
        assert threads(one.server) - before[0] <= 64
        assert one.server.descriptors() - before[1] <= 128
        # Others feel nothing.
        said = one.run("say(call(router, {login, bob, self()})), say(call(router, {send, bob, x}))")
        assert said == ["ok", "{ok,1}"]
        until(lambda: not one.server.sessions("alice"), "the dials given up", patience=30)
        deaf.close()
        peer.close()


def test_a_long_list_that_never_ends_holds_up_nobody(start):
    with cluster(start) as one:
        peers = [one.peer(name=f"slow{number}@127.0.0.1") for number in range(3)]
        head = b"\x68\x02" + atom(b"$gen_cast") + b"\x68\x02" + atom(b"add_subscriptions")
        head += b"\x6c\x7f\xff\xff\xff" + pair(b"\x61\x01", b"\x61\x02") * 1000
        for peer in peers:
            for sequence in range(100):
                number = (1000).to_bytes(8, "big")
                content = b"\x83\x45" + sequence.to_bytes(8, "big") + number + b"\x00"
                peer.packet(content + peer.control(b"subsmanager") + head)
        until(lambda: one.figures()["erlang_refused"]["too_large"] >= 300 - 8, "the rest refused")
        began = time.monotonic()
        assert one.run("say(call(subsmanager, {add_subscriptions, [{1, x}]}))") == ["ok"]
        assert time.monotonic() - began < 30
        for peer in peers:
            peer.close()
