"""Links that can be cut: TCP relays between a program and what it connects to."""

import asyncio
import contextlib
import threading

from .program import address


# Servers of NATS have a connection of its own for the system account.
CONSENSUS = b'"route_account":"$SYS"'


class Links:
    """Relays of one test, in a thread of their own."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="links", daemon=True)
        self.thread.start()

    def to(self, target):
        """Makes a link to an address, `host:port`."""
        return self._run(Link.open(self, address(target)))

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(10)

    def close(self):
        async def end():
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self._run(end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


class Link:
    """A relay to one address. Cut, it takes connections and bytes, and passes nothing on until it is healed: as a
    network that drops packets, which TCP sends again."""

    @classmethod
    async def open(cls, links, target):
        link = cls()
        link.links, link.target = links, target
        link.whole, link.consensus = asyncio.Event(), asyncio.Event()
        link.whole.set()
        link.consensus.set()
        link.server = await asyncio.start_server(link._accept, "127.0.0.1", 0)
        link.address = "127.0.0.1:%d" % link.server.sockets[0].getsockname()[1]
        return link

    @property
    def is_cut(self):
        return not (self.whole.is_set() and self.consensus.is_set())

    def cut(self):
        self.links.loop.call_soon_threadsafe(self.whole.clear)

    def cut_consensus(self):
        """Cuts only the connection on which servers of the engine agree on what is stored: one of several, which the rest of
        the traffic does not need."""
        self.links.loop.call_soon_threadsafe(self.consensus.clear)

    def heal(self):
        self.links.loop.call_soon_threadsafe(self.whole.set)
        self.links.loop.call_soon_threadsafe(self.consensus.set)

    async def _accept(self, reader, writer):
        with contextlib.suppress(OSError):
            await self.whole.wait()
            far_reader, far_writer = await asyncio.open_connection(*self.target)
            # What is said of the connection, by either side, is known to both directions.
            marks = set()
            await asyncio.gather(self._pump(reader, far_writer, marks), self._pump(far_reader, writer, marks))
        writer.close()

    async def _pump(self, reader, writer, marks):
        try:
            while data := await reader.read(262144):
                if CONSENSUS in data:
                    marks.add(CONSENSUS)
                await self.whole.wait()
                if marks:
                    await self.consensus.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            # The end of one direction is that of both: the protocol of the engine has no half-close.
            writer.close()
