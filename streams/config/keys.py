"""Every setting of Kafka Streams 4.4 and its meaning in this library, as data.

The model in `streams.config.model` has a field for each key that is not refused; a test compares the two and the table
in docs/configuration.md.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Status = Literal["works", "ignored", "refused"]
WORKS: Status = "works"
IGNORED: Status = "ignored"
REFUSED: Status = "refused"

_CLIENTS = "passed to every client"
_STANDBY = (
    "copies of a task that processes with other state directories keep"
    " ([standby tasks](high-availability.md#standby-tasks))"
)
_TAGS = "the tags (`client.tag.`) in which a standby copy and its task differ where that is possible"
_LISTS = "a serde of lists is one value: set `{}` to what `list_serde(inner)` of `streams.serdes` gives"
_WARM_UP = (
    "offsets that a copy may lack of its changelogs for its task to move to it"
    " ([warm-ups](high-availability.md#when-a-worker-joins))"
)
_FILLED = (
    "copies that the workers which come fill at a time, one at least in each stream thread"
    " ([warm-ups](high-availability.md#when-a-worker-joins))"
)
_PROBING = (
    "how often a worker that fills copies looks whether they come nearer; where they do not, it takes tasks as they are"
    " ([warm-ups](high-availability.md#when-a-worker-joins))"
)
_RACK = "tasks are assigned by librdkafka's assignor, which does not know racks"
_METRICS = "of sensors that processors add with `context.metrics()`, and of the rates of the runtime's own: {}"


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
    Key("acceptable.recovery.lag", "acceptable_recovery_lag", "10000", WORKS, _WARM_UP),
    Key(
        "allow.os.group.write.access",
        "allow_os_group_write_access",
        "false",
        WORKS,
        "the state directory is writable for the group of the user",
    ),
    Key(
        "application.id",
        "application_id",
        "",
        WORKS,
        "required; the consumer group, and the prefix of internal topics, client ids and the state directory",
    ),
    Key(
        "application.server",
        "application_server",
        "",
        WORKS,
        "`host:port` by which other workers, and users, reach this one for queries; the address of `http.listen` if it"
        " is empty and not a wildcard",
    ),
    Key("bootstrap.servers", "bootstrap_servers", "", WORKS, "required; `host:port`, separated by commas, or a list"),
    Key(
        "buffered.records.per.partition",
        "buffered_records_per_partition",
        "1000",
        WORKS,
        "most records of an input partition that wait in a task with several inputs; a partition with more is paused"
        " until it has no more than that. The client keeps the records that it had fetched of paused partitions, for"
        " all of them together about `queued.max.messages.kbytes` (16 MiB), counted with 256 bytes a record",
    ),
    Key("built.in.metrics.version", "built_in_metrics_version", "latest", IGNORED, "there is one version of metrics"),
    Key(
        "cache.max.bytes.buffering",
        None,
        "",
        WORKS,
        "older name of `statestore.cache.max.bytes`, which wins when both are given",
    ),
    Key(
        "changelog.updates",
        "changelog_updates",
        "auto",
        WORKS,
        "the records that the changelog of a key-value store without caching gets: `each` put at once, as in Kafka"
        " Streams, or the `last` put of each key before a commit, which costs less and restores the same; `auto` is"
        " `last`, and `each` in the TopologyTestDriver",
    ),
    Key(
        "client.id", "client_id", "", WORKS, "start of all client ids; `<application.id>-<process id>-<slot>` if empty"
    ),
    Key(
        "commit.interval.ms",
        "commit_interval_ms",
        "1000; 100 under exactly_once_v2",
        WORKS,
        "time between commits (Kafka Streams: 30000 at least once), at which cached results are sent; under"
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
        "older name of `deserialization.exception.handler`, which wins when both are given",
    ),
    Key(
        "default.dsl.store",
        "default_dsl_store",
        "rocksDB",
        WORKS,
        "`rocksDB`, `in_memory`, or the name of a storage engine of your own",
    ),
    Key(
        "default.interactive.query.isolation.level",
        "default_interactive_query_isolation_level",
        "READ_UNCOMMITTED; READ_COMMITTED under exactly_once_v2",
        WORKS,
        "isolation level of queries that do not choose one: all processed records, or only committed ones; also"
        " accepted as `default.state.isolation.level`",
    ),
    Key(
        "default.key.serde",
        "default_key_serde",
        "",
        WORKS,
        "a name such as `string` or `json`, a `Serde`, a pydantic model or a dataclass, or the import path of one",
    ),
    Key("default.list.key.serde.inner", None, "", REFUSED, _LISTS.format("default.key.serde")),
    Key("default.list.key.serde.type", None, "", REFUSED, _LISTS.format("default.key.serde")),
    Key("default.list.value.serde.inner", None, "", REFUSED, _LISTS.format("default.value.serde")),
    Key("default.list.value.serde.type", None, "", REFUSED, _LISTS.format("default.value.serde")),
    Key(
        "default.production.exception.handler",
        None,
        "",
        WORKS,
        "older name of `production.exception.handler`, which wins when both are given",
    ),
    Key(
        "default.timestamp.extractor",
        "default_timestamp_extractor",
        "",
        WORKS,
        "a function, or its import path; the record's own timestamp if empty, and a negative one fails",
    ),
    Key(
        "default.value.serde",
        "default_value_serde",
        "",
        WORKS,
        "a name such as `string` or `json`, a `Serde`, a pydantic model or a dataclass, or the import path of one",
    ),
    Key(
        "deserialization.exception.handler",
        "deserialization_exception_handler",
        "",
        WORKS,
        "a function, its import path, or the class name of one of Java's; log and fail if empty",
    ),
    Key(
        "dsl.java.defects",
        "dsl_java_defects",
        "cure",
        WORKS,
        "`cure`, or `keep` for the same wrong results as Kafka Streams where these can be chosen"
        " ([defects of Kafka Streams](compatibility.md#defects-of-kafka-streams)); a setting of this library",
    ),
    Key(
        "dsl.store.format",
        "dsl_store_format",
        "DEFAULT",
        WORKS,
        "`DEFAULT`, or `HEADERS`: tables without a store supplier of their own keep headers beside values (KIP-1271)",
    ),
    Key(
        "dsl.store.suppliers.class",
        "dsl_store_suppliers_class",
        "",
        WORKS,
        "a `DslStoreSuppliers`, a class of them, the import path of either, or the name of one of Java's own"
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
        "`builder.build(config)` refuses generated names of stores and internal topics (KIP-1111)",
    ),
    Key(
        "errors.dead.letter.queue.topic.name",
        "errors_dead_letter_queue_topic_name",
        "",
        WORKS,
        "topic to which the built-in handlers send records that failed (KIP-1034); it has to exist",
    ),
    Key(
        "group.protocol",
        "group_protocol",
        "classic",
        WORKS,
        "`classic`; `consumer` (KIP-848; Kafka 4.0 or later); `auto`, which is one of these by what the brokers and the"
        " group are; or `streams`: the brokers place the tasks (KIP-1071; Kafka 4.2 or later)"
        " ([protocols](streams-groups.md))",
    ),
    Key(
        "final.results.part.rows",
        "final_results_part_rows",
        "1000",
        WORKS,
        "how many final results of windows, suppressed changes, records of joins with grace or without a partner and"
        " answers of foreign-key joins are sent on at a time: where one record makes more due, the thread may poll and"
        " commit in between; a setting of this library",
    ),
    Key(
        "http.listen",
        "http_listen",
        "",
        WORKS,
        "`host:port` to answer on [over HTTP](querying-over-http.md); none if empty",
    ),
    Key("http.max.cpu.percent", "http_max_cpu_percent", "5", WORKS, "part of a busy worker's processor time for HTTP"),
    Key(
        "http.tls.certificate", "http_tls_certificate", "", WORKS, "a PEM file, perhaps with its key; HTTPS alone then"
    ),
    Key("http.tls.key", "http_tls_key", "", WORKS, "a PEM file with the key of `http.tls.certificate`"),
    Key("http.token.file", "http_token_file", "", WORKS, "a file with the bearer token that requests must have"),
    Key(
        "input.buffer.max.bytes",
        "input_buffer_max_bytes",
        "536870912",
        WORKS,
        "bytes that may wait for all threads of a process, divided equally among the partitions read; a partition"
        " with more bytes of keys, values and headers waiting is paused; -1 is no limit (KIP-770, which Kafka Streams"
        " has not released)",
    ),
    Key(
        "log.summary.interval.ms",
        "log_summary_interval_ms",
        "120000",
        WORKS,
        "time between lines in the log that sum up what a thread has done; 0 is never",
    ),
    Key(
        "max.task.idle.ms",
        "max_task_idle_ms",
        "0",
        WORKS,
        "how long a task waits for a partition without records; -1 does not wait",
    ),
    Key("max.warmup.replicas", "max_warmup_replicas", "2", WORKS, _FILLED),
    Key(
        "metadata.cluster.check.enable",
        "metadata_cluster_check_enable",
        "true",
        IGNORED,
        "librdkafka does not tell a broker which cluster and node it means, so that none can refuse (KIP-1242)",
    ),
    Key(
        "metadata.max.age.ms",
        None,
        "",
        WORKS,
        _CLIENTS + ", as `topic.metadata.refresh.interval.ms`; how often a pattern looks for new topics",
    ),
    Key("metadata.recovery.strategy", None, "", WORKS, _CLIENTS),
    Key("metadata.recovery.rebootstrap.trigger.ms", None, "", WORKS, _CLIENTS),
    Key("metric.reporters", None, "", REFUSED, "metrics are read from `KafkaStreams.metrics()`, not by Java classes"),
    Key(
        "metrics.num.samples", "metrics_num_samples", "2", WORKS, _METRICS.format("how many windows of time they keep")
    ),
    Key(
        "metrics.recording.level",
        "metrics_recording_level",
        "INFO",
        WORKS,
        "sensors of a higher level take no values; operations of stores are measured at `DEBUG`"
        " ([Metrics](monitoring.md#metrics))",
    ),
    Key(
        "metrics.sample.window.ms",
        "metrics_sample_window_ms",
        "30000",
        WORKS,
        _METRICS.format("the length of a window"),
    ),
    Key("num.standby.replicas", "num_standby_replicas", "0", WORKS, _STANDBY),
    Key("num.stream.threads", "num_stream_threads", "1", WORKS, "threads of one process; for cores use more workers"),
    Key(
        "otel.traces",
        "otel_traces",
        "",
        WORKS,
        "share of records with [spans](monitoring.md#tracing); this library's own",
    ),
    Key(
        "poll.gather.ms",
        "poll_gather_ms",
        "5",
        WORKS,
        "how long the next records may gather after few came, so that they share a turn of the thread; 0 is not at all",
    ),
    Key("poll.ms", "poll_ms", "100", WORKS, "how long to wait for records"),
    Key("probing.rebalance.interval.ms", "probing_rebalance_interval_ms", "600000", WORKS, _PROBING),
    Key(
        "processing.exception.handler",
        "processing_exception_handler",
        "",
        WORKS,
        "a function, its import path, or the class name of one of Java's; log and fail if empty",
    ),
    Key(
        "processing.exception.handler.global.enabled",
        "processing_exception_handler_global_enabled",
        "false",
        WORKS,
        "asks the processing exception handler about the records of global stores too, as about those of tasks",
    ),
    Key("processing.guarantee", "processing_guarantee", "at_least_once", WORKS, "`at_least_once` or `exactly_once_v2`"),
    Key(
        "processor.wrapper.class",
        "processor_wrapper_class",
        "",
        WORKS,
        "a `ProcessorWrapper`, a class of them, a function `(node name, supplier)` that gives a supplier, or the import"
        " path of one (KIP-1112)",
    ),
    Key(
        "production.exception.handler",
        "production_exception_handler",
        "",
        WORKS,
        "a function, its import path, or the class name of one of Java's; fail if empty, and process again what was"
        " not delivered in time",
    ),
    Key("rack.aware.assignment.non_overlap_cost", "rack_aware_assignment_non_overlap_cost", "", IGNORED, _RACK),
    Key("rack.aware.assignment.strategy", "rack_aware_assignment_strategy", "none", IGNORED, _RACK),
    Key("rack.aware.assignment.tags", "rack_aware_assignment_tags", "", WORKS, _TAGS),
    Key("rack.aware.assignment.traffic_cost", "rack_aware_assignment_traffic_cost", "", IGNORED, _RACK),
    Key("receive.buffer.bytes", None, "", WORKS, _CLIENTS + ", as `socket.receive.buffer.bytes`"),
    Key("reconnect.backoff.max.ms", None, "1000", WORKS, _CLIENTS),
    Key("reconnect.backoff.ms", None, "", WORKS, _CLIENTS),
    Key(
        "repartition.purge.interval.ms",
        "repartition_purge_interval_ms",
        "30000",
        WORKS,
        "time between deletions of repartition records that were read",
    ),
    Key("replication.factor", "replication_factor", "-1", WORKS, "of internal topics; -1 is the broker's default"),
    Key("request.timeout.ms", None, "30000", WORKS, _CLIENTS + ", as `socket.timeout.ms`"),
    Key("retry.backoff.max.ms", None, "", WORKS, _CLIENTS + "; also the longest wait of a stream thread, 1000 there"),
    Key(
        "retry.backoff.ms",
        None,
        "",
        WORKS,
        _CLIENTS + "; also a stream thread's, 100 there; producers have 10 under exactly_once_v2",
    ),
    Key(
        "rocksdb.block.cache.bytes",
        "rocksdb_block_cache_bytes",
        "",
        WORKS,
        "blocks read from disk by all RocksDB stores of a process, with indexes and filters, at least 1 MiB; as"
        " `rocksdb.profile` says if empty; a setting of this library",
    ),
    Key(
        "rocksdb.config.setter",
        "rocksdb_config_setter",
        "",
        WORKS,
        "a function `(store name, options)` that changes the `rocksdict.Options` of a store, its import path, or a"
        " mapping of names of options to values (`write_buffer_size`)",
    ),
    Key(
        "rocksdb.profile",
        "rocksdb_profile",
        "default",
        WORKS,
        "what RocksDB's memory is sized for: `default`, `many-small-stores`, `large-store` or `low-memory`"
        " ([RocksDB](rocksdb.md)); a setting of this library",
    ),
    Key(
        "rocksdb.sync.commits",
        "rocksdb_sync_commits",
        "false",
        WORKS,
        "each commit waits until the log of each task's database is on disk, which takes 0.3 ms and more for each"
        " task; for stores without a changelog, which a power loss would set back to an earlier commit ([what it means"
        " and costs](rocksdb.md#power-loss)); a setting of this library",
    ),
    Key(
        "rocksdb.write.buffers.bytes",
        "rocksdb_write_buffers_bytes",
        "",
        WORKS,
        "memtables of all RocksDB stores of a process, at least 1 MiB; when it is full, those of the database written"
        " to are flushed; as `rocksdb.profile` says if empty; a setting of this library",
    ),
    Key("security.protocol", None, "", WORKS, _CLIENTS),
    Key("send.buffer.bytes", None, "", WORKS, _CLIENTS + ", as `socket.send.buffer.bytes`"),
    Key(
        "state.cleanup.delay.ms",
        "state_cleanup_delay_ms",
        "600000",
        WORKS,
        "how long the directory of a task that moved away is kept, and the interval at which such directories are"
        " looked for",
    ),
    Key(
        "state.cleanup.dir.max.age.ms",
        "state_cleanup_dir_max_age_ms",
        "-1",
        WORKS,
        "at start, task directories not used for longer are removed; -1 keeps them",
    ),
    Key(
        "shadow.of",
        "shadow_of",
        "",
        WORKS,
        "makes the application a shadow of the one with this id: it reads as far as that one has committed, and its"
        " results do not reach the topics of its sinks ([a live shadow](changing-an-application.md#live-shadow)); a"
        " setting of this library",
    ),
    Key(
        "shadow.sinks",
        "shadow_sinks",
        "topics",
        WORKS,
        "where the results of a shadow go: `topics` is `<application.id>-<topic>-shadow` for each output topic,"
        " `nowhere` sends none; a setting of this library",
    ),
    Key("state.dir", "state_dir", "${XDG_STATE_HOME:-~/.local/state}/streams", WORKS, "root of the state directories"),
    Key(
        "state.on.changelog.loss",
        "state_on_changelog_loss",
        "write",
        WORKS,
        "what to do when a changelog has lost its records, because the topic was deleted and made again or its log was"
        " truncated, and the store is complete on disk ([replaced topics](guarantees.md#replaced-topics)): `write` puts"
        " the store into the changelog; `fail` rejects the task; a setting of this library",
    ),
    Key(
        "state.on.damage",
        "state_on_damage",
        "rebuild",
        WORKS,
        "what to do with state that is damaged on disk ([damaged state](versions.md#damaged-state)): `rebuild`"
        " removes it and restores it from its changelog; `fail` keeps it, and the thread that found it fails; a"
        " setting of this library",
    ),
    Key(
        "state.on.schema.change",
        "state_on_schema_change",
        "fail",
        WORKS,
        "what to do when the rows of a store, or records that wait in a repartition topic, have another form than the"
        " serdes of this version read ([changed values](changing-an-application.md#changed-values)): `fail` refuses to"
        " run the task; `warn` says it in the log, and each read of such a row fails; a setting of this library",
    ),
    Key(
        "state.snapshot.dir",
        "state_snapshot_dir",
        "",
        WORKS,
        "where snapshots are, a directory or `s3://BUCKET/PATH`, `gs://...`, `az://...`: of tasks"
        " ([snapshots](high-availability.md#snapshots)), and of stores that `bootstrap` has written"
        " ([handover](spark-handover.md#snapshots)); a worker without state begins with one that fits and replays the"
        " rest of the changelog; a setting of this library",
    ),
    Key(
        "state.snapshot.interval.ms",
        "state_snapshot_interval_ms",
        "",
        WORKS,
        "how often a worker writes a [snapshot](high-availability.md#snapshots) of each of its tasks to"
        " `state.snapshot.dir`; none unless it is set; a setting of this library",
    ),
    Key(
        "statestore.cache.max.bytes",
        "statestore_cache_max_bytes",
        "10485760",
        WORKS,
        "cache of all threads of a process; when it is full, rows without a waiting change are dropped, then the"
        " waiting changes are forwarded",
    ),
    Key(
        "statestore.uncommitted.max.bytes",
        "statestore_uncommitted_max_bytes",
        "67108864",
        WORKS,
        "uncommitted writes of all threads of a process; when they come to so many bytes, a commit is due; -1 is no"
        " limit",
    ),
    Key(
        "task.assignor.class",
        None,
        "",
        REFUSED,
        "librdkafka takes no assignor of ours; tasks are assigned by its cooperative-sticky one",
    ),
    Key(
        "task.timeout.ms", "task_timeout_ms", "300000", WORKS, "how long a task retries what timed out before it fails"
    ),
    Key(
        "timestamp.after.max.handler",
        "timestamp_after_max_handler",
        "fail",
        WORKS,
        "what happens to a record whose time is further ahead of the clock than `timestamp.after.max.ms`: `fail` ends"
        " the task, `drop` leaves it out, counts it and logs it, `take` logs it and processes it; a setting of this"
        " library",
    ),
    Key(
        "timestamp.after.max.ms",
        "timestamp_after_max_ms",
        "3153600000000",
        WORKS,
        "how far the time of a record may be ahead of the wall clock ([times far"
        " ahead](concepts.md#timestamps-far-in-the-future)); 100 years, so that only times in a wrong unit are; -1"
        " is no limit; a setting of this library",
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
        WORKS,
        "follows one record in so many through nodes, stores and topics, with a line of the logger `streams.trace` for"
        " each step ([Following a record](following-a-record.md)); 1 is each record, empty is none; a setting of this"
        " library",
    ),
    Key(
        "trace.keys",
        "trace_keys",
        "",
        WORKS,
        "follows the records that have one of these keys, when they are read or later: texts separated by commas, a"
        ' JSON array (`[42, "a,b", null]`), or a list; a text also stands for keys that are written so; a setting of'
        " this library",
    ),
    Key(
        "trace.topics",
        "trace_topics",
        "",
        WORKS,
        "with `trace.every` or `trace.keys`, the source topics whose records are followed; all if empty; a setting of"
        " this library",
    ),
    Key(
        "upgrade.from",
        "upgrade_from",
        "",
        WORKS,
        "under 3.4 and older, a change of a table's grouping goes to its repartition topic in two records, as those"
        " versions read it (KIP-904)",
    ),
    Key("window.size.ms", None, "", REFUSED, "give the window size to the windowed serde"),
    Key("windowed.inner.class.serde", None, "", REFUSED, "give the inner serde to the windowed serde"),
    Key(
        "windowstore.changelog.additional.retention.ms",
        "windowstore_changelog_additional_retention_ms",
        "86400000",
        WORKS,
        "for how much longer than its window store shows them a changelog keeps rows, by the time of the store",
    ),
    Key(
        "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__",
        "outer_join_emit_interval_ms",
        "1000",
        WORKS,
        "how often, by the wall clock, a left or outer join of streams looks for records whose windows have closed",
    ),
    Key(
        "__emit.interval.ms.kstreams.windowed.aggregation__",
        "windowed_aggregation_emit_interval_ms",
        "1000",
        WORKS,
        "how often, by the wall clock, an aggregation that emits when windows close looks for closed windows",
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
    Key("__state.updater.enabled__", None, "", REFUSED, "restoring always goes on beside processing"),
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
        "the [schema registry](schema-registry.md#settings) and its serdes; Java's settings of these serdes, such as"
        " `auto.register.schemas`, need no prefix",
    ),
    Prefix(
        "client.tag.", "client_tag", "-", "tags of this process, such as its zone, for `rack.aware.assignment.tags`"
    ),
)

BY_NAME: dict[str, Key] = {key.name: key for key in KEYS}
BY_FIELD: dict[str, Key] = {key.field: key for key in KEYS if key.field is not None}
