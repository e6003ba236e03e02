package parity.stores;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.streams.internals.metrics.ClientMetrics;

/** Writes one file per store variant and sequence group, and the list of differences between the engines. */
final class StoreRecorder {
    private final Path directory;
    private final List<Object> differences = new ArrayList<>();
    private final Map<String, Integer> orders = new TreeMap<>();

    StoreRecorder(final Path directory) {
        this.directory = directory;
    }

    static final class Variant {
        final String name;
        final StoreSpec spec;
        final String[] engines;

        Variant(final String name, final StoreSpec spec, final String... engines) {
            this.name = name;
            this.spec = spec;
            this.engines = engines;
        }
    }

    static List<Variant> variants() {
        final List<Variant> out = new ArrayList<>();
        out.add(new Variant("kv", new StoreSpec("kv", "rocksdb"), "rocksdb", "memory"));
        out.add(new Variant("timestamped-kv", new StoreSpec("timestamped-kv", "rocksdb"), "rocksdb", "memory", "rocksdb-plain"));
        out.add(new Variant("headers-kv", new StoreSpec("headers-kv", "rocksdb"), "rocksdb", "memory"));
        out.add(new Variant("versioned", StoreSpec.versioned(60_000, -1), "rocksdb"));
        out.add(new Variant("versioned-narrow", StoreSpec.versioned(100, 30), "rocksdb"));
        out.add(new Variant("versioned-wide", StoreSpec.versioned(300_000, 1_000_000), "rocksdb"));
        out.add(new Variant("window", StoreSpec.window("window", "rocksdb", 60_000, 10_000, false), "rocksdb", "memory"));
        out.add(new Variant("window-long", StoreSpec.window("window", "rocksdb", 200_000, 50_000, false), "rocksdb", "memory"));
        out.add(new Variant("window-duplicates", StoreSpec.window("window", "rocksdb", 60_000, 10_000, true), "rocksdb", "memory"));
        out.add(new Variant("timestamped-window", StoreSpec.window("timestamped-window", "rocksdb", 60_000, 10_000, false),
            "rocksdb", "memory", "rocksdb-time-ordered"));
        out.add(new Variant("headers-window", StoreSpec.window("headers-window", "rocksdb", 60_000, 10_000, false), "rocksdb", "memory"));
        out.add(new Variant("session", StoreSpec.session("session", "rocksdb", 60_000), "rocksdb", "memory", "rocksdb-time-ordered"));
        out.add(new Variant("session-long", StoreSpec.session("session", "rocksdb", 200_000), "rocksdb", "memory"));
        out.add(new Variant("headers-session", StoreSpec.session("headers-session", "rocksdb", 60_000), "rocksdb", "memory"));
        out.add(new Variant("cached-kv", new StoreSpec("kv", "rocksdb").cached(100_000), "rocksdb", "memory"));
        out.add(new Variant("cached-timestamped-kv", new StoreSpec("timestamped-kv", "rocksdb").cached(100_000), "rocksdb", "memory"));
        for (final long retention : new long[] {60_000, 600_000}) {
            final String suffix = retention == 60_000 ? "" : "-long";
            out.add(new Variant("cached-window" + suffix,
                StoreSpec.window("window", "rocksdb", retention, 10_000, false).cached(100_000), "rocksdb", "memory"));
            out.add(new Variant("cached-timestamped-window" + suffix,
                StoreSpec.window("timestamped-window", "rocksdb", retention, 10_000, false).cached(100_000), "rocksdb", "memory"));
            out.add(new Variant("cached-session" + suffix,
                StoreSpec.session("session", "rocksdb", retention).cached(100_000), "rocksdb", "memory"));
        }
        return out;
    }

    private static List<OpList> scenarios(final Variant variant) {
        final StoreSpec spec = variant.spec;
        if (spec.caching) {
            return variant.name.endsWith("-long") ? List.of() : Scenarios.cached(spec);
        }
        if (spec.isVersioned()) {
            return variant.name.equals("versioned") ? Scenarios.versioned() : List.of();
        }
        if (spec.isWindow()) {
            return spec.retainDuplicates ? List.of(Scenarios.duplicates(spec))
                : spec.retentionMs == 60_000 ? Scenarios.window(spec) : List.of();
        }
        if (spec.isSession()) {
            return spec.retentionMs == 60_000 ? Scenarios.session(spec) : List.of();
        }
        return Scenarios.keyValue(spec);
    }

    void scenarios() {
        for (final Variant variant : variants()) {
            record(variant, "scenarios", scenarios(variant));
        }
        final StoreSpec lru = new StoreSpec("kv", "lru");
        lru.maxEntries = 3;
        record(new Variant("lru-kv", lru, "lru"), "scenarios", List.of(Scenarios.lru(lru)));
        final StoreSpec lists = new StoreSpec("list-kv", "rocksdb");
        record(new Variant("list-kv", lists, "rocksdb", "memory"), "scenarios", List.of(Scenarios.lists(lists)));
        for (final StoreSpec spec : new StoreSpec[] {new StoreSpec("kv", "rocksdb"), new StoreSpec("timestamped-kv", "rocksdb"),
            StoreSpec.versioned(60_000, -1), StoreSpec.window("window", "rocksdb", 60_000, 10_000, false),
            StoreSpec.session("session", "rocksdb", 60_000)}) {
            spec.consistency = true;
            final String[] engines = spec.isVersioned() ? new String[] {"rocksdb"} : new String[] {"rocksdb", "memory"};
            record(new Variant("consistency-" + spec.kind, spec, engines), "scenarios", List.of(Scenarios.consistency(spec)));
        }
        final StoreSpec small = new StoreSpec("timestamped-kv", "rocksdb").cached(500);
        record(new Variant("cached-small-timestamped-kv", small, "rocksdb", "memory"), "scenarios", List.of(Scenarios.eviction(small)));
    }

    /** Records random calls on the kinds of stores that are named; null means all. */
    void random(final long seed, final Set<String> names) {
        for (final Variant variant : variants()) {
            if (names != null && !names.contains(variant.name) || variant.spec.caching && variant.spec.retentionMs == 60_000) {
                continue;
            }
            final int count = variant.spec.isVersioned() ? 300 : variant.spec.caching ? 200 : 240;
            record(variant, "seed-" + seed, List.of(RandomOps.draw("seed-" + seed, seed, variant.spec, count)));
        }
    }

    private void record(final Variant variant, final String group, final List<OpList> lists) {
        if (lists.isEmpty()) {
            return;
        }
        List<Map<String, Object>> first = null;
        for (final String engine : variant.engines) {
            final List<Map<String, Object>> traces = new ArrayList<>();
            for (final OpList list : lists) {
                final Map<String, Object> trace = new StoreRun(variant.spec.on(engine)).trace(list);
                if (variant.spec.caching) {
                    final StoreSpec plain = variant.spec.on(engine);
                    plain.caching = false;
                    markCacheEffects(trace, new StoreRun(plain).trace(list));
                }
                traces.add(trace);
            }
            final String name = variant.name + "." + engine + "." + group;
            Json.save(directory.resolve(name + ".json"), Json.obj("kafka_version", ClientMetrics.version(), "traces", traces), 4);
            if (first == null) {
                first = traces;
            } else {
                compare(variant.name, group, variant.engines[0], first, engine, traces);
            }
        }
    }

    /** A cache should not change what a read returns; where it does, the result without a cache is added. */
    private static void markCacheEffects(final Map<String, Object> cached, final Map<String, Object> plain) {
        for (final String field : new String[] {"ops", "contents"}) {
            final List<?> reads = (List<?>) cached.get(field);
            final List<?> plainReads = (List<?>) plain.get(field);
            for (int i = 0; i < reads.size(); i++) {
                @SuppressWarnings("unchecked")
                final Map<String, Object> read = (Map<String, Object>) reads.get(i);
                final Object expected = ((Map<?, ?>) plainReads.get(i)).get("result");
                if (!Json.compact(read.get("result")).equals(Json.compact(expected))) {
                    read.put("uncached_result", expected);
                }
            }
        }
    }

    private void compare(final String variant, final String group, final String engine, final List<Map<String, Object>> left,
                         final String otherEngine, final List<Map<String, Object>> right) {
        for (int t = 0; t < left.size(); t++) {
            final String trace = (String) left.get(t).get("name");
            final List<?> ops = (List<?>) left.get(t).get("ops");
            final List<?> others = (List<?>) right.get(t).get("ops");
            for (int i = 0; i < ops.size(); i++) {
                final Map<?, ?> op = (Map<?, ?>) ops.get(i);
                for (final String field : new String[] {"result", "forwarded", "stream_time"}) {
                    final Map<String, Object> where = Json.obj("variant", variant, "group", group, "trace", trace, "op", i,
                        "call", op.get("op"), "args", op.get("args"), "field", field);
                    difference(where, engine, op.get(field), otherEngine, ((Map<?, ?>) others.get(i)).get(field), true);
                }
            }
            for (final String field : new String[] {"contents", "restored"}) {
                final List<?> reads = (List<?>) left.get(t).get(field);
                final List<?> otherReads = (List<?>) right.get(t).get(field);
                for (int i = 0; reads != null && i < reads.size(); i++) {
                    final Map<String, Object> where = Json.obj("variant", variant, "group", group, "trace", trace, "field", field);
                    difference(where, engine, ((Map<?, ?>) reads.get(i)).get("result"),
                        otherEngine, ((Map<?, ?>) otherReads.get(i)).get("result"), false);
                }
            }
            for (final String field : new String[] {"changelog", "position"}) {
                final Map<String, Object> where = Json.obj("variant", variant, "group", group, "trace", trace, "field", field);
                difference(where, engine, left.get(t).get(field), otherEngine, right.get(t).get(field), false);
            }
        }
    }

    /** Counts a difference of order; lists any other difference, with both values if they are short. */
    private void difference(final Map<String, Object> where, final String engine, final Object value,
                            final String otherEngine, final Object otherValue, final boolean show) {
        final String text = Json.compact(value);
        final String otherText = Json.compact(otherValue);
        if (text.equals(otherText)) {
            return;
        }
        final boolean order = value instanceof List && otherValue instanceof List && sorted(value).equals(sorted(otherValue));
        if (order) {
            final String call = where.get("call") == null ? (String) where.get("field") : (String) where.get("call");
            orders.merge(where.get("variant") + ": " + engine + " and " + otherEngine + ": " + call, 1, Integer::sum);
            return;
        }
        where.put("engines", Json.list(engine, otherEngine));
        if (show && text.length() + otherText.length() < 1_500) {
            where.put(engine, value);
            where.put(otherEngine, otherValue);
        }
        differences.add(where);
    }

    private static List<String> sorted(final Object rows) {
        final List<String> out = new ArrayList<>();
        ((List<?>) rows).forEach(row -> out.add(Json.compact(row)));
        out.sort(null);
        return out;
    }

    void saveDifferences() {
        Json.save(directory.resolve("differences.json"), Json.obj("kafka_version", ClientMetrics.version(), "same_rows_in_another_order", orders, "differences", differences), 2);
    }
}
