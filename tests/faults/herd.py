"""A herd: many bare sockets in processes of their own, which do what no library would."""

import contextlib
import errno
import multiprocessing
import re
import resource
import select
import socket
import struct
import time

from harness.server import Server

# Linux, since 4.2: ports are chosen at connect, so that each source address has all of them for each destination.
IP_BIND_ADDRESS_NO_PORT = 24
# Sockets of one process, and of one source address.
PER_PROCESS = 15_000
RESET = struct.pack("ii", 1, 0)


def crowded(*flags, room, **options):
    """A server with room for so many sockets, where a process may have few descriptors: workers with their own."""
    if room > PER_PROCESS:
        flags = (*flags, "--private-fds")
        options["workers"] = -(-room // PER_PROCESS) + 1
    return Server(*flags, **options)


class Herd:
    """Sockets that are connected to one address. Stays until it is closed."""

    def __init__(self, address, count, first=b"", reads=True, source="127.0.{}.{}", receive_buffer=None):
        context = multiprocessing.get_context("fork")
        self.members = []
        for number in range(-(-count // PER_PROCESS)):
            here, there = context.Pipe()
            share = min(PER_PROCESS, count - number * PER_PROCESS)
            # 127.0.2.x, so that no test uses the same; a block of addresses for each process.
            host = source.format(2 + number // 250, 1 + number % 250)
            arguments = (there, address, host, share, first, reads, receive_buffer)
            process = context.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            there.close()
            self.members.append((process, here))
        self.failed = sum(self._ask(pipe, None) for _, pipe in self.members)

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


def _serve(pipe, address, host, count, first, reads, receive_buffer):
    """A process of a herd: connects, then obeys."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    poll = select.epoll()
    sockets, heard, state = {}, set(), {"closed": 0, "reset": 0, "bytes": 0}
    failed = 0
    for _ in range(count):
        client = _connect(address, host, receive_buffer)
        if client is None:
            failed += 1
            continue
        sockets[client.fileno()] = client
        with contextlib.suppress(OSError):
            client.send(first)
        if reads:
            poll.register(client, select.EPOLLIN)
    pipe.send(failed)
    poll.register(pipe.fileno(), select.EPOLLIN)
    while True:
        for number, _ in poll.poll(1.0, 512):
            if number != pipe.fileno():
                _read(sockets, number, heard, state, poll)
                continue
            try:
                command, *arguments = pipe.recv()
            except EOFError:
                return
            if command == "end":
                return
            pipe.send(_obey(command, arguments, sockets, heard, state, poll))


def _read(sockets, number, heard, state, poll):
    client = sockets.get(number)
    if client is None:
        return
    try:
        data = client.recv(65536)
    except BlockingIOError:
        return
    except OSError as error:
        state["reset" if error.errno == errno.ECONNRESET else "closed"] += 1
        data = None
    else:
        state["closed"] += not data
    if data:
        state["bytes"] += len(data)
        heard.add(number)
        return
    sockets.pop(number).close()


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
