"""What is kept of the schemas of a store, and rows that are read because it says too little."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from processor_api.serde import Serdes
from state.write_buffer.stored_rows import StoredRow
from streams.schemas.store_schemas import FORMER_MAX, Fit, KeptSchemas, RowReading, compare, kept_by, read_kept
from streams.serdes import pydantic_serde, serde_of

KEY = ("built-in", "string")


def of(name: str, *former: str | None, read: bool = False) -> KeptSchemas:
    return KeptSchemas(KEY, ("own", name), tuple(one if one is None else ("own", one) for one in former), read)


@pytest.mark.parametrize("kept", [of("b"), of("b", "a"), of("c", None, "b", read=True), KeptSchemas(None, None)])
def test_what_is_kept_is_read_again(kept: KeptSchemas) -> None:
    assert read_kept(kept.write()) == kept


@pytest.mark.parametrize("row", [None, b"", b"{}", b"[]", b'{"key":1,"value":null}', b'{"key":["a"],"value":null}'])
def test_what_cannot_be_read_is_not_known(row: bytes | None) -> None:
    assert read_kept(row) is None


@pytest.mark.parametrize(
    ("kept", "now", "read", "noted"),
    [
        (of("a"), of("a"), False, of("a")),
        (of("a"), of("b"), False, of("b", "a")),
        (of("b", "a"), of("b"), True, of("b", "a", read=True)),
        (of("b", "a", read=True), of("b"), False, of("b", "a", read=True)),
        (of("b", "a", read=True), of("c"), False, of("c", "a", "b")),  # what b could read, c may not
        (of("b", "a"), of("a"), False, of("a", "b")),
        (of("c", "b", "a"), of("b"), False, of("b", "a", "c")),
        (KeptSchemas(KEY, None), of("a"), False, of("a", None)),
        (KeptSchemas(KEY, None), KeptSchemas(KEY, None), False, KeptSchemas(KEY, None)),
    ],
)
def test_schemas_of_older_values_are_kept(kept: KeptSchemas, now: KeptSchemas, read: bool, noted: KeptSchemas) -> None:
    assert kept.followed_by(now, read=read) == noted


def test_many_versions_are_kept_as_unknown() -> None:
    kept = of("0")
    for number in range(1, 60):
        kept = kept.followed_by(of(str(number)), read=False)
    last = [str(number) for number in range(60 - FORMER_MAX, 59)]
    assert kept == of("59", None, *last)
    assert len(kept.former) == FORMER_MAX
    assert compare(kept, Serdes.STRING, Serdes.LONG)[1].fit is Fit.INCOMPATIBLE  # the last one says so


class Old(BaseModel):
    cents: int


class New(BaseModel):
    cents: int
    zone: str = "all"


def rows(*values: bytes) -> Iterator[StoredRow]:
    return iter([StoredRow(str(number).encode(), value) for number, value in enumerate(values)])


def test_rows_are_read_some_at_a_time() -> None:
    old = pydantic_serde(Old).serialize(Old(cents=1))
    new = pydantic_serde(New).serialize(New(cents=1))
    reading = RowReading(rows(old, new, new, old, new), Serdes.STRING, pydantic_serde(New), None)
    steps = [reading.read(2) for _ in range(3)]
    assert (steps, reading.count, reading.others, reading.problem) == ([False, False, True], 5, 2, None)


def test_the_first_row_that_cannot_be_read_ends_it() -> None:
    reading = RowReading(rows(b"\0" * 8, b"\0" * 7, b"\0" * 8), Serdes.STRING, Serdes.LONG)
    assert reading.read(10)
    assert (reading.count, reading.problem) == (
        2, "the value under the key '1' cannot be read: ValueError: long: expected 8 bytes, got 7"
    )  # fmt: skip


def test_a_key_that_cannot_be_read() -> None:
    reading = RowReading(iter([StoredRow(b"\xff", None)]), Serdes.STRING, Serdes.LONG)
    assert reading.read(10)
    assert reading.problem is not None
    assert reading.problem.startswith("the key b'\\xff' cannot be read: ValueError")


UPPER = serde_of(lambda key: key.upper().encode(), lambda data: data.decode())


def test_a_key_that_is_written_with_other_bytes_is_not_found() -> None:
    reading = RowReading(iter([StoredRow(b"A", None), StoredRow(b"b", None)]), UPPER, Serdes.LONG)
    assert reading.read(10)
    assert reading.problem is not None
    assert reading.problem.startswith("the key 'b' is now written with other bytes than this row has")
    others = RowReading(iter([StoredRow(b"b", None)]), UPPER, Serdes.LONG, foreign_keys=True)
    assert others.read(10)
    assert others.problem is None


def test_lists_are_read_item_by_item() -> None:
    reading = RowReading(iter([StoredRow(b"k", [b"\0" * 8, None, b"1"])]), Serdes.STRING, Serdes.LONG, None)
    assert reading.read(10)
    assert reading.problem is not None


def test_a_serde_gets_the_headers_of_the_row() -> None:
    """A row is as good as its headers, which say how to read it."""
    serde = serde_of(
        lambda value, headers: str(value).encode(),
        lambda data, headers: int(data) * int(headers.last("by") or b"x"),
        with_headers=True,
    )
    given = [StoredRow(b"k", b"2", headers=[("by", b"3")]), StoredRow(b"k", b"2"), StoredRow(b"k", b"2", headers=[])]
    reading = RowReading(iter(given), Serdes.STRING, serde)
    assert reading.read(10)
    assert reading.count == 3  # the second one keeps no headers, and may be read by a record that has some
    assert reading.problem is not None


def test_nothing_older_is_as_good_as_nothing_kept() -> None:
    now = kept_by(Serdes.STRING, pydantic_serde(New))
    found = compare(now.with_unknown_rows(), Serdes.STRING, pydantic_serde(New))
    assert [one.fit for one in found] == [Fit.SAME, Fit.OLDER]
    assert now.with_unknown_rows().with_unknown_rows() == now.with_unknown_rows()
