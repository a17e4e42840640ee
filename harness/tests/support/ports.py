"""Ports that nobody else is given while nobody listens at them."""

import socket


class Port:
    """A port of 127.0.0.1 that stays ours: the kernel gives it to nobody who asks for any port, and to
    no connection for its own end. Who is told its number may listen at it, with SO_REUSEADDR as
    servers do."""

    def __init__(self):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", 0))
        self.number = self.socket.getsockname()[1]
        self.address = f"127.0.0.1:{self.number}"

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
