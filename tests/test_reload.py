"""Reloads by SIGHUP: what they change, what they leave alone, and what they say."""

import signal
import threading

import pytest

from harness.http import Connection, Sse
from harness.wait import until

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
        assert stream.retry == [7000]


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
