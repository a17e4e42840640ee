"""The harness of the engine: its servers start, fail and come back as the tests of the cluster need it."""

import os
import socket
import subprocess

import pytest

from support.link import Links
from support.nats import NEWEST, OLDEST, Nats
from support.ports import Port
from support.wait import until


def version(binary):
    return subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout


def test_the_newest_and_the_oldest_release_are_there():
    assert "v2.15." in version(NEWEST)
    assert "v2.10." in version(OLDEST)


@pytest.mark.parametrize("binary", [NEWEST, OLDEST], ids=["newest", "oldest"])
def test_a_single_server_answers_and_is_gone_afterwards(binary):
    with Nats(1, binary) as nats:
        [server] = nats.servers
        host, port = server.ports["client"].address.split(":")
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            assert connection.recv(5) == b"INFO "
        assert server.monitor("varz")["jetstream"]["config"]["sync_always"] is True
        directory = nats.directory.name
    assert server.process.returncode is not None
    assert not os.path.exists(directory)


def test_three_servers_elect_a_leader_again_when_it_is_killed_or_stopped():
    with Nats(3) as nats:
        first = nats.meta_leader()
        first.kill()
        assert not first.is_running
        second = until(nats.meta_leader, "another leader", pause=0.1)
        assert second is not first
        first.start()
        nats.until_healthy()
        second.pause()
        third = until(nats.meta_leader, "a third leader", pause=0.1)
        assert third is not second
        second.resume()
        nats.until_healthy()
        # A paused server ends with the others.
        third.pause()
    assert not any(server.is_running for server in nats.servers)


def test_a_link_that_is_cut_carries_nothing_until_it_is_healed():
    links = Links()
    try:
        with Port() as port, socket.create_server(("127.0.0.1", port.number)) as server:
            link = links.to(port.address)
            host, number = link.address.split(":")
            with socket.create_connection((host, int(number)), timeout=10) as near:
                far, _ = server.accept()
                with far:
                    near.sendall(b"one")
                    assert far.recv(3) == b"one"
                    link.cut()
                    until(lambda: link.is_cut, "cut")
                    near.sendall(b"two")
                    far.settimeout(0.3)
                    with pytest.raises(TimeoutError):
                        far.recv(3)
                    link.heal()
                    far.settimeout(10)
                    assert far.recv(3) == b"two"
                    far.close()
                    assert near.recv(1) == b""
    finally:
        links.close()
