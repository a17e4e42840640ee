"""TLS of the control listener, with clients of other libraries and with strangers."""

import ssl
import subprocess
import time

import httpx
import pytest

from support.http import PLAIN, Connection
from support.program import encke
from support.server import Server
from support.tls import Authority, check_renewal
from support.wait import PATIENCE, PROMPT, until

TOKEN = "a-token-of-this-test"
PUBLISH = (
    b"POST /v1/publish/a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
    b"Content-Length: 1\r\n\r\nx" % TOKEN.encode()
)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def certificate(authority):
    return authority.issue("localhost", "127.0.0.1")


@pytest.fixture
def begin(authority, certificate):
    """Starts a server that wants a token and whose control listener speaks TLS."""
    started = []

    def begin(*flags):
        tls = ["--control-tls", "--tls-cert", certificate.chain, "--tls-key", certificate.key]
        server = Server(
            "--drain-timeout", "1s", *tls, *flags,
            token=TOKEN, env={"ENCKE_CONTROL_TOKEN": TOKEN}, control_tls=authority.context(),
        )  # fmt: skip
        started.append(server)
        return server

    yield begin
    for server in started:
        server.stop()


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o600)
    return path


def connect(server, authority):
    return Connection(server, address=server.control, tls=authority.context())


def client_hello():
    """What a client sends first."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("flags", [["--tlsv1.3"], ["--tls-max", "1.2"]])
def test_curl_is_served_with_a_token_only(begin, authority, flags):
    server = begin()
    assert f"control  {server.control_url}/" in server.log

    def curl(url, *more):
        form = ["-s", "-o", "/dev/null", "-w", "%{http_version} %{ssl_verify_result} %{http_code}"]
        command = ["curl", *form, "--cacert", authority.pem, *flags, *more, url]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)

    url = f"{server.control_url}/v1/stats"
    assert curl(url, "-H", f"Authorization: Bearer {TOKEN}").stdout == "1.1 0 200"
    assert curl(url).stdout == "1.1 0 401"
    assert curl(f"{server.control_url}/healthz").stdout == "1.1 0 200"
    # Without TLS nothing is served.
    assert curl(url.replace("https", "http")).returncode != 0


def test_a_client_without_tls_gets_an_alert_and_an_end(begin):
    server = begin()
    for sent in [PUBLISH, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" + b"x" * 100_000]:
        with Connection(server, address=server.control) as connection:
            connection.send(sent)
            received = connection.rest()
            # One record: a fatal alert.
            assert len(received) == 7 and received[0] == 21 and received[5] == 2, received


def test_commands_publish_over_it(begin, authority, token_file, name):
    server = begin()
    rj = name("rj")
    to = ["--control", server.control_url, "--token-file", token_file]
    done = encke("publish", rj, "hello", *to, "--ca", authority.pem)
    assert done.returncode == 0, done.stderr
    lines = "".join(f"line {number} {'x' * 500}\n" for number in range(5000))
    done = encke("publish", rj, "-", *to, "--ca", authority.pem, "--json", input=lines)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 5000, done.stderr
    done = encke("publish", rj, "hello", *to)
    assert done.returncode == 1 and "is not trusted" in done.stderr, done.stderr


def test_metrics_have_tls_as_well(begin, authority):
    server = begin("--metrics-listen", "127.0.0.1:0")
    url = f"https://{server.said['metrics']}/metrics"
    # On loopback a program needs no token there.
    answer = httpx.get(url, verify=authority.context(), trust_env=False)
    assert answer.status_code == 200 and "encke_connections" in answer.text
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(url.replace("https", "http"), **PLAIN)


def test_certificates_are_read_again_without_touching_connections(begin, authority, certificate):
    server = begin()

    def serial():
        with connect(server, authority) as connection:
            return connection.socket.getpeercert()["serialNumber"]

    def publishes(connection):
        connection.send(PUBLISH)
        return connection.response().status == 200

    with connect(server, authority) as early:
        assert publishes(early)
        check_renewal(server, certificate, authority.issue("localhost", "127.0.0.1", key="rsa"), serial)
        assert publishes(early)


@pytest.mark.parametrize("kind", ["silent", "half a hello", "no answer", "plain", "handshake", "a wrong token"])
def test_600_strangers_keep_no_publisher_out(begin, authority, kind):
    server = begin("--head-timeout", "60s")
    hello = client_hello()
    sent = {"half a hello": hello[:200], "no answer": hello, "plain": PUBLISH}.get(kind, b"")
    with connect(server, authority) as early:
        early.send(PUBLISH)
        assert early.response().status == 200
        strangers = []
        for _ in range(600):
            if kind in ("handshake", "a wrong token"):
                strangers.append(connect(server, authority))
                if kind == "a wrong token":
                    strangers[-1].send(PUBLISH.replace(TOKEN.encode(), b"x" * 20))
            else:
                strangers.append(Connection(server, address=server.control))
                strangers[-1].send(sent)
        began = time.monotonic()
        with connect(server, authority) as publisher:
            publisher.send(PUBLISH)
            assert publisher.response().status == 200
        assert time.monotonic() - began < PROMPT
        # One that was there before is served as well.
        early.send(PUBLISH)
        assert early.response().status == 200
    until(lambda: server.stats()["control"]["connections"] <= 256 + 2, "strangers are bounded")
    assert server.stats()["control"]["refused"] == 0
    for stranger in strangers:
        stranger.close()
    until(lambda: server.stats()["control"]["connections"] <= 1, "all have gone")


def test_a_handshake_ends_at_the_head_timeout(begin):
    server = begin("--head-timeout", "1s")
    hello = client_hello()
    for sent in [b"", hello[:1], hello[:-1], hello]:
        began = time.monotonic()
        with Connection(server, address=server.control) as connection:
            connection.send(sent)
            connection.rest()
            assert 0.8 < time.monotonic() - began < PROMPT
    until(lambda: server.stats()["control"]["timeouts"] == 4, "counted")


def test_tls_without_a_certificate_is_refused():
    done = encke("serve", "--memory", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--control-tls")
    assert done.returncode == 2, done.stderr
    assert "--control-tls" in done.stderr and "--tls-cert" in done.stderr, done.stderr
