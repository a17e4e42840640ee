"""`encke-lab record`: rows that survive interrupts and the end of what is watched."""

import csv
import json
import signal
import subprocess

from support.http import Sse
from support.program import begin, encke
from support.wait import PATIENCE, until


class Recording:
    """An `encke-lab record` to a file."""

    def __init__(self, path, *arguments):
        self.path = path
        self.process = begin("record", "--every", "100ms", "-o", path, *arguments)

    def rows(self):
        """Whole rows: the last may be under way."""
        if not self.path.exists():
            return []
        text = self.path.read_text()
        return list(csv.DictReader(text[: text.rfind("\n") + 1].splitlines()))

    def end(self):
        """Interrupts it as a person would."""
        self.process.send_signal(signal.SIGINT)
        return self.process.communicate(timeout=PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


def test_record_tells_what_the_server_uses(server, name, tmp_path):
    path = tmp_path / "mem.csv"
    with Recording(path, "--pid", server.pid, "--port", server.public[1], "--json") as recording:
        until(recording.rows, "a row")
        with Sse(server, name()):
            until(lambda: recording.rows()[-1]["established_connections"] == "1", "counted")
        out, err = recording.end()
    assert recording.process.returncode == 0, err
    assert f"watching process {server.pid}" in err
    rows = recording.rows()
    assert json.loads(out)["rows"] == len(rows)
    for row in rows:
        assert int(row["pid"]) == server.pid
        assert int(row["resident_bytes"]) > 100_000
        assert int(row["threads"]) >= 2 and float(row["cpu_user_seconds"]) >= 0
        assert int(row["slab_bytes"]) > 0 and int(row["network_received_bytes"]) > 0
    # Dear to read: every row has it only on a machine that reads it in two milliseconds.
    walked = [row for row in rows if row["private_bytes"]]
    assert walked[0] is rows[0]
    for row in walked:
        assert int(row["resident_bytes"]) >= int(row["private_bytes"]) > 100_000
    seconds = [float(row["elapsed_seconds"]) for row in rows]
    assert seconds == sorted(seconds)


def test_record_outlives_what_it_watches(start, tmp_path):
    server = start()
    with Recording(tmp_path / "mem.csv", "--pid", server.pid) as recording:
        until(lambda: any(row["pid"] for row in recording.rows()), "watched")
        server.stop()
        until(lambda: not recording.rows()[-1]["pid"], "noticed")
        before = len(recording.rows())
        until(lambda: len(recording.rows()) > before, "going on")
        _, err = recording.end()
    assert f"process {server.pid} has ended" in err
    assert int(recording.rows()[-1]["slab_bytes"]) > 0


def test_record_waits_for_a_name(tmp_path):
    ports = f"{tmp_path}/ports.json"
    named = f"encke serve --ports-file {ports}"
    with Recording(tmp_path / "mem.csv", "--name", named) as recording:
        until(recording.rows, "a row")
        command = ["serve", "--ports-file", ports]
        command += ["--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        for _ in range(2):
            server = begin(*command, **quiet)
            pid = str(server.pid)
            try:
                until(lambda: recording.rows()[-1]["pid"] == pid, "watched")
            finally:
                server.kill()
                server.wait()
            until(lambda: not recording.rows()[-1]["pid"], "noticed")
        _, err = recording.end()
    assert "there is no process" in err and err.count("watching process") == 2


def test_record_refuses(tmp_path):
    said = encke("record", "--pid", 999_999_999)
    assert said.returncode == 1 and "there is no process" in said.stderr
    kept = tmp_path / "kept.csv"
    kept.write_text("precious")
    said = encke("record", "--duration", "0", "-o", kept)
    assert said.returncode == 1 and "--force" in said.stderr
    assert kept.read_text() == "precious"
    said = encke("record", "--duration", "0", "--force", "-o", kept)
    assert said.returncode == 0 and kept.read_text().startswith("time,elapsed_seconds,")
    assert encke("record", "--json").returncode == 2
    assert encke("record", "--every", "1ms").returncode == 2
    assert encke("record", "--pid", 1, "--name", "init").returncode == 2


def test_record_to_standard_output():
    said = encke("record", "--duration", "200ms", "--every", "100ms")
    assert said.returncode == 0, said.stderr
    seconds = [float(row["elapsed_seconds"]) for row in csv.DictReader(said.stdout.splitlines())]
    # At the beginning, the end, and between them unless the machine let that moment pass.
    assert len(seconds) in (2, 3)
    assert seconds == sorted(seconds) and seconds[-1] >= 0.2
