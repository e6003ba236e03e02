package migration;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;

/** An application that runs until it is terminated, ends in order then, and leaves its group. It logs as a worker of this project. */
public final class Running {
    private Running() { }

    /** Begins with the arguments: bootstrap servers, application id, state directory, processing guarantee. */
    public static void start(final Topology topology, final String[] args) {
        final Properties props = new Properties();
        props.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        props.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        props.put(StreamsConfig.STATE_DIR_CONFIG, args[2]);
        props.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, args[3]);
        props.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        props.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        props.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        say("topology", "text", topology.describe().toString());
        final KafkaStreams streams = new KafkaStreams(topology, props);
        streams.setStateListener((state, before) -> say("state", "state", state.name()));
        final CloseOptions leaving = CloseOptions.timeout(Duration.ofSeconds(60))
            .withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> say("closed", "in_time", streams.close(leaving))));
        streams.start();
    }

    private static void say(final String event, final String field, final Object value) {
        try {
            System.out.println(new ObjectMapper().writeValueAsString(Map.of("event", event, field, value)));
        } catch (final JsonProcessingException e) {
            throw new IllegalStateException(e);
        }
    }
}
