"""Compares the types of a history's columns with the serdes that will write them, before a row is read."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from processor_api.serde import Serde, Serdes
from processor_api.topology.topology import Topology
from streams.config import StreamsConfig
from streams.spark.backfill.history import History
from streams.spark.errors import HistorySchemaError
from streams.spark.executor.task_input import source_serdes

_TYPED = (
    Serdes.STRING, Serdes.BYTES, Serdes.INTEGER, Serdes.LONG, Serdes.SHORT, Serdes.FLOAT, Serdes.DOUBLE, Serdes.BOOLEAN,
    Serdes.UUID,
)  # fmt: skip
"""The serdes that write values of one type. What others write is known only when they have it."""

_SAMPLES: dict[str, Any] = {
    "string": "", "tinyint": 0, "smallint": 0, "int": 0, "bigint": 0, "float": 0.0, "double": 0.0, "boolean": False,
    "binary": b"", "date": date(1970, 1, 1), "timestamp": datetime(1970, 1, 1, tzinfo=UTC),
    "timestamp_ntz": datetime(1970, 1, 1, tzinfo=UTC), "decimal": Decimal(0), "array": [], "struct": {}, "map": [],
}  # fmt: skip
"""A value of each type of Spark, as it arrives in Python."""


def check_values(topic: str, history: History, topology: Topology, config: StreamsConfig) -> None:
    """Makes sure that the serdes of the source that reads a topic can write values of the history's columns.

    Serdes of objects (JSON, models, one's own) are not asked: a value that they do not take is an error of its row.

    :raises HistorySchemaError: if a column has a type that its serde never writes.
    """
    if history.encoded:
        return
    types = history.types()
    for part, serde in zip(("key", "value"), source_serdes(topology, config, topic), strict=True):
        column = getattr(history, part)
        if column is not None and not _fits(types[column], serde):
            raise HistorySchemaError(
                f"column {column!r} of the history of topic {topic!r} is {types[column]}, which the serde"
                f" {serde.name!r} of the topology's source does not write as a {part}: convert the column, such as by"
                " df.withColumn(name, col(name).cast(...)), or give the source the serde of these values",
                topic=topic,
            )


def _fits(kind: str, serde: Serde[Any]) -> bool:
    name = kind.partition("(")[0].partition("<")[0]
    if not any(serde is one for one in _TYPED) or name not in _SAMPLES:
        return True
    try:
        serde.serialize(_SAMPLES[name])
    except Exception:
        return False
    return True
