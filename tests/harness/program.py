"""A server command under test that is no `encke serve`: the real binary on a free port."""

import json
import os
import pathlib
import resource
import signal
import subprocess

from .server import BINARY, ENVIRONMENT, address
from .wait import PATIENCE, until


class Program:
    """A running `encke hello` or `encke proxy`."""

    def __init__(self, verb, *flags, cwd, nofile=None):
        ports = pathlib.Path(cwd) / f"ports-{verb}-{id(self)}.json"
        self.log_path = ports.with_suffix(".log")
        command = [BINARY, verb, *flags, "--ports-file", ports]

        def prepare():
            if nofile:
                resource.setrlimit(resource.RLIMIT_NOFILE, (nofile, nofile))

        with open(self.log_path, "wb") as output:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=cwd,
                env=ENVIRONMENT,
                preexec_fn=prepare if nofile else None,
            )
        self.pid = self.process.pid
        try:
            said = until(lambda: self._ports(ports), "listening")
        except AssertionError:
            self.process.kill()
            self.process.wait()
            raise
        listening = said["listen"]
        self.listens = [address(text) for text in listening] if isinstance(listening, list) else []
        self.listen = self.listens[0] if self.listens else address(listening)

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
    def url(self):
        return "http://%s:%d/" % self.listen

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def pipes(self):
        directory = pathlib.Path(f"/proc/{self.pid}/fd")
        count = 0
        for entry in directory.iterdir():
            try:
                count += os.readlink(entry).startswith("pipe:")
            except FileNotFoundError:
                pass
        return count

    def signal(self, number=signal.SIGTERM):
        os.kill(self.pid, number)

    def stop(self):
        """Ends it as an operator would, and checks how it went."""
        if self.process.poll() is None:
            self.signal()
            try:
                self.process.wait(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"it did not end:\n{self.log}") from None
        assert "panicked" not in self.log, self.log
        assert self.process.returncode == 0, (self.process.returncode, self.log)
