"""Kafka Streams for Python: everything that an application needs is importable from here.

    from streams import KafkaStreams, StreamsBuilder, StreamsConfig

A name is loaded when it is first used, so that a script that only describes a topology loads neither the Kafka client
nor RocksDB nor pydantic. Names for authors of storage engines are in ``streams.engines``, tools for tests in
``streams.testing``.

Each public name stands once, in `_HOMES`; ``__init__.pyi`` is made of it (``python -m tools.public_names``).
"""

import sys

if sys.argv[:1] == ["-m"] and ("-m", "streams") in zip(sys.orig_argv, sys.orig_argv[1:], strict=False):
    import streams_command  # noqa: F401  # of `python -m streams`, which imports this package before anything else

import logging
from typing import Any

from streams.origin import check_origin

check_origin()

from processor_api.serde import register_serde_provider  # noqa: E402 - after the check of where it comes from
from processor_api.user_code.settings_reader import register_settings_reader  # noqa: E402
from streams.version import __version__ as __version__  # noqa: E402


def _provide_serde(given: Any) -> Any:
    from streams.serdes.provided import provide

    return provide(given)


def _provide_schema_serde(given: Any) -> Any:
    if given != "avro":
        return None
    from streams.registry import Avro

    return Avro()


def _read_settings(given: Any) -> Any:
    from streams.config.topology_settings import read_topology_settings

    return read_topology_settings(given)


register_serde_provider(_provide_serde)
register_serde_provider(_provide_schema_serde)
register_settings_reader(_read_settings)
logging.getLogger("streams").addHandler(logging.NullHandler())  # silent, unless the application sets up its logs

_HOMES = {
    "processor_api.context": "FixedKeyProcessorContext ProcessingContext ProcessorContext",
    "processor_api.stores.custom": (
        "ChangelogRecord CustomStateStore KeyValueBytesStore KeyValueBytesStoreSupplier RestoreCallback "
        "StateStoreContext TimestampedBytesStore VersionedBytesStore VersionedBytesStoreSupplier"
    ),
    "processor_api.stores.defaults": (
        "BuiltInDslStoreSuppliers DslKeyValueParams DslSessionParams DslStoreSuppliers DslWindowParams"
    ),
    "processor_api.user_code.durations": "Duration",
    "processor_api.errors": (
        "AuthenticationError AuthorizationError BootstrapIncompleteError ConfigError DamagedStateError "
        "DeserializationError DiskFullError InternalError InvalidStateStoreError "
        "InvalidStateStorePartitionError MissingTopicError ProcessingError ProductionError RetryableError "
        "SerializationError StateDirectoryError StateError StateStoreMigratedError StoreError StreamsError "
        "StreamsNotStartedError StreamsRebalancingError StreamsStoppedError TaskMigratedError TopologyError "
        "UnknownStateStoreError UnreachableError UserCodeError"
    ),
    "processor_api.handlers": (
        "DeserializationExceptionHandler ErrorHandlerContext ProcessingExceptionHandler ProducerRecord "
        "ProductionExceptionHandler Response Result SerializationExceptionOrigin dead_letter_queue_records "
        "default_production log_and_continue log_and_continue_processing log_and_fail log_and_fail_processing"
    ),
    "processor_api.metrics": "Metric MetricName RecordingLevel Sensor Stat StreamsMetrics",
    "processor_api.topology.nodes": "RecordContext RepartitionTopic TopicNameExtractor",
    "processor_api.user_code.offset_reset": "AutoOffsetReset",
    "processor_api.topology.partitioner": "StreamPartitioner",
    "processor_api.processor": "FixedKeyProcessor FixedKeyProcessorSupplier Processor ProcessorSupplier",
    "processor_api.punctuation": "Cancellable PunctuationType Punctuator",
    "processor_api.record": "FixedKeyRecord HeaderList Record RecordMetadata TimestampType",
    "processor_api.serde": "Headers Serde Serdes",
    "processor_api.stores.builders": "StateStoreBuilder",
    "processor_api.stores.builder": "StoreBuilder",
    "processor_api.stores.factory": "Stores",
    "processor_api.stores.suppliers": "StoreSupplier",
    "processor_api.stores.contracts": (
        "AggregationWithHeaders KeyValueIterator KeyValueStore ListStore PUT_RETURN_CODE_NOT_PUT "
        "PUT_RETURN_CODE_VALID_TO_UNDEFINED ReadOnlyKeyValueStore ReadOnlySessionStore ReadOnlyWindowStore "
        "SessionStore SessionStoreWithHeaders StateStore TimestampedKeyValueStore "
        "TimestampedKeyValueStoreWithHeaders TimestampedSessionStore TimestampedWindowStore "
        "TimestampedWindowStoreWithHeaders ValueAndTimestamp ValueTimestampHeaders VersionedKeyValueStore "
        "VersionedRecord VersionedRecordIterator WindowStore WindowStoreIterator"
    ),
    "processor_api.task_id": "TaskId TopicPartition",
    "processor_api.stores.time_to_live": "TimeToLive",
    "processor_api.timestamps": (
        "ConsumedRecord TimestampExtractor fail_on_invalid_timestamp log_and_skip_on_invalid_timestamp "
        "use_partition_time_on_invalid_timestamp wallclock_timestamp_extractor"
    ),
    "processor_api.topology.topology": "Topology",
    "processor_api.topology.describe": "TopologyDescription",
    "processor_api.user_code.given_serdes": "SerdeLike",
    "processor_api.topology.wrapper": "ProcessorWrapper",
    "processor_api.stores.windowed": "Window Windowed",
    "state.formats.windowed_serdes": "WindowedSerdes",
    "dsl": (
        "BatchProcessor Branched BranchedKStream BufferConfig CogroupedKStream Consumed EagerBufferConfig EmitStrategy "
        "GlobalKTable Grouped JoinWindows Joined KGroupedStream KGroupedTable KStream KTable Materialized "
        "Named Printed Produced Repartitioned SessionWindowedCogroupedKStream SessionWindowedKStream "
        "SessionWindows SlidingWindows StreamJoined StreamsBuilder StrictBufferConfig Suppressed TableJoined "
        "TimeWindowedCogroupedKStream TimeWindowedKStream TimeWindows UnlimitedWindows "
        "ValueTransformerContext ValueTransformerWithKey Windows"
    ),
    "streams.app.kafka_streams": "KafkaStreams",
    "streams.cli.run.script": "run script_config",
    "streams.app.states": "ClientState StateListener",
    "streams.app.uncaught": "StreamThreadExceptionResponse StreamsUncaughtExceptionHandler",
    "streams.config": "StreamsConfig",
    "streams.observing.diagnosis": "NoOutputReason why_no_output",
    "streams.observing.status": (
        "BrokerStatus DropStatus HeldStatus NodeStatus PartitionStatus SnapshotStatus StandbyStatus StoreStatus"
        " TaskStatus ThreadStatus WorkerStatus"
    ),
    "streams.queries.owners": "HostInfo KeyQueryMetadata StreamsMetadata",
    "streams.queries.position": "Position PositionBound",
    "processor_api.stores.queries": (
        "IsolationLevel KeyQuery MultiVersionedKeyQuery Query RangeQuery ResultOrder TimestampedKeyQuery "
        "TimestampedKeyWithHeadersQuery TimestampedRangeQuery TimestampedRangeWithHeadersQuery "
        "TimestampedWindowKeyWithHeadersQuery TimestampedWindowRangeWithHeadersQuery VersionedKeyQuery "
        "WindowKeyQuery WindowRangeQuery"
    ),
    "streams.queries.request": "StateQueryRequest",
    "streams.queries.results": "FailureReason LagInfo QueryResult StateQueryResult",
    "streams.queries.store_types": "QueryableStoreType QueryableStoreTypes StoreQueryParameters",
    "streams.registry": "Avro AvroType JsonSchema Protobuf SchemaReference SchemaRegistry",
    "streams.restore.follower": "StandbyUpdateListener SuspendReason",
    "streams.restore.reports": "StateRestoreListener",
    "streams.runtime.threads.thread_state": "TaskMetadata ThreadMetadata",
    "streams.serdes": "json_serde list_serde pydantic_serde serde_of",
    "streams.testing": "TopologyTestDriver",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted([*_HOME_OF, "__version__"])  # noqa: PLE0605 - a stub has the names, for type checkers and editors


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(home), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
