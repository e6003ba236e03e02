"""Counts the visits of each page, exactly once, in as many processes as there is work for.

The code knows nothing of the cluster: its address and the login are in files of settings, which the command line reads.
The same topology runs on a laptop without TLS, and in the test without Kafka.
"""

from streams import Materialized, Serdes, StreamsBuilder, json_serde

TEXT, JSON, NUMBER = Serdes.STRING, json_serde(), Serdes.LONG


def topology() -> StreamsBuilder:
    builder = StreamsBuilder()
    visits = builder.stream("visits", key_serde=TEXT, value_serde=JSON)
    by_page = visits.group_by(lambda _, visit: visit["page"], "by-page", key_serde=TEXT)
    counts = by_page.count(materialized=Materialized(name="visits-of-pages", key_serde=TEXT, value_serde=NUMBER))
    counts.to_stream().to("visits-of-pages", key_serde=TEXT, value_serde=NUMBER)
    return builder
