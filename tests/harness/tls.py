"""A TLS endpoint in front of a listener, as an operator puts one before the control API."""

import contextlib
import pathlib
import socket
import ssl
import threading

FILES = pathlib.Path(__file__).with_name("tls")
# The authority that signed the endpoint's certificate, which is for 127.0.0.1 and localhost.
AUTHORITY = FILES / "authority.pem"


@contextlib.contextmanager
def tls_endpoint(to):
    """Runs an endpoint that leads to an address; its `https://` URL."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FILES / "server.pem", FILES / "server.key")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = threading.Thread(target=_accept, args=(listener, context, to))
        accepting.start()
        try:
            yield "https://%s:%d" % listener.getsockname()
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()


def _accept(listener, context, to):
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_serve, args=(client, context, to), daemon=True).start()


def _serve(client, context, to):
    with contextlib.suppress(OSError), context.wrap_socket(client, server_side=True) as client:
        with socket.create_connection(to) as server:
            back = threading.Thread(target=_copy, args=(server, client), daemon=True)
            back.start()
            _copy(client, server)
            back.join()


def _copy(source, sink):
    with contextlib.suppress(OSError, ValueError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
