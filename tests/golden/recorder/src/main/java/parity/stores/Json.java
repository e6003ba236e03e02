package parity.stores;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Deterministic JSON: insertion order, ASCII only, one element of a top-level list per line. */
public final class Json {
    private Json() { }

    public static Map<String, Object> obj(final Object... pairs) {
        final Map<String, Object> map = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            map.put((String) pairs[i], pairs[i + 1]);
        }
        return map;
    }

    /** Like List.of, but allows null elements. */
    public static List<Object> list(final Object... items) {
        return new ArrayList<>(Arrays.asList(items));
    }

    public static String hex(final byte[] bytes) {
        if (bytes == null) {
            return null;
        }
        final StringBuilder out = new StringBuilder(bytes.length * 2);
        for (final byte b : bytes) {
            out.append(Character.forDigit((b >> 4) & 0xf, 16)).append(Character.forDigit(b & 0xf, 16));
        }
        return out.toString();
    }

    public static byte[] unhex(final String hex) {
        final byte[] out = new byte[hex.length() / 2];
        for (int i = 0; i < out.length; i++) {
            out[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        return out;
    }

    public static String compact(final Object value) {
        final StringBuilder out = new StringBuilder();
        write(out, value, 0, 0);
        return out.toString();
    }

    /** Breaks lines for the outer {@code depth} levels of nesting, keeps everything deeper on one line. */
    public static void save(final Path file, final Object value, final int depth) {
        final StringBuilder out = new StringBuilder();
        write(out, value, 0, depth);
        out.append('\n');
        try {
            Files.createDirectories(file.getParent());
            Files.write(file, out.toString().getBytes(StandardCharsets.UTF_8));
        } catch (final IOException e) {
            throw new IllegalStateException(e);
        }
    }

    private static void write(final StringBuilder out, final Object value, final int level, final int depth) {
        if (value == null) {
            out.append("null");
        } else if (value instanceof String) {
            string(out, (String) value);
        } else if (value instanceof Float || value instanceof Double) {
            final double number = ((Number) value).doubleValue();
            if (Double.isNaN(number) || Double.isInfinite(number)) {
                string(out, String.valueOf(number));
            } else {
                out.append(number);
            }
        } else if (value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else if (value instanceof Map) {
            container(out, ((Map<?, ?>) value).entrySet(), '{', '}', level, depth);
        } else if (value instanceof Iterable) {
            container(out, (Iterable<?>) value, '[', ']', level, depth);
        } else {
            throw new IllegalArgumentException("no JSON form for " + value.getClass());
        }
    }

    private static void container(final StringBuilder out, final Iterable<?> items, final char open, final char close,
                                  final int level, final int depth) {
        out.append(open);
        boolean first = true;
        for (final Object item : items) {
            if (!first) {
                out.append(',');
            }
            if (level < depth) {
                out.append('\n').append(" ".repeat(level + 1));
            } else if (!first) {
                out.append(' ');
            }
            first = false;
            if (item instanceof Map.Entry) {
                final Map.Entry<?, ?> entry = (Map.Entry<?, ?>) item;
                string(out, (String) entry.getKey());
                out.append(": ");
                write(out, entry.getValue(), level + 1, depth);
            } else {
                write(out, item, level + 1, depth);
            }
        }
        if (level < depth && !first) {
            out.append('\n').append(" ".repeat(level));
        }
        out.append(close);
    }

    private static void string(final StringBuilder out, final String value) {
        out.append('"');
        for (int i = 0; i < value.length(); i++) {
            final char c = value.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c == '\n') {
                out.append("\\n");
            } else if (c < 0x20 || c > 0x7e) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}
