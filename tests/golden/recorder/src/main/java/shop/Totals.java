package shop;

import java.time.Duration;
import java.util.function.Supplier;
import migration.Running;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.generic.GenericRecordBuilder;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.WindowStore;

/**
 * What each customer has ordered, in all and by minute, in Avro, with a record as key. The same topology in Python is
 * tests/integration/apps/avro_totals.py.
 * Arguments: those of Running, URL of the registry, topics of orders, totals and minutes.
 */
public final class Totals {
    private Totals() { }

    public static void main(final String[] args) {
        Running.start(topology(args[4], args[5], args[6], args[7]), args);
    }

    static Topology topology(final String registry, final String orders, final String totals, final String minutes) {
        final Supplier<Serde<GenericRecord>> keys = () -> Registered.serde(registry, true);
        final Supplier<Serde<GenericRecord>> values = () -> Registered.serde(registry, false);
        final StreamsBuilder builder = new StreamsBuilder();
        final KGroupedStream<GenericRecord, GenericRecord> byCustomer = builder
            .stream(orders, Consumed.with(Serdes.String(), values.get()))
            .groupBy((id, order) -> customer(order), Grouped.with("by-customer", keys.get(), values.get()));
        byCustomer
            .aggregate(Totals::none, Totals::add,
                Materialized.<GenericRecord, GenericRecord, KeyValueStore<Bytes, byte[]>>as("totals")
                    .withKeySerde(keys.get()).withValueSerde(values.get()))
            .toStream((customer, total) -> customer.get("name").toString())
            .mapValues(Totals::text)
            .to(totals, Produced.with(Serdes.String(), Serdes.String()));
        byCustomer
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(1), Duration.ofHours(1)))
            .aggregate(Totals::none, Totals::add, Named.as("by-minute"),
                Materialized.<GenericRecord, GenericRecord, WindowStore<Bytes, byte[]>>as("minutes")
                    .withKeySerde(keys.get()).withValueSerde(values.get()))
            .toStream((customer, total) -> customer.key().get("name") + "@" + customer.window().start())
            .mapValues(Totals::text)
            .to(minutes, Produced.with(Serdes.String(), Serdes.String()));
        return builder.build();
    }

    private static GenericRecord customer(final GenericRecord order) {
        return new GenericRecordBuilder(Registered.CUSTOMER).set("name", order.get("customer").toString()).build();
    }

    private static GenericRecord none() {
        return new GenericRecordBuilder(Registered.TOTAL).set("orders", 0).set("cents", 0L).build();
    }

    private static GenericRecord add(final GenericRecord customer, final GenericRecord order, final GenericRecord total) {
        final GenericRecord sum = new GenericData.Record(Registered.TOTAL);
        sum.put("orders", (Integer) total.get("orders") + 1);
        sum.put("cents", (Long) total.get("cents") + (Long) order.get("cents"));
        sum.put("last", order.get("id").toString());
        return sum;
    }

    private static String text(final GenericRecord total) {
        return total.get("orders") + ":" + total.get("cents") + ":" + total.get("last");
    }
}
