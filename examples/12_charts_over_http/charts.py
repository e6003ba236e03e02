"""Counts the plays of songs, and answers questions about them over HTTP at each of its workers."""

from streams import Consumed, KTable, Materialized, Serdes, StreamsBuilder, TimeWindows, run

settings = {
    "application.id": "charts",
    "default.key.serde": Serdes.STRING,
    "default.value.serde": Serdes.STRING,
    "http.listen": "127.0.0.1:8080",
}


def topology() -> StreamsBuilder:
    """Plays have the listener as key and the song as value."""
    builder = StreamsBuilder()
    plays = builder.stream("plays", Consumed(key_serde=Serdes.STRING, value_serde=Serdes.STRING))
    of_song = plays.group_by(lambda listener, song: song)
    counts: KTable[str, int] = of_song.count(materialized=Materialized(name="plays-by-song"))
    counts.to_stream().to("charts", value_serde=Serdes.LONG)
    of_song.windowed_by(TimeWindows.of_size_with_no_grace(3_600_000)).count(materialized="plays-by-hour")
    return builder


if __name__ == "__main__":
    run(topology, settings)
