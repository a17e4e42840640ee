"""Keys and credentials of NATS as its tools `nk` and `nsc` make them: Ed25519 keys in base 32, and signed claims."""

import base64
import json
import time

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

SEED = 18 << 3
KINDS = {"user": 20 << 3, "account": 0, "operator": 14 << 3}
UNLIMITED = ("subs", "data", "payload", "imports", "exports", "conn", "leaf")
JETSTREAM = ("mem_storage", "disk_storage", "streams", "consumer")


def _checksum(data):
    """CRC-16 of XMODEM."""
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc.to_bytes(2, "little")


def _base32(data):
    return base64.b32encode(data + _checksum(data)).decode().rstrip("=")


def _base64(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class Nkey:
    """A key pair of a user, an account or an operator."""

    def __init__(self, kind):
        self.kind, prefix = kind, KINDS[kind]
        self._key = Ed25519PrivateKey.generate()
        seed = self._key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
        public = self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.seed = _base32(bytes([SEED | prefix >> 5, (prefix & 31) << 3]) + seed)
        self.public = _base32(bytes([prefix]) + public)

    def claim(self, subject, claims):
        """What this key says of another one, signed."""
        body = {
            "jti": subject.public, "iat": int(time.time()), "iss": self.public, "sub": subject.public,
            "name": subject.kind, "nats": {**claims, "type": subject.kind, "version": 2},
        }  # fmt: skip
        parts = [{"typ": "JWT", "alg": "ed25519-nkey"}, body]
        signed = ".".join(_base64(json.dumps(part).encode()) for part in parts)
        return f"{signed}.{_base64(self._key.sign(signed.encode()))}"


class Operator:
    """An operator with an account that has JetStream, and one for the system."""

    def __init__(self):
        self.key, self.account, self.system = Nkey("operator"), Nkey("account"), Nkey("account")

    def configuration(self, directory):
        """The part of a server's configuration."""
        (directory / "operator.jwt").write_text(self.key.claim(self.key, {}))
        limits = {**dict.fromkeys(UNLIMITED, -1), "wildcards": True}
        accounts = [(self.account, {**limits, **dict.fromkeys(JETSTREAM, -1)}), (self.system, limits)]
        known = "\n".join(
            f"    {account.public}: {self.key.claim(account, {'limits': its})}" for account, its in accounts
        )
        return (
            f"operator: {directory / 'operator.jwt'}\nsystem_account: {self.system.public}\n"
            f"resolver: MEMORY\nresolver_preload: {{\n{known}\n}}\n"
        )

    def credentials(self):
        """The file of a user of the account."""
        user = Nkey("user")
        claim = self.account.claim(user, {"pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1})
        return (
            f"-----BEGIN NATS USER JWT-----\n{claim}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n"
        )
