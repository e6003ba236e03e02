package parity.stores;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.state.internals.OffsetCheckpoint;

/** Checkpoint files as the library writes and reads them. */
final class Checkpoints {
    private Checkpoints() { }

    static Map<String, Object> write(final Map<String, Object> offsets) {
        final Map<TopicPartition, Long> byPartition = new LinkedHashMap<>();
        offsets.forEach((name, offset) -> {
            final int slash = name.lastIndexOf('/');
            byPartition.put(new TopicPartition(name.substring(0, slash), Integer.parseInt(name.substring(slash + 1))), (Long) offset);
        });
        final Path directory = StoreRun.temporaryDirectory();
        final Path file = directory.resolve(".checkpoint");
        try {
            new OffsetCheckpoint(file.toFile()).write(byPartition);
            final String text = Files.exists(file) ? Files.readString(file, StandardCharsets.UTF_8) : null;
            return Json.obj("input", Json.obj("offsets", offsets), "text", text);
        } catch (final IOException e) {
            throw new UncheckedIOException(e);
        } catch (final RuntimeException e) {
            return Json.obj("input", Json.obj("offsets", offsets), "error", e.getClass().getSimpleName());
        } finally {
            StoreRun.deleteRecursively(directory);
        }
    }

    static Object read(final String text) {
        final Path directory = StoreRun.temporaryDirectory();
        final Path file = directory.resolve(".checkpoint");
        try {
            Files.writeString(file, text, StandardCharsets.UTF_8);
            final Map<String, Object> out = Json.obj();
            new OffsetCheckpoint(file.toFile()).read().forEach((partition, offset) -> out.put(partition.topic() + "/" + partition.partition(), offset));
            return out;
        } catch (final IOException e) {
            throw new UncheckedIOException(e);
        } finally {
            StoreRun.deleteRecursively(directory);
        }
    }
}
