package parity.stores;

import java.nio.file.Path;
import java.util.List;
import org.apache.kafka.streams.internals.metrics.ClientMetrics;

/** Writes the format vectors of one seed. */
final class FormatRecorder {
    private final Path directory;

    FormatRecorder(final Path directory) {
        this.directory = directory;
    }

    void record(final long seed) {
        final Formats formats = new Formats(seed);
        save("serdes", "groups", formats.serdes(), 5);
        save("values", "groups", formats.values(), 5);
        save("keys", "groups", formats.keys(), 5);
        save("versioned_rows", "groups", formats.versionedRows(), 5);
        save("changes", "groups", formats.changes(), 5);
        save("foreign_keys", "groups", formats.foreignKeys(), 5);
        save("partitioning", "groups", formats.partitioning(), 5);
        save("buffers", "groups", formats.buffers(), 5);
        save("positions", "groups", formats.positions(), 5);
        save("offsets", "groups", formats.offsets(), 5);
        save("ids", "groups", formats.ids(), 5);
        save("internal_topics", "topologies", new InternalTopics(seed).record(), 6);
        final Names names = new Names(seed);
        save("configs", "topologies", names.configs(), 6);
        Json.save(directory.resolve("names.json"),
            Json.obj("kafka_version", ClientMetrics.version(), "topics", names.topicNames(), "clients", names.clients()), 4);
    }

    private void save(final String name, final String field, final List<Object> items, final int depth) {
        Json.save(directory.resolve(name + ".json"), Json.obj("kafka_version", ClientMetrics.version(), field, items), depth - 1);
    }
}
