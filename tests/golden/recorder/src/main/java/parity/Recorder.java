package parity;

import java.io.File;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.internals.metrics.ClientMetrics;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.internals.InternalTopicConfig;
import org.apache.kafka.streams.processor.internals.InternalTopologyBuilder;
import org.apache.kafka.streams.state.AggregationWithHeaders;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.SessionStoreWithHeaders;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.TimestampedKeyValueStoreWithHeaders;
import org.apache.kafka.streams.state.TimestampedWindowStore;
import org.apache.kafka.streams.state.TimestampedWindowStoreWithHeaders;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.ValueTimestampHeaders;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.internals.InMemoryTimeOrderedKeyValueChangeBuffer;
import org.apache.kafka.streams.state.internals.LeftOrRightValue;
import org.apache.kafka.streams.state.internals.TimeOrderedKeyValueBuffer;
import org.apache.kafka.streams.state.internals.TimestampedKeyAndJoinSide;
import org.apache.kafka.streams.test.TestRecord;

/** Runs a case on TopologyTestDriver and writes down everything that comes out. */
final class Recorder {
    static final String APPLICATION_ID = "parity";
    static final long START_TIME_MS = 100_000;
    private static final int TABLE_OF_ROWS_LIMIT = 1000;

    private final Sources sources;

    Recorder(final Sources sources) {
        this.sources = sources;
    }

    /** The trace of a case, as a map that Json writes. */
    Map<String, Object> record(final Case c, final boolean scenarios, final long[] seeds, final int maxChars) {
        final Map<String, Object> doc = new LinkedHashMap<>();
        doc.put("case", c.name);
        doc.put("group", c.group);
        doc.put("kafka", ClientMetrics.version());
        doc.put("description", c.description);
        doc.put("java", c.text == null ? sources.of(c) : c.text);
        final List<String> conformance = new ArrayList<>();
        for (final int item : c.conformance) {
            conformance.add(conformanceId(item));
        }
        doc.put("conformance", conformance);
        final Map<String, Object> config = new LinkedHashMap<>();
        c.config.forEach((k, v) -> config.put(k, v instanceof Class<?> k2 ? k2.getName() : v));
        doc.put("config", config);
        final Map<String, Object> topics = new LinkedHashMap<>();
        c.inputs.forEach((t, types) -> topics.put(t, Map.of("key", types[0].name, "value", types[1].name)));
        c.outputs.forEach((t, types) -> topics.put(t, Map.of("key", types[0].name, "value", types[1].name)));
        topics.replaceAll((t, m) -> {
            final Map<String, Object> sorted = new LinkedHashMap<>();
            sorted.put("key", ((Map<?, ?>) m).get("key"));
            sorted.put("value", ((Map<?, ?>) m).get("value"));
            return sorted;
        });
        doc.put("topics", topics);

        final Topology topology;
        try {
            topology = c.build(props(c, null));
        } catch (final RuntimeException e) {
            if (!c.failsToBuild && !c.mayFailToBuild) {
                throw e;
            }
            doc.put("build_throws", chain(e));
            doc.put("message", e.getMessage() == null ? null : stable(e.getMessage()));
            doc.put("runs", List.of());
            return doc;
        }
        if (c.failsToBuild) {
            throw new IllegalStateException(c.name + " was expected not to build");
        }
        doc.put("describe", stable(topology.describe().toString()));
        doc.put("internal_topics", internalTopics(c));

        final List<Object> runs = new ArrayList<>();
        int size = 0;
        if (scenarios) {
            for (final Map.Entry<String, Script> s : c.scenarios.entrySet()) {
                runs.add(run(c, "scenario:" + s.getKey(), s.getValue().steps));
            }
        }
        if (c.random != null) {
            for (final long seed : seeds) {
                final Map<String, Object> run = run(c, "random:seed=" + seed, c.random.steps(seed));
                size += Json.compact(run).length();
                if (size > maxChars) {
                    break;
                }
                runs.add(run);
            }
        }
        doc.put("runs", runs);
        return doc;
    }

    private Map<String, Object> run(final Case c, final String name, final List<Step> steps) {
        final Map<String, Object> run = new LinkedHashMap<>();
        run.put("name", name);
        run.put("start_time_ms", START_TIME_MS);
        final List<Object> lines = new ArrayList<>();
        final Path stateDir;
        try {
            stateDir = Files.createTempDirectory("parity-state");
        } catch (final IOException e) {
            throw new IllegalStateException(e);
        }
        Calls.drain();
        final Properties props = props(c, stateDir);
        final Topology topology = c.build(props);
        Calls.drain();
        final TopologyTestDriver driver;
        try {
            driver = new TopologyTestDriver(topology, props, Instant.ofEpochMilli(START_TIME_MS));
        } catch (final RuntimeException e) {
            final Map<String, Object> line = new LinkedHashMap<>();
            line.put("throws", chain(e));
            lines.add(line);
            run.put("steps", lines);
            return run;
        }
        final Map<String, Object> stores = new TreeMap<>();
        double dropped = 0;
        boolean failed = false;
        try {
            final TreeSet<String> keys = new TreeSet<>();
            long maxTs = 0;
            for (final Step s : steps) {
                final Map<String, Object> line = new LinkedHashMap<>();
                try {
                    if (s.advanceMs >= 0) {
                        line.put("advance_wall_clock_ms", s.advanceMs);
                        driver.advanceWallClockTime(java.time.Duration.ofMillis(s.advanceMs));
                    } else {
                        maxTs = Math.max(maxTs, s.timestamp);
                        if (s.key instanceof String k) {
                            keys.add(k);
                        }
                        line.put("in", pipe(c, driver, s));
                    }
                } catch (final RuntimeException e) {
                    line.putIfAbsent("in", inJson(c, s));
                    line.put("throws", chain(e));
                    failed = true;
                }
                final List<String> calls = Calls.drain();
                if (!calls.isEmpty()) {
                    line.put("calls", calls);
                }
                outputs(c, driver, line, failed);
                if (!failed) {
                    final double now = droppedRecords(driver);
                    if (now != dropped) {
                        line.put("dropped", (long) (now - dropped));
                        dropped = now;
                    }
                }
                lines.add(line);
                if (failed) {
                    break;
                }
            }
            if (!failed) {
                for (final Map.Entry<String, StateStore> e : new TreeMap<>(driver.getAllStateStores()).entrySet()) {
                    stores.put(e.getKey(), store(e.getValue(), keys, maxTs));
                }
            }
        } finally {
            try {
                driver.close();
            } catch (final RuntimeException e) {
                if (!failed) {
                    throw e;
                }
            }
            delete(stateDir);
        }
        run.put("steps", lines);
        if (!failed) {
            run.put("stores", stores);
            run.put("metrics", Map.of("dropped-records-total", (long) dropped));
        }
        return run;
    }

    private Map<String, Object> pipe(final Case c, final TopologyTestDriver driver, final Step s) {
        final Type[] types = c.inputs.get(s.topic);
        final byte[] key = s.raw ? s.rawKey : types[0].toBytes(s.topic, s.key);
        final byte[] value = s.raw ? s.rawValue : types[1].toBytes(s.topic, s.value);
        final RecordHeaders headers = new RecordHeaders();
        for (int i = 0; i < s.headers.length; i += 2) {
            headers.add(s.headers[i], s.headers[i + 1] == null ? null : s.headers[i + 1].getBytes(StandardCharsets.UTF_8));
        }
        driver.createInputTopic(s.topic, new ByteArraySerializer(), new ByteArraySerializer())
            .pipeInput(new TestRecord<>(key, value, headers, s.timestamp));
        return inJson(c, s);
    }

    private static Map<String, Object> inJson(final Case c, final Step s) {
        final Map<String, Object> in = new LinkedHashMap<>();
        if (s.topic == null) {
            return in;
        }
        in.put("topic", s.topic);
        if (s.raw) {
            in.put("key_hex", Type.hex(s.rawKey));
            in.put("value_hex", Type.hex(s.rawValue));
        } else {
            in.put("key", Type.json(s.key));
            in.put("value", Type.json(s.value));
        }
        in.put("timestamp", s.timestamp);
        if (s.headers.length > 0) {
            final List<Object> h = new ArrayList<>();
            for (int i = 0; i < s.headers.length; i += 2) {
                final List<Object> pair = new ArrayList<>();
                pair.add(s.headers[i]);
                pair.add(s.headers[i + 1] == null ? null : Type.hex(s.headers[i + 1].getBytes(StandardCharsets.UTF_8)));
                h.add(pair);
            }
            in.put("headers", h);
        }
        return in;
    }

    private static void outputs(final Case c, final TopologyTestDriver driver, final Map<String, Object> line, final boolean failed) {
        final List<Object> out = new ArrayList<>();
        final List<Object> internal = new ArrayList<>();
        for (final String topic : new TreeSet<>(driver.producedTopicNames())) {
            for (final TestRecord<byte[], byte[]> r : driver.createOutputTopic(topic, new ByteArrayDeserializer(), new ByteArrayDeserializer()).readRecordsToList()) {
                produced(c, topic, r, out, internal);
            }
        }
        if (failed) {
            unread(driver).stream().sorted(Comparator.comparing(ProducerRecord::topic)).forEach(r -> produced(c, r.topic(), new TestRecord<>(r.key(), r.value(), r.headers(), r.timestamp()), out, internal));
        }
        out.sort(Comparator.comparing(o -> outputOrder(c, o)));
        line.put("out", out);
        if (!internal.isEmpty()) {
            line.put("internal", internal);
        }
    }

    /** What the failed step sent before it threw: the driver did not get to take it from its producer. */
    private static List<ProducerRecord<byte[], byte[]>> unread(final TopologyTestDriver driver) {
        try {
            final Field f = TopologyTestDriver.class.getDeclaredField("producer");
            f.setAccessible(true);
            @SuppressWarnings("unchecked") final MockProducer<byte[], byte[]> producer = (MockProducer<byte[], byte[]>) f.get(driver);
            return new ArrayList<>(producer.history());
        } catch (final ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private static void produced(final Case c, final String topic, final TestRecord<byte[], byte[]> r, final List<Object> out, final List<Object> internal) {
        final Map<String, Object> o = new LinkedHashMap<>();
        o.put("topic", topic);
        final Type[] types = c.outputs.get(topic);
        if (types == null) {
            o.put("key_hex", Type.hex(r.key()));
            o.put("value_hex", Type.hex(r.value()));
        } else {
            o.put("key", types[0].toJson(topic, r.key()));
            o.put("value", types[1].toJson(topic, r.value()));
        }
        o.put("timestamp", r.timestamp());
        final List<Object> headers = headers(r.headers());
        if (!headers.isEmpty()) {
            o.put("headers", headers);
        }
        (topic.startsWith(APPLICATION_ID + "-") && types == null ? internal : out).add(o);
    }

    /** Sinks in the order in which the case declares them. */
    private static int outputOrder(final Case c, final Object line) {
        final int i = new ArrayList<>(c.outputs.keySet()).indexOf(((Map<?, ?>) line).get("topic"));
        return i < 0 ? Integer.MAX_VALUE : i;
    }

    private static double droppedRecords(final TopologyTestDriver driver) {
        double n = 0;
        for (final var m : driver.metrics().entrySet()) {
            if (m.getKey().name().equals("dropped-records-total")) {
                n += (double) m.getValue().metricValue();
            }
        }
        return n;
    }

    private static Map<String, Object> store(final StateStore store, final TreeSet<String> keys, final long maxTs) {
        final Map<String, Object> m = new LinkedHashMap<>();
        final List<Object> rows = new ArrayList<>();
        try {
            if (store instanceof TimeOrderedKeyValueBuffer<?, ?, ?> b) {
                m.put("kind", store instanceof InMemoryTimeOrderedKeyValueChangeBuffer ? "suppress-buffer" : "join-grace-buffer");
                m.put("records", b.numRecords());
                m.put("bytes", b.bufferSize());
                m.put("min_timestamp", b.numRecords() == 0 ? null : b.minTimestamp());
                return m;
            } else if (store instanceof VersionedKeyValueStore<?, ?> v) {
                m.put("kind", "versioned");
                @SuppressWarnings("unchecked") final VersionedKeyValueStore<String, Object> s = (VersionedKeyValueStore<String, Object>) v;
                for (final String key : keys) {
                    rows.add(version(key, null, s.get(key)));
                    for (int i = 0; i <= 12; i++) {
                        final long asOf = maxTs * i / 12;
                        rows.add(version(key, asOf, s.get(key, asOf)));
                    }
                }
            } else if (store instanceof WindowStore<?, ?> w) {
                m.put("kind", store instanceof TimestampedWindowStoreWithHeaders ? "headers-window" : store instanceof TimestampedWindowStore ? "timestamped-window" : "window");
                try (KeyValueIterator<? extends Windowed<?>, ?> it = w.all()) {
                    while (it.hasNext()) {
                        final var kv = it.next();
                        rows.add(windowRow(kv.key, kv.value));
                    }
                }
            } else if (store instanceof SessionStore<?, ?> ss) {
                m.put("kind", store instanceof SessionStoreWithHeaders ? "headers-session" : "session");
                @SuppressWarnings("unchecked") final SessionStore<String, Object> s = (SessionStore<String, Object>) ss;
                try (KeyValueIterator<Windowed<String>, Object> it = s.fetch(null, null)) {
                    while (it.hasNext()) {
                        final var kv = it.next();
                        rows.add(windowRow(kv.key, kv.value));
                    }
                }
            } else if (store instanceof KeyValueStore<?, ?> k) {
                m.put("kind", store instanceof TimestampedKeyValueStoreWithHeaders ? "headers-kv" : store instanceof TimestampedKeyValueStore ? "timestamped-kv" : "kv");
                try (KeyValueIterator<?, ?> it = k.all()) {
                    while (it.hasNext()) {
                        final KeyValue<?, ?> kv = it.next();
                        final Map<String, Object> row = new LinkedHashMap<>();
                        if (kv.key instanceof TimestampedKeyAndJoinSide<?> side) {
                            m.put("kind", "outer-join");
                            row.put("timestamp", side.timestamp());
                            row.put("side", side.isLeftSide() ? "left" : "right");
                            row.put("key", Type.json(side.key()));
                            final LeftOrRightValue<?, ?> v = (LeftOrRightValue<?, ?>) kv.value;
                            row.put("value", Type.json(side.isLeftSide() ? v.leftValue() : v.rightValue()));
                        } else {
                            row.put("key", Type.json(kv.key));
                            putValue(row, kv.value);
                        }
                        rows.add(row);
                    }
                }
            } else {
                m.put("kind", "unread");
                return m;
            }
        } catch (final IllegalArgumentException | UnsupportedOperationException e) {
            m.put("kind", "unread");
            return m;
        }
        if (rows.size() > TABLE_OF_ROWS_LIMIT) {
            throw new IllegalStateException("too many rows");
        }
        m.put("entries", rows);
        return m;
    }

    private static Map<String, Object> version(final String key, final Long asOf, final VersionedRecord<?> r) {
        final Map<String, Object> row = new LinkedHashMap<>();
        row.put("key", key);
        row.put("as_of", asOf);
        row.put("value", r == null ? null : Type.json(r.value()));
        row.put("timestamp", r == null ? null : r.timestamp());
        row.put("valid_to", r == null || r.validTo().isEmpty() ? null : r.validTo().get());
        return row;
    }

    private static Map<String, Object> windowRow(final Windowed<?> w, final Object value) {
        final Map<String, Object> row = new LinkedHashMap<>();
        row.put("key", Type.json(w.key()));
        row.put("start", w.window().start());
        row.put("end", w.window().end());
        putValue(row, value);
        return row;
    }

    private static void putValue(final Map<String, Object> row, final Object value) {
        if (value instanceof ValueAndTimestamp<?> v) {
            row.put("value", Type.json(v.value()));
            row.put("timestamp", v.timestamp());
        } else if (value instanceof ValueTimestampHeaders<?> v) {
            row.put("value", Type.json(v.value()));
            row.put("timestamp", v.timestamp());
            row.put("headers", headers(v.headers()));
        } else if (value instanceof AggregationWithHeaders<?> v) {
            row.put("value", Type.json(v.aggregation()));
            row.put("headers", headers(v.headers()));
        } else {
            row.put("value", Type.json(value));
        }
    }

    private static List<Object> headers(final Headers all) {
        final List<Object> list = new ArrayList<>();
        for (final Header h : all) {
            final List<Object> pair = new ArrayList<>();
            pair.add(h.key());
            pair.add(h.key().equals("__streams.errors.stacktrace") ? "(not recorded)" : Type.hex(h.value()));
            list.add(pair);
        }
        return list;
    }

    /** What Kafka Streams would create: every repartition and changelog topic, its configs and who reads or writes it. */
    private Map<String, Object> internalTopics(final Case c) {
        final Map<String, Object> all = new TreeMap<>();
        try {
            final Properties props = props(c, null);
            final Topology topology = c.build(props);
            final Field f = Topology.class.getDeclaredField("internalTopologyBuilder");
            f.setAccessible(true);
            final InternalTopologyBuilder b = (InternalTopologyBuilder) f.get(topology);
            b.rewriteTopology(new StreamsConfig(props));
            b.buildTopology();
            b.subtopologyToTopicsInfo().forEach((sub, info) -> {
                info.repartitionSourceTopics.forEach((n, t) -> all.put(n, topic("repartition", t)));
                info.stateChangelogTopics.forEach((n, t) -> all.put(n, topic(info.sourceTopics.contains(n) ? "source-as-changelog" : "changelog", t)));
            });
        } catch (final ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
        return all;
    }

    private static Map<String, Object> topic(final String role, final InternalTopicConfig t) {
        final Map<String, Object> m = new LinkedHashMap<>();
        m.put("role", role);
        m.put("partitions", t.numberOfPartitions().isPresent() ? t.numberOfPartitions().get() : null);
        if (!role.startsWith("source")) {
            m.put("configs", new TreeMap<>(t.properties(Map.of(), 86_400_000L)));
        }
        return m;
    }

    static Properties props(final Case c, final Path stateDir) {
        final Properties p = new Properties();
        p.put(StreamsConfig.APPLICATION_ID_CONFIG, APPLICATION_ID);
        p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "unused:9092");
        p.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        p.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        if (stateDir != null) {
            p.put(StreamsConfig.STATE_DIR_CONFIG, stateDir.toString());
        }
        p.putAll(c.config);
        return p;
    }

    /** The class names of lambdas differ from run to run. */
    private static String stable(final String text) {
        return text.replaceAll("[\\w.$]+\\$\\$Lambda[\\w.$/@]*", "<lambda>");
    }

    static List<String> chain(final Throwable e) {
        final List<String> names = new ArrayList<>();
        for (Throwable t = e; t != null && names.size() < 8; t = t.getCause()) {
            names.add(t.getClass().getSimpleName());
        }
        return names;
    }

    /** 23 becomes "4.3.23": the section of the conformance list, then the item's number. */
    static String conformanceId(final int item) {
        final int[] lastOf = {11, 21, 29, 42, 53, 63, 69, 77, 89, 92, 101, 111, 122};
        for (int i = 0; i < lastOf.length; i++) {
            if (item <= lastOf[i]) {
                return "4." + (i + 1) + "." + item;
            }
        }
        throw new IllegalArgumentException("no such item: " + item);
    }

    private static void delete(final Path dir) {
        try (Stream<Path> paths = Files.walk(dir)) {
            paths.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
        } catch (final IOException e) {
            throw new IllegalStateException(e);
        }
    }
}
