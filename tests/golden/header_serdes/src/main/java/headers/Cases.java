package headers;

import java.time.Duration;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;
import java.util.function.Consumer;

import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.*;

/** The topologies that are recorded, with their inputs. */
final class Cases {
    private static final Duration TEN = Duration.ofMillis(10);

    /** A topology: each input is a topic, a key, a value and a timestamp. */
    record Case(BiConsumer<StreamsBuilder, Serde<String>> builds, List<String[]> inputs, Consumer<TopologyTestDriver> then) {
        void build(final StreamsBuilder builder, final Serde<String> serde) {
            builds.accept(builder, serde);
        }

        void after(final TopologyTestDriver driver) {
            then.accept(driver);
        }
    }

    private static final Map<String, Case> CASES = new LinkedHashMap<>();

    private static void add(final String name, final BiConsumer<StreamsBuilder, Serde<String>> builds,
                            final Consumer<TopologyTestDriver> then, final String[]... inputs) {
        CASES.put(name, new Case(builds, List.of(inputs), then));
    }

    private static String[] in(final String topic, final String key, final String value, final long time) {
        return new String[] {topic, key, value, String.valueOf(time)};
    }

    private static final String[][] ONE = {in("left", "a", "v1", 1), in("left", "b", "v2", 2), in("left", "a", "v3", 3), in("left", "a", "v4", 24)};
    private static final String[][] TABLE = {in("left", "a", "v1", 1), in("left", "b", "v2", 2), in("left", "a", "v3", 3), in("left", "a", null, 4),
        in("left", "b", "v5", 5)};
    private static final String[][] BOTH = {in("left", "a", "v1", 1), in("right", "a", "w2", 2), in("left", "a", "v3", 3), in("right", "a", "w4", 4),
        in("left", "b", "v5", 40), in("right", "a", null, 41), in("left", "a", "v7", 80)};
    private static final String[][] KEYED = {in("left", "a", "x", 1), in("right", "x", "w2", 2), in("left", "b", "x", 3), in("right", "x", "w4", 4),
        in("left", "a", "y", 5), in("right", "y", "w6", 6), in("left", "b", null, 7)};

    private static Consumer<TopologyTestDriver> nothing() {
        return driver -> { };
    }

    private static Consumed<String, String> from(final Serde<String> s) {
        return Consumed.with(s, s);
    }

    private static Produced<String, String> to(final Serde<String> s) {
        return Produced.with(s, s);
    }

    private static <S extends StateStore> Materialized<String, String, S> in(final String store, final Serde<String> s) {
        return Materialized.<String, String, S>as(store).withKeySerde(s).withValueSerde(s);
    }

    /** A processor that works on a store. */
    private static <S extends StateStore> void processed(final StreamsBuilder builder, final Serde<String> s, final StoreBuilder<S> store,
                                                         final BiConsumer<S, Record<String, String>> does) {
        builder.addStateStore(store);
        builder.stream("left", from(s)).process(() -> new Processor<String, String, String, String>() {
            private ProcessorContext<String, String> context;

            @Override
            public void init(final ProcessorContext<String, String> given) {
                context = given;
            }

            @Override
            public void process(final Record<String, String> record) {
                does.accept(context.getStateStore(store.name()), record);
                context.forward(record);
            }
        }, store.name()).to("out", to(s));
    }

    private static <T> void all(final java.util.Iterator<T> found) {
        found.forEachRemaining(one -> { });
    }

    static Map<String, Case> all() {
        add("sinks", (b, s) -> {
            final KStream<String, String> stream = b.stream("left", from(s));
            stream.to("one", to(s));
            stream.mapValues(v -> v + "!").to("two", to(s));
        }, nothing(), ONE);
        add("repartition", (b, s) -> b.stream("left", from(s)).selectKey((k, v) -> v).repartition(Repartitioned.with(s, s).withName("r")).to("out", to(s)),
            nothing(), ONE);
        add("table", (b, s) -> b.table("left", from(s), in("store", s)).toStream().to("out", to(s)),
            d -> d.getKeyValueStore("store").get("b"), TABLE);
        add("table-filter", (b, s) -> b.table("left", from(s), in("store", s)).filter((k, v) -> !v.equals("v3"), in("kept", s)).toStream().to("out", to(s)),
            nothing(), TABLE);
        add("reduce", (b, s) -> b.stream("left", from(s)).groupByKey(Grouped.with(s, s)).reduce((x, y) -> x + y, in("store", s)).toStream().to("out", to(s)),
            d -> all(d.getKeyValueStore("store").all()), ONE);
        add("table-reduce", (b, s) -> b.table("left", from(s), in("store", s)).groupBy((k, v) -> KeyValue.pair("g", v), Grouped.with(s, s))
            .reduce((x, y) -> x + y, (x, y) -> x + "-" + y, in("sum", s)).toStream().to("out", to(s)), nothing(), TABLE);
        add("windows", (b, s) -> b.stream("left", from(s)).groupByKey(Grouped.with(s, s)).windowedBy(TimeWindows.ofSizeWithNoGrace(TEN))
            .reduce((x, y) -> x + y, in("store", s)).toStream((k, v) -> k.key()).to("out", to(s)),
            d -> all(d.getWindowStore("store").fetch("a", 0, 100)), ONE);
        add("windowed-keys", (b, s) -> b.stream("left", from(s)).groupByKey(Grouped.with(s, s)).windowedBy(TimeWindows.ofSizeWithNoGrace(TEN))
            .reduce((x, y) -> x + y, in("store", s)).toStream().to("out", Produced.with(new WindowedSerdes.TimeWindowedSerde<>(s, 10), s)), nothing(), ONE);
        add("sessions", (b, s) -> b.stream("left", from(s)).groupByKey(Grouped.with(s, s)).windowedBy(SessionWindows.ofInactivityGapWithNoGrace(TEN))
            .reduce((x, y) -> x + y, in("store", s)).toStream((k, v) -> k.key()).to("out", to(s)),
            d -> all(d.getSessionStore("store").fetch("a")), ONE);
        add("stream-table", (b, s) -> b.stream("left", from(s)).leftJoin(b.table("right", from(s), in("store", s)), (x, y) -> x + y, Joined.with(s, s, s))
            .to("out", to(s)), nothing(), BOTH);
        add("stream-table-grace", (b, s) -> b.stream("left", from(s)).leftJoin(b.table("right", from(s), Materialized.<String, String>as(
            Stores.persistentVersionedKeyValueStore("store", Duration.ofMillis(100))).withKeySerde(s).withValueSerde(s)), (x, y) -> x + y,
            Joined.with(s, s, s, "join", TEN)).to("out", to(s)), nothing(), BOTH);
        add("streams", (b, s) -> b.stream("left", from(s)).outerJoin(b.stream("right", from(s)), (x, y) -> x + y, JoinWindows.ofTimeDifferenceAndGrace(TEN, TEN),
            StreamJoined.with(s, s, s).withName("join").withStoreName("join")).to("out", to(s)), nothing(), BOTH);
        add("tables", (b, s) -> b.table("left", from(s), in("one", s)).outerJoin(b.table("right", from(s), in("two", s)), (x, y) -> x + y, in("store", s))
            .toStream().to("out", to(s)), nothing(), BOTH);
        add("foreign-key", (b, s) -> b.table("left", from(s), in("one", s)).leftJoin(b.table("right", from(s), in("two", s)), v -> v, (x, y) -> x + y,
            TableJoined.as("fk"), in("store", s)).toStream().to("out", to(s)), nothing(), KEYED);
        add("suppress", (b, s) -> b.stream("left", from(s)).groupByKey(Grouped.with(s, s)).reduce((x, y) -> x + y, in("store", s))
            .suppress(Suppressed.untilTimeLimit(TEN, Suppressed.BufferConfig.unbounded()).withName("wait")).toStream().to("out", to(s)), nothing(), ONE);
        add("suppress-twice", (b, s) -> b.table("left", from(s), in("store", s))
            .suppress(Suppressed.untilTimeLimit(TEN, Suppressed.BufferConfig.unbounded()).withName("wait"))
            .groupBy((k, v) -> KeyValue.pair("g", v), Grouped.with(s, s)).reduce((x, y) -> x + y, (x, y) -> x + "-" + y, in("sum", s)).toStream().to("out", to(s)),
            nothing(), in("left", "a", "v1", 1), in("left", "a", "v2", 2), in("left", "b", "v3", 20), in("left", "a", "v4", 21), in("left", "b", "v5", 50));
        add("global", (b, s) -> b.stream("left", from(s)).leftJoin(b.globalTable("right", from(s), in("store", s)), (k, v) -> k, (x, y) -> x + y)
            .to("out", to(s)), d -> d.getKeyValueStore("store").get("a"), BOTH);
        add("key-value-store", (b, s) -> processed(b, s, Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("store"), s, s), (store, r) -> {
            store.put(r.key(), r.value());
            store.get(r.key());
            all(store.range("a", "b"));
        }), d -> d.getKeyValueStore("store").get("a"), ONE);
        add("timestamped-store", (b, s) -> processed(b, s, Stores.timestampedKeyValueStoreBuilder(Stores.persistentTimestampedKeyValueStore("store"), s, s),
            (store, r) -> {
                store.put(r.key(), ValueAndTimestamp.make(r.value(), r.timestamp()));
                store.get(r.key());
                all(store.all());
                store.delete("b");
            }), d -> d.getTimestampedKeyValueStore("store").get("a"), ONE);
        add("headers-store", (b, s) -> processed(b, s, Stores.timestampedKeyValueStoreWithHeadersBuilder(
            Stores.persistentTimestampedKeyValueStoreWithHeaders("store"), s, s), (store, r) -> {
                store.put(r.key(), ValueTimestampHeaders.make(r.value(), r.timestamp(), new org.apache.kafka.common.header.internals.RecordHeaders()
                    .add("row", r.value().getBytes())));
                store.get(r.key());
                all(store.all());
                store.delete("b");
            }), nothing(), ONE);
        add("versioned-store", (b, s) -> processed(b, s, Stores.versionedKeyValueStoreBuilder(
            Stores.persistentVersionedKeyValueStore("store", Duration.ofMillis(100)), s, s), (store, r) -> {
                store.put(r.key(), r.value(), r.timestamp());
                store.get(r.key());
                store.get(r.key(), 1);
            }), nothing(), ONE);
        add("window-store", (b, s) -> processed(b, s, Stores.windowStoreBuilder(
            Stores.persistentWindowStore("store", Duration.ofMillis(100), TEN, false), s, s), (store, r) -> {
                store.put(r.key(), r.value(), r.timestamp());
                store.fetch(r.key(), r.timestamp());
                all(store.fetch(r.key(), Instant.ofEpochMilli(0), Instant.ofEpochMilli(100)));
                all(store.all());
            }), nothing(), ONE);
        add("session-store", (b, s) -> processed(b, s, Stores.sessionStoreBuilder(
            Stores.persistentSessionStore("store", Duration.ofMillis(100)), s, s), (store, r) -> {
                store.put(new Windowed<>(r.key(), new org.apache.kafka.streams.kstream.internals.SessionWindow(r.timestamp(), r.timestamp())), r.value());
                store.fetchSession(r.key(), r.timestamp(), r.timestamp());
                all(store.fetch(r.key()));
            }), nothing(), ONE);
        return CASES;
    }

    private Cases() {
    }
}
