"""What breaks a service: one fault at a time, now and then two, each taken back after a while."""

import random
import threading
import time

from .log import Fault


class Nemesis(threading.Thread):
    """Kills, pauses and restarts nodes and servers of the engine, until it is told to end; then all runs again."""

    def __init__(self, service, seed, calm=(1.0, 4.0), hold=(0.5, 6.0), long_hold=(12.0, 40.0), seconds=float("inf")):
        super().__init__(name="nemesis", daemon=True)
        self.service = service
        self.random = random.Random(f"{seed} nemesis")
        # Seconds between faults, of a fault, and of a cut that outlives elections and the patience of nodes.
        self.calm, self.hold, self.long_hold = calm, hold, long_hold
        # A long cut must leave time for other faults.
        self.deadline = time.monotonic() + seconds
        self.faults, self.deck = [], []
        self.ending = threading.Event()
        self.error = None

    def note(self, what, target):
        self.faults.append(Fault(time.monotonic(), what, target))

    def run(self):
        try:
            while not self.ending.wait(self.random.uniform(*self.calm)):
                # Each kind has its turn before one comes again.
                if not self.deck:
                    self.deck = self.faults_of_service()
                    self.random.shuffle(self.deck)
                self.deck.pop()()
        except Exception as error:
            self.error = error

    def finish(self):
        """Ends it, and makes everything run again."""
        self.ending.set()
        self.join(120)
        assert not self.is_alive(), "the nemesis does not end"
        if self.error:
            raise self.error
        self.service.heal()

    def faults_of_service(self):
        faults = [self.kill_node, self.restart_node]
        if len(self.service.nodes) > 1:
            faults += [self.pause_node]
        if self.service.servers:
            faults += [self.kill_server, self.kill_leader, self.pause_server, self.restart_server]
            faults += [self.replace_node]
            faults += [self.kill_node_and_server, self.kill_majority, self.cut_node, self.cut_server]
        return faults

    def held(self):
        self.ending.wait(self.random.uniform(*self.hold))

    def held_cut(self):
        """Every other cut is a long one, where there is time for it."""
        seconds = self.random.uniform(*self.random.choice([self.hold, self.long_hold]))
        if time.monotonic() + 2 * seconds > self.deadline:
            seconds = self.random.uniform(*self.hold)
        self.ending.wait(seconds)

    def kill_node(self):
        node = self.random.choice(self.service.nodes)
        self.note("kill node", node.name)
        node.kill()
        self.held()
        node.start()
        self.note("start node", node.name)

    def restart_node(self):
        node = self.random.choice(self.service.nodes)
        self.note("restart node", node.name)
        node.stop()
        node.start()
        self.note("start node", node.name)

    def replace_node(self):
        """The node comes back without what it had: from a snapshot, if there is one."""
        node = self.random.choice(self.service.nodes)
        self.note("replace node", node.name)
        node.kill()
        node.wipe()
        self.held()
        node.start()
        self.note("start node", node.name)

    def pause_node(self):
        node = self.random.choice(self.service.nodes)
        self.note("pause node", node.name)
        node.pause()
        self.held()
        node.resume()
        self.note("resume node", node.name)

    def cut_node(self):
        """The node and its clients are well, and the engine is far."""
        node = self.random.choice(self.service.nodes)
        self.note("cut node", node.name)
        node.cut()
        self.held_cut()
        node.mend()
        self.note("mend node", node.name)

    def cut_server(self):
        """A server of the engine reaches its clients, and none of the other servers."""
        server = self.random.choice([self.service.engine.meta_leader() or self.service.servers[0], *self.service.servers])
        self.note("cut server", server.name)
        for link in self.service.engine.links_of(server):
            link.cut()
        self.held_cut()
        for link in self.service.engine.links_of(server):
            link.heal()
        self.note("mend server", server.name)
        self.service.engine.until_healthy()

    def kill_servers(self, servers):
        for server in servers:
            self.note("kill server", server.name)
            server.kill()
        self.held()
        for server in servers:
            server.start()
            self.note("start server", server.name)
        self.service.engine.until_healthy()

    def kill_server(self):
        self.kill_servers([self.random.choice(self.service.servers)])

    def kill_leader(self):
        self.kill_servers([self.service.engine.meta_leader() or self.service.servers[0]])

    def kill_majority(self):
        self.kill_servers(self.random.sample(self.service.servers, 2))

    def restart_server(self):
        server = self.random.choice(self.service.servers)
        self.note("restart server", server.name)
        server.stop()
        server.start()
        self.note("start server", server.name)
        self.service.engine.until_healthy()

    def pause_server(self):
        server = self.random.choice(self.service.servers)
        self.note("pause server", server.name)
        server.pause()
        self.held()
        server.resume()
        self.note("resume server", server.name)
        self.service.engine.until_healthy()

    def kill_node_and_server(self):
        node = self.random.choice(self.service.nodes)
        self.note("kill node", node.name)
        node.kill()
        try:
            self.kill_server()
        finally:
            node.start()
            self.note("start node", node.name)
