package shop;

import java.util.Properties;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;

/**
 * The filter with a changed value that benchmarks/bench_avro_peers.py measures: keeps half of the records and adds a field.
 * Arguments: bootstrap servers, application id, state directory, URL of the registry, input, output, schema of the output.
 */
public final class Filter {
    private Filter() { }

    public static void main(final String[] args) {
        final Properties props = new Properties();
        props.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        props.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        props.put(StreamsConfig.STATE_DIR_CONFIG, args[2]);
        props.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 1000);
        props.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        final Schema totalled = new Schema.Parser().parse(args[6]);
        final StreamsBuilder builder = new StreamsBuilder();
        builder.stream(args[4], Consumed.with(Serdes.String(), Registered.serde(args[3], false)))
            .filter((key, order) -> (Double) order.get("amount") >= 50.0)
            .mapValues(order -> withTotal(order, totalled))
            .to(args[5], Produced.with(Serdes.String(), Registered.serde(args[3], false)));
        final KafkaStreams streams = new KafkaStreams(builder.build(), props);
        streams.setStateListener((state, before) -> {
            if (state == KafkaStreams.State.RUNNING) {
                System.out.println("running");
            }
        });
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }

    private static GenericRecord withTotal(final GenericRecord order, final Schema totalled) {
        final GenericRecord found = new GenericData.Record(totalled);
        for (final Schema.Field field : order.getSchema().getFields()) {
            found.put(field.name(), order.get(field.pos()));
        }
        found.put("total", (Double) order.get("amount") * 2);
        return found;
    }
}
