"""The commands' calls over https, and tokens from files."""

import http.server
import json
import queue
import threading

import pytest

from support.program import ENVIRONMENT, begin, encke
from support.tls import AUTHORITY, Authority, tls_endpoint
from support.wait import PATIENCE, until

TOKEN = "a-token-of-this-test"
TRUSTING = {**ENVIRONMENT, "SSL_CERT_FILE": str(AUTHORITY)}


@pytest.fixture(scope="module")
def served():
    """A server that wants a token, and the URL of the TLS endpoint before its control listener."""
    from support.program import address
    from support.server import Server

    server = Server("--drain-timeout", "1s", "--control-token", TOKEN, token=TOKEN)
    host, port = address(server.control_url.removeprefix("http://"))
    with tls_endpoint((host, port)) as url:
        yield server, url
    server.stop()


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return path


def test_every_kind_of_call_goes_over_https(served, token_file, name, tmp_path):
    server, url = served
    alice, rj = name("alice"), name("rj")

    def call(*arguments, **options):
        done = encke(*arguments, "--control", url, "--token-file", token_file, env=TRUSTING, **options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "is subscribed to" in call("subscribe", alice, rj)
    assert json.loads(call("publish", rj, "hello", "--json"))["subscribers"] == 2
    call("send", alice, "hello")
    receipts = call("publish", rj, "-", "--json", input="one\ntwo\r\nthree").splitlines()
    assert [json.loads(receipt)["subscribers"] for receipt in receipts] == [2, 2, 2]
    assert json.loads(call("sessions", alice, "--json"))["sessions"] == []
    assert json.loads(call("top", "--once", "--every", "100ms", "--json"))["program"] == "serve"
    edges = tmp_path / "edges"
    edges.write_text("".join(f"{subscriber} {rj}\n" for subscriber in range(10_000)))
    call("friends", "load", edges, "--online")
    assert json.loads(call("publish", rj, "hello", "--json"))["subscribers"] == 10_002


def test_a_certificate_that_nobody_vouches_for_is_refused(served, token_file):
    _, url = served
    done = encke("publish", "rj", "hello", "--control", url, "--token-file", token_file)
    assert done.returncode == 1 and "is not trusted" in done.stderr, done.stderr
    assert "SSL_CERT_FILE" in done.stderr


def test_a_listener_without_tls_is_named(served, token_file):
    server, _ = served
    url = server.control_url.replace("http://", "https://")
    done = encke("publish", "rj", "x", "--control", url, "--token-file", token_file, env=TRUSTING)
    assert done.returncode == 1 and "does not speak TLS" in done.stderr, done.stderr


@pytest.mark.parametrize("flag", ["--control-token-file", "--token-file"])
def test_a_token_file_is_read_under_both_names(served, token_file, flag):
    server, _ = served
    done = encke("publish", "rj", "x", "--control", server.control_url, flag, token_file)
    assert done.returncode == 0, done.stderr


def test_a_proxy_of_the_environment_does_not_see_the_token(served, token_file, port):
    _, url = served
    nobody = f"http://{port().address}"
    told = ["--control", url, "--token-file", token_file]
    done = encke("publish", "rj", "x", *told, env=TRUSTING | {"HTTPS_PROXY": nobody, "ALL_PROXY": nobody})
    assert done.returncode == 0, done.stderr


def test_a_token_does_not_follow_a_redirection(token_file):
    asked = []

    class Redirecting(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(307)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Redirecting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with tls_endpoint(server.server_address) as url:
            done = encke("sessions", "rj", "--control", url, "--token-file", token_file, env=TRUSTING)
        server.shutdown()
    assert done.returncode == 1 and "answered 307" in done.stderr, done.stderr
    assert asked == ["/v1/sessions/rj"]


def test_a_token_file_that_holds_no_token_is_named(tmp_path):
    missing, empty = tmp_path / "missing", tmp_path / "empty"
    empty.write_text(" \n")
    done = encke("publish", "rj", "x", "--token-file", missing)
    assert done.returncode == 2 and str(missing) in done.stderr, done.stderr
    done = encke("publish", "rj", "x", "--token-file", empty)
    assert done.returncode == 2 and str(empty) in done.stderr and "empty" in done.stderr, done.stderr


def test_a_wrong_token_is_said_to_be_wrong(served, tmp_path):
    _, url = served
    wrong = tmp_path / "token"
    wrong.write_text("another")
    done = encke("publish", "rj", "x", "--control", url, "--token-file", wrong, env=TRUSTING)
    assert done.returncode == 1 and "requires another token" in done.stderr, done.stderr


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


def test_an_authority_can_be_named(served, token_file):
    _, url = served
    told = ["--control", url, "--token-file", token_file]
    done = encke("publish", "rj", "x", *told, "--ca", AUTHORITY)
    assert done.returncode == 0, done.stderr
    # It is trusted in place of those of the system.
    another = AUTHORITY.with_name("server.pem")
    done = encke("publish", "rj", "x", *told, "--ca", another, env=TRUSTING)
    assert done.returncode == 1 and "is not trusted" in done.stderr, done.stderr


@pytest.mark.parametrize("transport", ["sse", "ndjson", "test"])
def test_listening_goes_over_https_and_through_reconnects(server, name, transport):
    rj = name("rj")
    with tls_endpoint(server.public) as url:
        flags = ["--url", url, "--ca", AUTHORITY, "--transport", transport]
        listening = begin("listen", rj, *flags, "--count", 2)
        server.publish(rj, until_listening(server, rj))
        # Its stream ends, and it comes back, from another port.
        (first,) = (session["peer"] for session in server.sessions(rj))
        server.api.delete(f"/v1/sessions/{rj}")
        until(lambda: [it for it in server.sessions(rj) if it["peer"] != first], "another session")
        server.publish(rj, "hello")
        out, err = listening.communicate(timeout=PATIENCE)
    assert out.splitlines() == ["hello", "hello"] and listening.returncode == 0, err


def until_listening(server, id):
    until(lambda: server.sessions(id), f"a session of {id}")
    return "hello"


def test_a_server_that_cannot_be_trusted_is_not_listened_to(server, name, authority):
    def refused(certificate, host="127.0.0.1", ca=authority.pem):
        with tls_endpoint(server.public, certificate) as url:
            url = url.replace("127.0.0.1", host)
            done = encke("listen", name(), "--url", url, *(["--ca", ca] if ca else []))
        assert done.returncode == 1 and not done.stdout, done.stderr
        return done.stderr

    good = authority.issue("127.0.0.1")
    assert "is not trusted" in refused(good, ca=None)
    assert "is not for localhost, but for" in refused(good, host="localhost")
    assert "has expired" in refused(authority.expired("127.0.0.1"))
    later = authority.issue("127.0.0.1", start="20900101000000Z", end="20910101000000Z")
    assert "is not valid for another" in refused(later)
    done = encke("listen", name(), "--url", "https://%s:%d" % server.public, "--ca", authority.pem)
    assert done.returncode == 1 and "does not speak TLS" in done.stderr, done.stderr


def test_a_file_that_has_no_authority_is_named(tmp_path):
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    for verb in (["listen", "rj", "--url"], ["publish", "rj", "x", "--control"]):
        done = encke(*verb, "https://127.0.0.1:1", "--ca", empty)
        assert done.returncode != 0 and f"{empty} has no certificate" in done.stderr, done.stderr


def test_a_listener_shows_its_token_or_ticket_and_does_not_print_it(tmp_path):
    seen = queue.Queue()

    class Asking(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.put((self.path, self.headers["Authorization"]))
            self.send_response(403)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    token = tmp_path / "token"
    token.write_text("a.token.of-this_test\n")
    token.chmod(0o600)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Asking) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = ["--url", "http://%s:%d" % server.server_address]
        for flags, expected in [
            (["--token-file", token], ("/events", "Bearer a.token.of-this_test")),
            (["alice", "--token", "another.token.of-this_test"], ("/events/alice", "Bearer another.token.of-this_test")),
            (["--ticket", "tick-et_of-this-test", "--transport", "ndjson"], ("/stream?ticket=tick-et_of-this-test", None)),
        ]:
            done = encke("listen", *flags, *url)
            assert done.returncode == 1 and "you may not read all of these ids" in done.stderr, done.stderr
            assert "test" not in done.stderr
            assert seen.get() == expected
        server.shutdown()
    done = encke("listen")
    assert done.returncode == 2, done.stderr


@pytest.mark.parametrize("way", [[], ["--per-request", "--connections", 4]])
def test_events_are_driven_over_https(served, token_file, way):
    _, url = served
    flags = ("--rate", 500, "--count", 300, "--max-id", 50, *way, "--json")
    done = encke("drive", "--control", url, "--token-file", token_file, *flags, env=TRUSTING, timeout=60)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["events"]["accepted"] == report["receipts"]["subscribers"] == 300
    assert report["url"] == url
    # A large payload is many records, which a socket does not take at once.
    flags = ("--rate", 2000, "--count", 200, "--max-id", 5, "--size", "60000", *way, "--json")
    done = encke("drive", "--control", url, "--token-file", token_file, *flags, env=TRUSTING, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["events"]["accepted"] == 200


def test_nothing_is_driven_to_a_server_whose_certificate_is_not_trusted(served, token_file):
    _, url = served
    flags = ("--rate", 100, "--count", 20, "--json")
    done = encke("drive", "--control", url, "--token-file", token_file, *flags, timeout=60)
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert report["events"]["sent"] == report["events"]["lost"] == 0
    assert "certificate" in done.stderr, done.stderr
