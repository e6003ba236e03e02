"""The pass over a history that lacks something: bytes made by the serdes of its source, or partitions of its keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from processor_api.errors import SerializationError
from processor_api.serde import Serde
from processor_api.texts import repr_of
from processor_api.topology.topology import Topology
from streams.config import StreamsConfig
from streams.spark.errors import PartitionMismatchError
from streams.spark.executor.murmur2 import partitions_of_keys
from streams.spark.executor.shipped_topology import ShippedTopology
from streams.spark.executor.task_errors import passed_to_driver
from streams.spark.executor.task_input import source_serdes
from streams.spark.rows.values import pairs_of, python_values, writer_of, written, written_with_headers

_WHAT = "{} of a row of the history, which the topology's source reads,"


@dataclass(frozen=True)
class Preparation:
    """Describes what a history lacks."""

    shipped: ShippedTopology
    topic: str
    partitions: int
    encode: bool
    """Whether keys and values are written by the serdes of the source that reads the topic."""
    place: bool
    """Whether partitions are computed from the keys."""
    check: bool = False
    """Whether the partitions that the history has are compared with the keys."""


def prepared(job: Preparation) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Returns the function that Spark's ``mapInArrow`` runs over the rows; their columns stay the same."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with passed_to_driver():
            serdes = _serdes(job.shipped.load(), job.shipped.config, job.topic) if job.encode else None
            for batch in batches:
                columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                if serdes is not None and any(one.takes_headers for one in serdes):
                    columns |= _encoded_with_headers(columns, serdes, job.topic)
                elif serdes is not None:
                    for name, serde in zip(("key", "value"), serdes, strict=True):
                        columns[name] = _encoded(columns[name], serde, name, job.topic)
                if job.place:
                    columns["pid"] = _placed(columns["key"].cast(pa.binary()), job)
                elif job.check:
                    _check_placed(columns, job)
                yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    return run


def _serdes(topology: Topology, config: StreamsConfig, topic: str) -> tuple[Serde[Any], Serde[Any]]:
    key, value = source_serdes(topology, config, topic)
    return key.bind(topic, is_key=True), value.bind(topic, is_key=False)


def _encoded_with_headers(
    columns: Mapping[str, pa.Array], serdes: tuple[Serde[Any], Serde[Any]], topic: str
) -> dict[str, pa.Array]:
    """Returns the columns of keys, values and headers, as the serdes write them.

    :raises SerializationError: if the history has no column of headers, in which a serde may note what it needs.
    """
    if "headers" not in columns:
        raise SerializationError(
            f"a serde of topic {topic!r} writes headers, and the history has none: give it a column of them,"
            " History(headers=...)",
            topic=topic,
        )
    kept = columns["headers"].type
    headers, found = pairs_of(columns["headers"]), dict[str, pa.Array]()
    for name, serde in zip(("key", "value"), serdes, strict=True):
        data = written_with_headers(name, serde, python_values(columns[name]), headers, _WHAT.format(name), topic)
        found[name] = pa.array(data, pa.binary())
    rows = [[{"key": key, "value": value} for key, value in one] for one in headers]
    return {**found, "headers": pa.array(rows, kept)}


def _encoded(column: pa.Array, serde: Serde[Any], part: str, topic: str) -> pa.Array:
    values = python_values(column)
    what = _WHAT.format(part)
    return pa.array(written(writer_of(part, serde), values, what, serde, topic), pa.binary())


def _placed(keys: pa.Array, job: Preparation) -> pa.Array:
    partitions = partitions_of_keys(keys, job.partitions)
    if keys.null_count:
        raise PartitionMismatchError(
            "a row of the history has a null key, so its partition cannot be computed: give the history a column with"
            " the partition numbers (History(partition=...)), or leave such rows out",
            topic=job.topic,
        )
    return pa.array(partitions.astype(np.int32))


def _check_placed(columns: Mapping[str, pa.Array], job: Preparation) -> None:
    """Refuses a record whose key belongs to another partition; one without a key or a partition is passed over."""
    keys = columns["key"].cast(pa.binary())
    wanted, has = partitions_of_keys(keys, job.partitions), columns["pid"].fill_null(-1).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero((wanted >= 0) & (has >= 0) & (wanted != has))
    if len(wrong):
        row = int(wrong[0])
        raise PartitionMismatchError(
            f"a record of the history with the key {repr_of(keys[row].as_py())} is in partition {has[row]}, and Kafka's"
            f" partitioner for Java puts this key into {wanted[row]} of {job.partitions}: keys that are equal would be"
            " counted apart. Give the number of partitions that the topic has in Kafka, or correct the column; if the"
            " producers choose partitions in another way, as librdkafka does by default, leave check_keys out",
            topic=job.topic,
            partition=int(has[row]),
            offset=columns["seq"][row].as_py(),
        )
