"""Every setting of Kafka Streams 4.4 and its meaning in this library, as data.

The model in `streams.config.model` has a field for each key that is not refused; a test compares the two and the table
in docs/configuration.md.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Status = Literal["works", "added", "ignored", "refused"]
WORKS: Status = "works"
ADDED: Status = "added"
"""A setting of this library, which Kafka Streams does not have."""
IGNORED: Status = "ignored"
REFUSED: Status = "refused"

_CLIENTS = "passed to every client"
_HANDLER = (
    "a function, its import path, or the name of one of Java's; empty: log and fail"
    " ([handlers](errors-and-dead-letters.md))"
)
_SERDE = (
    "a name such as `string` or `json`, a `Serde`, a pydantic model or a dataclass, or the import path of"
    " one; empty: name serdes in the topology"
)
_LISTS = "a serde of lists is one value: set `{}` to what `list_serde(inner)` of `streams.serdes` gives"
_RACK = "tasks are assigned by librdkafka's assignor, which does not know racks"


class Key(NamedTuple):
    """A setting: its name in Kafka, its field here, its default as text, and its description."""

    name: str
    field: str | None
    """``None`` for what is refused, and for settings that are passed on to the clients."""
    default: str
    status: Status
    note: str


class Prefix(NamedTuple):
    """Settings of one client, or of internal topics, collected in one field."""

    name: str
    field: str
    scope: str
    """The client settings that fit: ``C`` consumer, ``P`` producer, ``A`` admin, ``T`` topic, ``-`` anything."""
    note: str


KEYS: tuple[Key, ...] = (
    Key(
        "acceptable.recovery.lag",
        "acceptable_recovery_lag",
        "10000",
        WORKS,
        "offsets that a copy may lack when its task moves to it ([warm-ups](high-availability.md#when-a-worker-joins))",
    ),
    Key(
        "allow.os.group.write.access",
        "allow_os_group_write_access",
        "false",
        WORKS,
        "makes the state directory writable for the user's group",
    ),
    Key(
        "application.id",
        "application_id",
        "",
        WORKS,
        "required; names the consumer group, and prefixes internal topics, client ids and the state directory",
    ),
    Key(
        "application.server",
        "application_server",
        "",
        WORKS,
        "`host:port` by which others reach this worker; empty: the address of `http.listen`, unless that is a wildcard",
    ),
    Key("bootstrap.servers", "bootstrap_servers", "", WORKS, "required; `host:port`, separated by commas, or a list"),
    Key(
        "buffered.records.per.partition",
        "buffered_records_per_partition",
        "1000",
        WORKS,
        "records of a partition that may wait in a task with several inputs before the partition is paused",
    ),
    Key("built.in.metrics.version", "built_in_metrics_version", "latest", IGNORED, "there is one version of metrics"),
    Key("cache.max.bytes.buffering", None, "", WORKS, "older name of `statestore.cache.max.bytes`, which wins"),
    Key(
        "changelog.updates",
        "changelog_updates",
        "auto",
        ADDED,
        "what a key-value store without caching logs: `each` put, or the `last` one of a key before a commit; `auto`:"
        " `last`, and `each` in the TopologyTestDriver",
    ),
    Key("client.id", "client_id", "", WORKS, "start of all client ids; empty: `<application.id>-<process id>-<slot>`"),
    Key(
        "commit.interval.ms",
        "commit_interval_ms",
        "1000; 100 under exactly_once_v2",
        WORKS,
        "time between commits, at which cached results are sent (Kafka Streams: 30000 at least once); under"
        " exactly_once_v2 at most `producer.transaction.timeout.ms`",
    ),
    Key("connections.max.idle.ms", None, "", WORKS, _CLIENTS),
    Key(
        "default.client.supplier",
        None,
        "",
        REFUSED,
        "give the clients to `KafkaStreams(topology, config, clients=...)` instead",
    ),
    Key(
        "default.deserialization.exception.handler",
        None,
        "",
        WORKS,
        "older name of `deserialization.exception.handler`, which wins",
    ),
    Key(
        "default.dsl.store",
        "default_dsl_store",
        "rocksDB",
        WORKS,
        "`rocksDB`, `in_memory`, or the name of your own storage engine",
    ),
    Key(
        "default.interactive.query.isolation.level",
        "default_interactive_query_isolation_level",
        "READ_UNCOMMITTED; READ_COMMITTED under exactly_once_v2",
        WORKS,
        "whether queries see all processed records, or only committed ones; also `default.state.isolation.level`",
    ),
    Key("default.key.serde", "default_key_serde", "", WORKS, _SERDE),
    Key("default.list.key.serde.inner", None, "", REFUSED, _LISTS.format("default.key.serde")),
    Key("default.list.key.serde.type", None, "", REFUSED, _LISTS.format("default.key.serde")),
    Key("default.list.value.serde.inner", None, "", REFUSED, _LISTS.format("default.value.serde")),
    Key("default.list.value.serde.type", None, "", REFUSED, _LISTS.format("default.value.serde")),
    Key(
        "default.production.exception.handler",
        None,
        "",
        WORKS,
        "older name of `production.exception.handler`, which wins",
    ),
    Key(
        "default.timestamp.extractor",
        "default_timestamp_extractor",
        "",
        WORKS,
        "a function, or its import path; empty: the record's own timestamp, and a negative one fails",
    ),
    Key("default.value.serde", "default_value_serde", "", WORKS, _SERDE),
    Key("deserialization.exception.handler", "deserialization_exception_handler", "", WORKS, _HANDLER),
    Key(
        "dsl.java.defects",
        "dsl_java_defects",
        "cure",
        ADDED,
        "`cure`, or `keep` for the same wrong results as Kafka Streams"
        " ([defects](compatibility.md#defects-of-kafka-streams))",
    ),
    Key(
        "dsl.store.format",
        "dsl_store_format",
        "DEFAULT",
        WORKS,
        "`DEFAULT`, or `HEADERS`: tables also keep headers, unless they have a store supplier (KIP-1271)",
    ),
    Key(
        "dsl.store.suppliers.class",
        "dsl_store_suppliers_class",
        "",
        WORKS,
        "a `DslStoreSuppliers`, a class of them, the import path of either, or the name of Java's"
        " (`BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers`)",
    ),
    Key("enable.metrics.push", "enable_metrics_push", "true", WORKS, _CLIENTS),
    Key(
        "enable.transactional.statestores",
        "enable_transactional_statestores",
        "true",
        IGNORED,
        "every state store is transactional (KIP-892)",
    ),
    Key(
        "ensure.explicit.internal.resource.naming",
        "ensure_explicit_internal_resource_naming",
        "false",
        WORKS,
        "`builder.build(config)` rejects generated names of stores and internal topics (KIP-1111); set it in"
        " production",
    ),
    Key(
        "errors.dead.letter.queue.topic.name",
        "errors_dead_letter_queue_topic_name",
        "",
        WORKS,
        "topic to which the built-in handlers send failed records (KIP-1034); it must exist",
    ),
    Key(
        "group.protocol",
        "group_protocol",
        "classic",
        WORKS,
        "`classic`, or `streams`: the brokers place the tasks (KIP-1071; Kafka 4.2 or later)"
        " ([protocols](streams-groups.md))",
    ),
    Key(
        "final.results.part.rows",
        "final_results_part_rows",
        "1000",
        ADDED,
        "results of windows, suppression and joins that are sent at a time if one record makes many due",
    ),
    Key(
        "http.allow.replay",
        "http_allow_replay",
        "false",
        ADDED,
        "list dead letters on the [live page](monitoring.md#live-page), and replay them there; needs `http.token.file`",
    ),
    Key(
        "http.listen", "http_listen", "", ADDED, "`host:port` to answer [over HTTP](querying-over-http.md); empty: none"
    ),
    Key(
        "http.peer.timeout.ms",
        "http_peer_timeout_ms",
        "",
        ADDED,
        "silence after which another worker is"
        " [taken over](high-availability.md#workers-that-watch-each-other); empty: workers do not watch each other",
    ),
    Key("http.max.cpu.percent", "http_max_cpu_percent", "5", ADDED, "share of a busy worker's processor time for HTTP"),
    Key(
        "http.tls.certificate", "http_tls_certificate", "", ADDED, "a PEM file, which may have its key; then only HTTPS"
    ),
    Key("http.tls.key", "http_tls_key", "", ADDED, "a PEM file with the key of `http.tls.certificate`"),
    Key(
        "http.token.file",
        "http_token_file",
        "",
        ADDED,
        "a file with the bearer token that requests must have, or two, on two lines",
    ),
    Key(
        "input.buffer.max.bytes",
        "input_buffer_max_bytes",
        "536870912",
        ADDED,
        "bytes of read records that may wait in a process, divided equally among its partitions; -1: no limit"
        " (KIP-770)",
    ),
    Key(
        "log.summary.interval.ms",
        "log_summary_interval_ms",
        "120000",
        WORKS,
        "time between log lines that summarize what a thread has done; 0: never",
    ),
    Key(
        "max.task.idle.ms",
        "max_task_idle_ms",
        "0",
        WORKS,
        "time that a task with several inputs waits for one without records; 0: until an empty partition is read to"
        " its end; -1: never",
    ),
    Key(
        "max.warmup.replicas",
        "max_warmup_replicas",
        "2",
        WORKS,
        "copies that joining workers fill at a time, at least one per stream thread",
    ),
    Key(
        "metadata.cluster.check.enable",
        "metadata_cluster_check_enable",
        "true",
        IGNORED,
        "librdkafka does not send the cluster and node that it means (KIP-1242)",
    ),
    Key(
        "metadata.max.age.ms",
        None,
        "",
        WORKS,
        _CLIENTS + "; how often a pattern looks for new topics",
    ),
    Key("metadata.recovery.strategy", None, "", WORKS, _CLIENTS),
    Key("metadata.recovery.rebootstrap.trigger.ms", None, "", WORKS, _CLIENTS),
    Key("metric.reporters", None, "", REFUSED, "read metrics from `KafkaStreams.metrics()`"),
    Key("metrics.num.samples", "metrics_num_samples", "2", WORKS, "windows that rates, means and maxima cover"),
    Key(
        "metrics.recording.level",
        "metrics_recording_level",
        "INFO",
        WORKS,
        "`INFO`, `DEBUG` or `TRACE` ([Metrics](monitoring.md#store-metrics))",
    ),
    Key(
        "metrics.sample.window.ms",
        "metrics_sample_window_ms",
        "30000",
        WORKS,
        "length of a window of `metrics.num.samples`",
    ),
    Key(
        "num.standby.replicas",
        "num_standby_replicas",
        "0",
        WORKS,
        "[standby tasks](high-availability.md#standby-tasks) of each task",
    ),
    Key(
        "num.stream.threads",
        "num_stream_threads",
        "1",
        WORKS,
        "threads of a process; to use more cores, run more workers",
    ),
    Key(
        "otel.traces",
        "otel_traces",
        "",
        ADDED,
        "share of records with [spans](monitoring.md#tracing), 0 to 1; empty: none",
    ),
    Key(
        "poll.gather.ms",
        "poll_gather_ms",
        "5",
        ADDED,
        "time that records may gather if few came, which saves processor time; 0: none",
    ),
    Key("poll.ms", "poll_ms", "100", WORKS, "how long to wait for records"),
    Key(
        "probing.rebalance.interval.ms",
        "probing_rebalance_interval_ms",
        "600000",
        WORKS,
        "time after which a worker that fills copies takes tasks anyway if the gap has not shrunk",
    ),
    Key("processing.exception.handler", "processing_exception_handler", "", WORKS, _HANDLER),
    Key(
        "processing.exception.handler.global.enabled",
        "processing_exception_handler_global_enabled",
        "false",
        WORKS,
        "calls the processing exception handler for global stores too",
    ),
    Key(
        "processing.guarantee",
        "processing_guarantee",
        "at_least_once",
        WORKS,
        "`at_least_once` or `exactly_once_v2` ([guarantees](guarantees.md))",
    ),
    Key(
        "processor.wrapper.class",
        "processor_wrapper_class",
        "",
        WORKS,
        "a `ProcessorWrapper`, a function `(node name, supplier)` that returns a supplier, or the import path of one"
        " (KIP-1112)",
    ),
    Key(
        "production.exception.handler",
        "production_exception_handler",
        "",
        WORKS,
        "a function, its import path, or the name of Java's; empty: process undelivered records again, otherwise fail",
    ),
    Key("rack.aware.assignment.non_overlap_cost", "rack_aware_assignment_non_overlap_cost", "", IGNORED, _RACK),
    Key("rack.aware.assignment.strategy", "rack_aware_assignment_strategy", "none", IGNORED, _RACK),
    Key(
        "rack.aware.assignment.tags",
        "rack_aware_assignment_tags",
        "",
        WORKS,
        "tags (`client.tag.`) in which a standby copy and its task should differ",
    ),
    Key("rack.aware.assignment.traffic_cost", "rack_aware_assignment_traffic_cost", "", IGNORED, _RACK),
    Key("receive.buffer.bytes", None, "", WORKS, _CLIENTS),
    Key("reconnect.backoff.max.ms", None, "1000", WORKS, _CLIENTS),
    Key("reconnect.backoff.ms", None, "", WORKS, _CLIENTS),
    Key(
        "repartition.purge.interval.ms",
        "repartition_purge_interval_ms",
        "30000",
        WORKS,
        "time between deletions of processed repartition records",
    ),
    Key(
        "replication.factor",
        "replication_factor",
        "-1",
        WORKS,
        "of internal topics; -1: the brokers' default; set 3 in production",
    ),
    Key("request.timeout.ms", None, "30000", WORKS, _CLIENTS),
    Key("retry.backoff.max.ms", None, "", WORKS, _CLIENTS + "; a stream thread waits 1000 at most"),
    Key(
        "retry.backoff.ms", None, "", WORKS, _CLIENTS + "; a stream thread has 100, producers 10 under exactly_once_v2"
    ),
    Key(
        "rocksdb.block.cache.bytes",
        "rocksdb_block_cache_bytes",
        "",
        ADDED,
        "memory of a process for blocks read from disk; empty: by `rocksdb.profile`",
    ),
    Key(
        "rocksdb.config.setter",
        "rocksdb_config_setter",
        "",
        WORKS,
        "a function `(store name, options)` that changes the `rocksdict.Options` of a store, its import path, or"
        " a mapping of options to values (`write_buffer_size`)",
    ),
    Key(
        "rocksdb.profile",
        "rocksdb_profile",
        "default",
        ADDED,
        "sizes RocksDB's memory for `default`, `many-small-stores`, `large-store` or `low-memory`"
        " ([RocksDB](rocksdb.md))",
    ),
    Key(
        "rocksdb.sync.commits",
        "rocksdb_sync_commits",
        "false",
        ADDED,
        "each commit waits until it is on disk; for stores without a changelog ([power loss](rocksdb.md#power-loss))",
    ),
    Key(
        "rocksdb.write.buffers.bytes",
        "rocksdb_write_buffers_bytes",
        "",
        ADDED,
        "memory of a process for memtables; empty: by `rocksdb.profile`",
    ),
    Key("security.protocol", None, "", WORKS, _CLIENTS),
    Key("send.buffer.bytes", None, "", WORKS, _CLIENTS),
    Key(
        "state.cleanup.delay.ms",
        "state_cleanup_delay_ms",
        "600000",
        WORKS,
        "time that the directory of a task that moved away is kept, and interval of the check",
    ),
    Key(
        "state.cleanup.dir.max.age.ms",
        "state_cleanup_dir_max_age_ms",
        "-1",
        WORKS,
        "at the start, removes task directories not used for longer; -1: keeps them",
    ),
    Key(
        "shadow.of",
        "shadow_of",
        "",
        ADDED,
        "makes the application a [live shadow](changing-an-application.md#live-shadow) of the one with this id",
    ),
    Key(
        "shadow.sinks",
        "shadow_sinks",
        "topics",
        ADDED,
        "results of a shadow: `topics` writes them to `<application.id>-<topic>-shadow`, `nowhere` drops them",
    ),
    Key(
        "state.dir",
        "state_dir",
        "${XDG_STATE_HOME:-~/.local/state}/streams",
        WORKS,
        "root of the state directories; use a disk that survives restarts",
    ),
    Key(
        "state.on.changelog.loss",
        "state_on_changelog_loss",
        "write",
        ADDED,
        "a [re-created or truncated](guarantees.md#replaced-topics) changelog of a complete store: `write` the store"
        " into it, or `fail` the task",
    ),
    Key(
        "state.on.damage",
        "state_on_damage",
        "rebuild",
        ADDED,
        "for [state that is damaged on disk](versions.md#damaged-state): `rebuild` it from its changelog, or"
        " `fail` and keep it",
    ),
    Key(
        "state.on.schema.change",
        "state_on_schema_change",
        "fail",
        ADDED,
        "if the serdes cannot read [rows of an earlier version](changing-an-application.md#changed-values):"
        " `fail` the task, or `warn`, and each read of such a row fails",
    ),
    Key(
        "state.snapshot.dir",
        "state_snapshot_dir",
        "",
        ADDED,
        "a directory, or `s3://BUCKET/PATH`, `gs://...`, `az://...`, with [snapshots](high-availability.md#snapshots)",
    ),
    Key(
        "state.snapshot.interval.ms",
        "state_snapshot_interval_ms",
        "",
        ADDED,
        "how often a worker writes a snapshot of each task; empty: never",
    ),
    Key(
        "statestore.cache.max.bytes",
        "statestore_cache_max_bytes",
        "10485760",
        WORKS,
        "cache of a process, which merges updates of a key until the next commit; 0 sends each update",
    ),
    Key(
        "statestore.uncommitted.max.bytes",
        "statestore_uncommitted_max_bytes",
        "67108864",
        WORKS,
        "uncommitted writes of a process that make it commit early; -1: no limit",
    ),
    Key(
        "task.assignor.class",
        None,
        "",
        REFUSED,
        "librdkafka takes no assignor of ours; tasks are assigned by its cooperative-sticky one",
    ),
    Key("task.timeout.ms", "task_timeout_ms", "300000", WORKS, "time that a task retries before its thread fails"),
    Key(
        "timestamp.after.max.handler",
        "timestamp_after_max_handler",
        "fail",
        ADDED,
        "for records beyond `timestamp.after.max.ms`: `fail` ends the task, `drop` or `take` logs them",
    ),
    Key(
        "timestamp.after.max.ms",
        "timestamp_after_max_ms",
        "3153600000000",
        ADDED,
        "how far a record's time may be [ahead of the clock](concepts.md#timestamps-far-in-the-future); -1: no limit",
    ),
    Key(
        "topology.description.push.enabled",
        "topology_description_push_enabled",
        "true",
        IGNORED,
        "descriptions of topologies are not sent to the brokers (KIP-1331)",
    ),
    Key(
        "topology.optimization",
        "topology_optimization",
        "none",
        WORKS,
        "`none`, `all`, or some of `reuse.ktable.source.topics`, `merge.repartition.topics`, `single.store.self.join`",
    ),
    Key(
        "trace.every",
        "trace_every",
        "",
        ADDED,
        "logs the steps of one record in this many ([Following a record](following-a-record.md)); 1: each; empty: none",
    ),
    Key(
        "trace.keys",
        "trace_keys",
        "",
        ADDED,
        'logs the steps of records with these keys: separated by commas, a JSON array (`[42, "a,b", null]`), or a list',
    ),
    Key(
        "trace.topics",
        "trace_topics",
        "",
        ADDED,
        "source topics to which `trace.every` and `trace.keys` apply; empty: all",
    ),
    Key(
        "upgrade.from",
        "upgrade_from",
        "",
        WORKS,
        "3.4 or older: repartition records of tables that those versions read (KIP-904)",
    ),
    Key("window.size.ms", None, "", REFUSED, "give the window size to the windowed serde"),
    Key("windowed.inner.class.serde", None, "", REFUSED, "give the inner serde to the windowed serde"),
    Key(
        "windowstore.changelog.additional.retention.ms",
        "windowstore_changelog_additional_retention_ms",
        "86400000",
        WORKS,
        "time by which a changelog keeps rows longer than its window store",
    ),
    Key(
        "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__",
        "outer_join_emit_interval_ms",
        "1000",
        WORKS,
        "time between checks of a left or outer join of streams for closed windows",
    ),
    Key(
        "__emit.interval.ms.kstreams.windowed.aggregation__",
        "windowed_aggregation_emit_interval_ms",
        "1000",
        WORKS,
        "time between checks of an aggregation with final results for closed windows",
    ),
    Key("__internal.override.topic.prefix__", None, "", REFUSED, "internal topics begin with the application id"),
    Key(
        "__iq.consistency.offset.vector.enabled__",
        None,
        "",
        REFUSED,
        "changelog records carry no positions; compare offsets by the query's position",
    ),
    Key("__processing.threads.enabled__", None, "", REFUSED, "a stream thread polls and processes"),
    Key("__state.updater.enabled__", None, "", REFUSED, "restores always run alongside processing"),
    Key("internal.task.assignor.class", None, "", REFUSED, "librdkafka takes no assignor of ours"),
)

PREFIXES: tuple[Prefix, ...] = (
    Prefix("main.consumer.", "main_consumer", "C", "the consumer of the input topics; wins over `consumer.`"),
    Prefix("restore.consumer.", "restore_consumer", "C", "the consumer of the changelogs; wins over `consumer.`"),
    Prefix("global.consumer.", "global_consumer", "C", "the consumer of global stores; wins over `consumer.`"),
    Prefix("consumer.", "consumer", "C", "every consumer"),
    Prefix("producer.", "producer", "P", "every producer"),
    Prefix("admin.", "admin", "A", "the admin client"),
    Prefix("topic.", "topic", "T", "internal topics when they are created"),
    Prefix(
        "schema.registry.",
        "schema_registry",
        "-",
        "the [schema registry](schema-registry.md#settings) and its serdes; Java's settings of these serdes do not need"
        " it",
    ),
    Prefix(
        "client.tag.", "client_tag", "-", "tags of this process, such as its zone, for `rack.aware.assignment.tags`"
    ),
)

BY_NAME: dict[str, Key] = {key.name: key for key in KEYS}
BY_FIELD: dict[str, Key] = {key.field: key for key in KEYS if key.field is not None}
