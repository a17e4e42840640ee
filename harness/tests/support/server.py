"""A server under test: `encke serve` with a directory of its own, and its control API."""

import tempfile
import time
from urllib.parse import quote as percent_encode

import httpx

from .program import Program, address
from .wait import PATIENCE, until


class Server(Program):
    """A running `encke serve`. With `control_tls`, a context of Python's ssl, its control listener speaks TLS."""

    def __init__(
        self,
        *flags,
        public="127.0.0.1:0",
        control="127.0.0.1:0",
        workers=2,
        token=None,
        control_tls=None,
        **options,
    ):
        self.directory = tempfile.TemporaryDirectory(prefix="encke-test-")
        self.api = None
        self.control_tls = control_tls
        listen = ["--listen", public] if public else []
        flags = [*listen, "--control", control, "--workers", workers, *flags]
        super().__init__("serve", *flags, cwd=self.directory.name, **options)
        assert self.said["pid"] == self.pid
        self.public = address(self.said["public"])
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        # One connection, kept: it is there when descriptors have run out.
        self.api = httpx.Client(
            base_url=self.control_url,
            headers=headers,
            timeout=PATIENCE,
            limits=httpx.Limits(max_connections=1, keepalive_expiry=None),
            trust_env=False,
            verify=control_tls or False,
        )
        if "--cluster" in flags:
            # It has read the log to its end, and takes clients.
            until(lambda: self.process.poll() is not None or self.api.get("/readyz").is_success, "the node is ready")

    @property
    def control_url(self):
        return "%s://%s:%d" % ("https" if self.control_tls else "http", *self.control)

    @property
    def public_url(self):
        return "http://%s:%d" % self.public

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

    def sessions(self, of):
        answer = self.api.get(f"/v1/sessions/{quote(of)}")
        assert answer.status_code == 200, answer.text
        return answer.json()["sessions"]

    def demo_secret(self):
        """What the page of a server with `--demo` gets from the control listener."""
        answer = self.api.get("/v1/demo/secret", headers={"Origin": self.public_url})
        assert answer.status_code == 200, answer.text
        return answer.json()["secret"]

    # Its life

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

    def until_as(self, before):
        """Waits until all is as it was at a baseline."""
        now = {}

        def is_as_before():
            now.update(self.baseline())
            return now == before

        try:
            until(is_as_before, "as before")
        except AssertionError:
            changed = {name: (before[name], now[name]) for name in now if now[name] != before[name]}
            raise AssertionError(f"before and now: {changed}") from None

    def kill(self):
        super().kill()
        self._clean()

    def stop(self):
        try:
            super().stop()
        finally:
            self._clean()

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


def quote(text):
    return percent_encode(str(text), safe="")


def measure_cpu(server, seconds):
    """CPU time that the server takes while nothing is asked of it."""
    before = server.cpu_seconds()
    time.sleep(seconds)
    return server.cpu_seconds() - before
