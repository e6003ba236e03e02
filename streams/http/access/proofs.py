"""Proofs by which workers show each other that they have the token, without sending it.

The address of another worker comes from the group, and a member of the group may name any address. So a worker asks
that address first: it shows, by a code that only the token makes, that it has the token, and the other one shows the
same and gives a ticket. The codes contain the address that was asked, so they are worth nothing at another one. Only
then a request is made, with the ticket.

A ticket is valid at the worker that gave it, for :data:`TICKET_S` seconds by the clock of that worker, which keeps no
list of them.
"""

from __future__ import annotations

import hmac
import secrets

from processor_api.clock import Clock
from streams.http.access.credentials import Credentials

PEER_PATH = "/peer"
PEER = "Streams-Peer"
"""The scheme of the header ``Authorization``, with a ticket and a code."""
TICKET_S = 600
NONCE_BYTES = 16
ASKS, ANSWERS, USES = "asks", "answers", "uses"
"""The purposes of codes."""


def code(token: str, purpose: str, *parts: str) -> str:
    """Returns the code of a token for texts, which have no line feeds."""
    return hmac.digest(token.encode(), "\n".join((PEER, purpose, *parts)).encode(), "sha256").hex()


def is_same(given: str, code: str) -> bool:
    """Whether a text that came is a code."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), code.encode())


def new_nonce() -> str:
    """Returns a text that was never used before."""
    return secrets.token_hex(NONCE_BYTES)


class Proofs:
    """Answers other workers that want a proof, and checks their tickets.

    :param endpoint: the address of this worker, as others have it from the group.
    """

    def __init__(self, credentials: Credentials, endpoint: str, clock: Clock) -> None:
        self._credentials = credentials
        self._endpoint = endpoint
        self._clock = clock
        self._key = secrets.token_hex(32)
        """Makes the tickets of this process."""

    def answer(self, nonce: str, shown: str) -> dict[str, str] | None:
        """Returns a ticket, and the code that shows that this worker has the token; ``None`` if the asker has none.

        :param nonce: a text of the asker.
        :param shown: the code of the asker.
        """
        token = self._token_of(shown, ASKS, self._endpoint, nonce)
        if token is None:
            return None
        until = str(self._now_ms() + 1000 * TICKET_S)
        ticket = f"{until}.{new_nonce()}"
        ticket = f"{ticket}.{code(self._key, USES, ticket)}"
        return {"ticket": ticket, "code": code(token, ANSWERS, self._endpoint, nonce, ticket)}

    def admits(self, given: str) -> bool:
        """Whether a ticket and its code are valid here."""
        ticket, _, shown = given.partition(" ")
        front, _, made = ticket.rpartition(".")
        until = front.partition(".")[0]
        if not is_same(made, code(self._key, USES, front)) or int(until) < self._now_ms():
            return False
        return self._token_of(shown, USES, self._endpoint, ticket) is not None

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)

    def _token_of(self, shown: str, purpose: str, *parts: str) -> str | None:
        """Returns the valid token that made a code."""
        tokens = self._credentials.tokens
        return next((token for token in tokens if is_same(shown, code(token, purpose, *parts))), None)
