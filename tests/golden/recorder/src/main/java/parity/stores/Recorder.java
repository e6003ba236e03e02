package parity.stores;

import java.nio.file.Path;
import java.util.Set;

/**
 * Records stores or byte formats: stores DIRECTORY [scenarios] [SEED...], or formats DIRECTORY SEED.
 * A SEED of stores may be followed by the kinds of stores to record: 7:versioned,session.
 */
public final class Recorder {
    private Recorder() { }

    public static void main(final String[] args) {
        final Path directory = Path.of(args[1]);
        if (args[0].equals("stores")) {
            final StoreRecorder recorder = new StoreRecorder(directory);
            for (int i = 2; i < args.length; i++) {
                if (args[i].equals("scenarios")) {
                    recorder.scenarios();
                } else {
                    final String[] parts = args[i].split(":");
                    recorder.random(Long.parseLong(parts[0]), parts.length == 1 ? null : Set.of(parts[1].split(",")));
                }
            }
            recorder.saveDifferences();
        } else if (args[0].equals("formats")) {
            new FormatRecorder(directory).record(Long.parseLong(args[2]));
        } else {
            throw new IllegalArgumentException("neither stores nor formats: " + args[0]);
        }
    }
}
