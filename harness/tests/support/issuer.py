"""An issuer of tokens with another implementation of them (PyJWT), and the address where it publishes its keys."""

import contextlib
import http.server
import json
import threading
import time

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

PUBLIC = {
    "RS256": (lambda: rsa.generate_private_key(65537, 2048), RSAAlgorithm),
    "ES256": (lambda: ec.generate_private_key(ec.SECP256R1()), ECAlgorithm),
    "EdDSA": (ed25519.Ed25519PrivateKey.generate, OKPAlgorithm),
}


class Key:
    """One key pair of an issuer."""

    def __init__(self, algorithm, kid="1"):
        make, self.format = PUBLIC[algorithm]
        self.algorithm, self.kid, self.private = algorithm, kid, make()

    def token(self, *, named=True, **claims):
        headers = {"kid": self.kid} if named else {}
        return jwt.encode(within_an_hour(claims), self.private, self.algorithm, headers=headers)

    @property
    def jwk(self):
        public = json.loads(self.format.to_jwk(self.private.public_key()))
        return {**public, "kid": self.kid, "use": "sig", "alg": self.algorithm}

    @property
    def pem(self):
        return self.private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )


def within_an_hour(claims):
    now = int(time.time())
    return {"iat": now, "exp": now + 3600, **claims}


@contextlib.contextmanager
def serving(answer):
    """An HTTP server on this machine; `answer(method, path, headers, body)` is a status, fields and a body."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, fields, body = answer(self.command, self.path, self.headers, body)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **fields}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield "http://%s:%d" % server.server_address
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Issuer:
    """Publishes a key set, which a test may change."""

    def __init__(self, *keys):
        self.keys, self.fetches, self.body = list(keys), 0, None

    def answer(self, *_):
        self.fetches += 1
        body = self.body if self.body is not None else json.dumps({"keys": [key.jwk for key in self.keys]}).encode()
        return 200, {"Content-Type": "application/json"}, body
