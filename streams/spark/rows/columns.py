"""Columns of DataFrames for keys, values, times and headers: their types, and the Arrow arrays that fill them.

A column's type is that of its serde: text, numbers, truth values and bytes keep theirs; other values of a serde
becomes JSON text, which Spark parses by ``from_json``, or a struct. (docs/decisions/spark.md, "Objects are JSON text in
DataFrames")
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from processor_api.errors import DeserializationError
from processor_api.record import HeaderList, Headers
from processor_api.serde import CurrentHeaders, Serde, Serdes, never_null
from processor_api.stores.windowed import Windowed
from processor_api.texts import kind_and_text, repr_of
from state.formats.windowed_serdes import key_of_window_as_json
from streams.serdes.json import json_serde
from streams.spark.errors import SparkBridgeError
from streams.spark.rows.struct_types import filler, spark_name, struct_type

TIME = "timestamp"
TIME_TYPE = pa.timestamp("us", "UTC")
"""The only type of times that Spark takes for a column ``timestamp``."""
HEADERS = "array<struct<key: string, value: binary>>"
HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

Place = Callable[[int], Mapping[str, Any]]
"""The place in Kafka of the record with a number in a batch, as fields of errors."""

BINARY, TEXT = "binary", "json"
_SERDES: Mapping[str, Serde[Any]] = {
    "string": Serdes.STRING,
    "long": Serdes.LONG,
    "integer": Serdes.INTEGER,
    "short": Serdes.SHORT,
    "float": Serdes.FLOAT,
    "double": Serdes.DOUBLE,
    "boolean": Serdes.BOOLEAN,
    "uuid": Serdes.UUID,
    "void": Serdes.VOID,
    BINARY: Serdes.BYTES,
}
_SPARK = {"integer": "int", "uuid": "string", "void": "string", TEXT: "string"}
"""Spark's names of types that differ from those of the serdes."""
_ARROW = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    BINARY: pa.binary(),
}
_NUMBERS = {"long": ">i8", "integer": ">i4", "short": ">i2", "float": ">f4", "double": ">f8"}


@dataclass(frozen=True)
class Column:
    """One side of records as a column, ``key`` or ``value``; it is sent to the executors."""

    name: str
    kind: str
    """The name of a built-in serde's type, or `TEXT`."""
    serde: Serde[Any] | None = None
    """Reads and writes what becomes JSON text or a struct; ``None`` for the built-in serdes."""
    struct: pa.DataType | None = None
    """The type of a column of objects that are not text."""

    @property
    def spark_type(self) -> str:
        """The column's type in Spark's notation."""
        return _SPARK.get(self.kind, self.kind) if self.struct is None else spark_name(self.struct)

    @property
    def arrow_type(self) -> pa.DataType:
        return _ARROW.get(self.kind, _ARROW["string"]) if self.struct is None else self.struct

    @property
    def reader(self) -> Serde[Any]:
        """The serde of single values."""
        return _SERDES[self.kind] if self.serde is None else self.serde

    def raw(self) -> Column:
        """Returns the column of bytes as they are."""
        return replace(self, kind=BINARY, serde=None, struct=None)

    @property
    def takes_headers(self) -> bool:
        """Whether the serde needs the headers of the records."""
        return self.serde is not None and self.serde.takes_headers

    def array(
        self, data: Sequence[bytes | None], place: Place, headers: Sequence[HeaderList | None] | None = None
    ) -> pa.Array:
        """Returns the values that bytes stand for; ``None`` stays null.

        :param place: where the record with a number is, for the error.
        :param headers: those of the records, for a serde that takes headers.
        :raises DeserializationError: if bytes cannot be read by the serde.
        """
        if self.kind == BINARY:
            return pa.array(data, pa.binary())
        if self.kind == "string":
            try:
                return pa.array(data, pa.binary()).cast(pa.string())
            except pa.ArrowInvalid:  # no UTF-8: the serde refuses it, by an error with its place
                pass
        elif self.kind in _NUMBERS:
            found = self._numbers(data, _NUMBERS[self.kind])
            if found is not None:
                return found
        return self._one_by_one(data, place, headers)

    def _numbers(self, data: Sequence[bytes | None], dtype: str) -> pa.Array | None:
        """Returns the numbers, or ``None`` if not all have the right length."""
        kind = np.dtype(dtype)
        zero = bytes(kind.itemsize)
        nulls = None in data
        filled: Any = [zero if each is None else each for each in data] if nulls else data
        if filled and set(map(len, filled)) != {kind.itemsize}:
            return None
        numbers = np.frombuffer(b"".join(filled), kind).astype(kind.newbyteorder("="))
        mask = np.fromiter((each is None for each in data), bool, len(data)) if nulls else None
        return pa.array(numbers, self.arrow_type, mask=mask)

    def _shaped(self) -> Callable[[Any], Any] | None:
        """Returns the function from an object to what the column has; ``None`` if that is the object."""
        if self.struct is not None:
            fill, serde = filler(self.struct), self.reader
            return lambda value: fill(_json_of(serde, value))
        return _text_of(self.reader) if self.kind == TEXT else str if self.kind == "uuid" else None

    def _one_by_one(
        self, data: Sequence[bytes | None], place: Place, headers: Sequence[HeaderList | None] | None
    ) -> pa.Array:
        current = CurrentHeaders()
        read = current.handed_to(self.reader).deserialize
        shaped = self._shaped()
        found: list[Any] = []
        for number, each in enumerate(data):
            if headers is not None:
                current.now = Headers(headers[number] or ())
            try:
                value = None if each is None else read(each)
                found.append(value if shaped is None or value is None else shaped(value))
            except Exception as error:
                raise DeserializationError(
                    f"the {self.name} {repr_of(each, 200)} cannot be read by the serde {self.reader.name!r}:"
                    f" {kind_and_text(error)}; give the right {self.name} serde, or read it raw",
                    **place(number),
                ) from error
        return pa.array(found, self.arrow_type)


def column_of(name: str, serde: Serde[Any] | None, *, structs: bool = False) -> Column:
    """Returns the column that a serde's values make; bytes where there is none.

    :param structs: whether objects are structs rather than text.
    :raises SparkBridgeError: if they cannot be.
    """
    if serde is None:
        return Column(name, BINARY)
    for kind, known in _SERDES.items():
        if serde is known:
            return Column(name, kind)
    return Column(name, TEXT, serde, struct_type(name, serde) if structs else None)


_dumps = never_null(json_serde().serialize)


def _json_of(serde: Serde[Any], value: Any) -> Any:
    """Returns a value as JSON; the times of a window are numbers."""
    if not isinstance(value, Windowed):
        return serde.to_json(value)
    return {"key": key_of_window_as_json(serde, value), "window": value.window._asdict()}


def _text_of(serde: Serde[Any]) -> Callable[[Any], str | None]:
    """Returns the function from an object to its JSON text; ``None`` if the serde says that there is none."""
    write = serde.serialize if serde.writes_json else None

    def text(value: Any) -> str | None:
        if value is None:
            return None
        try:
            if write is not None:
                return write(value).decode()
        except (TypeError, ValueError):  # it was read from what it would not be written as
            pass
        found = _json_of(serde, value)
        try:
            return _dumps(found).decode()
        except (TypeError, ValueError):  # half of a surrogate pair, or deeper than serdes write
            return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace").decode()

    return text


def time_array(ms: Sequence[int | None] | np.ndarray[Any, Any], place: Place) -> pa.Array:
    """Returns times in ms since the epoch as a column of Spark's type ``timestamp``.

    :raises SparkBridgeError: if one is out of Spark's range, which is 292,000 years around 1970.
    """
    try:
        return pa.array(ms, pa.int64()).cast(pa.timestamp("ms", "UTC")).cast(TIME_TYPE)
    except pa.ArrowInvalid as error:
        limit = (1 << 63) // 1000
        number = next(n for n, each in enumerate(ms) if each is not None and not -limit <= each < limit)
        raise SparkBridgeError(
            f"the time {ms[number]} ms is out of the range of Spark's timestamps: read it with times='ms'",
            **place(number),
        ) from error


def headers_array(headers: Sequence[HeaderList | None]) -> pa.Array:
    """Returns headers as a column; a record without headers has an empty list."""
    if not any(headers):
        ends = pa.array([0] * (len(headers) + 1), pa.int32())
        children = pa.array([], pa.string()), pa.array([], pa.binary())
    else:
        counts = np.fromiter((len(each) if each else 0 for each in headers), np.int32, len(headers))
        ends = pa.array(np.concatenate(([0], np.cumsum(counts))), pa.int32())
        flat = [one for each in headers if each for one in each]
        children = pa.array([name for name, _ in flat], pa.string()), pa.array([data for _, data in flat], pa.binary())
    structs = pa.StructArray.from_arrays(list(children), fields=list(HEADERS_TYPE.value_type))
    return pa.ListArray.from_arrays(ends, structs, type=HEADERS_TYPE)
