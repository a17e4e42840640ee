"""Who may read what: tokens of another implementation, key sets, and the recipes of docs/IDENTITY.md."""

import contextlib
import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile

import httpx
import jwt
import pytest

from support.http import PLAIN, Connection, Sse, Stream
from support.issuer import PUBLIC, Issuer, Key, serving, within_an_hour
from support.program import ENVIRONMENT, ROOT, installed
from support.tls import AUTHORITY, tls_endpoint
from support.wait import until

RECIPES = (ROOT / "docs" / "IDENTITY.md").read_text()


def bearer(token):
    return f"Authorization: Bearer {token}"


def status(server, target, *fields, **options):
    """Status and error code of a request that opens no stream; 200 when it opens one."""
    with Connection(server, **options) as connection:
        connection.get(target, *fields)
        status, _, fields = connection.head()
        error = re.search(r'error="(\w+)"', fields.get("WWW-Authenticate", ""))
        return status, error and error[1]


def reads(server, id, stream):
    """Whether what is published to an id arrives in a stream."""
    server.send(id, f"for {id}")
    return stream.data() == f"for {id}"


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    path.write_text("correct horse battery staple, and more\n")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("algorithm", PUBLIC)
@pytest.mark.parametrize("source", ["file", "jwks"])
def test_a_token_of_each_algorithm_opens_the_streams_that_it_names(start, tmp_path, algorithm, source):
    key, stranger = Key(algorithm), Key(algorithm)
    with serving(Issuer(key).answer) as url:
        path = tmp_path / "key.pem"
        path.write_bytes(key.pem)
        server = start("--jwt-key-file", path) if source == "file" else start("--jwks-url", url)
        token = key.token(sub="alice", encke={"ids": ["news", "team-7/*"]})
        with Sse(server, "", bearer(token)) as stream:
            assert reads(server, "alice", stream)
        with Sse(server, "news,team-7%2Fa", bearer(token)) as stream:
            assert reads(server, "team-7/a", stream)
        assert status(server, "/events/bob", bearer(token)) == (403, "insufficient_scope")
        assert status(server, "/events/alice,bob", bearer(token)) == (403, "insufficient_scope")
        assert status(server, "/events/alice") == (401, None)
        assert status(server, "/events/alice", bearer(stranger.token(sub="alice"))) == (401, "invalid_token")
        assert status(server, "/events/alice", bearer(key.token(sub="alice", exp=1))) == (401, "invalid_token")
        assert status(server, "/events/alice", bearer(key.token(sub="alice", aud="other"))) == (401, "invalid_token")
        unsigned = jwt.encode(within_an_hour({"sub": "alice"}), None, "none")
        assert status(server, "/events/alice", bearer(unsigned)) == (401, "invalid_token")
        # What the issuer publishes is no secret.
        for public in (key.pem, json.dumps(key.jwk).encode()):
            assert status(server, "/events/alice", bearer(signed_with(public))) == (401, "invalid_token")


def signed_with(secret):
    """A token under HS256 with any bytes as secret, which PyJWT itself refuses to make."""
    algorithm = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    part = lambda value: jwt.utils.base64url_encode(json.dumps(value).encode())
    message = part({"alg": "HS256"}) + b"." + part(within_an_hour({"sub": "alice"}))
    return (message + b"." + jwt.utils.base64url_encode(algorithm.sign(message, secret))).decode()


def test_a_token_signed_with_a_secret_comes_in_the_head_a_cookie_or_the_query(start, secret):
    token = jwt.encode(within_an_hour({"sub": "alice"}), secret.read_text().strip(), "HS256")
    server = start("--jwt-secret-file", secret, "--jwt-cookie", "session", "--jwt-query")
    for target, fields in [
        ("/events", [bearer(token)]),
        ("/events", [f"Cookie: a=b; session={token}; c=d"]),
        (f"/events?access_token={token}", []),
    ]:
        with Stream(server, target, *fields) as stream:
            assert stream.status == 200
    assert status(server, f"/events?access_token={token}", bearer(token)) == (400, "invalid_request")
    strict = start("--jwt-secret-file", secret)
    assert status(strict, "/events", f"Cookie: session={token}") == (401, None)
    assert status(strict, f"/events?access_token={token}") == (401, None)
    for server in (server, strict):
        assert token not in pathlib.Path(server.log_path).read_text()


def test_new_keys_are_fetched_when_a_token_names_one_and_old_ones_stay_when_the_issuer_lies(start):
    old, new = Key("ES256", "2026-11"), Key("ES256", "2026-12")
    issuer = Issuer(old)
    with serving(issuer.answer) as url:
        server = start("--jwks-url", url)
        assert status(server, "/events", bearer(old.token(sub="alice")))[0] == 200
        issuer.keys = [new]
        # The request waits for the fetch, which it has caused.
        assert status(server, "/events", bearer(new.token(sub="alice")))[0] == 200
        # Each worker takes the new keys in its next turn.
        gone = lambda: status(server, "/events", bearer(old.token(sub="alice"))) == (401, "invalid_token")
        until(gone, "the old key is gone")
        fetches = issuer.fetches
        for number in range(20):
            unknown = Key("ES256", f"unknown-{number}").token(sub="alice")
            assert status(server, "/events", bearer(unknown)) == (401, "invalid_token")
        assert issuer.fetches <= fetches + 1
        issuer.body = b"<html>Sign in</html>"
        assert status(server, "/events", bearer(new.token(sub="alice")))[0] == 200
    # The issuer is gone.
    assert status(server, "/events", bearer(new.token(sub="alice")))[0] == 200


def test_over_https_the_issuer_must_prove_its_name(start):
    key = Key("RS256")
    with serving(Issuer(key).answer) as url, tls_endpoint(http_address(url)) as secure:
        trusting = start("--jwks-url", secure, env={"SSL_CERT_FILE": str(AUTHORITY)})
        assert status(trusting, "/events", bearer(key.token(sub="alice")))[0] == 200
        # Its certificate is of an authority that this one does not know.
        distrusting = start("--jwks-url", secure)
        assert status(distrusting, "/events", bearer(key.token(sub="alice")))[0] == 401
        assert metric(trusting, "keys") == 1
        assert metric(trusting, "fetches_total") >= 1 and metric(trusting, "fetch_failures_total") == 0
        assert metric(distrusting, "fetch_failures_total") >= 1 and metric(distrusting, "keys") == 0
        assert metric(trusting, "age_seconds") >= 0 and metric(distrusting, "age_seconds") is None
        log = pathlib.Path(distrusting.log_path).read_text()
        assert secure in log and "was not fetched" in log


def metric(server, name):
    """A metric of key sets; `None` if there is none of this name."""
    found = re.search(rf"^encke_jwks_{name} (.+)$", server.api.get("/metrics").text, re.MULTILINE)
    return found and float(found[1])


def http_address(url):
    host, port = url.removeprefix("http://").split(":")
    return host, int(port)


def test_a_server_without_keys_yet_is_closed(start):
    with socket.socket() as nothing:
        nothing.bind(("127.0.0.1", 0))
        server = start("--jwks-url", "http://127.0.0.1:%d/" % nothing.getsockname()[1])
        assert status(server, "/events/alice") == (401, None)
        assert status(server, "/events/alice", bearer(Key("EdDSA").token(sub="alice")))[0] == 401


def test_a_session_ends_with_its_token(start, tmp_path):
    key = Key("EdDSA")
    path = tmp_path / "key.pem"
    path.write_bytes(key.pem)
    server = start("--jwt-key-file", path)
    soon = within_an_hour({})["iat"] + 7
    with Sse(server, "", bearer(key.token(sub="alice", exp=soon))) as stream:
        assert stream.event()[0] == "expired"
        assert stream.event() is None


# Recipes


def recipe(language, heading):
    """The first block of a language under a heading of the document."""
    section = RECIPES.split(f"\n### {heading}\n")[1].split("\n### ")[0]
    return section.split(f"```{language}\n")[1].split("```")[0]


@contextlib.contextmanager
def nginx(locations, port):
    with tempfile.TemporaryDirectory(prefix="encke-nginx-") as directory:
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        temporary = "".join(f"{kind}_temp_path {directory}/{kind};" for kind in kinds)
        path = pathlib.Path(directory, "conf")
        path.write_text(
            f"daemon off; master_process off; pid {directory}/pid; error_log {directory}/error.log;"
            f"events {{}} http {{ access_log off; {temporary} server {{ listen 127.0.0.1:{port};\n{locations}\n}} }}"
        )
        process = subprocess.Popen([installed("nginx"), "-c", path, "-p", directory])
        try:
            until(lambda: connects(process, port), "nginx listens")
            yield ("127.0.0.1", port)
        finally:
            process.terminate()
            process.wait()


def connects(process, port):
    assert process.poll() is None, f"nginx ended with {process.returncode}"
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_recipe_ticket_from_a_backend(start, port, tmp_path):
    token = "a-control-token-of-32-characters"
    (tmp_path / "control-token").write_text(token)
    (tmp_path / "control-token").chmod(0o600)
    (tmp_path / "backend.py").write_text(recipe("python", "A ticket from a small backend"))
    server = start("--tickets", "--control-token-file", tmp_path / "control-token", token=token)
    number = port().number
    environment = {**ENVIRONMENT, "CONTROL": server.control_url, "PORT": str(number)}
    process = subprocess.Popen([sys.executable, "backend.py"], cwd=tmp_path, env=environment)
    try:
        until(lambda: connects(process, number), "the backend listens")

        def ask(**headers):
            return httpx.post(f"http://127.0.0.1:{number}/ticket", headers=headers, **PLAIN)

        assert ask().status_code == 401
        ticket = ask(Cookie="session=a").json()["ticket"]
        with Sse(server, f"?ticket={ticket}") as first:
            assert reads(server, "alice", first) and reads(server, "news", first)
            # A reconnect takes the ticket over.
            with Sse(server, f"?ticket={ticket}") as second:
                while first.event() is not None:
                    pass
                assert reads(server, "alice", second)
        with Sse(server, f"?ticket={ticket}") as third:
            assert reads(server, "alice", third)
        assert status(server, f"/events/bob?ticket={ticket}") == (403, "insufficient_scope")
        assert status(server, f"/events?ticket={ticket[:-1]}-") == (401, "invalid_token")
        assert ticket not in pathlib.Path(server.log_path).read_text()
    finally:
        process.terminate()
        process.wait()


def test_recipe_nginx_auth_request(start, port):
    users = {"session=a": "alice", "session=b": "bob"}

    def backend(_, path, headers, __):
        user = users.get(headers.get("Cookie"))
        assert path == "/whoami"
        return (200, {"X-User": user}, b"") if user else (401, {}, b"")

    server = start("--identity-header", "X-User", "--trusted-proxy", "127.0.0.1")
    with serving(backend) as url:
        locations = recipe("nginx", "nginx with `auth_request`")
        assert "http://127.0.0.1:3000" in locations and "http://127.0.0.1:8000" in locations
        locations = locations.replace("http://127.0.0.1:3000", url).replace("http://127.0.0.1:8000", server.public_url)
        with nginx(locations, port().number) as edge:
            with Sse(server, "", "Cookie: session=a", address=edge) as stream:
                assert reads(server, "alice", stream)
            assert status(server, "/events/alice", "Cookie: session=b", address=edge)[0] == 403
            assert status(server, "/events/alice", address=edge)[0] == 401
            # The client names a user itself: nginx replaces that.
            with Sse(server, "", "Cookie: session=b", "X-User: alice", address=edge) as stream:
                assert reads(server, "bob", stream)


def test_recipe_a_proxy_that_logs_users_in(start):
    server = start("--identity-header", "X-Auth-Request-User", "--trusted-proxy", "127.0.0.2")
    flags = recipe("sh", "oauth2-proxy")
    assert "--identity-header X-Auth-Request-User" in flags and "--trusted-proxy" in flags
    user = "X-Auth-Request-User: alice"
    with Sse(server, "", user, source="127.0.0.2") as stream:
        assert reads(server, "alice", stream)
    assert status(server, "/events/bob", user, source="127.0.0.2")[0] == 403
    assert status(server, "/events", user, source="127.0.0.1") == (400, "invalid_request")
    assert status(server, "/events", user, "X-Auth-Request-User: bob", source="127.0.0.2")[0] == 400
    assert status(server, "/events", source="127.0.0.2")[0] == 401
