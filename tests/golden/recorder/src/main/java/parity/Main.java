package parity;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * Records topologies to JSON files.
 * Options: --out DIR, --sources DIR, --seeds N-M, --cases REGEX, --max-chars N (random runs of one file), --no-scenarios,
 * --only-random (cases with random runs), --composed FILE (the topologies of that file, see Composed), --memory (stores in memory, of cases that leave it to the configuration; the files are
 * called NAME.memory.json).
 */
public final class Main {
    private static final List<Dsl> GROUPS = List.of(new Stateless(), new Aggregates(), new Windows(), new Suppresses(), new StreamJoins(),
        new TableJoins(), new ForeignKeyJoins(), new Tables(), new Processors(), new Errors(), new Descriptions());

    private Main() { }

    public static void main(final String[] args) throws IOException {
        Path out = null;
        Path sources = Path.of("src/main/java");
        long first = 1;
        long last = 3;
        Pattern names = Pattern.compile(".*");
        boolean scenarios = true;
        boolean onlyRandom = false;
        boolean memory = false;
        int maxChars = 330_000;
        Path composed = null;
        for (int i = 0; i < args.length; i++) {
            switch (args[i]) {
                case "--out" -> out = Path.of(args[++i]);
                case "--sources" -> sources = Path.of(args[++i]);
                case "--seeds" -> {
                    final String[] r = args[++i].split("-");
                    first = Long.parseLong(r[0]);
                    last = Long.parseLong(r[1]);
                }
                case "--cases" -> names = Pattern.compile(args[++i]);
                case "--max-chars" -> maxChars = Integer.parseInt(args[++i]);
                case "--no-scenarios" -> scenarios = false;
                case "--only-random" -> onlyRandom = true;
                case "--memory" -> memory = true;
                case "--composed" -> composed = Path.of(args[++i]);
                default -> throw new IllegalArgumentException("unknown option " + args[i]);
            }
        }
        final Recorder recorder = new Recorder(new Sources(sources));
        final long[] seeds = new long[(int) (last - first + 1)];
        for (int i = 0; i < seeds.length; i++) {
            seeds[i] = first + i;
        }
        final Set<String> seen = new HashSet<>();
        int failures = 0;
        final List<List<Case>> groups = composed == null ? GROUPS.stream().map(group -> group.cases).toList() : List.of(Composed.read(composed));
        for (final List<Case> group : groups) {
            for (final Case c : group) {
                if (!seen.add(c.name)) {
                    throw new IllegalStateException("two cases are called " + c.name);
                }
                if (!names.matcher(c.name).matches() || onlyRandom && c.random == null || memory && !c.leavesStoresToConfig()) {
                    continue;
                }
                if (memory) {
                    c.config(Case.DEFAULT_STORE, "in_memory").withTopologyConfig();
                }
                try {
                    write(out, memory ? c.name + ".memory" : c.name, recorder.record(c, scenarios, seeds, maxChars));
                } catch (final RuntimeException e) {
                    failures++;
                    System.err.println("FAILED " + c.name + ": " + Recorder.chain(e) + " " + e.getMessage());
                    for (Throwable t = e; t != null; t = t.getCause()) {
                        System.err.println("   " + t);
                        for (int k = 0; k < Math.min(4, t.getStackTrace().length); k++) {
                            System.err.println("      " + t.getStackTrace()[k]);
                        }
                    }
                }
            }
        }
        if (failures > 0) {
            System.exit(1);
        }
    }

    private static void write(final Path dir, final String name, final Map<String, Object> doc) throws IOException {
        Files.createDirectories(dir);
        Files.writeString(dir.resolve(name + ".json"), Json.document(doc), StandardCharsets.UTF_8);
    }
}
