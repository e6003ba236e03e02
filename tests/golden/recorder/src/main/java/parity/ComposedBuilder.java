package parity;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.CogroupedKStream;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KGroupedTable;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.SessionWindowedKStream;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.UnlimitedWindows;
import org.apache.kafka.streams.kstream.ValueTransformerWithKey;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/** Carries out the statements of a topology that was drawn at random; keys and values are strings everywhere. */
final class ComposedBuilder {
    private static final Serde<String> S = Serdes.String();
    private final StreamsBuilder builder;
    private final List<Object> made = new ArrayList<>();
    private int id;
    private JsonNode node;
    private Composed.Functions f;

    ComposedBuilder(final StreamsBuilder builder) {
        this.builder = builder;
    }

    void build(final JsonNode nodes) {
        for (final JsonNode each : nodes) {
            id = made.size();
            node = each;
            final boolean quiet = "session".equals(node.path("window").path("type").textValue()) || node.path("final").asBoolean();
            f = new Composed.Functions(id, text("fn"), !quiet, node.path("fails").asBoolean());
            made.add(make(text("op")));
        }
    }

    private Object make(final String op) {
        return switch (op.substring(0, op.indexOf('.'))) {
            case "source" -> source(op);
            case "stream" -> ofStream(op);
            case "join" -> join(op);
            case "group" -> aggregated(op);
            case "table" -> ofTable(op);
            case "regrouped" -> regrouped(op);
            case "windowed" -> ofWindowed(op);
            default -> throw new IllegalArgumentException(op);
        };
    }

    // ------------------------------------------------------------------ fields of a statement

    private String text(final String field) {
        return node.path(field).textValue();
    }

    private long number(final String field) {
        return node.get(field).asLong();
    }

    @SuppressWarnings("unchecked")
    private <T> T of(final int i) {
        return (T) made.get(node.get("of").get(i).asInt());
    }

    private boolean named() {
        return node.hasNonNull("named");
    }

    private Named name() {
        return Named.as(text("named"));
    }

    private boolean stored() {
        return node.hasNonNull("mat");
    }

    private static Duration ms(final JsonNode n) {
        return Duration.ofMillis(n.asLong());
    }

    private <V> Materialized<String, V, KeyValueStore<Bytes, byte[]>> keyValue(final Serde<V> values) {
        final String kind = node.get("mat").path("kind").asText("plain");
        final String name = node.get("mat").path("name").textValue();
        final Materialized<String, V, KeyValueStore<Bytes, byte[]>> m = switch (kind) {
            case "memory" -> Materialized.as(Stores.inMemoryKeyValueStore(name));
            case "versioned" -> Materialized.as(Stores.persistentVersionedKeyValueStore(name, Duration.ofMillis(30)));
            default -> name == null ? Materialized.with(S, values) : Materialized.as(name);
        };
        return options(m, values);
    }

    private <V> Materialized<String, V, WindowStore<Bytes, byte[]>> windows(final Serde<V> values) {
        final JsonNode w = node.get("window");
        final String name = node.get("mat").path("name").textValue();
        if (node.get("mat").has("keeps")) {
            return options(Materialized.as(Stores.inMemoryWindowStore(name, ms(node.get("mat").get("keeps")), ms(w.get("size")), false)), values);
        }
        return options(name == null ? Materialized.with(S, values) : Materialized.as(name), values);
    }

    private <V> Materialized<String, V, SessionStore<Bytes, byte[]>> sessions(final Serde<V> values) {
        final String name = node.get("mat").path("name").textValue();
        if (node.get("mat").has("keeps")) {
            return options(Materialized.as(Stores.inMemorySessionStore(name, ms(node.get("mat").get("keeps")))), values);
        }
        return options(name == null ? Materialized.with(S, values) : Materialized.as(name), values);
    }

    private <V, T extends StateStore> Materialized<String, V, T> options(final Materialized<String, V, T> m, final Serde<V> values) {
        final JsonNode mat = node.get("mat");
        m.withKeySerde(S).withValueSerde(values);
        if (mat.has("caching")) {
            if (mat.get("caching").asBoolean()) {
                m.withCachingEnabled();
            } else {
                m.withCachingDisabled();
            }
        }
        if (mat.has("logging")) {
            m.withLoggingDisabled();
        }
        if (mat.has("retention")) {
            m.withRetention(ms(mat.get("retention")));
        }
        return m;
    }

    // ------------------------------------------------------------------ sources and streams

    private Object source(final String op) {
        final Consumed<String, String> consumed = named() ? Consumed.as(text("named")) : null;
        switch (op) {
            case "source.stream":
                final List<String> topics = new ArrayList<>();
                node.get("topics").forEach(t -> topics.add(t.asText()));
                return named() ? builder.stream(topics, consumed) : builder.stream(topics);
            case "source.table":
                if (stored()) {
                    return named() ? builder.table(text("topic"), consumed, keyValue(S)) : builder.table(text("topic"), keyValue(S));
                }
                return named() ? builder.table(text("topic"), consumed) : builder.table(text("topic"));
            case "source.global":
                return stored() ? builder.globalTable(text("topic"), keyValue(S)) : builder.globalTable(text("topic"));
            default:
                throw new IllegalArgumentException(op);
        }
    }

    private Object ofStream(final String op) {
        if (op.equals("stream.pick")) {
            final Map<String, KStream<String, String>> branches = of(0);
            return new ArrayList<>(branches.values()).get((int) number("which"));
        }
        final Composed.Functions g = f;
        final KStream<String, String> s = of(0);
        switch (op) {
            case "stream.values":
                return named() ? s.mapValues(g::value, name()) : s.mapValues(g::value);
            case "stream.values_with_key":
                return named() ? s.mapValues(g::valueOfKey, name()) : s.mapValues(g::valueOfKey);
            case "stream.flat_values":
                return named() ? s.flatMapValues(g::values, name()) : s.flatMapValues(g::values);
            case "stream.filter":
                return named() ? s.filter(g::test, name()) : s.filter(g::test);
            case "stream.filter_not":
                return named() ? s.filterNot(g::test, name()) : s.filterNot(g::test);
            case "stream.key":
                return named() ? s.selectKey(g::key, name()) : s.selectKey(g::key);
            case "stream.map":
                return named() ? s.map((k, v) -> KeyValue.pair(g.key(k, v), v), name()) : s.map((k, v) -> KeyValue.pair(g.key(k, v), v));
            case "stream.flat_map":
                return named() ? s.flatMap((k, v) -> List.of(KeyValue.pair(k, v), KeyValue.pair(g.key(k, v), v)), name())
                    : s.flatMap((k, v) -> List.of(KeyValue.pair(k, v), KeyValue.pair(g.key(k, v), v)));
            case "stream.peek":
                return named() ? s.peek(g::test, name()) : s.peek(g::test);
            case "stream.merge":
                return named() ? s.merge(of(1), name()) : s.merge(of(1));
            case "stream.split":
                final var split = named() ? s.split(name()) : s.split();
                final var one = node.has("branch") ? split.branch(g::test, Branched.as(text("branch"))) : split.branch(g::test);
                return new java.util.TreeMap<>(one.defaultBranch());
            case "stream.repartition":
                return s.repartition(repartitioned());
            case "stream.to_table":
                if (stored()) {
                    return named() ? s.toTable(name(), keyValue(S)) : s.toTable(keyValue(S));
                }
                return named() ? s.toTable(name()) : s.toTable();
            case "stream.process":
                return process(s, g);
            case "stream.shift":
                final long by = number("by");
                return named() ? s.process(() -> new Shifts(by), name()) : s.process(() -> new Shifts(by));
            case "stream.process_values":
                return named() ? s.processValues(() -> new Marks(g), name()) : s.processValues(() -> new Marks(g));
            case "stream.group_by_key":
                return named() ? s.groupByKey(Grouped.as(text("named"))) : s.groupByKey();
            case "stream.group_by":
                return named() ? s.groupBy(g::key, Grouped.as(text("named"))) : s.groupBy(g::key);
            case "stream.to":
                s.to(text("topic"));
                return null;
            default:
                throw new IllegalArgumentException(op);
        }
    }

    private Repartitioned<String, String> repartitioned() {
        final Repartitioned<String, String> how = named() ? Repartitioned.as(text("named")) : Repartitioned.with(S, S);
        return node.has("partitions") ? how.withNumberOfPartitions((int) number("partitions")) : how;
    }

    private KStream<String, String> process(final KStream<String, String> s, final Composed.Functions g) {
        final String store = "kept-" + id;
        builder.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(store), S, S));
        return named() ? s.process(() -> new Keeps(g, store), name(), store) : s.process(() -> new Keeps(g, store), store);
    }

    /** Forwards what came before for a key, with its value. */
    private static final class Keeps extends ContextualProcessor<String, String, String, String> {
        private final Composed.Functions f;
        private final String name;

        Keeps(final Composed.Functions f, final String name) {
            this.f = f;
            this.name = name;
        }

        @Override
        public void process(final Record<String, String> record) {
            if (record.key() == null) {
                context().forward(record);
                return;
            }
            final KeyValueStore<String, String> store = context().getStateStore(name);
            final String before = store.get(record.key());
            store.put(record.key(), record.value());
            context().forward(record.withValue(f.joined(before, record.value())));
        }
    }

    /** Moves the time of records, and tells so in a header. */
    private static final class Shifts extends ContextualProcessor<String, String, String, String> {
        private final long by;

        Shifts(final long by) {
            this.by = by;
        }

        @Override
        public void process(final Record<String, String> record) {
            final RecordHeaders headers = new RecordHeaders(record.headers());  // the record's own are its siblings' too
            headers.add("by", String.valueOf(by).getBytes(StandardCharsets.UTF_8));
            context().forward(record.withHeaders(headers).withTimestamp(Math.max(0, record.timestamp() + by)));
        }
    }

    private static final class Marks extends ContextualFixedKeyProcessor<String, String, String> {
        private final Composed.Functions f;

        Marks(final Composed.Functions f) {
            this.f = f;
        }

        @Override
        public void process(final FixedKeyRecord<String, String> record) {
            context().forward(record.withValue(f.value(record.value())));
        }
    }

    // ------------------------------------------------------------------ joins

    private Object join(final String op) {
        final Composed.Functions g = f;
        return switch (op) {
            case "join.stream", "join.stream_left", "join.stream_outer" -> streams(op, g);
            case "join.table", "join.table_left" -> streamAndTable(op, g);
            case "join.global", "join.global_left" -> streamAndGlobal(op, g);
            case "join.tables", "join.tables_left", "join.tables_outer" -> tables(op, g);
            case "join.foreign", "join.foreign_left" -> foreign(op, g);
            default -> throw new IllegalArgumentException(op);
        };
    }

    private KStream<String, String> streams(final String op, final Composed.Functions g) {
        final KStream<String, String> left = of(0);
        final KStream<String, String> right = of(1);
        final JoinWindows w = JoinWindows.ofTimeDifferenceAndGrace(ms(node.get("size")), ms(node.get("grace")))
            .before(ms(node.get("before"))).after(ms(node.get("after")));
        StreamJoined<String, String, String> how = null;
        if (named() || node.has("store")) {
            how = StreamJoined.with(S, S, S);
            how = named() ? how.withName(text("named")) : how;
            how = node.has("store") ? how.withStoreName(text("store")) : how;
        }
        return switch (op) {
            case "join.stream" -> how == null ? left.join(right, g::joined, w) : left.join(right, g::joined, w, how);
            case "join.stream_left" -> how == null ? left.leftJoin(right, g::joined, w) : left.leftJoin(right, g::joined, w, how);
            default -> how == null ? left.outerJoin(right, g::joined, w) : left.outerJoin(right, g::joined, w, how);
        };
    }

    private KStream<String, String> streamAndTable(final String op, final Composed.Functions g) {
        final KStream<String, String> left = of(0);
        final KTable<String, String> right = of(1);
        Joined<String, String, String> how = named() || node.has("grace") ? Joined.with(S, S, S) : null;
        how = named() ? how.withName(text("named")) : how;
        how = node.has("grace") ? how.withGracePeriod(ms(node.get("grace"))) : how;
        if (op.equals("join.table")) {
            return how == null ? left.join(right, g::joined) : left.join(right, g::joined, how);
        }
        return how == null ? left.leftJoin(right, g::joined) : left.leftJoin(right, g::joined, how);
    }

    private KStream<String, String> streamAndGlobal(final String op, final Composed.Functions g) {
        final KStream<String, String> left = of(0);
        final GlobalKTable<String, String> right = of(1);
        final Composed.Functions keys = new Composed.Functions(id, text("key"), false, false);
        if (op.equals("join.global")) {
            return named() ? left.join(right, keys::key, g::joined, name()) : left.join(right, keys::key, g::joined);
        }
        return named() ? left.leftJoin(right, keys::key, g::joined, name()) : left.leftJoin(right, keys::key, g::joined);
    }

    private KTable<String, String> tables(final String op, final Composed.Functions g) {
        final KTable<String, String> l = of(0);
        final KTable<String, String> r = of(1);
        if (op.equals("join.tables")) {
            return stored() ? named() ? l.join(r, g::joined, name(), keyValue(S)) : l.join(r, g::joined, keyValue(S))
                : named() ? l.join(r, g::joined, name()) : l.join(r, g::joined);
        }
        if (op.equals("join.tables_left")) {
            return stored() ? named() ? l.leftJoin(r, g::joined, name(), keyValue(S)) : l.leftJoin(r, g::joined, keyValue(S))
                : named() ? l.leftJoin(r, g::joined, name()) : l.leftJoin(r, g::joined);
        }
        return stored() ? named() ? l.outerJoin(r, g::joined, name(), keyValue(S)) : l.outerJoin(r, g::joined, keyValue(S))
            : named() ? l.outerJoin(r, g::joined, name()) : l.outerJoin(r, g::joined);
    }

    private KTable<String, String> foreign(final String op, final Composed.Functions g) {
        final KTable<String, String> l = of(0);
        final KTable<String, String> r = of(1);
        final Composed.Functions keys = new Composed.Functions(id, text("key"), false, false);
        final java.util.function.Function<String, String> key = v -> keys.key(null, v);
        final TableJoined<String, String> how = named() ? TableJoined.as(text("named")) : null;
        if (op.equals("join.foreign")) {
            return stored() ? named() ? l.join(r, key, g::joined, how, keyValue(S)) : l.join(r, key, g::joined, keyValue(S))
                : named() ? l.join(r, key, g::joined, how) : l.join(r, key, g::joined);
        }
        return stored() ? named() ? l.leftJoin(r, key, g::joined, how, keyValue(S)) : l.leftJoin(r, key, g::joined, keyValue(S))
            : named() ? l.leftJoin(r, key, g::joined, how) : l.leftJoin(r, key, g::joined);
    }

    // ------------------------------------------------------------------ aggregations of streams

    private Object aggregated(final String op) {
        final String kind = node.has("window") ? node.get("window").get("type").asText() : "none";
        if (op.equals("group.cogroup")) {
            return cogrouped(kind);
        }
        final KGroupedStream<String, String> groups = of(0);
        return switch (kind) {
            case "none" -> plain(op, groups);
            case "session" -> ofSessions(op, groups.windowedBy(sessionWindows()).emitStrategy(emits()));
            case "sliding" -> ofWindows(op, groups.windowedBy(slidingWindows()).emitStrategy(emits()));
            case "unlimited" -> ofWindows(op, groups.windowedBy(UnlimitedWindows.of().startOn(Instant.ofEpochMilli(number("start")))));
            default -> ofWindows(op, groups.windowedBy(timeWindows()).emitStrategy(emits()));
        };
    }

    private EmitStrategy emits() {
        return node.path("final").asBoolean() ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate();
    }

    private TimeWindows timeWindows() {
        final JsonNode w = node.get("window");
        final TimeWindows windows = TimeWindows.ofSizeAndGrace(ms(w.get("size")), ms(w.get("grace")));
        return w.has("advance") ? windows.advanceBy(ms(w.get("advance"))) : windows;
    }

    private SlidingWindows slidingWindows() {
        return SlidingWindows.ofTimeDifferenceAndGrace(ms(node.get("window").get("size")), ms(node.get("window").get("grace")));
    }

    private SessionWindows sessionWindows() {
        return SessionWindows.ofInactivityGapAndGrace(ms(node.get("window").get("size")), ms(node.get("window").get("grace")));
    }

    private KTable<String, String> plain(final String op, final KGroupedStream<String, String> groups) {
        final Composed.Functions g = f;
        switch (op) {
            case "group.count":
                final Serde<Long> longs = Serdes.Long();
                final KTable<String, Long> n = stored() ? named() ? groups.count(name(), keyValue(longs)) : groups.count(keyValue(longs))
                    : named() ? groups.count(name()) : groups.count();
                return n.mapValues(v -> v == null ? null : "n" + v);
            case "group.reduce":
                return stored() ? named() ? groups.reduce(g::added, name(), keyValue(S)) : groups.reduce(g::added, keyValue(S))
                    : groups.reduce(g::added);
            default:
                return stored() ? named() ? groups.aggregate(() -> "", (k, v, a) -> g.added(a, v), name(), keyValue(S))
                    : groups.aggregate(() -> "", (k, v, a) -> g.added(a, v), keyValue(S)) : groups.aggregate(() -> "", (k, v, a) -> g.added(a, v));
        }
    }

    private KTable<Windowed<String>, String> ofWindows(final String op, final TimeWindowedKStream<String, String> groups) {
        final Composed.Functions g = f;
        switch (op) {
            case "group.count":
                final Serde<Long> longs = Serdes.Long();
                final KTable<Windowed<String>, Long> n = stored() ? named() ? groups.count(name(), windows(longs)) : groups.count(windows(longs))
                    : named() ? groups.count(name()) : groups.count();
                return n.mapValues(v -> v == null ? null : "n" + v);
            case "group.reduce":
                return stored() ? named() ? groups.reduce(g::added, name(), windows(S)) : groups.reduce(g::added, windows(S))
                    : named() ? groups.reduce(g::added, name()) : groups.reduce(g::added);
            default:
                return stored() ? named() ? groups.aggregate(() -> "", (k, v, a) -> g.added(a, v), name(), windows(S))
                    : groups.aggregate(() -> "", (k, v, a) -> g.added(a, v), windows(S))
                    : named() ? groups.aggregate(() -> "", (k, v, a) -> g.added(a, v), name()) : groups.aggregate(() -> "", (k, v, a) -> g.added(a, v));
        }
    }

    private KTable<Windowed<String>, String> ofSessions(final String op, final SessionWindowedKStream<String, String> groups) {
        final Composed.Functions g = f;
        switch (op) {
            case "group.count":
                final Serde<Long> longs = Serdes.Long();
                final KTable<Windowed<String>, Long> n = stored() ? named() ? groups.count(name(), sessions(longs)) : groups.count(sessions(longs))
                    : named() ? groups.count(name()) : groups.count();
                return n.mapValues(v -> v == null ? null : "n" + v);
            case "group.reduce":
                return stored() ? named() ? groups.reduce(g::added, name(), sessions(S)) : groups.reduce(g::added, sessions(S))
                    : named() ? groups.reduce(g::added, name()) : groups.reduce(g::added);
            default:
                return stored()
                    ? named() ? groups.aggregate(() -> "", (k, v, a) -> g.added(a, v), (k, x, y) -> g.merged(x, y), name(), sessions(S))
                        : groups.aggregate(() -> "", (k, v, a) -> g.added(a, v), (k, x, y) -> g.merged(x, y), sessions(S))
                    : named() ? groups.aggregate(() -> "", (k, v, a) -> g.added(a, v), (k, x, y) -> g.merged(x, y), name())
                        : groups.aggregate(() -> "", (k, v, a) -> g.added(a, v), (k, x, y) -> g.merged(x, y));
        }
    }

    private Object cogrouped(final String kind) {
        final Composed.Functions g = f;
        final KGroupedStream<String, String> first = of(0);
        CogroupedKStream<String, String> all = first.cogroup((k, v, a) -> g.added(a, v));
        for (int i = 1; i < node.get("of").size(); i++) {
            final KGroupedStream<String, String> next = of(i);
            all = all.cogroup(next, (k, v, a) -> g.added(a, v));
        }
        if (kind.equals("none")) {
            return stored() ? named() ? all.aggregate(() -> "", name(), keyValue(S)) : all.aggregate(() -> "", keyValue(S))
                : named() ? all.aggregate(() -> "", name()) : all.aggregate(() -> "");
        }
        if (kind.equals("session")) {
            final var groups = all.windowedBy(sessionWindows());
            return stored() ? named() ? groups.aggregate(() -> "", (k, x, y) -> g.merged(x, y), name(), sessions(S))
                : groups.aggregate(() -> "", (k, x, y) -> g.merged(x, y), sessions(S))
                : named() ? groups.aggregate(() -> "", (k, x, y) -> g.merged(x, y), name()) : groups.aggregate(() -> "", (k, x, y) -> g.merged(x, y));
        }
        final var groups = kind.equals("sliding") ? all.windowedBy(slidingWindows()) : all.windowedBy(timeWindows());
        return stored() ? named() ? groups.aggregate(() -> "", name(), windows(S)) : groups.aggregate(() -> "", windows(S))
            : named() ? groups.aggregate(() -> "", name()) : groups.aggregate(() -> "");
    }

    // ------------------------------------------------------------------ tables

    private Object ofTable(final String op) {
        final Composed.Functions g = f;
        final KTable<String, String> t = of(0);
        switch (op) {
            case "table.filter":
                return stored() ? named() ? t.filter(g::test, name(), keyValue(S)) : t.filter(g::test, keyValue(S))
                    : named() ? t.filter(g::test, name()) : t.filter(g::test);
            case "table.filter_not":
                return stored() ? named() ? t.filterNot(g::test, name(), keyValue(S)) : t.filterNot(g::test, keyValue(S))
                    : named() ? t.filterNot(g::test, name()) : t.filterNot(g::test);
            case "table.values":
                return stored() ? named() ? t.mapValues(g::value, name(), keyValue(S)) : t.mapValues(g::value, keyValue(S))
                    : named() ? t.mapValues(g::value, name()) : t.mapValues(g::value);
            case "table.values_with_key":
                return stored() ? named() ? t.mapValues(g::valueOfKey, name(), keyValue(S)) : t.mapValues(g::valueOfKey, keyValue(S))
                    : named() ? t.mapValues(g::valueOfKey, name()) : t.mapValues(g::valueOfKey);
            case "table.transform":
                return stored() ? named() ? t.transformValues(() -> new Transforms(g), keyValue(S), name()) : t.transformValues(() -> new Transforms(g), keyValue(S))
                    : named() ? t.transformValues(() -> new Transforms(g), name()) : t.transformValues(() -> new Transforms(g));
            case "table.suppress":
                return t.suppress(suppressed());
            case "table.to_stream":
                return named() ? t.toStream(name()) : t.toStream();
            case "table.to_stream_by":
                return named() ? t.toStream(g::key, name()) : t.toStream(g::key);
            case "table.group_by":
                return named() ? t.groupBy((k, v) -> KeyValue.pair(g.key(k, v), v), Grouped.as(text("named")))
                    : t.groupBy((k, v) -> KeyValue.pair(g.key(k, v), v));
            default:
                throw new IllegalArgumentException(op);
        }
    }

    private static final class Transforms implements ValueTransformerWithKey<String, String, String> {
        private final Composed.Functions f;

        Transforms(final Composed.Functions f) {
            this.f = f;
        }

        @Override
        public void init(final org.apache.kafka.streams.processor.ProcessorContext context) { }

        @Override
        public String transform(final String key, final String value) {
            return f.valueOfKey(key, value);
        }

        @Override
        public void close() { }
    }

    private <K> Suppressed<K> suppressed() {
        final long most = node.path("records").asLong(0);
        final Suppressed<K> how = Suppressed.untilTimeLimit(ms(node.get("wait")),
            most == 0 ? Suppressed.BufferConfig.unbounded() : Suppressed.BufferConfig.maxRecords(most).emitEarlyWhenFull());
        return named() ? how.withName(text("named")) : how;
    }

    private Object regrouped(final String op) {
        final Composed.Functions g = f;
        final KGroupedTable<String, String> t = of(0);
        switch (op) {
            case "regrouped.count":
                final Serde<Long> longs = Serdes.Long();
                final KTable<String, Long> n = stored() ? named() ? t.count(name(), keyValue(longs)) : t.count(keyValue(longs))
                    : named() ? t.count(name()) : t.count();
                return n.mapValues(v -> v == null ? null : "n" + v);
            case "regrouped.reduce":
                return stored() ? named() ? t.reduce(g::added, g::taken, name(), keyValue(S)) : t.reduce(g::added, g::taken, keyValue(S))
                    : t.reduce(g::added, g::taken);
            default:
                return stored()
                    ? named() ? t.aggregate(() -> "", (k, v, a) -> g.added(a, v), (k, v, a) -> g.taken(a, v), name(), keyValue(S))
                        : t.aggregate(() -> "", (k, v, a) -> g.added(a, v), (k, v, a) -> g.taken(a, v), keyValue(S))
                    : named() ? t.aggregate(() -> "", (k, v, a) -> g.added(a, v), (k, v, a) -> g.taken(a, v), name())
                        : t.aggregate(() -> "", (k, v, a) -> g.added(a, v), (k, v, a) -> g.taken(a, v));
        }
    }

    // ------------------------------------------------------------------ windowed tables

    private static String flat(final Windowed<String> w) {
        return w.key() + "@" + w.window().start() + "-" + w.window().end();
    }

    private Object ofWindowed(final String op) {
        final Composed.Functions g = f;
        final KTable<Windowed<String>, String> t = of(0);
        switch (op) {
            case "windowed.filter":
                return named() ? t.filter((w, v) -> g.test(w.key(), v), name()) : t.filter((w, v) -> g.test(w.key(), v));
            case "windowed.values":
                return named() ? t.mapValues(g::value, name()) : t.mapValues(g::value);
            case "windowed.suppress":
                return t.suppress(suppressed());
            case "windowed.close":
                final Suppressed<Windowed<?>> how = Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded());
                return t.suppress(named() ? how.withName(text("named")) : how);
            case "windowed.to_stream":
                return named() ? t.toStream((w, v) -> flat(w), name()) : t.toStream((w, v) -> flat(w));
            case "windowed.group_by":
                return named() ? t.groupBy((w, v) -> KeyValue.pair(w.key(), g.value(v)), Grouped.with(text("named"), S, S))
                    : t.groupBy((w, v) -> KeyValue.pair(w.key(), g.value(v)), Grouped.with(S, S));
            default:
                throw new IllegalArgumentException(op);
        }
    }
}
