package parity.stores;

import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;

import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.query.KeyQuery;
import org.apache.kafka.streams.query.MultiVersionedKeyQuery;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.query.RangeQuery;
import org.apache.kafka.streams.query.TimestampedKeyQuery;
import org.apache.kafka.streams.query.TimestampedRangeQuery;
import org.apache.kafka.streams.query.VersionedKeyQuery;
import org.apache.kafka.streams.query.WindowKeyQuery;
import org.apache.kafka.streams.query.WindowRangeQuery;
import org.apache.kafka.streams.state.AggregationWithHeaders;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.ValueTimestampHeaders;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.VersionedRecordIterator;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.internals.CachedStateStore;

/** Applies operations to a store and turns results into JSON. */
final class StoreCalls {
    private final StoreSpec spec;
    private final StateStore store;
    private final Map<Long, KeyValueIterator<?, ?>> open = new HashMap<>();

    StoreCalls(final StoreSpec spec, final StateStore store) {
        this.spec = spec;
        this.store = store;
    }

    /** The result of one operation, or {"error": exception class, "message": text}. */
    Object apply(final Op op) {
        try {
            return call(op);
        } catch (final RuntimeException e) {
            final Map<String, Object> out = Json.obj("error", e.getClass().getSimpleName());
            if (e.getCause() != null) {
                out.put("cause", e.getCause().getClass().getSimpleName());
            }
            return out;
        }
    }

    void closeIterators() {
        open.values().forEach(KeyValueIterator::close);
        open.clear();
    }

    private Object call(final Op op) {
        switch (op.name) {
            case "open": {
                open.put(op.number("id"), iterator(new Op(op.text("call"), op.args, op.recordTimestamp)));
                return null;
            }
            case "has_next":
                return open.get(op.number("id")).hasNext();
            case "peek":
                return key(open.get(op.number("id")).peekNextKey());
            case "next": {
                final long count = op.has("count") ? op.number("count") : 1;
                final List<Object> out = new ArrayList<>();
                for (long i = 0; i < count; i++) {
                    try {
                        out.add(entry(open.get(op.number("id")).next()));
                    } catch (final NoSuchElementException e) {
                        out.add(Json.obj("error", "NoSuchElementException"));
                        break;
                    }
                }
                return out;
            }
            case "close": {
                final KeyValueIterator<?, ?> iterator = open.get(op.number("id"));
                iterator.close();
                return null;
            }
            case "flush_cache":
                ((CachedStateStore<?, ?>) store).flushCache();
                return null;
            case "query":
                return query(op);
            default:
                if (spec.isVersioned()) {
                    return versioned(op);
                }
                if (spec.isWindow()) {
                    return window(op);
                }
                if (spec.isSession()) {
                    return session(op);
                }
                return keyValue(op);
        }
    }

    // ---- reads that return an iterator

    @SuppressWarnings("unchecked")
    private KeyValueIterator<?, ?> iterator(final Op op) {
        if (spec.isWindow()) {
            final WindowStore<String, Object> windows = (WindowStore<String, Object>) store;
            switch (op.name) {
                case "fetch_range":
                    return windows.fetch(op.text("key"), op.number("from"), op.number("to"));
                case "backward_fetch_range":
                    return windows.backwardFetch(op.text("key"), op.number("from"), op.number("to"));
                case "fetch_keys":
                    return windows.fetch(op.text("key_from"), op.text("key_to"), op.number("from"), op.number("to"));
                case "backward_fetch_keys":
                    return windows.backwardFetch(op.text("key_from"), op.text("key_to"), op.number("from"), op.number("to"));
                case "fetch_all":
                    return windows.fetchAll(op.number("from"), op.number("to"));
                case "backward_fetch_all":
                    return windows.backwardFetchAll(op.number("from"), op.number("to"));
                case "all":
                    return windows.all();
                case "backward_all":
                    return windows.backwardAll();
                default:
                    throw new IllegalArgumentException(op.name);
            }
        }
        if (spec.isSession()) {
            final SessionStore<String, Object> sessions = (SessionStore<String, Object>) store;
            switch (op.name) {
                case "find_sessions":
                    return sessions.findSessions(op.text("key"), op.number("earliest_end"), op.number("latest_start"));
                case "backward_find_sessions":
                    return sessions.backwardFindSessions(op.text("key"), op.number("earliest_end"), op.number("latest_start"));
                case "find_sessions_keys":
                    return sessions.findSessions(op.text("key_from"), op.text("key_to"),
                        op.number("earliest_end"), op.number("latest_start"));
                case "backward_find_sessions_keys":
                    return sessions.backwardFindSessions(op.text("key_from"), op.text("key_to"),
                        op.number("earliest_end"), op.number("latest_start"));
                case "find_sessions_ending":
                    return sessions.findSessions(op.number("earliest_end"), op.number("latest_end"));
                case "fetch":
                    return sessions.fetch(op.text("key"));
                case "backward_fetch":
                    return sessions.backwardFetch(op.text("key"));
                case "fetch_keys":
                    return sessions.fetch(op.text("key_from"), op.text("key_to"));
                case "backward_fetch_keys":
                    return sessions.backwardFetch(op.text("key_from"), op.text("key_to"));
                default:
                    throw new IllegalArgumentException(op.name);
            }
        }
        final KeyValueStore<String, Object> keyValues = (KeyValueStore<String, Object>) store;
        switch (op.name) {
            case "range":
                return keyValues.range(op.text("from"), op.text("to"));
            case "reverse_range":
                return keyValues.reverseRange(op.text("from"), op.text("to"));
            case "all":
                return keyValues.all();
            case "reverse_all":
                return keyValues.reverseAll();
            case "prefix_scan":
                return keyValues.prefixScan(op.text("prefix"), new StringSerializer());
            default:
                throw new IllegalArgumentException(op.name);
        }
    }

    private List<Object> drain(final KeyValueIterator<?, ?> iterator) {
        final List<Object> out = new ArrayList<>();
        try (iterator) {
            while (iterator.hasNext()) {
                out.add(entry(iterator.next()));
            }
        }
        return out;
    }

    // ---- one kind at a time

    @SuppressWarnings("unchecked")
    private Object keyValue(final Op op) {
        final KeyValueStore<String, Object> keyValues = (KeyValueStore<String, Object>) store;
        switch (op.name) {
            case "get":
                return value(keyValues.get(op.text("key")));
            case "put":
                keyValues.put(op.text("key"), storeValue(op.args));
                return null;
            case "put_if_absent":
                return value(keyValues.putIfAbsent(op.text("key"), storeValue(op.args)));
            case "put_all": {
                final List<KeyValue<String, Object>> entries = new ArrayList<>();
                for (final Object entry : (List<?>) op.args.get("entries")) {
                    final Map<String, Object> fields = (Map<String, Object>) entry;
                    entries.add(KeyValue.pair((String) fields.get("key"), storeValue(fields)));
                }
                keyValues.putAll(entries);
                return null;
            }
            case "delete":
                return value(keyValues.delete(op.text("key")));
            case "approximate_num_entries":
                return keyValues.approximateNumEntries();
            default:
                return drain(iterator(op));
        }
    }

    @SuppressWarnings("unchecked")
    private Object versioned(final Op op) {
        final VersionedKeyValueStore<String, String> versions = (VersionedKeyValueStore<String, String>) store;
        switch (op.name) {
            case "put":
                return versions.put(op.text("key"), op.text("value"), op.number("timestamp"));
            case "delete":
                return version(versions.delete(op.text("key"), op.number("timestamp")));
            case "get":
                return version(versions.get(op.text("key")));
            case "get_as_of":
                return version(versions.get(op.text("key"), op.number("as_of")));
            default:
                throw new IllegalArgumentException(op.name);
        }
    }

    @SuppressWarnings("unchecked")
    private Object window(final Op op) {
        final WindowStore<String, Object> windows = (WindowStore<String, Object>) store;
        switch (op.name) {
            case "put":
                windows.put(op.text("key"), storeValue(op.args), op.number("window_start"));
                return null;
            case "fetch":
                return value(windows.fetch(op.text("key"), op.number("time")));
            default:
                return drain(iterator(op));
        }
    }

    @SuppressWarnings("unchecked")
    private Object session(final Op op) {
        final SessionStore<String, Object> sessions = (SessionStore<String, Object>) store;
        switch (op.name) {
            case "put":
                sessions.put(windowed(op), storeValue(op.args));
                return null;
            case "remove":
                sessions.remove(windowed(op));
                return null;
            case "fetch_session":
                return value(sessions.fetchSession(op.text("key"), op.number("start"), op.number("end")));
            default:
                return drain(iterator(op));
        }
    }

    private static Windowed<String> windowed(final Op op) {
        return new Windowed<>(op.text("key"), new SessionWindow(op.number("start"), op.number("end")));
    }

    // ---- IQv2

    private Object query(final Op op) {
        final QueryResult<?> result = store.query(buildQuery(op), PositionBound.unbounded(), new QueryConfig(false));
        if (result.isFailure()) {
            return Json.obj("failure", result.getFailureReason().name());
        }
        final Object answer = result.getResult();
        if (answer instanceof VersionedRecordIterator) {
            final List<Object> out = new ArrayList<>();
            try (VersionedRecordIterator<?> iterator = (VersionedRecordIterator<?>) answer) {
                while (iterator.hasNext()) {
                    out.add(version(iterator.next()));
                }
            }
            return out;
        }
        if (answer instanceof KeyValueIterator) {
            return drain((KeyValueIterator<?, ?>) answer);
        }
        return answer instanceof VersionedRecord ? version((VersionedRecord<?>) answer) : value(answer);
    }

    private static Query<?> buildQuery(final Op op) {
        final String order = op.text("order");
        switch (op.text("type")) {
            case "KeyQuery":
                return KeyQuery.withKey(op.text("key"));
            case "TimestampedKeyQuery":
                return TimestampedKeyQuery.withKey(op.text("key"));
            case "RangeQuery": {
                final RangeQuery<String, Object> query = RangeQuery.withRange(op.text("from"), op.text("to"));
                return "desc".equals(order) ? query.withDescendingKeys() : "asc".equals(order) ? query.withAscendingKeys() : query;
            }
            case "TimestampedRangeQuery": {
                final TimestampedRangeQuery<String, Object> query =
                    TimestampedRangeQuery.withRange(op.text("from"), op.text("to"));
                return "desc".equals(order) ? query.withDescendingKeys() : "asc".equals(order) ? query.withAscendingKeys() : query;
            }
            case "WindowKeyQuery":
                return WindowKeyQuery.withKeyAndWindowStartRange(
                    op.text("key"), Instant.ofEpochMilli(op.number("from")), Instant.ofEpochMilli(op.number("to")));
            case "WindowRangeQuery":
                return op.has("key")
                    ? WindowRangeQuery.withKey(op.text("key"))
                    : WindowRangeQuery.withWindowStartRange(
                        Instant.ofEpochMilli(op.number("from")), Instant.ofEpochMilli(op.number("to")));
            case "VersionedKeyQuery": {
                final VersionedKeyQuery<String, Object> query = VersionedKeyQuery.withKey(op.text("key"));
                return op.has("as_of") ? query.asOf(Instant.ofEpochMilli(op.number("as_of"))) : query;
            }
            case "MultiVersionedKeyQuery": {
                MultiVersionedKeyQuery<String, Object> query = MultiVersionedKeyQuery.withKey(op.text("key"));
                if (op.has("from")) {
                    query = query.fromTime(Instant.ofEpochMilli(op.number("from")));
                }
                if (op.has("to")) {
                    query = query.toTime(Instant.ofEpochMilli(op.number("to")));
                }
                return "asc".equals(order) ? query.withAscendingTimestamps()
                    : "desc".equals(order) ? query.withDescendingTimestamps() : query;
            }
            default:
                throw new IllegalArgumentException(op.text("type"));
        }
    }

    // ---- values

    private Object storeValue(final Map<String, Object> fields) {
        final String value = (String) fields.get("value");
        if (spec.hasHeaders()) {
            if (spec.isSession()) {
                return AggregationWithHeaders.make(value, headers(fields.get("headers")));
            }
            return ValueTimestampHeaders.make(
                value, fields.containsKey("timestamp") ? ((Number) fields.get("timestamp")).longValue() : 0,
                headers(fields.get("headers")));
        }
        if (spec.hasTimestamps()) {
            return value == null ? null : ValueAndTimestamp.make(value, ((Number) fields.get("timestamp")).longValue());
        }
        return value;
    }

    static Headers headers(final Object json) {
        final RecordHeaders headers = new RecordHeaders();
        if (json != null) {
            for (final Object pair : (List<?>) json) {
                final List<?> fields = (List<?>) pair;
                final String hex = (String) fields.get(1);
                headers.add((String) fields.get(0), hex == null ? null : Json.unhex(hex));
            }
        }
        return headers;
    }

    static List<Object> headersJson(final Headers headers) {
        final List<Object> out = new ArrayList<>();
        for (final Header header : headers) {
            out.add(Json.list(header.key(), Json.hex(header.value())));
        }
        return out;
    }

    static Object value(final Object value) {
        if (value instanceof ValueAndTimestamp) {
            final ValueAndTimestamp<?> pair = (ValueAndTimestamp<?>) value;
            return Json.obj("value", pair.value(), "timestamp", pair.timestamp());
        }
        if (value instanceof ValueTimestampHeaders) {
            final ValueTimestampHeaders<?> triple = (ValueTimestampHeaders<?>) value;
            return Json.obj("value", triple.value(), "timestamp", triple.timestamp(), "headers", headersJson(triple.headers()));
        }
        if (value instanceof AggregationWithHeaders) {
            final AggregationWithHeaders<?> pair = (AggregationWithHeaders<?>) value;
            return Json.obj("value", pair.aggregation(), "headers", headersJson(pair.headers()));
        }
        return value;
    }

    static Object key(final Object key) {
        if (key instanceof Windowed) {
            final Windowed<?> windowed = (Windowed<?>) key;
            return Json.list(windowed.key(), windowed.window().start(), windowed.window().end());
        }
        return key;
    }

    /** kv: [key, value]; one key of a window store: [start, value]; windowed: [key, start, end, value]. */
    private static Object entry(final KeyValue<?, ?> pair) {
        final Object key = key(pair.key);
        final List<Object> out = new ArrayList<>();
        if (key instanceof List) {
            out.addAll((List<?>) key);
        } else {
            out.add(key);
        }
        out.add(value(pair.value));
        return out;
    }

    private static Object version(final VersionedRecord<?> record) {
        if (record == null) {
            return null;
        }
        return Json.obj("value", record.value(), "timestamp", record.timestamp(), "valid_to", record.validTo().orElse(null));
    }
}
