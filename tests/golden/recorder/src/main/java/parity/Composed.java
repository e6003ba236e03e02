package parity;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Map;

/**
 * Topologies that were drawn at random, read from a file: a list of objects with name, config, topology_config, inputs, outputs,
 * nodes (statements of the DSL, see ComposedBuilder) and steps. Their recordings have the object as text in place of Java's.
 */
final class Composed {
    private Composed() { }

    static List<Case> read(final Path file) throws IOException {
        final List<Case> cases = new ArrayList<>();
        for (final JsonNode program : new ObjectMapper().readTree(file.toFile())) {
            cases.add(of(program));
        }
        return cases;
    }

    private static Case of(final JsonNode program) {
        final Case c = new Case(Composed.class, program.get("name").asText(), "composed").desc("drawn at random").mayFailToBuild();
        c.text = program.toString();
        program.get("inputs").forEach(topic -> c.in(topic.asText()));
        program.get("outputs").forEach(topic -> c.out(topic.asText()));
        for (final Iterator<Map.Entry<String, JsonNode>> it = program.get("config").properties().iterator(); it.hasNext();) {
            final Map.Entry<String, JsonNode> e = it.next();
            c.config(e.getKey(), e.getValue().isNumber() ? (Object) e.getValue().asLong() : e.getValue().asText());
        }
        if (program.get("topology_config").asBoolean()) {
            c.withTopologyConfig();
        }
        c.topology(b -> new ComposedBuilder(b).build(program.get("nodes")));
        return c.scenario("drawn", s -> program.get("steps").forEach(step -> step(s, step)));
    }

    private static void step(final Script s, final JsonNode step) {
        if (step.has("wall")) {
            s.wall(step.get("wall").asLong());
            return;
        }
        final JsonNode header = step.path("header");
        final String[] headers = header.isTextual() ? new String[] {"h", header.asText()} : new String[] {};
        s.in(step.get("topic").asText(), step.get("key").textValue(), step.get("value").textValue(), step.get("at").asLong(), headers);
    }

    /** The functions that topologies call, by their names; each reports its arguments. */
    static final class Functions {
        private static final int LONGEST = 8;
        private final int id;
        private final String name;
        private final boolean reports;
        private final boolean fails;

        /** Unreported where Java calls more often than is needed, or in an order that would lose a session if one failed. */
        Functions(final int id, final String name, final boolean reports, final boolean fails) {
            this.id = id;
            this.name = name;
            this.reports = reports;
            this.fails = fails;
        }

        private void told(final String... arguments) {
            if (reports) {
                Calls.call(id + ":" + name + " " + String.join(",", Arrays.stream(arguments).map(String::valueOf).toList()));
            }
            if (fails && Arrays.stream(arguments).anyMatch(each -> each != null && each.endsWith("s"))) {
                throw new IllegalStateException("it fails for what ends with s");
            }
        }

        static String trim(final String text) {
            return text.length() <= LONGEST ? text : text.substring(text.length() - LONGEST);
        }

        static String letter(final String text) {
            return text.isEmpty() ? "a" : String.valueOf("abcd".charAt(text.charAt(text.length() - 1) % 4));
        }

        String value(final String v) {
            told(v);
            return switch (name) {
                case "mark" -> v == null ? null : trim(v + id % 10);
                case "shorten" -> v == null || v.isEmpty() ? v : v.substring(0, 1);
                case "drop" -> v == null || v.startsWith("q") ? null : v;
                default -> throw new IllegalArgumentException(name);
            };
        }

        String valueOfKey(final String k, final String v) {
            told(k, v);
            return v == null || "c".equals(k) && v.startsWith("q") ? null : trim(k + v);
        }

        List<String> values(final String v) {
            told(v);
            return v == null ? List.of() : List.of(v, trim(v + id % 10));
        }

        boolean test(final String k, final String v) {
            told(k, v);
            return switch (name) {
                case "small" -> v != null && v.compareTo("s") < 0;
                case "odd" -> v != null && v.length() % 2 == 1;
                case "not_b" -> !"b".equals(k);
                default -> throw new IllegalArgumentException(name);
            };
        }

        String key(final String k, final String v) {
            told(k, v);
            return switch (name) {
                case "same" -> k;
                case "letter" -> v == null ? k : letter(v);
                case "letter_or_none" -> v == null || v.startsWith("q") ? null : letter(v);
                default -> throw new IllegalArgumentException(name);
            };
        }

        String joined(final String left, final String right) {
            told(left, right);
            return name.equals("plus_or_none") && right != null && right.startsWith("q") ? null : trim(left + "+" + right);
        }

        String added(final String soFar, final String v) {
            told(soFar, v);
            return name.equals("append_or_none") && v != null && v.endsWith("q") ? null : trim(soFar + v);
        }

        String taken(final String soFar, final String v) {
            told(soFar, v);
            return name.equals("append_or_none") && v != null && v.endsWith("r") ? null : trim(soFar + "-" + v);
        }

        String merged(final String one, final String other) {
            told(one, other);
            return trim("(" + one + other + ")");
        }
    }

}
