"""TLS of the public listener, with clients of other libraries and with strangers."""

import contextlib
import json
import os
import socket
import ssl
import subprocess
import threading
import time

import pytest

from support.http import Closed, Connection, Sse
from support.node import Browser, EventSource, Script
from support.program import ROOT, encke, installed
from support.tls import Authority, TlsServer, check_renewal, s_client
from support.wait import PATIENCE, until

V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
VERSIONS = pytest.mark.parametrize("version", [V13, V12], ids=["1.3", "1.2"])
HEAD_SECONDS = 2
REQUEST = b"GET /events/%s HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def certificates(authority):
    return [authority.issue("localhost", "127.0.0.1"), authority.issue("push.example.com", key="rsa")]


# Once with records of its own for TLS 1.3, and once with those of the library.
@pytest.fixture(scope="module", params=[[], ["--tls-keep-rustls"]], ids=["own", "rustls"])
def server(request, certificates):
    # A backlog is wanted, which readers that catch up from the history do not have.
    flags = ["--drain-timeout", "2s", "--head-timeout", f"{HEAD_SECONDS}s", "--slow", "close"]
    server = TlsServer(*flags, *request.param, certificates=certificates, workers=1)
    yield server
    server.stop()


def only(version):
    return {"minimum_version": version, "maximum_version": version}


def stream(server, authority, id, **versions):
    return Sse(server, id, tls=authority.context(**versions))


# Clients


@VERSIONS
def test_a_stream_comes_over_each_version(server, authority, name, version):
    alice = name("alice")
    with stream(server, authority, alice, **only(version)) as events:
        secure = events.connection.socket
        assert secure.version() == {V13: "TLSv1.3", V12: "TLSv1.2"}[version]
        for number in range(100):
            server.send(alice, f"event {number}")
        assert [events.data() for _ in range(100)] == [f"event {number}" for number in range(100)]


@VERSIONS
def test_large_events_come_whole_and_in_order(server, authority, name, version):
    alice = name("alice")
    large = [os.urandom(1).hex() * 30_000 for _ in range(20)]
    with stream(server, authority, alice, **only(version)) as events:
        # Three at a time: more of them could exceed the backlog of a session.
        for start in range(0, len(large), 3):
            together = large[start : start + 3]
            for data in together:
                server.send(alice, data)
            assert [events.data() for _ in together] == together


@VERSIONS
def test_a_client_that_pauses_misses_nothing(server, authority, name, version):
    alice = name("alice")
    tls = authority.context(**only(version))
    with Sse(server, alice, tls=tls, receive_buffer=4096) as events:
        sent = []
        # Until the socket is full and a backlog is there.
        while not server.sessions(alice)[0]["backlog_bytes"] > 60_000:
            sent += [f"{len(sent)} " + "x" * 10_000]
            server.send(alice, sent[-1])
        assert [events.data() for _ in sent] == sent
        # And small events after it, on the same keys.
        server.send(alice, "after")
        assert events.data() == "after"


def test_a_client_that_reads_nothing_is_closed(server, authority, name):
    alice = name("alice")
    with Sse(server, alice, tls=authority.context(), receive_buffer=4096):
        for _ in range(2000):
            if not server.sessions(alice):
                break
            server.send(alice, "x" * 60_000)
        assert not server.sessions(alice)
    until(lambda: server.totals()["backlog_bytes"] == 0, "nothing is kept")


@pytest.mark.parametrize("flags", [["--tlsv1.3"], ["--tls-max", "1.2"]])
def test_curl_is_served(server, authority, flags):
    url = f"{server.secure_url}/no/such/page"
    form = ["-w", "\n%{http_version} %{ssl_verify_result} %{http_code}", "--cacert", authority.pem]
    done = subprocess.run(["curl", "-sv", *form, *flags, url], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout.splitlines()[-1] == "1.1 0 404", done.stderr
    assert ("TLSv1.3" if "--tlsv1.3" in flags else "TLSv1.2") in done.stderr
    assert "ALPN: server accepted http/1.1" in done.stderr, done.stderr


def test_the_protocol_is_http_1_1_or_none(server, authority):
    def handshake(*protocols):
        context = authority.context()
        if protocols:
            context.set_alpn_protocols(protocols)
        with Connection(server, tls=context) as connection:
            return connection.socket.selected_alpn_protocol()

    assert handshake("h2", "http/1.1") == "http/1.1"
    assert handshake() is None
    with pytest.raises(ssl.SSLError, match="(?i)no.application.protocol"):
        handshake("h2")


@VERSIONS
def test_the_certificate_is_chosen_by_name(server, authority, version):
    def names(name, check=True):
        context = authority.context(**only(version))
        context.check_hostname = check
        with Connection(server, tls=context, name=name) as connection:
            return [value for _, value in connection.socket.getpeercert()["subjectAltName"]]

    assert names("localhost") == names("127.0.0.1") == ["localhost", "127.0.0.1"]
    assert names("push.example.com") == ["push.example.com"]
    # A name that nothing is known of, and none at all: the first.
    assert names("elsewhere.example.com", check=False) == ["localhost", "127.0.0.1"]
    with pytest.raises(ssl.SSLCertVerificationError):
        names("elsewhere.example.com")


def test_the_second_certificate_serves_requests(server, authority, name):
    alice = name("alice")
    with Connection(server, tls=authority.context(), name="push.example.com") as connection:
        connection.send(REQUEST % alice.encode())
        assert connection.head()[0] == 200


@pytest.mark.parametrize("version", ["tls1_3", "tls1_2"])
def test_sessions_are_resumed(server, authority, tmp_path, version):
    say = b"GET /no/such HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    flags = ["-CAfile", authority.pem, "-servername", "localhost", f"-{version}", "-ign_eof"]
    first = s_client(server, *flags, "-sess_out", tmp_path / "session", say=say)
    assert b"\nNew, TLSv1." in first.stdout and b"404 Not Found" in first.stdout, first.stdout
    again = s_client(server, *flags, "-sess_in", tmp_path / "session", say=say)
    assert b"\nReused, TLSv1." in again.stdout and b"404 Not Found" in again.stdout, again.stdout


def test_sessions_are_resumed_again_and_again(server, authority):
    done = s_client(server, "-CAfile", authority.pem, "-tls1_2", "-reconnect", say=b"Q\n")
    assert done.stdout.count(b"Reused, TLSv1.2") == 5, done.stdout


def test_a_session_cannot_be_resumed_for_another_name(server, authority, tmp_path):
    say = b"GET /no/such HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    flags = ["-CAfile", authority.pem, "-ign_eof", "-servername"]
    s_client(server, *flags, "localhost", "-sess_out", tmp_path / "session", say=say)
    again = s_client(server, *flags, "push.example.com", "-sess_in", tmp_path / "session", say=say)
    assert b"Reused" not in again.stdout, again.stdout


class OpenSsl:
    """A running `openssl s_client`, whose letters at the beginning of a line are commands."""

    def __init__(self, server, authority, *flags):
        command = [installed("openssl"), "s_client", "-connect", "%s:%d" % server.secure, "-CAfile", authority.pem]
        self.process = subprocess.Popen(
            [*command, "-servername", "localhost", *flags],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.heard, self.changed = b"", threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        while data := os.read(self.process.stdout.fileno(), 65536):
            with self.changed:
                self.heard += data
                self.changed.notify()

    def say(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def hears(self, text):
        with self.changed:
            assert self.changed.wait_for(lambda: text in self.heard, PATIENCE), self.heard[-2000:]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdin.close()
        self.process.stdout.close()


def test_keys_are_updated_in_both_directions(server, authority, name):
    alice = name("alice")
    with OpenSsl(server, authority, "-tls1_3") as client:
        client.say(REQUEST % alice.encode())
        until(lambda: server.sessions(alice), "a session")
        for number, command in enumerate([b"k\n", b"K\n", b"K\n", b"k\n", b"K\n"] * 4):
            client.say(command)
            client.hears(b"KEYUPDATE")
            server.send(alice, f"event {number} after it")
            client.hears(b"event %d after it" % number)


def test_a_client_cannot_renegotiate(server, authority, name):
    alice = name("alice")
    with OpenSsl(server, authority, "-tls1_2") as client:
        client.say(REQUEST % alice.encode())
        until(lambda: server.sessions(alice), "a session")
        client.say(b"R\n")
        client.hears(b"RENEGOTIATING")
        # It is refused by a warning, or by the end of the connection.
        client.process.stdin.close()
        client.process.wait(PATIENCE)
        assert b"handshake failure" in client.heard or b"no renegotiation" in client.heard or client.process.returncode


def test_early_data_is_not_taken(server, authority, tmp_path):
    say = b"GET /no/such HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    flags = ["-CAfile", authority.pem, "-servername", "localhost", "-tls1_3", "-ign_eof"]
    s_client(server, *flags, "-sess_out", tmp_path / "session", say=say)
    (tmp_path / "early").write_bytes(say)
    done = s_client(server, *flags, "-sess_in", tmp_path / "session", "-early_data", tmp_path / "early", say=say)
    assert b"Early data was not sent" in done.stdout or b"Early data was rejected" in done.stdout, done.stdout
    assert b"Max Early Data: 0" in done.stdout and b"404 Not Found" in done.stdout, done.stdout


@VERSIONS
def test_a_stream_that_is_ended_ends_with_a_word_of_tls(server, authority, name, version):
    alice = name("alice")
    with stream(server, authority, alice, **only(version)) as events:
        server.api.delete(f"/v1/sessions/{alice}")
        # `recv` would raise if the connection ended without close_notify.
        events.connection.rest()


@VERSIONS
def test_a_client_that_leaves_is_logged_out(server, authority, name, version):
    alice = name("alice")
    with stream(server, authority, alice, **only(version)) as events:
        until(lambda: server.sessions(alice), "a session")
        # It says so, and leaves the connection open.
        with contextlib.suppress(OSError):
            events.connection.socket.settimeout(PATIENCE)
            events.connection.socket.unwrap()
        until(lambda: not server.sessions(alice), "logged out")


def test_node_reads_streams(server, authority, name):
    alice, bob = name("alice"), name("bob")
    env = {"NODE_EXTRA_CA_CERTS": str(authority.pem)}
    url = "https://localhost:%d" % server.secure[1]
    with Script("fetch.mjs", f"{url}/stream/{alice}", env=env) as fetching:
        assert fetching.next() == 200
        server.send(alice, "hello")
        while "hello" not in fetching.next():
            pass
        fetching.process.kill()
    with EventSource(f"{url}/events/{bob}", env=env) as source:
        until(lambda: server.sessions(bob), "a session")
        server.send(bob, "hello")
        assert source.until("data")["data"] == "hello"


def test_chromium_reads_streams_and_comes_back(server, certificates, name):
    alice = name("alice")
    with Browser(f"--ignore-certificate-errors-spki-list={certificates[0].spki()}") as browser:
        url = "https://localhost:%d" % server.secure[1]
        browser.goto(f"{url}/no/such/page")
        browser.evaluate(
            f"""window.heard = []; window.source = new EventSource('{url}/events/{alice}');
            source.onmessage = (event) => heard.push(event.data); source.onopen = () => heard.push('open'); null"""
        )
        heard = lambda: browser.evaluate("heard")
        until(lambda: heard() == ["open"], "it is open")
        server.send(alice, "hello")
        until(lambda: heard() == ["open", "hello"], "an event")
        server.api.delete(f"/v1/sessions/{alice}")
        until(lambda: heard() == ["open", "hello", "open"], "it is back")
        server.send(alice, "again")
        until(lambda: heard()[-1] == "again", "an event")


def test_the_commands_of_encke_connect(server, authority, name):
    alice = name("alice")
    flood = ["flood", f"{server.secure_url}/events/{alice}", "-c", 20, "--ca", authority.pem, "--duration", "1s"]
    done = encke(*flood, "--tls-resume", "--window", 1, "--expect-open", 20, "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0 and report["handshakes"] == 20, done.stderr
    assert report["resumed"] >= 18, report


@pytest.mark.parametrize("program", ["nginx", "haproxy", "haproxy, TCP"])
def test_proxies_connect_over_tls(server, authority, name, port, tmp_path, program):
    alice, listen = name("alice"), port().number
    conf = tmp_path / "conf"
    if program == "nginx":
        temporary = "".join(f"{k}_temp_path {tmp_path}/{k};" for k in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        conf.write_text(
            f"""daemon off; master_process off; pid {tmp_path}/pid; error_log {tmp_path}/error.log;
            events {{}} http {{ access_log off; {temporary} server {{ listen 127.0.0.1:{listen};
            location / {{ proxy_pass {server.secure_url}; proxy_http_version 1.1; proxy_set_header Connection "";
            proxy_set_header Host localhost; proxy_ssl_server_name on; proxy_ssl_name localhost;
            proxy_ssl_trusted_certificate {authority.pem}; proxy_ssl_verify on; }} }} }}"""
        )
        command = [installed("nginx"), "-c", conf, "-p", tmp_path]
    else:
        mode = "tcp" if "TCP" in program else "http"
        check = "" if "TCP" in program else f" ssl verify required ca-file {authority.pem} sni str(localhost) verifyhost localhost"
        conf.write_text(
            f"""defaults\n  mode {mode}\n  timeout connect 5s\n  timeout client 30s\n  timeout server 30s
            listen all\n  bind 127.0.0.1:{listen}\n  server push %s:%d{check}\n""" % server.secure
        )
        command = [installed("haproxy"), "-f", conf]
    process = subprocess.Popen(command)
    try:
        until(lambda: socket.socket().connect_ex(("127.0.0.1", listen)) == 0, f"{program} listens")
        tls = authority.context() if "TCP" in program else None
        with Connection(server, address=("127.0.0.1", listen), tls=tls) as connection:
            connection.send(REQUEST % alice.encode())
            until(lambda: server.sessions(alice), "a session")
            server.send(alice, "through")
            # A proxy may cut the body into chunks of its own.
            connection.take_until(b"data: through\n")
    finally:
        process.terminate()
        process.wait()


# Strangers


def record(kind, body, length=None, version=b"\x03\x03"):
    return bytes([kind]) + version + (len(body) if length is None else length).to_bytes(2, "big") + body


def client_hello(authority):
    """The first message of a client, as it is sent."""
    outgoing = ssl.MemoryBIO()
    client = authority.context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def strange(authority):
    hello = client_hello(authority)
    return {
        "silence": b"",
        "one byte": hello[:1],
        "half a hello": hello[: len(hello) // 2],
        "a whole hello and nothing": hello,
        "a record without its body": hello[:5],
    }


@pytest.mark.parametrize("how", ["silence", "one byte", "half a hello", "a whole hello and nothing", "a record without its body"])
def test_a_handshake_that_is_not_finished_is_cut(server, authority, how):
    before = server.baseline()
    said = strange(authority)[how]
    begun = time.monotonic()
    connections = [socket.create_connection(server.secure, timeout=PATIENCE) for _ in range(20)]
    for connection in connections:
        connection.sendall(said)
    for connection in connections:
        read_to_end(connection)
        connection.close()
    assert HEAD_SECONDS * 0.9 <= time.monotonic() - begun, "it was cut before its time"
    server.until_as(before)


def test_a_handshake_that_trickles_is_cut(server, authority):
    hello = client_hello(authority)
    with socket.create_connection(server.secure, timeout=PATIENCE) as connection:
        begun = time.monotonic()
        with contextlib.suppress(OSError):
            for byte in hello:
                connection.sendall(bytes([byte]))
                if read_ready(connection, 0.1):
                    break
        assert time.monotonic() - begun < HEAD_SECONDS * 4, "each byte gave it more time"


def read_ready(connection, seconds):
    connection.settimeout(seconds)
    try:
        return connection.recv(65536) == b""
    except TimeoutError:
        return False
    finally:
        connection.settimeout(PATIENCE)


def read_to_end(connection):
    heard = b""
    with contextlib.suppress(ConnectionResetError):
        while data := connection.recv(65536):
            heard += data
    return heard


GARBAGE = {
    "noise": os.urandom(4096),
    "zeros": bytes(4096),
    "a record too large": record(22, b"\x01" + b"x" * 100, length=0xFFFF),
    "an empty handshake": record(22, b""),
    "application data at once": record(23, b"x" * 100),
    "an alert at once": record(21, b"\x02\x28"),
    "a hello of 16 MB": record(22, b"\x01\xff\xff\xff" + b"x" * 16000) * 5,
    "a hello of SSL 2": b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10" + b"x" * 40,
    "a hello that is none": record(22, b"\x01\x00\x00\x20" + b"\xff" * 32),
    "many empty records": record(22, b"") * 5000,
    "change cipher spec, again and again": record(20, b"\x01") * 5000,
}


@pytest.mark.parametrize("what", GARBAGE)
def test_garbage_ends_its_connection_alone(server, authority, name, what):
    alice = name("alice")
    with stream(server, authority, alice) as events:
        before = server.baseline()
        for _ in range(5):
            with socket.create_connection(server.secure, timeout=PATIENCE) as connection:
                with contextlib.suppress(OSError):
                    connection.sendall(GARBAGE[what])
                heard = read_to_end(connection)
                # An alert, or nothing.
                assert heard[:1] in (b"", b"\x15"), heard[:100]
        server.until_as(before)
        server.send(alice, "still here")
        assert events.data() == "still here"


def test_garbage_after_the_handshake_ends_its_connection_alone(server, authority, name):
    alice, bob = name("alice"), name("bob")
    with stream(server, authority, alice) as events, stream(server, authority, bob) as other:
        raw = socket.socket(fileno=os.dup(other.connection.socket.fileno()))
        raw.sendall(record(23, os.urandom(64)))
        until(lambda: not server.sessions(bob), "it is closed")
        raw.close()
        server.send(alice, "still here")
        assert events.data() == "still here"


def test_plain_http_gets_an_end(server, name):
    with socket.create_connection(server.secure, timeout=PATIENCE) as connection:
        connection.sendall(REQUEST % name("alice").encode())
        heard = read_to_end(connection)
    assert heard == b"" or heard.startswith((b"\x15", b"HTTP/1.1 400 ")), heard
    done = subprocess.run(["curl", "-s", server.secure_url.replace("https", "http")], timeout=PATIENCE)
    assert done.returncode in (0, 1, 52, 56)


@pytest.mark.parametrize("version", ["tls1_1", "tls1"])
def test_old_versions_are_refused(server, version):
    done = s_client(server, f"-{version}", "-cipher", "ALL:@SECLEVEL=0")
    assert done.returncode and b"ssl3_read_bytes" in done.stderr and b"alert" in done.stderr, done.stderr
    assert b"no peer certificate available" in done.stdout


def test_weak_ciphers_are_refused(server):
    for cipher in ("AES128-SHA", "AES256-GCM-SHA384", "ECDHE-RSA-AES128-SHA", "DHE-RSA-AES128-GCM-SHA256"):
        done = s_client(server, "-tls1_2", "-servername", "push.example.com", "-cipher", f"{cipher}:@SECLEVEL=0")
        assert done.returncode and b"handshake failure" in done.stderr, (cipher, done.stderr)


def test_a_request_that_is_slow_after_its_handshake_is_cut(server, authority):
    with Connection(server, tls=authority.context()) as connection:
        connection.send(b"GET /events/alice HTTP/1.1\r\nHost: lo")
        assert connection.head()[0] == 408
        with contextlib.suppress(Closed):
            connection.rest()


# Reload


def test_certificates_are_read_again_without_touching_streams(authority, tmp_path, name):
    certificate = authority.issue("localhost")
    server = TlsServer("--drain-timeout", "1s", certificates=[certificate], workers=2)
    try:
        check_reload(server, authority, certificate, name("alice"))
    finally:
        server.stop()


def check_reload(server, authority, certificate, alice):
    def serial():
        with Connection(server, tls=authority.context()) as connection:
            return connection.socket.getpeercert()["serialNumber"]

    streams = [stream(server, authority, alice, **only(version)) for version in (V13, V12) * 5]
    check_renewal(server, certificate, authority.issue("localhost", key="rsa"), serial)
    server.send(alice, "through it all")
    for events in streams:
        assert events.data() == "through it all"
        events.close()


# A scanner


def test_testssl_finds_nothing_above_low(authority, certificates, tmp_path):
    """Protocols, ciphers, server preferences, forward secrecy, certificate and all known vulnerabilities."""
    server = TlsServer("--drain-timeout", "1s", certificates=certificates[:1], workers=1)
    try:
        report = tmp_path / "report.json"
        scan = ["testssl", "--quiet", "--color", "0", "--warnings", "batch", "--nodns", "none", "--ip", "127.0.0.1"]
        scan += ["--connect-timeout", "5", "--openssl-timeout", "5", "--jsonfile", report]
        scan += ["-p", "-s", "-f", "-P", "-S", "-U", "localhost:%d" % server.secure[1]]
        env = {**os.environ, "ADDITIONAL_CA_FILES": str(authority.pem), "TERM": "dumb"}
        done = subprocess.run(list(map(str, scan)), capture_output=True, text=True, timeout=200, env=env, cwd=ROOT)
        findings = json.loads(report.read_text())
    finally:
        server.stop()
    by_id = {finding["id"]: finding for finding in findings}
    assert by_id["TLS1_3"]["severity"] == "OK" and by_id["TLS1_2"]["severity"] == "OK", done.stdout
    bad = [
        finding for finding in findings
        if finding["severity"] in ("MEDIUM", "HIGH", "CRITICAL", "FATAL", "WARN") and finding["id"] not in OF_THE_TEST
    ]  # fmt: skip
    assert not bad, json.dumps(bad, indent=1)


# What is said of any certificate of a private authority, and of what the system's openssl cannot try.
OF_THE_TEST = {
    "engine_problem",
    "sessionresumption_ID",
    "sessionresumption_ticket",
    "cert_chain_of_trust",
    "cert_revocation",
    "cert_crlDistributionPoints",
    "cert_ocspURL",
    "OCSP_stapling",
    "DNS_CAArecord",
    "cert_validityPeriod",
    "cert_extlifeSpan",
    "cert_notAfter",
    "cert_expirationStatus",
}
