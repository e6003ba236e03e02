"""W1 with Avro for Quix Streams, which `benchmarks/bench_avro_peers.py` starts in an environment of its own.

Arguments: bootstrap servers, group, state directory, URL of the registry, input, output, schema of the output.
"""

import json
import sys
from typing import Any

from quixstreams import Application
from quixstreams.models.serializers.avro import AvroDeserializer, AvroSerializer
from quixstreams.models.serializers.schema_registry import SchemaRegistryClientConfig

bootstrap, group, state_dir, url, source, target, schema = sys.argv[1:]
registry = SchemaRegistryClientConfig(url=url)


class Announced(Application):
    """Says when partitions are assigned."""

    def _on_assign(self, consumer: Any, partitions: Any) -> None:
        super()._on_assign(consumer, partitions)
        print("running", flush=True)


app = Announced(
    broker_address=bootstrap,
    consumer_group=group,
    auto_offset_reset="earliest",
    commit_interval=1.0,
    state_dir=state_dir,
    loglevel="WARNING",
)
read = AvroDeserializer(schema_registry_client_config=registry)
write = AvroSerializer(json.loads(schema), schema_registry_client_config=registry)
orders = app.dataframe(app.topic(source, key_deserializer="str", value_deserializer=read))
kept = orders.filter(lambda order: order["amount"] >= 50.0)
kept["total"] = kept["amount"] * 2
kept.to_topic(app.topic(target, key_serializer="str", value_serializer=write))

if __name__ == "__main__":
    app.run()
