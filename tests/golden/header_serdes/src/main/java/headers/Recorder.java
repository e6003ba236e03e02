package headers;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;

import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyConfig;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.test.TestRecord;

/** Records which headers Kafka Streams hands to serdes, call by call: {@code Recorder FILE}. */
public final class Recorder {
    private static final List<Object> CALLS = new ArrayList<>();

    /** Text in UTF-8, which writes down each call, and may add a header when it writes. */
    static final class Noted implements Serde<String>, Serializer<String>, Deserializer<String> {
        private final boolean adds;

        Noted(final boolean adds) {
            this.adds = adds;
        }

        @Override
        public Serializer<String> serializer() {
            return this;
        }

        @Override
        public Deserializer<String> deserializer() {
            return this;
        }

        @Override
        public void configure(final Map<String, ?> configs, final boolean isKey) {
        }

        @Override
        public void close() {
        }

        @Override
        public byte[] serialize(final String topic, final String data) {
            return write(topic, null, data);
        }

        @Override
        public byte[] serialize(final String topic, final Headers headers, final String data) {
            return write(topic, headers, data);
        }

        private byte[] write(final String topic, final Headers headers, final String data) {
            if (data == null) {
                return null;
            }
            note("write", topic, headers, data);
            if (adds && headers != null) {
                headers.add("w", data.getBytes(StandardCharsets.UTF_8));
            }
            return data.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public String deserialize(final String topic, final byte[] data) {
            return read(topic, null, data);
        }

        @Override
        public String deserialize(final String topic, final Headers headers, final byte[] data) {
            return read(topic, headers, data);
        }

        private String read(final String topic, final Headers headers, final byte[] data) {
            if (data == null) {
                return null;
            }
            final String value = new String(data, StandardCharsets.UTF_8);
            note("read", topic, headers, value);
            return value;
        }
    }

    private static void note(final String call, final String topic, final Headers headers, final String data) {
        CALLS.add(List.of(call, topic, data, headers == null ? "none" : texts(headers)));
    }

    static List<String> texts(final Headers headers) {
        final List<String> found = new ArrayList<>();
        for (final Header header : headers) {
            found.add(header.key() + "=" + (header.value() == null ? null : new String(header.value(), StandardCharsets.UTF_8)));
        }
        return found;
    }

    public static void main(final String[] arguments) throws Exception {
        final List<Object> runs = new ArrayList<>();
        for (final Map.Entry<String, Cases.Case> found : Cases.all().entrySet()) {
            for (final boolean cached : new boolean[] {false, true}) {
                for (final String format : new String[] {"DEFAULT", "HEADERS"}) {
                    for (final boolean adds : new boolean[] {false, true}) {
                        runs.add(run(found.getKey(), found.getValue(), cached, format, adds));
                    }
                }
            }
        }
        new ObjectMapper().writerWithDefaultPrettyPrinter().writeValue(new File(arguments[0]), runs);
    }

    private static Object run(final String name, final Cases.Case made, final boolean cached, final String format, final boolean adds)
        throws Exception {
        final Path directory = Files.createTempDirectory("headers");
        final Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "unused:9092");
        config.put(StreamsConfig.STATE_DIR_CONFIG, directory.toString());
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, cached ? 10_000_000 : 0);
        config.put(StreamsConfig.DSL_STORE_FORMAT_CONFIG, format);
        final Noted serde = new Noted(adds);
        final StreamsBuilder builder = new StreamsBuilder(new TopologyConfig(new StreamsConfig(config)));
        made.build(builder, serde);
        final Topology topology = builder.build(config);
        final List<Object> steps = new ArrayList<>();
        final Map<String, Object> run = new LinkedHashMap<>();
        run.put("case", name);
        run.put("cached", cached);
        run.put("format", format);
        run.put("adds", adds);
        run.put("steps", steps);
        CALLS.clear();
        try (TopologyTestDriver driver = new TopologyTestDriver(topology, config)) {
            int number = 0;
            for (final String[] input : made.inputs()) {
                final TestInputTopic<byte[], byte[]> topic =
                    driver.createInputTopic(input[0], new ByteArraySerializer(), new ByteArraySerializer());
                final Headers headers = new RecordHeaders().add("n", String.valueOf(++number).getBytes(StandardCharsets.UTF_8));
                topic.pipeInput(new TestRecord<>(bytes(input[1]), bytes(input[2]), headers, Long.parseLong(input[3])));
                final Map<String, Object> step = new LinkedHashMap<>();
                step.put("input", List.of(input[0], input[1], input[2] == null ? "null" : input[2], Long.parseLong(input[3]), number));
                step.put("calls", new ArrayList<>(CALLS));
                step.put("sent", sent(driver));
                CALLS.clear();
                steps.add(step);
            }
            made.after(driver);
            run.put("after", new ArrayList<>(CALLS));
        }
        return run;
    }

    private static List<Object> sent(final TopologyTestDriver driver) {
        final List<Object> found = new ArrayList<>();
        for (final String topic : new TreeSet<>(driver.producedTopicNames())) {
            for (final TestRecord<byte[], byte[]> record : driver.createOutputTopic(topic, new ByteArrayDeserializer(),
                new ByteArrayDeserializer()).readRecordsToList()) {
                found.add(Arrays.asList(topic, hex(record.key()), hex(record.value()), record.timestamp(), texts(record.headers())));
            }
        }
        return found;
    }

    private static byte[] bytes(final String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    private static String hex(final byte[] data) {
        if (data == null) {
            return "null";
        }
        final StringBuilder text = new StringBuilder();
        for (final byte one : data) {
            text.append(String.format("%02x", one));
        }
        return text.toString();
    }
}
