package parity.stores;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;

/** Draws operation sequences. The draw depends on the seed and the store's parameters only, never on results. */
final class RandomOps {
    private static final String[] KEYS = {
        "", "a", "aa", "ab", "b", "ba", "z", "\u00e4", "\u4e16\u754c", "\ue000", "\uffee", "\ud83d\ude00", "a\u0000", "a\u0000b", "A"
    };

    private final Random random;
    private final StoreSpec spec;
    private final String[] keys;
    private long streamTime;
    private int values;

    private RandomOps(final long seed, final StoreSpec spec) {
        this.random = new Random(seed * 1_000_003 + spec.kind.hashCode());
        this.spec = spec;
        this.keys = new String[8];
        // A cache does not know about expiry, so the random traces of cached stores stay within retention, around a segment boundary.
        this.streamTime = spec.caching && !spec.isKeyValue() ? interval() - 20_000 : 0;
        final List<String> pool = new ArrayList<>(List.of(KEYS));
        if (spec.isWindow() || spec.isSession()) {
            // Key ranges over keys with NUL bytes are a scenario of their own: the library loses rows there.
            pool.removeIf(key -> key.contains("\u0000"));
        }
        keys[0] = "a";
        keys[1] = "aa";
        pool.remove("a");
        pool.remove("aa");
        for (int i = 2; i < keys.length; i++) {
            keys[i] = pool.remove(random.nextInt(pool.size()));
        }
    }

    static OpList draw(final String name, final long seed, final StoreSpec spec, final int count) {
        final RandomOps random = new RandomOps(seed, spec);
        final OpList list = new OpList(name, "random operations, seed " + seed);
        while (list.ops.size() < count) {
            if (spec.isVersioned()) {
                random.versioned(list);
            } else if (spec.isWindow()) {
                random.window(list);
            } else if (spec.isSession()) {
                random.session(list);
            } else {
                random.keyValue(list);
            }
        }
        if (spec.caching) {
            list.op("flush_cache");
        }
        return list;
    }

    private boolean chance(final int percent) {
        return random.nextInt(100) < percent;
    }

    private String key() {
        return keys[random.nextInt(keys.length)];
    }

    private String bound() {
        // Open bounds over a cached RocksDB window store are a scenario of their own: the library repeats rows there.
        final boolean open = chance(12);
        return open && !(spec.caching && !spec.isKeyValue()) ? null : key();
    }

    private String value() {
        return chance(5) ? "" : "v" + values++;
    }

    private long retention() {
        return spec.isVersioned() ? spec.historyRetentionMs : spec.retentionMs;
    }

    private long interval() {
        return spec.isVersioned()
            ? spec.segmentIntervalMs > 0 ? spec.segmentIntervalMs : Math.max(1, spec.historyRetentionMs / 3)
            : Math.max(spec.retentionMs / 2, 60_000);
    }

    /** A time near now, near a segment boundary, or near the end of retention. */
    private long time() {
        final long interval = interval();
        switch (random.nextInt(8)) {
            case 0:
                if (spec.caching) {
                    return interval + random.nextInt(3) - 1;
                }
                return Math.max(0, (streamTime / interval + random.nextInt(3) - 1) * interval + random.nextInt(3) - 1);
            case 1:
                return Math.max(0, streamTime - retention() + random.nextInt(5) - 2);
            case 2:
                return Math.max(0, streamTime - (long) (random.nextDouble() * retention() * 1.6));
            case 3:
                return streamTime;
            case 4:
                return Math.max(0, streamTime - random.nextInt(4));
            case 5:
                return streamTime + random.nextInt((int) Math.max(2, interval / (spec.caching ? 40 : 3)));
            default:
                return Math.max(0, streamTime - (long) (random.nextDouble() * retention() * 0.7));
        }
    }

    private long writeTime() {
        if (chance(4) && !spec.caching) {
            return streamTime + interval() + random.nextInt(3) - 1;
        }
        return time();
    }

    private Object[] valueArgs(final boolean allowNull) {
        final Map<String, Object> out = Json.obj("value", allowNull && chance(15) ? null : value());
        if (spec.hasTimestamps()) {
            out.put("timestamp", spec.isKeyValue() ? (long) random.nextInt(100_000) : streamTime);
        }
        if (spec.hasHeaders()) {
            final List<Object> headers = new ArrayList<>();
            for (int i = random.nextInt(3); i > 0; i--) {
                headers.add(Json.list("h" + random.nextInt(3), chance(20) ? null : String.format("%04x", random.nextInt(65_536))));
            }
            out.put("headers", headers);
        }
        final List<Object> args = new ArrayList<>();
        out.forEach((k, v) -> {
            args.add(k);
            args.add(v);
        });
        return args.toArray();
    }

    private static Object[] join(final Object[] first, final Object... second) {
        final List<Object> out = new ArrayList<>();
        out.addAll(Arrays.asList(first));
        out.addAll(Arrays.asList(second));
        return out.toArray();
    }

    private void keyValue(final OpList list) {
        list.at(random.nextInt(100_000));
        final int pick = random.nextInt(100);
        if (pick < 34) {
            list.op("put", join(new Object[] {"key", key()}, valueArgs(true)));
        } else if (pick < 43) {
            list.op("delete", "key", key());
        } else if (pick < 51) {
            list.op("put_if_absent", join(new Object[] {"key", key()}, valueArgs(false)));
        } else if (pick < 55) {
            final List<Object> entries = new ArrayList<>();
            for (int i = random.nextInt(4); i >= 0; i--) {
                entries.add(Json.obj(join(new Object[] {"key", key()}, valueArgs(!spec.hasHeaders()))));
            }
            list.op("put_all", "entries", entries);
        } else if (pick < 66) {
            list.op("get", "key", key());
        } else if (pick < 74) {
            list.op("range", "from", bound(), "to", bound());
        } else if (pick < 81) {
            list.op("reverse_range", "from", bound(), "to", bound());
        } else if (pick < 84) {
            list.op("all");
        } else if (pick < 87) {
            list.op("reverse_all");
        } else if (pick < 93) {
            list.op("prefix_scan", "prefix", chance(90) ? nonEmptyKey() : "q");
        } else if (spec.caching && pick < 96) {
            list.op("flush_cache");
        } else {
            final String prefix = spec.hasTimestamps() && chance(60) ? "Timestamped" : "";
            if (chance(50)) {
                list.op("query", "type", prefix + "KeyQuery", "key", key());
            } else {
                list.op("query", "type", prefix + "RangeQuery", "from", bound(), "to", bound(),
                    "order", chance(34) ? null : chance(50) ? "asc" : "desc");
            }
        }
    }

    private String nonEmptyKey() {
        final String key = key();
        return key.isEmpty() ? "a" : key;
    }

    private void versioned(final OpList list) {
        list.at(streamTime);
        final int pick = random.nextInt(100);
        if (pick < 48) {
            final long time = writeTime();
            streamTime = Math.max(streamTime, time);
            list.op("put", "key", versionedKey(), "value", chance(25) ? null : value(), "timestamp", time);
        } else if (pick < 54) {
            final long time = writeTime();
            streamTime = Math.max(streamTime, time);
            list.op("delete", "key", versionedKey(), "timestamp", time);
        } else if (pick < 64) {
            list.op("get", "key", versionedKey());
        } else if (pick < 85) {
            list.op("get_as_of", "key", versionedKey(), "as_of", time());
        } else if (pick < 90) {
            final Map<String, Object> args = Json.obj("type", "VersionedKeyQuery", "key", versionedKey());
            if (chance(80)) {
                args.put("as_of", time());
            }
            list.op("query", flat(args));
        } else {
            final Map<String, Object> args = Json.obj("type", "MultiVersionedKeyQuery", "key", versionedKey());
            if (chance(60)) {
                args.put("from", time());
            }
            if (chance(60)) {
                args.put("to", time());
            }
            if (chance(70)) {
                args.put("order", chance(50) ? "asc" : "desc");
            }
            list.op("query", flat(args));
        }
    }

    /** Few keys, so that histories grow long. */
    private String versionedKey() {
        return keys[random.nextInt(3)];
    }

    private static Object[] flat(final Map<String, Object> args) {
        final List<Object> out = new ArrayList<>();
        args.forEach((k, v) -> {
            out.add(k);
            out.add(v);
        });
        return out.toArray();
    }

    private long to(final long from) {
        return chance(8) ? Long.MAX_VALUE : chance(70) ? from + random.nextInt((int) Math.max(2, interval())) : time();
    }

    private long from() {
        return chance(15) ? 0 : time();
    }

    private void window(final OpList list) {
        list.at(streamTime);
        final int pick = random.nextInt(100);
        if (pick < 52) {
            final long start = writeTime();
            streamTime = Math.max(streamTime, start);
            list.at(start + random.nextInt(100));
            list.op("put", join(new Object[] {"key", key(), "window_start", start}, valueArgs(true)));
            return;
        }
        final long from = from();
        final long to = to(from);
        if (pick < 63) {
            list.op("fetch", "key", key(), "time", time());
        } else if (pick < 71) {
            list.op("fetch_range", "key", key(), "from", from, "to", to);
        } else if (pick < 77) {
            list.op("backward_fetch_range", "key", key(), "from", from, "to", to);
        } else if (pick < 84) {
            list.op("fetch_keys", "key_from", bound(), "key_to", bound(), "from", from, "to", to);
        } else if (pick < 89) {
            list.op("backward_fetch_keys", "key_from", bound(), "key_to", bound(), "from", from, "to", to);
        } else if (pick < 92) {
            list.op("fetch_all", "from", from, "to", to);
        } else if (pick < 95) {
            list.op("backward_fetch_all", "from", from, "to", to);
        } else if (pick < 96) {
            list.op("all");
        } else if (pick < 97) {
            list.op("backward_all");
        } else if (spec.caching) {
            list.op("flush_cache");
        } else if (chance(60)) {
            list.op("query", "type", "WindowKeyQuery", "key", key(), "from", from, "to", Math.min(to, 9_000_000_000_000L));
        } else {
            list.op("query", "type", "WindowRangeQuery", "from", from, "to", Math.min(to, 9_000_000_000_000L));
        }
    }

    private final List<Object[]> sessions = new ArrayList<>();

    private void session(final OpList list) {
        list.at(streamTime);
        final int pick = random.nextInt(100);
        if (pick < 46) {
            final long end = writeTime();
            final long start = chance(25) ? end : Math.max(0, end - random.nextInt(30_000));
            streamTime = Math.max(streamTime, end);
            final String key = key();
            sessions.add(new Object[] {key, start, end});
            list.at(end);
            list.op("put", join(new Object[] {"key", key, "start", start, "end", end}, valueArgs(true)));
            return;
        }
        final long earliestEnd = chance(20) ? 0 : time();
        final long latestStart = chance(15) ? Long.MAX_VALUE : chance(60) ? earliestEnd + random.nextInt(40_000) : time();
        if (pick < 60) {
            final Object[] known = sessions.isEmpty() || chance(15)
                ? new Object[] {key(), earliestEnd, earliestEnd} : sessions.get(random.nextInt(sessions.size()));
            list.op(pick < 53 ? "remove" : "fetch_session", "key", known[0], "start", known[1], "end", known[2]);
        } else if (pick < 69) {
            list.op("find_sessions", "key", key(), "earliest_end", earliestEnd, "latest_start", latestStart);
        } else if (pick < 76) {
            list.op("backward_find_sessions", "key", key(), "earliest_end", earliestEnd, "latest_start", latestStart);
        } else if (pick < 82) {
            list.op("find_sessions_keys", "key_from", bound(), "key_to", bound(),
                "earliest_end", earliestEnd, "latest_start", latestStart);
        } else if (pick < 87) {
            list.op("backward_find_sessions_keys", "key_from", bound(), "key_to", bound(),
                "earliest_end", earliestEnd, "latest_start", latestStart);
        } else if (pick < 90) {
            list.op("fetch", "key", key());
        } else if (pick < 92) {
            list.op("backward_fetch", "key", key());
        } else if (pick < 95) {
            list.op("fetch_keys", "key_from", bound(), "key_to", bound());
        } else if (pick < 97) {
            list.op("backward_fetch_keys", "key_from", bound(), "key_to", bound());
        } else if (spec.caching) {
            list.op("flush_cache");
        } else {
            list.op("query", "type", "WindowRangeQuery", "key", key());
        }
    }
}
