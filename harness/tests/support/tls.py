"""Certificates of an authority for tests, servers that use them, and a TLS endpoint in front of a listener, as an
operator puts one before the control API."""

import base64
import contextlib
import hashlib
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import threading

from .program import ENVIRONMENT, address, installed
from .server import Server
from .wait import PATIENCE, until

FILES = pathlib.Path(__file__).with_name("tls")
# The authority that signed the endpoint's certificate, which is for 127.0.0.1 and localhost.
AUTHORITY = FILES / "authority.pem"


@contextlib.contextmanager
def tls_endpoint(to, certificate=None):
    """Runs an endpoint that leads to an address; its `https://` URL."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate = certificate or Certificate(FILES / "server.pem", FILES / "server.key")
    context.load_cert_chain(certificate.chain, certificate.key)
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


class Certificate:
    """A certificate and its key, in files."""

    def __init__(self, chain, key):
        self.chain, self.key = chain, key

    def spki(self):
        """The SHA-256 of its public key in base64, by which Chromium can be told to trust it."""
        public = subprocess.run(
            f"{installed('openssl')} x509 -in '{self.chain}' -noout -pubkey | openssl pkey -pubin -outform der",
            shell=True, check=True, capture_output=True,
        )  # fmt: skip
        return base64.b64encode(hashlib.sha256(public.stdout).digest()).decode()

    def replace(self, other):
        """Puts another certificate into these files, as a renewal does."""
        for mine, its in [(self.chain, other.chain), (self.key, other.key)]:
            new = mine.with_suffix(".new")
            new.touch(mode=0o600)
            new.write_bytes(its.read_bytes())
            os.replace(new, mine)


class Authority:
    """A certificate authority of its own, made with openssl."""

    KEYS = {"ecdsa": ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"], "rsa": ["rsa:2048"]}

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.pem, self._key = self.directory / "authority.pem", self.directory / "authority.key"
        (self.directory / "index").touch()
        (self.directory / "conf").write_text(
            "[ca]\ndefault_ca=own\n"
            f"[own]\ndatabase={self.directory}/index\nnew_certs_dir={self.directory}\ndefault_md=sha256\n"
            "policy=any\nrand_serial=yes\nunique_subject=no\n[any]\ncommonName=supplied\n"
        )
        self._request("An authority for tests", self._key, self.pem, "ecdsa", "-x509", "-days", "30")
        self._issued = 0

    def issue(self, *names, key="ecdsa", start="20200101000000Z", end="21000101000000Z"):
        """A certificate for DNS names and addresses."""
        self._issued += 1
        base = self.directory / f"{names[0]}-{self._issued}"
        request, chain, private = (base.with_name(f"{base.name}.{kind}") for kind in ("csr", "pem", "key"))
        self._request(names[0], private, request, key)
        kinds = ["IP" if name.replace(".", "").isdigit() or ":" in name else "DNS" for name in names]
        names = ",".join(f"{kind}:{name}" for kind, name in zip(kinds, names))
        extensions = base.with_name(f"{base.name}.ext")
        extensions.write_text(f"basicConstraints=critical,CA:FALSE\nsubjectAltName={names}\n")
        self._openssl(
            "ca", "-batch", "-notext", "-config", self.directory / "conf", "-cert", self.pem, "-keyfile", self._key,
            "-in", request, "-out", chain, "-extfile", extensions, "-startdate", start, "-enddate", end,
        )  # fmt: skip
        return Certificate(chain, private)

    def expired(self, *names):
        return self.issue(*names, start="20200101000000Z", end="20200201000000Z")

    def context(self, **versions):
        """What Python's ssl needs to trust it."""
        context = ssl.create_default_context(cafile=self.pem)
        for name, version in versions.items():
            setattr(context, name, version)
        return context

    def _request(self, name, key, out, kind, *more):
        new = [*self.KEYS[kind], "-noenc", "-keyout", key, "-out", out, "-subj", f"/CN={name}"]
        self._openssl("req", *more, "-newkey", *new)
        key.chmod(0o600)

    def _openssl(self, *words):
        done = subprocess.run([installed("openssl"), *map(str, words)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


class TlsServer(Server):
    """A server with a listener for TLS beside the plain one."""

    def __init__(self, *flags, certificates, listen="127.0.0.1:0", **options):
        super().__init__(*tls_flags(certificates, listen), *flags, **options)
        listening = self.said["tls"]
        self.secure = address(listening if isinstance(listening, str) else listening[0])

    @property
    def secure_url(self):
        return "https://%s:%d" % self.secure


def tls_flags(certificates, listen="127.0.0.1:0"):
    given = [("--tls-cert", one.chain, "--tls-key", one.key) for one in certificates]
    return ["--tls-listen", listen, *[word for words in given for word in words]]


def s_client(server, *flags, say=b"", timeout=PATIENCE):
    """Runs `openssl s_client` to its end; what it was told is its standard input."""
    command = [installed("openssl"), "s_client", "-connect", "%s:%d" % server.secure, *map(str, flags)]
    return subprocess.run(command, input=say, capture_output=True, timeout=timeout, env=ENVIRONMENT)


def check_renewal(server, certificate, renewed, serial):
    """After SIGHUP new connections get the certificate that is in the files, and not before; files that cannot be
    used change nothing. `serial` connects and tells the serial number of the certificate."""
    first = serial()
    certificate.replace(renewed)
    assert serial() == first, "it is not asked to"
    server.signal(signal.SIGHUP)
    until(lambda: serial() != first, "the new certificate")
    second = serial()
    # A file that cannot be used changes nothing, and is complained about.
    certificate.chain.write_text("nothing")
    server.signal(signal.SIGHUP)
    until(lambda: str(certificate.chain) in server.log, "a complaint")
    assert serial() == second
