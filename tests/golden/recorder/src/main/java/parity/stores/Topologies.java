package parity.stores;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Consumer;

import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/** Small topologies that between them have every kind of internal topic. */
final class Topologies {
    private static final Serde<String> STRING = Serdes.String();

    private Topologies() { }

    private static Duration ms(final long millis) {
        return Duration.ofMillis(millis);
    }

    private static KStream<String, String> stream(final StreamsBuilder builder, final String topic) {
        return builder.stream(topic, Consumed.with(STRING, STRING));
    }

    private static <S extends org.apache.kafka.streams.processor.StateStore> Materialized<String, String, S> as(final String name) {
        return Materialized.<String, String, S>as(name).withKeySerde(STRING).withValueSerde(STRING);
    }

    private static KTable<String, String> table(final StreamsBuilder builder, final String topic, final String store) {
        return builder.table(topic, Consumed.with(STRING, STRING), Topologies.<KeyValueStore<Bytes, byte[]>>as(store));
    }

    private static Grouped<String, String> grouped(final String name) {
        return Grouped.with(name, STRING, STRING);
    }

    /** Those that are run, to record the bytes on every topic they write. */
    static Map<String, Consumer<StreamsBuilder>> run() {
        final Map<String, Consumer<StreamsBuilder>> out = new LinkedHashMap<>();
        out.put("table", builder -> table(builder, "left", "table").toStream().to("output", Produced.with(STRING, STRING)));
        out.put("aggregate", builder -> stream(builder, "left").groupBy((k, v) -> v.substring(0, 1), grouped("by-letter"))
            .aggregate(() -> "", (k, v, agg) -> v.equals("delete") ? null : agg + v, Topologies.<KeyValueStore<Bytes, byte[]>>as("aggregate"))
            .toStream().to("output", Produced.with(STRING, STRING)));
        out.put("table_aggregate", builder -> table(builder, "left", "source")
            .groupBy((k, v) -> KeyValue.pair(v.substring(0, 1), v), grouped("by-letter"))
            .aggregate(() -> "", (k, v, agg) -> agg + "+" + v, (k, v, agg) -> agg + "-" + v, Topologies.<KeyValueStore<Bytes, byte[]>>as("aggregate"))
            .toStream().to("output", Produced.with(STRING, STRING)));
        out.put("hopping_count", builder -> stream(builder, "left").groupByKey(grouped("key"))
            .windowedBy(TimeWindows.ofSizeAndGrace(ms(100), ms(50)).advanceBy(ms(40)))
            .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("counts").withKeySerde(STRING).withValueSerde(Serdes.Long()))
            .toStream().to("output", Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 100L), Serdes.Long())));
        out.put("session_aggregate", builder -> stream(builder, "left").groupByKey(grouped("key"))
            .windowedBy(SessionWindows.ofInactivityGapAndGrace(ms(60), ms(100)))
            .aggregate(() -> "", (k, v, agg) -> agg + v, (k, a, b) -> a + "&" + b, Topologies.<SessionStore<Bytes, byte[]>>as("sessions"))
            .toStream().to("output", Produced.with(WindowedSerdes.sessionWindowedSerdeFrom(String.class), STRING)));
        out.put("sliding_aggregate", builder -> stream(builder, "left").groupByKey(grouped("key"))
            .windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(ms(60), ms(100)))
            .aggregate(() -> "", (k, v, agg) -> agg + v, Topologies.<WindowStore<Bytes, byte[]>>as("sliding"))
            .toStream().to("output", Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 60L), STRING)));
        out.put("emit_on_close", builder -> stream(builder, "left").groupByKey(grouped("key"))
            .windowedBy(TimeWindows.ofSizeAndGrace(ms(100), ms(50))).emitStrategy(EmitStrategy.onWindowClose())
            .aggregate(() -> "", (k, v, agg) -> agg + v, Topologies.<WindowStore<Bytes, byte[]>>as("closed"))
            .toStream().to("output", Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 100L), STRING)));
        out.put("session_emit_on_close", builder -> stream(builder, "left").groupByKey(grouped("key"))
            .windowedBy(SessionWindows.ofInactivityGapAndGrace(ms(60), ms(50))).emitStrategy(EmitStrategy.onWindowClose())
            .aggregate(() -> "", (k, v, agg) -> agg + v, (k, a, b) -> a + "&" + b, Topologies.<SessionStore<Bytes, byte[]>>as("closed"))
            .toStream().to("output", Produced.with(WindowedSerdes.sessionWindowedSerdeFrom(String.class), STRING)));
        out.put("suppress_time_limit", builder -> table(builder, "left", "source")
            .suppress(Suppressed.<String>untilTimeLimit(ms(80), Suppressed.BufferConfig.maxRecords(3).emitEarlyWhenFull()).withName("buffer"))
            .toStream().to("output", Produced.with(STRING, STRING)));
        out.put("suppress_window_close", builder -> stream(builder, "left").groupByKey(grouped("key"))
            .windowedBy(TimeWindows.ofSizeAndGrace(ms(100), ms(50)))
            .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("counts").withKeySerde(STRING).withValueSerde(Serdes.Long()))
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()).withName("buffer"))
            .toStream().to("output", Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 100L), Serdes.Long())));
        out.put("stream_join", builder -> stream(builder, "left").join(stream(builder, "right"), (a, b) -> a + "|" + b,
            JoinWindows.ofTimeDifferenceAndGrace(ms(60), ms(40)), StreamJoined.with(STRING, STRING, STRING).withName("join").withStoreName("join"))
            .to("output", Produced.with(STRING, STRING)));
        out.put("outer_join", builder -> stream(builder, "left").outerJoin(stream(builder, "right"), (a, b) -> a + "|" + b,
            JoinWindows.ofTimeDifferenceAndGrace(ms(60), ms(40)), StreamJoined.with(STRING, STRING, STRING).withName("join").withStoreName("join"))
            .to("output", Produced.with(STRING, STRING)));
        out.put("grace_join", builder -> stream(builder, "left").join(
            builder.table("right", Consumed.with(STRING, STRING), Materialized.<String, String>as(
                Stores.persistentVersionedKeyValueStore("versions", ms(500))).withKeySerde(STRING).withValueSerde(STRING)),
            (a, b) -> a + "|" + b, Joined.with(STRING, STRING, STRING, "join", ms(100))).to("output", Produced.with(STRING, STRING)));
        out.put("foreign_key_join", builder -> table(builder, "left", "left-store").join(table(builder, "right", "right-store"),
            v -> v.substring(0, 1), (a, b) -> a + "|" + b, TableJoined.as("fk"), Topologies.<KeyValueStore<Bytes, byte[]>>as("joined"))
            .toStream().to("output", Produced.with(STRING, STRING)));
        out.put("foreign_key_left_join", builder -> table(builder, "left", "left-store").leftJoin(table(builder, "right", "right-store"),
            v -> v.startsWith("b") ? null : v.substring(0, 1), (a, b) -> a + "|" + b, TableJoined.as("fk"),
            Topologies.<KeyValueStore<Bytes, byte[]>>as("joined")).toStream().to("output", Produced.with(STRING, STRING)));
        out.put("versioned_table", builder -> builder.table("left", Consumed.with(STRING, STRING), Materialized.<String, String>as(
            Stores.persistentVersionedKeyValueStore("versions", ms(300))).withKeySerde(STRING).withValueSerde(STRING))
            .toStream().to("output", Produced.with(STRING, STRING)));
        return out;
    }

    private static void attach(final StreamsBuilder builder, final StoreBuilder<?> store) {
        builder.addStateStore(store);
        stream(builder, "left").process(() -> new Processor<String, String, String, String>() {
            @Override
            public void process(final Record<String, String> record) { }
        }, Named.as("user"), store.name());
    }

    /** Those that are only built, for the topics they would create. */
    static Map<String, Consumer<StreamsBuilder>> built() {
        final Map<String, Consumer<StreamsBuilder>> out = new LinkedHashMap<>(run());
        out.put("kv_store", builder -> attach(builder, Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("store"), STRING, STRING)));
        out.put("kv_store_memory", builder -> attach(builder, Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore("store"), STRING, STRING)));
        out.put("kv_store_lru", builder -> attach(builder, Stores.keyValueStoreBuilder(Stores.lruMap("store", 10), STRING, STRING)));
        out.put("kv_store_timestamped", builder -> attach(builder,
            Stores.timestampedKeyValueStoreBuilder(Stores.persistentTimestampedKeyValueStore("store"), STRING, STRING)));
        out.put("kv_store_no_logging", builder -> attach(builder,
            Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("store"), STRING, STRING).withLoggingDisabled()));
        out.put("kv_store_settings", builder -> attach(builder, Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("store"), STRING, STRING)
            .withLoggingEnabled(Map.of("cleanup.policy", "compact,delete", "retention.ms", "1000", "segment.ms", "60000",
                "message.timestamp.type", "LogAppendTime"))));
        out.put("versioned_store", builder -> attach(builder,
            Stores.versionedKeyValueStoreBuilder(Stores.persistentVersionedKeyValueStore("store", ms(60_000)), STRING, STRING)));
        out.put("versioned_store_settings", builder -> attach(builder,
            Stores.versionedKeyValueStoreBuilder(Stores.persistentVersionedKeyValueStore("store", ms(60_000), ms(5_000)), STRING, STRING)
                .withLoggingEnabled(Map.of("min.compaction.lag.ms", "5", "cleanup.policy", "compact"))));
        out.put("versioned_store_zero_history", builder -> attach(builder,
            Stores.versionedKeyValueStoreBuilder(Stores.persistentVersionedKeyValueStore("store", ms(0)), STRING, STRING)));
        out.put("window_store", builder -> attach(builder,
            Stores.windowStoreBuilder(Stores.persistentWindowStore("store", ms(60_000), ms(10_000), false), STRING, STRING)));
        out.put("window_store_memory", builder -> attach(builder,
            Stores.windowStoreBuilder(Stores.inMemoryWindowStore("store", ms(3_600_000), ms(10_000), false), STRING, STRING)));
        out.put("window_store_duplicates", builder -> attach(builder,
            Stores.windowStoreBuilder(Stores.persistentWindowStore("store", ms(60_000), ms(10_000), true), STRING, STRING)));
        out.put("window_store_settings", builder -> attach(builder,
            Stores.windowStoreBuilder(Stores.persistentWindowStore("store", ms(60_000), ms(10_000), false), STRING, STRING)
                .withLoggingEnabled(Map.of("retention.ms", "99", "cleanup.policy", "delete", "segment.bytes", "1000"))));
        out.put("window_store_longest", builder -> attach(builder,
            Stores.windowStoreBuilder(Stores.persistentWindowStore("store", ms(Long.MAX_VALUE), ms(10_000), false), STRING, STRING)));
        out.put("timestamped_window_store", builder -> attach(builder,
            Stores.timestampedWindowStoreBuilder(Stores.persistentTimestampedWindowStore("store", ms(200_000), ms(10_000), false), STRING, STRING)));
        out.put("session_store", builder -> attach(builder,
            Stores.sessionStoreBuilder(Stores.persistentSessionStore("store", ms(60_000)), STRING, STRING)));
        out.put("session_store_memory", builder -> attach(builder,
            Stores.sessionStoreBuilder(Stores.inMemorySessionStore("store", ms(60_000)), STRING, STRING)));
        out.put("headers_kv_store", builder -> attach(builder, Stores.timestampedKeyValueStoreWithHeadersBuilder(
            Stores.persistentTimestampedKeyValueStoreWithHeaders("store"), STRING, STRING)));
        out.put("repartition", builder -> stream(builder, "left").repartition(Repartitioned.with(STRING, STRING).withName("spread").withNumberOfPartitions(7))
            .to("output", Produced.with(STRING, STRING)));
        out.put("repartition_unnamed", builder -> stream(builder, "left").selectKey((k, v) -> v).groupByKey(Grouped.with(STRING, STRING)).count()
            .toStream().to("output", Produced.with(STRING, Serdes.Long())));
        out.put("join_repartition", builder -> stream(builder, "left").selectKey((k, v) -> v).join(stream(builder, "right").selectKey((k, v) -> v),
            (a, b) -> a + b, JoinWindows.ofTimeDifferenceWithNoGrace(ms(1_000)), StreamJoined.with(STRING, STRING, STRING))
            .to("output", Produced.with(STRING, STRING)));
        out.put("join_repartition_named", builder -> stream(builder, "left").selectKey((k, v) -> v).leftJoin(stream(builder, "right").selectKey((k, v) -> v),
            (a, b) -> a + b, JoinWindows.ofTimeDifferenceWithNoGrace(ms(1_000)), StreamJoined.with(STRING, STRING, STRING).withName("j"))
            .to("output", Produced.with(STRING, STRING)));
        out.put("foreign_key_unnamed", builder -> builder.table("left", Consumed.with(STRING, STRING)).join(builder.table("right", Consumed.with(STRING, STRING)),
            v -> v, (a, b) -> a + b, Materialized.with(STRING, STRING)).toStream().to("output", Produced.with(STRING, STRING)));
        out.put("suppress_settings", builder -> table(builder, "left", "source")
            .suppress(Suppressed.untilTimeLimit(ms(80), Suppressed.BufferConfig.unbounded().withLoggingEnabled(Map.of("segment.ms", "7"))))
            .toStream().to("output", Produced.with(STRING, STRING)));
        out.put("suppress_no_logging", builder -> table(builder, "left", "source")
            .suppress(Suppressed.untilTimeLimit(ms(80), Suppressed.BufferConfig.unbounded().withLoggingDisabled()))
            .toStream().to("output", Produced.with(STRING, STRING)));
        out.put("window_retention", builder -> stream(builder, "left").groupByKey(grouped("key"))
            .windowedBy(TimeWindows.ofSizeAndGrace(ms(100), ms(50)))
            .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("counts").withKeySerde(STRING).withValueSerde(Serdes.Long())
                .withRetention(ms(3_600_000))));
        out.put("global_table", builder -> builder.globalTable("left", Consumed.with(STRING, STRING),
            Topologies.<KeyValueStore<Bytes, byte[]>>as("global")));
        return out;
    }
}
