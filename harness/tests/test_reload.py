"""Reloads by SIGHUP: what they change, what they leave alone, and what they say."""

import base64
import hashlib
import hmac
import json
import signal
import threading
import time

import pytest

from support.http import Connection, Sse
from support.issuer import Issuer, Key, serving
from support.wait import until

ORIGIN = "https://shop.example"


class Settings:
    """The configuration file of a running server."""

    def __init__(self, path, **settings):
        self.path = path
        self.settings = settings
        self.reports = 0
        self.write(**settings)

    def write(self, **settings):
        """Replaces the file as a whole; underscores in names stand for hyphens."""
        lines = [f"{name.replace('_', '-')} = {value}\n" for name, value in settings.items()]
        self.path.write_text("".join(lines))

    def reload(self, server, **settings):
        """Changes settings, has them read again, and returns what the server says."""
        self.settings |= settings
        self.write(**self.settings)
        return self.signal(server)

    def signal(self, server):
        """Sends SIGHUP, and returns the line of the log that reports the reload."""
        server.signal(signal.SIGHUP)
        self.reports += 1
        return until(lambda: self.report(server), "a report of the reload")

    def report(self, server):
        lines = [line for line in server.log.splitlines() if "reload" in line]
        return lines[self.reports - 1] if len(lines) >= self.reports else None


@pytest.fixture
def settings(tmp_path):
    """Makes the configuration file of a server."""
    return lambda **settings: Settings(tmp_path / "encke.toml", **settings)


def allowed_origin(server, origin=ORIGIN):
    """Which origin may read a new stream."""
    with Sse(server, "cors", f"Origin: {origin}") as stream:
        return stream.fields.get("Access-Control-Allow-Origin")


def test_reloads_under_load_lose_no_stream_and_no_event(start, settings, name):
    file = settings(retry='"1s"')
    server = start("--config", file.path)
    subject, streams, events = name(), [], 2000
    for _ in range(40):
        streams.append(Sse(server, subject))
    done = threading.Event()
    received = [[] for _ in streams]

    def read(stream, into):
        while len(into) < events:
            into.append(stream.data())

    readers = [
        threading.Thread(target=read, args=pair, daemon=True)
        for pair in zip(streams, received, strict=True)
    ]
    for reader in readers:
        reader.start()

    def publish():
        for number in range(events):
            receipt = server.publish(subject, str(number))
            assert receipt["written"] + receipt["queued"] == len(streams), receipt
        done.set()

    publisher = threading.Thread(target=publish, daemon=True)
    publisher.start()
    reloads = 0
    while not done.is_set():
        assert publisher.is_alive() or done.is_set(), "a receipt missed a stream"
        reloads += 1
        origin = f'"https://{reloads}.example"'
        report = file.reload(server, cors_origin=origin, heartbeat=f'"{reloads + 30}s"')
        assert "changed: cors-origin, heartbeat" in report
    publisher.join()
    for reader in readers:
        reader.join()
    assert reloads >= 5, "the load was over before there were reloads"
    expected = [str(number) for number in range(events)]
    assert all(got == expected for got in received)
    assert allowed_origin(server, f"https://{reloads}.example")
    sessions = lambda: server.stats()["totals"]["sessions"]["sse"]
    until(lambda: sessions() == len(streams), "all streams and no other")
    for stream in streams:
        stream.close()


def test_an_origin_that_is_added_may_read_and_one_that_is_removed_may_not(start, settings):
    file = settings()
    server = start("--config", file.path)
    assert allowed_origin(server) is None
    assert "changed: cors-origin" in file.reload(server, cors_origin=f'["{ORIGIN}"]')
    assert allowed_origin(server) == ORIGIN
    assert "changed: cors-origin" in file.reload(server, cors_origin="[]")
    assert allowed_origin(server) is None


def test_a_lower_limit_refuses_new_connections_and_closes_none(start, settings, name):
    file = settings()
    server = start("--config", file.path)
    subject = name()
    with Sse(server, subject) as first, Sse(server, subject) as second:
        assert "changed: max-connections" in file.reload(server, max_connections=1)
        with Connection(server) as refused:
            refused.get("/nothing")
            assert refused.response().status == 503
        server.publish(subject, "still here")
        assert [first.data(), second.data()] == ["still here"] * 2
        file.reload(server, max_connections=10)
        with Sse(server, subject):
            pass


def test_retry_of_new_streams_is_that_of_the_reload(start, settings, name):
    file = settings(retry='"1s"')
    server = start("--config", file.path)
    file.reload(server, retry='"7s"')
    subject = name()
    with Sse(server, subject) as stream:
        server.publish(subject, "x")
        stream.data()
        assert len(stream.retry) == 1 and 3500 <= stream.retry[0] < 10500


def test_the_log_level_is_that_of_the_reload(start, settings):
    file = settings(log_level='"info"')
    server = start("--config", file.path)
    assert "changed: log-level" in file.reload(server, log_level='"error"')
    # Not reported, as that is no error, and applied all the same.
    file.write(log_level='"error"', cors_origin=f'"{ORIGIN}"')
    server.signal(signal.SIGHUP)
    until(lambda: allowed_origin(server) == ORIGIN, "reloaded")
    # The change from `error` to `info` is the next line: there was none between.
    file.settings["cors_origin"] = f'"{ORIGIN}"'
    assert "changed: log-level" in file.reload(server, log_level='"info"')


BROKEN = {
    "no TOML": "cors-origin = [",
    "an unknown name": 'cors-orgin = "https://evil.example"',
    "a value of the wrong type": "cors-origin = 7",
    "a value that cannot be": 'cors-origin = "https://evil.example"\nretry = "soon"',
    "a listener that strangers reach": 'cors-origin = "*"\nlisten = "0.0.0.0:0"',
    "a token file that is missing": 'cors-origin = "*"\ncontrol-token-file = "/nowhere"',
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_changes_nothing_and_is_said_in_one_line(start, settings, text):
    file = settings(cors_origin=f'"{ORIGIN}"', listen='"127.0.0.1:0"')
    server = start("--config", file.path, public=None)
    file.path.write_text(text)
    report = file.signal(server)
    assert "the reload failed and changed nothing" in report
    assert allowed_origin(server) == ORIGIN
    assert allowed_origin(server, "https://evil.example") is None
    assert "nothing has changed" in file.reload(server)


def test_a_setting_that_needs_a_restart_is_named_and_stays(start, settings):
    file = settings()
    server = start("--config", file.path)
    report = file.reload(server, user_timeout='"9s"', cors_origin=f'"{ORIGIN}"')
    assert "changed: cors-origin; a restart is needed for: user-timeout" in report
    report = file.reload(server)
    assert "a restart is needed for: user-timeout" in report


def test_flags_and_environment_of_the_start_stay_above_the_file(start, settings):
    file = settings()
    server = start("--config", file.path, "--retry", "2s", env={"ENCKE_CORS_ORIGIN": ORIGIN})
    report = file.reload(server, retry='"9s"', cors_origin='"https://other.example"')
    assert "nothing has changed" in report
    assert allowed_origin(server) == ORIGIN


class Keys:
    """A file with a secret for HS256, and tokens that are signed with it."""

    def __init__(self, path, secret):
        self.path = path
        self.rotate(secret)

    def rotate(self, secret):
        self.secret = secret
        self.path.write_text(secret)
        self.path.chmod(0o600)

    def token(self, subject, secret=None):
        claims = {"sub": subject, "exp": int(time.time()) + 600}
        parts = [encode(json.dumps(part).encode()) for part in ({"alg": "HS256"}, claims)]
        key = (secret or self.secret).encode()
        signature = hmac.new(key, ".".join(parts).encode(), hashlib.sha256).digest()
        return ".".join([*parts, encode(signature)])


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


OLD, NEW = "old-" * 8, "new-" * 8


def status(server, token=None, target="/events"):
    """The status of the answer to a stream request with a token."""
    with Connection(server) as connection:
        connection.get(target, *([f"Authorization: Bearer {token}"] if token else []))
        return connection.head()[0]


def test_keys_are_rotated_under_load_and_no_good_client_is_refused(start, settings, tmp_path):
    """As an issuer rotates: both keys are good for a while, then the old one goes."""
    old, new = Keys(tmp_path / "old", OLD), Keys(tmp_path / "new", NEW)
    file = settings(jwt_secret_file=f'["{old.path}"]')
    server = start("--config", file.path)
    current, refused, served = [old], [], []
    done = threading.Event()

    def connect():
        while not done.is_set():
            keys = current[0]  # The key that the issuer signs with now.
            answer = status(server, keys.token("alice"))
            if answer == 200:
                served.append(answer)
            elif keys is current[0]:
                # Else the issuer has changed to another key in between.
                refused.append(answer)

    with Sse(server, "", f"Authorization: Bearer {old.token('alice')}") as before:
        assert status(server, new.token("alice")) == 401
        assert status(server) == 401
        clients = [threading.Thread(target=connect, daemon=True) for _ in range(3)]
        for client in clients:
            client.start()
        for _ in range(5):
            both = f'["{old.path}", "{new.path}"]'
            assert "changed: jwt-secret-file" in file.reload(server, jwt_secret_file=both)
            current[0] = new
            count = len(served)
            until(lambda: refused or len(served) >= count + 6, "new tokens are in use")
            file.reload(server, jwt_secret_file=f'["{new.path}"]')
            assert status(server, old.token("alice")) == 401
            count = len(served)
            until(lambda: refused or len(served) >= count + 6, "the load goes on")
            old, new = new, old
        done.set()
        for client in clients:
            client.join()
        assert not refused and len(served) > 50, (refused, len(served))
        server.publish("alice", "the key is gone, the session is not")
        assert before.data() == "the key is gone, the session is not"


def test_a_key_file_with_other_content_is_read_again(start, settings, tmp_path):
    keys = Keys(tmp_path / "secret", OLD)
    file = settings(jwt_secret_file=f'"{keys.path}"')
    server = start("--config", file.path)
    assert status(server, keys.token("alice")) == 200
    keys.rotate(NEW)
    assert "changed: jwt-secret-file" in file.reload(server)
    assert status(server, keys.token("alice", OLD)) == 401
    assert status(server, keys.token("alice")) == 200
    keys.path.chmod(0o644)
    assert "chmod 600" in file.reload(server)
    keys.path.write_text("too short")
    keys.path.chmod(0o600)
    assert "changed nothing" in file.reload(server)
    assert status(server, keys.token("alice", NEW)) == 200
    assert OLD not in server.log and NEW not in server.log


def test_key_sets_come_and_go_with_their_addresses(start, settings, tmp_path):
    keys, key = Keys(tmp_path / "secret", OLD), Key("ES256")
    issuer = Issuer(key)
    file = settings(jwt_secret_file=f'"{keys.path}"')
    server = start("--config", file.path)
    token = key.token(sub="alice")
    assert status(server, token) == 401
    with serving(issuer.answer) as url:
        # The keys are there when the reload is over.
        assert "changed: jwks-url" in file.reload(server, jwks_url=f'"{url}/jwks.json"')
        assert status(server, token) == 200
        fetches = issuer.fetches
    # The issuer is gone: its keys stay, and no reload fetches what it knows.
    file.reload(server, retry='"2s"')
    assert status(server, token) == 200
    assert issuer.fetches == fetches
    assert "changed: jwks-url" in file.reload(server, jwks_url="[]")
    assert status(server, token) == 401
    assert status(server, keys.token("alice")) == 200


PUBLISHER, SCRAPER = "publisher-" * 3, "scraper-" * 3


def tokens(path, **secrets):
    """Writes a file of control tokens, each of which may publish and look."""
    lines = [
        f'[[token]]\nname = "{name}"\nsecret = "{secret}"\nrights = ["publish", "metrics"]\n'
        for name, secret in secrets.items()
    ]
    path.touch(mode=0o600)
    path.write_text("".join(lines))
    return f'"{path}"'


def may(server, secret):
    """Whether a control token is accepted, for requests of a new and of a kept connection."""
    headers = {"Authorization": f"Bearer {secret}"}
    kept = server.api.get("/v1/stats", headers=headers).status_code
    assert server.ask("/v1/stats", headers=headers).status_code == kept
    assert kept in (200, 401), kept
    return kept == 200


def test_a_control_token_that_is_removed_is_refused_and_one_that_is_added_accepted(
    start, settings, tmp_path, name
):
    path = tmp_path / "tokens"
    file = settings(control_tokens=tokens(path, backend=PUBLISHER))
    server = start("--config", file.path, token=PUBLISHER)
    assert may(server, PUBLISHER) and not may(server, SCRAPER)
    subject = name()
    with Sse(server, subject) as stream:
        tokens(path, backend=PUBLISHER, scraper=SCRAPER)
        assert "changed: control-tokens" in file.reload(server)
        assert may(server, PUBLISHER) and may(server, SCRAPER)
        server.publish(subject, "still here")
        assert stream.data() == "still here"
        tokens(path, scraper=SCRAPER)
        file.reload(server)
        assert not may(server, PUBLISHER) and may(server, SCRAPER)
    path.write_text("[[token]]\n")
    assert "changed nothing" in file.reload(server)
    assert may(server, SCRAPER)
    assert PUBLISHER not in server.log and SCRAPER not in server.log


def test_a_token_beside_the_demo_page_fails_the_whole_reload(start, settings, tmp_path):
    """The page's requests carry no token: with one, the page would have to be closed first."""
    file = settings()
    server = start("--config", file.path, "--demo")
    given = tokens(tmp_path / "tokens", backend=PUBLISHER)
    report = file.reload(server, control_tokens=given, cors_origin=f'"{ORIGIN}"')
    assert "changed nothing" in report and "--demo" in report
    assert allowed_origin(server) is None
    assert server.api.get("/v1/stats").status_code == 200


def test_tokens_that_begin_to_cross_a_network_in_the_clear_are_warned_about_once(start, settings):
    file = settings()
    server = start("--config", file.path, "--allow-anonymous", public="0.0.0.0:0")
    assert "without encryption" not in server.log
    file.reload(server, tickets="true")
    until(lambda: "without encryption" in server.log, "a warning")
    file.reload(server, retry='"2s"')
    file.reload(server, retry='"3s"')
    assert server.log.count("without encryption") == 1


def test_a_reload_cannot_open_a_listener_to_strangers(start, settings, tmp_path):
    """The file is good in itself; with the listener that stays open until a restart it is not."""
    keys = Keys(tmp_path / "secret", OLD)
    file = settings(listen='"0.0.0.0:0"', jwt_secret_file=f'"{keys.path}"')
    server = start("--config", file.path, public=None)
    server.public = ("127.0.0.1", server.public[1])
    report = file.reload(server, listen='"127.0.0.1:0"', jwt_secret_file="[]")
    assert "changed nothing" in report and "restart" in report, report
    assert status(server, target="/events/alice") == 401
    assert status(server, keys.token("alice")) == 200
