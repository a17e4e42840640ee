"""Proxies that pass on bytes and name the client in a PROXY header, and strangers who send one."""

import itertools
import signal
import struct
import time

import pytest

from support.http import Closed, Connection
from support.reverse import PASSING_ON, reverse_proxy
from support.tls import Authority, TlsServer
from support.wait import PATIENCE, until

PROXY, CLIENT, STRANGER = "127.0.0.1", "127.0.0.7", "127.0.0.2"
FLAGS = ["--trusted-proxy", PROXY, "--proxy-protocol"]
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
V1 = b"PROXY TCP4 192.0.2.1 192.0.2.2 4711 443\r\n"
V2 = SIGNATURE + b"\x21\x11\0\x0c" + bytes([192, 0, 2, 1, 192, 0, 2, 2]) + struct.pack("!HH", 4711, 443)
LOCAL = SIGNATURE + b"\x20\0\0\0"
UNSPECIFIED = SIGNATURE + b"\x21\0\0\0"
REQUEST = b"GET /events/%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n"
THROUGH = pytest.mark.parametrize("program", PASSING_ON)
BOTH = pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def begin(authority):
    """Starts servers with a plain and a TLS listener, that trust the proxy."""
    started = []

    def begin(*flags):
        certificates = [authority.issue("localhost", PROXY)]
        flags = [*FLAGS, "--drain-timeout", "2s", *flags]
        started.append(TlsServer(*flags, certificates=certificates, workers=1))
        return started[-1]

    yield begin
    for server in started:
        server.stop()


def connect(server, secure, source=PROXY, header=b"", say=b"", authority=None, address=None):
    """A connection that says something before TLS, if it speaks TLS."""
    address = address or (server.secure if secure else server.public)
    connection = Connection(server, source=source, address=address)
    connection.send(header)
    if secure:
        connection.socket = authority.context().wrap_socket(connection.socket, server_hostname="localhost")
    connection.send(say)
    return connection


def stream(id, fields=b""):
    return REQUEST % (id.encode(), fields)


@BOTH
@THROUGH
def test_the_client_behind_a_proxy_is_served_and_reported(begin, authority, name, port, program, secure):
    server, alice = begin(), name("alice")
    to = server.secure if secure else server.public
    with reverse_proxy(program, port().number, to) as address:
        with connect(server, secure, CLIENT, say=stream(alice), authority=authority, address=address) as client:
            own = "%s:%d" % client.socket.getsockname()
            assert until(lambda: server.sessions(alice), "a session")[0]["peer"] == own
            server.send(alice, "through")
            client.take_until(b"data: through\n")


@BOTH
@THROUGH
def test_a_limit_by_address_counts_the_clients_behind_a_proxy(begin, authority, name, port, program, secure):
    server, alice = begin("--max-connections-per-address", 2), name("alice")
    others = itertools.count(1)

    def open(source):
        # Nothing that a client says about its address counts.
        say = stream(alice, b"X-Forwarded-For: 192.0.2.%d\r\n" % next(others))
        try:
            client = connect(server, secure, source, say=say, authority=authority, address=address)
            return client, int(client.take_until(b"\r\n").split()[1])
        except (Closed, OSError):
            return None, 503

    to = server.secure if secure else server.public
    with reverse_proxy(program, port().number, to) as address:
        opened = [open(CLIENT), open(CLIENT), open(CLIENT), open("127.0.0.8")]
        assert [status for _, status in opened] == [200, 200, 503, 200]
        for client, _ in opened:
            if client:
                client.close()


# The proxy passes on what strangers write. That it is trusted does not make their fields true.
@THROUGH
def test_an_identity_header_of_a_stranger_behind_a_proxy_is_refused(begin, name, port, program):
    server, alice = begin("--identity-header", "X-User"), name("alice")
    say = stream(alice, b"X-User: %s\r\n" % alice.encode())
    with reverse_proxy(program, port().number, server.public) as address:
        with connect(server, False, CLIENT, say=say, address=address) as client:
            assert b" 400 " in client.take_until(b"\r\n")
        # Behind another trusted proxy, which has set the field.
        with connect(server, False, PROXY, say=say, address=address) as client:
            assert b" 200 " in client.take_until(b"\r\n")


@pytest.mark.parametrize("header", [LOCAL, UNSPECIFIED, b"PROXY UNKNOWN\r\n"], ids=["local", "unspecified", "unknown"])
def test_a_header_that_names_no_client_vouches_for_none(begin, name, header):
    server, alice = begin("--identity-header", "X-User"), name("alice")
    with connect(server, False, header=header, say=stream(alice, b"X-User: a\r\n")) as client:
        assert b" 400 " in client.take_until(b"\r\n")


@BOTH
@pytest.mark.parametrize("header", [V1, V2], ids=["v1", "v2"])
def test_a_stranger_cannot_send_a_header(begin, authority, name, header, secure):
    server, alice = begin(), name("alice")
    address = server.secure if secure else server.public
    with Connection(server, source=STRANGER, address=address) as stranger:
        stranger.send(header + stream(alice))
        answer = b""
        try:
            while True:
                answer += stranger.take(1)
        except Closed:
            pass
        if secure:
            assert answer[:1] in (b"", b"\x15"), "an alert at most"
        else:
            assert answer.startswith(b"HTTP/1.1 400 ")
    assert server.sessions(alice) == []
    # Without one, it is served as ever, and has its own address.
    with connect(server, secure, STRANGER, say=stream(alice), authority=authority) as client:
        until(lambda: server.sessions(alice), "a session")
        assert server.sessions(alice)[0]["peer"] == "%s:%d" % client.socket.getsockname()


@BOTH
def test_a_trusted_proxy_that_sends_no_header_is_refused_and_named(begin, authority, name, secure):
    server, alice = begin(), name("alice")
    address = server.secure if secure else server.public
    with Connection(server, source=PROXY, address=address) as proxy:
        proxy.send(stream(alice))
        if secure:
            with pytest.raises(Closed):
                proxy.take(1)
        else:
            assert b" 400 " in proxy.take_until(b"\r\n")
    until(lambda: f"the trusted proxy {PROXY}" in server.log_path.read_text(), "a warning")
    assert server.stats()["totals"]["proxy_headers_rejected"] == 1


@BOTH
def test_slow_and_silent_headers_are_cut_like_heads(begin, secure):
    server = begin("--head-timeout", "1s")
    before = server.baseline()
    address = server.secure if secure else server.public
    begun = time.monotonic()
    proxies = []
    for said in [b"", b"P", V1[:-1], V2[:13], V2[:-1], SIGNATURE + b"\x21\x11\x0f\xf0" + bytes(3000)]:
        proxies.append(Connection(server, source=PROXY, address=address))
        proxies[-1].send(said)
    for proxy in proxies:
        with pytest.raises(Closed):
            proxy.more()
        proxy.close()
    assert 0.9 <= time.monotonic() - begun < PATIENCE
    server.until_as(before)


@BOTH
def test_a_header_and_a_request_may_come_in_any_pieces(begin, authority, name, secure):
    server, alice = begin(), name("alice")
    for split in [1, 5, 6, 12, 13, 16, len(V2) - 1]:
        address = server.secure if secure else server.public
        connection = Connection(server, source=PROXY, address=address)
        connection.send(V2[:split])
        # The server has read it when it has acknowledged it and answers others.
        server.stats()
        connection.send(V2[split:])
        if secure:
            context = authority.context()
            connection.socket = context.wrap_socket(connection.socket, server_hostname="localhost")
        connection.send(stream(alice))
        with connection:
            assert b" 200 " in connection.take_until(b"\r\n")
            until(lambda: server.sessions(alice), "a session")
            assert server.sessions(alice)[0]["peer"] == "192.0.2.1:4711"
        until(lambda: not server.sessions(alice), "it has left")


def test_a_reload_switches_it_on_for_new_connections(start, name, tmp_path):
    alice, config = name("alice"), tmp_path / "encke.toml"
    config.write_text(f'trusted-proxy = ["{PROXY}"]\n')
    server = start("--config", config)
    with Connection(server, source=PROXY) as before:
        before.send(stream(alice))
        assert b" 200 " in before.take_until(b"\r\n")
        config.write_text(f'trusted-proxy = ["{PROXY}"]\nproxy-protocol = true\n')
        server.signal(signal.SIGHUP)
        until(lambda: "proxy-protocol" in server.log_path.read_text(), "a report of the reload")
        with connect(server, False, header=V1, say=stream(name("bob"))) as after:
            assert b" 200 " in after.take_until(b"\r\n")
        server.send(alice, "still here")
        before.take_until(b"data: still here\n")


def test_without_trusted_proxies_the_server_does_not_start(start):
    with pytest.raises(AssertionError, match="--trusted-proxy"):
        start("--proxy-protocol")
