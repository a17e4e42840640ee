"""Clients that run in Node."""

import json
import os
import pathlib
import queue
import subprocess
import tempfile
import threading

from .program import installed
from .wait import PATIENCE, until

TESTS = pathlib.Path(__file__).resolve().parents[1]
CLIENTS = TESTS / "clients"
# The machine's own, or one of PyPI where that is too old: harness/tests/setup decides.
NODE = TESTS / ".venv" / "bin" / "node"


class Script:
    """A running script that prints JSON, one value a line."""

    def __init__(self, script, *arguments, env=None):
        self.process = subprocess.Popen(
            [NODE, CLIENTS / script, *map(str, arguments)],
            env={**os.environ, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.said = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.said.put(json.loads(line))
        self.said.put(None)

    def next(self, patience=PATIENCE):
        try:
            said = self.said.get(timeout=patience)
        except queue.Empty:
            raise AssertionError(f"the script said nothing for {patience} s") from None
        assert said is not None, "the script ended"
        return said

    def tell(self, *command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join()
        self.process.stdout.close()


class EventSource(Script):
    """The EventSource of the registry."""

    def __init__(self, url, *types, env=None):
        super().__init__("eventsource.mjs", url, *types, env=env)

    def until(self, key):
        """Skips to what has a key."""
        while key not in (said := self.next()):
            pass
        return said


class Browser(Script):
    """Chromium with one page, started with more flags."""

    def __init__(self, *flags):
        self.directory = tempfile.TemporaryDirectory(
            prefix="encke-chromium-", ignore_cleanup_errors=True
        )
        super().__init__("browser.mjs", installed("chromium"), self.directory.name, *flags)
        assert self.next() == "ready"

    def __getattr__(self, command):
        def ask(*parameters):
            self.tell(command, *parameters)
            answer = self.next()
            assert "error" not in answer, f"{command} {parameters}: {answer['error']}"
            return answer["result"]

        return ask

    def text(self, selector):
        return " ".join(self.texts(selector))

    def wait_text(self, selector, wanted):
        """Waits until the text of the selected elements contains something."""
        return until(lambda: wanted in self.text(selector), f"{wanted!r} in {selector}")

    def close(self):
        super().close()
        self.directory.cleanup()
