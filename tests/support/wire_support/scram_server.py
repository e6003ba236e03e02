"""The broker's side of SCRAM as RFC 5802 defines it: it keeps keys, never the password."""

from __future__ import annotations

import base64
import hashlib
import hmac

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


class ScramServer:
    """Answers the two messages of one login after the other."""

    def __init__(self, mechanism: str, username: str, password: str, *, iterations: int = 4096) -> None:
        self._hash = HASHES[mechanism]
        self._username = username
        self._iterations = iterations
        salted = hashlib.pbkdf2_hmac(self._hash, password.encode(), b"salt", iterations)
        self._stored_key = hashlib.new(self._hash, hmac.digest(salted, b"Client Key", self._hash)).digest()
        self.server_key = hmac.digest(salted, b"Server Key", self._hash)
        self._transcript: list[str] = []

    def answer(self, message: bytes) -> bytes:
        return self._first(message.decode()) if not self._transcript else self._final(message.decode())

    def _first(self, message: str) -> bytes:
        header, bare = message[:3], message[3:]
        fields = dict(part.split("=", 1) for part in bare.split(","))
        assert header == "n,,"
        assert fields["n"].replace("=2C", ",").replace("=3D", "=") == self._username
        salt = base64.b64encode(b"salt").decode()
        answer = f"r={fields['r']}theirs,s={salt},i={self._iterations}"
        self._transcript += [bare, answer]
        return answer.encode()

    def _final(self, message: str) -> bytes:
        without_proof, _, proof = message.rpartition(",p=")
        signed = ",".join([*self._transcript, without_proof]).encode()
        self._transcript = []
        signature = hmac.digest(self._stored_key, signed, self._hash)
        client_key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
        if hashlib.new(self._hash, client_key).digest() != self._stored_key:
            return b"e=invalid-proof"
        return b"v=" + base64.b64encode(hmac.digest(self.server_key, signed, self._hash))
