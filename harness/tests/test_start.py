"""The beginning of a server: what it refuses, what it says, what it inherits."""

import json
import os
import signal
import socket
import subprocess
from types import SimpleNamespace

import httpx
import pytest

from support.http import PLAIN, Connection, Sse
from support.program import BINARY, ENVIRONMENT, address, encke
from support.wait import PATIENCE


def refused(*flags, code=2, env=None):
    """Starts a server that must refuse to run, and returns the sentence."""
    said = encke("serve", *flags, env={**ENVIRONMENT, **(env or {})})
    assert said.returncode == code, (said.returncode, said.stdout, said.stderr)
    assert said.stderr.startswith("error: ")
    return said.stderr


FREE = ("--listen", "127.0.0.1:0", "--control", "127.0.0.1:0")


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_public_bind_needs_to_be_meant(address):
    sentence = refused("--listen", address, "--control", "127.0.0.1:0")
    assert "--allow-anonymous" in sentence and "127.0.0.1" in sentence


def test_public_bind_that_is_meant(start):
    server = start("--allow-anonymous", public="0.0.0.0:0")
    server.public = ("127.0.0.1", server.public[1])
    with Sse(server, "a") as stream:
        server.publish("a", "x")
        assert stream.data() == "x"
    # Others could reach the page: it may not publish.
    headers = {"X-Encke-Demo": "1", "Origin": server.public_url}
    assert httpx.get(f"{server.control_url}/demo/v1/subscriptions/a", headers=headers, **PLAIN).status_code == 403


def test_control_off_loopback_needs_a_token(start):
    sentence = refused("--listen", "127.0.0.1:0", "--control", "0.0.0.0:0")
    assert "token" in sentence
    start("--control-token", "secret-0123456789", control="0.0.0.0:0", token="secret-0123456789")


def test_token_from_file_and_environment(start, tmp_path):
    path = tmp_path / "token"
    path.write_text("from-file-0123456789\n")
    path.chmod(0o600)
    server = start("--control-token-file", path, token="from-file-0123456789")
    assert server.stats()["online"] == 0
    server = start(env={"ENCKE_CONTROL_TOKEN": "from-env-0123456789"}, token="from-env-0123456789")
    assert server.stats()["online"] == 0


def test_the_page_can_be_switched_off(start):
    server = start("--page=false")
    for method in ["GET", "HEAD"]:
        with Connection(server) as connection:
            connection.get("/", method=method)
            answer = connection.response(head_only=method == "HEAD")
            assert answer.status == 404
    with Connection(server) as connection:
        connection.get("/encke.js")
        assert connection.response().status == 404
    with Sse(server, "a") as stream:
        server.publish("a", "x")
        assert stream.data() == "x"
    assert "--page=false" in refused(*FREE, "--demo", "--page=false")


@pytest.mark.parametrize("flag", ["--control-token-file", "--control-tokens"])
def test_a_token_file_that_others_can_read_is_refused(tmp_path, flag):
    path = tmp_path / "token"
    path.write_text("from-file-0123456789\n")
    path.chmod(0o644)
    sentence = refused("--listen", "127.0.0.1:0", flag, path)
    assert "chmod 600" in sentence and "0123456789" not in sentence


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--head-timeout", "soon"], ["--head-timeout", "soon"]),
        (["--workers", "0"], ["--workers", "0"]),
        (["--backlog-bytes", "lots"], ["--backlog-bytes", "lots"]),
        (["--cors-origin", "example.com"], ["--cors-origin", "example.com"]),
        (["--host", "http://example.com"], ["--host", "without scheme"]),
        (["--host", "example.com:8000"], ["--host", "without a port"]),
        (["--listen", "nowhere"], ["--listen", "nowhere"]),
        (["--control-token", ""], ["--control-token"]),
        (["--control-token", "15-bytes-x-x-x-"], ["--control-token", "15 bytes"]),
    ],
)
def test_bad_flags_are_named(flags, words):
    said = encke("serve", *flags)
    assert said.returncode == 2
    for word in words:
        assert word in said.stderr, said.stderr


def test_unknown_keys_are_named(tmp_path):
    path = tmp_path / "encke.toml"
    path.write_text('listen = "127.0.0.1:0"\nhead-timeuot = "1s"\n')
    sentence = refused("--config", path)
    assert "head-timeuot" in sentence
    sentence = refused(*FREE, env={"ENCKE_HEAD_TIMEUOT": "1s"})
    assert "ENCKE_HEAD_TIMEUOT" in sentence


def test_file_below_environment_below_flags(start, tmp_path):
    path = tmp_path / "encke.toml"
    path.write_text('retry = "1s"\nheartbeat = "1s"\nevent-bytes = 1000\n')
    env = {"ENCKE_HEARTBEAT": "2s", "ENCKE_EVENT_BYTES": "2000"}
    server = start("--config", path, "--event-bytes", "3000", env=env)
    with Sse(server, "a") as stream:
        server.publish("a", "x")
        stream.data()
        assert 500 <= stream.retry[0] <= 1500, "about what the file says"
    assert server.api.post("/v1/publish/a", content=b"x" * 2500).status_code == 200
    said = encke("serve", "--config", path, "--print-config", env={**ENVIRONMENT, **env})
    assert said.returncode == 0
    lines = {line.partition("=")[0].strip(): line for line in said.stdout.splitlines()}
    assert '"1s"' in lines["retry"] and '"2s"' in lines["heartbeat"], said.stdout


def test_check_config(tmp_path):
    path = tmp_path / "encke.toml"
    path.write_text('retry = "1s"\n')
    assert encke("serve", "--config", path, "--check-config").returncode == 0
    path.write_text('retry = "1 parsec"\n')
    said = encke("serve", "--config", path, "--check-config")
    assert said.returncode == 2 and "parsec" in said.stderr


def test_port_in_use(start):
    server = start()
    address = "%s:%d" % server.public
    sentence = refused("--listen", address, "--control", "127.0.0.1:0", code=1)
    assert address in sentence
    address = "%s:%d" % server.control
    assert address in refused("--listen", "127.0.0.1:0", "--control", address, code=1)


def test_says_where_it_listens_and_what_binds_first(start):
    server = start(nofile=1000)
    log = server.log
    assert server.public_url in log and server.control_url in log
    assert "descriptors" in log


def test_logs_nothing_per_connection(start):
    server = start()
    before = server.log
    for number in range(20):
        with Sse(server, f"a-{number}") as stream:
            server.publish(f"a-{number}", "x")
            stream.data()
        with Connection(server) as connection:
            connection.send(b"nonsense\r\n\r\n")
            connection.response()
    assert server.log == before


def test_log_as_json(start):
    server = start("--log-format", "json")
    server.signal()
    assert server.wait() == 0
    lines = server.log.splitlines()
    assert lines
    for line in lines:
        json.loads(line)


def listening():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return listener


def activated(tmp_path, listeners, names):
    """Starts a server as systemd would: sockets from descriptor 3 on, and a place to notify."""
    place = tmp_path / "notify"
    notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notified.bind(str(place))
    notified.settimeout(PATIENCE)
    ports = tmp_path / "ports.json"
    # A shell puts its own process id, which it keeps on exec.
    numbers = [listener.fileno() for listener in listeners]
    moves = " ".join(f"{10 + at}<&{number}" for at, number in enumerate(numbers))
    moves += " " + " ".join(f"{3 + at}<&{10 + at}" for at in range(len(numbers)))
    script = f'export LISTEN_PID=$$; exec "$0" "$@" {moves}'
    process = subprocess.Popen(
        ["bash", "-c", script, BINARY, "serve", *FREE, "--ports-file", ports],
        env={
            **ENVIRONMENT,
            "LISTEN_FDS": str(len(listeners)),
            "LISTEN_FDNAMES": names,
            "NOTIFY_SOCKET": str(place),
        },
        pass_fds=numbers,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    return process, notified, ports


def test_socket_activation_and_notification(tmp_path):
    public, control = listening(), listening()
    process, notified, ports = activated(tmp_path, [public, control], "public:control")
    try:
        assert b"READY=1" in notified.recv(4096)
        said = json.loads(ports.read_text())
        assert said["public"] == "%s:%d" % public.getsockname()
        assert said["control"] == "%s:%d" % control.getsockname()
        public.close()
        control.close()
        server = SimpleNamespace(public=address(said["public"]))
        with Connection(server) as connection:
            connection.get("/nothing")
            assert connection.response().status == 404
        os.kill(process.pid, signal.SIGTERM)
        assert b"STOPPING=1" in notified.recv(4096)
        assert process.wait(timeout=PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
        notified.close()


def test_help_has_examples():
    verbs = ["serve", "publish", "send", "listen", "subscribe", "unsubscribe", "sessions"]
    said = encke("--help")
    assert said.returncode == 0
    for verb in verbs:
        assert verb in said.stdout
        help = encke(verb, "--help")
        assert help.returncode == 0 and f"encke {verb}" in help.stdout.partition("xample")[2], verb
    assert encke("nonsense").returncode == 2
    assert encke().returncode == 2
