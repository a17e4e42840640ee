"""The engine of a cluster: one server of NATS with JetStream, or several, and what can happen to them."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import httpx

from .http import PLAIN
from .ports import Port
from .wait import PATIENCE, until

# `harness/tests/setup` installs both from PyPI: the newest release, and the oldest that Encke works with.
NEWEST = pathlib.Path(os.environ.get("NATS_SERVER") or pathlib.Path(sys.executable).parent / "nats-server")
OLDEST = pathlib.Path(sys.executable).parents[1] / "nats-2.10" / "bin" / "nats-server"

# Times that servers are started until they are a cluster.
BEGINNINGS_MAX = 5

CONFIGURATION = """
server_name: {name}
listen: {client}
http: {monitor}
jetstream {{
    store_dir: {store}
    sync_interval: {sync_interval}
    max_memory_store: 256MiB
    max_file_store: 4GiB
}}
"""

# Without it a server takes no part in a cluster. Alone it would wait for others.
ROUTES = """
cluster {{
    name: test
    listen: {route}
    # Clients know only the servers that they are told of: a test may stand between.
    no_advertise: true
    routes: [{routes}]
    {advertise}
}}
"""

# Servers tell each other of a third one, and connect to it at the address that it advertises: past the links, which then
# cut one of several connections only. Nothing listens here.
NOWHERE = 'advertise: "127.0.0.1:1"'


# A server that comes back is well only when it has caught up, which takes minutes where everything else is busy too.
CATCHING_UP = 180.0


class NatsServer:
    """A server of the engine on ports that stay its own, so that it can be killed and started again."""

    def __init__(self, name, directory, binary, sync_interval, extra=""):
        self.name = name
        self.directory = pathlib.Path(directory) / name
        self.directory.mkdir()
        self.binary = binary
        self.sync_interval = sync_interval
        # More of its configuration, which a test may change before a restart.
        self.extra, self.peers = extra, []
        self.ports = {"client": Port(), "monitor": Port(), "route": Port()}
        self.process = None
        self.is_paused = False

    @property
    def url(self):
        return f"nats://{self.ports['client'].address}"

    @property
    def log(self):
        path = self.directory / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def configure(self, peers, links=None):
        """Writes its configuration. `links` are those through which it reaches its peers, by their names."""
        self.peers, self.links = peers, links
        addresses = {what: port.address for what, port in self.ports.items()}
        store = self.directory / "store"
        text = CONFIGURATION.format(
            name=self.name, store=store, sync_interval=self.sync_interval, **addresses
        )
        if peers:
            reached = {peer.name: peer.ports["route"].address for peer in peers if peer is not self}
            reached |= {name: link.address for name, link in (links or {}).items()}
            routes = ", ".join(f"nats://{address}" for address in reached.values())
            text += ROUTES.format(route=addresses["route"], routes=routes, advertise=NOWHERE if links else "")
        (self.directory / "nats.conf").write_text(text + self.extra)

    def start(self):
        """Starts it, without waiting until it serves."""
        assert not self.is_running, f"{self.name} runs"
        self.configure(self.peers, self.links)
        with open(self.directory / "log", "ab") as output:
            self.process = subprocess.Popen(
                [self.binary, "--config", self.directory / "nats.conf"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.is_paused = False

    def kill(self):
        """`kill -9`: what was not yet given to the kernel is lost."""
        self._end(signal.SIGKILL)

    def stop(self):
        """Ends it as an operator would."""
        self._end(signal.SIGTERM)

    def _end(self, number):
        if not self.is_running:
            return
        self.process.send_signal(number)
        if self.is_paused:
            self.resume()
        try:
            self.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def pause(self):
        """SIGSTOP: connections stay open, and nothing is answered."""
        self.process.send_signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self):
        self.process.send_signal(signal.SIGCONT)
        self.is_paused = False

    def monitor(self, path):
        """An answer of the monitoring endpoint, as an object; `None` if there is none."""
        try:
            answer = httpx.get(
                f"http://{self.ports['monitor'].address}/{path}", timeout=5.0, **PLAIN
            )
        except httpx.HTTPError:
            return None
        return answer.json() if answer.status_code == 200 else None

    def is_healthy(self):
        """Whether it serves, and its assets of JetStream are current."""
        if not self.is_running:
            raise AssertionError(f"{self.name} ended with {self.process.returncode}:\n{self.log}")
        return (self.monitor("healthz") or {}).get("status") == "ok"

    def close(self):
        if self.is_running:
            self.process.kill()
            self.process.wait()
        for port in self.ports.values():
            port.close()


class Nats:
    """Servers that are one engine: a single one, or a cluster of three. All are stopped in the end."""

    def __init__(self, servers=3, binary=NEWEST, sync_interval="always", extra="", links=None):
        """Starts them. With `links`, each reaches each other one by a link that can be cut."""
        assert pathlib.Path(binary).exists(), f"there is no {binary}: run harness/tests/setup"
        self.directory = tempfile.TemporaryDirectory(prefix="encke-nats-")
        self.servers = [
            NatsServer(f"s{number}", self.directory.name, binary, sync_interval, extra)
            for number in range(1, servers + 1)
        ]
        # By the server that connects, and the name of the one that it connects to.
        self.routes = {
            server.name: {
                peer.name: links.to(peer.ports["route"].address) for peer in self.servers if links and peer is not server
            }
            for server in self.servers
        }
        try:
            for server in self.servers:
                server.configure(self.servers if servers > 1 else [], self.routes[server.name])
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self):
        """Starts all. Two servers that find each other long before the third may begin as a cluster of two, which the third
        never joins (seen once in 25 times with 2.10.25 on a busy machine): then all begin anew."""
        for _ in range(BEGINNINGS_MAX):
            for server in self.servers:
                server.start()
            self.until_healthy()
            with contextlib.suppress(AssertionError):
                until(self.is_whole, "a cluster of all servers", patience=10, pause=0.05)
                return
            for server in self.servers:
                server.kill()
                shutil.rmtree(server.directory / "store")
        raise AssertionError(f"the servers have become no cluster in {BEGINNINGS_MAX} attempts")

    def is_whole(self):
        """Whether the leader knows all servers."""
        if len(self.servers) == 1:
            return True
        leader = self.meta_leader()
        found = leader and (leader.monitor("jsz") or {}).get("meta_cluster", {})
        return bool(found) and len(found.get("replicas", [])) == len(self.servers) - 1

    @property
    def url(self):
        """What `--cluster` takes: the URLs of all servers."""
        return ",".join(server.url for server in self.servers)

    @property
    def urls(self):
        return [server.url for server in self.servers]

    def until_healthy(self):
        """Waits until every server that runs serves, and a cluster has a leader."""
        for server in self.servers:
            if server.is_running and not server.is_paused:
                until(server.is_healthy, f"{server.name} is healthy", patience=CATCHING_UP, pause=0.05)
        if len(self.servers) > 1:
            until(self.meta_leader, "a leader of the cluster", pause=0.05)

    def meta_leader(self):
        """The server that leads the cluster as a whole, by what most of them say."""
        said = [
            (server.monitor("jsz") or {}).get("meta_cluster", {}).get("leader")
            for server in self.servers
            if server.is_running and not server.is_paused
        ]
        leader = max(said, key=said.count) if said else None
        if not leader or said.count(leader) * 2 <= len(self.servers):
            return None
        # Followers name a leader that is gone until they have elected another.
        server = self.by_name(leader)
        return server if server.is_running and not server.is_paused else None

    def links_of(self, server):
        """The links between a server and the others, in both directions."""
        own = list(self.routes[server.name].values())
        return own + [links[server.name] for links in self.routes.values() if server.name in links]

    def by_name(self, name):
        return next(server for server in self.servers if server.name == name)

    def close(self):
        for server in self.servers:
            with contextlib.suppress(ProcessLookupError):
                server.close()
        # A server that was killed may leave what it was about to remove.
        shutil.rmtree(self.directory.name, ignore_errors=True)
        self.directory.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
