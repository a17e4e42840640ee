"""Erlang nodes beside a cluster of two nodes of Encke: names and logins move when the Encke node that they are at is killed."""

import contextlib
import shutil
import subprocess

import pytest

from support.erlang import CLIENTS, Cluster
from support.link import Links
from support.nats import Nats
from support.wait import until

pytestmark = pytest.mark.skipif(not shutil.which("escript"), reason="harness/tests/setup installs Erlang")

ONE, TWO = "encke1@127.0.0.1", "encke2@127.0.0.1"
NAMES = "[case global:whereis_name(Name) of undefined -> none; Pid -> node(Pid) end || Name <- [router, subsmanager]]"
EVENT = "receive {router_msg, Msg} -> Msg after 20000 -> nothing end"
NOTICE = "receive {router_gap, Lost} -> Lost after 20000 -> nothing end"


class Pair:
    """Two nodes of Encke that are one cluster, and that can be killed and started again."""

    def __init__(self, start, engine, directory, links):
        self.start = start
        # The one can be cut off from the engine.
        self.link = links.to(engine.servers[0].ports["client"].address)
        common = ["--log-replicas", "1", "--log-bytes", "64MiB", "--cluster-patience", "5s"]
        self.flags = {
            name: [*common, "--cluster", url, "--node", node, "--data", directory / node]
            for name, node, url in ((ONE, "n1", f"nats://{self.link.address}"), (TWO, "n2", engine.url))
        }
        self.erlang = Cluster(start, *self.flags[ONE], name=ONE)
        self.running = {ONE: self.erlang.server}
        self.run(TWO)
        subprocess.run(["erlc", "-o", self.erlang.path, CLIENTS / "encke.erl"], check=True)

    def run(self, name):
        self.running[name] = self.erlang.another(self.start, name, *self.flags[name])

    def kill(self, name):
        """`kill -9`."""
        self.running.pop(name).kill()

    def shell(self, name, nodes=None, is_alone=False):
        """A BEAM, in one cluster with the others, that keeps names and logins at the first that answers of these nodes."""
        shell = self.erlang.shell(name)
        for other in self.erlang.beams[:1]:
            if other is not shell.beam and not is_alone:
                # It learns the names of the others before it registers some itself.
                assert shell("net_adm:ping('beam1@127.0.0.1'), global:sync()") == "ok"
        if nodes:
            listed = ", ".join(f"'{node}'" for node in nodes)
            assert shell(f"element(1, encke:start_link([{listed}]))") == "ok"
            shell.until("encke:current()", f"'{nodes[0]}'")
        return shell

    def close(self):
        self.erlang.stop()


@pytest.fixture
def pair(start, tmp_path):
    with Nats(1) as engine, contextlib.closing(Links()) as links:
        pair = Pair(start, engine, tmp_path, links)
        try:
            yield pair
        finally:
            pair.close()
            # Before the engine, which they need to leave their cluster.
            for server in pair.running.values():
                server.stop()


def called(shell, subject, text):
    """Publishes through the global name, wherever that is; what the call returns."""
    return shell(f'gen_server:call(global:whereis_name(router), {{send, {subject}, "{text}"}}, 20000)')


def both(name):
    return f"['{name}','{name}']"


def test_names_and_logins_move_when_their_node_is_killed_and_move_again(pair):
    beam = pair.shell("beam1", [ONE, TWO])
    beam.until(NAMES, both(ONE))
    assert beam(f"encke:login('{ONE}', alice, self(), [gap])") == "ok"
    assert beam("gen_server:call(global:whereis_name(subsmanager), {add_subscriptions, [{alice, rj}]})") == "ok"
    assert (called(beam, "rj", "first"), beam(EVENT)) == ("{ok,1}", '"first"')
    for dead, alive in ((ONE, TWO), (TWO, ONE)):
        pair.kill(dead)
        beam.until(NAMES, both(alive))
        assert beam("encke:current()") == f"'{alive}'"
        # Something may have been lost while nobody had the login.
        assert beam(NOTICE) == "unknown"
        assert (called(beam, "rj", "next"), beam(EVENT)) == ("{ok,1}", '"next"')
        # Functions that are told of the dead node use the other one.
        assert beam(f"encke:send('{dead}', alice, own)") == "{ok,1}"
        assert beam(EVENT) == "own"
        # The original term of an id is at the node that was told of it.
        listed = "[alice]" if alive == ONE else '[<<"alice">>]'
        assert beam("gen_server:call(global:whereis_name(subsmanager), {get_subscribers, rj})") == listed
        pair.run(dead)
    # Names stay where they are when another node of the list comes back.
    assert beam(NAMES) == both(ONE)
    assert beam(f"encke:logout('{TWO}')") == "ok"
    assert called(beam, "rj", "last") == "{ok,0}"


def test_a_name_moves_for_all_of_several_beams_whichever_of_them_had_registered_it(pair):
    first, second = pair.shell("beam1", [ONE, TWO]), pair.shell("beam2", [TWO, ONE])
    # One that does not have the module: it knows the names alone.
    third = pair.shell("beam3")
    for shell in (first, second, third):
        shell.until(NAMES, both(ONE))
    assert first(f"encke:login('{ONE}', alice, self())") == "ok"
    # It is used, though another one has the names.
    assert second(f"encke:login('{ONE}', bob, self())") == "ok"
    assert pair.running[TWO].sessions("bob") and not pair.running[ONE].sessions("bob")
    for dead, alive in ((ONE, TWO), (TWO, ONE)):
        pair.kill(dead)
        for shell in (first, second, third):
            shell.until(NAMES, both(alive))
        for shell, name in ((first, "alice"), (second, "bob")):
            shell.until("encke:current()", f"'{alive}'")
            assert (called(third, name, "moved"), shell(EVENT)) == ("{ok,1}", '"moved"')
        pair.run(dead)


def test_a_beam_whose_encke_lives_takes_the_name_over_from_one_whose_encke_is_killed(pair):
    """Each knows its own Encke alone."""
    first, second = pair.shell("beam1", [ONE]), pair.shell("beam2", [TWO])
    for shell in (first, second):
        shell.until(NAMES, both(TWO))
    pair.kill(TWO)
    for shell in (first, second):
        shell.until(NAMES, both(ONE))
    assert second("encke:current()") == "undefined"
    assert called(second, "nobody", "hello") == "{ok,0}"


def test_names_that_one_beam_gives_up_are_registered_by_another(pair):
    first, second = pair.shell("beam1", [ONE, TWO]), pair.shell("beam2", [TWO, ONE])
    for shell in (first, second):
        shell.until(NAMES, both(ONE))
    assert first("encke:stop()") == "ok"
    for shell in (first, second):
        shell.until(NAMES, both(TWO))


def test_beams_that_meet_with_the_names_at_different_nodes_agree(pair):
    first, second = pair.shell("beam1", [ONE, TWO]), pair.shell("beam2", [TWO, ONE], is_alone=True)
    first.until(NAMES, both(ONE))
    second.until(NAMES, both(TWO))
    assert second("net_adm:ping('beam1@127.0.0.1')") == "pong"
    until(lambda: "none" not in (found := first(NAMES)) and found == second(NAMES), "they have the same names")
    assert called(first, "nobody", "hello") == "{ok,0}"


def test_names_and_logins_leave_a_node_that_has_lost_its_cluster_and_do_not_come_twice_when_it_is_back(pair):
    beam = pair.shell("beam1", [ONE, TWO])
    assert beam(f"encke:login('{ONE}', alice, self(), [gap])") == "ok"
    assert (called(beam, "alice", "first"), beam(EVENT)) == ("{ok,1}", '"first"')
    pair.link.cut()
    beam.until(NAMES, both(TWO))
    assert (beam("encke:current()"), beam(NOTICE)) == (f"'{TWO}'", "unknown")
    assert (called(beam, "alice", "next"), beam(EVENT)) == ("{ok,1}", '"next"')
    pair.link.heal()
    until(lambda: pair.running[ONE].api.get("/readyz").is_success, "the node is ready again")
    assert not pair.running[ONE].sessions("alice")
    assert (called(beam, "alice", "last"), beam(EVENT)) == ("{ok,1}", '"last"')
    assert beam("receive {router_msg, Twice} -> Twice after 0 -> nothing end") == "nothing"
    assert beam(NAMES) == both(TWO)
