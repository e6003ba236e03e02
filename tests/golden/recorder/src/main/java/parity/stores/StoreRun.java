package parity.stores;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Consumer;
import java.util.stream.Stream;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.internals.InternalProcessorContext;
import org.apache.kafka.streams.processor.internals.ProcessorRecordContext;
import org.apache.kafka.streams.processor.internals.Task;
import org.apache.kafka.streams.processor.internals.TaskAccess;
import org.apache.kafka.streams.state.internals.CachedStateStore;
import org.apache.kafka.streams.state.internals.VersionedKeyValueToBytesStoreAdapter;
import org.apache.kafka.streams.state.internals.WrappedStateStore;

/** Runs operations on one store inside a test driver and records what happened. */
final class StoreRun {
    static final String APPLICATION = "parity";
    static final String CHANGELOG = APPLICATION + "-" + StoreSpec.NAME + "-changelog";
    private static final Set<String> WRITES =
        Set.of("put", "put_if_absent", "put_all", "delete", "remove", "flush_cache");

    private final StoreSpec spec;

    StoreRun(final StoreSpec spec) {
        this.spec = spec;
    }

    /** Runs the operations on a new store, then restores a second one from the changelog. */
    Map<String, Object> trace(final OpList list) {
        final List<Object> ops = new ArrayList<>();
        final List<Object> changelog = new ArrayList<>();
        final List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        final List<Op> dump = dump(list.ops);
        final List<Object> contents = new ArrayList<>();
        final Object[] position = new Object[1];

        inTask(List.of(), (context, store, driver) -> {
            final List<Object> forwarded = new ArrayList<>();
            if (spec.caching) {
                listen(store, forwarded);
            }
            final StoreCalls calls = new StoreCalls(spec, store);
            for (int i = 0; i < list.ops.size(); i++) {
                final Op op = list.ops.get(i);
                enter(context, op.recordTimestamp, i);
                final int before = history(driver).size();
                final Object result = calls.apply(op);
                final Map<String, Object> line = Json.obj("op", op.name, "args", op.args);
                if (WRITES.contains(op.name)) {
                    line.put("record_timestamp", op.recordTimestamp);
                }
                streamTime(store).ifPresent(time -> line.put("stream_time", time));
                line.put("result", result);
                if (!forwarded.isEmpty()) {
                    line.put("forwarded", new ArrayList<>(forwarded));
                    forwarded.clear();
                }
                ops.add(line);
                final List<ProducerRecord<byte[], byte[]>> history = history(driver);
                for (final ProducerRecord<byte[], byte[]> record : history.subList(before, history.size())) {
                    records.add(record);
                    changelog.add(Json.obj(
                        "op", i,
                        "key_hex", Json.hex(record.key()),
                        "value_hex", Json.hex(record.value()),
                        "timestamp", record.timestamp(),
                        "headers", StoreCalls.headersJson(record.headers())));
                }
            }
            calls.closeIterators();
            for (final Op op : dump) {
                contents.add(Json.obj("op", op.name, "args", op.args, "result", calls.apply(op)));
            }
            position[0] = positionJson(store);
        });

        final Map<String, Object> out = Json.obj(
            "name", list.name, "about", list.about, "store", spec.json(), "ops", ops, "contents", contents,
            "position", position[0]);
        if (spec.logging) {
            out.put("changelog", changelog);
            out.put("restored", restored(records, dump));
        }
        return out;
    }

    private List<Object> restored(final List<ProducerRecord<byte[], byte[]>> records, final List<Op> dump) {
        final List<Object> contents = new ArrayList<>();
        inTask(records, (context, store, driver) -> {
            enter(context, 0, 0);
            final StoreCalls calls = new StoreCalls(spec, store);
            for (final Op op : dump) {
                contents.add(Json.obj("op", op.name, "args", op.args, "result", calls.apply(op)));
            }
        });
        return contents;
    }

    /** The reads that list everything a store of this kind holds. */
    private List<Op> dump(final List<Op> ops) {
        final List<Op> out = new ArrayList<>();
        if (spec.isKeyValue() || spec.isWindow()) {
            out.add(new Op("all", Json.obj(), 0));
        } else if (spec.isSession()) {
            out.add(new Op("fetch_keys", Json.obj("key_from", null, "key_to", null), 0));
        } else {
            final Set<String> keys = new TreeSet<>();
            ops.stream().filter(op -> op.name.equals("put")).map(op -> op.text("key"))
                .filter(key -> key != null).forEach(keys::add);
            for (final String key : keys) {
                out.add(new Op("get", Json.obj("key", key), 0));
                out.add(new Op("query", Json.obj("type", "MultiVersionedKeyQuery", "key", key, "order", "asc"), 0));
            }
        }
        return out;
    }

    @SuppressWarnings("unchecked")
    private static void listen(final StateStore store, final List<Object> forwarded) {
        ((CachedStateStore<Object, Object>) store).setFlushListener(
            record -> forwarded.add(Json.obj(
                "key", StoreCalls.key(record.key()),
                "new", StoreCalls.value(record.value().newValue),
                "old", StoreCalls.value(record.value().oldValue),
                "timestamp", record.timestamp())),
            true);
    }

    private static void enter(final InternalProcessorContext<?, ?> context, final long timestamp, final long offset) {
        final RecordHeaders headers = new RecordHeaders();
        headers.add("input", new byte[] {1});
        context.setRecordContext(new ProcessorRecordContext(timestamp, offset, 0, "input", headers));
    }

    private static Object positionJson(final StateStore store) {
        final Map<String, Object> out = Json.obj();
        for (final String topic : new TreeSet<>(store.getPosition().getTopics())) {
            final Map<String, Object> partitions = Json.obj();
            store.getPosition().getPartitionPositions(topic).forEach((p, o) -> partitions.put(String.valueOf(p), o));
            out.put(topic, partitions);
        }
        return out;
    }

    /** The stream time the innermost store has observed, for the kinds that keep one. */
    private static Optional<Long> streamTime(final StateStore store) {
        StateStore inner = store;
        while (inner instanceof WrappedStateStore || inner instanceof VersionedKeyValueToBytesStoreAdapter) {
            inner = inner instanceof WrappedStateStore
                ? ((WrappedStateStore<?, ?, ?>) inner).wrapped() : (StateStore) read(field(inner.getClass(), "inner"), inner);
        }
        for (Class<?> type = inner.getClass(); type != null; type = type.getSuperclass()) {
            for (final Field field : type.getDeclaredFields()) {
                if (field.getName().equals("observedStreamTime")) {
                    return Optional.of((Long) read(field, inner));
                }
            }
        }
        return Optional.empty();
    }

    // ---- the driver around it

    private interface Body {
        void run(InternalProcessorContext<?, ?> context, StateStore store, TopologyTestDriver driver);
    }

    private void inTask(final List<ProducerRecord<byte[], byte[]>> restore, final Body body) {
        final Path directory = temporaryDirectory();
        final Consumer<ProcessorContext<?, ?>>[] task = newArray();
        final Topology topology = new Topology();
        topology.addSource("source", new ByteArrayDeserializer(), new ByteArrayDeserializer(), "input");
        topology.addProcessor("processor", () -> new Processor<byte[], byte[], Void, Void>() {
            private ProcessorContext<Void, Void> context;

            @Override
            public void init(final ProcessorContext<Void, Void> processorContext) {
                context = processorContext;
            }

            @Override
            public void process(final Record<byte[], byte[]> record) {
                task[0].accept(context);
            }
        }, "source");
        topology.addStateStore(spec.builder(), "processor");

        final Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, APPLICATION);
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "unused:9092");
        config.put(StreamsConfig.STATE_DIR_CONFIG, directory.toString());
        if (spec.cacheMaxBytes >= 0) {
            config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, spec.cacheMaxBytes);
        }
        if (spec.consistency) {
            config.put(StreamsConfig.InternalConfig.IQ_CONSISTENCY_OFFSET_VECTOR_ENABLED, true);
        }
        final RuntimeException[] failure = new RuntimeException[1];
        try (TopologyTestDriver driver = new TopologyTestDriver(topology, config)) {
            if (!restore.isEmpty()) {
                final TopicPartition changelog = new TopicPartition(CHANGELOG, 0);
                TaskAccess.restore((Task) read(field(TopologyTestDriver.class, "task"), driver), changelog, consumed(restore));
            }
            task[0] = context -> {
                try {
                    final InternalProcessorContext<?, ?> internal = (InternalProcessorContext<?, ?>) context;
                    final StateStore store =
                        ((WrappedStateStore<?, ?, ?>) (StateStore) context.getStateStore(StoreSpec.NAME)).wrapped();
                    body.run(internal, store, driver);
                    enter(internal, 0, 0);
                } catch (final RuntimeException e) {
                    failure[0] = e;
                }
            };
            driver.createInputTopic("input", new ByteArraySerializer(), new ByteArraySerializer())
                .pipeInput(new byte[0], new byte[0], 0L);
        } finally {
            deleteRecursively(directory);
        }
        if (failure[0] != null) {
            throw failure[0];
        }
    }

    @SuppressWarnings("unchecked")
    private static Consumer<ProcessorContext<?, ?>>[] newArray() {
        return new Consumer[1];
    }

    private static List<ConsumerRecord<byte[], byte[]>> consumed(final List<ProducerRecord<byte[], byte[]>> records) {
        final List<ConsumerRecord<byte[], byte[]>> out = new ArrayList<>();
        for (final ProducerRecord<byte[], byte[]> record : records) {
            out.add(new ConsumerRecord<>(record.topic(), 0, out.size(),
                record.timestamp() == null ? 0 : record.timestamp(), TimestampType.CREATE_TIME, -1, -1,
                record.key(), record.value(), record.headers(), Optional.empty()));
        }
        return out;
    }

    @SuppressWarnings("unchecked")
    private static List<ProducerRecord<byte[], byte[]>> history(final TopologyTestDriver driver) {
        return ((MockProducer<byte[], byte[]>) read(field(TopologyTestDriver.class, "producer"), driver)).history();
    }

    private static Field field(final Class<?> type, final String name) {
        try {
            return type.getDeclaredField(name);
        } catch (final NoSuchFieldException e) {
            throw new IllegalStateException(e);
        }
    }

    private static Object read(final Field field, final Object owner) {
        try {
            field.setAccessible(true);
            return field.get(owner);
        } catch (final IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
    }

    static Path temporaryDirectory() {
        try {
            return Files.createTempDirectory("parity-recorder");
        } catch (final IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static void deleteRecursively(final Path directory) {
        try (Stream<Path> paths = Files.walk(directory)) {
            paths.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
        } catch (final IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
