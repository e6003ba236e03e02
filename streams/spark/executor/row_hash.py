"""A checksum of the rows of a table that does not depend on their order."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

MASK = (1 << 64) - 1


def hash_of_rows(rows: Iterable[tuple[bytes, bytes | None]]) -> int:
    """Returns the sum of the 64-bit hashes of keys with their values, modulo 2^64.

    The sums of the parts of a table add up to that of the table. A null value differs from an empty one.
    """
    total = 0
    for key, value in rows:
        digest = blake2b(len(key).to_bytes(4, "big"), digest_size=8)
        digest.update(key)
        digest.update(b"\0" if value is None else b"\1" + value)
        total += int.from_bytes(digest.digest(), "big")
    return total & MASK
