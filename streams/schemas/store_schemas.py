"""The schemas of the serdes of a store, as they are kept with its rows, and their comparison with those of now.

The row in a store's engine is JSON: ``{"key": ["built-in", "string"], "value": ["json-schema", "{...}"]}``, with
``null`` where nothing is known of a serde. Rows are rewritten when they are put, so some may have the form of a version
before the last one: ``"former"`` lists the schemas of these, and ``"read": true`` says that rows of theirs were read by
the serde of ``value`` (frozen on disk; further names are left alone).
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple
from zlib import crc32

from processor_api.record import Headers
from processor_api.serde import Serde, SerdeSchema
from processor_api.texts import kind_and_text, repr_of
from state.write_buffer.stored_rows import StoredRow

PARTS = ("key", "value")
FORMER_MAX = 20
"""How many schemas of older values are kept; older ones count as unknown."""
ROWS_TRIED = 20
"""How many rows are read where nothing at all is known of them."""

KeptSchema = tuple[str, str]
"""The kind and the text of a schema."""


class KeptSchemas(NamedTuple):
    """The schemas by which the rows of a store were written; ``None`` for a serde of which nothing was known."""

    key: KeptSchema | None
    value: KeptSchema | None
    former: tuple[KeptSchema | None, ...] = ()
    """Those of values that an older version may have left, the oldest first; ``None`` for any form."""
    read: bool = False
    """Whether the serde of ``value`` has read rows of all older forms, or has tried some."""

    def write(self) -> bytes:
        """Returns the row that keeps them."""
        found: dict[str, Any] = {"key": self.key, "value": self.value}
        if self.former:
            found |= {"former": self.former, "read": self.read}
        return json.dumps(found, separators=(",", ":")).encode()

    @property
    def marks(self) -> tuple[int, int]:
        """The CRC-32s of the last schemas, and of all that is kept."""
        return crc32(KeptSchemas(self.key, self.value).write()), crc32(self.write())

    def followed_by(self, now: KeptSchemas, *, read: bool) -> KeptSchemas:
        """Returns what is kept once a version writes values by another schema, or by the same one.

        :param read: whether rows were read by the serdes of now.
        """
        before = self.former if self.value == now.value else (*self.former, self.value)
        former = [one for one in dict.fromkeys(before) if one != now.value or one is None]
        if len(former) > FORMER_MAX:
            former = [None, *(one for one in former[1 - FORMER_MAX :] if one is not None)]
        return now._replace(former=tuple(former), read=read or (self.read and self.value == now.value))

    def with_unknown_rows(self) -> KeptSchemas:
        """Returns the same for a store that has got rows of any form besides its own."""
        former = self.former if None in self.former else (*self.former, None)
        return self._replace(former=former, read=False)


def kept_by(key: Serde[Any], value: Serde[Any]) -> KeptSchemas:
    """Returns the schemas of two serdes."""
    return KeptSchemas(_kept(key.schema), _kept(value.schema))


def _kept(schema: SerdeSchema | None) -> KeptSchema | None:
    return None if schema is None else (schema.kind, schema.text)


def read_kept(row: bytes | None) -> KeptSchemas | None:
    """Returns the schemas that a row keeps; ``None`` without one, or if it is not readable: the rows tell then."""
    try:
        found = json.loads(row or b"null")
        if found is None:
            return None
        key, value = (_pair(found[part]) for part in PARTS)
        return KeptSchemas(key, value, tuple(map(_pair, found.get("former", ()))), found.get("read") is True)
    except (ValueError, KeyError, TypeError):
        return None


def _pair(found: Any) -> KeptSchema | None:
    if found is None:
        return None
    kind, text = found
    if not isinstance(kind, str) or not isinstance(text, str):
        raise TypeError("a schema must be two strings")
    return kind, text


class Fit(enum.Enum):
    """The relation of rows that another version of an application has written to the serdes of this one."""

    SAME = "same"
    COMPATIBLE = "compatible"
    """Rows have another form, which is read all the same."""
    OLDER = "older"
    """Rows of the last version are read; those of a version before it may be there, and only all rows can tell."""
    UNKNOWN = "unknown"
    """Only the rows can tell, and some of them are tried."""
    INCOMPATIBLE = "incompatible"


class Comparison(NamedTuple):
    """The result for the keys or for the values of a store."""

    part: str
    """``key`` or ``value``."""
    fit: Fit
    problems: tuple[str, ...] = ()
    """Whatever of the rows could not be read, in words."""


def compare(kept: KeptSchemas | None, key: Serde[Any], value: Serde[Any]) -> list[Comparison]:
    """Compares the schemas of rows with those of the serdes that will read them.

    :param kept: ``None`` if nothing is known of the rows.
    """
    former = KeptSchemas(None, None) if kept is None else kept
    found = []
    for part, old, now in zip(PARTS, former[:2], (key.schema, value.schema), strict=True):
        if kept is not None and old is None and now is None:
            found.append(Comparison(part, Fit.SAME))  # as far as anybody can tell
        elif old is None or now is None:
            found.append(Comparison(part, Fit.UNKNOWN))
        else:
            found.append(_compare(part, old, now))
    if kept is not None and found[1].fit is not Fit.INCOMPATIBLE:
        found[1] = _with_former(kept, found[1], value.schema)
    return found


def _with_former(kept: KeptSchemas, last: Comparison, now: SerdeSchema | None) -> Comparison:
    """Adds to the result for the last values that for those which older versions have left."""
    if kept.read and last.fit is Fit.SAME:
        return last
    each = [None if old is None or now is None else _compare("value", old, now) for old in kept.former]
    if all(one is not None and one.fit in (Fit.SAME, Fit.COMPATIBLE) for one in each):
        return last
    problems = [problem for one in each if one is not None for problem in one.problems]
    return Comparison("value", Fit.OLDER, tuple(dict.fromkeys(problems)))


def _compare(part: str, old: KeptSchema, now: SerdeSchema) -> Comparison:
    kind, text = old
    if kind == now.kind and text == now.text:
        return Comparison(part, Fit.SAME)
    problems: Sequence[str] | None = now.problems(kind, text)
    if problems is None:
        return Comparison(part, Fit.UNKNOWN)
    if not problems and part == "key" and now.form(text) != now.form(now.text):
        problems = ("equal keys may have other bytes: do not change the fields of a key, their order and their types",)
    return Comparison(part, Fit.INCOMPATIBLE if problems else Fit.COMPATIBLE, tuple(problems))


class RowReading:
    """Reads rows of a store by the serdes of this version, some at a time.

    :param rows: those of the store, as they stand.
    :param most: how many rows at most; ``None`` is all.
    :param foreign_keys: whether programs of others have written the keys, in forms of their own.
    """

    def __init__(
        self,
        rows: Iterator[StoredRow],
        key: Serde[Any],
        value: Serde[Any],
        most: int | None = ROWS_TRIED,
        *,
        foreign_keys: bool = False,
    ) -> None:
        self._rows = rows if most is None else islice(rows, most)
        self._key, self._value = key, value
        self._all = most is None
        self._looks_up = not (foreign_keys or key.takes_headers)
        self.count = 0
        """The number of rows that were read."""
        self.others = 0
        """The number of those whose value is not written today as it stands: their form is another one."""
        self.problem: str | None = None
        """The first row that cannot be read, in words."""

    def read(self, most: int) -> bool:
        """Reads some rows; returns whether that was all, or one of them cannot be read."""
        before = self.count
        for row in islice(self._rows, most):
            self.count += 1
            if not self._takes(row):
                return True
        return self.count < before + most

    def _takes(self, row: StoredRow) -> bool:
        shown = repr_of(row.key)
        try:
            key = _of_row(self._key, row).deserialize(row.key)
            shown = repr_of(key)
            if self._looks_up and self._key.serialize(key) != row.key:
                self.problem = (
                    f"the key {shown} is now written with other bytes than this row has, so no lookup finds the row:"
                    " with a schema registry, use the version of the schema that the keys have"
                )
                return False
        except Exception as error:  # of a serde of the user
            return self._passes_over(self._key, row, f"the key {shown}", error)
        for data in row.value if isinstance(row.value, list) else (row.value,):
            try:
                if data is not None and not self._same(_of_row(self._value, row), data):
                    self.others += 1
            except Exception as error:
                return self._passes_over(self._value, row, f"the value under the key {shown}", error)
        return True

    def _same(self, serde: Serde[Any], data: bytes) -> bool:
        """Reads a value; returns whether the serde writes it as it stands.

        That of a few rows proves nothing, and is not asked.
        """
        value = serde.deserialize(data)
        try:
            return self._all and serde.serialize(value) == data
        except Exception:  # what is read need not be written
            return False

    def _passes_over(self, serde: Serde[Any], row: StoredRow, what: str, error: Exception) -> bool:
        """Returns whether an error says nothing of the row, and keeps it otherwise."""
        if serde.takes_headers and row.headers is None:  # it gets those of the record that will read the row
            self.others += 1
            return True
        self.problem = f"{what} cannot be read: {kind_and_text(error)}"
        return False


def _of_row(serde: Serde[Any], row: StoredRow) -> Serde[Any]:
    return serde.with_headers(Headers(row.headers or ())) if serde.takes_headers else serde
