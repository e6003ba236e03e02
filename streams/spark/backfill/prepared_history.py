"""The pass over a history that lacks something: bytes made by the serdes of its source, or partitions of its keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from processor_api.errors import SerializationError
from processor_api.nodes import SourceNode
from processor_api.serde import Serde
from processor_api.topology import Topology
from streams.config import StreamsConfig
from streams.runtime.processing.environment import resolve_serde
from streams.spark.backfill.murmur2 import partitions_of_keys
from streams.spark.backfill.shipped_topology import ShippedTopology
from streams.spark.backfill.task_errors import passed_to_driver
from streams.spark.errors import PartitionMismatchError

__all__ = ["Preparation", "prepared"]


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


def prepared(job: Preparation) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Returns the function that Spark's ``mapInArrow`` runs over the rows; their columns stay the same."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with passed_to_driver():
            serdes = _serdes(job.shipped.load(), job.shipped.config, job.topic) if job.encode else None
            for batch in batches:
                columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                if serdes is not None:
                    for name, serde in zip(("key", "value"), serdes, strict=True):
                        columns[name] = _encoded(columns[name], serde, name, job.topic)
                if job.place:
                    columns["pid"] = _placed(columns["key"].cast(pa.binary()), job)
                yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    return run


def _serdes(topology: Topology, config: StreamsConfig, topic: str) -> tuple[Serde[Any], Serde[Any]]:
    """Returns the serdes of the source that reads a topic."""
    sources = [node for node in topology.nodes.values() if isinstance(node, SourceNode)]
    named = [node for node in sources if topic in node.topics]
    matching = [node for node in sources if node.pattern is not None and node.pattern.fullmatch(topic)]
    source, what = (named or matching)[0], f"topic {topic!r}"
    key = resolve_serde(source.key_serde, config.default_key_serde, what, "key")
    value = resolve_serde(source.value_serde, config.default_value_serde, what, "value")
    return key.bind(topic, is_key=True), value.bind(topic, is_key=False)


def _encoded(column: pa.Array, serde: Serde[Any], part: str, topic: str) -> pa.Array:
    written = []
    for value in column.to_pylist():
        try:
            written.append(None if value is None else serde.serialize(value))
        except Exception as error:
            raise SerializationError(
                f"the {part} {value!r} of the history cannot be written by the serde {serde.name!r} of the topology's"
                " source: convert the column to what the serde writes",
                topic=topic,
            ) from error
    return pa.array(written, pa.binary())


def _placed(keys: pa.Array, job: Preparation) -> pa.Array:
    partitions = partitions_of_keys(keys, job.partitions)
    if keys.null_count:
        raise PartitionMismatchError(
            "a row of the history has a null key, so its partition cannot be computed: give the history a column with"
            " the partition numbers (History(partition=...)), or leave such rows out",
            topic=job.topic,
        )
    return pa.array(partitions.astype(np.int32))
