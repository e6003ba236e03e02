package parity.stores;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.function.Consumer;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.streams.KafkaClientSupplier;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyConfig;
import org.apache.kafka.streams.processor.internals.InternalTopologyBuilder;
import org.apache.kafka.streams.processor.internals.TopicAccess;

/** Names of internal topics and clients, and settings of internal topics, as the library works them out. */
final class Names {
    private final Pool pool;
    private final boolean first;

    Names(final long seed) {
        pool = new Pool(seed + 29);
        first = seed == 1;
    }

    private static InternalTopologyBuilder internals(final Topology topology) {
        try {
            final Field field = Topology.class.getDeclaredField("internalTopologyBuilder");
            field.setAccessible(true);
            return (InternalTopologyBuilder) field.get(topology);
        } catch (final ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private static Properties properties(final String application, final Map<String, ?> settings) {
        final Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "unused:9092");
        config.putAll(settings);
        return config;
    }

    private static Map<String, Object> topics(final String name, final Consumer<StreamsBuilder> body, final String application,
                                              final String namedTopology, final Map<String, ?> settings) {
        final Properties config = properties(application, settings);
        final StreamsConfig streamsConfig = new StreamsConfig(config);
        final TopologyConfig topologyConfig = namedTopology == null ? new TopologyConfig(streamsConfig)
            : new TopologyConfig(namedTopology, streamsConfig, new Properties());
        final Map<String, Object> json = Json.obj("topology", name, "application_id", application, "named_topology", namedTopology,
            "settings", new TreeMap<>(settings));
        try {
            final StreamsBuilder builder = new StreamsBuilder(topologyConfig);
            body.accept(builder);
            final Topology topology = builder.build(config);
            json.put("subtopologies", TopicAccess.internalTopics(internals(topology), streamsConfig));
        } catch (final RuntimeException e) {
            json.put("error", e.getClass().getSimpleName());
            json.put("message", e.getMessage());
        }
        return json;
    }

    /** The settings of every internal topic of the small topologies. */
    List<Object> configs() {
        final List<Object> out = new ArrayList<>();
        final Map<String, Consumer<StreamsBuilder>> all = Topologies.built();
        final String application = first ? "app" : "app-" + pool.random.nextInt(1_000);
        all.forEach((name, body) -> out.add(topics(name, body, application, null, Map.of())));
        final Map<String, String> topicSettings = new TreeMap<>(Map.of("topic.segment.bytes", "12345", "topic.min.insync.replicas", "2",
            "topic.cleanup.policy", "delete", "topic.retention.ms", "77"));
        final long additional = first ? 0L : 1 + pool.random.nextInt(1_000_000);
        for (final String name : new String[] {"kv_store", "kv_store_settings", "versioned_store", "versioned_store_settings", "window_store",
            "window_store_settings", "session_store", "repartition", "foreign_key_join", "outer_join", "suppress_time_limit", "grace_join"}) {
            out.add(topics(name, all.get(name), application, null, topicSettings));
            out.add(topics(name, all.get(name), application, null, Map.of("windowstore.changelog.additional.retention.ms", additional)));
        }
        for (final String name : new String[] {"table", "foreign_key_join", "join_repartition", "stream_join", "table_aggregate"}) {
            out.add(topics(name, all.get(name), application, null, Map.of("topology.optimization", "all")));
        }
        return out;
    }

    /** Names of internal topics under other application ids, prefixes and named topologies. */
    List<Object> topicNames() {
        final List<Object> out = new ArrayList<>();
        final Map<String, Consumer<StreamsBuilder>> all = Topologies.built();
        final String[] applications = first ? new String[] {"app", "My.App_1", "a-b-c"}
            : new String[] {"x" + pool.random.nextInt(100), "Svc." + pool.random.nextInt(100) + "-v2", "q"};
        for (final String name : new String[] {"table", "aggregate", "table_aggregate", "foreign_key_join", "foreign_key_unnamed", "outer_join",
            "stream_join", "join_repartition", "join_repartition_named", "repartition", "repartition_unnamed", "suppress_time_limit",
            "suppress_settings", "grace_join", "kv_store"}) {
            for (final String application : applications) {
                out.add(namesOnly(topics(name, all.get(name), application, null, Map.of())));
            }
            out.add(namesOnly(topics(name, all.get(name), applications[0], first ? "part-one" : "t" + pool.random.nextInt(100), Map.of())));
            out.add(namesOnly(topics(name, all.get(name), applications[0], null, Map.of("__internal.override.topic.prefix__", "other"))));
        }
        return out;
    }

    private static Object namesOnly(final Map<String, Object> json) {
        final Map<?, ?> subtopologies = (Map<?, ?>) json.get("subtopologies");
        if (subtopologies != null) {
            subtopologies.forEach((id, entry) -> {
                @SuppressWarnings("unchecked")
                final Map<String, Object> fields = (Map<String, Object>) entry;
                fields.put("changelogs", new ArrayList<>(((Map<?, ?>) fields.get("changelogs")).keySet()));
                fields.put("repartitions", new ArrayList<>(((Map<?, ?>) fields.get("repartitions")).keySet()));
            });
        }
        return json;
    }

    // ---- clients

    private static final class Capture implements KafkaClientSupplier {
        private final List<Object> clients = new ArrayList<>();

        private void note(final String kind, final Map<String, Object> config) {
            final Map<String, Object> plain = new TreeMap<>();
            config.forEach((name, value) -> {
                if (value instanceof String || value instanceof Number || value instanceof Boolean) {
                    plain.put(name, value);
                } else if (value instanceof Class) {
                    plain.put(name, ((Class<?>) value).getName());
                } else if (value instanceof List) {
                    final List<Object> items = new ArrayList<>();
                    ((List<?>) value).forEach(item -> items.add(String.valueOf(item)));
                    plain.put(name, items);
                }
            });
            clients.add(Json.obj("kind", kind, "config", plain));
        }

        @Override
        public Admin getAdmin(final Map<String, Object> config) {
            note("admin", config);
            return (Admin) Proxy.newProxyInstance(Names.class.getClassLoader(), new Class<?>[] {Admin.class}, (proxy, method, args) -> null);
        }

        @Override
        public Producer<byte[], byte[]> getProducer(final Map<String, Object> config) {
            note("producer", config);
            return new MockProducer<>(false, null, new ByteArraySerializer(), new ByteArraySerializer());
        }

        @Override
        public org.apache.kafka.clients.consumer.Consumer<byte[], byte[]> getConsumer(final Map<String, Object> config) {
            note("main consumer", config);
            return new MockConsumer<>("earliest");
        }

        @Override
        public org.apache.kafka.clients.consumer.Consumer<byte[], byte[]> getRestoreConsumer(final Map<String, Object> config) {
            note("restore consumer", config);
            return new MockConsumer<>("earliest");
        }

        @Override
        public org.apache.kafka.clients.consumer.Consumer<byte[], byte[]> getGlobalConsumer(final Map<String, Object> config) {
            note("global consumer", config);
            return new MockConsumer<>("earliest");
        }
    }

    /** What clients are created, with which ids and settings. */
    List<Object> clients() {
        final List<Object> out = new ArrayList<>();
        final String application = first ? "app" : "svc-" + pool.random.nextInt(1_000);
        final List<Map<String, Object>> cases = new ArrayList<>();
        cases.add(new LinkedHashMap<>());
        cases.add(Json.obj("num.stream.threads", 2));
        cases.add(Json.obj("client.id", first ? "my-client" : "c" + pool.random.nextInt(100), "num.stream.threads", 2));
        cases.add(Json.obj("processing.guarantee", "exactly_once_v2", "num.stream.threads", 2));
        cases.add(Json.obj("processing.guarantee", "exactly_once_v2", "client.id", "eos-client"));
        cases.add(Json.obj("group.instance.id", "static", "num.stream.threads", 2));
        cases.add(Json.obj("main.consumer.group.instance.id", "static", "restore.consumer.fetch.max.bytes", 1_000, "consumer.max.poll.records", 5,
            "producer.linger.ms", 7, "admin.retries", 3, "global.consumer.max.poll.records", 9));
        cases.add(Json.obj("consumer.enable.auto.commit", "true", "producer.enable.idempotence", "false", "consumer.isolation.level", "read_uncommitted",
            "processing.guarantee", "exactly_once_v2"));
        for (final Map<String, Object> settings : cases) {
            out.add(clients(application, settings));
        }
        return out;
    }

    private Object clients(final String application, final Map<String, Object> settings) {
        final Path directory = StoreRun.temporaryDirectory();
        final String processId = first ? "01234567-89ab-4cde-8f01-23456789abcd" : new java.util.UUID(pool.random.nextLong(), pool.random.nextLong()).toString();
        final Map<String, Object> json = Json.obj("application_id", application, "process_id", processId, "settings", new TreeMap<>(settings));
        try {
            final Path home = Files.createDirectories(directory.resolve(application));
            Files.writeString(home.resolve("kafka-streams-process-metadata"), "{\"processId\":\"" + processId + "\"}");
            final Properties config = properties(application, settings);
            config.put(StreamsConfig.STATE_DIR_CONFIG, directory.toString());
            final StreamsBuilder builder = new StreamsBuilder();
            Topologies.run().get("table").accept(builder);
            builder.globalTable("global");
            final Capture capture = new Capture();
            final KafkaStreams streams = new KafkaStreams(builder.build(), config, capture);
            final List<Object> threads = new ArrayList<>();
            for (final ThreadMetadata thread : streams.metadataForLocalThreads()) {
                threads.add(Json.obj("name", thread.threadName(), "consumer", thread.consumerClientId(),
                    "restore_consumer", thread.restoreConsumerClientId(), "producer", new ArrayList<>(thread.producerClientIds()),
                    "admin", thread.adminClientId()));
            }
            threads.sort((a, b) -> Json.compact(a).compareTo(Json.compact(b)));
            json.put("threads", threads);
            json.put("clients", capture.clients);
            streams.close(java.time.Duration.ZERO);
        } catch (final IOException e) {
            throw new UncheckedIOException(e);
        } catch (final RuntimeException e) {
            json.put("error", e.getClass().getSimpleName());
            json.put("message", e.getMessage());
        } finally {
            StoreRun.deleteRecursively(directory);
        }
        return json;
    }
}
