package parity.stores;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.UUID;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.SessionWindowedDeserializer;
import org.apache.kafka.streams.kstream.SessionWindowedSerializer;
import org.apache.kafka.streams.kstream.TimeWindowedDeserializer;
import org.apache.kafka.streams.kstream.TimeWindowedSerializer;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.Change;
import org.apache.kafka.streams.kstream.internals.ChangedDeserializer;
import org.apache.kafka.streams.kstream.internals.ChangedSerializer;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.kstream.internals.TimeWindow;
import org.apache.kafka.streams.kstream.internals.WindowedStreamPartitioner;
import org.apache.kafka.streams.kstream.internals.foreignkeyjoin.ForeignKeyFormats;
import org.apache.kafka.streams.kstream.internals.foreignkeyjoin.SubscriptionResponseWrapper;
import org.apache.kafka.streams.kstream.internals.foreignkeyjoin.SubscriptionResponseWrapperSerde;
import org.apache.kafka.streams.kstream.internals.foreignkeyjoin.SubscriptionWrapper;
import org.apache.kafka.streams.kstream.internals.foreignkeyjoin.SubscriptionWrapperSerde;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.internals.DefaultStreamPartitioner;
import org.apache.kafka.streams.processor.internals.ProcessorMetadata;
import org.apache.kafka.streams.processor.internals.ProcessorRecordContext;
import org.apache.kafka.streams.processor.internals.TopicPartitionMetadata;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.state.AggregationWithHeaders;
import org.apache.kafka.streams.state.HeadersBytesStore;
import org.apache.kafka.streams.state.TimestampedBytesStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.ValueTimestampHeaders;
import org.apache.kafka.streams.state.internals.AggregationWithHeadersSerde;
import org.apache.kafka.streams.state.internals.LeftOrRightValue;
import org.apache.kafka.streams.state.internals.LeftOrRightValueSerde;
import org.apache.kafka.streams.state.internals.Murmur3;
import org.apache.kafka.streams.state.internals.PositionSerde;
import org.apache.kafka.streams.state.internals.SessionKeySchema;
import org.apache.kafka.streams.state.internals.StateFormats;
import org.apache.kafka.streams.state.internals.TimestampedKeyAndJoinSide;
import org.apache.kafka.streams.state.internals.TimestampedKeyAndJoinSideSerde;
import org.apache.kafka.streams.state.internals.ValueAndTimestampSerde;
import org.apache.kafka.streams.state.internals.ValueTimestampHeadersSerde;
import org.apache.kafka.streams.state.internals.WindowKeySchema;

/** Byte-format vectors: each method returns the groups of one file. */
final class Formats {
    private static final String TOPIC = "topic";
    private static final Headers NO_HEADERS = new RecordHeaders();
    private final Pool pool;

    Formats(final long seed) {
        pool = new Pool(seed);
    }

    private static byte[] utf8(final String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    private static RecordHeaders noHeaders() {
        return new RecordHeaders();
    }

    private static RecordHeaders headers(final List<Object> json) {
        return (RecordHeaders) StoreCalls.headers(json);
    }

    private static List<Object> groups(final Vectors... vectors) {
        final List<Object> out = new ArrayList<>();
        for (final Vectors group : vectors) {
            out.add(group.json);
        }
        return out;
    }

    // ---- serdes

    private static <T> void scalar(final Vectors group, final Serde<T> serde, final T value, final Object json) {
        group.encode(Json.obj("value", json), () -> serde.serializer().serialize(TOPIC, value));
    }

    private static <T> void unscalar(final Vectors group, final Serde<T> serde, final String... hexes) {
        for (final String hex : hexes) {
            group.decode(Json.obj("hex", hex), () -> {
                final Object value = serde.deserializer().deserialize(TOPIC, hex == null ? null : Json.unhex(hex));
                return value instanceof UUID ? value.toString() : value;
            });
        }
    }

    List<Object> serdes() {
        final Vectors string = new Vectors("string", "Serdes.String", "UTF-8; a lone surrogate becomes '?'; null stays null");
        for (final String text : pool.texts(14)) {
            scalar(string, Serdes.String(), text, text);
        }
        scalar(string, Serdes.String(), "lone \ud83d high", "lone \ud83d high");
        scalar(string, Serdes.String(), "\ude00", "\ude00");
        scalar(string, Serdes.String(), null, null);
        unscalar(string, Serdes.String(), "", "61", "c3a4", null);

        final Vectors longs = new Vectors("long", "Serdes.Long", "8 bytes big-endian, two's complement");
        pool.longs(14).forEach(value -> scalar(longs, Serdes.Long(), value, value));
        scalar(longs, Serdes.Long(), null, null);
        unscalar(longs, Serdes.Long(), "0000000000000001", "00000001", "", "000000000000000001", null);

        final Vectors ints = new Vectors("int", "Serdes.Integer", "4 bytes big-endian");
        final Vectors shorts = new Vectors("short", "Serdes.Short", "2 bytes big-endian");
        for (final Long value : pool.longs(12)) {
            scalar(ints, Serdes.Integer(), value.intValue(), value.intValue());
            scalar(shorts, Serdes.Short(), value.shortValue(), value.shortValue());
        }
        scalar(ints, Serdes.Integer(), Integer.MIN_VALUE, Integer.MIN_VALUE);
        scalar(shorts, Serdes.Short(), Short.MIN_VALUE, Short.MIN_VALUE);
        unscalar(ints, Serdes.Integer(), "00000001", "0001", "", null);
        unscalar(shorts, Serdes.Short(), "0001", "01", "", null);

        final Vectors doubles = new Vectors("double", "Serdes.Double", "8 bytes IEEE 754 big-endian; NaN is 7ff8000000000000");
        final Vectors floats = new Vectors("float", "Serdes.Float", "4 bytes IEEE 754 big-endian; NaN is 7fc00000");
        final List<Double> numbers = new ArrayList<>(Arrays.asList(0.0, -0.0, 1.0, -1.5, Double.MAX_VALUE, Double.MIN_VALUE,
            Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY));
        for (int i = 0; i < 5; i++) {
            numbers.add(pool.random.nextGaussian() * Math.pow(10, pool.random.nextInt(40) - 20));
        }
        for (final Double value : numbers) {
            scalar(doubles, Serdes.Double(), value, value);
            scalar(floats, Serdes.Float(), value.floatValue(), value.floatValue());
        }
        unscalar(doubles, Serdes.Double(), "3ff0000000000000", "3ff0", null);
        unscalar(floats, Serdes.Float(), "3f800000", "3f", null);

        final Vectors bytes = new Vectors("bytes", "Serdes.ByteArray, Serdes.Bytes, Serdes.ByteBuffer", "the bytes themselves");
        for (final byte[] value : pool.byteArrays(8)) {
            scalar(bytes, Serdes.ByteArray(), value, Json.hex(value));
            scalar(bytes, Serdes.Bytes(), Bytes.wrap(value), Json.hex(value));
            scalar(bytes, Serdes.ByteBuffer(), ByteBuffer.wrap(value), Json.hex(value));
        }

        final Vectors uuid = new Vectors("uuid", "Serdes.UUID", "the 36 characters of its lower-case text, UTF-8");
        scalar(uuid, Serdes.UUID(), new UUID(0, 0), new UUID(0, 0).toString());
        for (int i = 0; i < 6; i++) {
            final UUID value = new UUID(pool.random.nextLong(), pool.random.nextLong());
            scalar(uuid, Serdes.UUID(), value, value.toString());
        }
        unscalar(uuid, Serdes.UUID(), Json.hex(utf8("0B5E6F1A-0000-4000-8000-00000000000F")), Json.hex(utf8("1-2-3-4-5")),
            Json.hex(utf8("no")), "", null);

        final Vectors booleans = new Vectors("boolean", "Serdes.Boolean", "one byte, 01 or 00; any other byte is an error");
        scalar(booleans, Serdes.Boolean(), true, true);
        scalar(booleans, Serdes.Boolean(), false, false);
        scalar(booleans, Serdes.Boolean(), null, null);
        unscalar(booleans, Serdes.Boolean(), "00", "01", "02", "", "0000", null);

        final Vectors voids = new Vectors("void", "Serdes.Void", "null only");
        scalar(voids, Serdes.Void(), null, null);
        unscalar(voids, Serdes.Void(), null, "", "00");

        return groups(string, longs, ints, shorts, doubles, floats, bytes, uuid, booleans, voids,
            list("list of string", Serdes.String(), pool.texts(8)),
            list("list of long", Serdes.Long(), pool.longs(8)),
            list("list of int", Serdes.Integer(), Arrays.asList(1, -1, 0, pool.random.nextInt(), pool.random.nextInt())),
            list("list of short", Serdes.Short(), Arrays.asList((short) 1, (short) -1, (short) pool.random.nextInt())),
            list("list of double", Serdes.Double(), Arrays.asList(1.5, -2.25, pool.random.nextDouble())),
            list("list of uuid", Serdes.UUID(), Arrays.asList(new UUID(1, 2), new UUID(pool.random.nextLong(), 4))),
            byteList(), unreadableLists());
    }

    private static Vectors unreadableLists() {
        final Vectors group = new Vectors("list of string read back", "ListDeserializer",
            "an empty last item is written but cannot be read back: the reader takes it for the end of the data");
        final Serde<List<String>> serde = Serdes.ListSerde(ArrayList.class, Serdes.String());
        for (final String hex : new String[] {"0100000000", "01000000010000000161", "010000000100000000", "0100000002000000000000000161",
            "010000000200000001610000" + "0000", "0100000001ffffffff", "01000000020000000161", "0200000000", "01", "", null}) {
            group.decode(Json.obj("hex", hex), () -> serde.deserializer().deserialize(TOPIC, hex == null ? null : Json.unhex(hex)));
        }
        return group;
    }

    private <T> Vectors list(final String name, final Serde<T> inner, final List<T> items) {
        final Vectors group = new Vectors(name, "Serdes.ListSerde(ArrayList.class, inner)",
            "fixed-size inner serdes (short, int, long, float, double, uuid): byte 0, count of nulls i32, their indexes i32 each, "
                + "count of all items i32, the non-null items; others: byte 1, count i32, each item as length i32 (-1 for null) and bytes");
        final Serde<List<T>> serde = Serdes.ListSerde(ArrayList.class, inner);
        final List<List<T>> lists = new ArrayList<>();
        lists.add(new ArrayList<>());
        lists.add(new ArrayList<>(items.subList(0, 1)));
        lists.add(new ArrayList<>(items));
        lists.add(new ArrayList<>(Arrays.asList(items.get(0), null, items.get(1))));
        lists.add(new ArrayList<>(Arrays.asList((T) null)));
        lists.add(new ArrayList<>(Arrays.asList(null, items.get(1), null, null)));
        for (final List<T> value : lists) {
            final List<Object> json = new ArrayList<>();
            for (final T item : value) {
                json.add(item instanceof UUID ? item.toString() : item);
            }
            group.encode(Json.obj("items", json), () -> serde.serializer().serialize(TOPIC, value));
        }
        group.encode(Json.obj("items", null), () -> serde.serializer().serialize(TOPIC, null));
        return group;
    }

    private Vectors byteList() {
        final Vectors group = new Vectors("list of bytes (the value of a list store)", "Serdes.ListSerde(ArrayList.class, Serdes.ByteArray())",
            "byte 1, count i32, each item as length i32 and bytes");
        final Serde<List<byte[]>> serde = Serdes.ListSerde(ArrayList.class, Serdes.ByteArray());
        for (int i = 0; i < 6; i++) {
            final List<byte[]> items = new ArrayList<>();
            final List<Object> json = new ArrayList<>();
            for (int j = 0; j < i; j++) {
                final byte[] item = j == 3 ? null : pool.bytes(10);
                items.add(item);
                json.add(Json.hex(item));
            }
            group.encode(Json.obj("items_hex", json), () -> serde.serializer().serialize(TOPIC, items));
        }
        return group;
    }

    // ---- store values

    List<Object> values() {
        final Vectors timestamped = new Vectors("timestamped value", "ValueAndTimestampSerde", "timestamp i64, value bytes");
        final Serde<ValueAndTimestamp<String>> serde = new ValueAndTimestampSerde<>(Serdes.String());
        for (final String text : pool.texts(9)) {
            final long time = pool.timestamp();
            timestamped.encode(Json.obj("value", text, "timestamp", time),
                () -> serde.serializer().serialize(TOPIC, ValueAndTimestamp.make(text, time)));
        }
        timestamped.encode(Json.obj("value", "x", "timestamp", -1L), () -> serde.serializer().serialize(TOPIC, ValueAndTimestamp.make("x", -1)));
        timestamped.encode(Json.obj("value", null, "timestamp", 5L), () -> serde.serializer().serialize(TOPIC, ValueAndTimestamp.make(null, 5)));
        timestamped.encode(Json.obj("value", null, "timestamp", 5L, "allow_null", true),
            () -> serde.serializer().serialize(TOPIC, ValueAndTimestamp.makeAllowNullable(null, 5)));

        final Vectors plainToTimestamped = new Vectors("plain value read by a timestamped store", "TimestampedBytesStore.convertToTimestampedFormat",
            "timestamp -1, value bytes; null stays null");
        final Vectors toHeaders = new Vectors("timestamped value read by a headers store", "HeadersBytesStore.convertToHeaderFormat",
            "byte 0, then the timestamped value; null stays null");
        final Vectors plainToHeaders = new Vectors("plain value read by a headers store", "HeadersBytesStore.convertFromPlainToHeaderFormat",
            "byte 0, timestamp -1, value bytes; null stays null");
        for (final byte[] value : pool.byteArrays(6)) {
            plainToTimestamped.encode(Json.obj("hex", Json.hex(value)), () -> TimestampedBytesStore.convertToTimestampedFormat(value));
            toHeaders.encode(Json.obj("hex", Json.hex(value)), () -> HeadersBytesStore.convertToHeaderFormat(value));
            plainToHeaders.encode(Json.obj("hex", Json.hex(value)), () -> HeadersBytesStore.convertFromPlainToHeaderFormat(value));
        }
        plainToTimestamped.encode(Json.obj("hex", null), () -> TimestampedBytesStore.convertToTimestampedFormat(null));
        toHeaders.encode(Json.obj("hex", null), () -> HeadersBytesStore.convertToHeaderFormat(null));
        plainToHeaders.encode(Json.obj("hex", null), () -> HeadersBytesStore.convertFromPlainToHeaderFormat(null));

        final Vectors headerBytes = new Vectors("headers", "HeadersSerializer",
            "nothing for no headers; else count varint, each header as key length varint, key UTF-8, value length varint (-1 for null), value");
        final Vectors withHeaders = new Vectors("value with timestamp and headers", "ValueTimestampHeadersSerde",
            "size of the headers varint, headers, timestamp i64, value bytes");
        final Vectors aggregate = new Vectors("session aggregate with headers", "AggregationWithHeadersSerde",
            "size of the headers varint, headers, aggregate bytes");
        final Serde<ValueTimestampHeaders<String>> headersSerde = new ValueTimestampHeadersSerde<>(Serdes.String());
        final Serde<AggregationWithHeaders<String>> aggregateSerde = new AggregationWithHeadersSerde<>(Serdes.String());
        for (int i = 0; i < 14; i++) {
            final List<Object> headers = i == 0 ? Json.list() : i == 1 ? Json.list(Json.list("h", ""), Json.list("h", null), Json.list("", "00"))
                : i == 2 ? Json.list(Json.list("long", "ab".repeat(70))) : pool.headers();
            final String text = i == 0 ? "" : pool.text(9);
            final long time = pool.timestamp();
            headerBytes.encode(Json.obj("headers", headers), () -> StateFormats.headers(headers(headers)));
            withHeaders.encode(Json.obj("value", text, "timestamp", time, "headers", headers),
                () -> headersSerde.serializer().serialize(TOPIC, noHeaders(), ValueTimestampHeaders.make(text, time, headers(headers))));
            aggregate.encode(Json.obj("value", text, "headers", headers),
                () -> aggregateSerde.serializer().serialize(TOPIC, noHeaders(), AggregationWithHeaders.make(text, headers(headers))));
        }
        withHeaders.encode(Json.obj("value", null, "timestamp", 7L, "headers", Json.list()),
            () -> headersSerde.serializer().serialize(TOPIC, noHeaders(), ValueTimestampHeaders.make(null, 7, noHeaders())));
        withHeaders.encode(Json.obj("value", null, "timestamp", 7L, "headers", Json.list(Json.list("h", "01")), "allow_null", true),
            () -> headersSerde.serializer().serialize(TOPIC, noHeaders(),
                ValueTimestampHeaders.makeAllowNullable(null, 7, headers(Json.list(Json.list("h", "01"))))));

        final Vectors side = new Vectors("left or right value", "LeftOrRightValueSerde", "byte 1 for left, 0 for right, value bytes");
        final Serde<LeftOrRightValue<String, Long>> sideSerde = new LeftOrRightValueSerde<>(Serdes.String(), Serdes.Long());
        for (final String text : pool.texts(6)) {
            side.encode(Json.obj("side", "left", "value", text),
                () -> sideSerde.serializer().serialize(TOPIC, noHeaders(), LeftOrRightValue.makeLeftValue(text)));
        }
        for (final Long number : pool.longs(7)) {
            side.encode(Json.obj("side", "right", "value", number),
                () -> sideSerde.serializer().serialize(TOPIC, noHeaders(), LeftOrRightValue.makeRightValue(number)));
        }
        return groups(timestamped, plainToTimestamped, toHeaders, plainToHeaders, headerBytes, withHeaders, aggregate, side);
    }

    // ---- store and topic keys

    List<Object> keys() {
        final Vectors timeWindowed = new Vectors("windowed key on a topic", "TimeWindowedSerializer", "key, window start i64");
        final Vectors windowStore = new Vectors("window store key and its changelog key", "WindowKeySchema", "key, window start i64, sequence number i32");
        final Vectors readWindow = new Vectors("windowed key read back", "TimeWindowedDeserializer",
            "end = start + window size, or the largest long if that overflows; changelog form: the sequence number is dropped");
        final Vectors session = new Vectors("session key on a topic, in a store, on a changelog", "SessionWindowedSerializer, SessionKeySchema",
            "key, session end i64, session start i64");
        final Vectors prefixed = new Vectors("time-ordered and key-ordered rows of an indexed store",
            "PrefixedWindowKeySchemas, PrefixedSessionKeySchemas",
            "time first: byte 0, times, key (and sequence number); key first: byte 1, the ordinary key");
        final Vectors joinSide = new Vectors("outer-join store key", "TimestampedKeyAndJoinSideSerde", "timestamp i64, byte 1 for left or 0 for right, key");
        final Vectors bounds = new Vectors("range bounds of window and session stores", "WindowKeySchema, SessionKeySchema",
            "what a range scan uses as lower and upper bound");
        final TimeWindowedSerializer<String> windowSerializer = new TimeWindowedSerializer<>(Serdes.String().serializer());
        final SessionWindowedSerializer<String> sessionSerializer = new SessionWindowedSerializer<>(Serdes.String().serializer());
        final Serde<TimestampedKeyAndJoinSide<String>> sideSerde = new TimestampedKeyAndJoinSideSerde<>(Serdes.String());
        for (final String key : pool.texts(10)) {
            final long start = pool.timestamp() / 2;
            final long end = start + pool.random.nextInt(100_000);
            final long size = 1 + pool.random.nextInt(1_000_000);
            final int sequence = pool.random.nextInt(3) == 0 ? 0 : pool.random.nextInt(Integer.MAX_VALUE);
            final Bytes keyBytes = Bytes.wrap(utf8(key));
            timeWindowed.encode(Json.obj("key", key, "start", start, "end", start + size),
                () -> windowSerializer.serialize(TOPIC, new Windowed<>(key, new TimeWindow(start, start + size))));
            windowStore.encode(Json.obj("key", key, "start", start, "sequence", sequence),
                () -> WindowKeySchema.toStoreKeyBinary(keyBytes, start, sequence).get());
            final byte[] topicForm = windowSerializer.serialize(TOPIC, new Windowed<>(key, new TimeWindow(start, start + size)));
            final byte[] storeForm = WindowKeySchema.toStoreKeyBinary(keyBytes, start, sequence).get();
            readWindow.decode(Json.obj("hex", Json.hex(topicForm), "window_size_ms", size, "changelog", false), () -> readWindow(topicForm, size, false));
            readWindow.decode(Json.obj("hex", Json.hex(storeForm), "window_size_ms", size, "changelog", true), () -> readWindow(storeForm, size, true));
            session.encode(Json.obj("key", key, "start", start, "end", end),
                () -> sessionSerializer.serialize(TOPIC, new Windowed<>(key, new SessionWindow(start, end))));
            session.encode(Json.obj("key", key, "start", start, "end", end, "form", "store"),
                () -> SessionKeySchema.toBinary(keyBytes, start, end).get());
            prefixed.encode(Json.obj("kind", "window", "first", "time", "key", key, "start", start, "sequence", sequence),
                () -> StateFormats.timeFirstWindow(keyBytes.get(), start, sequence));
            prefixed.encode(Json.obj("kind", "window", "first", "key", "key", key, "start", start, "sequence", sequence),
                () -> StateFormats.keyFirstWindow(keyBytes.get(), start, sequence));
            prefixed.encode(Json.obj("kind", "session", "first", "time", "key", key, "start", start, "end", end),
                () -> StateFormats.timeFirstSession(keyBytes, start, end));
            prefixed.encode(Json.obj("kind", "session", "first", "key", "key", key, "start", start, "end", end),
                () -> StateFormats.keyFirstSession(keyBytes, start, end));
            for (final boolean left : new boolean[] {true, false}) {
                joinSide.encode(Json.obj("key", key, "timestamp", start, "side", left ? "left" : "right"),
                    () -> sideSerde.serializer().serialize(TOPIC, noHeaders(), left
                        ? TimestampedKeyAndJoinSide.makeLeft(key, start) : TimestampedKeyAndJoinSide.makeRight(key, start)));
            }
            final WindowKeySchema windows = new WindowKeySchema();
            final SessionKeySchema sessions = new SessionKeySchema();
            bounds.add(Json.obj("input", Json.obj("key", key, "from", start, "to", end),
                "window_lower_hex", Json.hex(windows.lowerRange(keyBytes, start).get()),
                "window_upper_hex", Json.hex(windows.upperRange(keyBytes, end).get()),
                "window_lower_one_key_hex", Json.hex(windows.lowerRangeFixedSize(keyBytes, start).get()),
                "window_upper_one_key_hex", Json.hex(windows.upperRangeFixedSize(keyBytes, end).get()),
                "session_lower_hex", Json.hex(sessions.lowerRange(keyBytes, start).get()),
                "session_upper_hex", Json.hex(sessions.upperRange(keyBytes, end).get()),
                "session_lower_one_key_hex", Json.hex(sessions.lowerRangeFixedSize(keyBytes, start).get()),
                "session_upper_one_key_hex", Json.hex(sessions.upperRangeFixedSize(keyBytes, end).get())));
        }
        readWindow.decode(Json.obj("hex", "61" + "7ffffffffffffff0", "window_size_ms", 1_000L, "changelog", false),
            () -> readWindow(Json.unhex("617ffffffffffffff0"), 1_000L, false));
        timeWindowed.encode(Json.obj("key", null), () -> windowSerializer.serialize(TOPIC, null));
        session.encode(Json.obj("key", null), () -> sessionSerializer.serialize(TOPIC, null));
        final Vectors readSession = new Vectors("session key read back", "SessionWindowedDeserializer", "null for null or no bytes");
        for (final String hex : new String[] {"61" + "0000000000000014" + "000000000000000a", "0000000000000005" + "0000000000000005", "", null}) {
            readSession.decode(Json.obj("hex", hex), () -> {
                final Windowed<String> windowed = new SessionWindowedDeserializer<>(Serdes.String().deserializer())
                    .deserialize(TOPIC, hex == null ? null : Json.unhex(hex));
                return windowed == null ? null : StoreCalls.key(windowed);
            });
        }
        return groups(timeWindowed, windowStore, readWindow, session, readSession, prefixed, joinSide, bounds);
    }

    private static Object readWindow(final byte[] bytes, final long size, final boolean changelog) {
        final TimeWindowedDeserializer<String> deserializer = new TimeWindowedDeserializer<>(Serdes.String().deserializer(), size);
        deserializer.setIsChangelogTopic(changelog);
        return StoreCalls.key(deserializer.deserialize(TOPIC, bytes));
    }

    // ---- rows of versioned segments

    List<Object> versionedRows() {
        final Vectors rows = new Vectors("row of a segment of a versioned store", "RocksDBVersionedStoreSegmentValueFormatter",
            "next timestamp i64, min timestamp i64, entries newest first of (valid from i64, value size i32, -1 for a tombstone), values oldest first; "
                + "index 0 is the newest entry");
        final Object[][][] scripts = {
            {{"new", "v", 10L, 20L}},
            {{"new", "", 0L, 1L}},
            {{"new", null, 10L, 20L}},
            {{"new", null, 10L, 10L}},
            {{"new", "a", 10L, 20L}, {"latest", "b", 20L, 30L}, {"latest", "cc", 30L, 45L}},
            {{"new", "a", 10L, 20L}, {"latest", "c", 25L, 30L}},
            {{"new", "a", 10L, 20L}, {"latest", null, 20L, 30L}, {"latest", "b", 30L, 31L}},
            {{"new", "a", 10L, 20L}, {"earliest", "z", 5L}, {"earliest", null, 3L}, {"earliest", "y", 1L}},
            {{"new", "a", 10L, 40L}, {"insert", "b", 20L}, {"insert", "c", 15L}, {"insert", null, 30L}, {"insert", "", 31L}},
            {{"new", "a", 10L, 40L}, {"insert", "b", 20L}, {"update", "B", 20L, 20L}, {"update", null, 12L, 10L}},
            {{"new", "a", 10L, 40L}, {"latest", "b", 40L, 50L}, {"latest", "again", 40L, 60L}},
            {{"new", "a", 10L, 20L}, {"latest", "b", 20L, 30L}, {"latest", "truncates", 15L, 50L}},
            {{"new", null, 10L, 10L}, {"latest", "x", 15L, 20L}},
            {{"new", null, 10L, 10L}, {"latest", "x", 10L, 20L}},
        };
        for (final Object[][] script : scripts) {
            row(rows, Arrays.asList(script));
        }
        for (int i = 0; i < 8; i++) {
            final List<Object[]> script = new ArrayList<>();
            long next = 1_000 + pool.random.nextInt(1_000);
            long min = next - 1 - pool.random.nextInt(100);
            script.add(new Object[] {"new", maybe(), min, next});
            for (int j = pool.random.nextInt(7); j > 0; j--) {
                switch (pool.random.nextInt(3)) {
                    case 0: {
                        final long from = next + (pool.random.nextBoolean() ? 0 : pool.random.nextInt(50));
                        next = from + 1 + pool.random.nextInt(100);
                        script.add(new Object[] {"latest", maybe(), from, next});
                        break;
                    }
                    case 1:
                        min = min - 1 - pool.random.nextInt(100);
                        script.add(new Object[] {"earliest", maybe(), min});
                        break;
                    default: {
                        final long at = min + 1 + pool.random.nextInt((int) (next - min));
                        if (at < next) {
                            script.add(new Object[] {"insert", maybe(), at});
                        }
                    }
                }
            }
            row(rows, script);
        }
        return groups(rows);
    }

    private String maybe() {
        return pool.random.nextInt(5) == 0 ? null : pool.text(6);
    }

    private static void row(final Vectors group, final List<Object[]> script) {
        final List<Object> steps = new ArrayList<>();
        StateFormats.Row row = null;
        for (final Object[] step : script) {
            final byte[] value = utf8((String) step[1]);
            final Map<String, Object> json;
            switch ((String) step[0]) {
                case "new":
                    json = Json.obj("call", "new", "value", step[1], "valid_from", step[2], "valid_to", step[3]);
                    row = new StateFormats.Row(value, (long) step[2], (long) step[3]);
                    break;
                case "latest":
                    json = Json.obj("call", "insert_as_latest", "value", step[1], "valid_from", step[2], "valid_to", step[3]);
                    row.insertAsLatest((long) step[2], (long) step[3], value);
                    break;
                case "earliest":
                    json = Json.obj("call", "insert_as_earliest", "value", step[1], "timestamp", step[2]);
                    row.insertAsEarliest((long) step[2], value);
                    break;
                case "insert":
                    json = Json.obj("call", "insert", "value", step[1], "timestamp", step[2]);
                    json.put("index", row.insert((long) step[2], value));
                    break;
                default:
                    json = Json.obj("call", "update", "value", step[1], "at", step[2], "timestamp", step[3]);
                    json.put("index", row.update((long) step[2], (long) step[3], value));
            }
            json.put("hex", Json.hex(row.bytes()));
            json.put("next_timestamp", row.nextTimestamp());
            json.put("min_timestamp", row.minTimestamp());
            steps.add(json);
        }
        final List<Object> finds = new ArrayList<>();
        for (final long at : new long[] {row.minTimestamp(), (row.minTimestamp() + row.nextTimestamp()) / 2, row.nextTimestamp() - 1}) {
            if (at >= row.minTimestamp() && at < row.nextTimestamp()) {
                finds.add(Json.obj("at", at, "found", found(row.find(at))));
            }
        }
        final List<Object> all = new ArrayList<>();
        for (final Object[] found : row.findAll(row.minTimestamp(), row.nextTimestamp())) {
            all.add(found(found));
        }
        group.add(Json.obj("steps", steps, "find", finds, "find_all", all));
    }

    private static Object found(final Object[] result) {
        return Json.obj("index", result[0], "valid_from", result[1], "valid_to", result[2], "value_hex", Json.hex((byte[]) result[3]));
    }

    // ---- Change

    List<Object> changes() {
        final Vectors encoded = new Vectors("change on a repartition topic", "ChangedSerializer",
            "both: new length varint, new, old, byte 2; new only: new, byte 1; old only: old, byte 0");
        final Vectors decoded = new Vectors("change read back", "ChangedDeserializer",
            "flags 0, 1, 2 as written; 3, 4, 5 carry an isLatest byte before the flag");
        final ChangedSerializer<String> plain = new ChangedSerializer<>(Serdes.String().serializer());
        final List<String> texts = pool.texts(12);
        texts.add("x".repeat(200));
        final List<String[]> pairs = new ArrayList<>();
        for (int i = 0; i + 1 < texts.size(); i++) {
            pairs.add(new String[] {texts.get(i), texts.get(i + 1)});
        }
        for (final String text : texts.subList(0, 5)) {
            pairs.add(new String[] {text, null});
            pairs.add(new String[] {null, text});
        }
        pairs.add(new String[] {null, null});
        pairs.add(new String[] {"same", "same"});
        for (final String[] pair : pairs) {
            encoded.encode(Json.obj("new", pair[0], "old", pair[1], "upgrade_from", null),
                () -> plain.serialize(TOPIC, noHeaders(), new Change<>(pair[0], pair[1])));
        }
        for (final String from : new String[] {"2.4", "3.3", "3.4", "3.5", "4.0"}) {
            final ChangedSerializer<String> upgrading = new ChangedSerializer<>(Serdes.String().serializer());
            upgrading.configure(Map.of(StreamsConfig.UPGRADE_FROM_CONFIG, from), true);
            for (final String[] pair : new String[][] {{"n", "o"}, {"n", null}, {null, "o"}}) {
                encoded.encode(Json.obj("new", pair[0], "old", pair[1], "upgrade_from", from),
                    () -> upgrading.serialize(TOPIC, noHeaders(), new Change<>(pair[0], pair[1])));
            }
        }
        encoded.encode(Json.obj("new", "n", "old", "o", "upgrade_from", null, "is_latest", false),
            () -> plain.serialize(TOPIC, noHeaders(), new Change<>("n", "o", false)));
        final ChangedDeserializer<String> reader = new ChangedDeserializer<>(Serdes.String().deserializer());
        for (final String hex : new String[] {"6f00", "6e01", "026e6f02", "00" + "02", "00", "01", "6f0103", "6f0003", "6e0104", "6e0004",
            "026e6f0105", "026e6f0005", "6f0203", "6f06", "026e6e6e6e02"}) {
            decoded.decode(Json.obj("hex", hex), () -> {
                final Change<String> change = reader.deserialize(TOPIC, noHeaders(), Json.unhex(hex));
                return Json.obj("new", change.newValue, "old", change.oldValue, "is_latest", change.isLatest);
            });
        }
        return groups(encoded, decoded);
    }

    // ---- foreign-key join

    List<Object> foreignKeys() {
        final Vectors combined = new Vectors("foreign-key subscription store key", "CombinedKeySchema", "foreign key length i32, foreign key, primary key");
        final Vectors prefix = new Vectors("prefix of all subscriptions of a foreign key", "CombinedKeySchema.prefixBytes", "foreign key length i32, foreign key");
        final Vectors subscription = new Vectors("subscription", "SubscriptionWrapperSerde",
            "version byte with the top bit set if the hash is null, instruction byte, hash 2 x i64, primary key, primary partition i32 (version 1 only)");
        final Vectors response = new Vectors("subscription response", "SubscriptionResponseWrapperSerde",
            "version byte 0 with the top bit set if the hash is null, hash 2 x i64, value (absent for null)");
        final Serde<SubscriptionWrapper<String>> wrapper = new SubscriptionWrapperSerde<>(() -> "pk", Serdes.String());
        final SubscriptionResponseWrapperSerde<String> responses = new SubscriptionResponseWrapperSerde<>(Serdes.String());
        final List<String> keys = pool.texts(8);
        final SubscriptionWrapper.Instruction[] instructions = SubscriptionWrapper.Instruction.values();
        for (int i = 0; i < 16; i++) {
            final String foreign = keys.get(pool.random.nextInt(keys.size()));
            final String primary = keys.get(i % keys.size());
            final long number = pool.random.nextLong();
            final int partition = i == 0 ? 0 : i == 1 ? Integer.MAX_VALUE : pool.random.nextInt(50);
            combined.encode(Json.obj("foreign", foreign, "primary", primary),
                () -> ForeignKeyFormats.combinedKey(Serdes.String(), Serdes.String(), foreign, primary));
            combined.encode(Json.obj("foreign", number, "primary", primary),
                () -> ForeignKeyFormats.combinedKey(Serdes.Long(), Serdes.String(), number, primary));
            prefix.encode(Json.obj("foreign", foreign), () -> ForeignKeyFormats.prefix(Serdes.String(), Serdes.String(), foreign));
            final long[] hash = i % 4 == 3 ? null : Murmur3.hash128(utf8(keys.get((i + 1) % keys.size())));
            final SubscriptionWrapper.Instruction instruction = instructions[i % instructions.length];
            for (final byte version : new byte[] {0, 1}) {
                subscription.encode(Json.obj("version", (int) version, "instruction", instruction.name(), "instruction_byte", (int) instruction.value(),
                    "hash", hashJson(hash), "primary", primary, "primary_partition", partition),
                    () -> wrapper.serializer().serialize(TOPIC, noHeaders(),
                        new SubscriptionWrapper<>(hash, instruction, primary, version, partition)));
            }
            final String value = i % 3 == 2 ? null : foreign;
            response.encode(Json.obj("hash", hashJson(hash), "value", value),
                () -> responses.serializer().serialize(TOPIC, noHeaders(), new SubscriptionResponseWrapper<>(hash, value, partition)));
        }
        final Serde<SubscriptionWrapper<String>> upgrading = new SubscriptionWrapperSerde<>(() -> "pk", Serdes.String());
        upgrading.serializer().configure(Map.of(StreamsConfig.UPGRADE_FROM_CONFIG, "3.3"), true);
        subscription.encode(Json.obj("version", 1, "upgrade_from", "3.3", "instruction", instructions[1].name(),
            "instruction_byte", (int) instructions[1].value(), "hash", Json.list(1L, 2L), "primary", "k", "primary_partition", 3),
            () -> upgrading.serializer().serialize(TOPIC, noHeaders(),
                new SubscriptionWrapper<>(new long[] {1, 2}, instructions[1], "k", (byte) 1, 3)));
        final Vectors responseRead = new Vectors("subscription response read back", "SubscriptionResponseWrapperSerde",
            "an empty value cannot be told from null");
        for (final String hex : new String[] {"80", "8061", "00" + "0000000000000001" + "0000000000000002",
            "00" + "0000000000000001" + "0000000000000002" + "61"}) {
            responseRead.decode(Json.obj("hex", hex), () -> {
                final SubscriptionResponseWrapper<String> read = responses.deserializer().deserialize(TOPIC, noHeaders(), Json.unhex(hex));
                return Json.obj("version", (int) read.version(), "hash", hashJson(read.originalValueHash()), "value", read.foreignValue());
            });
        }
        final Vectors hashes = new Vectors("murmur3 128 of a value", "Murmur3.hash128", "x64 variant, seed 104729, two i64; as written: big-endian");
        final List<byte[]> inputs = pool.byteArrays(12);
        for (int length = 1; length <= 33; length++) {
            final byte[] input = new byte[length];
            pool.random.nextBytes(input);
            inputs.add(input);
        }
        for (final byte[] input : inputs) {
            hashes.decode(Json.obj("hex", Json.hex(input)), () -> hashJson(Murmur3.hash128(input)));
        }
        return groups(combined, prefix, subscription, response, responseRead, hashes);
    }

    private static Object hashJson(final long[] hash) {
        return hash == null ? null : Json.list(hash[0], hash[1]);
    }

    // ---- partitioning

    List<Object> partitioning() {
        final Vectors murmur = new Vectors("murmur2", "Utils.murmur2", "signed i32 hash; to positive: hash & 0x7fffffff");
        final List<byte[]> inputs = pool.byteArrays(10);
        for (int length = 1; length <= 17; length++) {
            final byte[] input = new byte[length];
            pool.random.nextBytes(input);
            inputs.add(input);
        }
        for (final byte[] input : inputs) {
            murmur.decode(Json.obj("hex", Json.hex(input)), () -> Utils.murmur2(input));
        }
        final Vectors partitions = new Vectors("partition of a string key", "DefaultStreamPartitioner, BuiltInPartitioner.partitionForKey",
            "(murmur2 & 0x7fffffff) % partitions; a null key has none: the producer chooses");
        final int[] counts = {1, 2, 3, 4, 7, 10, 12, 16, 31, 64, 100, 1_000};
        final DefaultStreamPartitioner<String, String> partitioner = new DefaultStreamPartitioner<>(Serdes.String().serializer());
        final List<String> keys = pool.texts(30);
        keys.add(null);
        for (final String key : keys) {
            final Map<String, Object> out = Json.obj();
            for (final int count : counts) {
                out.put(String.valueOf(count), partitioner.partitions(TOPIC, key, "v", NO_HEADERS, count).map(set -> (Object) set.iterator().next()).orElse(null));
                if (key != null && BuiltInPartitioner.partitionForKey(utf8(key), count) != (Integer) out.get(String.valueOf(count))) {
                    throw new IllegalStateException("partitioners differ");
                }
            }
            partitions.add(Json.obj("input", Json.obj("key", key), "output", out));
        }
        final Vectors windowed = new Vectors("partition of a windowed key", "WindowedStreamPartitioner", "that of the key alone; the window does not count");
        final WindowedStreamPartitioner<String, String> windowedPartitioner =
            new WindowedStreamPartitioner<>(new TimeWindowedSerializer<>(Serdes.String().serializer()));
        final WindowedStreamPartitioner<String, String> sessionPartitioner =
            new WindowedStreamPartitioner<>(new SessionWindowedSerializer<>(Serdes.String().serializer()));
        for (final String key : pool.texts(10)) {
            final long start = pool.random.nextInt(1_000_000);
            final int count = counts[pool.random.nextInt(counts.length)];
            windowed.decode(Json.obj("key", key, "start", start, "end", start + 10, "session", false, "partitions", count),
                () -> windowedPartitioner.partitions(TOPIC, new Windowed<>(key, new TimeWindow(start, start + 10)), "v", NO_HEADERS, count).get().iterator().next());
            windowed.decode(Json.obj("key", key, "start", start, "end", start + 10, "session", true, "partitions", count),
                () -> sessionPartitioner.partitions(TOPIC, new Windowed<>(key, new SessionWindow(start, start + 10)), "v", NO_HEADERS, count).get().iterator().next());
        }
        return groups(murmur, partitions, windowed);
    }

    // ---- suppress

    private static Object contextJson(final ProcessorRecordContext context) {
        return Json.obj("timestamp", context.timestamp(), "offset", context.offset(), "topic", context.topic(), "partition", context.partition(),
            "headers", StoreCalls.headersJson(context.headers()));
    }

    List<Object> buffers() {
        final Vectors contexts = new Vectors("record context", "ProcessorRecordContext",
            "timestamp i64, offset i64, topic length i32, topic, partition i32, header count i32, each as key length i32, key, value length i32 (-1 for null), value");
        final Vectors values = new Vectors("value of a suppress changelog record, version 3", "BufferValue, InMemoryTimeOrderedKeyValueChangeBuffer",
            "record context, prior, old, new (each length i32 and bytes, -1 for null; old -2 when equal to prior), buffer time i64; header v = 03. "
                + "resident_size is what the buffer counts for the value");
        final Vectors read = new Vectors("suppress changelog record read back", "TimeOrderedKeyValueBufferChangelogDeserializationHelper",
            "version 0: time i64, then old and new size-prefixed; 1: time i64, record context, size-prefixed legacy change; "
                + "2: record context, size-prefixed legacy change with prior, time (or a mislabelled 3); 3: as written");
        final List<ProcessorRecordContext> all = new ArrayList<>();
        for (int i = 0; i < 9; i++) {
            all.add(new ProcessorRecordContext(pool.timestamp(), i == 0 ? 0 : pool.random.nextInt(1_000_000), pool.random.nextInt(20),
                i == 1 ? "t\u00f6pic" : "topic-" + i, headers(i == 0 ? Json.list() : pool.headers())));
        }
        all.add(new ProcessorRecordContext(-1, -1, -1, "", noHeaders()));
        for (final ProcessorRecordContext context : all) {
            contexts.encode((Map<String, Object>) contextJson(context), context::serialize);
        }
        final String[][] triples = {{null, null, "n"}, {"p", null, "n"}, {null, "o", "n"}, {"same", "same", "n"}, {"p", "o", "n"}, {"p", "o", null},
            {"o", "o", "o"}, {"", "", ""}, {null, null, null}, {null, "", "n"}, {"", null, "n"}};
        for (int i = 0; i < triples.length; i++) {
            final String[] triple = triples[i];
            final ProcessorRecordContext context = all.get(i % all.size());
            final long time = pool.timestamp();
            values.add(Json.obj("input", Json.obj("prior", triple[0], "old", triple[1], "new", triple[2], "context", contextJson(context), "buffer_time", time),
                "hex", Json.hex(StateFormats.bufferValue(utf8(triple[0]), utf8(triple[1]), utf8(triple[2]), context, time)),
                "resident_size", StateFormats.bufferValueSize(utf8(triple[0]), utf8(triple[1]), utf8(triple[2]), context)));
        }
        final ProcessorRecordContext context = all.get(3);
        for (final String[] pair : new String[][] {{"o", "n"}, {null, "n"}, {"o", null}, {"", "n"}}) {
            final byte[] legacy = legacyChange(pair[0], pair[1]);
            for (final String previous : new String[] {null, "prev"}) {
                decodeBuffer(read, 0, concat(longBytes(77), legacy), previous);
                decodeBuffer(read, 1, concat(longBytes(78), context.serialize(), intBytes(legacy.length), legacy), previous);
            }
            decodeBuffer(read, 2, concat(context.serialize(), intBytes(legacy.length), legacy, nullable("prior"), longBytes(79)), null);
            decodeBuffer(read, 2, StateFormats.bufferValue(utf8("p"), utf8(pair[0]), utf8(pair[1]), context, 80), null);
            decodeBuffer(read, 3, StateFormats.bufferValue(utf8("p"), utf8(pair[0]), utf8(pair[1]), context, 81), null);
        }
        return groups(contexts, values, read);
    }

    private static void decodeBuffer(final Vectors group, final int version, final byte[] bytes, final String previous) {
        final ConsumerRecord<byte[], byte[]> record = new ConsumerRecord<>("changelog", 2, 42, 1_234, TimestampType.CREATE_TIME, -1, -1,
            utf8("k"), bytes, noHeaders(), java.util.Optional.empty());
        group.decode(Json.obj("version", version, "hex", Json.hex(bytes), "key", "k", "previous", previous,
            "record", Json.obj("topic", "changelog", "partition", 2, "offset", 42, "timestamp", 1_234)), () -> {
                final Map<String, Object> out = StateFormats.decodeBuffer(version, record, Bytes.wrap(utf8("k")), utf8(previous));
                return Json.obj("buffer_time", out.get("time"), "key_hex", Json.hex((byte[]) out.get("key")), "prior_hex", Json.hex((byte[]) out.get("prior")),
                    "old_hex", Json.hex((byte[]) out.get("old")), "new_hex", Json.hex((byte[]) out.get("new")),
                    "context", contextJson((ProcessorRecordContext) out.get("context")));
            });
    }

    private static byte[] legacyChange(final String oldValue, final String newValue) {
        return concat(nullable(oldValue), nullable(newValue));
    }

    private static byte[] nullable(final String text) {
        return text == null ? intBytes(-1) : concat(intBytes(utf8(text).length), utf8(text));
    }

    private static byte[] intBytes(final int value) {
        return ByteBuffer.allocate(4).putInt(value).array();
    }

    private static byte[] longBytes(final long value) {
        return ByteBuffer.allocate(8).putLong(value).array();
    }

    private static byte[] concat(final byte[]... parts) {
        final ByteBuffer out = ByteBuffer.allocate(Arrays.stream(parts).mapToInt(part -> part.length).sum());
        for (final byte[] part : parts) {
            out.put(part);
        }
        return out.array();
    }

    // ---- positions, committed metadata, ids

    List<Object> positions() {
        final Vectors positions = new Vectors("position", "PositionSerde",
            "version byte 0, topic count i32, each topic as name length i32, name, pair count i32, pairs of partition i32 and offset i64; "
                + "the order of topics and partitions is that of a hash map and does not count; zero bytes may follow");
        for (int i = 0; i < 8; i++) {
            final Position position = Position.emptyPosition();
            final Map<String, Object> json = Json.obj();
            for (int t = 0; t < (i == 0 ? 0 : i == 1 ? 1 : i % 3 + 1); t++) {
                final String topic = "topic-" + pool.random.nextInt(1_000);
                final Map<String, Object> offsets = Json.obj();
                for (int p = 0; p <= pool.random.nextInt(i + 1); p++) {
                    final long offset = pool.random.nextInt(5) == 0 ? Long.MAX_VALUE : pool.random.nextInt(1_000_000);
                    position.withComponent(topic, p, offset);
                    offsets.put(String.valueOf(p), offset);
                }
                json.put(topic, offsets);
            }
            positions.encode(Json.obj("position", json), () -> StateFormats.position(position));
        }
        positions.decode(Json.obj("hex", "01" + "00000000"), () -> PositionSerde.deserialize(ByteBuffer.wrap(Json.unhex("0100000000"))).toString());
        final Vectors changelog = new Vectors("headers of a changelog record with consistency information", "ChangelogRecordDeserializationHelper, ProcessorContextImpl",
            "header v = 00, header c = the position; only with the internal setting __iq.consistency.offset.vector.enabled__");
        final Position position = Position.emptyPosition().withComponent("input", 0, 7);
        changelog.add(Json.obj("input", Json.obj("position", Json.obj("input", Json.obj("0", 7))),
            "headers", Json.list(Json.list("v", "00"), Json.list("c", Json.hex(StateFormats.position(position))))));
        return groups(positions, changelog);
    }

    List<Object> offsets() {
        final Vectors metadata = new Vectors("metadata of a committed offset", "TopicPartitionMetadata, ProcessorMetadata",
            "base64 of: magic byte 2, partition time i64, processor metadata (nothing, or count i32, each as key length i32, key, value i64)");
        for (int i = 0; i < 10; i++) {
            final long time = i == 0 ? -1 : pool.timestamp();
            final ProcessorMetadata processors = new ProcessorMetadata();
            final Map<String, Object> json = Json.obj();
            if (i % 3 != 0) {
                final String name = "store-" + pool.text(4);
                final long value = pool.timestamp();
                processors.put(name, value);
                json.put(name, value);
            }
            final String text = new TopicPartitionMetadata(time, processors).encode();
            metadata.add(Json.obj("input", Json.obj("partition_time", time, "processors", json), "text", text,
                "hex", Json.hex(Base64.getDecoder().decode(text))));
        }
        final Vectors read = new Vectors("metadata of a committed offset read back", "TopicPartitionMetadata.decode",
            "magic 1 has no processor metadata; anything unreadable gives partition time -1");
        final String one = Base64.getEncoder().encodeToString(concat(new byte[] {1}, longBytes(5)));
        final String two = Base64.getEncoder().encodeToString(concat(new byte[] {2}, longBytes(5)));
        final String three = Base64.getEncoder().encodeToString(concat(new byte[] {3}, longBytes(5)));
        final String full = Base64.getEncoder().encodeToString(concat(new byte[] {2}, longBytes(5), intBytes(1), intBytes(1), utf8("s"), longBytes(9)));
        for (final String text : new String[] {one, two, three, full, "", "AQ==", "not base64 !"}) {
            read.decode(Json.obj("text", text), () -> {
                final TopicPartitionMetadata decoded = TopicPartitionMetadata.decode(text);
                return Json.obj("partition_time", decoded.partitionTime(), "processor_s", decoded.processorMetadata().get("s"));
            });
        }
        final Vectors checkpoint = new Vectors("checkpoint file", "OffsetCheckpoint",
            "text lines: version 0, count, then topic, partition and offset separated by blanks; -4 stands for a known partition without an offset; order does not count");
        checkpoint.add(Checkpoints.write(Json.obj()));
        checkpoint.add(Checkpoints.write(Json.obj("app-store-changelog/0", 0L)));
        checkpoint.add(Checkpoints.write(Json.obj("app-store-changelog/" + pool.random.nextInt(20), (long) pool.random.nextInt(1_000_000))));
        checkpoint.add(Checkpoints.write(Json.obj("app-b-changelog/12", (long) pool.random.nextInt(1_000_000), "app-a-changelog/0", 99L)));
        checkpoint.add(Checkpoints.write(Json.obj("a/3", -4L)));
        checkpoint.add(Checkpoints.write(Json.obj("a/3", -1L)));
        final Vectors checkpointRead = new Vectors("checkpoint file read back", "OffsetCheckpoint.read", "");
        for (final String text : new String[] {"0\n1\na 1 2\n", "0\n0\n", "0\n2\na 1 2\n", "1\n0\n", "0\n1\na 1\n", "0\n1\na   1\t2\n", "0\n1\na 1 -5\n", "", "x\n"}) {
            checkpointRead.decode(Json.obj("text", text), () -> Checkpoints.read(text));
        }
        return groups(metadata, read, checkpoint, checkpointRead);
    }

    List<Object> ids() {
        final Vectors text = new Vectors("task id as text", "TaskId.toString", "subtopology_partition; with a named topology name__subtopology_partition");
        for (int i = 0; i < 6; i++) {
            final int subtopology = i == 0 ? 0 : pool.random.nextInt(30);
            final int partition = i == 0 ? 0 : pool.random.nextInt(200);
            text.add(Json.obj("input", Json.obj("subtopology", subtopology, "partition", partition), "text", new TaskId(subtopology, partition).toString()));
            text.add(Json.obj("input", Json.obj("subtopology", subtopology, "partition", partition, "topology", "named"),
                "text", new TaskId(subtopology, partition, "named").toString()));
        }
        final Vectors parsed = new Vectors("task id parsed", "TaskId.parse", "");
        for (final String id : new String[] {"0_0", "12_345", "named__1_2", "1", "a_b", "1_2_3", "", "_1", "-1_0"}) {
            parsed.decode(Json.obj("text", id), () -> {
                final TaskId task = TaskId.parse(id);
                return Json.obj("subtopology", task.subtopology(), "partition", task.partition(), "topology", task.topologyName());
            });
        }
        final Vectors order = new Vectors("task ids in order", "TaskId.compareTo", "by subtopology, then partition, as numbers");
        final List<TaskId> tasks = new ArrayList<>();
        for (final int[] pair : new int[][] {{1, 0}, {0, 10}, {0, 2}, {10, 0}, {2, 1}, {0, 0}}) {
            tasks.add(new TaskId(pair[0], pair[1]));
        }
        tasks.sort(null);
        final List<Object> sorted = new ArrayList<>();
        tasks.forEach(task -> sorted.add(task.toString()));
        order.add(Json.obj("sorted", sorted));
        return groups(text, parsed, order);
    }
}
