"""Builders of the stores in which operators of the DSL keep records that wait; Kafka Streams has them internally."""

from __future__ import annotations

from typing import Any

from processor_api.errors import TopologyError
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.suppliers import MEMORY, ROCKSDB, StoreSupplier
from processor_api.user_code.durations import Duration, to_ms
from processor_api.user_code.given_serdes import SerdeLike


def change_buffer_builder(
    name: str,
    key_serde: SerdeLike[Any] | None = None,
    value_serde: SerdeLike[Any] | None = None,
    *,
    engine: str = MEMORY,
    headers: bool = False,
) -> StoreBuilder[Any, Any]:
    """Returns a builder of the buffer of a suppression: the last change of each key, in order of time.

    :param engine: in memory, where Kafka Streams has it, it is restored from the changelog at every start.
    :param headers: whether old values keep the headers and the timestamp of their records (``dsl.store.format``).
    """
    parameters = {"headers": True} if headers else {}
    supplier = StoreSupplier(name=name, kind="change-buffer", engine=engine, parameters=parameters, can_be_cached=False)
    return StoreBuilder(supplier=supplier, key_serde=key_serde, value_serde=value_serde)


def join_buffer_builder(
    name: str,
    grace: Duration,
    key_serde: SerdeLike[Any] | None = None,
    value_serde: SerdeLike[Any] | None = None,
    *,
    engine: str = ROCKSDB,
) -> StoreBuilder[Any, Any]:
    """Returns a builder of the buffer of a join of a stream with a table, with grace (KIP-923).

    It holds every record, in order of time.

    :param grace: how long the stream's time has to be past a record's before the record is joined.
    :raises TopologyError: if the grace is negative.
    """
    grace_ms = to_ms(grace, f"store {name!r}: grace")
    if grace_ms < 0:
        raise TopologyError(f"store {name!r}: grace cannot be negative, got {grace_ms} ms", store=name)
    supplier = StoreSupplier(
        name=name, kind="join-buffer", engine=engine, parameters={"grace_ms": grace_ms}, can_be_cached=False
    )
    return StoreBuilder(supplier=supplier, key_serde=key_serde, value_serde=value_serde)
