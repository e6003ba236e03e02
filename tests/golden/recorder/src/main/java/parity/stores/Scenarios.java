package parity.stores;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Hand-written sequences, one per corner. */
final class Scenarios {
    private static final long MAX = Long.MAX_VALUE;

    private Scenarios() { }

    /** The value arguments for this kind of store: value, and timestamp and headers where it has them. */
    private static Object[] with(final StoreSpec spec, final Object[] first, final String value, final long timestamp,
                                 final Object... headers) {
        final List<Object> out = new ArrayList<>(Arrays.asList(first));
        out.add("value");
        out.add(value);
        if (spec.hasTimestamps()) {
            out.add("timestamp");
            out.add(timestamp);
        }
        if (spec.hasHeaders()) {
            out.add("headers");
            out.add(Json.list(headers));
        }
        return out.toArray();
    }

    private static Object[] kv(final StoreSpec spec, final String key, final String value, final long timestamp,
                               final Object... headers) {
        return with(spec, new Object[] {"key", key}, value, timestamp, headers);
    }

    private static Object entry(final StoreSpec spec, final String key, final String value, final long timestamp) {
        return Json.obj(kv(spec, key, value, timestamp));
    }

    static List<OpList> keyValue(final StoreSpec spec) {
        final List<OpList> out = new ArrayList<>();

        OpList list = new OpList("basics", "put, overwrite, delete twice, put null, putIfAbsent, putAll");
        list.at(10).op("get", "key", "a");
        list.op("put", kv(spec, "a", "1", 5)).op("get", "key", "a");
        list.at(11).op("put", kv(spec, "a", "2", 9)).op("get", "key", "a");
        list.at(12).op("put", kv(spec, "a", "older", 2)).op("get", "key", "a");
        list.at(13).op("delete", "key", "a").op("get", "key", "a");
        list.at(14).op("delete", "key", "a");
        list.at(15).op("put_if_absent", kv(spec, "b", "first", 15)).op("put_if_absent", kv(spec, "b", "second", 16));
        list.at(16).op("put", "key", "b", "value", null, "timestamp", 16L).op("get", "key", "b");
        list.at(17).op("put", "key", "never", "value", null, "timestamp", 17L);
        list.at(18).op("put_if_absent", "key", "n", "value", null, "timestamp", 18L);
        list.at(19).op("put_all", "entries", Json.list(
            entry(spec, "x", "1", 19), entry(spec, "y", "2", 3), entry(spec, "x", "3", 18)));
        if (!spec.hasHeaders()) {
            list.at(20).op("put_all", "entries", Json.list(
                entry(spec, "x", null, 20), entry(spec, "y", "4", 20), entry(spec, "never", null, 20)));
        }
        list.at(21).op("put_all", "entries", Json.list());
        list.op("all");
        list.at(22).op("put", kv(spec, "empty", "", 22)).op("get", "key", "empty").op("all");
        list.op("put", kv(spec, null, "1", 22)).op("get", "key", null).op("delete", "key", null);
        list.op("put_if_absent", kv(spec, null, "1", 22));
        list.op("put_all", "entries", Json.list(entry(spec, "p", "1", 22), entry(spec, null, "2", 22)));
        list.op("all");
        out.add(list);

        list = new OpList("ranges", "open bounds, bounds that are absent, from above to, prefixes of one another, byte order of UTF-8");
        long time = 100;
        for (final String key : new String[] {"b", "a", "ab", "aa", "", "\ue000", "\ud83d\ude00", "\u00e9", "z", "a\u0000", "\u007f"}) {
            list.at(time).op("put", kv(spec, key, "v-" + key.length(), time));
            time += 10;
        }
        list.op("all").op("reverse_all");
        for (final String call : new String[] {"range", "reverse_range"}) {
            list.op(call, "from", "a", "to", "b").op(call, "from", null, "to", "ab").op(call, "from", "ab", "to", null)
                .op(call, "from", null, "to", null).op(call, "from", "b", "to", "a").op(call, "from", "aaa", "to", "abz")
                .op(call, "from", "a", "to", "a").op(call, "from", "q", "to", "q").op(call, "from", "", "to", "a")
                .op(call, "from", "", "to", "").op(call, "from", "zz", "to", null).op(call, "from", "z", "to", "\ud83d\ude00")
                .op(call, "from", "\ue000", "to", "\ud83d\ude00").op(call, "from", "\ud83d\ude00", "to", "\ue000");
        }
        list.op("prefix_scan", "prefix", "a").op("prefix_scan", "prefix", "aa").op("prefix_scan", "prefix", "q")
            .op("prefix_scan", "prefix", "\u00e9").op("prefix_scan", "prefix", "a\u0000").op("prefix_scan", "prefix", "\ud83d\ude00")
            .op("prefix_scan", "prefix", "");
        if (!spec.engine.startsWith("rocksdb")) {
            list.op("approximate_num_entries");
        }
        out.add(list);

        list = new OpList("iterating", "an open iterator while the store is written: what it sees, peek, exhaustion, close");
        for (final String key : new String[] {"a", "b", "c", "d", "e", "f"}) {
            list.op("put", kv(spec, key, key + "0", 1));
        }
        list.op("open", "id", 1L, "call", "all").op("open", "id", 2L, "call", "reverse_range", "from", "b", "to", "e");
        list.op("next", "id", 1L).op("peek", "id", 1L).op("next", "id", 2L);
        list.op("put", kv(spec, "c", "c1", 2)).op("delete", "key", "d").op("put", kv(spec, "bb", "new", 2));
        list.op("delete", "key", "b").op("put", kv(spec, "zz", "new", 2));
        list.op("next", "id", 1L).op("next", "id", 1L).op("has_next", "id", 1L).op("next", "id", 1L, "count", 9L);
        list.op("has_next", "id", 1L).op("next", "id", 2L, "count", 9L);
        list.op("close", "id", 1L).op("close", "id", 2L);
        list.op("open", "id", 3L, "call", "range", "from", "x", "to", "y").op("has_next", "id", 3L).op("peek", "id", 3L)
            .op("next", "id", 3L).op("close", "id", 3L);
        list.op("open", "id", 4L, "call", "all").op("next", "id", 4L).op("close", "id", 4L).op("next", "id", 4L);
        list.op("open", "id", 5L, "call", "prefix_scan", "prefix", "b").op("put", kv(spec, "ba", "late", 3)).op("next", "id", 5L, "count", 9L)
            .op("close", "id", 5L);
        list.op("all");
        out.add(list);

        list = new OpList("queries", "IQv2: key and range queries, their order and bounds; queries of another kind are refused");
        for (final String key : new String[] {"a", "b", "c", "d"}) {
            list.op("put", kv(spec, key, key + "0", 40));
        }
        for (final String prefix : spec.hasTimestamps() ? new String[] {"", "Timestamped"} : new String[] {""}) {
            list.op("query", "type", prefix + "KeyQuery", "key", "b").op("query", "type", prefix + "KeyQuery", "key", "q");
            for (final String order : new String[] {null, "asc", "desc"}) {
                list.op("query", "type", prefix + "RangeQuery", "from", "b", "to", "c", "order", order)
                    .op("query", "type", prefix + "RangeQuery", "from", null, "to", "b", "order", order)
                    .op("query", "type", prefix + "RangeQuery", "from", "c", "to", null, "order", order)
                    .op("query", "type", prefix + "RangeQuery", "from", null, "to", null, "order", order)
                    .op("query", "type", prefix + "RangeQuery", "from", "c", "to", "b", "order", order);
            }
        }
        list.op("query", "type", "TimestampedKeyQuery", "key", "b");
        list.op("query", "type", "TimestampedRangeQuery", "from", "a", "to", "b");
        list.op("query", "type", "WindowKeyQuery", "key", "a", "from", 0L, "to", 10L);
        list.op("query", "type", "WindowRangeQuery", "from", 0L, "to", 10L);
        list.op("query", "type", "WindowRangeQuery", "key", "a");
        list.op("query", "type", "VersionedKeyQuery", "key", "a");
        list.op("query", "type", "MultiVersionedKeyQuery", "key", "a");
        out.add(list);

        if (spec.hasTimestamps()) {
            list = new OpList("timestamps", "timestamps that go back, zero, minus one, very large; a delete logs the record's own timestamp");
            list.at(500).op("put", kv(spec, "a", "1", 700)).op("put", kv(spec, "a", "2", 300)).op("get", "key", "a");
            list.at(501).op("put", kv(spec, "z", "zero", 0)).op("put", kv(spec, "m", "max", MAX)).op("all");
            list.at(502).op("delete", "key", "a").op("delete", "key", "a");
            list.at(503).op("put_if_absent", kv(spec, "a", "3", 100)).op("put_if_absent", kv(spec, "a", "4", 900));
            list.at(504).op("put", kv(spec, "n", "minus one", -1)).op("get", "key", "n").op("all");
            out.add(list);
        }
        if (spec.hasHeaders()) {
            list = new OpList("headers", "headers of a value: order, duplicates, null values; a tombstone with headers");
            list.at(600).op("put", kv(spec, "a", "1", 600, Json.list("h", "01"), Json.list("h", "02"), Json.list("g", null)));
            list.op("get", "key", "a").op("put", kv(spec, "b", "2", 601)).op("get", "key", "b");
            list.op("put", kv(spec, "\u00e4", "3", 602, Json.list("\u00fc", ""))).op("all");
            list.op("put", kv(spec, "a", null, 603, Json.list("gone", "ff"))).op("get", "key", "a").op("delete", "key", "b");
            list.op("put_if_absent", kv(spec, "a", "4", 604, Json.list("h", "04"))).op("all");
            out.add(list);
        }
        return out;
    }

    static OpList lru(final StoreSpec spec) {
        final OpList list = new OpList("eviction", "three entries at most; a read refreshes; an eviction logs a tombstone");
        list.op("put", kv(spec, "a", "1", 1)).op("put", kv(spec, "b", "2", 2)).op("put", kv(spec, "c", "3", 3));
        list.op("all").op("approximate_num_entries");
        list.op("get", "key", "a").op("put", kv(spec, "d", "4", 4)).op("all").op("get", "key", "b");
        list.op("put", kv(spec, "c", "5", 5)).op("put", kv(spec, "e", "6", 6)).op("all").op("reverse_all");
        list.op("range", "from", "a", "to", "d").op("reverse_range", "from", "a", "to", "z").op("prefix_scan", "prefix", "e");
        list.op("put_if_absent", kv(spec, "f", "7", 7)).op("put_if_absent", kv(spec, "f", "8", 8)).op("all");
        list.op("put_all", "entries", Json.list(entry(spec, "g", "9", 9), entry(spec, "h", "10", 9), entry(spec, "i", "11", 9)));
        list.op("all").op("delete", "key", "h").op("put", kv(spec, "j", "12", 10)).op("all");
        list.op("put", "key", "j", "value", null, "timestamp", 11L).op("all").op("approximate_num_entries");
        return list;
    }

    /** For a history of 60 s kept in segments of 20 s. */
    static List<OpList> versioned() {
        final List<OpList> out = new ArrayList<>();

        OpList list = new OpList("put_results", "what put returns: -1 latest, a later version's timestamp, or the lowest long when dropped");
        put(list, "k", "v10", 1_000).op("get", "key", "k");
        put(list, "k", "v20", 2_000);
        put(list, "k", "v15", 1_500);
        put(list, "k", "v05", 500);
        put(list, "k", "v20 again", 2_000);
        put(list, "k", "v10 again", 1_000);
        put(list, "k", null, 1_200);
        put(list, "k", null, 3_000).op("get", "key", "k");
        put(list, "k", "v25", 2_500).op("get", "key", "k");
        put(list, "k", "v40", 4_000).op("get", "key", "k");
        asOf(list, "k", 0, 499, 500, 999, 1_000, 1_199, 1_200, 1_499, 1_500, 1_999, 2_000, 2_499, 2_500, 2_999, 3_000, 3_999, 4_000, MAX);
        history(list, "k");
        list.op("get", "key", "none").op("get_as_of", "key", "none", "as_of", 1_000L);
        put(list, null, "v", 1).op("get", "key", null).op("get_as_of", "key", null, "as_of", 1L).op("delete", "key", null, "timestamp", 1L);
        out.add(list);

        list = new OpList("tombstones", "tombstones first, in the middle, twice, at equal timestamps; versions inserted below a tombstone");
        put(list, "t", null, 1_000).op("get", "key", "t");
        put(list, "t", "below", 500).op("get", "key", "t");
        asOf(list, "t", 499, 500, 999, 1_000, 2_000);
        put(list, "t", null, 1_000);
        put(list, "t", "same time", 1_000).op("get", "key", "t");
        put(list, "t", null, 1_000).op("get", "key", "t");
        put(list, "t", null, 2_000);
        put(list, "t", "between", 1_500);
        asOf(list, "t", 1_000, 1_499, 1_500, 1_999, 2_000);
        put(list, "t", "after", 2_500);
        put(list, "t", null, 2_200);
        history(list, "t");
        put(list, "u", null, 25_000);
        put(list, "u", null, 45_000);
        put(list, "u", "mid", 30_000);
        put(list, "u", "low", 10_000).op("get", "key", "u");
        asOf(list, "u", 9_999, 10_000, 24_999, 25_000, 30_000, 44_999, 45_000);
        history(list, "u");
        put(list, "u", "end", 50_000);
        history(list, "u");
        put(list, "empty", "", 50_000).op("get", "key", "empty");
        put(list, "empty", "x", 50_001);
        history(list, "empty");
        out.add(list);

        list = new OpList("deletes", "delete returns the version it hides; a delete in the past, in an unknown key, at an equal timestamp, too old");
        put(list, "d", "v1", 1_000);
        put(list, "d", "v2", 2_000);
        list.op("delete", "key", "d", "timestamp", 1_500L);
        asOf(list, "d", 1_000, 1_499, 1_500, 2_000);
        list.op("delete", "key", "d", "timestamp", 500L).op("delete", "key", "d", "timestamp", 2_000L).op("get", "key", "d");
        list.op("delete", "key", "d", "timestamp", 3_000L).op("delete", "key", "d", "timestamp", 3_000L);
        list.op("delete", "key", "absent", "timestamp", 100L);
        put(list, "absent", "v", 50);
        history(list, "absent");
        put(list, "other", "now", 200_000);
        list.op("delete", "key", "d", "timestamp", 100_000L);
        history(list, "d");
        out.add(list);

        list = new OpList("segments", "segment boundaries: a version lives in the segment of its end; inserts that move versions between segments");
        put(list, "s", "a", 19_999);
        put(list, "s", "b", 20_000);
        put(list, "s", "c", 39_999);
        put(list, "s", "d", 40_000);
        put(list, "s", "e", 59_999);
        put(list, "s", "f", 60_000);
        history(list, "s");
        put(list, "s", "split c", 39_998);
        put(list, "s", "split a", 10_000);
        put(list, "s", "replace", 40_000);
        history(list, "s");
        put(list, "w", "wide", 1_000);
        put(list, "w", "now", 59_000);
        put(list, "w", "mid", 30_000);
        put(list, "w", "low", 15_000);
        put(list, "w", "replaced mid", 30_000);
        put(list, "w", null, 45_000);
        asOf(list, "w", 999, 1_000, 14_999, 15_000, 29_999, 30_000, 44_999, 45_000, 58_999, 59_000);
        history(list, "w");
        out.add(list);

        list = new OpList("expiry", "stream time moves on: puts below the history are dropped, old versions go, a single old version stays");
        put(list, "old", "only version", 0);
        put(list, "many", "m0", 0);
        put(list, "many", "m1", 10_000);
        put(list, "many", "m2", 20_000);
        put(list, "many", "m3", 60_000);
        asOf(list, "many", 0, 9_999, 10_000, 60_000);
        put(list, "many", "at the limit", 0);
        put(list, "clock", "c", 60_001);
        put(list, "many", "below the limit", 0);
        put(list, "many", "at the limit", 1);
        asOf(list, "many", 0, 1, 2, 9_999, 10_000);
        put(list, "clock", "c", 79_999);
        asOf(list, "many", 0, 9_999, 10_000, 19_998, 19_999, 20_000);
        history(list, "many");
        put(list, "clock", "c", 80_000);
        asOf(list, "many", 9_999, 10_000, 19_999, 20_000, 20_001);
        history(list, "many");
        put(list, "clock", "c", 100_000);
        asOf(list, "many", 39_999, 40_000, 59_999, 60_000);
        history(list, "many");
        list.op("get", "key", "old").op("get_as_of", "key", "old", "as_of", 0L).op("get_as_of", "key", "old", "as_of", 100_000L);
        put(list, "clock", "c", 1_000_000);
        list.op("get", "key", "old").op("get", "key", "many");
        asOf(list, "old", 0, 939_999, 940_000);
        asOf(list, "many", 59_999, 60_000, 939_999, 940_000, 1_000_000);
        history(list, "many");
        put(list, "many", "too old", 939_999);
        put(list, "many", "old but live", 940_000);
        put(list, "old", null, 940_000).op("get", "key", "old");
        history(list, "old");
        put(list, "fresh", null, 939_999);
        put(list, "fresh", null, 940_000);
        history(list, "fresh");
        out.add(list);

        list = new OpList("queries", "IQv2 on versions: bounds, order, unknown key, queries of another kind");
        put(list, "q", "v1", 1_000);
        put(list, "q", "v2", 2_000);
        put(list, "q", null, 3_000);
        put(list, "q", "v4", 4_000);
        put(list, "q", "v5", 25_000);
        put(list, "q", "v6", 50_000);
        for (final String order : new String[] {null, "asc", "desc"}) {
            list.op("query", "type", "MultiVersionedKeyQuery", "key", "q", "order", order);
            for (final long[] bounds : new long[][] {{0, 999}, {0, 1_000}, {1_000, 2_000}, {1_500, 1_500}, {1_999, 4_000}, {2_999, 3_000},
                {3_000, 3_999}, {3_500, 24_999}, {25_000, 49_999}, {50_000, 50_000}, {60_000, 70_000}, {4_000, 1_000}}) {
                list.op("query", "type", "MultiVersionedKeyQuery", "key", "q", "from", bounds[0], "to", bounds[1], "order", order);
            }
            list.op("query", "type", "MultiVersionedKeyQuery", "key", "q", "from", 3_000L, "order", order);
            list.op("query", "type", "MultiVersionedKeyQuery", "key", "q", "to", 3_000L, "order", order);
            list.op("query", "type", "MultiVersionedKeyQuery", "key", "unknown", "order", order);
        }
        list.op("query", "type", "VersionedKeyQuery", "key", "q");
        for (final long time : new long[] {999, 1_000, 2_500, 3_000, 3_999, 4_000, 49_999, 50_000, 99_999}) {
            list.op("query", "type", "VersionedKeyQuery", "key", "q", "as_of", time);
        }
        list.op("query", "type", "VersionedKeyQuery", "key", "unknown");
        put(list, "q", null, 60_000);
        list.op("query", "type", "VersionedKeyQuery", "key", "q");
        history(list, "q");
        list.op("query", "type", "KeyQuery", "key", "q");
        list.op("query", "type", "RangeQuery", "from", "a", "to", "z");
        list.op("query", "type", "TimestampedKeyQuery", "key", "q");
        out.add(list);
        return out;
    }

    private static OpList put(final OpList list, final String key, final String value, final long timestamp) {
        return list.at(timestamp + 7).op("put", "key", key, "value", value, "timestamp", timestamp);
    }

    private static void asOf(final OpList list, final String key, final long... times) {
        for (final long time : times) {
            list.op("get_as_of", "key", key, "as_of", time);
        }
    }

    private static void history(final OpList list, final String key) {
        list.op("query", "type", "MultiVersionedKeyQuery", "key", key, "order", "asc");
    }

    private static Object[] windowed(final StoreSpec spec, final String key, final long start, final String value, final Object... headers) {
        return with(spec, new Object[] {"key", key, "window_start", start}, value, start, headers);
    }

    /** For a retention of 60 s (segments of 60 s) and windows of 10 s. */
    static List<OpList> window(final StoreSpec spec) {
        final List<OpList> out = new ArrayList<>();

        OpList list = new OpList("basics", "put, overwrite, delete, fetch one, unknown keys, keys that are prefixes of one another");
        list.at(5).op("put", windowed(spec, "a", 0, "a0")).op("put", windowed(spec, "a", 10_000, "a1"));
        list.at(20_007).op("put", windowed(spec, "a", 20_000, "a2")).op("put", windowed(spec, "aa", 0, "aa0"));
        list.op("put", windowed(spec, "aa", 20_000, "aa2")).op("put", windowed(spec, "ab", 10_000, "ab1"));
        list.op("put", windowed(spec, "b", 0, "b0")).op("put", windowed(spec, "", 10_000, "empty key"));
        list.op("put", windowed(spec, "\ud83d\ude00", 10_000, "emoji")).op("put", windowed(spec, "\ue000", 10_000, "private"));
        list.op("fetch", "key", "a", "time", 0L).op("fetch", "key", "a", "time", 10_000L).op("fetch", "key", "a", "time", 10_001L)
            .op("fetch", "key", "", "time", 10_000L).op("fetch", "key", "none", "time", 0L).op("fetch", "key", null, "time", 0L);
        for (final String call : new String[] {"fetch_range", "backward_fetch_range"}) {
            list.op(call, "key", "a", "from", 0L, "to", 20_000L).op(call, "key", "a", "from", 1L, "to", 19_999L)
                .op(call, "key", "a", "from", 0L, "to", MAX).op(call, "key", "aa", "from", 0L, "to", 20_000L)
                .op(call, "key", "", "from", 0L, "to", 20_000L).op(call, "key", "a", "from", 20_000L, "to", 0L)
                .op(call, "key", "none", "from", 0L, "to", 20_000L).op(call, "key", null, "from", 0L, "to", 20_000L);
        }
        for (final String call : new String[] {"fetch_keys", "backward_fetch_keys"}) {
            list.op(call, "key_from", "a", "key_to", "ab", "from", 0L, "to", 20_000L)
                .op(call, "key_from", "a", "key_to", "a", "from", 0L, "to", 20_000L)
                .op(call, "key_from", null, "key_to", "aa", "from", 0L, "to", 20_000L)
                .op(call, "key_from", "aa", "key_to", null, "from", 0L, "to", 20_000L)
                .op(call, "key_from", null, "key_to", null, "from", 10_000L, "to", 10_000L)
                .op(call, "key_from", "b", "key_to", "a", "from", 0L, "to", 20_000L)
                .op(call, "key_from", "", "key_to", "b", "from", 5L, "to", 15_000L)
                .op(call, "key_from", "\ue000", "key_to", "\ud83d\ude00", "from", 0L, "to", 20_000L);
        }
        for (final String call : new String[] {"fetch_all", "backward_fetch_all"}) {
            list.op(call, "from", 0L, "to", 20_000L).op(call, "from", 10_000L, "to", 10_000L).op(call, "from", 10_000L, "to", 0L)
                .op(call, "from", 0L, "to", MAX);
        }
        list.op("all").op("backward_all");
        list.at(21_000).op("put", windowed(spec, "a", 10_000, "again")).op("fetch", "key", "a", "time", 10_000L);
        list.at(21_001).op("put", "key", "a", "value", null, "window_start", 10_000L, "timestamp", 10_000L)
            .op("fetch", "key", "a", "time", 10_000L).op("put", "key", "a", "value", null, "window_start", 10_000L, "timestamp", 1L)
            .op("put", "key", "never", "value", null, "window_start", 0L, "timestamp", 1L);
        list.op("put", windowed(spec, "a", 30_000, "")).op("fetch", "key", "a", "time", 30_000L).op("fetch_range", "key", "a", "from", 0L, "to", MAX);
        list.op("put", windowed(spec, null, 30_000, "x")).op("all");
        out.add(list);

        list = new OpList("retention", "stream time moves on: what is hidden, what is dropped, what is gone; late puts around the limit");
        list.at(0).op("put", windowed(spec, "a", 0, "0")).op("put", windowed(spec, "a", 59_999, "59999")).op("put", windowed(spec, "b", 60_000, "60000"));
        list.op("fetch", "key", "a", "time", 0L).op("fetch_range", "key", "a", "from", 0L, "to", MAX).op("all");
        list.op("put", windowed(spec, "a", 0, "late at 0")).op("fetch", "key", "a", "time", 0L);
        list.op("put", windowed(spec, "a", 1, "late at 1")).op("fetch", "key", "a", "time", 1L).op("all").op("backward_all");
        list.at(61_000).op("put", windowed(spec, "b", 61_000, "61000")).op("fetch", "key", "a", "time", 1L).op("all");
        list.op("put", windowed(spec, "c", 1_000, "at the limit")).op("fetch", "key", "c", "time", 1_000L)
            .op("put", windowed(spec, "c", 1_001, "inside")).op("fetch", "key", "c", "time", 1_001L).op("fetch_all", "from", 0L, "to", 2_000L);
        list.at(119_999).op("put", windowed(spec, "b", 119_999, "119999")).op("all").op("put", windowed(spec, "a", 59_998, "late"))
            .op("put", windowed(spec, "a", 59_999, "limit")).op("put", windowed(spec, "a", 60_000, "inside")).op("all");
        list.at(120_000).op("put", windowed(spec, "b", 120_000, "120000")).op("put", windowed(spec, "a", 59_999, "segment gone"))
            .op("put", windowed(spec, "a", 60_000, "limit")).op("put", windowed(spec, "a", 60_001, "inside")).op("all").op("backward_all")
            .op("fetch_range", "key", "a", "from", 0L, "to", MAX).op("backward_fetch_range", "key", "a", "from", 0L, "to", MAX)
            .op("fetch_keys", "key_from", "a", "key_to", "b", "from", 0L, "to", 60_000L)
            .op("fetch_keys", "key_from", "a", "key_to", "b", "from", 0L, "to", 60_001L)
            .op("fetch_all", "from", 0L, "to", 60_000L).op("fetch_all", "from", 60_001L, "to", 119_999L);
        list.at(1_000_000).op("put", windowed(spec, "jump", 1_000_000, "jump")).op("all").op("fetch", "key", "b", "time", 120_000L);
        list.at(5).op("put", "key", "jump", "value", null, "window_start", 1_000_000L, "timestamp", 5L).op("all")
            .op("put", windowed(spec, "late", 940_000, "limit")).op("put", windowed(spec, "late", 940_001, "inside")).op("all");
        out.add(list);

        list = new OpList("iterating", "an open iterator while the store is written");
        for (long start = 0; start < 50_000; start += 10_000) {
            list.op("put", windowed(spec, "a", start, "a" + start)).op("put", windowed(spec, "b", start, "b" + start));
        }
        list.op("open", "id", 1L, "call", "all").op("open", "id", 2L, "call", "fetch_range", "key", "a", "from", 0L, "to", MAX)
            .op("open", "id", 3L, "call", "backward_fetch_keys", "key_from", "a", "key_to", "b", "from", 0L, "to", 40_000L);
        list.op("next", "id", 1L).op("peek", "id", 1L).op("next", "id", 2L).op("peek", "id", 2L).op("next", "id", 3L).op("peek", "id", 3L);
        list.op("put", windowed(spec, "a", 20_000, "changed")).op("put", "key", "a", "value", null, "window_start", 30_000L, "timestamp", 1L)
            .op("put", windowed(spec, "a", 15_000, "between"));
        list.op("next", "id", 1L, "count", 20L).op("next", "id", 2L, "count", 20L).op("next", "id", 3L, "count", 20L);
        list.op("close", "id", 1L).op("close", "id", 2L).op("close", "id", 3L).op("all");
        out.add(list);

        list = new OpList("nul_bounds", "a key range whose upper bound is a shorter key plus NUL: over RocksDB the library loses rows of the shorter key, "
            + "a defect not to be imitated");
        list.op("put", windowed(spec, "a", 20_000, "1")).op("put", windowed(spec, "a\u0000", 20_000, "2")).op("put", windowed(spec, "b", 20_000, "3"));
        for (final String call : new String[] {"fetch_keys", "backward_fetch_keys"}) {
            list.op(call, "key_from", "a", "key_to", "a\u0000", "from", 0L, "to", 30_000L)
                .op(call, "key_from", "a", "key_to", "a\u0000\u0000", "from", 0L, "to", 30_000L)
                .op(call, "key_from", "a", "key_to", "aa", "from", 0L, "to", 30_000L);
        }
        out.add(list);

        list = new OpList("queries", "IQv2: window queries; queries of another kind are refused");
        list.op("put", windowed(spec, "a", 0, "a0")).op("put", windowed(spec, "a", 10_000, "a1")).op("put", windowed(spec, "b", 10_000, "b1"))
            .op("put", windowed(spec, "aa", 10_000, "aa1"));
        list.op("query", "type", "WindowKeyQuery", "key", "a", "from", 0L, "to", 10_000L)
            .op("query", "type", "WindowKeyQuery", "key", "a", "from", 1L, "to", 10_000L)
            .op("query", "type", "WindowKeyQuery", "key", "none", "from", 0L, "to", 10_000L)
            .op("query", "type", "WindowRangeQuery", "from", 0L, "to", 10_000L)
            .op("query", "type", "WindowRangeQuery", "from", 5L, "to", 10_000L)
            .op("query", "type", "WindowRangeQuery", "key", "a")
            .op("query", "type", "KeyQuery", "key", "a").op("query", "type", "RangeQuery", "from", "a", "to", "b");
        out.add(list);
        if (spec.hasHeaders()) {
            list = new OpList("headers", "headers of values in windows");
            list.op("put", windowed(spec, "a", 0, "a0", Json.list("h", "01"), Json.list("h", null)));
            list.op("fetch", "key", "a", "time", 0L).op("put", windowed(spec, "a", 0, null, Json.list("gone", "02"))).op("all");
            list.op("put", windowed(spec, "b", 0, "b0")).op("all");
            out.add(list);
        }
        return out;
    }

    /** The same key and window many times: each put adds, none can be deleted. */
    static OpList duplicates(final StoreSpec spec) {
        final OpList list = new OpList("duplicates", "retainDuplicates: every put adds a row, a null put changes nothing in the store");
        list.op("put", windowed(spec, "a", 0, "1")).op("put", windowed(spec, "a", 0, "2")).op("put", windowed(spec, "b", 0, "3"))
            .op("put", windowed(spec, "a", 0, "2")).op("put", windowed(spec, "a", 5, "4")).op("put", windowed(spec, "aa", 0, "5"));
        list.op("fetch_range", "key", "a", "from", 0L, "to", 10L).op("backward_fetch_range", "key", "a", "from", 0L, "to", 10L);
        list.op("fetch", "key", "a", "time", 0L);
        list.op("put", "key", "a", "value", null, "window_start", 0L, "timestamp", 1L).op("put", windowed(spec, "a", 0, "after null"));
        list.op("all").op("backward_all").op("fetch_keys", "key_from", "a", "key_to", "b", "from", 0L, "to", 3L)
            .op("backward_fetch_keys", "key_from", "a", "key_to", "aa", "from", 0L, "to", 9L).op("fetch_all", "from", 0L, "to", 0L);
        list.op("put", windowed(spec, "c", 60_010, "now")).op("put", windowed(spec, "a", 5, "late")).op("put", windowed(spec, "a", 60_010, "6")).op("all");
        list.op("put", windowed(spec, "c", 130_000, "later")).op("all");
        return list;
    }

    private static Object[] session(final StoreSpec spec, final String key, final long start, final long end, final String value,
                                    final Object... headers) {
        return with(spec, new Object[] {"key", key, "start", start, "end", end}, value, 0, headers);
    }

    /** For a retention of 60 s (segments of 60 s). */
    static List<OpList> session(final StoreSpec spec) {
        final List<OpList> out = new ArrayList<>();
        final String[] finds = {"find_sessions", "backward_find_sessions"};
        final String[] findKeys = {"find_sessions_keys", "backward_find_sessions_keys"};

        OpList list = new OpList("basics", "put, overwrite, remove, put null, fetch; keys that are prefixes of one another");
        list.at(9).op("put", session(spec, "a", 0, 0, "a:0-0")).op("put", session(spec, "a", 10, 20, "a:10-20"))
            .op("put", session(spec, "a", 30, 40, "a:30-40")).op("put", session(spec, "a", 15, 40, "a:15-40"))
            .op("put", session(spec, "aa", 10, 20, "aa:10-20")).op("put", session(spec, "ab", 5, 30, "ab:5-30"))
            .op("put", session(spec, "b", 20, 20, "b:20-20")).op("put", session(spec, "", 1, 2, "empty:1-2"))
            .op("put", session(spec, "\ud83d\ude00", 1, 2, "emoji")).op("put", session(spec, "\ue000", 1, 2, "private"));
        list.op("fetch_session", "key", "a", "start", 10L, "end", 20L).op("fetch_session", "key", "a", "start", 10L, "end", 21L)
            .op("fetch_session", "key", "a", "start", 0L, "end", 0L).op("fetch_session", "key", "none", "start", 0L, "end", 0L)
            .op("fetch_session", "key", null, "start", 0L, "end", 0L);
        for (final String key : new String[] {"a", "aa", "", "none"}) {
            list.op("fetch", "key", key).op("backward_fetch", "key", key);
        }
        list.op("fetch", "key", null);
        for (final String call : new String[] {"fetch_keys", "backward_fetch_keys"}) {
            list.op(call, "key_from", "a", "key_to", "ab").op(call, "key_from", null, "key_to", "aa").op(call, "key_from", "aa", "key_to", null)
                .op(call, "key_from", null, "key_to", null).op(call, "key_from", "b", "key_to", "a").op(call, "key_from", "", "key_to", "a");
        }
        for (final String call : finds) {
            for (final long[] bounds : new long[][] {{0, MAX}, {0, 0}, {0, 10}, {20, 30}, {21, 29}, {21, 30}, {40, 15}, {41, 100}, {20, 14}, {100, 0}}) {
                list.op(call, "key", "a", "earliest_end", bounds[0], "latest_start", bounds[1]);
            }
            list.op(call, "key", "aa", "earliest_end", 0L, "latest_start", 100L).op(call, "key", "", "earliest_end", 0L, "latest_start", 100L)
                .op(call, "key", null, "earliest_end", 0L, "latest_start", 100L);
        }
        for (final String call : findKeys) {
            list.op(call, "key_from", "a", "key_to", "ab", "earliest_end", 0L, "latest_start", 100L)
                .op(call, "key_from", "a", "key_to", "ab", "earliest_end", 21L, "latest_start", 29L)
                .op(call, "key_from", null, "key_to", "aa", "earliest_end", 0L, "latest_start", 12L)
                .op(call, "key_from", "aa", "key_to", null, "earliest_end", 20L, "latest_start", 20L)
                .op(call, "key_from", null, "key_to", null, "earliest_end", 2L, "latest_start", 10L)
                .op(call, "key_from", "b", "key_to", "a", "earliest_end", 0L, "latest_start", 100L)
                .op(call, "key_from", "a", "key_to", "a", "earliest_end", 0L, "latest_start", 100L);
        }
        list.op("find_sessions_ending", "earliest_end", 0L, "latest_end", 100L);
        list.at(50).op("put", session(spec, "a", 10, 20, "overwritten")).op("fetch_session", "key", "a", "start", 10L, "end", 20L);
        list.at(51).op("remove", "key", "a", "start", 10L, "end", 20L).op("fetch", "key", "a").op("remove", "key", "a", "start", 10L, "end", 20L)
            .op("remove", "key", "never", "start", 0L, "end", 1L);
        if (!spec.hasHeaders()) {
            list.at(52).op("put", "key", "a", "start", 30L, "end", 40L, "value", null).op("fetch", "key", "a");
        }
        list.op("put", session(spec, "a", 50, 60, "")).op("fetch", "key", "a");
        list.op("put", session(spec, null, 50, 60, "x")).op("remove", "key", null, "start", 0L, "end", 1L);
        out.add(list);

        list = new OpList("retention", "stream time is the largest session end: what is hidden, dropped, gone; late sessions around the limit");
        list.at(0).op("put", session(spec, "a", 0, 0, "0")).op("put", session(spec, "a", 0, 30_000, "0-30000"))
            .op("put", session(spec, "a", 59_000, 59_999, "59000-59999")).op("put", session(spec, "b", 60_000, 60_000, "60000"));
        list.op("fetch", "key", "a").op("fetch_session", "key", "a", "start", 0L, "end", 0L)
            .op("find_sessions", "key", "a", "earliest_end", 0L, "latest_start", MAX);
        list.op("put", session(spec, "a", 0, 0, "late")).op("put", session(spec, "c", 0, 1, "just live")).op("fetch_keys", "key_from", null, "key_to", null);
        list.op("put", session(spec, "a", 0, 70_000, "long, ends late")).op("fetch", "key", "a").op("fetch", "key", "c");
        list.op("put", session(spec, "c", 9_000, 10_000, "limit")).op("put", session(spec, "c", 9_000, 10_001, "inside")).op("fetch", "key", "c")
            .op("fetch_session", "key", "c", "start", 9_000L, "end", 10_000L).op("remove", "key", "a", "start", 0L, "end", 0L);
        list.at(120_000).op("put", session(spec, "b", 119_000, 119_999, "119000-119999")).op("fetch_keys", "key_from", null, "key_to", null)
            .op("put", session(spec, "b", 119_000, 120_000, "119000-120000")).op("fetch_keys", "key_from", null, "key_to", null)
            .op("backward_fetch_keys", "key_from", null, "key_to", null)
            .op("put", session(spec, "a", 0, 59_999, "segment gone")).op("put", session(spec, "a", 0, 60_000, "limit"))
            .op("put", session(spec, "a", 0, 60_001, "inside")).op("fetch", "key", "a").op("backward_fetch", "key", "a")
            .op("find_sessions", "key", "a", "earliest_end", 0L, "latest_start", 0L)
            .op("find_sessions_keys", "key_from", "a", "key_to", "b", "earliest_end", 0L, "latest_start", 119_000L);
        list.at(1_000_000).op("put", session(spec, "jump", 1_000_000, 1_000_000, "jump")).op("fetch_keys", "key_from", null, "key_to", null)
            .op("remove", "key", "jump", "start", 1_000_000L, "end", 1_000_000L).op("fetch_keys", "key_from", null, "key_to", null)
            .op("put", session(spec, "late", 0, 940_000, "limit")).op("put", session(spec, "late", 0, 940_001, "inside"))
            .op("remove", "key", "future", "start", 5_000_000L, "end", 5_000_000L).op("fetch_keys", "key_from", null, "key_to", null)
            .op("put", session(spec, "late", 0, 940_002, "after a remove in the future")).op("fetch_keys", "key_from", null, "key_to", null);
        out.add(list);

        list = new OpList("iterating", "an open iterator while the store is written");
        for (long start = 0; start < 50; start += 10) {
            list.op("put", session(spec, "a", start, start + 5, "a" + start)).op("put", session(spec, "b", start, start + 5, "b" + start));
        }
        list.op("open", "id", 1L, "call", "fetch", "key", "a").op("open", "id", 2L, "call", "find_sessions_keys", "key_from", "a", "key_to", "b",
            "earliest_end", 0L, "latest_start", 100L).op("next", "id", 1L).op("peek", "id", 1L).op("next", "id", 2L);
        list.op("remove", "key", "a", "start", 20L, "end", 25L).op("put", session(spec, "a", 30, 35, "changed")).op("put", session(spec, "a", 12, 18, "between"));
        list.op("next", "id", 1L, "count", 20L).op("next", "id", 2L, "count", 20L).op("close", "id", 1L).op("close", "id", 2L).op("fetch", "key", "a");
        out.add(list);

        list = new OpList("queries", "IQv2: sessions of one key; queries of another kind are refused");
        list.op("put", session(spec, "a", 0, 10, "1")).op("put", session(spec, "a", 20, 30, "2")).op("put", session(spec, "b", 0, 10, "3"));
        list.op("query", "type", "WindowRangeQuery", "key", "a").op("query", "type", "WindowRangeQuery", "key", "none")
            .op("query", "type", "WindowRangeQuery", "from", 0L, "to", 10L).op("query", "type", "WindowKeyQuery", "key", "a", "from", 0L, "to", 10L)
            .op("query", "type", "KeyQuery", "key", "a");
        out.add(list);
        if (spec.hasHeaders()) {
            list = new OpList("headers", "headers of session aggregates");
            list.op("put", session(spec, "a", 0, 10, "1", Json.list("h", "01"), Json.list("h", null))).op("fetch", "key", "a");
            list.op("put", session(spec, "a", 0, 10, null, Json.list("gone", "02"))).op("fetch", "key", "a");
            list.op("put", session(spec, "b", 0, 10, "2")).op("fetch", "key", "b");
            out.add(list);
        }
        return out;
    }

    /** What a cache changes: when the changelog is written, what is forwarded, what reads see. */
    static List<OpList> cached(final StoreSpec spec) {
        final List<OpList> out = new ArrayList<>();
        OpList list = new OpList("cache", "last write per key until a flush; reads merge cache and store; a put and delete between flushes");
        if (spec.isKeyValue()) {
            list.at(1).op("put", kv(spec, "a", "1", 1)).at(2).op("put", kv(spec, "b", "1", 2)).at(3).op("put", kv(spec, "a", "2", 3));
            list.op("get", "key", "a").op("all").op("query", "type", "KeyQuery", "key", "a").op("flush_cache").op("all");
            list.at(4).op("put", kv(spec, "c", "1", 4)).at(5).op("delete", "key", "c").op("flush_cache");
            list.at(6).op("put", kv(spec, "b", "2", 6)).at(7).op("put", kv(spec, "a", "3", 7)).at(8).op("put", kv(spec, "b", "3", 8));
            list.op("range", "from", "a", "to", "b").op("reverse_all").op("prefix_scan", "prefix", "a");
            list.at(9).op("delete", "key", "a").op("get", "key", "a").op("all").op("put_if_absent", kv(spec, "a", "4", 9))
                .op("put_if_absent", kv(spec, "d", "1", 9)).op("flush_cache").op("flush_cache");
            list.at(10).op("put_all", "entries", Json.list(entry(spec, "e", "1", 10), entry(spec, "a", "5", 10), entry(spec, "e", "2", 10)));
            list.at(11).op("put", "key", "b", "value", null, "timestamp", 11L).op("all").op("flush_cache").op("all");
            list.at(12).op("put", kv(spec, "a", "5", 10)).op("flush_cache");
        } else if (spec.isWindow()) {
            list.at(1).op("put", windowed(spec, "a", 0, "1")).op("put", windowed(spec, "a", 10_000, "1")).op("put", windowed(spec, "b", 0, "1"))
                .op("put", windowed(spec, "a", 0, "2")).op("fetch", "key", "a", "time", 0L).op("all").op("flush_cache").op("all");
            list.at(2).op("put", windowed(spec, "a", 0, "3")).op("put", "key", "b", "value", null, "window_start", 0L, "timestamp", 2L)
                .op("put", windowed(spec, "aa", 60_000, "1")).op("fetch_range", "key", "a", "from", 0L, "to", MAX)
                .op("backward_fetch_range", "key", "a", "from", 0L, "to", MAX)
                .op("fetch_keys", "key_from", "a", "key_to", "b", "from", 0L, "to", 60_000L)
                .op("backward_fetch_keys", "key_from", "a", "key_to", "b", "from", 0L, "to", 60_000L)
                .op("fetch_all", "from", 0L, "to", 60_000L).op("all").op("flush_cache").op("all").op("backward_all");
            list.at(3).op("put", windowed(spec, "a", 130_000, "now")).op("put", windowed(spec, "a", 60_000, "late")).op("all").op("flush_cache").op("all");
            list.op("put", windowed(spec, "x", 130_000, "1")).op("put", "key", "x", "value", null, "window_start", 130_000L, "timestamp", 3L)
                .op("flush_cache").op("all");
        } else {
            list.at(1).op("put", session(spec, "a", 0, 10, "1")).op("put", session(spec, "a", 20, 30, "1")).op("put", session(spec, "b", 0, 10, "1"))
                .op("put", session(spec, "a", 0, 10, "2")).op("fetch", "key", "a").op("flush_cache").op("fetch", "key", "a");
            list.at(2).op("remove", "key", "a", "start", 0L, "end", 10L).op("remove", "key", "a", "start", 20L, "end", 30L)
                .op("put", session(spec, "a", 0, 30, "merged")).op("fetch", "key", "a").op("backward_fetch", "key", "a")
                .op("find_sessions", "key", "a", "earliest_end", 0L, "latest_start", 100L)
                .op("find_sessions_keys", "key_from", "a", "key_to", "b", "earliest_end", 0L, "latest_start", 100L)
                .op("fetch_session", "key", "a", "start", 0L, "end", 10L).op("flush_cache").op("fetch_keys", "key_from", "a", "key_to", "b");
            list.at(3).op("put", session(spec, "c", 5, 6, "1")).op("remove", "key", "c", "start", 5L, "end", 6L).op("flush_cache");
            list.at(4).op("put", session(spec, "a", 130_000, 130_000, "now")).op("put", session(spec, "a", 69_000, 70_000, "limit"))
                .op("fetch", "key", "a").op("flush_cache").op("fetch", "key", "a");
        }
        list.op("flush_cache");
        out.add(list);
        if (spec.isWindow()) {
            list = new OpList("open_bounds", "open key bounds over two segments, all rows cached: over RocksDB the library returns rows more than once, "
                + "a defect not to be imitated");
            list.op("put", windowed(spec, "a", 0, "1")).op("put", windowed(spec, "b", 10_000, "2")).op("put", windowed(spec, "c", 60_000, "3"));
            for (final String call : new String[] {"fetch_keys", "backward_fetch_keys"}) {
                list.op(call, "key_from", null, "key_to", null, "from", 0L, "to", 60_000L)
                    .op(call, "key_from", "b", "key_to", null, "from", 0L, "to", 60_000L)
                    .op(call, "key_from", null, "key_to", "b", "from", 0L, "to", 60_000L);
            }
            list.op("flush_cache");
            for (final String call : new String[] {"fetch_keys", "backward_fetch_keys"}) {
                list.op(call, "key_from", null, "key_to", null, "from", 0L, "to", 60_000L);
            }
            out.add(list);
        }
        return out;
    }

    /** The store of unmatched records of an outer join: a key holds a list, a put appends. */
    static OpList lists(final StoreSpec spec) {
        final OpList list = new OpList("list", "a put appends to the key's list, a null put deletes the list; putIfAbsent with null deletes a present list; "
            + "the changelog carries the whole list; get, range and delete are not supported; a list that ends in an empty value cannot be read back");
        list.at(1).op("put", "key", "a", "value", "1").at(2).op("put", "key", "a", "value", "2").at(3).op("put", "key", "b", "value", "3");
        list.at(4).op("put", "key", "a", "value", "1").op("put", "key", "aa", "value", "5").op("all");
        list.at(5).op("put_if_absent", "key", "a", "value", null).op("all").op("put_if_absent", "key", "a", "value", null);
        list.at(6).op("put", "key", "b", "value", null).op("put", "key", "never", "value", null).op("all");
        list.at(7).op("put_if_absent", "key", "n", "value", "x").op("put_if_absent", "key", "aa", "value", "y").op("all");
        list.op("delete", "key", "aa").op("range", "from", "a", "to", "b")
            .op("put_all", "entries", Json.list(Json.obj("key", "a", "value", "1")));
        for (int i = 0; i < 5; i++) {
            list.at(10 + i).op("put", "key", "k" + i % 2, "value", "v" + i);
        }
        list.op("open", "id", 1L, "call", "all").op("next", "id", 1L).op("peek", "id", 1L).op("put", "key", "k0", "value", "late")
            .op("next", "id", 1L, "count", 9L).op("close", "id", 1L).op("all");
        list.at(20).op("put", "key", "z", "value", "").op("all").op("put", "key", "z", "value", "not empty").op("put", "key", "z", "value", null).op("all");
        return list;
    }

    /** A few writes under the internal setting that adds positions to changelog records. */
    static OpList consistency(final StoreSpec spec) {
        final OpList list = new OpList("consistency", "internal setting __iq.consistency.offset.vector.enabled__: changelog records carry headers v and c; "
            + "restoring them restores the position");
        if (spec.isWindow()) {
            list.at(1).op("put", windowed(spec, "a", 0, "1")).at(2).op("put", windowed(spec, "b", 10_000, "2"));
        } else if (spec.isSession()) {
            list.at(1).op("put", session(spec, "a", 0, 5, "1")).at(2).op("remove", "key", "a", "start", 0L, "end", 5L);
        } else if (spec.isVersioned()) {
            put(list, "a", "1", 10);
            put(list, "a", null, 20);
        } else {
            list.at(1).op("put", kv(spec, "a", "1", 1)).at(2).op("put", kv(spec, "b", "2", 2)).at(3).op("delete", "key", "a");
        }
        return list;
    }

    /** A cache of a few entries: which put evicts, and that one dirty eviction flushes all dirty entries of the store. */
    static OpList eviction(final StoreSpec spec) {
        final OpList list = new OpList("eviction", "a cache too small: which puts evict, in what order entries are written and forwarded");
        for (int i = 0; i < 12; i++) {
            list.at(i).op("put", kv(spec, "k" + (i * 5) % 7, "value-" + i, i));
            if (i % 4 == 3) {
                list.op("get", "key", "k" + i % 7).op("all");
            }
        }
        list.at(20).op("put", kv(spec, "big", "x".repeat(700), 20)).op("put", kv(spec, "k0", "after", 21)).op("flush_cache").op("all");
        return list;
    }
}
