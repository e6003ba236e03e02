package parity.stores;

import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/** One group of vectors of one format. */
final class Vectors {
    final Map<String, Object> json = new LinkedHashMap<>();
    private final List<Object> items = new ArrayList<>();

    Vectors(final String format, final String java, final String layout) {
        json.put("format", format);
        json.put("java", java);
        json.put("layout", layout);
        json.put("vectors", items);
    }

    /** Input fields and the bytes they become; an exception is recorded by its class. */
    Vectors encode(final Map<String, Object> input, final Supplier<byte[]> bytes) {
        try {
            items.add(Json.obj("input", input, "hex", Json.hex(bytes.get())));
        } catch (final RuntimeException e) {
            items.add(Json.obj("input", input, "error", name(e)));
        }
        return this;
    }

    /** Bytes and what a reader makes of them. */
    Vectors decode(final Map<String, Object> input, final Supplier<Object> output) {
        try {
            items.add(Json.obj("input", input, "output", output.get()));
        } catch (final RuntimeException e) {
            items.add(Json.obj("input", input, "error", name(e)));
        }
        return this;
    }

    private static String name(final RuntimeException e) {
        return (e instanceof UncheckedIOException ? e.getCause() : e).getClass().getSimpleName();
    }

    void add(final Map<String, Object> item) {
        items.add(item);
    }
}
