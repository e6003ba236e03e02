"""The guides of the public names: each guide links to its names in the reference, and each name to its guides."""

from __future__ import annotations

from pathlib import Path

from tools.site.navigation import ROOT

__all__ = ["GUIDES", "api_line", "guides_of", "with_api_line"]

GUIDES: dict[str, tuple[str, ...]] = {
    "docs/serdes.md": (
        *("streams.Serdes", "streams.Serde", "streams.serde_of", "streams.json_serde", "streams.pydantic_serde"),
        *("streams.list_serde", "streams.WindowedSerdes", "streams.Headers"),
    ),
    "docs/schema-registry.md": (
        *("streams.Avro", "streams.AvroType", "streams.Protobuf", "streams.JsonSchema", "streams.SchemaRegistry"),
    ),
    "docs/stateless.md": (
        *("streams.StreamsBuilder", "streams.KStream", "streams.BranchedKStream", "streams.Branched"),
        *("streams.Consumed", "streams.Produced", "streams.Repartitioned", "streams.Printed", "streams.Named"),
        *("streams.AutoOffsetReset",),
    ),
    "docs/aggregations.md": (
        *("streams.KStream.group_by_key", "streams.KStream.group_by", "streams.KGroupedStream"),
        *("streams.CogroupedKStream", "streams.KGroupedTable", "streams.Grouped", "streams.Materialized"),
    ),
    "docs/windows.md": (
        *("streams.TimeWindows", "streams.SlidingWindows", "streams.SessionWindows", "streams.UnlimitedWindows"),
        *("streams.Windows", "streams.Windowed", "streams.Window", "streams.TimeWindowedKStream"),
        *("streams.SessionWindowedKStream", "streams.TimeWindowedCogroupedKStream"),
        *("streams.SessionWindowedCogroupedKStream", "streams.EmitStrategy", "streams.KTable.suppress"),
        *("streams.Suppressed", "streams.BufferConfig", "streams.EagerBufferConfig", "streams.StrictBufferConfig"),
    ),
    "docs/joins.md": (
        *("streams.KStream.join", "streams.KStream.left_join", "streams.KStream.outer_join", "streams.KTable.join"),
        *("streams.KTable.foreign_key_join", "streams.JoinWindows", "streams.StreamJoined", "streams.Joined"),
        *("streams.TableJoined",),
    ),
    "docs/tables.md": (
        *("streams.KTable", "streams.GlobalKTable", "streams.StreamsBuilder.table", "streams.KStream.to_table"),
        "streams.Materialized",
    ),
    "docs/processors-in-a-dsl.md": (
        *(
            "streams.KStream.process",
            "streams.KStream.process_values",
            "streams.Processor",
            "streams.FixedKeyProcessor",
        ),
        *("streams.ProcessorContext", "streams.FixedKeyProcessorContext", "streams.Record", "streams.FixedKeyRecord"),
        *("streams.PunctuationType", "streams.Cancellable", "streams.KTable.transform_values"),
        *("streams.ValueTransformerWithKey", "streams.ValueTransformerContext"),
    ),
    "docs/timestamps.md": (
        *("streams.TimestampExtractor", "streams.fail_on_invalid_timestamp"),
        *("streams.log_and_skip_on_invalid_timestamp", "streams.use_partition_time_on_invalid_timestamp"),
        *("streams.wallclock_timestamp_extractor", "streams.Consumed"),
    ),
    "docs/recipes.md": (
        *("streams.KStream.deduplicate", "streams.KGroupedStream.aggregate", "streams.KStream.flat_map_values"),
        *("streams.KStream.outer_join", "streams.TimeToLive"),
    ),
    "docs/beyond-java.md": (
        *("streams.KStream.deduplicate", "streams.KStream.map_values_batch", "streams.KStream.process_batch"),
        *("streams.BatchProcessor", "streams.TimeToLive"),
    ),
    "docs/stores.md": (
        *("streams.Stores", "streams.StoreSupplier", "streams.StoreBuilder", "streams.KeyValueStore"),
        *("streams.TimestampedKeyValueStore", "streams.WindowStore", "streams.SessionStore"),
        *("streams.VersionedKeyValueStore", "streams.ListStore", "streams.ValueAndTimestamp"),
        *("streams.ValueTimestampHeaders", "streams.AggregationWithHeaders", "streams.VersionedRecord"),
        *("streams.BuiltInDslStoreSuppliers", "streams.StreamsBuilder.global_table"),
        *("streams.Topology.add_read_only_state_store",),
    ),
    "docs/custom-stores.md": (
        *("streams.engines.Engine", "streams.engines.Snapshot", "streams.engines.register_engine"),
        *("streams.CustomStateStore", "streams.StateStoreContext", "streams.ChangelogRecord"),
        *("streams.KeyValueBytesStore", "streams.TimestampedBytesStore", "streams.VersionedBytesStore"),
        *("streams.DslStoreSuppliers", "streams.Stores.custom"),
    ),
    "docs/rocksdb.md": ("streams.StreamsConfig", "streams.DamagedStateError", "streams.DiskFullError"),
    "docs/queries.md": (
        *("streams.KafkaStreams.store", "streams.KafkaStreams.query", "streams.StoreQueryParameters"),
        *("streams.QueryableStoreTypes", "streams.StateQueryRequest", "streams.StateQueryResult"),
        *("streams.QueryResult", "streams.FailureReason", "streams.KeyQuery", "streams.RangeQuery"),
        *("streams.WindowKeyQuery", "streams.WindowRangeQuery", "streams.VersionedKeyQuery"),
        *("streams.MultiVersionedKeyQuery", "streams.Position", "streams.PositionBound", "streams.IsolationLevel"),
        *("streams.LagInfo", "streams.InvalidStateStoreError"),
    ),
    "docs/querying-over-http.md": (
        *("streams.remote.RemoteStreams", "streams.remote.RemoteStore", "streams.remote.RemoteRow"),
        *("streams.remote.RemoteError", "streams.remote.RemoteUnavailable"),
    ),
    "docs/testing.md": (
        *("streams.TopologyTestDriver", "streams.testing.TestInputTopic", "streams.testing.TestOutputTopic"),
        *("streams.testing.TestRecord", "streams.testing.MockProcessorContext", "streams.testing.EmbeddedKafka"),
    ),
    "docs/porting-tests.md": ("streams.testing.ExpectedRecords",),
    "docs/running.md": (
        *("streams.run", "streams.KafkaStreams", "streams.StreamsConfig", "streams.ClientState"),
        *("streams.script_config",),
    ),
    "docs/errors-and-dead-letters.md": (
        *("streams.StreamsError", "streams.UserCodeError", "streams.Response", "streams.ErrorHandlerContext"),
        *("streams.log_and_continue", "streams.log_and_continue_processing"),
        *("streams.dead_letter_queue_records", "streams.dead_letters.DeadLetterQueue"),
        *("streams.dead_letters.DeadLetter", "streams.dead_letters.LetterFilter", "streams.dead_letters.ReplayReport"),
    ),
    "docs/monitoring.md": (
        *("streams.KafkaStreams.status", "streams.KafkaStreams.metrics", "streams.WorkerStatus", "streams.Metric"),
        *("streams.why_no_output",),
    ),
    "docs/spark.md": (
        *("streams.spark.read_topic", "streams.spark.write_topic", "streams.spark.local_session"),
        *("streams.spark.read_table", "streams.spark.register"),
    ),
    "docs/spark-backfill.md": (
        *("streams.spark.Backfill", "streams.spark.BackfillPlan", "streams.spark.BackfillResult", "streams.spark.Cut"),
        *("streams.spark.History", "streams.spark.pin_offsets", "streams.spark.diff_tables"),
    ),
    "docs/spark-handover.md": (
        *("streams.spark.bootstrap", "streams.spark.check_handover", "streams.spark.HandoverReport"),
        *("streams.spark.read_state",),
    ),
    "docs/following-a-record.md": (
        *("streams.TopologyTestDriver.trace", "streams.testing.RecordTrace", "streams.testing.TraceStep"),
    ),
}
"""The names that each guide is about, by their full names, in the order in which the page shows them."""


def api_line(page: str) -> str:
    """Returns the line of a guide that links to its names, in Markdown with roles of Sphinx."""
    return "API: " + ", ".join(f"{{py:obj}}`{_label(name)} <{name}>`" for name in GUIDES[page]) + "."


def _label(name: str) -> str:
    """Returns the name without its module, and a member with its class."""
    parts = name.split(".")
    return ".".join(parts[-2:] if parts[-2][0].isupper() else parts[-1:])


def with_api_line(page: str, text: str) -> str:
    """Returns the text of a page with its line of names below its first paragraph, if it is a guide."""
    if page not in GUIDES:
        return text
    title, first, rest = text.split("\n\n", 2)
    return "\n\n".join((title, first, api_line(page), rest))


def guides_of(name: str) -> list[str]:
    """Returns lines for the reference that link to the guides of a name or of its members; empty if there are none."""
    found = [
        f":doc:`{title_of(ROOT / page)} </{page.removesuffix('.md')}>`"
        for page, names in GUIDES.items()
        if any(one == name or one.rpartition(".")[0] == name for one in names)
    ]
    return [f"Guide{'s' if len(found) > 1 else ''}: {', '.join(found)}.", ""] if found else []


def title_of(page: Path) -> str:
    """Returns the title of a page."""
    return page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
