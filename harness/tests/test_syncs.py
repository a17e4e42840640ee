"""What is acknowledged was synced before, as the kernel sees it: strace notes the calls of a real server with real files."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess

import pytest

from support.erlang import COOKIE, Cluster, atom, pair
from support.program import BINARY, ENVIRONMENT, installed
from support.wait import PATIENCE, until

CALLS = "fsync,fdatasync,rename,renameat,renameat2,write,writev,sendto,sendmsg"


@contextlib.contextmanager
def traced(pid, path):
    """Notes the calls of a running server's threads."""
    strace = subprocess.Popen(
        [installed("strace"), "-f", "-qq", "-yy", "-s", "64", "-e", f"trace={CALLS}", "-o", path, "-p", str(pid)],
        stderr=subprocess.PIPE,
    )
    try:
        tasks = pathlib.Path(f"/proc/{pid}/task")
        until(lambda: all("TracerPid:\t0\n" not in (task / "status").read_text() for task in tasks.iterdir()), "traced")
        yield
    finally:
        strace.terminate()
        strace.communicate(timeout=PATIENCE)


def calls(path):
    """The calls in the order in which they have returned, those that write in the order in which they began."""
    begun, found = {}, []
    for line in path.read_text(errors="replace").splitlines():
        thread, _, call = line.partition(" ")
        call = call.strip()
        if call.endswith("<unfinished ...>"):
            begun[thread] = call.removesuffix("<unfinished ...>").rstrip()
            if not is_sync(call):
                found.append(begun[thread])
        elif call.startswith("<..."):
            if is_sync(begun.get(thread, "")):
                found.append(begun[thread] + call.partition("resumed>")[2])
        else:
            found.append(call)
    return found


def is_sync(call):
    return call.startswith(("fsync(", "fdatasync("))


def index(found, pattern):
    at = next((at for at, call in enumerate(found) if re.search(pattern, call)), None)
    assert at is not None, (pattern, found)
    return at


def assert_synced(found, file, answer):
    """The first sync of a file has returned before the first answer begins."""
    assert index(found, rf"^(fsync|fdatasync)\(.*{file}.*= 0$") < index(found, answer), found


def test_a_subscription_is_answered_when_it_is_on_disk(start, tmp_path):
    server = start("--data", tmp_path / "data")
    server.subscribe("before", "rj")
    with traced(server.pid, tmp_path / "trace"):
        server.subscribe("alice", "rj")
    assert_synced(calls(tmp_path / "trace"), r"/data/graph\.redb>", r'^(write|sendto|sendmsg|writev)\(.*"HTTP/1\.1 200')


def test_an_event_is_answered_when_it_is_on_disk(start, tmp_path):
    """If its receipt is to say so."""
    server = start("--memory", "--history-dir", tmp_path / "history", "--history-sync", "receipt")
    server.publish("rj", "before")
    with traced(server.pid, tmp_path / "trace"):
        server.publish("rj", "hello")
    assert_synced(
        calls(tmp_path / "trace"), "/history/segment-", r'^(write|sendto|sendmsg|writev)\(.*"HTTP/1\.1 200'
    )


@pytest.mark.skipif(not shutil.which("epmd"), reason="harness/tests/setup installs Erlang")
def test_a_call_is_answered_when_its_spellings_are_on_disk(start, tmp_path):
    cluster = Cluster(start, "--data", tmp_path / "data")
    try:
        peer = cluster.peer()
        request = pair(atom(b"add_subscriptions"), b"\x6c\x00\x00\x00\x01" + pair(atom(b"alice"), atom(b"rj")) + b"\x6a")
        caller = pair(peer.pid(), b"\x5a\x00\x01" + atom(peer.name) + struct.pack(">II", 77, 1))
        with traced(cluster.server.pid, tmp_path / "trace"):
            peer.send(b"\x68\x03" + atom(b"$gen_call") + caller + request, to=b"subsmanager")
            (size,) = struct.unpack(">I", peer.read(4))
            assert peer.read(size).endswith(atom(b"ok"))
        found = calls(tmp_path / "trace")
        answer = rf"^(write|sendto|sendmsg|writev)\(.*TCP:\[.*:{peer.socket.getsockname()[1]}\]"
        assert_synced(found, "/erlang-ids>", answer)
        assert_synced(found, r"/data/graph\.redb>", answer)
        peer.close()
    finally:
        cluster.stop()


@pytest.mark.skipif(not shutil.which("epmd"), reason="harness/tests/setup installs Erlang")
def test_a_file_of_spellings_replaces_another_when_it_is_on_disk(tmp_path):
    """At each start the file is written anew: first its content is on disk, then its name."""
    cookie, ports, trace = tmp_path / "cookie", tmp_path / "ports", tmp_path / "trace"
    cookie.write_text(COOKIE)
    cookie.chmod(0o400)
    env = {name: value for name, value in ENVIRONMENT.items() if name != "ENCKE_MEMORY"}
    server = subprocess.Popen(
        [installed("strace"), "-f", "-qq", "-yy", "-e", f"trace={CALLS}", "-o", trace, BINARY, "serve", "--data",
         tmp_path / "data", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--ports-file", ports, "--drain-timeout",
         "1s", "--erlang-name", "encke@127.0.0.1", "--erlang-cookie-file", cookie],
        env={**env, "ERL_EPMD_PORT": "1"}, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        said = until(lambda: ports.exists() and ports.read_text() and json.loads(ports.read_text()), "it serves")
        os.kill(said["pid"], 15)
        server.wait(PATIENCE)
    finally:
        server.kill()
        server.wait()
    found = calls(trace)
    content = index(found, r"^fsync\(.*/erlang-ids\.new>\) += 0")
    renamed = index(found, r"^rename\w*\(.*erlang-ids\.new.*erlang-ids\"")
    names = [at for at, call in enumerate(found) if re.search(r"^fsync\(\d+<[^>]*/data>\) += 0", call)]
    assert content < renamed and any(at > renamed for at in names), found
