"""What the kernel tells of one socket, without its table of all sockets of the machine.

The table is no snapshot: beside other tests that open and close connections it shows a socket twice or not at all, and
clients of other servers under the same address and port."""

import errno
import os
import socket
import struct

# linux/sock_diag.h, linux/inet_diag.h, linux/netlink.h
NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, NLMSG_ERROR = 4, 20, 1, 2
TCP_LISTEN = 10
ANY_STATE, NO_COOKIE = 0xFFFFFFFF, b"\xff" * 8
HEADER = struct.Struct("=IHHII")
REQUEST = struct.Struct("=BBBBI")
# Family, state, timer, retransmissions; the socket's id; expiry, both queues, user, inode.
ANSWER = struct.Struct("=BBBB48sIIIII")


def _ask(local, remote):
    ports = struct.pack("!HH", local[1], remote[1])
    source, destination = (socket.inet_aton(end[0]).ljust(16, b"\0") for end in (local, remote))
    identity = ports + source + destination + bytes(4) + NO_COOKIE
    request = REQUEST.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0, ANY_STATE) + identity
    size = HEADER.size + len(request)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_SOCK_DIAG) as kernel:
        kernel.send(HEADER.pack(size, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0) + request)
        answer = kernel.recv(65536)
    _, kind, _, _, _ = HEADER.unpack_from(answer)
    if kind == NLMSG_ERROR:
        (number,) = struct.unpack_from("=i", answer, HEADER.size)
        raise OSError(-number, os.strerror(-number), f"{local} to {remote}")
    return ANSWER.unpack_from(answer, HEADER.size)


def unread_bytes(local, remote):
    """Received and not yet read by the socket at `local` that is connected to `remote`."""
    return _ask(local, remote)[6]


def exists(local, remote):
    """Whether the kernel keeps a socket at `local` that is connected to `remote`, be it of a process or not."""
    try:
        state = _ask(local, remote)[1]
    except OSError as error:
        if error.errno == errno.ENOENT:
            return False
        raise
    # The listener answers for connections that are not there.
    return state != TCP_LISTEN


def listener_inode(local):
    """The inode of the socket that takes connections to this address."""
    return _ask(local, ("0.0.0.0", 0))[9]
