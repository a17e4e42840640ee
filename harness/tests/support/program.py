"""The real binary under test: where it is, and how it is started."""

import contextlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys

import httpx

from .http import PLAIN
from .wait import PATIENCE, until

ROOT = pathlib.Path(__file__).resolve().parents[3]
# Programs are started in directories of their own: a relative path is one from here.
BINARY = pathlib.Path(os.environ.get("ENCKE", ROOT / "target" / "debug" / "encke")).resolve()

PROGRAMS = ("encke", "encke-proxy", "encke-lab")
# Commands of the programs beside it. A test names a command, and its program follows.
OF_LAB = ("flood", "drive", "friends", "prove", "record", "plot", "compare")
OF_PROXY = ("tcp", "hello")

# No setting of the one who runs the tests may change what is tested.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("ENCKE")}
# Nor does a server leave a data directory behind, unless a test asks for one with --data.
ENVIRONMENT["ENCKE_MEMORY"] = "true"


def installed(program):
    """Where a program is that `harness/tests/setup` installs. Debian keeps servers outside the PATH of users."""
    path = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin:{sys.prefix}/bin")
    assert path, f"{program} is not installed: run harness/tests/setup"
    return path


def program_of(command="serve"):
    """The program that has a command."""
    name = "encke-lab" if command in OF_LAB else "encke-proxy" if command in OF_PROXY else "encke"
    return BINARY.with_name(name)


def encke(*arguments, timeout=PATIENCE, **options):
    """Runs a command of a program to its end."""
    options.setdefault("env", ENVIRONMENT)
    return subprocess.run(
        [program_of(*arguments[:1]), *map(str, arguments)], capture_output=True, text=True, timeout=timeout, **options
    )


def begin(*arguments, **options):
    """Starts a command of a program that goes on; what it prints comes over pipes."""
    piped = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        [program_of(*arguments[:1]), *map(str, arguments)], **{"env": ENVIRONMENT, "text": True, **piped, **options}
    )


class Program:
    """A running server command, on free ports, ended by its process id."""

    def __init__(self, verb, *flags, cwd, nofile=None, env=None, pass_fds=()):
        ports = pathlib.Path(cwd) / f"ports-{verb}-{id(self)}.json"
        self.log_path = ports.with_suffix(".log")

        def prepare():
            resource.setrlimit(resource.RLIMIT_NOFILE, (nofile, nofile))

        with open(self.log_path, "wb") as output:
            self.process = begin(
                verb,
                *flags,
                "--ports-file",
                ports,
                stdout=output,
                stderr=output,
                cwd=cwd,
                env={**ENVIRONMENT, **(env or {})},
                preexec_fn=prepare if nofile else None,
                pass_fds=pass_fds,
            )
        self.pid = self.process.pid
        self.is_ending = False
        try:
            self.said = until(lambda: self._ports(ports), "listening")
        except AssertionError:
            self.kill()
            raise

    def _ports(self, ports):
        if self.process.poll() is not None:
            raise AssertionError(f"it ended with {self.process.returncode}:\n{self.log}")
        try:
            return json.loads(ports.read_text())
        except (FileNotFoundError, ValueError):
            return None

    @property
    def log(self):
        return self.log_path.read_text(errors="replace")

    @property
    def listens(self):
        return [address(text) for text in self.said["listen"]]

    @property
    def listen(self):
        listening = self.said["listen"]
        return address(listening if isinstance(listening, str) else listening[0])

    @property
    def url(self):
        return "http://%s:%d/" % self.listen

    @property
    def control(self):
        """Where it may be looked at, if anywhere."""
        return address(self.said["control"]) if "control" in self.said else None

    @property
    def control_url(self):
        return "http://%s:%d" % self.control

    def ask(self, path, **options):
        """Asks the control listener."""
        return httpx.get(self.control_url + path, timeout=PATIENCE, **PLAIN, **options)

    def stats(self):
        answer = self.ask("/v1/stats")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def totals(self):
        return self.stats()["totals"]

    def threads(self):
        """Directories of threads in /proc, by their names."""
        tasks = pathlib.Path(f"/proc/{self.pid}/task").iterdir()
        return {(task / "comm").read_text().strip(): task for task in tasks}

    def descriptors(self):
        """Descriptors in all tables of the process: with `--private-fds` each worker has one of its own."""
        tables = set()
        for task in pathlib.Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError):
                tables.add(frozenset((entry.name, os.readlink(entry)) for entry in (task / "fd").iterdir()))
        return sum(map(len, tables))

    def pipes(self):
        directory = pathlib.Path(f"/proc/{self.pid}/fd")
        count = 0
        for entry in directory.iterdir():
            try:
                count += os.readlink(entry).startswith("pipe:")
            except FileNotFoundError:
                pass
        return count

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self):
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024

    def signal(self, number=signal.SIGTERM):
        self.is_ending |= number in (signal.SIGINT, signal.SIGTERM)
        os.kill(self.pid, number)

    def wait(self, patience=PATIENCE):
        """Waits for the end and returns the exit code."""
        return self.process.wait(timeout=patience)

    def kill(self):
        """Ends it at once."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def stop(self):
        """Ends it as an operator would, and checks how it went."""
        if self.process.poll() is None:
            # A second signal would end it at once, whether it had drained or not.
            if not self.is_ending:
                self.signal()
            try:
                self.wait()
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"it did not end:\n{self.log}") from None
        assert "panicked" not in self.log, self.log
        assert self.process.returncode == 0, (self.process.returncode, self.log)


def address(text):
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)
