package migration;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
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
 * Arguments: bootstrap servers, application id, state directory, processing guarantee, topics of lines, labels, totals and minutes.
 * Ends in order, and leaves its group, when it is terminated.
 */
public final class WordCount {
    private WordCount() { }

    public static void main(final String[] args) {
        final Properties props = new Properties();
        props.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        props.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        props.put(StreamsConfig.STATE_DIR_CONFIG, args[2]);
        props.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, args[3]);
        props.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        props.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        props.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        final Topology topology = topology(args[4], args[5], args[6], args[7]);
        say("topology", "text", topology.describe().toString());
        final KafkaStreams streams = new KafkaStreams(topology, props);
        streams.setStateListener((state, before) -> say("state", "state", state.name()));
        final CloseOptions leaving = CloseOptions.timeout(Duration.ofSeconds(60))
            .withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> say("closed", "in_time", streams.close(leaving))));
        streams.start();
    }

    /** In the form of the log of a worker of this project. */
    private static void say(final String event, final String field, final Object value) {
        try {
            System.out.println(new ObjectMapper().writeValueAsString(Map.of("event", event, field, value)));
        } catch (final JsonProcessingException e) {
            throw new IllegalStateException(e);
        }
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
