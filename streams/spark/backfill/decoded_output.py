"""Records of an output with keys and values read by serdes, as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from processor_api.user_code.given_serdes import SerdeLike, optional_serde
from streams.spark.rows.columns import Column, column_of
from streams.spark.rows.shipping import packed, unpacked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def decoded(rows: DataFrame, topic: str, key: SerdeLike[Any] | None, value: SerdeLike[Any] | None) -> DataFrame:
    """Returns the rows of an output with the values that their bytes stand for; other columns stay as they are.

    :param rows: has the columns ``partition``, ``upstream``, ``seq``, ``key`` and ``value`` among others.
    :param key: reads the keys; ``None`` leaves bytes.
    :raises SerdeNotPicklable: if a serde cannot be sent to the executors.
    :raises DeserializationError: in the task, with the topic and the partition, if a serde cannot read a record.
    """
    serdes = {
        name: optional_serde(given, name, "output", topic=topic) for name, given in (("key", key), ("value", value))
    }
    columns = tuple(
        column_of(name, None if serde is None else serde.bind(topic, is_key=name == "key"))
        for name, serde in serdes.items()
    )
    types = {**dict(rows.dtypes), **{one.name: one.spark_type for one in columns}}
    schema = ", ".join(f"`{name}` {kind}" for name, kind in types.items())
    return rows.mapInArrow(_reading(topic, packed(columns)), schema)


def _reading(topic: str, text: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Returns the function that runs in Spark's tasks."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        columns: tuple[Column, ...] = unpacked(text)
        for batch in batches:
            yield _read(batch, topic, columns)

    return run


def _read(batch: pa.RecordBatch, topic: str, columns: Iterable[Column]) -> pa.RecordBatch:
    def place(row: int) -> Mapping[str, Any]:
        return {"topic": topic, "partition": batch.column("partition")[row].as_py()}

    found = dict(zip(batch.schema.names, batch.columns, strict=True))
    for one in columns:
        found[one.name] = one.array(batch.column(one.name).to_pylist(), place)
    return pa.RecordBatch.from_arrays(list(found.values()), names=list(found))
