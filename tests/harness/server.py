"""A server under test: the real binary on free ports, ended by its process id."""

import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import tempfile
import time
from urllib.parse import quote as percent_encode

import httpx

from .wait import PATIENCE, until

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("ENCKE", ROOT / "target" / "debug" / "encke"))

# No setting of the one who runs the tests may change what is tested.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("ENCKE")}
# Nor does a server leave a data directory behind, unless a test asks for one with --data.
ENVIRONMENT["ENCKE_MEMORY"] = "true"


def encke(*arguments, timeout=PATIENCE, **options):
    """Runs a command of the binary to its end."""
    options.setdefault("env", ENVIRONMENT)
    return subprocess.run(
        [BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=timeout, **options
    )


class Server:
    """A running `encke serve`."""

    def __init__(
        self,
        *flags,
        public="127.0.0.1:0",
        control="127.0.0.1:0",
        workers=2,
        nofile=None,
        env=None,
        token=None,
        pass_fds=(),
    ):
        self.directory = tempfile.TemporaryDirectory(prefix="encke-test-")
        path = pathlib.Path(self.directory.name)
        ports, log = path / "ports.json", path / "log"
        command = [BINARY, "serve", "--control", control]
        if public:
            command += ["--listen", public]
        command += ["--ports-file", ports, "--workers", workers, *flags]

        def prepare():
            if nofile:
                resource.setrlimit(resource.RLIMIT_NOFILE, (nofile, nofile))

        self.log_path = log
        with open(log, "wb") as output:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=path,
                env={**ENVIRONMENT, **(env or {})},
                preexec_fn=prepare if nofile else None,
                pass_fds=pass_fds,
            )
        self.pid = self.process.pid
        self.api = None
        try:
            said = until(lambda: self._ports(ports), "listening")
        except AssertionError:
            self.kill()
            raise
        self.said = said
        self.public = address(said["public"])
        self.control = address(said["control"])
        assert said["pid"] == self.pid
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        # One connection, kept: it is there when descriptors have run out.
        self.api = httpx.Client(
            base_url=self.control_url,
            headers=headers,
            timeout=PATIENCE,
            limits=httpx.Limits(max_connections=1, keepalive_expiry=None),
            trust_env=False,
        )

    def _ports(self, ports):
        if self.process.poll() is not None:
            raise AssertionError(f"the server ended with {self.process.returncode}:\n{self.log}")
        try:
            return json.loads(ports.read_text())
        except (FileNotFoundError, ValueError):
            return None

    @property
    def log(self):
        return self.log_path.read_text(errors="replace")

    @property
    def public_url(self):
        return "http://%s:%d" % self.public

    @property
    def control_url(self):
        return "http://%s:%d" % self.control

    # The control API

    def post(self, path, data=b"", **options):
        answer = self.api.post(path, content=data, **options)
        assert answer.is_success, (answer.status_code, answer.text)
        return answer.json()

    def publish(self, subject, data, kind=None, content_type="text/plain; charset=utf-8"):
        """Publishes and returns the receipt."""
        return self._event("publish", subject, data, kind, content_type)

    def send(self, subject, data, kind=None, content_type="text/plain; charset=utf-8"):
        return self._event("send", subject, data, kind, content_type)

    def _event(self, verb, subject, data, kind, content_type):
        data = data.encode() if isinstance(data, str) else data
        params = {"type": kind} if kind else None
        headers = {"Content-Type": content_type} if content_type else {}
        return self.post(f"/v1/{verb}/{quote(subject)}", data, params=params, headers=headers)

    def subscribe(self, subscriber, subject):
        answer = self.api.put(f"/v1/subscriptions/{quote(subscriber)}/{quote(subject)}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def unsubscribe(self, subscriber, subject):
        answer = self.api.delete(f"/v1/subscriptions/{quote(subscriber)}/{quote(subject)}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def stats(self):
        answer = self.api.get("/v1/stats")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def totals(self):
        return self.stats()["totals"]

    def sessions(self, of):
        answer = self.api.get(f"/v1/sessions/{quote(of)}")
        assert answer.status_code == 200, answer.text
        return answer.json()["sessions"]

    # The process

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self):
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024

    def baseline(self):
        """What must be as before when all clients have gone."""
        stats = self.stats()
        totals = stats["totals"]
        return {
            "connections": totals["connections"],
            "sessions": totals["sessions"],
            "backlog": (totals["backlog_sessions"], totals["backlog_bytes"]),
            "online": stats["online"],
            "dictionary": stats["graph"]["dictionary_entries"],
            "descriptors": self.descriptors(),
        }

    def signal(self, number=signal.SIGTERM):
        os.kill(self.pid, number)

    def wait(self, patience=PATIENCE):
        """Waits for the end and returns the exit code."""
        return self.process.wait(timeout=patience)

    def kill(self):
        """Ends the server at once."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._clean()

    def stop(self):
        """Ends the server as an operator would, and checks how it went."""
        if self.process.poll() is None:
            self.signal()
            try:
                self.wait()
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"the server did not end:\n{self.log}") from None
        log = self.log
        self._clean()
        assert "panicked" not in log, log
        assert self.process.returncode == 0, (self.process.returncode, log)

    def _clean(self):
        if self.api:
            self.api.close()
            self.api = None
        self.directory.cleanup()

    def restart(self, *flags, **options):
        """Another server on the ports of this one, which has ended."""
        return Server(
            *flags, public="%s:%d" % self.public, control="%s:%d" % self.control, **options
        )


def address(text):
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def quote(text):
    return percent_encode(str(text), safe="")


def measure_cpu(server, seconds):
    """CPU time that the server takes while nothing is asked of it."""
    before = server.cpu_seconds()
    time.sleep(seconds)
    return server.cpu_seconds() - before
