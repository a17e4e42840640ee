"""The service under test: nodes that can be killed, paused and started again, and the engine of a cluster."""

import contextlib
import pathlib
import shutil
import signal
import tempfile
import time

import httpx

from support.http import PLAIN
from support.link import Links
from support.nats import NEWEST, Nats
from support.ports import Port
from support.program import address
from support.server import Server
from support.wait import until


class Node:
    """A node on ports and directories that outlive its process."""

    def __init__(self, name, flags, data):
        self.name, self.data = name, pathlib.Path(data)
        self.flags = [*flags, "--data", data]
        self.ports = {"public": Port(), "control": Port()}
        self.public, self.control = (address(port.address) for port in self.ports.values())
        self.server = None
        self.is_paused = False
        # To the servers of the engine, if there are any.
        self.links = []
        self.logs = []

    def start(self):
        ports = {what: port.address for what, port in self.ports.items()}
        self.server = Server(*self.flags, **ports)

    def kill(self):
        """`kill -9`."""
        self._end(Server.kill)

    def stop(self):
        """Ends it as an operator would."""
        if self.is_paused:
            self.resume()
        self._end(Server.stop)

    def _end(self, end):
        server, self.server = self.server, None
        if server is None:
            return
        path = pathlib.Path(server.log_path)
        try:
            if end is Server.kill:
                server.process.kill()
                server.process.wait()
            self.logs.append(path.read_text(errors="replace"))
            self.is_paused = False
        finally:
            end(server)

    def wipe(self):
        """Takes its data away while it does not run."""
        shutil.rmtree(self.data)

    def pause(self):
        self.server.signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self):
        self.server.signal(signal.SIGCONT)
        self.is_paused = False

    @property
    def is_cut(self):
        return any(link.is_cut for link in self.links)

    def cut(self):
        """Nothing comes from the engine any more, or goes there."""
        for link in self.links:
            link.cut()

    def mend(self):
        for link in self.links:
            link.heal()

    def is_ready(self):
        url = "http://%s:%d/readyz" % self.control
        try:
            return httpx.get(url, timeout=5.0, **PLAIN).status_code == 200
        except httpx.HTTPError:
            return False

    def log(self):
        """What all its processes have said."""
        running = [self.server.log] if self.server else []
        return "\n--- started again\n".join([*self.logs, *running])

    def close(self):
        if self.server:
            self._end(Server.kill)
        for port in self.ports.values():
            port.close()


class Service:
    """Nodes, and for a cluster the servers of its engine."""

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="encke-checker-")
        self.nodes, self.engine, self.links = [], None, None
        # Keys and names of one run are not those of another.
        self.run = 0

    @property
    def servers(self):
        return self.engine.servers if self.engine else []

    def start(self):
        for node in self.nodes:
            node.start()
        self.until_ready()

    def heal(self):
        """Starts and resumes whatever does not run."""
        for part in [*self.servers, *self.nodes]:
            if part.is_paused:
                part.resume()
        for node in self.nodes:
            node.mend()
        for server in self.servers:
            for link in self.engine.links_of(server):
                link.heal()
        for server in self.servers:
            if not server.is_running:
                server.start()
        for node in self.nodes:
            if node.server is None:
                node.start()

    def until_ready(self):
        if self.engine:
            self.engine.until_healthy()
        for node in self.nodes:
            until(node.is_ready, f"{node.name} is ready", pause=0.05)

    def logs(self):
        """What each program has said, by its name."""
        return {part.name: part.log() if callable(part.log) else part.log for part in [*self.nodes, *self.servers]}

    def close(self):
        for node in self.nodes:
            node.close()
        if self.engine:
            self.engine.close()
        if self.links:
            self.links.close()
        with contextlib.suppress(OSError):
            self.directory.cleanup()

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()


class Single(Service):
    """One node that keeps graph and history on disk."""

    def __init__(self):
        super().__init__()
        root = self.directory.name
        flags = ["--history-dir", f"{root}/history", "--history-bytes", "256MiB", "--drain-timeout", "1s"]
        self.nodes = [Node("n1", flags, f"{root}/data")]


class Cluster(Service):
    """Nodes that apply one log, kept by three servers of the engine. Each node has links of its own to them."""

    def __init__(self, nodes=3, binary=NEWEST):
        super().__init__()
        self.links = Links()
        self.engine = Nats(3, binary, links=self.links)
        cluster = f"checker-{time.monotonic_ns()}"
        for number in range(1, nodes + 1):
            name = f"n{number}"
            links = [self.links.to(server.ports["client"].address) for server in self.engine.servers]
            servers = ",".join(f"nats://{link.address}" for link in links)
            flags = ["--cluster", servers, "--cluster-name", cluster, "--node", name, "--drain-timeout", "1s"]
            # As short a log as there may be: a snapshot is made whenever a quarter of it was written.
            flags += ["--history-bytes", "256MiB", "--log-bytes", "16MiB"]
            node = Node(name, flags, f"{self.directory.name}/{name}")
            node.links = links
            self.nodes.append(node)
