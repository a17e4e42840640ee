"""A herd: many bare sockets in processes of their own, which do what no library would."""

import contextlib
import errno
import itertools
import multiprocessing
import pathlib
import re
import resource
import select
import socket
import struct
import time

from support.server import Server

# Linux, since 4.2: ports are chosen at connect, so that each source address has all of them for each destination.
IP_BIND_ADDRESS_NO_PORT = 24
# Sockets of one process, and of one source address. The kernel first tries the ports of one parity, 14,116 by default: beyond
# them each connect looks at all of these first.
PER_PROCESS = 12_000
RESET = struct.pack("ii", 1, 0)


def crowded(*flags, room, **options):
    """A server with room for so many sockets, where a process may have few descriptors: workers with their own."""
    if room > PER_PROCESS:
        flags = (*flags, "--private-fds")
        options["workers"] = -(-room // PER_PROCESS) + 1
    return Server(*flags, **options)


# What a machine must allow for a million connections within it: pages of TCP's memory, packets in the loopback's queue.
LIMITS = {"net.ipv4.tcp_mem": "2000000 3000000 4000000", "net.core.netdev_max_backlog": "262144"}


@contextlib.contextmanager
def room_for_a_million():
    """Sets the kernel's limits for a crowd, and gives them back."""
    files = {pathlib.Path("/proc/sys", *name.split(".")): value for name, value in LIMITS.items()}
    before = {path: path.read_text() for path in files}
    try:
        for path, value in files.items():
            path.write_text(value)
        yield
    finally:
        for path, value in before.items():
            path.write_text(value)


class Herd:
    """Sockets that are connected to one address. Stays until it is closed.

    With `again`, a socket that the server closes is replaced by another. Unless it `may_fail`, all of them must come to be
    connected."""

    # Source addresses, of which each herd has its own: 127.0.2.1 to 127.0.255.250. A second herd at one address would
    # search long for the ports that the first has left, and fail when there are none.
    addresses = itertools.cycle(f"127.0.{2 + number // 250}.{1 + number % 250}" for number in range(250 * 250))

    def __init__(
        self, address, count, first=b"", reads=True, sources=None, receive_buffer=None, again=False, may_fail=False
    ):
        context = multiprocessing.get_context("fork")
        self.members = []
        for number in range(-(-count // PER_PROCESS)):
            here, there = context.Pipe()
            share = min(PER_PROCESS, count - number * PER_PROCESS)
            host = next(sources or self.addresses)
            arguments = (there, address, host, share, first, reads, receive_buffer, again)
            process = context.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            there.close()
            self.members.append((process, here))
        self.failed = sum(self._ask(pipe, None) for _, pipe in self.members)
        if self.failed and not may_fail:
            self.close()
            raise AssertionError(f"{self.failed} of {count} sockets could not be connected")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @staticmethod
    def _ask(pipe, command):
        if command:
            pipe.send(command)
        assert pipe.poll(600), "a herd does not answer"
        return pipe.recv()

    def _all(self, *command):
        for _, pipe in self.members:
            pipe.send(command)
        return [self._ask(pipe, None) for _, pipe in self.members]

    def state(self):
        """How many sockets are open, how many were closed or reset by the server, how many have heard anything, and
        how many bytes they heard."""
        states = self._all("state")
        return {name: sum(state[name] for state in states) for name in states[0]}

    def send(self, data):
        """Lets each open socket send the same bytes."""
        self._all("send", data)

    def read(self, on):
        """Lets all read on, or stop reading."""
        self._all("read", on)

    def reset(self):
        """Breaks all connections."""
        self._all("close", True)

    def close(self):
        for process, pipe in self.members:
            with contextlib.suppress(OSError):
                pipe.send(("end",))
        for process, pipe in self.members:
            process.join(60)
            if process.is_alive():
                process.kill()
            pipe.close()
        self.members = []


def _connect(address, host, receive_buffer):
    client = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
    client.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
    if receive_buffer:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    if host:
        client.bind((host, 0))
    client.settimeout(30)
    try:
        client.connect(address)
    except OSError:
        client.close()
        return None
    client.setblocking(False)
    return client


def _serve(pipe, address, host, count, first, reads, receive_buffer, again):
    """A process of a herd: connects, then obeys."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    poll = select.epoll()
    sockets, heard, state = {}, set(), {"closed": 0, "reset": 0, "bytes": 0}
    failed = 0

    def connect():
        client = _connect(address, host, receive_buffer)
        if client is None:
            return 1
        sockets[client.fileno()] = client
        with contextlib.suppress(OSError):
            client.send(first)
        if reads:
            poll.register(client, select.EPOLLIN)
        return 0

    for _ in range(count):
        failed += connect()
    pipe.send(failed)
    poll.register(pipe.fileno(), select.EPOLLIN)
    while True:
        for number, _ in poll.poll(1.0, 512):
            if number != pipe.fileno():
                if _read(sockets, number, heard, state) and again:
                    connect()
                continue
            try:
                command, *arguments = pipe.recv()
            except EOFError:
                return
            if command == "end":
                return
            pipe.send(_obey(command, arguments, sockets, heard, state, poll))


def _read(sockets, number, heard, state):
    """Reads what has come. Returns whether the socket has ended."""
    client = sockets.get(number)
    if client is None:
        return False
    try:
        data = client.recv(65536)
    except BlockingIOError:
        return False
    except OSError as error:
        state["reset" if error.errno == errno.ECONNRESET else "closed"] += 1
        data = None
    else:
        state["closed"] += not data
    if data:
        state["bytes"] += len(data)
        heard.add(number)
        return False
    sockets.pop(number).close()
    return True


def _obey(command, arguments, sockets, heard, state, poll):
    match command:
        case "state":
            return {**state, "open": len(sockets), "heard": len(heard)}
        case "send":
            for client in sockets.values():
                with contextlib.suppress(OSError):
                    client.send(arguments[0])
        case "read":
            for client in sockets.values():
                with contextlib.suppress(OSError):
                    if arguments[0]:
                        poll.register(client, select.EPOLLIN)
                    else:
                        poll.unregister(client)
        case "close":
            for client in sockets.values():
                if arguments[0]:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                client.close()
            sockets.clear()
    return None


def connect_times(address, count, request=b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", pause=0.0):
    """Seconds of each of so many connections in a row, from the connect to the answer, ascending. One that fails takes
    for ever."""
    times = []
    for _ in range(count):
        began = time.monotonic()
        try:
            with socket.create_connection(address, timeout=10) as client:
                client.sendall(request)
                answered = client.recv(4096).startswith(b"HTTP/1.1 ")
        except OSError:
            answered = False
        times.append(time.monotonic() - began if answered else float("inf"))
        time.sleep(pause)
    return sorted(times)


def sessions(server):
    """How many sessions a server has, on all transports."""
    return sum(server.totals()["sessions"].values())


def buffers(server):
    """Bytes in buffers, and the bound."""
    limit = re.search(r"^encke_buffer_limit_bytes (\S+)$", server.api.get("/metrics").text, re.MULTILINE)
    return server.totals()["buffer_bytes"], float(limit[1])


def percentile(times, percent):
    return times[min(len(times) - 1, int(len(times) * percent / 100))]
