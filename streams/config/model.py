"""The configuration of an application: a frozen value with a field for each setting that is not refused.

Pydantic carries the fields; how each value is read, and the words of a complaint, are in `streams.config.values`. The
build of the model is deferred to the first configuration made, so that importing it stays cheap.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)
from pydantic_core import InitErrorDetails

from processor_api.errors import ConfigError
from processor_api.handlers import (
    DeserializationExceptionHandler,
    ProcessingExceptionHandler,
    ProductionExceptionHandler,
)
from processor_api.serde import Serde
from processor_api.stores.queries import IsolationLevel
from processor_api.texts import plain_str, repr_of
from processor_api.timestamps import TimestampExtractor
from streams.config import values
from streams.config.client_settings import client_setting
from streams.config.keys import KEYS, PREFIXES
from streams.config.secrets import SecretSettings, insecure, masked, shown_value
from streams.config.settings import kafka_name, sort_settings

log = logging.getLogger("streams.config")

Ms = Annotated[int, PlainValidator(values.duration_ms())]
MsOrOff = Annotated[int, PlainValidator(values.duration_ms(-1))]
Flag = Annotated[bool, PlainValidator(values.flag)]
Text = Annotated[str, PlainValidator(values.text)]
Count = Annotated[int, PlainValidator(values.whole(0))]
PositiveCount = Annotated[int, PlainValidator(values.whole(1))]
AnySerde = Annotated[Serde[Any] | None, PlainValidator(values.optional(values.serde))]
Settings = Annotated[
    Mapping[str, Any], AfterValidator(values.with_whole_paths), AfterValidator(SecretSettings), PlainSerializer(masked)
]

RegistrySettings = Annotated[Settings, AfterValidator(values.schema_registry)]

_INT = (1 << 31) - 1
_TAG_NAME_MAX, _TAG_VALUE_MAX = 20, 30
_TRANSACTION_TIMEOUT_MS = 10_000
_GUARANTEE = values.one_of(
    "at_least_once",
    "exactly_once_v2",
    hints=dict.fromkeys(("exactly_once", "exactly_once_beta"), "Kafka Streams removed it, use exactly_once_v2"),
)
_DROPPED = "it was dropped; set classic or streams, stop all workers, and start them again. Offsets and state remain"
_PROTOCOL = values.one_of("classic", "streams", hints={"consumer": _DROPPED, "auto": _DROPPED})


def _default_commit_interval_ms(known: dict[str, Any]) -> int:
    return 100 if known.get("processing_guarantee") == "exactly_once_v2" else 1_000


def _default_isolation_level(known: dict[str, Any]) -> Literal["READ_UNCOMMITTED", "READ_COMMITTED"]:
    """Returns ``read_committed`` under exactly-once: readers should not see what an abort takes back (KIP-892)."""
    return "READ_COMMITTED" if known.get("processing_guarantee") == "exactly_once_v2" else "READ_UNCOMMITTED"


def _default_serde(known: dict[str, Any]) -> Serde[Any] | None:
    """Returns the serde of what has none: none, but with the registry where there is one."""
    registry = values.registry_of(known.get("schema_registry"))
    return None if registry is None else registry.as_default(None)


class StreamsConfig(BaseModel):
    """Settings of an application, checked when it is made. docs/configuration.md says what each one does.

    Made by keyword, with Kafka's names in snake case (``StreamsConfig(application_id=..., bootstrap_servers=...)``),
    or by :meth:`of` from a mapping with Kafka's own dotted names. Durations are integer ms or timedeltas; text is read
    as a number or a truth value where one is expected. Settings of clients are given with Kafka Streams' prefixes:
    ``{"consumer.fetch.min.bytes": 1}``, or as ``consumer={"fetch.min.bytes": 1}``.

    ::

        config = StreamsConfig(application_id="shop", bootstrap_servers="localhost:9092", commit_interval_ms=500)
        assert config.dotted()["commit.interval.ms"] == 500

    :raises ConfigError: with one sentence for each setting that is wrong.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", defer_build=True, arbitrary_types_allowed=True, hide_input_in_errors=True
    )

    application_id: Annotated[str, PlainValidator(values.application_id)]
    bootstrap_servers: Annotated[str, PlainValidator(values.servers)]
    """``host:port``, separated by commas."""

    processing_guarantee: Annotated[Literal["at_least_once", "exactly_once_v2"], PlainValidator(_GUARANTEE)] = (
        "at_least_once"
    )
    commit_interval_ms: Ms = Field(default_factory=_default_commit_interval_ms)
    num_stream_threads: PositiveCount = 1
    client_id: Text = ""
    application_server: Annotated[str, PlainValidator(values.host_and_port)] = ""
    http_listen: Annotated[str | None, PlainValidator(values.optional(values.listen_address))] = None
    """``host:port`` of the HTTP port; ``None`` opens none."""
    http_token_file: Annotated[Path | None, PlainValidator(values.optional(values.path))] = None
    """``None``: everyone who reaches the port may ask."""
    http_tls_certificate: Annotated[Path | None, PlainValidator(values.optional(values.path))] = None
    http_tls_key: Annotated[Path | None, PlainValidator(values.optional(values.path))] = None
    """``None``: the key is in the file of the certificate."""
    http_max_cpu_percent: Annotated[int, PlainValidator(values.whole(1, 100))] = 5
    http_allow_replay: Flag = False
    http_peer_timeout_ms: Annotated[int | None, PlainValidator(values.optional(values.duration_ms(500)))] = None
    """``None``: workers do not watch each other."""
    group_protocol: Annotated[Literal["classic", "streams"], PlainValidator(_PROTOCOL)] = "classic"

    schema_registry: RegistrySettings = Field(default_factory=dict)
    """Settings of the schema registry, without their prefix; none if there is none."""
    default_key_serde: AnySerde = Field(default_factory=_default_serde)
    """A registry in it is that of serdes without one; so for the next one."""
    default_value_serde: AnySerde = Field(default_factory=_default_serde)
    default_timestamp_extractor: Annotated[
        TimestampExtractor | None, PlainValidator(values.optional(values.extractor))
    ] = None
    """``None`` is the record's own timestamp; a negative one is an error."""
    deserialization_exception_handler: Annotated[
        DeserializationExceptionHandler | None, PlainValidator(values.optional(values.handler("deserialization")))
    ] = None
    """``None`` logs and fails, here and for the next one (:mod:`processor_api.handlers`)."""
    processing_exception_handler: Annotated[
        ProcessingExceptionHandler | None, PlainValidator(values.optional(values.handler("processing")))
    ] = None
    production_exception_handler: Annotated[
        ProductionExceptionHandler | None, PlainValidator(values.optional(values.handler("production")))
    ] = None
    """``None`` fails, and processes again what was not delivered in time."""
    errors_dead_letter_queue_topic_name: Annotated[str | None, PlainValidator(values.optional(values.text))] = None

    buffered_records_per_partition: PositiveCount = 1000
    final_results_part_rows: PositiveCount = 1000
    input_buffer_max_bytes: Annotated[int, PlainValidator(values.whole(-1))] = 512 * 1024 * 1024
    """-1 removes the limit."""
    max_task_idle_ms: MsOrOff = 0
    poll_gather_ms: Ms = 5
    poll_ms: Ms = 100
    task_timeout_ms: Ms = 300_000
    log_summary_interval_ms: Ms = 120_000
    timestamp_after_max_ms: MsOrOff = 100 * 365 * 86_400_000
    """-1 removes the limit."""
    timestamp_after_max_handler: Annotated[
        Literal["fail", "drop", "take"], PlainValidator(values.one_of("fail", "drop", "take"))
    ] = "fail"
    """The treatment of a record whose time is further ahead of the clock."""

    shadow_of: Annotated[str | None, PlainValidator(values.optional(values.application_id))] = None
    """The application id of the one whose shadow this one is; ``None`` if it is none."""
    shadow_sinks: Annotated[Literal["topics", "nowhere"], PlainValidator(values.one_of("topics", "nowhere"))] = "topics"
    """The place of a shadow's results."""

    state_dir: Annotated[Path, PlainValidator(values.path)] = Field(default_factory=values.default_state_dir)
    state_snapshot_dir: Annotated[Path | str | None, PlainValidator(values.optional(values.snapshot_place))] = None
    """A directory or the URL of an object store; ``None`` if every store is restored from its changelog alone."""
    state_snapshot_interval_ms: Annotated[int | None, PlainValidator(values.optional(values.duration_ms(1)))] = None
    """``None`` if workers write no snapshots."""
    allow_os_group_write_access: Flag = False
    state_cleanup_delay_ms: Ms = 600_000
    state_cleanup_dir_max_age_ms: MsOrOff = -1
    """-1 keeps the directories."""
    state_on_damage: Annotated[Literal["rebuild", "fail"], PlainValidator(values.one_of("rebuild", "fail"))] = "rebuild"
    """The treatment of state that is damaged on disk."""
    state_on_changelog_loss: Annotated[Literal["write", "fail"], PlainValidator(values.one_of("write", "fail"))] = (
        "write"
    )
    """The treatment of stores that are complete on disk, and whose changelogs have lost their records."""
    state_on_schema_change: Annotated[Literal["fail", "warn"], PlainValidator(values.one_of("fail", "warn"))] = "fail"
    """The treatment of rows that the serdes of this version cannot read."""
    statestore_cache_max_bytes: Count = 10 * 1024 * 1024
    statestore_uncommitted_max_bytes: Annotated[int, PlainValidator(values.whole(-1))] = 64 * 1024 * 1024
    """-1 removes the limit."""
    changelog_updates: Annotated[
        Literal["auto", "each", "last"], PlainValidator(values.one_of("auto", "each", "last"))
    ] = "auto"
    default_interactive_query_isolation_level: Annotated[
        Literal["READ_UNCOMMITTED", "READ_COMMITTED"],
        PlainValidator(values.one_of("READ_UNCOMMITTED", "READ_COMMITTED")),
    ] = Field(default_factory=_default_isolation_level)
    default_dsl_store: Annotated[str, PlainValidator(values.dsl_store)] = "rocksDB"
    """``rocksDB``, ``in_memory``, or the name of an engine that is registered."""
    dsl_store_suppliers_class: Annotated[Any, PlainValidator(values.optional(values.dsl_suppliers))] = None
    """A :class:`~processor_api.stores.defaults.DslStoreSuppliers`, instead of :attr:`default_dsl_store`."""
    dsl_java_defects: Annotated[Literal["cure", "keep"], PlainValidator(values.one_of("cure", "keep"))] = "cure"
    dsl_store_format: Annotated[Literal["DEFAULT", "HEADERS"], PlainValidator(values.one_of("DEFAULT", "HEADERS"))] = (
        "DEFAULT"
    )
    rocksdb_config_setter: Annotated[Any, PlainValidator(values.optional(values.rocksdb_setter))] = None
    """A function, or a mapping of options."""
    rocksdb_profile: Annotated[
        Literal["default", "many-small-stores", "large-store", "low-memory"],
        PlainValidator(values.one_of("default", "many-small-stores", "large-store", "low-memory")),
    ] = "default"
    rocksdb_block_cache_bytes: Annotated[int | None, PlainValidator(values.optional(values.whole(1 << 20)))] = None
    """``None``: as the profile says, here and for the next one."""
    rocksdb_sync_commits: Flag = False
    """Whether each commit waits until the disk has it."""
    rocksdb_write_buffers_bytes: Annotated[int | None, PlainValidator(values.optional(values.whole(1 << 20)))] = None
    processor_wrapper_class: Annotated[Any, PlainValidator(values.optional(values.wrapper))] = None
    """A :class:`~processor_api.topology.wrapper.ProcessorWrapper`, or a function."""
    windowstore_changelog_additional_retention_ms: Ms = 86_400_000

    topology_optimization: Annotated[str, PlainValidator(values.optimizations)] = "none"
    """``none``, ``all``, or names separated by commas."""
    ensure_explicit_internal_resource_naming: Flag = False
    replication_factor: Annotated[int, PlainValidator(values.whole(-1, 32767))] = -1
    repartition_purge_interval_ms: Ms = 30_000
    enable_metrics_push: Flag = True
    metrics_num_samples: PositiveCount = 2
    metrics_recording_level: Annotated[str, PlainValidator(values.one_of("INFO", "DEBUG", "TRACE"))] = "INFO"
    metrics_sample_window_ms: Ms = 30_000
    trace_keys: Annotated[tuple[Any, ...], PlainValidator(values.trace_keys)] = ()
    """Keys of records that are followed; none follows nothing by key."""
    trace_every: Annotated[int | None, PlainValidator(values.optional(values.whole(1)))] = None
    """Follows one record in so many; ``None`` follows none."""
    trace_topics: Annotated[tuple[str, ...], PlainValidator(values.names)] = ()
    """Source topics whose records are followed; none means all of them."""
    otel_traces: Annotated[float | None, PlainValidator(values.optional(values.share))] = None
    """The share of records without a trace of their own that get spans; ``None`` makes no spans at all."""
    num_standby_replicas: Count = 0
    acceptable_recovery_lag: Count = 10_000
    max_warmup_replicas: PositiveCount = 2
    probing_rebalance_interval_ms: Annotated[int, PlainValidator(values.duration_ms(60_000))] = 600_000
    rack_aware_assignment_tags: Annotated[tuple[str, ...], PlainValidator(values.tags)] = ()
    upgrade_from: Annotated[str | None, PlainValidator(values.optional(values.text))] = None

    # Accepted, and without effect for the reason given in streams.config.keys.
    built_in_metrics_version: Annotated[str, PlainValidator(values.one_of("latest"))] = "latest"
    enable_transactional_statestores: Flag = True
    metadata_cluster_check_enable: Flag = True
    rack_aware_assignment_non_overlap_cost: Annotated[int | None, PlainValidator(values.optional(values.whole(0)))] = (
        None
    )
    rack_aware_assignment_strategy: Annotated[
        str, PlainValidator(values.one_of("none", "min_traffic", "balance_subtopology"))
    ] = "none"
    rack_aware_assignment_traffic_cost: Annotated[int | None, PlainValidator(values.optional(values.whole(0)))] = None
    outer_join_emit_interval_ms: Ms = 1000
    processing_exception_handler_global_enabled: Flag = False
    topology_description_push_enabled: Flag = True
    windowed_aggregation_emit_interval_ms: Ms = 1000

    # Settings of clients and internal topics as they were given, under their own dotted names.
    clients: Settings = Field(default_factory=dict)
    """Client settings without a prefix; each client takes those it has."""
    consumer: Settings = Field(default_factory=dict)
    main_consumer: Settings = Field(default_factory=dict)
    restore_consumer: Settings = Field(default_factory=dict)
    global_consumer: Settings = Field(default_factory=dict)
    producer: Settings = Field(default_factory=dict)
    admin: Settings = Field(default_factory=dict)
    topic: Settings = Field(default_factory=dict)
    client_tag: Settings = Field(default_factory=dict)

    def __init__(self, **settings: Any) -> None:
        found = sort_settings(settings)
        problems = found.problems
        try:
            super().__init__(**found.fields)
        except ValidationError as error:
            problems += _sentences(error)
        else:
            if not problems:
                problems += self._contradictions()
        if problems:
            raise ConfigError(_joined(problems))
        for remark in found.remarks + insecure(self):
            log.warning(remark)

    @field_validator("*", mode="wrap")
    @classmethod
    def _readable(cls, value: Any, read: ValidatorFunctionWrapHandler) -> Any:
        """A value of any class may raise anything while it is read; the error names its setting."""
        try:
            return read(value)
        except ValueError:
            raise
        except Exception as error:
            raise ValueError(values.unreadable(error)) from error

    @field_validator("default_key_serde", "default_value_serde", mode="after")
    @classmethod
    def _with_registry(cls, value: Serde[Any] | None, info: ValidationInfo) -> Serde[Any] | None:
        """Gives the registry of the settings to the default serdes, and by these to all that have none."""
        registry = values.registry_of(info.data.get("schema_registry"))
        return value if registry is None else registry.as_default(value)

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuses every change.

        :raises ValidationError: always, since it is frozen; pydantic's own would show the value."""
        line: InitErrorDetails = {"type": "frozen_instance", "loc": (name,), "input": None}
        raise ValidationError.from_exception_data(type(self).__name__, [line], hide_input=True)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> StreamsConfig:
        """Returns the configuration of a mapping with Kafka's dotted names, snake case, or both.

        ::

            settings = {"application.id": "shop", "bootstrap.servers": "localhost:9092", "commit.interval.ms": 500}
            config = StreamsConfig.of(settings)
            assert config.commit_interval_ms == 500

        :raises ConfigError: with one sentence for each setting that is wrong.
        """
        if not isinstance(settings, Mapping):
            raise ConfigError(
                f"settings must be a mapping of names to values or a StreamsConfig, got {repr_of(settings)}"
            )
        for name in settings:
            if not isinstance(name, str):
                raise ConfigError(f"the name of a setting must be a string, got {repr_of(name)}")
        return cls(**settings)

    @property
    def exactly_once(self) -> bool:
        """Whether ``processing.guarantee`` is exactly-once."""
        return self.processing_guarantee == "exactly_once_v2"

    @property
    def query_isolation_level(self) -> IsolationLevel:
        """Returns the isolation level of queries that have none, which is
        ``default_interactive_query_isolation_level``."""
        return IsolationLevel[self.default_interactive_query_isolation_level]

    def dotted(self) -> dict[str, Any]:
        """Returns every setting in effect under Kafka's name, secrets included; ``None`` where there is none.

        ::

            config = StreamsConfig.of({"application.id": "shop", "bootstrap.servers": "localhost:9092"})
            assert config.dotted()["commit.interval.ms"] == 1_000
        """
        found = {key.name: getattr(self, key.field) for key in KEYS if key.field is not None}
        found |= self.clients
        for prefix in PREFIXES:
            found |= {prefix.name + name: value for name, value in getattr(self, prefix.field).items()}
        return found

    def shown(self) -> dict[str, str]:
        """Returns :meth:`dotted` as text for people to read, with secrets masked.

        ::

            settings = {"application.id": "shop", "bootstrap.servers": "b:9092", "sasl.password": "rosebud"}
            assert "rosebud" not in StreamsConfig.of(settings).shown().values()
        """
        return {name: _shown(shown_value(name, value)) for name, value in self.dotted().items()}

    def origin(self, name: str) -> Literal["given", "default"]:
        """Returns whether the value of a setting was given or is the default; the name may be dotted or in snake
        case.

        ::

            config = StreamsConfig.of({"application.id": "shop", "bootstrap.servers": "localhost:9092"})
            assert config.origin("application.id") == "given"
            assert config.origin("commit.interval.ms") == "default"
        """
        dotted = kafka_name(name)
        fields = {key.name: key.field for key in KEYS if key.field is not None}
        if dotted in fields:
            return "given" if fields[dotted] in self.model_fields_set else "default"
        return "given" if dotted in self.dotted() else "default"

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Returns the settings that were given, with secrets masked; the base for repr, str and the pretty printers."""
        for name in type(self).model_fields:
            if name in self.model_fields_set:
                value = getattr(self, name)
                yield name, masked(value) if isinstance(value, dict) else shown_value(name, value)

    def _contradictions_of_tags(self) -> list[str]:
        unknown = [name for name in self.rack_aware_assignment_tags if name not in self.client_tag]
        long = [
            name
            for name, value in self.client_tag.items()
            if len(name) > _TAG_NAME_MAX or len(str(value)) > _TAG_VALUE_MAX
        ]
        found = [
            f"rack.aware.assignment.tags names {name!r}, but this process does not have that tag: set client.tag.{name}"
            for name in unknown
        ]
        return found + [
            f"client.tag.{name} is too long: a name can have {_TAG_NAME_MAX} characters and a value {_TAG_VALUE_MAX}"
            for name in long
        ]

    def _replay_contradictions(self) -> list[str]:
        """Returns the errors of settings that a replay over HTTP needs, or that it must not have."""
        if not self.http_allow_replay:
            return []
        problems = []
        if not (self.http_listen and self.http_token_file):
            problems.append(
                "http.allow.replay is true, and http.listen or http.token.file is not set: dead letters are replayed"
                " over HTTP only with a token; set both"
            )
        if self.errors_dead_letter_queue_topic_name is None:
            problems.append(
                "http.allow.replay is true, and errors.dead.letter.queue.topic.name is not set: set the topic of the"
                " dead letters"
            )
        if self.shadow_of is not None:
            problems.append(
                "http.allow.replay is true, and shadow.of is set: a shadow must not write to the topics of the"
                " application; leave one of them out"
            )
        return problems

    def _contradictions(self) -> list[str]:
        """Returns the errors that no setting shows alone."""
        problems = []
        if self.state_snapshot_interval_ms is not None and self.state_snapshot_dir is None:
            problems.append(
                "state.snapshot.interval.ms is set but state.snapshot.dir is not: set the directory for snapshots, one"
                " that all workers can read"
            )
        if self.http_peer_timeout_ms is not None and not (self.http_listen and self.http_token_file):
            problems.append(
                "http.peer.timeout.ms is set, and http.listen or http.token.file is not: workers watch each other over"
                " the HTTP port, after they have shown that they have the token; set both"
            )
        problems += self._replay_contradictions()
        if self.shadow_of == self.application_id:
            problems.append(
                f"shadow.of is {repr_of(self.shadow_of)}, the application itself: give the shadow an application.id of"
                " its own"
            )
        limit = self._client("transaction.timeout.ms", self.producer, default=_TRANSACTION_TIMEOUT_MS)
        if self.exactly_once and self.commit_interval_ms > limit:
            problems.append(
                f"commit.interval.ms is {self.commit_interval_ms}, more than producer.transaction.timeout.ms ({limit}):"
                " the broker would abort each transaction before its commit; lower the first or raise the second"
            )
        session = self._client("session.timeout.ms", self.consumer, self.main_consumer, default=45_000)
        poll = self._client("max.poll.interval.ms", self.consumer, self.main_consumer, default=300_000)
        if session > poll:
            problems.append(
                f"max.poll.interval.ms is {poll}, less than session.timeout.ms ({session}): raise the first or lower"
                " the second"
            )
        heartbeat = self._client("heartbeat.interval.ms", self.consumer, self.main_consumer, default=0)
        if heartbeat >= session:
            problems.append(
                f"heartbeat.interval.ms is {heartbeat}, not less than session.timeout.ms ({session}): the group would"
                " remove the member between two heartbeats; lower the first, to a third of the second, or raise the"
                " second"
            )
        problems += self._contradictions_of_trace() + self._contradictions_of_tags()
        batch = self._client("batch.size", self.producer, default=0)
        segment = str(self.topic.get("segment.bytes", ""))
        if segment.isdecimal() and batch > int(segment):
            problems.append(
                f"topic.segment.bytes is {segment}, less than producer.batch.size ({batch}): a full batch could not be"
                " written"
            )
        return problems

    def _contradictions_of_trace(self) -> list[str]:
        follows = self.trace_keys, self.trace_every is not None
        if any(follows) and self.otel_traces is not None:
            return [
                "otel.traces is set with trace.keys or trace.every: only one of them sees records, so remove the other"
            ]
        if all(follows):
            return ["trace.keys and trace.every are both set: follow records by key, or one in n, and remove the other"]
        if self.trace_topics and not any(follows):
            return [
                "trace.topics limits where records are followed, but does not choose records: set trace.keys or"
                " trace.every"
            ]
        return []

    def _client(self, name: str, *levels: Settings, default: int) -> int:
        """Returns a client setting from the last level that has it."""
        found = default
        for level in (self.clients, *levels):
            if name in level:
                found = client_setting(name, level[name], exactly_once=self.exactly_once)[name]
        return found


REQUIRED = {
    "application.id": "it names the consumer group, the internal topics and the state directory",
    "bootstrap.servers": "it is the address of Kafka, as host:port; set it in streams.toml next to the application, by"
    " the variable STREAMS_BOOTSTRAP_SERVERS or by -c bootstrap.servers=host:port",
}
"""The settings without a default, and what each is for."""


def _sentences(error: ValidationError) -> list[str]:
    """Returns one sentence for each wrong field, under Kafka's name."""
    names = {key.field: key.name for key in KEYS} | {prefix.field: prefix.name.rstrip(".") for prefix in PREFIXES}
    sentences = []
    for found in error.errors(include_url=False, include_input=False):
        if found["type"] == "default_factory_not_called":
            continue
        field = str(found["loc"][0])
        name = names.get(field, field)
        if found["type"] == "missing":
            sentences.append(f"{name} is missing: {REQUIRED[name]}")
        elif "error" in found.get("ctx", {}):
            sentences.append(f"{name} {plain_str(found['ctx']['error'])}")
        else:
            sentences.append(f"{name}: {found['msg']}")
    return sentences


def _joined(problems: list[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    return f"{len(problems)} settings are wrong:" + "".join(f"\n  {problem}" for problem in problems)


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    if isinstance(value, Serde):
        return values.serde_text(value)
    if isinstance(value, Mapping):
        return ",".join(f"{name}={one}" for name, one in value.items())
    if callable(value):
        return f"{getattr(value, '__module__', '?')}:{getattr(value, '__qualname__', repr(value))}"
    return str(value)
