"""Rows on disk are read without a topology, by the suffix of their family."""

from __future__ import annotations

import struct

import pytest

from state.offline.stores import columns_of, kind_of_families
from state.registry.kinds import BUILT_IN, KINDS, family_reader
from state.time_to_live.store import KINDS as EXPIRING
from state.versioned.history import read_version_row
from state.write_buffer.stored_rows import StoredRow

OF_USERS = ("custom", "custom-versioned-key-value", "proxied-key-value")
"""Kinds of stores that users bring, whose rows are theirs."""
ON_DISK = [name for name in sorted(BUILT_IN) if name not in OF_USERS]


def read(suffix: str, key: bytes, row: bytes) -> StoredRow | None:
    family = family_reader(suffix)
    assert family is not None
    return family.read(key, row)


def test_there_is_a_reader_for_each_family_of_each_kind() -> None:
    for name in BUILT_IN:
        kind = KINDS[name]
        own = {kind.codec.family_suffix, *kind.families, *kind.notes}
        assert set(kind.offline) == (set() if name in OF_USERS else own), name


def test_a_store_that_takes_over_an_older_kind_has_the_columns_of_both() -> None:
    assert columns_of(["plain"]) == []
    assert columns_of(["plain", "timestamped"]) == ["timestamp"]
    assert columns_of(["latest"]) == columns_of(["latest", "versions"]) == ["valid_from", "valid_to"]
    assert columns_of(["timestamped", "accessed", "expiry"]) == ["timestamp", "accessed"]


def test_a_store_with_a_time_to_live_is_known_from_its_families() -> None:
    """Of two kinds with the same families the first is told: it reads the same rows."""
    for name in EXPIRING:
        kind = KINDS[name]
        found = kind_of_families([kind.codec.family_suffix, *kind.notes])
        assert found in EXPIRING
        assert KINDS[found].codec == kind.codec
    assert read("headers-accessed", b"k", struct.pack(">qq", 9, 7) + b"\x00v") == StoredRow(
        b"k", b"v", 7, [], {"accessed": 9}
    )


@pytest.mark.parametrize("name", [name for name in ON_DISK if name != "timestamped-lru-map" and name not in EXPIRING])
def test_the_kind_of_a_store_is_known_from_its_families(name: str) -> None:
    kind = KINDS[name]
    own = [kind.codec.family_suffix, *kind.families]
    assert kind_of_families(own) == name
    for older in kind.older:
        assert kind_of_families([*own, older]) == name


def test_families_of_no_kind_are_of_none() -> None:
    assert kind_of_families(["bloom"]) is None
    assert kind_of_families(["plain", "list"]) is None
    assert kind_of_families([]) is None


@pytest.mark.parametrize(
    ("suffix", "key", "row", "says"),
    [
        ("timestamped", b"k", b"short", "at least 8 bytes, got 5"),
        ("accessed", b"k", bytes(15), "at least 8 bytes, got 7"),
        ("expiry", b"access", bytes(15), "a buffer of 16 bytes"),
        ("headers", b"k", bytes(8) + b"\x7e", "cannot hold 63 bytes of headers"),
        ("suppressed", b"k", bytes(9), "context of a buffered record ends early"),
        ("suppressed-times", b"k", b"", "at least 9 bytes and no value, got 1"),
        ("suppressed-times", b"\xff", b"\x00", "a buffer of 37 bytes"),
        ("join-buffer", b"k", b"", "at least 13 bytes, got 1"),
        ("join-buffer", b"\xff", b"\x00", "a buffer of 37 bytes"),
        ("list", b"k", b"\x01\x00\x00\x00\x01", "a list ends early, after 0 items"),
        ("lru", b"k", bytes(15), "a buffer of at least 16 bytes"),
        ("latest", b"k", bytes(7), "at least 8 bytes, got 7"),
        ("versions", b"k", bytes(8), "must end with two zero bytes and a time"),
        ("versions", b"k\x00\x00" + bytes(8), bytes(8) + b"\x02", "and 01 before its value"),
        ("versions", b"", b"\x00", "a buffer of 8 bytes"),
        ("window-plain", bytes(19), b"", "at least 20 bytes, got 19"),
        ("window-timestamped", bytes(20), b"short", "at least 8 bytes, got 5"),
        ("session-plain", bytes(8) + b"\xff" * 16, b"", "times must not be negative, got -1 and -1"),
        ("window-headers", bytes(20), bytes(8) + b"\x7e", "cannot hold 63 bytes of headers"),
        ("session-headers", bytes(24), b"\x7e", "cannot hold 63 bytes of headers"),
        ("window-plain", b"\xfffacts", b"\x00", "a buffer of 20 bytes"),
        (
            "time-ordered-window-plain",
            bytes(8) + b"\x01" + bytes(12),
            b"not an index row",
            "must not have a value, got 16 bytes",
        ),
    ],
)
def test_a_row_that_is_none_of_the_family_is_refused(suffix: str, key: bytes, row: bytes, says: str) -> None:
    with pytest.raises((ValueError, struct.error), match=says):
        read(suffix, key, row)


def test_rows_of_windows_and_sessions_have_their_headers() -> None:
    window = struct.pack(">q1sqi", 0, b"k", 7, 0)
    headers = b"\x0a\x02\x02h\x02\x01"
    assert read("window-headers", window, struct.pack(">q", 9) + headers + b"v") == StoredRow(
        b"k", b"v", 9, [("h", b"\x01")], {"window_start": 7, "sequence": 0}
    )
    session = struct.pack(">q1sqq", 0, b"k", 7, 5)
    assert read("session-headers", session, headers + b"v") == StoredRow(
        b"k", b"v", None, [("h", b"\x01")], {"session_start": 5, "session_end": 7}
    )


def test_a_version_without_a_value_says_that_the_key_was_deleted() -> None:
    assert read_version_row(b"a\x00\xffb\x00\x00" + bytes(7) + b"\x09", bytes(7) + b"\x05") == (b"a\x00b", 9, 5, None)
