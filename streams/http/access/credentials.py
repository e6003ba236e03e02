"""The tokens and the certificate of the HTTP port, from files that may change while the worker runs."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from processor_api.errors import ConfigError
from streams.config import StreamsConfig

log = logging.getLogger("streams.http")

SHORTEST_TOKEN = 16
MOST_TOKENS = 2
RENEW_S = 2.0
"""The seconds between two looks at the files."""


class Credentials:
    """Holds the tokens and the certificate of a port, and reads their files again when they change.

    :param token_file: a file with a token, or with two on two lines: both are valid, so that workers may change from
        one to the other one after the other.
    :param certificate: a PEM file; ``None`` serves HTTP.
    :param key: a PEM file with the key of the certificate; ``None`` if that has it.
    :raises ConfigError: if a file cannot be used.
    """

    def __init__(
        self, token_file: Path | None = None, certificate: Path | None = None, key: Path | None = None
    ) -> None:
        self.certificate = certificate
        self._token_file, self._key = token_file, key
        self.tokens = () if token_file is None else _tokens(token_file)
        """The bearer tokens that are valid, the first for what this worker asks; none if nothing asks for one."""
        self.tls = None if certificate is None else ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        """The TLS context of the port; one object, whatever certificate it has."""
        if self.tls is not None:
            self.tls.minimum_version = ssl.TLSVersion.TLSv1_2
            self._load_certificate()
        self._seen = self._stamps()

    @classmethod
    def of(cls, config: StreamsConfig) -> Credentials:
        """Returns those that the settings name; raises as the class does."""
        return cls(config.http_token_file, config.http_tls_certificate, config.http_tls_key)

    def renew(self) -> bool:
        """Reads the files again if they have changed; returns whether they have. What cannot be used is logged, and
        the former one stays valid."""
        now = self._stamps()
        if now == self._seen:
            return False
        self._seen = now
        try:
            if self._token_file is not None:
                self.tokens = _tokens(self._token_file)
            if self.tls is not None:
                self._load_certificate()
        except ConfigError as error:
            log.warning(
                "the token or the certificate of the HTTP port has changed and cannot be used: the former one stays"
                " valid. Correct the file, and it is read again",
                extra={"error": error.message},
            )
            return False
        log.info("the token and the certificate of the HTTP port were read again")
        return True

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        return [None if path is None else _stamp(path) for path in (self._token_file, self.certificate, self._key)]

    def _load_certificate(self) -> None:
        assert self.tls is not None
        assert self.certificate is not None
        try:
            self.tls.load_cert_chain(self.certificate, self._key)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"http.tls.certificate {self.certificate} cannot be used: {error}") from None


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _tokens(path: Path) -> tuple[str, ...]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"http.token.file {path} cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None
    found = tuple(line.strip() for line in text.splitlines() if line.strip())
    if not 0 < len(found) <= MOST_TOKENS or not all(map(_is_token, found)):
        raise ConfigError(
            f"http.token.file {path} must hold one word of at least {SHORTEST_TOKEN} characters of ASCII, such as"
            f" `openssl rand -hex 32` prints, or {MOST_TOKENS} on {MOST_TOKENS} lines while it is changed"
        )
    return found


def _is_token(text: str) -> bool:
    return len(text) >= SHORTEST_TOKEN and text.isascii() and not any(char.isspace() for char in text)
