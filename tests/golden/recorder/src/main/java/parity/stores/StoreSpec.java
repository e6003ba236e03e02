package parity.stores;

import java.time.Duration;
import java.util.Map;

import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.SessionBytesStoreSupplier;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.VersionedBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.apache.kafka.streams.state.internals.ListValueStoreBuilder;
import org.apache.kafka.streams.state.internals.RocksDbIndexedTimeOrderedWindowBytesStoreSupplier;
import org.apache.kafka.streams.state.internals.RocksDbTimeOrderedSessionBytesStoreSupplier;
import org.apache.kafka.streams.state.internals.RocksDbVersionedKeyValueBytesStoreSupplier;

/** What store a trace runs on; builds it through the public factory methods. */
final class StoreSpec {
    static final String NAME = "store";

    final String kind;
    final String engine;
    long retentionMs = -1;
    long windowSizeMs = -1;
    long historyRetentionMs = -1;
    long segmentIntervalMs = -1;
    boolean retainDuplicates;
    boolean caching;
    boolean logging = true;
    long cacheMaxBytes = -1;
    int maxEntries = -1;
    boolean consistency;

    StoreSpec(final String kind, final String engine) {
        this.kind = kind;
        this.engine = engine;
    }

    StoreSpec on(final String otherEngine) {
        final StoreSpec copy = new StoreSpec(kind, otherEngine);
        copy.retentionMs = retentionMs;
        copy.windowSizeMs = windowSizeMs;
        copy.historyRetentionMs = historyRetentionMs;
        copy.segmentIntervalMs = segmentIntervalMs;
        copy.retainDuplicates = retainDuplicates;
        copy.caching = caching;
        copy.logging = logging;
        copy.cacheMaxBytes = cacheMaxBytes;
        copy.maxEntries = maxEntries;
        copy.consistency = consistency;
        return copy;
    }

    static StoreSpec window(final String kind, final String engine, final long retentionMs, final long sizeMs,
                            final boolean retainDuplicates) {
        final StoreSpec spec = new StoreSpec(kind, engine);
        spec.retentionMs = retentionMs;
        spec.windowSizeMs = sizeMs;
        spec.retainDuplicates = retainDuplicates;
        return spec;
    }

    static StoreSpec session(final String kind, final String engine, final long retentionMs) {
        final StoreSpec spec = new StoreSpec(kind, engine);
        spec.retentionMs = retentionMs;
        return spec;
    }

    static StoreSpec versioned(final long historyRetentionMs, final long segmentIntervalMs) {
        final StoreSpec spec = new StoreSpec("versioned", "rocksdb");
        spec.historyRetentionMs = historyRetentionMs;
        spec.segmentIntervalMs = segmentIntervalMs;
        return spec;
    }

    StoreSpec cached(final long maxBytes) {
        caching = true;
        cacheMaxBytes = maxBytes;
        return this;
    }

    boolean isWindow() {
        return kind.endsWith("window");
    }

    boolean isSession() {
        return kind.endsWith("session");
    }

    boolean isVersioned() {
        return kind.equals("versioned");
    }

    boolean isKeyValue() {
        return kind.endsWith("kv");
    }

    boolean hasTimestamps() {
        return kind.startsWith("timestamped-") || hasHeaders() && !isSession();
    }

    boolean hasHeaders() {
        return kind.startsWith("headers-");
    }

    StoreBuilder<?> builder() {
        final StoreBuilder<?> builder = plainBuilder();
        if (logging) {
            builder.withLoggingEnabled(Map.of());
        } else {
            builder.withLoggingDisabled();
        }
        if (caching) {
            builder.withCachingEnabled();
        } else {
            builder.withCachingDisabled();
        }
        return builder;
    }

    private StoreBuilder<?> plainBuilder() {
        final Serde<String> serde = Serdes.String();
        switch (kind) {
            case "kv":
                return Stores.keyValueStoreBuilder(keyValueSupplier(), serde, serde);
            case "timestamped-kv":
                return Stores.timestampedKeyValueStoreBuilder(keyValueSupplier(), serde, serde);
            case "headers-kv":
                return Stores.timestampedKeyValueStoreWithHeadersBuilder(keyValueSupplier(), serde, serde);
            case "list-kv":
                return new ListValueStoreBuilder<>(keyValueSupplier(), serde, serde, Time.SYSTEM);
            case "versioned":
                return Stores.versionedKeyValueStoreBuilder(versionedSupplier(), serde, serde);
            case "window":
                return Stores.windowStoreBuilder(windowSupplier(), serde, serde);
            case "timestamped-window":
                return Stores.timestampedWindowStoreBuilder(windowSupplier(), serde, serde);
            case "headers-window":
                return Stores.timestampedWindowStoreWithHeadersBuilder(windowSupplier(), serde, serde);
            case "session":
                return Stores.sessionStoreBuilder(sessionSupplier(), serde, serde);
            case "headers-session":
                return Stores.sessionStoreWithHeadersBuilder(sessionSupplier(), serde, serde);
            default:
                throw new IllegalArgumentException(kind);
        }
    }

    private KeyValueBytesStoreSupplier keyValueSupplier() {
        if (engine.equals("memory")) {
            return Stores.inMemoryKeyValueStore(NAME);
        }
        if (engine.equals("lru")) {
            return Stores.lruMap(NAME, maxEntries);
        }
        if (engine.equals("rocksdb-plain") || kind.equals("kv") || kind.equals("list-kv")) {
            return Stores.persistentKeyValueStore(NAME);
        }
        if (hasHeaders()) {
            return Stores.persistentTimestampedKeyValueStoreWithHeaders(NAME);
        }
        return Stores.persistentTimestampedKeyValueStore(NAME);
    }

    private VersionedBytesStoreSupplier versionedSupplier() {
        if (segmentIntervalMs < 0) {
            final VersionedBytesStoreSupplier supplier =
                Stores.persistentVersionedKeyValueStore(NAME, Duration.ofMillis(historyRetentionMs));
            segmentIntervalMs = ((RocksDbVersionedKeyValueBytesStoreSupplier) supplier).segmentIntervalMs();
            return supplier;
        }
        return Stores.persistentVersionedKeyValueStore(
            NAME, Duration.ofMillis(historyRetentionMs), Duration.ofMillis(segmentIntervalMs));
    }

    private WindowBytesStoreSupplier windowSupplier() {
        final Duration retention = Duration.ofMillis(retentionMs);
        final Duration size = Duration.ofMillis(windowSizeMs);
        if (engine.equals("memory")) {
            return Stores.inMemoryWindowStore(NAME, retention, size, retainDuplicates);
        }
        final WindowBytesStoreSupplier supplier;
        if (engine.equals("rocksdb-time-ordered")) {
            supplier = RocksDbIndexedTimeOrderedWindowBytesStoreSupplier.create(NAME, retention, size, retainDuplicates, true);
        } else if (kind.equals("window") || engine.equals("rocksdb-plain")) {
            supplier = Stores.persistentWindowStore(NAME, retention, size, retainDuplicates);
        } else if (hasHeaders()) {
            supplier = Stores.persistentTimestampedWindowStoreWithHeaders(NAME, retention, size, retainDuplicates);
        } else {
            supplier = Stores.persistentTimestampedWindowStore(NAME, retention, size, retainDuplicates);
        }
        segmentIntervalMs = supplier.segmentIntervalMs();
        return supplier;
    }

    private SessionBytesStoreSupplier sessionSupplier() {
        final Duration retention = Duration.ofMillis(retentionMs);
        if (engine.equals("memory")) {
            return Stores.inMemorySessionStore(NAME, retention);
        }
        final SessionBytesStoreSupplier supplier = engine.equals("rocksdb-time-ordered")
            ? new RocksDbTimeOrderedSessionBytesStoreSupplier(NAME, retentionMs, true)
            : hasHeaders() ? Stores.persistentSessionStoreWithHeaders(NAME, retention) : Stores.persistentSessionStore(NAME, retention);
        segmentIntervalMs = supplier.segmentIntervalMs();
        return supplier;
    }

    Map<String, Object> json() {
        final Map<String, Object> out = Json.obj("kind", kind, "engine", engine);
        if (retentionMs >= 0) {
            out.put("retention_ms", retentionMs);
        }
        if (isWindow()) {
            out.put("window_size_ms", windowSizeMs);
            out.put("retain_duplicates", retainDuplicates);
        }
        if (historyRetentionMs >= 0) {
            out.put("history_retention_ms", historyRetentionMs);
        }
        if (segmentIntervalMs >= 0) {
            out.put("segment_interval_ms", segmentIntervalMs);
        }
        if (maxEntries >= 0) {
            out.put("max_entries", maxEntries);
        }
        out.put("logging", logging);
        out.put("caching", caching);
        if (cacheMaxBytes >= 0) {
            out.put("cache_max_bytes", cacheMaxBytes);
        }
        if (consistency) {
            out.put("consistency", true);
        }
        return out;
    }
}
