package parity;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/** Finds the Java text of a case's topology in the source files, so that a trace carries it. */
final class Sources {
    private final Path root;
    private final Map<String, String> texts = new HashMap<>();

    Sources(final Path root) {
        this.root = root;
    }

    String of(final Case c) {
        final String text = text(c.declaredIn);
        final int at = text.indexOf("of(\"" + c.name + "\"");
        if (at < 0) {
            throw new IllegalStateException("no source of " + c.name);
        }
        final int dsl = text.indexOf(".topology(", at);
        final int papi = text.indexOf(".papi(", at);
        final int start = dsl < 0 ? papi : papi < 0 ? dsl : Math.min(dsl, papi);
        final int open = text.indexOf('(', start);
        final StringBuilder s = new StringBuilder(unindent(text, open + 1, close(text, open)));
        for (final String name : c.uses) {
            final int declared = text.indexOf("class " + name);
            final int lineStart = text.lastIndexOf('\n', declared) + 1;
            s.append("\n\n").append(unindent(text, lineStart, close(text, text.indexOf('{', declared)) + 1));
        }
        return s.toString();
    }

    private String text(final Class<?> c) {
        return texts.computeIfAbsent(c.getName(), name -> {
            try {
                return Files.readString(root.resolve(name.replace('.', '/') + ".java"));
            } catch (final IOException e) {
                throw new UncheckedIOException(e);
            }
        });
    }

    /** The offset of the bracket that closes the one at open; text in quotes does not count. */
    private static int close(final String text, final int open) {
        int depth = 0;
        char quote = 0;
        for (int i = open; i < text.length(); i++) {
            final char ch = text.charAt(i);
            if (quote != 0) {
                if (ch == '\\') {
                    i++;
                } else if (ch == quote) {
                    quote = 0;
                }
            } else if (ch == '"' || ch == '\'') {
                quote = ch;
            } else if (ch == '(' || ch == '{' || ch == '[') {
                depth++;
            } else if (ch == ')' || ch == '}' || ch == ']') {
                depth--;
                if (depth == 0) {
                    return i;
                }
            }
        }
        throw new IllegalStateException("unbalanced source");
    }

    private static String unindent(final String text, final int from, final int to) {
        final int lineStart = text.lastIndexOf('\n', from - 1) + 1;
        int indent = 0;
        while (text.charAt(lineStart + indent) == ' ') {
            indent++;
        }
        final String body = text.substring(from, to).strip();
        return body.replaceAll("\n {1," + Math.max(1, indent) + "}", "\n");
    }
}
