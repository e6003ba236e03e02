package migration;

import java.time.Duration;
import java.util.List;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.WindowStore;

/**
 * The application that is migrated: counts words, in all and by minute, with labels from a table. The same topology in Python is
 * tests/integration/apps/migrated.py.
 * Arguments: those of Running, topics of lines, labels, totals and minutes.
 */
public final class WordCount {
    private WordCount() { }

    public static void main(final String[] args) {
        Running.start(topology(args[4], args[5], args[6], args[7]), args);
    }

    static Topology topology(final String lines, final String labels, final String totals, final String minutes) {
        final StreamsBuilder builder = new StreamsBuilder();
        final KGroupedStream<String, String> words = builder.stream(lines, Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> List.of(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()));
        final KTable<String, String> labelled = builder.table(labels, Consumed.with(Serdes.String(), Serdes.String()),
            Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("labels").withKeySerde(Serdes.String()).withValueSerde(Serdes.String()));
        words.count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("totals").withKeySerde(Serdes.String()))
            .toStream()
            .leftJoin(labelled, (count, label) -> (label == null ? "none" : label) + ":" + count)
            .to(totals, Produced.with(Serdes.String(), Serdes.String()));
        words.windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(1), Duration.ofHours(1)))
            .count(Named.as("by-minute"), Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("minutes").withKeySerde(Serdes.String()))
            .toStream((word, count) -> word.key() + "@" + word.window().start())
            .mapValues(count -> String.valueOf(count))
            .to(minutes, Produced.with(Serdes.String(), Serdes.String()));
        return builder.build();
    }
}
