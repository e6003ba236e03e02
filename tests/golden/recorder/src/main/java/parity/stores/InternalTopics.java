package parity.stores;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.function.Consumer;

import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.test.TestRecord;

/** Runs small topologies and records the raw records on every topic they write. */
final class InternalTopics {
    private static final String[] KEYS = {"a", "b", "c", "aa"};
    private static final String[] LETTERS = {"a", "b", "c"};
    private final Pool pool;

    InternalTopics(final long seed) {
        pool = new Pool(seed + 17);
    }

    List<Object> record() {
        final List<Object> out = new ArrayList<>();
        for (final Map.Entry<String, Consumer<StreamsBuilder>> entry : Topologies.run().entrySet()) {
            out.add(run(entry.getKey(), entry.getValue(), Map.of()));
        }
        for (final String name : new String[] {"table", "hopping_count", "session_aggregate", "aggregate", "stream_join", "suppress_time_limit",
            "foreign_key_join"}) {
            out.add(run(name, Topologies.run().get(name), Map.of(StreamsConfig.DSL_STORE_FORMAT_CONFIG, "HEADERS")));
        }
        out.add(run("foreign_key_join", Topologies.run().get("foreign_key_join"), Map.of(StreamsConfig.UPGRADE_FROM_CONFIG, "3.3")));
        out.add(run("table_aggregate", Topologies.run().get("table_aggregate"), Map.of(StreamsConfig.UPGRADE_FROM_CONFIG, "3.4")));
        for (final String name : new String[] {"table_aggregate", "sliding_aggregate", "emit_on_close", "session_emit_on_close",
            "suppress_window_close", "outer_join", "grace_join", "foreign_key_left_join", "versioned_table"}) {
            out.add(run(name, Topologies.run().get(name), Map.of(StreamsConfig.DSL_STORE_FORMAT_CONFIG, "HEADERS")));
        }
        return out;
    }

    private Object run(final String name, final Consumer<StreamsBuilder> body, final Map<String, String> settings) {
        final Path directory = StoreRun.temporaryDirectory();
        final Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "parity");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "unused:9092");
        config.put(StreamsConfig.STATE_DIR_CONFIG, directory.toString());
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        config.putAll(settings);
        final StreamsBuilder builder = new StreamsBuilder(new org.apache.kafka.streams.TopologyConfig(new StreamsConfig(config)));
        body.accept(builder);
        final Topology topology = builder.build(config);
        final List<Object> inputs = new ArrayList<>();
        final Map<String, Object> topics = Json.obj();
        try (TopologyTestDriver driver = new TopologyTestDriver(topology, config)) {
            final boolean two = topology.describe().toString().contains("[right]");
            final TestInputTopic<byte[], byte[]> left = driver.createInputTopic("left", new ByteArraySerializer(), new ByteArraySerializer());
            final TestInputTopic<byte[], byte[]> right =
                two ? driver.createInputTopic("right", new ByteArraySerializer(), new ByteArraySerializer()) : null;
            long time = 0;
            for (int i = 0; i < 30; i++) {
                time = Math.max(0, time + pool.random.nextInt(60) - 12);
                final boolean toRight = two && pool.random.nextInt(100) < 45;
                final boolean tables = name.startsWith("foreign_key");
                final String key = toRight && tables ? LETTERS[pool.random.nextInt(LETTERS.length)] : KEYS[pool.random.nextInt(KEYS.length)];
                final boolean tombstone = pool.random.nextInt(100) < 14 && (tables || name.contains("table") || name.startsWith("suppress_time")
                    || toRight && name.equals("grace_join"));
                final String value = tombstone ? null : LETTERS[pool.random.nextInt(LETTERS.length)] + i;
                final List<Object> headers = pool.random.nextInt(3) == 0 ? Json.list(Json.list("h", String.format("%02x", i))) : Json.list();
                final String topic = toRight ? "right" : "left";
                inputs.add(Json.obj("topic", topic, "key", key, "value", value, "timestamp", time, "headers", headers));
                (toRight ? right : left).pipeInput(new TestRecord<>(key.getBytes(StandardCharsets.UTF_8),
                    value == null ? null : value.getBytes(StandardCharsets.UTF_8), StoreCalls.headers(headers), time));
                driver.advanceWallClockTime(Duration.ofMillis(1_001));
            }
            for (final String topic : new TreeSet<>(driver.producedTopicNames())) {
                final List<Object> records = new ArrayList<>();
                for (final TestRecord<byte[], byte[]> record
                    : driver.createOutputTopic(topic, new ByteArrayDeserializer(), new ByteArrayDeserializer()).readRecordsToList()) {
                    records.add(Json.obj("key_hex", Json.hex(record.key()), "value_hex", Json.hex(record.value()), "timestamp", record.timestamp(),
                        "headers", StoreCalls.headersJson(record.headers())));
                }
                topics.put(topic, records);
            }
        } finally {
            StoreRun.deleteRecursively(directory);
        }
        return Json.obj("name", name, "settings", settings, "description", topology.describe().toString(), "inputs", inputs, "topics", topics);
    }
}
