package shop;

import io.apicurio.registry.serde.Legacy4ByteIdHandler;
import io.apicurio.registry.serde.SerdeConfig;
import io.apicurio.registry.serde.avro.AvroKafkaDeserializer;
import io.apicurio.registry.serde.avro.AvroKafkaSerializer;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericRecord;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;

/** Schemas of the applications, and serdes whose bytes and subjects are those of Confluent's. */
final class Registered {
    /** What applications of Java have in their schemas, and others have not. */
    private static final String TEXT = "{\"type\":\"string\",\"avro.java.string\":\"String\"}";

    static final Schema CUSTOMER = new Schema.Parser().parse("{\"type\":\"record\",\"name\":\"Customer\",\"namespace\":\"com.shop\","
        + "\"fields\":[{\"name\":\"name\",\"type\":" + TEXT + "}]}");
    static final Schema TOTAL = new Schema.Parser().parse("{\"type\":\"record\",\"name\":\"Total\",\"namespace\":\"com.shop\","
        + "\"doc\":\"What a customer has ordered.\",\"fields\":[{\"name\":\"orders\",\"type\":\"int\"},"
        + "{\"name\":\"cents\",\"type\":\"long\"},{\"name\":\"last\",\"type\":[\"null\"," + TEXT + "],\"default\":null}]}");

    private Registered() { }

    /** One for each topic: Apicurio's registers a schema once, and not once for each subject as Confluent's. */
    static Serde<GenericRecord> serde(final String registry, final boolean isKey) {
        final Map<String, Object> config = Map.of(
            SerdeConfig.REGISTRY_URL, registry,
            SerdeConfig.AUTO_REGISTER_ARTIFACT, true,
            SerdeConfig.ENABLE_HEADERS, false,
            SerdeConfig.ID_HANDLER, Legacy4ByteIdHandler.class.getName(),
            SerdeConfig.USE_ID, "contentId");
        final Serde<GenericRecord> made = Serdes.serdeFrom(new AvroKafkaSerializer<>(), new AvroKafkaDeserializer<>());
        made.configure(config, isKey);
        return made;
    }
}
