"""A receiver of webhooks, as a backend writes one: it verifies each request by the rules of Standard Webhooks."""

import base64
import contextlib
import hashlib
import hmac
import http.server
import json
import secrets
import ssl
import threading
import time

from .wait import until

# How old a request may be: what the libraries of Standard Webhooks allow.
TOLERANCE_SECONDS = 300


def new_secret():
    return "whsec_" + base64.b64encode(secrets.token_bytes(24)).decode()


def write_secrets(path, *texts):
    path.write_text("".join(f"{text}\n" for text in texts))
    path.chmod(0o600)
    return path


def verify(secret, fields, body):
    """Raises unless the request is signed with the secret, and recent."""
    number, timestamp = fields["webhook-id"], fields["webhook-timestamp"]
    assert abs(time.time() - int(timestamp)) < TOLERANCE_SECONDS, timestamp
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{number}.{timestamp}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    assert expected in fields["webhook-signature"].split(" "), fields["webhook-signature"]


class Receiver:
    """Keeps the events of the requests that it accepts. `status` is what it answers with, and may be a function of
    the number of the request. While `hang` is set it does not answer."""

    def __init__(self, secret, port=None, certificate=None):
        self.secret = secret
        self.status = 204
        self.fields = {}
        self.requests = []
        self.events = []
        self.rejected = []
        self.hang = threading.Event()
        self.over = threading.Event()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                receiver._take(self)

            def do_GET(self):
                receiver.rejected.append(f"GET {self.path}")
                self.send_error(405)

            def log_message(self, *_):
                pass

        class Listener(http.server.ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, *_):
                pass

        self.listener = Listener(("127.0.0.1", port.number if port else 0), Handler)
        scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate.chain, certificate.key)
            self.listener.socket = context.wrap_socket(self.listener.socket, server_side=True)
            scheme = "https"
        self.url = f"{scheme}://127.0.0.1:{self.listener.server_port}/hook"
        self.serving = threading.Thread(target=self.listener.serve_forever, args=(0.01,), daemon=True)
        self.serving.start()

    def _take(self, handler):
        body = handler.rfile.read(int(handler.headers["content-length"]))
        self.requests.append((handler.headers["webhook-id"], len(body)))
        while self.hang.is_set() and not self.over.is_set():
            time.sleep(0.01)
        status = self.status(len(self.requests)) if callable(self.status) else self.status
        try:
            verify(self.secret, handler.headers, body)
            assert handler.headers["content-type"] == "application/json"
            events = json.loads(body)
        except (AssertionError, KeyError, TypeError, ValueError) as problem:
            self.rejected.append(repr(problem))
            status = 400
        else:
            if 200 <= status < 300:
                self.events += events
        handler.send_response(status)
        for name, value in self.fields.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    def of_type(self, *types):
        return [event for event in list(self.events) if event["type"] in types]

    def about(self, name):
        """The types of the events about an id, in their order."""
        return [event["type"] for event in list(self.events) if event.get("id") == name]

    def until_about(self, name, *types):
        until(lambda: self.about(name) == list(types), f"{types} about {name}")

    def close(self):
        self.over.set()
        self.listener.shutdown()
        self.listener.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.close()
